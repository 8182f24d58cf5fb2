//! Minute samples of a running process, collected step by step.
//!
//! ```text
//! collections, suspensions, requests --+
//! attached, lost, tick ----------------+--> Sampler::step(at, Input) --> Minute, when a minute ends
//! figures: memory, CPU ----------------+
//! ```
//!
//! A collection counts in the minute in which it was observed, which is at most seconds after its end. A sampler has
//! one open minute: a few hundred bytes, and at most 16 KiB for pauses and sizes that no runtime has.

use base::time::Moment;
use clr_gc::gc::{Asker, Collection, Suspension};

use super::Minute;
use super::classes::Classes;
use crate::observation::{FullCollection, LargeAllocation, Young, committed, is_whole};

/// Length of a minute, in nanoseconds.
pub const MINUTE_NS: u64 = 60_000_000_000;
/// Minimum time between two readings of the CPU time for a known CPU of a minute, in nanoseconds.
const MIN_CPU_NS: u64 = MINUTE_NS / 3;

/// A sum that is unknown if a part is unknown.
#[derive(Debug, Clone, Copy)]
struct Sum(Option<u64>);

impl Default for Sum {
    fn default() -> Self {
        Self(Some(0))
    }
}

impl Sum {
    fn add(&mut self, part: Option<f64>) {
        self.0 = self.0.zip(part).map(|(sum, part)| sum.saturating_add(part as u64));
    }
}

/// Adds a value to a sum that is unknown without values.
fn add(sum: &mut Option<u64>, value: u64) {
    *sum = Some(sum.unwrap_or(0).saturating_add(value));
}

/// A minute to which collections are still added.
#[derive(Debug, Default)]
pub(super) struct Sums {
    minute: Minute,
    pauses: Classes,
    young_pauses: Classes,
    budgets: Classes,
    /// Bytes in generations 0 and 1 before young collections.
    before: Classes,
    promoted: Sum,
    blocking_ns: Sum,
    background_ns: Sum,
    /// Whether an unknown part of the allocation is missing from the sum.
    hides_allocation: bool,
    /// Whether a pause of unknown length is missing from the sum.
    hides_pause: bool,
}

impl Sums {
    pub(super) fn new(minute: Minute) -> Self {
        Self {
            minute,
            ..Self::default()
        }
    }

    /// Adds a collection. `large` is the number of bytes of large objects that were allocated since the previous
    /// collection; `None` if unknown.
    pub(super) fn add(&mut self, collection: &Collection, large: Option<f64>) {
        let minute = &mut self.minute;
        minute.collections += 1;
        minute.lossy |= collection.lossy || collection.requested_by_tool == Some(true);
        self.hides_allocation |= collection.hides_allocation();
        if let Some(bytes) = collection.allocated_since_last() {
            add(&mut minute.allocated, bytes);
        }
        if let Some(bytes) = large {
            add(&mut minute.large_allocated, bytes as u64);
        }
        match collection.pause_ns {
            Some(ns) => {
                add(&mut minute.stopped_ns, ns.max(0).cast_unsigned());
                self.pauses.add(ns.max(0).cast_unsigned());
            }
            None => self.hides_pause = true,
        }
        if collection.heap_stats.is_some() {
            minute.free = collection.total(|sizes| sizes.fragmentation).or(minute.free);
        }
        minute.committed = minute.committed.max(committed(collection));
        if collection.generation == Some(2) {
            self.add_full(collection);
        } else {
            self.add_young(collection);
        }
    }

    fn add_full(&mut self, collection: &Collection) {
        let minute = &mut self.minute;
        let full = FullCollection::from_collection(collection);
        minute.full += 1;
        minute.full_at_limit += u64::from(full.asker == Asker::Limit);
        if let Some(ns) = collection.pause_ns {
            add(&mut minute.full_stopped_ns, ns.max(0).cast_unsigned());
        }
        if full.concurrent {
            self.background_ns.add(full.duration_ns);
        } else {
            minute.full_blocking += 1;
            self.blocking_ns.add(full.pause_ns);
        }
        let live = full.live.map(|bytes| bytes.max(0.0) as u64);
        minute.live = live.or(minute.live);
        minute.live_high = minute.live_high.max(live);
    }

