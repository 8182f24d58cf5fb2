//! Operations that have started but not ended.

use crate::event::GcReason;
use crate::gc::machine::Machine;

/// The operations that have started but not ended, according to the events so far. Times are in nanoseconds since the
/// sync point; `None` if no operation of this kind is open, or if its end may have been lost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OpenOperations {
    /// Start of the stop for a collection in which the threads are suspended: SuspendEEBegin, or SuspendEEEnd if
    /// SuspendEEBegin was not observed.
    pub stop: Option<i64>,
    /// GCStart of the running blocking or foreground collection.
    pub collection: Option<i64>,
    /// GCStart of the background collection in progress.
    pub background: Option<i64>,
    /// Thread that requested the stop or the collection, for example with `GC.Collect`, or otherwise the thread that
    /// stopped the other threads.
    pub requester: Option<u64>,
    /// Whether the requester is the thread that serves tools (heap dumps); `None` if no operation is open or the thread
    /// is unknown.
    pub requested_by_tool: Option<bool>,
    /// Start of the running round of the finalizer thread.
    pub finalizers: Option<i64>,
    /// Number of objects whose finalizers have not run; `None` if unknown.
    pub finalizers_waiting: Option<u64>,
}

impl OpenOperations {
    /// Returns whether no operation is open.
    pub fn is_nothing(&self) -> bool {
        [self.stop, self.collection, self.background, self.finalizers] == [None; 4]
    }

    /// Combines two sets of open operations. Of two operations of the same kind, the older is kept. The numbers of
    /// waiting objects are added, and the requester of `self` takes precedence.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        let older = |a: Option<i64>, b: Option<i64>| [a, b].into_iter().flatten().min();
        Self {
            stop: older(self.stop, other.stop),
            collection: older(self.collection, other.collection),
            background: older(self.background, other.background),
            requester: self.requester.or(other.requester),
            requested_by_tool: self.requested_by_tool.or(other.requested_by_tool),
            finalizers: older(self.finalizers, other.finalizers),
            finalizers_waiting: match (self.finalizers_waiting, other.finalizers_waiting) {
                (Some(a), Some(b)) => Some(a.saturating_add(b)),
                (a, b) => a.or(b),
            },
        }
    }
}

impl Machine {
    /// Returns the operations that have started but not ended. The collector stops the threads for one reason at a
    /// time, and only one blocking collection runs at a time. If several are open, the ends of the older operations
    /// were lost, and the newest operation is reported.
    pub fn open(&self) -> OpenOperations {
        if self.is_finished {
            return OpenOperations::default();
        }
        let is_whole = |begun: &i64| !self.losses.overlap(*begun, self.newest.unwrap_or(*begun));
        let stops = self.open.iter().filter(|stop| stop.is_gc() && !stop.broken);
        let stop = stops.max_by_key(|stop| (stop.was_suspended(), stop.first_seen()));
        let started = |background: bool| {
            let under_way = self
                .forming
                .iter()
                .filter(|forming| forming.end.is_none() && forming.announced_background() == background);
            under_way
                .filter_map(|forming| forming.start.as_ref().map(|start| start.0))
                .max()
        };
        let finalizers = self.finalizers();
        let running = self
            .forming
            .iter()
            .rev()
            .find(|forming| forming.start.is_some() && forming.end.is_none() && !forming.announced_background());
        let asked = match running {
            Some(running) => running.trigger_thread.filter(|_| running.is_induced()),
            None => self
                .trigger_thread
                .filter(|_| stop.is_some_and(|stop| stop.triggered) && self.trigger == Some(GcReason::INDUCED)),
        };
        // With one heap, the requester stops the threads before GCTriggered, which a stalled dump can delay.
        let requester = asked.or(stop.map(|stop| stop.thread));
        OpenOperations {
            requester,
            requested_by_tool: requester.and_then(|thread| self.tools.is(thread)),
            finalizers: finalizers.begun,
            finalizers_waiting: finalizers.waiting,
            stop: stop.and_then(|stop| stop.first_seen()).filter(is_whole),
            collection: started(false).filter(is_whole),
            background: started(true).filter(is_whole),
        }
    }
}
