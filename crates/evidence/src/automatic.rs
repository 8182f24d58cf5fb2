//! Bursts that incidents ask for by themselves: whether one may begin, and what is kept of it. Pure: what is known of
//! the process, and times, are values.

use std::cmp::Reverse;
use std::time::Duration;

use clr_evidence::allocations::{Allocations, Amount, Method};
use clr_evidence::burst::Window;
use clr_evidence::callers::Callers;
use clr_evidence::name::{Name, type_name};
use clr_evidence::threads::{Group, ThreadStacks};
use gc_rules::incident::{
    Finding, FoundAllocations, FoundAmount, FoundCaller, FoundCallers, FoundCensus, FoundSite, FoundStack, FoundStacks,
    FoundType, MOST_FOUND,
};
use gc_rules::rule::Evidence;

use super::burst::{BUFFER_MB, MAX_PINNED_FOR_VERBOSE, Question, SAMPLES_SINCE};

/// How long an incident waits for a moment in which a burst may begin; later, what it is about may be over.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// How long a service has no burst after one that did not end in its time: meanwhile others waited.
pub const AFTER_LATE: Duration = Duration::from_secs(60 * 60);
/// How long the end of an automatic burst may take: the names of a large program come within some seconds.
pub const END_WITHIN: Duration = Duration::from_secs(10);
/// From this share of its limit on, in percent, a heap is left alone.
const FULL_PERCENT: u64 = 95;
/// Frames of a stack that an incident has.
const MOST_FRAMES: usize = 8;

/// Whether incidents have bursts, and of which length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BurstOptions {
    /// If false, only people have them, with `gcwatch callers` and `gcwatch allocations`.
    pub enabled: bool,
    /// How long one lasts.
    pub time: Duration,
    /// How long a process is left alone after one.
    pub every: Duration,
}

impl Default for BurstOptions {
    fn default() -> Self {
        Self {
            enabled: false,
            time: Duration::from_secs(5),
            every: Duration::from_secs(30 * 60),
        }
    }
}

/// What is known of a process that an incident asks about. `None`: unknown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Condition {
    /// Its standing session is read.
    pub is_attached: bool,
    /// gcwatch has not read all that the process wrote.
    pub is_behind: bool,
    /// The first number of the runtime's version.
    pub major: Option<u32>,
    /// Bytes that the heap has committed, or has after a collection.
    pub heap: Option<u64>,
    /// What it may commit.
    pub heap_limit: Option<u64>,
    /// Bytes that its container uses.
    pub container: Option<u64>,
    /// What that may use.
    pub container_limit: Option<u64>,
    /// Pinned objects in the newest collection.
    pub pinned_objects: Option<u32>,
    /// Bytes of objects, and free space between them, after its newest collection.
    pub live: Option<u64>,
    /// It has the server collector.
    pub server: Option<bool>,
    /// It was compiled with NativeAOT.
    pub native_aot: Option<bool>,
    /// Bytes that the machine has for new memory.
    pub available: Option<u64>,
}

/// What is known of other bursts and dumps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Others {
    /// One runs on this host.
    pub is_one_running: bool,
    /// How long ago the newest one of this process began.
    pub of_process: Option<Duration>,
    /// How long ago the newest one of its service was that did not end in its time.
    pub late_of_service: Option<Duration>,
    /// gcwatch died during one of this process.
    pub was_fatal: bool,
}

impl Others {
    /// Why there is none for long. `what`: what gcwatch died in, if it did.
    pub(super) fn forbid(&self, what: &str) -> Option<String> {
        if self.was_fatal {
            return Some(format!("gcwatch was killed in the middle of a {what} of this process"));
        }
        let ago = self.late_of_service.filter(|ago| *ago < AFTER_LATE)?;
        Some(format!(
            "the last burst of this service, {} ago, did not end in its time, and took the turn of others",
            minutes(ago)
        ))
    }

    /// What there is to wait for. `what`: what may be running.
    pub(super) fn delay(&self, condition: &Condition, what: &str) -> Option<String> {
        let reasons = [
            (
                !condition.is_attached,
                "gcwatch does not read the process at present".to_owned(),
            ),
            (
                condition.is_behind,
                "gcwatch is behind with what the process writes".to_owned(),
            ),
            (self.is_one_running, format!("another {what} runs on this host")),
        ];
        reasons.into_iter().find_map(|(is_so, why)| is_so.then_some(why))
    }
}

