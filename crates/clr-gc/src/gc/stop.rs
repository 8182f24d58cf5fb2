//! Stops of the managed threads, from SuspendEEBegin to RestartEEEnd of one thread.
//!
//! Events of a stop are paired **per thread**. Two stops can be open at once: with a sampling profiler or a debugger,
//! thread B announces its suspension while the stop of A is still open, waits for the lock, and suspends the other
//! threads only after the restart of A. A single "current suspension" would pair the begin of A with the end of B.
//!
//! The edges of a stop arrive in a fixed order, so an edge out of order proves that events are missing. Such a stop has
//! no durations: a begin paired with the end of a much later stop would produce a pause that never happened.
//!
//! Several collections can run in one stop: an ephemeral collection inside the first pause of a background collection,
//! or a full collection right after a generation 1 collection (provisional mode). [`Stop::division`] assigns each
//! collection its part. The parts add up to the stop exactly.

use crate::event::SuspendReason;

/// Number of a stop within its process, counted from the first observed stop.
pub(crate) type StopId = u64;

/// A collection that started inside a stop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StopCollection {
    /// Count of GCStart.
    pub(crate) number: u32,
    /// Whether the collection was announced as background, so that it continues when an inner collection ends.
    pub(crate) background: bool,
    /// Time of GCStart.
    pub(crate) start: i64,
    /// Time of GCEnd; `None` if GCEnd was not observed inside the stop.
    pub(crate) end: Option<i64>,
}

/// Progress of a stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Begun,
    Suspended,
    Restarting,
    Restarted,
}

/// A stop. Times are in nanoseconds since the sync point of the stream.
#[derive(Debug, Clone)]
pub(crate) struct Stop {
    pub(crate) id: StopId,
    pub(crate) thread: u64,
    /// Reason for the stop; `None` if SuspendEEBegin was not observed.
    pub(crate) reason: Option<SuspendReason>,
    /// Count of SuspendEEBegin: the number of the previous collection or of the background collection in progress.
    pub(crate) count: Option<u32>,
    pub(crate) begin: Option<i64>,
    pub(crate) suspended: Option<i64>,
    pub(crate) restarting: Option<i64>,
    pub(crate) restarted: Option<i64>,
    /// Whether a GCTriggered arrived while the stop was open.
    pub(crate) triggered: bool,
    /// Collections that started in the stop, in order.
    pub(crate) runs: Vec<StopCollection>,
    /// Background collection that owns the stop as a final stop (reason 6, no GCStart inside); `None` for any other
    /// stop.
    pub(crate) final_of: Option<u32>,
    /// Whether an edge arrived out of order, or a start inside the stop was never observed. The times of such a stop
    /// are not reliable.
    pub(crate) broken: bool,
    /// Whether lost events overlap the stop.
    pub(crate) void: bool,
    stage: Stage,
}

/// The part of a stop that one collection owns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StopPart {
    pub(crate) number: u32,
    /// Start of the part: the start of the stop for the first collection, GCStart for later collections; `None` if
    /// unknown.
    pub(crate) start: Option<i64>,
    /// Intervals in which the threads were suspended for this collection; `None` if an edge is missing.
    pub(crate) spans: Option<Vec<(i64, i64)>>,
    /// Whether the collection was the first to start, so that the time to suspend belongs to it.
    pub(crate) first: bool,
}

impl StopPart {
    /// Returns the time for which the threads were suspended for this collection, in nanoseconds, or `None` if unknown.
    pub(crate) fn ns(&self) -> Option<i64> {
        self.spans
            .as_ref()
            .map(|spans| spans.iter().map(|(from, to)| to - from).sum())
    }
}

/// Purpose of a stop, as seen by one collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PauseKind {
    /// The collection ran in the stop from start to end.
    Blocking,
    /// A background collection started in the stop.
    Initial,
    /// A later stop of a background collection (SuspendEEBegin reason 6).
    Final,
}

impl PauseKind {
    /// Returns `blocking`, `initial` or `final`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Blocking => "blocking",
            Self::Initial => "initial",
            Self::Final => "final",
        }
    }
}

