//! Activity of the finalizer thread, derived from events.
//!
//! A collection finds dead objects with finalizers (FinalizationPromotedCount of its GCHeapStats) and wakes the thread,
//! which runs a round. A round consists of GCFinalizersBegin, all finalizers in sequence, and GCFinalizersEnd with the
//! number of finalizers that ran. The round includes the finalizers of objects that further collections find during the
//! round. A round that does not end therefore indicates a stuck finalizer, or finalizers that run more slowly than new
//! objects arrive. Objects that were found but not finalized are waiting. In 35 recordings of .NET Core 3.1, 8, 9 and
//! 10, the sum of the found objects equals the sum of the finalized objects. A background collection wakes the thread
//! at the end of its marking but reports the found objects at its own end, so a round in between finalizes objects that
//! are counted later. NativeAOT 8 and 9 send neither GCFinalizersBegin nor GCFinalizersEnd.

use crate::gc::machine::{Machine, ReportTiming};

/// Maximum number of changes kept for a file. A recording of one hour with twenty rounds per second has a seventh of
/// this number.
const MAX_HISTORY: usize = 1 << 20;

/// State of the finalizer thread. Times are in nanoseconds since the sync point.
///
/// The thread runs finalizers in rounds, from GCFinalizersBegin to GCFinalizersEnd. A round includes the finalizers of
/// objects that collections find during the round. A round that does not end indicates a finalizer that hangs, or
/// finalizers that run more slowly than new objects arrive.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Finalizers {
    /// Start of the running round: its GCFinalizersBegin. If this event was not observed, the time of the first of
    /// several collections that found objects without waking the thread, because the thread was already busy. `None` if
    /// no round runs, or if the end of the round can have been lost.
    pub begun: Option<i64>,
    /// Number of objects that collections found and whose finalizers have not run; `None` if unknown.
    pub waiting: Option<u64>,
}

/// Internal state of the finalizer thread.
#[derive(Debug, Default)]
pub(super) struct FinalizerThread {
    begun: Option<i64>,
    /// Time of the first collection that found objects since a round started or ended; `None` if no collection has
    /// found objects since.
    unanswered: Option<i64>,
    /// Whether a later collection found objects, too. A single collection does not prove that the thread is busy: the
    /// round that finalized the objects of a background collection can have ended before the session started.
    again: bool,
    /// Objects found since the round started.
    of_round: u64,
    waiting: u64,
    /// Number of objects that rounds finalized in addition to the reported objects while a background collection was in
    /// progress. The background collection reports these objects at its end.
    early: u64,
    /// Whether the number of objects that waited when counting started is known.
    counts: bool,
    /// Whether the runtime sends the events of its finalizer thread.
    sends: bool,
    /// Every change, for files only.
    history: Vec<(i64, Finalizers)>,
}

impl FinalizerThread {
    fn begin(&mut self, at: i64) {
        // No objects were waiting before, so this round handles the objects found since the session started.
        (self.sends, self.counts) = (true, true);
        self.begun = Some(at);
        self.unanswered = None;
        self.of_round = self.waiting;
    }

    fn end(&mut self, ran: u32, in_background: bool) {
        (self.sends, self.counts) = (true, true);
        let ran = u64::from(ran);
        let beyond = ran.saturating_sub(self.of_round);
        self.early = if in_background {
            self.early.saturating_add(beyond)
        } else {
            0
        };
        // Objects found after the last check of the round wait for the next round. These objects are among the objects
        // found during the round, so a count that started too late or missed a collection becomes correct again here.
        self.waiting = self.waiting.saturating_sub(ran).min(self.of_round.saturating_sub(ran));
        self.begun = None;
        self.unanswered = None;
        self.of_round = self.waiting;
    }

    fn found(&mut self, at: i64, objects: u64, by_background: bool) {
        let ran = if by_background {
            std::mem::take(&mut self.early)
        } else {
            0
        };
        let objects = objects.saturating_sub(ran);
        if objects == 0 {
            return;
        }
        self.waiting = self.waiting.saturating_add(objects);
        self.of_round = self.of_round.saturating_add(objects);
        if self.begun.is_none() {
            self.again = self.unanswered.is_some();
            self.unanswered.get_or_insert(at);
        }
    }

    /// Resets the counts, because any of the missing events can be an event of the finalizer thread.
    fn lost(&mut self) {
        (self.begun, self.unanswered, self.counts) = (None, None, false);
        (self.waiting, self.of_round, self.early) = (0, 0, 0);
    }

    fn now(&self) -> Finalizers {
        Finalizers {
            begun: self.begun.or(self.unanswered.filter(|_| self.sends && self.again)),
            waiting: Some(self.waiting).filter(|_| self.counts || self.sends && self.unanswered.is_some()),
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.history.capacity() * size_of::<(i64, Finalizers)>()
    }
}

impl Machine {
    /// Returns the state of the finalizer thread. All values are `None` after [`Machine::finish`].
    pub fn finalizers(&self) -> Finalizers {
        if self.is_finished {
            return Finalizers::default();
        }
        self.finalizer_thread.now()
    }

    /// Returns every change of [`Machine::finalizers`] with its time. The history is available only for files
    /// ([`ReportTiming::AtTheEnd`]) and contains at most a million changes; later changes are missing.
    pub fn finalizer_history(&self) -> &[(i64, Finalizers)] {
        &self.finalizer_thread.history
    }

