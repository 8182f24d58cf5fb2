//! The census requested by incidents of growing memory: two heap dumps, some minutes apart. The functions are pure:
//! facts about the process and times are arguments.
//!
//! ```text
//! incident with `evidence: [census]`                              `schedule` checks, each second
//!   -> decide(account, condition, history)   -> Wait | Never(why) | Take(buffer, stop)
//!        account    whether live objects grow: the ledger's account of growth
//!        condition  facts from the permanent session and the control group: space, limits, parts of the heap
//!        history    dumps of the service; facts about the first dump of this incident
//!   -> evidence::heap: session -> child (graph) -> survey                     first dump: `alone`, kept as `First`
//!   -> decide again, `apart` later                                             second dump: `compared`
//!   -> incidents::FoundCensus: record, log, notifications, page
//! ```
//!
//! The collection of a dump is recognized as gcwatch's own: the pipeline is notified of its start and end.

use std::time::Duration;

use clr_heap::cost::{Forecast, PreviousDump, ProcessEstimate, buffer_mb};
use clr_heap::diff::{Growth, diff};
use clr_heap::survey::{PathRow, RootRow, Survey, TypeRow, root_shown};
use incidents::{FoundCensus, FoundHolder, FoundKept, FoundLiving, MAX_LIVING};
use rule_engine::ledger::{Ledger, WORTH_SAYING};

use super::automatic::{Condition, OtherBursts, minutes, part};

/// Maximum time for which an incident waits until a dump can be taken. The cause of growth is known after one or two
/// minutes, and the growth continues.
pub const DUMP_WAIT_TIMEOUT: Duration = Duration::from_secs(5 * 60);
/// Maximum number of types on a path in an incident.
const MAX_STEPS: usize = 8;
/// Maximum number of characters in a name. Longer names are truncated.
const MAX_NAME: usize = 256;

/// Whether incidents request a census, and its limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CensusOptions {
    /// Whether incidents request heap dumps. If false, only users take heap dumps, with `gcwatch heap`.
    pub enabled: bool,
    /// Interval between the first and the second dump.
    pub apart: Duration,
    /// Minimum interval between the starts of two censuses of a service, each with two dumps.
    pub every: Duration,
    /// Maximum forecast suspension of one dump.
    pub most_stop: Duration,
    /// Multiple of the memory for a dump that must be free.
    pub room: u32,
    /// Distance from a limit below which no dump is taken, in percent of the limit.
    pub headroom_percent: u32,
}

impl Default for CensusOptions {
    fn default() -> Self {
        Self {
            enabled: false,
            apart: Duration::from_secs(5 * 60),
            every: Duration::from_secs(60 * 60),
            most_stop: Duration::from_secs(1),
            room: 2,
            headroom_percent: 10,
        }
    }
}

/// Earlier dumps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct History {
    /// The first dump of this incident: the time since its end, and its figures; `None` before the first dump.
    pub first: Option<(Duration, PreviousDump)>,
    /// Time since the start of the last census of the service; `None` before the first census.
    pub of_service: Option<Duration>,
}

/// Decision about a dump.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// The dump is taken.
    Take(Plan),
    /// The time of the second dump has not come. The delay does not count as waiting.
    Later,
    /// The dump must wait, for a temporary reason.
    Wait(String),
    /// There will be no dump, with the reason as a clause.
    Never(String),
}

/// The parameters of an affordable dump.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// Size of the runtime's buffer, in megabytes. Events that do not fit are dropped, and the dump is then refused.
    pub buffer_mb: u32,
    /// Number of live bytes.
    pub live_bytes: u64,
}

/// Decides whether a dump requested by an incident is taken now. `account` is the ledger of the incident's process, or
/// `None` if the ledger does not exist yet. Growth is required only for the first dump; the limits and the checks for
/// failed bursts apply to both dumps.
pub fn decide(
    account: Option<&Ledger>,
    condition: &Condition,
    others: OtherBursts,
    history: &History,
    options: &CensusOptions,
) -> Decision {
    if history.first.is_some_and(|(ago, _)| ago < options.apart) {
        return Decision::Later;
    }
    if let Some(why) = never(condition, others, history, options) {
        return Decision::Never(why);
    }
    if history.first.is_none() {
        match grows(account) {
            Ok(()) => {}
            Err(why) => return Decision::Wait(why),
        }
    }
    let live_bytes = match condition.live {
        Some(live) if live > 0 => live,
        _ => return Decision::Wait("the size of the heap is unknown before the first collection".to_owned()),
    };
    let plan = match afford(live_bytes, condition, history, options) {
        Ok(plan) => plan,
        Err(why) => return Decision::Never(why),
    };
    match others.delay(condition, "burst or dump") {
        Some(why) => Decision::Wait(why),
        None => Decision::Take(plan),
    }
}

