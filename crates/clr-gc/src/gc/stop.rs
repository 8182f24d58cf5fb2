//! Stops of the managed threads: from SuspendEEBegin to RestartEEEnd of one thread.
//!
//! A stop is paired **per thread**. Two can be open at once: with a sampling profiler or a debugger, thread B announces
//! its suspension while A's is still open, waits for the lock, and is suspended only after A's restart. A single
//! "current suspension" pairs A's begin with B's end.
//!
//! The edges of a stop come in one order only, so an edge out of turn proves that events are missing, and such a stop
//! has no durations at all: a begin and the end of a much later stop would otherwise make a pause that never was.
//!
//! Several collections can run in one stop: an ephemeral one inside the first pause of a background collection, or a
//! full one right after a generation 1 collection (provisional mode). [`Stop::division`] gives each its part. The parts
//! add up to the stop exactly.

use crate::event::SuspendReason;

/// Number of a stop within its process, counted from the first that was seen.
pub(crate) type StopId = u64;

/// A collection that started inside a stop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StopCollection {
    /// GCStart's Count.
    pub(crate) number: u32,
    /// Announced as background: it goes on when an inner collection ends.
    pub(crate) background: bool,
    /// GCStart.
    pub(crate) start: i64,
    /// GCEnd, when it came inside the stop.
    pub(crate) end: Option<i64>,
}

/// How far a stop has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Begun,
    Suspended,
    Restarting,
    Restarted,
}

/// One stop. Times are nanoseconds since the sync point of the stream.
#[derive(Debug, Clone)]
pub(crate) struct Stop {
    pub(crate) id: StopId,
    pub(crate) thread: u64,
    /// Why the threads were stopped; `None` when SuspendEEBegin was not seen.
    pub(crate) reason: Option<SuspendReason>,
    /// SuspendEEBegin's Count: the number of the previous collection or of the background collection under way.
    pub(crate) count: Option<u32>,
    pub(crate) begin: Option<i64>,
    pub(crate) suspended: Option<i64>,
    pub(crate) restarting: Option<i64>,
    pub(crate) restarted: Option<i64>,
    /// A GCTriggered came while it was open.
    pub(crate) triggered: bool,
    /// The collections that started in it, in order.
    pub(crate) runs: Vec<StopCollection>,
    /// The background collection whose final stop this is (reason 6, no GCStart inside).
    pub(crate) final_of: Option<u32>,
    /// An edge came out of turn, or a start inside it was never seen: its times cannot be trusted.
    pub(crate) broken: bool,
    /// Lost events overlap it.
    pub(crate) void: bool,
    stage: Stage,
}

/// The part of a stop that one collection owns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StopPart {
    pub(crate) number: u32,
    /// When its part begins: the stop's begin for the first collection, else its own GCStart.
    pub(crate) start: Option<i64>,
    /// From when to when the threads were suspended for it; `None` when an edge is missing.
    pub(crate) spans: Option<Vec<(i64, i64)>>,
    /// It was the first to start: the time to suspend is its own.
    pub(crate) first: bool,
}

impl StopPart {
    /// How long the threads were suspended for it.
    pub(crate) fn ns(&self) -> Option<i64> {
        self.spans
            .as_ref()
            .map(|spans| spans.iter().map(|(from, to)| to - from).sum())
    }
}

/// What a stop was for, from the view of one collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PauseKind {
    /// The collection ran in it from start to end.
    Blocking,
    /// A background collection began in it.
    Initial,
    /// A background collection's own later stop (SuspendEEBegin reason 6).
    Final,
}

impl PauseKind {
    /// `blocking`, `initial` or `final`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Blocking => "blocking",
            Self::Initial => "initial",
            Self::Final => "final",
        }
    }
}

/// The events around a stop, nanoseconds since the sync point.
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
    /// The thread that stopped and restarted the others.
    pub thread: u64,
}

