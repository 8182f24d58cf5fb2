//! What a collection is to the time before it: how long the program ran since the last one, how much of it this one
//! took, how fast was allocated.

use clr_gc::gc::Collection;
use gc_rules::engine::collection_at;

/// A collection and the time before it. `None`: unknown; so is all of the first one.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Interval {
    /// From the last restart to the suspension for this one, nanoseconds.
    pub since_last_ns: Option<i64>,
    /// The pause as a part of that time and the pause itself, 0 to 1.
    pub stopped_share: Option<f64>,
    /// Bytes allocated per second of the time in which they were.
    pub allocated_per_second: Option<f64>,
}

/// Takes the collections of a process by their starts.
#[derive(Debug, Default)]
pub struct Intervals {
    /// When its threads were restarted last.
    restarted: Option<i64>,
}

impl Intervals {
    /// Of the next collection.
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
        // A background collection goes on after its first stop; what it left is not compared with.
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

    /// Of each of these collections.
    pub fn of(collections: &[Collection]) -> impl Iterator<Item = (&Collection, Interval)> {
        let mut intervals = Self::default();
        collections
            .iter()
            .map(move |collection| (collection, intervals.next(collection)))
    }
}