/// Returns a reason that is not temporary, or `None` if there is no such reason.
fn never(condition: &Condition, others: OtherBursts, history: &History, options: &CensusOptions) -> Option<String> {
    if condition.native_aot == Some(true) {
        return Some("it was compiled with NativeAOT, whose runtime has no heap dumps".to_owned());
    }
    if let Some(why) = others.forbid("burst or dump") {
        return Some(why);
    }
    let ago = history.of_service.filter(|ago| *ago < options.every);
    if let Some(ago) = ago.filter(|_| history.first.is_none()) {
        return Some(format!(
            "the last census of this service was {} ago, and there is at most one in {} (evidence.census_every)",
            minutes(ago),
            minutes(options.every)
        ));
    }
    near(condition, options)
}

/// Returns the limit that the process has almost reached, as a clause; `None` if no known limit is near.
fn near(condition: &Condition, options: &CensusOptions) -> Option<String> {
    let kinds = [
        ("heap", condition.heap, condition.heap_limit),
        ("container", condition.container, condition.container_limit),
    ];
    kinds.into_iter().find_map(|(what, used, limit)| {
        let (used, limit) = used.zip(limit)?;
        let kept = part(limit, options.headroom_percent.into());
        (used >= limit.saturating_sub(kept)).then(|| {
            format!(
                "the {what} is within {} % of its limit ({} of {} MiB; evidence.census_headroom_percent)",
                options.headroom_percent,
                used >> 20,
                limit >> 20
            )
        })
    })
}

/// Checks that live objects grow, and that no other kind of memory grows more. Old objects that no full collection has
/// examined count as live, because the dump examines them. The error is the reason to wait.
fn grows(account: Option<&Ledger>) -> Result<(), String> {
    let growth = account.map(|ledger| ledger.growth).unwrap_or_default();
    let objects = match (growth.live, growth.not_looked_at) {
        (None, None) => return Err("the growth of the memory is unknown".to_owned()),
        (live, old) => live.unwrap_or(0).saturating_add(old.unwrap_or(0)),
    };
    let others = [
        ("free space between objects", growth.free),
        ("memory that the collector keeps", growth.committed_unused),
        ("the collector's tables", growth.bookkeeping),
        ("native memory", growth.native),
        ("other processes of the container", growth.other_processes),
        ("files in memory", growth.files_in_memory),
        ("the page cache", growth.page_cache),
        ("the kernel's memory", growth.kernel),
        ("the kernel's reclaimable memory", growth.kernel_reclaimable),
        ("memory that no line explains", growth.unknown),
    ];
    let most = others
        .into_iter()
        .filter_map(|(name, bytes)| Some((bytes?, name)))
        .max();
    match most {
        Some((bytes, name)) if bytes > objects && bytes >= WORTH_SAYING => {
            Err(format!("the largest growth is in {name}, not in live objects"))
        }
        _ if objects < WORTH_SAYING => Err("live objects do not grow".to_owned()),
        _ => Ok(()),
    }
}

/// Returns the plan of a dump if its cost is within the limits, otherwise the reason against the dump.
fn afford(live_bytes: u64, condition: &Condition, history: &History, options: &CensusOptions) -> Result<Plan, String> {
    let known = ProcessEstimate {
        live_bytes,
        server: condition.server,
        collects_twice: condition.major.is_none_or(|major| major < 10),
    };
    let forecast = match history.first {
        Some((_, seen)) => known.after(seen),
        None => known.forecast(),
    };
    let stop = Duration::from_nanos(forecast.stop_ns.high);
    if stop > options.most_stop {
        return Err(format!(
            "a dump might stop the process for {:.1} s{} ({} MiB live), but the limit is {:.1} s \
             (evidence.census_max_stop)",
            stop.as_secs_f64(),
            if forecast.stops > 1 { ", twice" } else { "" },
            live_bytes >> 20,
            options.most_stop.as_secs_f64()
        ));
    }
    let needs = needs(&forecast, live_bytes, history);
    let of_container = condition.container_limit.zip(condition.container);
    let of_container = of_container.map(|(limit, used)| limit.saturating_sub(used));
    let free = [of_container, condition.available].into_iter().flatten().min();
    let Some(free) = free else {
        return Err("the amount of free memory is unknown".to_owned());
    };
    let room = u64::from(options.room.max(1));
    if needs.saturating_mul(room) > free {
        return Err(format!(
            "a dump takes about {} MiB in addition to the heap; {room} times that must be free, but only {} MiB are \
             (evidence.census_room)",
            needs >> 20,
            free >> 20
        ));
    }
    let buffer = forecast.buffer_bytes.min(free / room) >> 20;
    Ok(Plan {
        buffer_mb: u32::try_from(buffer).unwrap_or(u32::MAX).clamp(1, 1 << 16),
        live_bytes,
    })
}

