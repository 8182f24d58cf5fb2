//! Decides whether a burst requested by an incident starts, and which results of the burst are kept. Pure: facts about
//! the process and times are values.

use std::cmp::Reverse;
use std::time::Duration;

use clr_evidence::allocations::{Allocations, Amount, Method};
use clr_evidence::burst::Window;
use clr_evidence::callers::Callers;
use clr_evidence::name::{Name, type_name};
use clr_evidence::threads::{Group, ThreadStacks};
use incidents::{
    Finding, FoundAllocations, FoundAmount, FoundCaller, FoundCallers, FoundCensus, FoundSite, FoundStack, FoundStacks,
    FoundType, MAX_FOUND,
};
use rule_engine::rule::Evidence;

use super::burst::{BUFFER_MB, MAX_PINNED_FOR_VERBOSE, Question, SAMPLES_SINCE};

/// Maximum time for which an incident waits until a burst can start. After this time, the problem can have ended.
pub const BURST_WAIT_TIMEOUT: Duration = Duration::from_secs(60);
/// Time without bursts and dumps of a service after a burst or dump of the service that did not finish in time, because
/// the late burst or dump delayed others.
pub const AFTER_LATE: Duration = Duration::from_secs(60 * 60);
/// Timeout for the end of an automatic burst. The names of a large program arrive within a few seconds.
pub const END_TIMEOUT: Duration = Duration::from_secs(10);
/// Share of its limit, in percent, at which a heap is no longer sampled.
const FULL_PERCENT: u64 = 95;
/// Maximum number of stack frames in an incident.
const MAX_FRAMES: usize = 8;

/// Whether incidents request bursts, and their length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BurstOptions {
    /// Whether incidents request bursts. If false, only users start bursts, with `gcwatch callers` and `gcwatch
    /// allocations`.
    pub enabled: bool,
    /// Duration of a burst.
    pub time: Duration,
    /// Minimum interval between bursts of a process.
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

/// Facts about a process for which an incident requests evidence. An optional field is `None` if unknown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Condition {
    /// Whether gcwatch reads the permanent session of the process.
    pub is_attached: bool,
    /// Whether gcwatch has not yet read everything that the process has written.
    pub is_behind: bool,
    /// Major version of the runtime.
    pub major: Option<u32>,
    /// Bytes committed by the heap, or its size after a collection.
    pub heap: Option<u64>,
    /// Maximum number of bytes that the heap can commit.
    pub heap_limit: Option<u64>,
    /// Bytes used by the container.
    pub container: Option<u64>,
    /// Memory limit of the container, in bytes.
    pub container_limit: Option<u64>,
    /// Number of pinned objects in the last collection.
    pub pinned_objects: Option<u32>,
    /// Bytes of objects, and of free space between objects, after the last collection.
    pub live: Option<u64>,
    /// Whether the process uses server GC.
    pub server: Option<bool>,
    /// Whether the program was compiled with NativeAOT.
    pub native_aot: Option<bool>,
    /// Bytes of memory available on the machine.
    pub available: Option<u64>,
}

/// Other bursts and dumps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OtherBursts {
    /// Whether a burst or dump is running on this host.
    pub is_one_running: bool,
    /// Time since the start of the last burst or dump of this process; `None` before the first.
    pub of_process: Option<Duration>,
    /// Time since the last burst or dump of the service that did not finish in time.
    pub late_of_service: Option<Duration>,
    /// Whether gcwatch died during a burst or dump of this process.
    pub was_fatal: bool,
}

impl OtherBursts {
    /// Returns the reason why no burst or dump starts for a long time, or `None` if there is no such reason. `what`
    /// names the operation in the reason.
    pub(super) fn forbid(&self, what: &str) -> Option<String> {
        if self.was_fatal {
            return Some(format!("gcwatch was killed during a {what} of this process"));
        }
        let ago = self.late_of_service.filter(|ago| *ago < AFTER_LATE)?;
        Some(format!(
            "the last burst of this service, {} ago, did not finish in time and delayed other bursts",
            minutes(ago)
        ))
    }

    /// Returns the reason to wait, or `None` if there is no such reason. `what` names the operation that can be
    /// running.
    pub(super) fn delay(&self, condition: &Condition, what: &str) -> Option<String> {
        let reasons = [
            (
                !condition.is_attached,
                "gcwatch does not currently read the process".to_owned(),
            ),
            (
                condition.is_behind,
                "gcwatch is behind in reading the process".to_owned(),
            ),
            (self.is_one_running, format!("another {what} runs on this host")),
        ];
        reasons.into_iter().find_map(|(is_so, why)| is_so.then_some(why))
    }
}

