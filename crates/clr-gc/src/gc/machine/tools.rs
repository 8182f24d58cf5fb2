//! Collections requested by a tool for a heap dump, over the diagnostics socket.
//!
//! A session with the keyword GCHeapCollect (0x800000) makes the runtime collect. The thread that serves the socket
//! triggers the collection with the same reason as `GC.Collect` (observed on .NET Core 3.1, .NET 8, 9, 10 and 11, and
//! on NativeAOT 10 and 11). That thread never runs the program, so the triggering thread identifies the requester.
//!
//! The thread is identified by its ProcessInfo events: it writes one to all sessions when one of them ends. A program
//! that exits ends all sessions itself, on the exiting thread, and no stop follows. The thread is therefore known with
//! the first stop after the event. It also never triggers a collection for another reason.
//!
//! In the stream of the requesting session, the events of the dump (GCBulkRootEdge) also identify the collection.

use crate::event::GcReason;

/// Maximum number of program threads that are remembered.
const MAX_PROGRAM_THREADS: usize = 16;

/// Identification of the thread that serves tools.
#[derive(Debug, Default)]
pub(super) struct ToolThread {
    known: Option<u64>,
    /// Thread that wrote ProcessInfo, if no stop has followed.
    candidate: Option<u64>,
    /// Threads that triggered a collection for a reason other than a request, in the order of their appearance. The
    /// oldest is overwritten.
    program: [Option<u64>; MAX_PROGRAM_THREADS],
    next: usize,
}

impl ToolThread {
    /// Records that a thread wrote ProcessInfo because a session ended.
    pub(super) fn session_ended(&mut self, thread: u64) {
        self.candidate = Some(thread).filter(|_| !self.program.contains(&Some(thread)));
    }

    /// Records that the threads are stopped, which shows that the process has not exited.
    pub(super) fn stopped(&mut self) {
        if let Some(thread) = self.candidate.take() {
            self.known = Some(thread);
        }
    }

    /// Records that a thread triggered a collection.
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

    /// Returns whether this is the thread that serves tools, or `None` if the serving thread is unknown.
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
    /// allocated ends all sessions, as an exiting program does.
    /// Guarantee: the serving thread is known after that stop, and no thread that allocates is taken for the serving
    /// thread.
    #[test]
    fn serving_thread_is_known_after_session_end() {
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

    /// Scenario: a session ends and no stop follows; later the thread that was taken for the serving thread allocates.
    /// Guarantee: the thread is unknown initially, and is not the serving thread after it has allocated.
    #[test]
    fn exiting_or_allocating_thread_serves_no_tool() {
        let mut tools = ToolThread::default();
        tools.session_ended(3);
        assert_eq!(tools.is(3), None);
        tools.stopped();
        tools.triggered(3, GcReason::ALLOC_LARGE);
        assert_eq!(tools.is(3), Some(false));
        for thread in 100..200 {
            tools.triggered(thread, GcReason::ALLOC_SMALL);
        }
        assert_eq!(tools.is(3), None, "the thread was forgotten");
    }
}
