//! What has begun and not ended.

use crate::event::GcReason;
use crate::gc::machine::Machine;

/// What has begun and not ended, by the events that came so far. Times are nanoseconds since the sync point; `None`:
/// nothing of the kind is open, or a loss since its beginning may have taken its end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Open {
    /// The stop for a collection in which the threads are suspended: its SuspendEEBegin, or the SuspendEEEnd where that
    /// was not seen.
    pub stop: Option<i64>,
    /// The blocking or foreground collection that runs: its GCStart.
    pub collection: Option<i64>,
    /// The background collection under way: its GCStart.
    pub background: Option<i64>,
    /// The thread that asked for the stop or the collection, as `GC.Collect` does, or else stopped the threads.
    pub requester: Option<u64>,
    /// That is the thread that serves tools: for a heap dump. `None`: nothing is open, or it is not known.
    pub requested_by_tool: Option<bool>,
    /// The round of the finalizer thread.
    pub finalizers: Option<i64>,
    /// Objects whose finalizers have not run; `None`: not known.
    pub finalizers_waiting: Option<u64>,
}

impl Open {
    /// Nothing is open.
    pub fn is_nothing(&self) -> bool {
        [self.stop, self.collection, self.background, self.finalizers] == [None; 4]
    }

    /// What is open in either; of two of a kind the older one.
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
    /// What has begun and not ended. The collector stops the threads for one reason at a time, and one blocking
    /// collection runs at a time: an older one that is still open lost its end, and the newest is reported.
    pub fn open(&self) -> Open {
        if self.is_finished {
            return Open::default();
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
        // With one heap, who asks stops the threads, before GCTriggered: a dump that stalls may keep that back.
        let requester = asked.or(stop.map(|stop| stop.thread));
        Open {
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