    fn add_young(&mut self, collection: &Collection) {
        if let Some(ns) = collection.pause_ns {
            self.young_pauses.add(ns.max(0).cast_unsigned());
        }
        if let Some(bytes) = collection.heap.first().and_then(|gen0| gen0.before) {
            self.budgets.add(bytes);
        }
        let Some(generation) = collection.generation else {
            return;
        };
        self.minute.gen1 += u64::from(generation == 1);
        let young = Young::new(collection, generation);
        // The first collection of a session can lack its start.
        if young.is_some() || is_whole(collection) {
            self.promoted.add(young.map(|young| young.gen1_survived));
        }
        if let Some(young) = young {
            self.before.add(young.before as u64);
        }
    }

    /// Adds a suspension without a collection.
    pub(super) fn add_suspension(&mut self, suspension: &Suspension) {
        match suspension.stopped_ns {
            Some(ns) => add(&mut self.minute.stopped_ns, ns.max(0).cast_unsigned()),
            None => self.hides_pause = true,
        }
    }

    /// Returns the minute with its quantiles. Incomplete sums become unknown.
    pub(super) fn finish(mut self) -> Minute {
        self.minute.median_pause_ns = self.pauses.quantile(0.5);
        self.minute.p95_pause_ns = self.pauses.quantile(0.95);
        self.minute.young_pause_ns = self.young_pauses.quantile(0.5);
        self.minute.young_budget = self.budgets.quantile(0.5);
        self.minute.young_before = self.before.quantile(0.5);
        self.minute.young_high = self.before.quantile(0.95);
        self.minute.promoted = self.promoted.0;
        self.minute.blocking_ns = self.blocking_ns.0;
        self.minute.background_ns = self.background_ns.0;
        if self.minute.collections == 0 {
            // Without collections, the stopped time contains only other suspensions, and the allocation is unknown.
            self.minute.stopped_ns = Some(self.minute.stopped_ns.unwrap_or(0));
        }
        if self.hides_pause {
            self.minute.stopped_ns = None;
        }
        if self.hides_allocation {
            self.minute.allocated = None;
        }
        self.minute
    }
}

/// Figures of a process at one time, from sources other than its event stream. Unknown values are `None`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Figures {
    /// Start of the process.
    pub started: Option<Moment>,
    /// Resident memory, in bytes.
    pub resident: Option<u64>,
    /// Memory outside the heap, in bytes.
    pub native: Option<u64>,
    /// Committed but unused bytes of the heap.
    pub committed_unused: Option<u64>,
    /// Maximum memory of the container, in bytes.
    pub container_peak: Option<u64>,
    /// CPU time since the start of the process, in nanoseconds.
    pub cpu_ns: Option<u64>,
}

