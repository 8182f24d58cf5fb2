//! What has begun and not ended.

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
        Open {
            finalizers: finalizers.begun,
            finalizers_waiting: finalizers.waiting,
            stop: stop.and_then(|stop| stop.first_seen()).filter(is_whole),
            collection: started(false).filter(is_whole),
            background: started(true).filter(is_whole),
        }
    }
}