/// Whether a burst begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// It does.
    Start(Question),
    /// Not now: this may pass.
    Wait(String),
    /// It does not: a clause that says why.
    Never(String),
}

/// Whether a burst that an incident asks for begins now. `evidence` is of [callers](Evidence::Callers),
/// [allocations](Evidence::Allocations) or [stacks](Evidence::Stacks).
pub fn decide(evidence: Evidence, condition: &Condition, others: Others, options: &BurstOptions) -> Decision {
    if let Some(why) = at_limit(condition) {
        return Decision::Never(why);
    }
    if let Some(why) = others.forbid("burst") {
        return Decision::Never(why);
    }
    if let Some(ago) = others.of_process.filter(|ago| *ago < options.every) {
        return Decision::Never(format!(
            "gcwatch sampled the process {} ago, and does so at most once in {} (evidence.burst_every)",
            minutes(ago),
            minutes(options.every)
        ));
    }
    let question = match question(evidence, condition) {
        Ok(question) => question,
        Err(why) => return Decision::Never(why),
    };
    match others.delay(condition, "burst") {
        Some(why) => Decision::Wait(why),
        None => Decision::Start(question),
    }
}

/// Which session the runtime is asked for, by its price.
fn question(evidence: Evidence, condition: &Condition) -> Result<Question, String> {
    match (evidence, condition.major, condition.pinned_objects) {
        (Evidence::Allocations, Some(major), _) if major >= SAMPLES_SINCE => Ok(Question::Allocations),
        (Evidence::Allocations, None, _) => Err("the version of its runtime is unknown".to_owned()),
        (Evidence::Allocations, Some(major), Some(pinned)) if pinned > MAX_PINNED_FOR_VERBOSE => Err(format!(
            ".NET {major} has it for a Verbose session only, of which each of the {pinned} pinned objects is an event of \
             every collection"
        )),
        (Evidence::Allocations, Some(major), None) => Err(format!(
            ".NET {major} has it for a Verbose session only, whose price is unknown before a collection was seen"
        )),
        (Evidence::Allocations, Some(_), Some(_)) => Ok(Question::Ticks { any_pins: false }),
        (Evidence::Stacks, ..) => Ok(Question::Stacks),
        _ => Ok(Question::Callers),
    }
}

/// Why a process has no memory for a burst.
fn at_limit(condition: &Condition) -> Option<String> {
    let mib = |bytes: u64| bytes >> 20;
    let heap = condition.heap.zip(condition.heap_limit);
    if let Some((heap, limit)) = heap.filter(|(heap, limit)| *heap >= part(*limit, FULL_PERCENT)) {
        return Some(format!(
            "the heap is at its limit ({} of {} MiB)",
            mib(heap),
            mib(limit)
        ));
    }
    let buffers = u64::from(BUFFER_MB) << 20;
    let container = condition.container.zip(condition.container_limit);
    let (used, limit) = container.filter(|(used, limit)| used.saturating_add(buffers) > *limit)?;
    Some(format!(
        "the container is at its limit ({} of {} MiB; the buffers of a burst may take {BUFFER_MB})",
        mib(used),
        mib(limit)
    ))
}

pub(super) fn part(whole: u64, percent: u64) -> u64 {
    u64::try_from(u128::from(whole) * u128::from(percent) / 100).unwrap_or(u64::MAX)
}

pub(super) fn minutes(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds => format!("{} min", seconds / 60),
    }
}

/// There was no burst, for this reason.
pub fn none(evidence: Evidence, because: String) -> Finding {
    match evidence {
        Evidence::Allocations => Finding::Allocations(FoundAllocations::none(because)),
        Evidence::Stacks => Finding::Stacks(FoundStacks::none(because)),
        Evidence::Census => Finding::Census(FoundCensus::none(because)),
        _ => Finding::Callers(FoundCallers::none(because)),
    }
}