    /// Records that the runtime sends the events of its finalizer thread. If no event arrives, the thread has been busy
    /// since before the session.
    pub(crate) fn expects_finalizers(&mut self) {
        self.finalizer_thread.sends = true;
    }

    pub(super) fn finalizers_begin(&mut self, at: i64) {
        self.finalizer_thread.begin(at);
        self.finalizers_changed(at);
    }

    pub(super) fn finalizers_end(&mut self, at: i64, ran: u32) {
        let in_background = self.background_under_way().is_some();
        self.finalizer_thread.end(ran, in_background);
        self.finalizers_changed(at);
    }

    /// Records the number of objects that a collection found.
    pub(super) fn finalizable_found(&mut self, at: i64, objects: u64, by_background: bool) {
        if objects > 0 {
            self.finalizer_thread.found(at, objects, by_background);
            self.finalizers_changed(at);
        }
    }

    pub(super) fn finalizers_lost(&mut self, at: i64) {
        self.finalizer_thread.lost();
        self.finalizers_changed(at);
    }

    fn finalizers_changed(&mut self, at: i64) {
        let thread = &mut self.finalizer_thread;
        if self.settling == ReportTiming::AtTheEnd && thread.history.len() < MAX_HISTORY {
            let now = thread.now();
            thread.history.push((at, now));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(begun: Option<i64>, waiting: u64) -> Finalizers {
        let waiting = Some(waiting);
        Finalizers { begun, waiting }
    }

    /// Scenario: collections find objects, and a round finalizes these objects and the objects found during the round;
    /// one object is found after the last check of the round; then a round does not end.
    /// Guarantee: the state is unknown before the first event, and the number of waiting objects is the number of
    /// objects that were found but not finalized.
    #[test]
    fn waiting_objects_were_found_and_not_finalized() {
        let mut thread = FinalizerThread::default();
        thread.found(1, 100, false);
        assert_eq!(thread.now(), Finalizers::default());
        thread.begin(2);
        assert_eq!(thread.now(), state(Some(2), 100));
        thread.found(3, 50, false);
        assert_eq!(thread.now(), state(Some(2), 150));
        thread.found(4, 1, false);
        thread.end(150, false);
        assert_eq!(thread.now(), state(None, 1));
        thread.begin(6);
        thread.end(1, false);
        assert_eq!(thread.now(), state(None, 0));
        thread.found(7, 9, false);
        // The thread wakes up shortly, so a single collection does not prove that the thread is busy.
        assert_eq!(thread.now(), state(None, 9));
        thread.begin(8);
        thread.found(9, 1_000, false);
        assert_eq!(thread.now(), state(Some(8), 1_009));
    }

    /// Scenario: a background collection wakes the thread at the end of its marking. The round finalizes its 7 objects
    /// and 12 objects of a foreground collection, and ends before the background collection reports its objects. In the
    /// next background collection, 2 objects arrive too late for the round.
    /// Guarantee: finalized objects do not count as waiting, and the late objects count.
    #[test]
    fn round_finalizes_objects_reported_later_by_background_collection() {
        let mut thread = FinalizerThread::default();
        thread.found(1, 12, false);
        thread.begin(2);
        thread.end(19, true);
        thread.found(3, 7, true);
        assert_eq!(thread.now(), state(None, 0));
        thread.begin(4);
        thread.end(5, true);
        thread.found(6, 7, true);
        assert_eq!(thread.now().waiting, Some(2));
        // Without a background collection, more finalized than found objects mean that counting started too late.
        thread.begin(7);
        thread.end(50, false);
        thread.found(8, 3, true);
        assert_eq!(thread.now().waiting, Some(3));
    }

    /// Scenario: a session starts during a round that finalizes more objects than were found since; then events are
    /// lost in another round, and collections find objects although no round starts.
    /// Guarantee: no count falls below zero, and after a loss the state is unknown until a collection does not wake the
    /// thread.
    #[test]
    fn counting_restarts_after_loss() {
        let mut thread = FinalizerThread::default();
        thread.found(1, 10, false);
        thread.end(500, false);
        assert_eq!(thread.now(), state(None, 0));
        thread.begin(2);
        thread.lost();
        assert_eq!(thread.now(), Finalizers::default());
        thread.found(3, 20, false);
        thread.found(4, 20, false);
        assert_eq!(thread.now(), state(Some(3), 40));
    }

    /// Scenario: one runtime sends no finalizer events; another runtime sends these events, but its finalizer thread
    /// has been busy since before the session.
    /// Guarantee: the state of the silent runtime is unknown, and the state of the other runtime shows a round since
    /// the first collection that found objects.
    #[test]
    fn round_older_than_session_is_detected() {
        let mut silent = FinalizerThread::default();
        silent.found(1, 10, false);
        silent.found(2, 10, false);
        assert_eq!(silent.now(), Finalizers::default());
        let mut busy = FinalizerThread {
            sends: true,
            ..FinalizerThread::default()
        };
        assert_eq!(busy.now(), Finalizers::default());
        busy.found(1, 10, false);
        busy.found(2, 10, false);
        assert_eq!(busy.now(), state(Some(1), 20));
    }
}