/// Decision about a burst.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// The burst starts.
    Start(Question),
    /// The burst must wait, for a temporary reason.
    Wait(String),
    /// There will be no burst, with the reason as a clause.
    Never(String),
}

/// Decides whether a burst requested by an incident starts now. `evidence` is [callers](Evidence::Callers),
/// [allocations](Evidence::Allocations) or [stacks](Evidence::Stacks).
pub fn decide(evidence: Evidence, condition: &Condition, others: OtherBursts, options: &BurstOptions) -> Decision {
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

/// Selects the session to request. The error is the reason why the cost of the session is too high or unknown.
fn question(evidence: Evidence, condition: &Condition) -> Result<Question, String> {
    match (evidence, condition.major, condition.pinned_objects) {
        (Evidence::Allocations, Some(major), _) if major >= SAMPLES_SINCE => Ok(Question::Allocations),
        (Evidence::Allocations, None, _) => Err("the version of the runtime is unknown".to_owned()),
        (Evidence::Allocations, Some(major), Some(pinned)) if pinned > MAX_PINNED_FOR_VERBOSE => Err(format!(
            ".NET {major} reports allocations only in Verbose sessions, where each of the {pinned} pinned objects is \
             an event in every collection"
        )),
        (Evidence::Allocations, Some(major), None) => Err(format!(
            ".NET {major} reports allocations only in Verbose sessions, whose cost is unknown before a collection"
        )),
        (Evidence::Allocations, Some(_), Some(_)) => Ok(Question::Ticks { any_pins: false }),
        (Evidence::Stacks, ..) => Ok(Question::Stacks),
        _ => Ok(Question::Callers),
    }
}

/// Returns the reason why a process has no memory for a burst, or `None` if no limit is known to be near.
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
        "the container is at its limit ({} of {} MiB; the buffers of a burst can take {BUFFER_MB})",
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

/// Returns a finding that contains only the reason why no burst or dump was made.
pub fn none(evidence: Evidence, because: String) -> Finding {
    match evidence {
        Evidence::Allocations => Finding::Allocations(FoundAllocations::none(because)),
        Evidence::Stacks => Finding::Stacks(FoundStacks::none(because)),
        Evidence::Census => Finding::Census(FoundCensus::none(because)),
        _ => Finding::Callers(FoundCallers::none(because)),
    }
}

/// Converts the callers of a burst to the finding of an incident.
pub fn callers(callers: &Callers, window: Window) -> Finding {
    let found = callers.callers.iter().take(MAX_FOUND).map(|caller| FoundCaller {
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

/// Converts the allocations of a burst to the finding of an incident.
pub fn allocations(allocations: &Allocations, window: Window) -> Finding {
    let types = allocations.types.iter().take(MAX_FOUND).map(|one| FoundType {
        r#type: one.name.clone(),
        amount: amount(&one.amount),
    });
    let sites = allocations.sites.iter().take(MAX_FOUND).map(|one| FoundSite {
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

/// Converts the stacks of a burst to the finding of an incident.
pub fn stacks(threads: &ThreadStacks, window: Window) -> Finding {
    let mut groups: Vec<&Group> = threads.groups.iter().collect();
    let (finalizers, ran) = (
        |group: &Group| group.finalizer == Some(true),
        |group: &Group| group.managed_samples,
    );
    groups.sort_by_key(|group| Reverse((finalizers(group), ran(group), group.threads.len())));
    let knows = usize::from(groups.first().is_some_and(|group| finalizers(group)));
    let found = groups.into_iter().take(MAX_FOUND + knows).map(|group| FoundStack {
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
    frames.iter().take(MAX_FRAMES).map(Name::to_string).collect()
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

    fn on(evidence: Evidence, condition: &Condition, others: OtherBursts) -> Decision {
        decide(evidence, condition, others, &BurstOptions::default())
    }

    fn reason(decision: Decision) -> String {
        match decision {
            Decision::Never(why) => why,
            other => panic!("{other:?}"),
        }
    }

    /// Scenario: healthy processes of .NET 8, 9 and 10 are just below every limit. Another process is attached, but its
    /// version and limits are unknown. No other burst runs.
    /// Guarantee: a burst starts, with random sampling if the runtime supports it, and never with an unlimited number
    /// of pins.
    #[test]
    fn healthy_process_is_sampled() {
        let start = |evidence, major| on(evidence, &well(major), OtherBursts::default());
        assert_eq!(start(Evidence::Callers, 8), Decision::Start(Question::Callers));
        assert_eq!(start(Evidence::Allocations, 10), Decision::Start(Question::Allocations));
        let ticks = Question::Ticks { any_pins: false };
        assert_eq!(start(Evidence::Allocations, 9), Decision::Start(ticks));
        let unknown = Condition {
            is_attached: true,
            ..Condition::default()
        };
        let callers = on(Evidence::Callers, &unknown, OtherBursts::default());
        assert_eq!(callers, Decision::Start(Question::Callers));
    }

    /// Scenario: a heap is at 95 % of its limit; a container has no space for the buffers.
    /// Guarantee: no burst starts, and the reason contains the figures.
    #[test]
    fn process_at_limit_is_not_sampled() {
        let mut full = well(10);
        full.heap = Some(95 * MIB);
        let why = reason(on(Evidence::Callers, &full, OtherBursts::default()));
        assert_eq!(why, "the heap is at its limit (95 of 100 MiB)");
        let mut full = well(10);
        full.container = Some(100 * MIB + 1);
        let why = reason(on(Evidence::Allocations, &full, OtherBursts::default()));
        assert!(
            why.starts_with("the container is at its limit (100 of 132 MiB"),
            "{why}"
        );
    }

    /// Scenario: a second burst of a process is requested just before and after 30 minutes.
    /// Guarantee: only the later burst starts.
    #[test]
    fn process_is_sampled_once_per_interval() {
        let after = |seconds| OtherBursts {
            of_process: Some(Duration::from_secs(seconds)),
            ..OtherBursts::default()
        };
        let why = reason(on(Evidence::Callers, &well(8), after(1799)));
        assert!(why.contains("29 min ago, and does so at most once in 30 min"), "{why}");
        assert!(matches!(
            on(Evidence::Callers, &well(8), after(1800)),
            Decision::Start(_)
        ));
    }

    /// Scenario: the last burst of a service did not finish in time, just less than an hour ago and an hour ago;
    /// gcwatch died during a burst of the process.
    /// Guarantee: no burst of the service starts within the hour, and no burst starts for the process during whose
    /// burst gcwatch died.
    #[test]
    fn late_or_fatal_burst_prevents_next() {
        let late = |seconds| OtherBursts {
            late_of_service: Some(Duration::from_secs(seconds)),
            ..OtherBursts::default()
        };
        let why = reason(on(Evidence::Callers, &well(8), late(3599)));
        assert!(why.contains("59 min ago, did not finish in time"), "{why}");
        let later = on(Evidence::Callers, &well(8), late(3600));
        assert_eq!(later, Decision::Start(Question::Callers));
        let fatal = OtherBursts {
            was_fatal: true,
            ..OtherBursts::default()
        };
        let why = reason(on(Evidence::Callers, &well(8), fatal));
        assert!(why.contains("gcwatch was killed"), "{why}");
    }

    /// Scenario: allocations are requested on .NET 8 with too many pinned objects, before any collection, and from an
    /// unknown runtime.
    /// Guarantee: the burst is refused with the reason; a burst for callers starts anyway.
    #[test]
    fn high_or_unknown_cost_is_refused() {
        for (major, pinned, text) in [
            (Some(8), Some(10_001), "each of the 10001 pinned objects"),
            (Some(8), None, "whose cost is unknown"),
            (None, Some(0), "version of the runtime is unknown"),
        ] {
            let mut condition = well(8);
            (condition.major, condition.pinned_objects) = (major, pinned);
            let why = reason(on(Evidence::Allocations, &condition, OtherBursts::default()));
            assert!(why.contains(text), "{why}");
            let callers = on(Evidence::Callers, &condition, OtherBursts::default());
            assert_eq!(callers, Decision::Start(Question::Callers));
        }
    }

    /// Scenario: gcwatch is behind, the session is being started, or another burst runs.
    /// Guarantee: the burst waits in each case.
    #[test]
    fn burst_waits_for_temporary_obstacles() {
        let mut behind = well(10);
        behind.is_behind = true;
        let mut detached = well(10);
        detached.is_attached = false;
        let running = OtherBursts {
            is_one_running: true,
            ..OtherBursts::default()
        };
        for (condition, others) in [
            (behind, OtherBursts::default()),
            (detached, OtherBursts::default()),
            (well(10), running),
        ] {
            assert!(matches!(on(Evidence::Callers, &condition, others), Decision::Wait(_)));
        }
    }
}