/// What an incident has of a burst's callers.
pub fn callers(callers: &Callers, window: Window) -> Finding {
    let found = callers.callers.iter().take(MOST_FOUND).map(|caller| FoundCaller {
        api: caller.api.map(str::to_owned),
        site: text(caller.site.as_ref()),
        called_by: text(caller.called_by.as_ref()),
        reason: caller.reason.to_owned(),
        frames: frames(&caller.frames),
        collections: caller.collections,
        without_collection: caller.without_collection,
        stopped_ns: caller.stopped_ns,
    });
    Finding::Callers(FoundCallers {
        none_because: None,
        start_ns: window.start,
        end_ns: window.end,
        at: None,
        triggers: Some(callers.triggers),
        collections: Some(callers.collections),
        stopped_ns: callers.stopped_ns,
        unasked_stops: Some(callers.unasked_stops),
        callers: found.collect(),
    })
}

/// What an incident has of a burst's allocations.
pub fn allocations(allocations: &Allocations, window: Window) -> Finding {
    let types = allocations.types.iter().take(MOST_FOUND).map(|one| FoundType {
        r#type: one.name.clone(),
        amount: amount(&one.amount),
    });
    let sites = allocations.sites.iter().take(MOST_FOUND).map(|one| FoundSite {
        site: text(one.site.as_ref()),
        called_by: text(one.called_by.as_ref()),
        r#type: one.r#type.as_deref().map(type_name),
        frames: frames(&one.frames),
        amount: amount(&one.amount),
    });
    let method = match allocations.method {
        Method::Sampled => "sampled",
        Method::Tick => "tick",
    };
    Finding::Allocations(FoundAllocations {
        none_because: None,
        start_ns: window.start,
        end_ns: window.end,
        at: None,
        method: Some(method.to_owned()),
        total: Some(amount(&allocations.total)),
        types: types.collect(),
        sites: sites.collect(),
        flame: None,
    })
}

/// What an incident has of a burst's stacks.
pub fn stacks(threads: &ThreadStacks, window: Window) -> Finding {
    let mut groups: Vec<&Group> = threads.groups.iter().collect();
    let (finalizers, ran) = (
        |group: &Group| group.finalizer == Some(true),
        |group: &Group| group.managed_samples,
    );
    groups.sort_by_key(|group| Reverse((finalizers(group), ran(group), group.threads.len())));
    let knows = usize::from(groups.first().is_some_and(|group| finalizers(group)));
    let found = groups.into_iter().take(MOST_FOUND + knows).map(|group| FoundStack {
        threads: group.threads.len() as u64,
        finalizer: group.finalizer,
        site: text(group.site.as_ref()),
        frames: frames(&group.frames),
        samples: group.samples,
        all_samples: group.all_samples,
        managed_samples: group.managed_samples,
    });
    Finding::Stacks(FoundStacks {
        none_because: None,
        start_ns: window.start,
        end_ns: window.end,
        at: None,
        threads: Some(threads.groups.iter().map(|group| group.threads.len() as u64).sum()),
        knows_finalizer: threads.finalizer.is_some(),
        stacks: found.collect(),
    })
}

fn amount(amount: &Amount) -> FoundAmount {
    FoundAmount {
        estimate: amount.estimate,
        low: amount.low,
        high: amount.high,
        samples: amount.samples,
    }
}

fn frames(frames: &[Name]) -> Vec<String> {
    frames.iter().take(MOST_FRAMES).map(Name::to_string).collect()
}

