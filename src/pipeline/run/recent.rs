//! The collections of a run: the last ones, and how many there were.

use std::collections::VecDeque;

use clr_gc::gc::{Collection, CompactCollection};
use gc_rules::time::TimeBase;

/// A collection that is remembered, with the time of its stream.
#[derive(Debug, Clone)]
pub(crate) struct Remembered {
    pub(crate) collection: CompactCollection,
    pub(crate) base: TimeBase,
}

/// The last collections of a run, and its totals.
#[derive(Debug, Default)]
pub(crate) struct RecentCollections {
    /// In the order in which they were observed.
    pub(crate) remembered: VecDeque<Remembered>,
    pub(crate) collections: u64,
    /// Suspensions without a collection.
    pub(crate) suspensions: u64,
    /// Of the collections, those that lie in a loss.
    pub(crate) lossy: u64,
    /// Of the collections, those of which a part was never seen.
    pub(crate) incomplete: u64,
}

impl RecentCollections {
    /// Counts a collection, and remembers it in the place of the oldest of `limit`.
    pub(crate) fn observe(&mut self, collection: Box<Collection>, base: TimeBase, limit: usize) {
        self.collections += 1;
        self.lossy += u64::from(collection.lossy);
        self.incomplete += u64::from(!collection.is_complete());
        if limit > 0 {
            while self.remembered.len() >= limit {
                self.remembered.pop_front();
            }
            let collection = CompactCollection::new(*collection);
            self.remembered.push_back(Remembered { collection, base });
        }
    }
}