impl StopEdges {
    pub(crate) fn of(stop: &Stop) -> Self {
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
    /// A stop whose SuspendEEBegin is this event.
    pub(crate) fn begun(id: StopId, thread: u64, at: i64, reason: SuspendReason, count: Option<u32>) -> Self {
        Self {
            begin: Some(at),
            reason: Some(reason),
            count,
            ..Self::unseen(id, thread, Stage::Begun)
        }
    }

    /// A stop of which the first event seen is SuspendEEEnd: the session began, or lost events, before it.
    pub(crate) fn suspended_unseen(id: StopId, thread: u64, at: i64) -> Self {
        Self {
            suspended: Some(at),
            ..Self::unseen(id, thread, Stage::Suspended)
        }
    }

    /// Bytes on the heap.
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

    /// SuspendEEEnd of its thread.
    pub(crate) fn suspend_end(&mut self, at: i64) {
        if self.stage != Stage::Begun {
            self.broken = true;
        }
        self.suspended.get_or_insert(at);
        self.stage = self.stage.max(Stage::Suspended);
    }

    /// RestartEEBegin of its thread.
    pub(crate) fn restart_begin(&mut self, at: i64) {
        if self.stage >= Stage::Restarting {
            self.broken = true;
        }
        self.restarting.get_or_insert(at);
        self.stage = self.stage.max(Stage::Restarting);
    }

    /// RestartEEEnd of its thread: it is over.
    pub(crate) fn restart_end(&mut self, at: i64) {
        self.restarted = Some(at);
        self.stage = Stage::Restarted;
    }

    /// A GCStart that belongs to it.
    pub(crate) fn run(&mut self, run: StopCollection) {
        if self.stage >= Stage::Restarting {
            // Collections start before the restart: a restart and a suspension between are missing.
            self.broken = true;
        }
        self.runs.push(run);
    }

    /// A GCEnd of a collection that started in it.
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

    /// All managed threads are suspended: SuspendEEEnd came, the restart did not begin.
    pub(crate) fn is_suspended(&self) -> bool {
        self.stage == Stage::Suspended
    }

    /// SuspendEEEnd came and RestartEEEnd did not.
    pub(crate) fn was_suspended(&self) -> bool {
        matches!(self.stage, Stage::Suspended | Stage::Restarting)
    }

    /// Belongs to the collector: reason 1 (for a collection) or 6 (a background collection's own), or unknown.
    pub(crate) fn is_gc(&self) -> bool {
        self.reason.is_none_or(SuspendReason::is_gc)
    }

    /// All edges were seen, in turn, and no loss overlaps it.
    pub(crate) fn is_whole(&self) -> bool {
        !self.broken && !self.void && self.begin.is_some() && self.suspended.is_some() && self.restarted.is_some()
    }

    /// SuspendEEBegin to SuspendEEEnd.
    pub(crate) fn suspend_ns(&self) -> Option<i64> {
        if self.broken || self.void {
            return None;
        }
        Some(self.suspended? - self.begin?)
    }

    /// SuspendEEBegin to RestartEEEnd of a whole stop.
    pub(crate) fn stopped_ns(&self) -> Option<i64> {
        if !self.is_whole() {
            return None;
        }
        Some(self.restarted? - self.begin?)
    }

    /// The first time known of it.
    pub(crate) fn first_seen(&self) -> Option<i64> {
        self.begin.or(self.suspended).or(self.restarting).or(self.restarted)
    }

    /// The last time known of it.
    pub(crate) fn last_seen(&self) -> Option<i64> {
        self.restarted.or(self.restarting).or(self.suspended).or(self.begin)
    }

    /// Divides the stop among the collections that ran in it, in the order of their starts.
    ///
    /// A collection that starts while a background one is under way owns its GCStart to GCEnd and the background one
    /// the rest, before and after (what follows is its own initial mark). One that starts after another ended cuts the
    /// stop at its GCStart. Without collections the only part is that of the background collection whose final stop it
    /// is.
    pub(crate) fn division(&self) -> Vec<StopPart> {
        let (Some(begin), Some(restarted), true) = (self.begin, self.restarted, self.is_whole()) else {
            return self.undivided();
        };
        let mut parts: Vec<StopPart> = self.undivided();
        for part in &mut parts {
            part.spans = Some(Vec::new());
        }
        // Gives a collection the time between; a time that is not known leaves its whole part unknown.
        let mut give = |index: usize, from: i64, to: Option<i64>| {
            if let Some(part) = parts.get_mut(index) {
                match (&mut part.spans, to) {
                    (Some(spans), Some(to)) => spans.push((from, to)),
                    (spans, _) => *spans = None,
                }
            }
        };
        // `owner` is whom the time since `from` belongs to; `outer` the background collection that it runs inside.
        let (mut owner, mut outer, mut from) = (0, None, begin);
        for (index, run) in self.runs.iter().enumerate().skip(1) {
            if let Some(background) = outer {
                let end = self.runs.get(owner).and_then(|inner| inner.end);
                give(owner, from, end);
                if end.is_none() {
                    // Where the inner one ended is not known, and so not what the outer one had of it.
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

    /// Scenario: one collection in a stop.
    /// Guarantee: the whole stop is its pause.
    #[test]
    fn one_collection_owns_the_stop() {
        assert_eq!(parts(&stop(&[(1, false, 120, Some(980))])), [(1, Some(900))]);
    }

    /// Scenario: an ephemeral collection inside the first pause of a background one.
    /// Guarantee: it owns its start to its end, the background one what is before and after, nothing is left over.
    #[test]
    fn the_background_collection_owns_what_is_around_the_inner_one() {
        let stop = stop(&[(4, true, 120, None), (5, false, 130, Some(630))]);
        assert_eq!(parts(&stop), [(4, Some(400)), (5, Some(500))]);
    }

    /// Scenario: provisional mode, a generation 1 collection and a full one after it in the same stop.
    /// Guarantee: the stop is cut at the second one's start.
    #[test]
    fn one_after_the_other_is_cut_at_the_later_start() {
        let stop = stop(&[(4, false, 120, Some(300)), (5, false, 310, Some(900))]);
        assert_eq!(parts(&stop), [(4, Some(210)), (5, Some(690))]);
    }

    /// Scenario: a background collection that became blocking, after an ephemeral one inside it.
    /// Guarantee: it still owns everything around the inner one.
    #[test]
    fn a_background_collection_that_ends_in_its_stop_keeps_the_rest() {
        let mut stop = stop(&[(4, true, 120, None), (5, false, 130, Some(200))]);
        stop.runs[0].end = Some(950);
        assert_eq!(parts(&stop), [(4, Some(830)), (5, Some(70))]);
    }

    /// Scenario: two ephemeral collections, one after the other, inside one first pause.
    /// Guarantee: the time between them is the background collection's.
    #[test]
    fn two_inner_collections_leave_the_time_between_to_the_outer_one() {
        let stop = stop(&[
            (4, true, 120, None),
            (5, false, 130, Some(200)),
            (6, false, 260, Some(300)),
        ]);
        assert_eq!(parts(&stop), [(4, Some(790)), (5, Some(70)), (6, Some(40))]);
    }

    /// Scenario: the end of the inner collection was never seen.
    /// Guarantee: neither part is known.
    #[test]
    fn an_inner_collection_without_end_leaves_both_parts_unknown() {
        let stop = stop(&[(4, true, 120, None), (5, false, 130, None)]);
        assert_eq!(parts(&stop), [(4, None), (5, None)]);
    }

    /// Scenario: a second SuspendEEEnd, or a GCStart after the restart began: events between are missing.
    /// Guarantee: the stop has no duration and gives none.
    #[test]
    fn an_edge_out_of_turn_voids_the_stop() {
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