fn text(name: Option<&Name>) -> Option<String> {
    name.map(Name::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn well(major: u32) -> Condition {
        Condition {
            is_attached: true,
            major: Some(major),
            pinned_objects: Some(10_000),
            heap: Some(94 * MIB),
            heap_limit: Some(100 * MIB),
            container: Some(100 * MIB),
            container_limit: Some(132 * MIB),
            ..Condition::default()
        }
    }

    fn on(evidence: Evidence, condition: &Condition, others: Others) -> Decision {
        decide(evidence, condition, others, &BurstOptions::default())
    }

    fn reason(decision: Decision) -> String {
        match decision {
            Decision::Never(why) => why,
            other => panic!("{other:?}"),
        }
    }

    /// Scenario: processes of .NET 8 and 10 that are well, just below every limit, and nothing else goes on.
    /// Guarantee: a burst begins, by chance where the runtime can do that, and never with any number of pins.
    #[test]
    fn a_process_that_is_well_is_asked() {
        let start = |evidence, major| on(evidence, &well(major), Others::default());
        assert_eq!(start(Evidence::Callers, 8), Decision::Start(Question::Callers));
        assert_eq!(start(Evidence::Allocations, 10), Decision::Start(Question::Allocations));
        let ticks = Question::Ticks { any_pins: false };
        assert_eq!(start(Evidence::Allocations, 9), Decision::Start(ticks));
        let unknown = Condition {
            is_attached: true,
            ..Condition::default()
        };
        let callers = on(Evidence::Callers, &unknown, Others::default());
        assert_eq!(callers, Decision::Start(Question::Callers));
    }

    /// Scenario: a heap at 95 % of its limit, a container without room for the buffers; whatever else holds.
    /// Guarantee: no burst, and the figures say why.
    #[test]
    fn a_process_at_its_limit_is_left_alone() {
        let mut full = well(10);
        full.heap = Some(95 * MIB);
        let why = reason(on(Evidence::Callers, &full, Others::default()));
        assert_eq!(why, "the heap is at its limit (95 of 100 MiB)");
        let mut full = well(10);
        full.container = Some(100 * MIB + 1);
        let why = reason(on(Evidence::Allocations, &full, Others::default()));
        assert!(
            why.starts_with("the container is at its limit (100 of 132 MiB"),
            "{why}"
        );
    }

    /// Scenario: a second burst of a process just before and after half an hour.
    /// Guarantee: only the later one begins.
    #[test]
    fn a_process_has_one_in_half_an_hour() {
        let after = |seconds| Others {
            of_process: Some(Duration::from_secs(seconds)),
            ..Others::default()
        };
        let why = reason(on(Evidence::Callers, &well(8), after(1799)));
        assert!(why.contains("29 min ago, and does so at most once in 30 min"), "{why}");
        assert!(matches!(
            on(Evidence::Callers, &well(8), after(1800)),
            Decision::Start(_)
        ));
    }

    /// Scenario: a service's last burst did not end in its time, just under and after an hour ago; gcwatch died during
    /// one of the process.
    /// Guarantee: there is none within the hour, and of that process never again.
    #[test]
    fn what_took_the_turn_of_others_has_none() {
        let late = |seconds| Others {
            late_of_service: Some(Duration::from_secs(seconds)),
            ..Others::default()
        };
        let why = reason(on(Evidence::Callers, &well(8), late(3599)));
        assert!(why.contains("59 min ago, did not end in its time"), "{why}");
        let later = on(Evidence::Callers, &well(8), late(3600));
        assert_eq!(later, Decision::Start(Question::Callers));
        let fatal = Others {
            was_fatal: true,
            ..Others::default()
        };
        let why = reason(on(Evidence::Callers, &well(8), fatal));
        assert!(why.contains("gcwatch was killed"), "{why}");
    }

    /// Scenario: Verbose work on .NET 8 with too many pinned objects, before any collection, and of an unknown runtime.
    /// Guarantee: refused with the reason; who makes it collect is asked all the same.
    #[test]
    fn a_price_that_is_high_or_unknown_is_not_paid() {
        for (major, pinned, text) in [
            (Some(8), Some(10_001), "each of the 10001 pinned objects"),
            (Some(8), None, "whose price is unknown"),
            (None, Some(0), "version of its runtime is unknown"),
        ] {
            let mut condition = well(8);
            (condition.major, condition.pinned_objects) = (major, pinned);
            let why = reason(on(Evidence::Allocations, &condition, Others::default()));
            assert!(why.contains(text), "{why}");
            let callers = on(Evidence::Callers, &condition, Others::default());
            assert_eq!(callers, Decision::Start(Question::Callers));
        }
    }

    /// Scenario: gcwatch is behind, the session is being begun, another burst runs.
    /// Guarantee: each is waited for.
    #[test]
    fn what_passes_is_waited_for() {
        let mut behind = well(10);
        behind.is_behind = true;
        let mut detached = well(10);
        detached.is_attached = false;
        let running = Others {
            is_one_running: true,
            ..Others::default()
        };
        for (condition, others) in [
            (behind, Others::default()),
            (detached, Others::default()),
            (well(10), running),
        ] {
            assert!(matches!(on(Evidence::Callers, &condition, others), Decision::Wait(_)));
        }
    }
}