/// Returns the bytes that a dump takes. For the first dump, this is usually the size of the heap.
fn needs(forecast: &Forecast, live_bytes: u64, history: &History) -> u64 {
    match history.first {
        Some(_) => forecast.buffer_bytes,
        None => buffer_mb(live_bytes) << 20,
    }
}

/// The first dump of an incident, kept until the second dump.
#[derive(Debug, Clone)]
pub struct First {
    survey: Survey,
    /// Figures of the dump.
    pub seen: PreviousDump,
}

impl First {
    /// Keeps the parts that a comparison needs. `live_bytes` is the number of live bytes known before the dump.
    pub fn from_survey(mut survey: Survey, live_bytes: u64) -> Self {
        survey.shorten();
        survey.paths = Vec::new();
        survey.suspects = Vec::new();
        let longest = survey.heap.stopped_ns.iter().max().copied();
        let seen = PreviousDump {
            live_bytes,
            objects: survey.heap.objects,
            stop_ns: longest.and_then(|stop| u64::try_from(stop).ok()),
            stream_bytes: survey.heap.stream_bytes,
        };
        Self { survey, seen }
    }
}

/// Returns the finding from the first dump: the types and roots that retain most.
pub fn alone(survey: &Survey) -> FoundCensus {
    let types = survey.types.iter().take(MAX_LIVING);
    let roots = survey.roots.iter().take(MAX_LIVING);
    FoundCensus {
        types: types.map(|row| living(row, survey, None)).collect(),
        roots: roots.map(|row| holder(row, None)).collect(),
        ..head(survey)
    }
}