/// An input of a sampler.
#[derive(Debug, Clone, Copy)]
pub enum Input<'a> {
    /// Whether a session reads the process has changed.
    Attached(bool),
    /// A collection was observed.
    Collection(&'a Collection),
    /// A suspension without a collection was observed.
    Suspension(&'a Suspension),
    /// Requests have ended.
    Requests(u64),
    /// Requests are no longer read.
    RequestsUnread,
    /// Events were lost, or gcwatch has not read all events up to now.
    Damage,
    /// The figures of the process were read.
    Figures(Figures),
    /// Time has passed.
    Tick,
}

/// Converts the events and figures of one process to minutes.
#[derive(Debug, Default)]
pub struct Sampler {
    /// The open minute; `None` before the first input while attached.
    open: Option<Box<Open>>,
    is_attached: bool,
    /// Whether requests are read.
    reads_requests: bool,
    figures: Figures,
    large: LargeAllocation,
    /// Time and value of the newest known CPU time.
    cpu: Option<(Moment, u64)>,
}

/// The open minute.
#[derive(Debug)]
struct Open {
    sums: Sums,
    /// Start of the part of the minute that has not been added to its observed time; `None` while not attached.
    observed_since: Option<Moment>,
    /// Time and value of the newest CPU time before the minute.
    cpu: Option<(Moment, u64)>,
}

/// Returns the number of the minute that contains an instant.
pub fn minute_of(at: Moment) -> u64 {
    at.ns() / MINUTE_NS
}

/// Returns the start of a minute.
fn start_of(minute: u64) -> Moment {
    Moment::from_ns(minute.saturating_mul(MINUTE_NS))
}

impl Sampler {
    /// Applies an input. Returns the minute that ended before `at`, if a minute was open. An `at` before the open
    /// minute counts as its start.
    pub fn step(&mut self, at: Moment, input: Input<'_>) -> Option<Minute> {
        let ended = self.advance(at);
        match input {
            Input::Attached(is) => self.set_attached(is, at),
            Input::Requests(number) => {
                self.reads_requests = true;
                if let Some(requests) = self.minute().and_then(|minute| minute.requests.as_mut()) {
                    *requests = requests.saturating_add(number);
                }
            }
            Input::RequestsUnread => {
                self.reads_requests = false;
                self.minute().into_iter().for_each(|minute| minute.requests = None);
            }
            Input::Damage => self.minute().into_iter().for_each(|minute| minute.lossy = true),
            Input::Figures(figures) => {
                self.cpu = figures.cpu_ns.map(|cpu| (at, cpu)).or(self.cpu);
                self.figures = figures;
            }
            Input::Collection(collection) => {
                let large = self.large.add(collection);
                self.sums().into_iter().for_each(|sums| sums.add(collection, large));
            }
            Input::Suspension(suspension) => self.sums().into_iter().for_each(|sums| sums.add_suspension(suspension)),
            Input::Tick => {}
        }
        ended
    }

    fn sums(&mut self) -> Option<&mut Sums> {
        self.open.as_mut().map(|open| &mut open.sums)
    }

    fn minute(&mut self) -> Option<&mut Minute> {
        self.sums().map(|sums| &mut sums.minute)
    }

    fn set_attached(&mut self, is: bool, at: Moment) {
        self.is_attached = is;
        match (self.open.as_mut(), is) {
            (None, true) => self.open = Some(Box::new(self.begin(at))),
            (Some(open), true) => open.observed_since = open.observed_since.or(Some(at)),
            (Some(open), false) => open.pass(at),
            (None, false) => {}
        }
    }

    /// Closes the open minute if `at` is in a later minute. A minute in which the process was never attached is not
    /// returned.
    fn advance(&mut self, at: Moment) -> Option<Minute> {
        let number = self.open.as_ref()?.sums.minute.at;
        if minute_of(at) <= number {
            return None;
        }
        let mut open = self.open.take()?;
        if self.is_attached {
            self.open = Some(Box::new(self.begin(start_of(minute_of(at)))));
            open.pass(start_of(number + 1));
        }
        let minute = &mut open.sums.minute;
        minute.resident = self.figures.resident;
        minute.native = self.figures.native;
        minute.committed_unused = self.figures.committed_unused;
        minute.container_peak = self.figures.container_peak;
        minute.age_s = self
            .figures
            .started
            .map(|started| start_of(number).since(started) / 1_000_000_000);
        let readings = open.cpu.zip(self.cpu);
        minute.cpu_ns = readings.and_then(|((from, before), (to, after))| {
            let passed = to.since(from);
            let used = after.saturating_sub(before) as f64;
            (passed >= MIN_CPU_NS).then(|| (used * MINUTE_NS as f64 / passed as f64) as u64)
        });
        Some(open.sums.finish())
    }

    /// Opens the minute that contains `at`.
    fn begin(&self, at: Moment) -> Open {
        let minute = Minute {
            at: minute_of(at),
            requests: self.reads_requests.then_some(0),
            ..Minute::default()
        };
        Open {
            sums: Sums::new(minute),
            observed_since: Some(at),
            cpu: self.cpu,
        }
    }
}

impl Open {
    /// Adds the time up to `at` to the observed time, and stops the observation.
    fn pass(&mut self, at: Moment) {
        if let Some(since) = self.observed_since.take() {
            self.sums.minute.observed_ns += at.since(since);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn s(seconds: u64) -> Moment {
        Moment::from_ns(seconds * 1_000_000_000)
    }

    fn collection(generation: u32, pause_ms: i64) -> Collection {
        let mut collection = Collection::unknown(1);
        collection.generation = Some(generation);
        collection.pause_ns = Some(pause_ms * 1_000_000);
        collection
    }

    /// Scenario: a process that is 100 s old is attached in the middle of minute 10. It has collections in minutes 10
    /// and 11, requests from minute 11, and figures every 15 s. Minute 13 has no event, and the session is interrupted
    /// for 10 s. In minute 14 events are lost.
    /// Guarantee: each minute has its own collections. The minute of the attach is half observed. The age is the age at
    /// the start of the minute. Requests are known from the first complete minute, and the CPU follows from the
    /// readings. The interruption shortens minute 13, and minute 14 is damaged.
    #[test]
    fn process_is_divided_into_minutes() {
        let mut sampler = Sampler::default();
        let mut ended = Vec::new();
        let mut step = |at: u64, input: Input<'_>| ended.extend(sampler.step(s(at), input));
        step(625, Input::Tick);
        step(630, Input::Attached(true));
        let (young, full) = (collection(0, 2), collection(2, 8));
        step(640, Input::Collection(&young));
        for at in (645..=900).step_by(15) {
            step(
                at,
                Input::Figures(Figures {
                    started: Some(s(530)),
                    resident: Some(at),
                    cpu_ns: Some(at * 250_000_000),
                    ..Figures::default()
                }),
            );
            match at {
                660 => {
                    step(661, Input::Collection(&full));
                    step(662, Input::Requests(5));
                }
                720 => step(725, Input::Requests(7)),
                780 => {
                    step(790, Input::Attached(false));
                    step(792, Input::Tick);
                }
                795 => step(800, Input::Attached(true)),
                840 => step(841, Input::Damage),
                _ => {}
            }
        }
        let numbers: Vec<u64> = ended.iter().map(|minute| minute.at).collect();
        assert_eq!(numbers, [10, 11, 12, 13, 14]);
        let observed: Vec<u64> = ended.iter().map(|minute| minute.observed_ns / 1_000_000_000).collect();
        assert_eq!(observed, [30, 60, 60, 50, 60]);
        let ages: Vec<Option<u64>> = ended.iter().map(|minute| minute.age_s).collect();
        assert_eq!(ages, [70, 130, 190, 250, 310].map(Some));
        let full: Vec<(u64, u64)> = ended.iter().map(|minute| (minute.collections, minute.full)).collect();
        assert_eq!(full, [(1, 0), (1, 1), (0, 0), (0, 0), (0, 0)]);
        let requests: Vec<Option<u64>> = ended.iter().map(|minute| minute.requests).collect();
        assert_eq!(requests, [None, None, Some(7), Some(0), Some(0)]);
        assert_eq!((ended[0].cpu_ns, ended[2].cpu_ns), (None, Some(15_000_000_000)));
        assert_eq!(ended[2].resident, Some(765));
        let usable: Vec<bool> = ended.iter().map(Minute::is_usable).collect();
        assert_eq!(usable, [false; 5], "warm-up, interruption and loss");
        assert!(ended[4].lossy && !ended[3].lossy);
    }

    /// Scenario: a process is detached for several minutes, then attached again; a tool requests a collection.
    /// Guarantee: no minute is returned for the time without a session, and the minute of the tool is damaged.
    #[test]
    fn time_without_session_has_no_minutes() {
        let mut sampler = Sampler::default();
        assert_eq!(sampler.step(s(0), Input::Attached(true)), None);
        assert_eq!(sampler.step(s(30), Input::Attached(false)), None);
        let first = sampler.step(s(70), Input::Tick).unwrap();
        assert_eq!((first.at, first.observed_ns), (0, 30_000_000_000));
        assert_eq!(sampler.step(s(400), Input::Tick), None);
        assert_eq!(sampler.step(s(420), Input::Attached(true)), None);
        let mut dump = collection(2, 900);
        dump.requested_by_tool = Some(true);
        assert_eq!(sampler.step(s(421), Input::Collection(&dump)), None);
        let second = sampler.step(s(480), Input::Tick).unwrap();
        assert_eq!((second.at, second.observed_ns, second.lossy), (7, MINUTE_NS, true));
    }
}