/// Times of the events around a stop, in nanoseconds since the sync point; `None` if the event was not observed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StopEdges {
    /// SuspendEEBegin.
    pub suspend_begin: Option<i64>,
    /// SuspendEEEnd.
    pub suspend_end: Option<i64>,
    /// RestartEEBegin.
    pub restart_begin: Option<i64>,
    /// RestartEEEnd.
    pub restart_end: Option<i64>,
    /// Thread that stopped and restarted the other threads.
    pub thread: u64,
}

impl StopEdges {
    pub(crate) fn from_stop(stop: &Stop) -> Self {
        Self {
            suspend_begin: stop.begin,
            suspend_end: stop.suspended,
            restart_begin: stop.restarting,
            restart_end: stop.restarted,
            thread: stop.thread,
        }
    }
}

impl Stop {
    /// Creates a stop from its SuspendEEBegin.
    pub(crate) fn begun(id: StopId, thread: u64, at: i64, reason: SuspendReason, count: Option<u32>) -> Self {
        Self {
            begin: Some(at),
            reason: Some(reason),
            count,
            ..Self::unseen(id, thread, Stage::Begun)
        }
    }

    /// Creates a stop whose first observed event is SuspendEEEnd. Its SuspendEEBegin was lost, or precedes the session.
    pub(crate) fn suspended_unseen(id: StopId, thread: u64, at: i64) -> Self {
        Self {
            suspended: Some(at),
            ..Self::unseen(id, thread, Stage::Suspended)
        }
    }