/// Returns the finding from both dumps: the types and roots that grew.
pub fn compared(first: &First, survey: &Survey, apart: Duration) -> FoundCensus {
    let growth = diff(&first.survey, survey);
    let grew = |one: &&Growth| one.retained.max(one.bytes) > Some(0);
    let types = growth.iter().filter(grew).filter_map(|one| {
        let name = one.r#type.as_deref()?;
        let of_name = survey.types.iter().filter(|row| row.r#type == name);
        // Two nested types can have the same name. The type with enough objects for the growth is selected.
        let row = of_name.max_by_key(|row| i64::try_from(row.objects).is_ok_and(|objects| objects >= one.objects))?;
        Some(living(row, survey, Some(one)))
    });
    let roots = growth.iter().filter(grew).filter_map(|one| {
        let name = one.root.as_deref()?;
        let shown = |row: &&RootRow| root_shown(row.root_kind, row.name.as_deref().unwrap_or_default()) == name;
        Some(holder(survey.roots.iter().find(shown)?, Some(one)))
    });
    let mut stopped_ns = first.survey.heap.stopped_ns.clone();
    let found = head(survey);
    stopped_ns.extend(&found.stopped_ns);
    let bytes = |survey: &Survey| i64::try_from(survey.heap.bytes).unwrap_or(i64::MAX);
    FoundCensus {
        apart_s: Some(apart.as_secs()),
        stopped_ns,
        grown_bytes: Some(bytes(survey).saturating_sub(bytes(&first.survey))),
        types: types.take(MAX_LIVING).collect(),
        roots: roots.take(MAX_LIVING).collect(),
        ..found
    }
}

/// Returns a finding with the totals.
fn head(survey: &Survey) -> FoundCensus {
    let heap = &survey.heap;
    FoundCensus {
        at: heap.at.clone(),
        stopped_ns: heap.stopped_ns.clone(),
        objects: Some(heap.objects),
        bytes: Some(heap.bytes),
        no_graph_because: heap.reason.clone(),
        kept_by: survey.roots.iter().take(MAX_LIVING).map(kept).collect(),
        ..FoundCensus::default()
    }
}

fn living(row: &TypeRow, survey: &Survey, growth: Option<&Growth>) -> FoundLiving {
    // The paths are sorted by bytes, largest first.
    let way = survey.paths.iter().find(|path| path.r#type == row.r#type);
    FoundLiving {
        r#type: short(&row.r#type),
        objects: row.objects,
        bytes: row.bytes,
        retained: row.retained,
        grown_objects: growth.map(|one| one.objects),
        grown_bytes: growth.and_then(|one| one.bytes),
        grown_retained: growth.and_then(|one| one.retained),
        root: way.map(|way| short(&way.root)),
        path: way.map(steps).unwrap_or_default(),
    }
}

/// Returns the end of a long path, which is the most informative part.
fn steps(way: &PathRow) -> Vec<String> {
    let long = way.path.len().saturating_sub(MAX_STEPS);
    way.path.iter().skip(long).map(|name| short(name)).collect()
}

fn holder(row: &RootRow, growth: Option<&Growth>) -> FoundHolder {
    FoundHolder {
        root: short(&root_shown(row.root_kind, row.name.as_deref().unwrap_or_default())),
        objects: row.objects,
        retained: row.retained,
        reached: row.reached,
        grown_retained: growth.and_then(|one| one.retained),
        grown_reached: growth.and_then(|one| one.bytes),
    }
}

fn kept(row: &RootRow) -> FoundKept {
    FoundKept {
        root: short(&root_shown(row.root_kind, row.name.as_deref().unwrap_or_default())),
        retained: row.retained,
    }
}

fn short(name: &str) -> String {
    if name.chars().count() <= MAX_NAME {
        return name.to_owned();
    }
    let mut short: String = name.chars().take(MAX_NAME - 3).collect();
    short.push_str("...");
    short
}

#[cfg(test)]
mod tests {
    use super::*;
    use clr_heap::reading::Holder;
    use clr_heap::survey::Heap;
    use rule_engine::ledger::Growth as Lines;

    const MIB: u64 = 1 << 20;

    fn leaks() -> Ledger {
        Ledger {
            growth: Lines {
                live: Some(4 * MIB as i64),
                not_looked_at: Some(8 * MIB as i64),
                native: Some(MIB as i64),
                ..Lines::default()
            },
            ..Ledger::default()
        }
    }

    /// Returns the condition of a heap of 100 MiB in a container with enough space.
    fn well() -> Condition {
        Condition {
            is_attached: true,
            major: Some(10),
            server: Some(false),
            live: Some(100 * MIB),
            heap: Some(120 * MIB),
            container: Some(200 * MIB),
            container_limit: Some(1024 * MIB),
            available: Some(4096 * MIB),
            ..Condition::default()
        }
    }

    fn ask(account: &Ledger, condition: &Condition, history: History) -> Decision {
        let options = CensusOptions::default();
        decide(Some(account), condition, OtherBursts::default(), &history, &options)
    }

    /// Returns the decision about a leak before its first dump.
    fn beside(condition: &Condition, others: OtherBursts) -> Decision {
        let options = CensusOptions::default();
        decide(Some(&leaks()), condition, others, &History::default(), &options)
    }

    fn refused(decision: Decision) -> String {
        match decision {
            Decision::Never(why) => why,
            other => panic!("{other:?}"),
        }
    }

    fn waits(decision: Decision) -> String {
        match decision {
            Decision::Wait(why) => why,
            other => panic!("{other:?}"),
        }
    }

    /// Scenario: live objects grow in a healthy process.
    /// Guarantee: a dump is taken, with a buffer of at most half of the free memory.
    #[test]
    fn leak_with_free_memory_is_dumped() {
        let Decision::Take(plan) = ask(&leaks(), &well(), History::default()) else {
            panic!()
        };
        assert!((100..=412).contains(&plan.buffer_mb), "{plan:?}");
        let mut tight = well();
        tight.container = Some(1024 * MIB - 240 * MIB);
        let Decision::Take(plan) = ask(&leaks(), &tight, History::default()) else {
            panic!()
        };
        assert_eq!(plan.buffer_mb, 120);
    }

    /// Scenario: native memory grows most, or no memory grows, or the growth or the heap size is unknown.
    /// Guarantee: the dump waits, and the reason names the memory that grows or the unknown value.
    #[test]
    fn only_growing_objects_are_dumped() {
        let mut native = leaks();
        native.growth.native = Some(13 * MIB as i64);
        let why = waits(ask(&native, &well(), History::default()));
        assert_eq!(why, "the largest growth is in native memory, not in live objects");
        let mut still = leaks();
        (still.growth.live, still.growth.not_looked_at) = (Some(0), None);
        still.growth.native = Some(0);
        assert_eq!(
            waits(ask(&still, &well(), History::default())),
            "live objects do not grow"
        );
        let unknown = waits(ask(&Ledger::default(), &well(), History::default()));
        assert_eq!(unknown, "the growth of the memory is unknown");
        let options = CensusOptions::default();
        let decision = decide(None, &well(), OtherBursts::default(), &History::default(), &options);
        assert_eq!(waits(decision), unknown);
        let mut young = well();
        young.live = None;
        assert!(waits(ask(&leaks(), &young, History::default())).contains("before the first collection"));
    }

    /// Scenario: a container is just outside and just within 10 % of its limit, and a heap is within 10 % of its limit.
    /// Guarantee: no dump is taken within 10 %, and the reason contains the figures.
    #[test]
    fn no_dump_is_taken_near_limit() {
        let mut full = well();
        (full.live, full.container, full.container_limit) = (Some(20 * MIB), Some(899 * MIB), Some(1000 * MIB));
        assert!(matches!(ask(&leaks(), &full, History::default()), Decision::Take(_)));
        full.container = Some(900 * MIB);
        let why = refused(ask(&leaks(), &full, History::default()));
        assert!(
            why.starts_with("the container is within 10 % of its limit (900 of 1000 MiB"),
            "{why}"
        );
        let mut full = well();
        (full.heap, full.heap_limit) = (Some(180 * MIB), Some(200 * MIB));
        let why = refused(ask(&leaks(), &full, History::default()));
        assert!(why.starts_with("the heap is within 10 %"), "{why}");
    }

    /// Scenario: a dump can stop the process for longer than a second, on .NET 8 twice; the buffer of another dump fits
    /// once, but not twice; the free memory of a machine is unknown.
    /// Guarantee: no dump is taken in any case. Each reason contains the cost, or states that the free memory is
    /// unknown.
    #[test]
    fn dump_above_limits_is_refused() {
        let mut large = well();
        (large.live, large.container_limit, large.major) = (Some(400 * MIB), Some(8192 * MIB), Some(8));
        let why = refused(ask(&leaks(), &large, History::default()));
        assert!(
            why.contains("might stop the process for 1.6 s, twice (400 MiB live)"),
            "{why}"
        );
        let mut tight = well();
        tight.container = Some(824 * MIB);
        let why = refused(ask(&leaks(), &tight, History::default()));
        assert!(
            why.contains("takes about 117 MiB") && why.contains("2 times that must be free, but only 200 MiB are"),
            "{why}"
        );
        let mut blind = well();
        (blind.container_limit, blind.available) = (None, None);
        assert!(refused(ask(&leaks(), &blind, History::default())).contains("is unknown"));
    }

    /// Scenario: the second dump is requested 299 s and 300 s after the first dump, while the growth is unknown. The
    /// heap has doubled since the first dump, whose suspension was short or long.
    /// Guarantee: the dump is taken after 300 s, independent of growth. The forecast is based on the cost of the first
    /// dump, and a dump whose forecast is too high is refused.
    #[test]
    fn second_dump_is_taken_later() {
        let first = |seconds: u64, stop_ms: u64| History {
            first: Some((
                Duration::from_secs(seconds),
                PreviousDump {
                    live_bytes: 50 * MIB,
                    objects: 700_000,
                    stop_ns: Some(stop_ms * 1_000_000),
                    stream_bytes: 50 * MIB,
                },
            )),
            of_service: Some(Duration::from_secs(seconds)),
        };
        assert_eq!(ask(&Ledger::default(), &well(), first(299, 100)), Decision::Later);
        assert!(matches!(
            ask(&Ledger::default(), &well(), first(300, 100)),
            Decision::Take(_)
        ));
        let why = refused(ask(&leaks(), &well(), first(300, 400)));
        assert!(why.contains("might stop the process for 1.0 s"), "{why}");
    }

    /// Scenario: another census of the service started 59 or 60 minutes ago; a burst of the service was late; gcwatch
    /// died during a dump; the program uses NativeAOT.
    /// Guarantee: there is at most one census per hour, and no census in the other cases.
    #[test]
    fn service_has_one_census_per_hour() {
        let ago = |minutes: u64| History {
            of_service: Some(Duration::from_secs(minutes * 60)),
            ..History::default()
        };
        let why = refused(ask(&leaks(), &well(), ago(59)));
        assert!(why.contains("59 min ago, and there is at most one in 60 min"), "{why}");
        assert!(matches!(ask(&leaks(), &well(), ago(60)), Decision::Take(_)));
        let late = OtherBursts {
            late_of_service: Some(Duration::from_secs(60)),
            ..OtherBursts::default()
        };
        assert!(refused(beside(&well(), late)).contains("did not finish in time"));
        let fatal = OtherBursts {
            was_fatal: true,
            ..OtherBursts::default()
        };
        assert!(refused(beside(&well(), fatal)).contains("gcwatch was killed"));
        let mut native = well();
        native.native_aot = Some(true);
        assert!(refused(ask(&leaks(), &native, History::default())).contains("NativeAOT"));
    }

    /// Scenario: gcwatch is behind, the session is being started, or a burst runs.
    /// Guarantee: the dump waits in each case.
    #[test]
    fn dump_waits_for_temporary_obstacles() {
        let (mut behind, mut detached) = (well(), well());
        (behind.is_behind, detached.is_attached) = (true, false);
        let running = OtherBursts {
            is_one_running: true,
            ..OtherBursts::default()
        };
        for (condition, others) in [
            (behind, OtherBursts::default()),
            (detached, OtherBursts::default()),
            (well(), running),
        ] {
            waits(beside(&condition, others));
        }
    }

    fn survey(leaked: u64) -> Survey {
        let row = |name: &str, type_id, objects, retained| TypeRow {
            r#type: name.to_owned(),
            raw_type: name.to_owned(),
            type_id,
            module: 1,
            objects,
            bytes: objects * 32,
            retained: Some(retained),
        };
        Survey {
            heap: Heap {
                pid: Some(7),
                objects: leaked + 10,
                bytes: leaked * 32 + 320,
                method: "graph".to_owned(),
                stopped_ns: vec![5_000_000],
                stream_bytes: leaked * 44,
                ..Heap::default()
            },
            types: vec![row("Leaked", 1, leaked, leaked * 64), row("Still", 2, 10, 320)],
            roots: vec![RootRow {
                root_kind: Holder::Static,
                name: Some("entries".to_owned()),
                roots: 1,
                objects: leaked,
                retained: leaked * 64,
                reached: leaked * 64,
            }],
            paths: vec![PathRow {
                r#type: "Leaked".to_owned(),
                root: "static entries".to_owned(),
                path: vec!["List<Leaked>".to_owned(), "Leaked[]".to_owned(), "Leaked".to_owned()],
                objects: leaked,
                bytes: leaked * 32,
            }],
            ..Survey::default()
        }
    }

    /// Scenario: a type leaks between two dumps, and another type does not grow.
    /// Guarantee: the first dump shows the live types; both dumps show the type that grew, by how much, and its holder,
    /// but not the type that did not grow; all suspensions are included.
    #[test]
    fn leak_is_found_with_holder() {
        let found = alone(&survey(1_000));
        assert_eq!((found.types.len(), found.roots.len(), found.is_final()), (2, 1, false));
        assert_eq!(found.types[0].root.as_deref(), Some("static entries"));
        assert_eq!(found.kept_by[0].retained, 64_000);
        let first = First::from_survey(survey(1_000), 64_000);
        assert_eq!((first.seen.stop_ns, first.seen.stream_bytes), (Some(5_000_000), 44_000));
        let found = compared(&first, &survey(5_000), Duration::from_secs(300));
        assert_eq!((found.types.len(), found.roots.len(), found.is_final()), (1, 1, true));
        let leaked = &found.types[0];
        assert_eq!((leaked.objects, leaked.grown_objects), (5_000, Some(4_000)));
        assert_eq!(leaked.grown_retained, Some(4_000 * 64));
        assert_eq!(leaked.path.last().unwrap(), "Leaked");
        assert_eq!(found.roots[0].root, "static entries");
        assert_eq!(found.roots[0].grown_reached, Some(4_000 * 64));
        assert_eq!(found.stopped_ns, [5_000_000, 5_000_000]);
        assert_eq!(found.grown_bytes, Some(4_000 * 32));
    }
}
