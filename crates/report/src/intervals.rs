//! The interval before a collection: the time for which the program ran since the previous collection, the share of the
//! pause in that time, and the allocation rate.

use clr_gc::gc::Collection;
use rule_engine::engine::collection_at;

/// The interval before a collection. `None` if unknown; all values of the first collection are unknown.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Interval {
    /// Time from the last restart to the suspension for this collection, in nanoseconds.
    pub since_last_ns: Option<i64>,
    /// Share of the pause in the sum of `since_last_ns` and the pause, 0 to 1.
    pub stopped_share: Option<f64>,
    /// Bytes allocated per second, over the interval to which the allocation belongs.
    pub allocated_per_second: Option<f64>,
}

/// The intervals between a process's collections, which must be passed in the order of their starts.
#[derive(Debug, Default)]
pub struct Intervals {
    /// Time at which the threads were last restarted.
    restarted: Option<i64>,
}

impl Intervals {
    /// Returns the interval before the next collection.
    pub fn next(&mut self, collection: &Collection) -> Interval {
        let spans = || collection.pauses.iter().flat_map(|pause| &pause.spans);
        let stopped = spans().map(|(from, _)| *from).min().or(collection.start);
        let since = |last: Option<i64>| Some(stopped?.checked_sub(last?)?.max(0));
        let since_last_ns = since(self.restarted);
        let stopped_share = since_last_ns.zip(collection.pause_ns).and_then(|(since, pause)| {
            let whole = since.saturating_add(pause);
            (whole > 0).then(|| pause as f64 / whole as f64)
        });
        let ended = collection_at(collection);
        // A background collection continues after its first stop, so its later stops are not used for the next
        // interval.
        let restarted = match collection.is_concurrent() {
            true => spans().map(|(_, to)| *to).min(),
            false => spans().map(|(_, to)| *to).max().or(Some(ended)),
        };
        self.restarted = self.restarted.max(restarted);
        Interval {
            since_last_ns,
            stopped_share,
            allocated_per_second: collection.allocated.ok().and_then(|allocated| allocated.per_second()),
        }
    }

    /// Returns the interval before each of these collections.
    pub fn for_collections(collections: &[Collection]) -> impl Iterator<Item = (&Collection, Interval)> {
        let mut intervals = Self::default();
        collections
            .iter()
            .map(move |collection| (collection, intervals.next(collection)))
    }
}