    /// Returns the number of bytes on the heap.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.runs.capacity() * size_of::<StopCollection>()
    }

    fn unseen(id: StopId, thread: u64, stage: Stage) -> Self {
        Self {
            id,
            thread,
            reason: None,
            count: None,
            begin: None,
            suspended: None,
            restarting: None,
            restarted: None,
            triggered: false,
            runs: Vec::new(),
            final_of: None,
            broken: false,
            void: false,
            stage,
        }
    }

    /// Handles SuspendEEEnd of the stop's thread.
    pub(crate) fn suspend_end(&mut self, at: i64) {
        if self.stage != Stage::Begun {
            self.broken = true;
        }
        self.suspended.get_or_insert(at);
        self.stage = self.stage.max(Stage::Suspended);
    }

    /// Handles RestartEEBegin of the stop's thread.
    pub(crate) fn restart_begin(&mut self, at: i64) {
        if self.stage >= Stage::Restarting {
            self.broken = true;
        }
        self.restarting.get_or_insert(at);
        self.stage = self.stage.max(Stage::Restarting);
    }

    /// Handles RestartEEEnd of the stop's thread, which closes the stop.
    pub(crate) fn restart_end(&mut self, at: i64) {
        self.restarted = Some(at);
        self.stage = Stage::Restarted;
    }

    /// Adds a collection whose GCStart belongs to the stop.
    pub(crate) fn run(&mut self, run: StopCollection) {
        if self.stage >= Stage::Restarting {
            // Collections start before the restart, so a restart and a suspension in between are missing.
            self.broken = true;
        }
        self.runs.push(run);
    }

    /// Handles GCEnd of a collection that started in the stop.
    pub(crate) fn run_ended(&mut self, number: u32, at: i64) {
        if self.stage >= Stage::Restarting {
            return;
        }
        if let Some(run) = self
            .runs
            .iter_mut()
            .find(|run| run.number == number && run.end.is_none())
        {
            run.end = Some(at);
        }
    }

    /// Returns whether all managed threads are suspended: SuspendEEEnd has arrived, and the restart has not started.
    pub(crate) fn is_suspended(&self) -> bool {
        self.stage == Stage::Suspended
    }

    /// Returns whether SuspendEEEnd has arrived and RestartEEEnd has not.
    pub(crate) fn was_suspended(&self) -> bool {
        matches!(self.stage, Stage::Suspended | Stage::Restarting)
    }

    /// Returns whether the stop belongs to the collector: reason 1 (a collection), 6 (a separate stop of a background
    /// collection) or unknown.
    pub(crate) fn is_gc(&self) -> bool {
        self.reason.is_none_or(SuspendReason::is_gc)
    }

    /// Returns whether all edges were observed in order, and no loss overlaps the stop.
    pub(crate) fn is_whole(&self) -> bool {
        !self.broken && !self.void && self.begin.is_some() && self.suspended.is_some() && self.restarted.is_some()
    }

    /// Returns the time from SuspendEEBegin to SuspendEEEnd, in nanoseconds, or `None` if an edge is missing or
    /// unreliable.
    pub(crate) fn suspend_ns(&self) -> Option<i64> {
        if self.broken || self.void {
            return None;
        }
        Some(self.suspended? - self.begin?)
    }

    /// Returns the time from SuspendEEBegin to RestartEEEnd, in nanoseconds, or `None` if the stop is not whole.
    pub(crate) fn stopped_ns(&self) -> Option<i64> {
        if !self.is_whole() {
            return None;
        }
        Some(self.restarted? - self.begin?)
    }

    /// Returns the first known time of the stop, or `None` if no edge is known.
    pub(crate) fn first_seen(&self) -> Option<i64> {
        self.begin.or(self.suspended).or(self.restarting).or(self.restarted)
    }

    /// Returns the last known time of the stop, or `None` if no edge is known.
    pub(crate) fn last_seen(&self) -> Option<i64> {
        self.restarted.or(self.restarting).or(self.suspended).or(self.begin)
    }

    /// Divides the stop among the collections that ran in it, in the order of their starts.
    ///
    /// A collection that starts while a background collection is in progress owns the time from its GCStart to its
    /// GCEnd. The background collection owns the remaining time before and after (the time after is its initial mark).
    /// If a collection starts after another collection has ended, the stop is cut at the later GCStart. Without
    /// collections in the stop, the only part belongs to the background collection that owns the final stop.
    pub(crate) fn division(&self) -> Vec<StopPart> {
        let (Some(begin), Some(restarted), true) = (self.begin, self.restarted, self.is_whole()) else {
            return self.undivided();
        };
        let mut parts: Vec<StopPart> = self.undivided();
        for part in &mut parts {
            part.spans = Some(Vec::new());
        }
        // Assigns an interval to a collection. An unknown end makes the whole part of that collection unknown.
        let mut give = |index: usize, from: i64, to: Option<i64>| {
            if let Some(part) = parts.get_mut(index) {
                match (&mut part.spans, to) {
                    (Some(spans), Some(to)) => spans.push((from, to)),
                    (spans, _) => *spans = None,
                }
            }
        };
        // `owner` owns the time since `from`; `outer` is the background collection in which `owner` runs.
        let (mut owner, mut outer, mut from) = (0, None, begin);
        for (index, run) in self.runs.iter().enumerate().skip(1) {
            if let Some(background) = outer {
                let end = self.runs.get(owner).and_then(|inner| inner.end);
                give(owner, from, end);
                if end.is_none() {
                    // The end of the inner collection is unknown, and therefore also the time of the outer collection.
                    give(background, from, None);
                }
                (owner, outer, from) = (background, None, end.unwrap_or(run.start));
            }
            give(owner, from, Some(run.start));
            let goes_on = |owner: &StopCollection| owner.background && owner.end.is_none_or(|end| end > run.start);
            if self.runs.get(owner).is_some_and(goes_on) {
                outer = Some(owner);
            }
            (owner, from) = (index, run.start);
        }
        let end = self.runs.get(owner).and_then(|inner| inner.end);
        match outer {
            Some(background) => {
                give(owner, from, end);
                give(background, end.unwrap_or(from), end.map(|_| restarted));
            }
            None => give(owner, from, Some(restarted)),
        }
        parts
    }

    fn undivided(&self) -> Vec<StopPart> {
        if self.runs.is_empty() {
            let number = self.final_of.into_iter();
            return number
                .map(|number| StopPart {
                    number,
                    start: self.begin,
                    spans: None,
                    first: true,
                })
                .collect();
        }
        let part = |(index, run): (usize, &StopCollection)| StopPart {
            number: run.number,
            start: if index == 0 { self.begin } else { Some(run.start) },
            spans: None,
            first: index == 0,
        };
        self.runs.iter().enumerate().map(part).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stop(runs: &[(u32, bool, i64, Option<i64>)]) -> Stop {
        let mut stop = Stop::begun(0, 7, 100, SuspendReason::FOR_GC, Some(0));
        stop.suspend_end(110);
        for &(number, background, start, end) in runs {
            stop.run(StopCollection {
                number,
                background,
                start,
                end: None,
            });
            if let Some(end) = end {
                stop.run_ended(number, end);
            }
        }
        stop.restart_begin(990);
        stop.restart_end(1000);
        stop
    }

    fn parts(stop: &Stop) -> Vec<(u32, Option<i64>)> {
        stop.division()
            .into_iter()
            .map(|part| (part.number, part.ns()))
            .collect()
    }

    /// Scenario: a stop contains one collection.
    /// Guarantee: the whole stop is the pause of the collection.
    #[test]
    fn single_collection_owns_whole_stop() {
        assert_eq!(parts(&stop(&[(1, false, 120, Some(980))])), [(1, Some(900))]);
    }

    /// Scenario: an ephemeral collection runs inside the first pause of a background collection.
    /// Guarantee: the ephemeral collection owns the time from its start to its end, and the background collection owns
    /// the remaining time before and after.
    #[test]
    fn background_collection_owns_time_around_inner_collection() {
        let stop = stop(&[(4, true, 120, None), (5, false, 130, Some(630))]);
        assert_eq!(parts(&stop), [(4, Some(400)), (5, Some(500))]);
    }

    /// Scenario: in provisional mode, a full collection follows a generation 1 collection in the same stop.
    /// Guarantee: the stop is cut at the start of the full collection.
    #[test]
    fn successive_collections_are_cut_at_later_start() {
        let stop = stop(&[(4, false, 120, Some(300)), (5, false, 310, Some(900))]);
        assert_eq!(parts(&stop), [(4, Some(210)), (5, Some(690))]);
    }

    /// Scenario: a background collection becomes blocking after an ephemeral collection inside it.
    /// Guarantee: the background collection still owns all time around the inner collection.
    #[test]
    fn background_collection_that_ends_in_stop_owns_rest() {
        let mut stop = stop(&[(4, true, 120, None), (5, false, 130, Some(200))]);
        stop.runs[0].end = Some(950);
        assert_eq!(parts(&stop), [(4, Some(830)), (5, Some(70))]);
    }

    /// Scenario: two ephemeral collections run in sequence inside the first pause of a background collection.
    /// Guarantee: the time between the two collections belongs to the background collection.
    #[test]
    fn time_between_inner_collections_belongs_to_outer() {
        let stop = stop(&[
            (4, true, 120, None),
            (5, false, 130, Some(200)),
            (6, false, 260, Some(300)),
        ]);
        assert_eq!(parts(&stop), [(4, Some(790)), (5, Some(70)), (6, Some(40))]);
    }

    /// Scenario: the end of the inner collection is never observed.
    /// Guarantee: both parts are unknown.
    #[test]
    fn inner_collection_without_end_leaves_parts_unknown() {
        let stop = stop(&[(4, true, 120, None), (5, false, 130, None)]);
        assert_eq!(parts(&stop), [(4, None), (5, None)]);
    }

    /// Scenario: a second SuspendEEEnd arrives, or a GCStart arrives after the restart started, so events are missing.
    /// Guarantee: the stop has no duration, and its parts are unknown.
    #[test]
    fn edge_out_of_order_voids_stop() {
        let collection = StopCollection {
            number: 1,
            background: false,
            start: 510,
            end: Some(600),
        };
        let mut twice = Stop::begun(0, 7, 100, SuspendReason::FOR_GC, None);
        twice.suspend_end(110);
        twice.suspend_end(500);
        twice.run(collection.clone());
        twice.restart_begin(700);
        twice.restart_end(710);
        assert_eq!((twice.stopped_ns(), twice.suspend_ns()), (None, None));
        assert_eq!(parts(&twice), [(1, None)]);

        let mut late = Stop::begun(0, 7, 100, SuspendReason::FOR_GC, None);
        late.suspend_end(110);
        late.restart_begin(120);
        late.run(collection.clone());
        late.restart_end(710);
        assert_eq!(late.stopped_ns(), None);
    }
}
