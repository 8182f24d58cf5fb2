//! Collections that a tool asked for: heap dumps, over the diagnostics socket.
//!
//! A session with the keyword GCHeapCollect (0x800000) makes the runtime collect: the thread that serves the socket
//! triggers it, with the reason that `GC.Collect` has (seen on .NET Core 3.1, .NET 8, 9, 10 and 11, and on NativeAOT 10
//! and 11). That thread never runs the program, so that who triggered says whose the collection is.
//!
//! Which thread it is, its ProcessInfo events say: it writes one to all sessions when one of them ends. A program that
//! exits ends all sessions itself, on the thread that exits, and no stop follows: so the thread is known with the first
//! stop after the event. Nor does it ever trigger a collection for another reason.
//!
//! In the stream of the session that asked, the dump itself shows the same (GCBulkRootEdge).

use crate::event::GcReason;

/// Threads of the program that are remembered.
const MAX_PROGRAM_THREADS: usize = 16;

/// Which thread serves tools.
#[derive(Debug, Default)]
pub(super) struct ToolThread {
    known: Option<u64>,
    /// It wrote ProcessInfo; no stop has followed.
    candidate: Option<u64>,
    /// Threads that triggered a collection for another reason than a request, in the order in which they were seen; the
    /// oldest makes room.
    program: [Option<u64>; MAX_PROGRAM_THREADS],
    next: usize,
}

impl ToolThread {
    /// A thread wrote ProcessInfo: a session ended.
    pub(super) fn session_ended(&mut self, thread: u64) {
        self.candidate = Some(thread).filter(|_| !self.program.contains(&Some(thread)));
    }

    /// The threads are stopped: the process goes on.
    pub(super) fn stopped(&mut self) {
        if let Some(thread) = self.candidate.take() {
            self.known = Some(thread);
        }
    }

    /// A thread triggered a collection.
    pub(super) fn triggered(&mut self, thread: u64, reason: GcReason) {
        if reason == GcReason::INDUCED || self.program.contains(&Some(thread)) {
            return;
        }
        self.known = self.known.filter(|known| *known != thread);
        self.candidate = self.candidate.filter(|candidate| *candidate != thread);
        if let Some(place) = self.program.get_mut(self.next) {
            *place = Some(thread);
        }
        self.next = (self.next + 1) % MAX_PROGRAM_THREADS;
    }

    /// Whether this is the thread; `None`: not known.
    pub(super) fn is(&self, thread: u64) -> Option<bool> {
        if self.program.contains(&Some(thread)) {
            return Some(false);
        }
        self.known.map(|known| known == thread)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: a session ends, and the process is stopped later; another thread allocates. Then a thread that has
    /// allocated ends all sessions, as a program does that exits.
    /// Guarantee: the first is known from that stop on, and no thread that allocates is it.
    #[test]
    fn the_thread_is_known_after_a_session_ended() {
        let mut tools = ToolThread::default();
        tools.triggered(1, GcReason::ALLOC_SMALL);
        assert_eq!((tools.is(1), tools.is(7)), (Some(false), None));
        tools.session_ended(7);
        assert_eq!(tools.is(7), None);
        tools.stopped();
        assert_eq!((tools.is(7), tools.is(8)), (Some(true), Some(false)));
        tools.session_ended(1);
        tools.stopped();
        assert_eq!((tools.is(7), tools.is(1)), (Some(true), Some(false)));
    }

    /// Scenario: a session ends and nothing follows; the thread that was taken for it allocates.
    /// Guarantee: nothing is known of it, or it is not the thread.
    #[test]
    fn a_thread_that_exits_or_allocates_serves_no_tool() {
        let mut tools = ToolThread::default();
        tools.session_ended(3);
        assert_eq!(tools.is(3), None);
        tools.stopped();
        tools.triggered(3, GcReason::ALLOC_LARGE);
        assert_eq!(tools.is(3), Some(false));
        for thread in 100..200 {
            tools.triggered(thread, GcReason::ALLOC_SMALL);
        }
        assert_eq!(tools.is(3), None, "forgotten");
    }
}
