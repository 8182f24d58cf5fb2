//! Collections that are kept in full: the newest, and the longest of the last 30 minutes.

use std::collections::VecDeque;

use base::time::{Moment, TimeBase};
use clr_gc::gc::{Collection, CompactCollection};

use super::{HISTORY_NS, length};

/// Maximum number of longest collections.
const MAX_LONGEST: usize = 3;
/// Maximum size of the packed newest collections in bytes. A single newest collection can have any size. A high limit
/// on their number raises this maximum.
pub(crate) const MAX_NEWEST_BYTES: usize = 2048;
/// Maximum size of the packed longest collections in bytes.
pub(crate) const MAX_LONGEST_BYTES: usize = 768;

/// Maximum number of collections that incidents refer to.
const MAX_PINNED: usize = 4;
/// Maximum size of the packed pinned collections in bytes.
pub(crate) const MAX_PINNED_BYTES: usize = 1536;

/// A kept collection with the time base of its stream.
#[derive(Debug, Clone)]
pub struct RetainedCollection {
    pub collection: CompactCollection,
    /// Time base of the offsets.
    pub base: TimeBase,
    /// Trace id; `None` if the collection did not become spans.
    pub trace_id: Option<[u8; 16]>,
}

/// The kept collections.
#[derive(Debug, Default)]
pub struct RetainedCollections {
    /// The newest collections, in the order in which they were observed.
    newest: VecDeque<RetainedCollection>,
    /// The longest collections with pause and time, the longest first.
    longest: Vec<(u64, Moment, RetainedCollection)>,
    /// The collections that incidents refer to, the oldest first.
    pinned: Vec<RetainedCollection>,
}

fn bytes<'a>(kept: impl Iterator<Item = &'a RetainedCollection>) -> usize {
    kept.map(|kept| kept.collection.bytes()).sum()
}

impl RetainedCollections {
    /// Keeps a collection among the newest, and among the longest if its pause is long enough. Of the newest
    /// collections, at most `limit` are kept.
    pub(crate) fn observe(&mut self, collection: Box<Collection>, base: TimeBase, limit: usize, at: Moment) {
        let pause = length(collection.pause_ns);
        let remembered = RetainedCollection {
            collection: CompactCollection::new(*collection),
            base,
            trace_id: None,
        };
        if let Some(pause) = pause {
            self.lengthen(pause, at, &remembered);
        }
        if limit == 0 {
            return;
        }
        // A higher configured limit also raises the size.
        let room = MAX_NEWEST_BYTES.max(limit * 290);
        while self.newest.len() >= limit
            || (!self.newest.is_empty() && bytes(self.newest.iter()) + remembered.collection.bytes() > room)
        {
            self.newest.pop_front();
        }
        if self.newest.capacity() == self.newest.len() {
            self.newest.reserve_exact(1);
        }
        self.newest.push_back(remembered);
    }

    /// Keeps a collection if it is among the longest of the last 30 minutes.
    fn lengthen(&mut self, pause: u64, at: Moment, remembered: &RetainedCollection) {
        let from = at.before(HISTORY_NS);
        self.longest.retain(|(_, at, _)| *at >= from);
        let place = self.longest.partition_point(|(known, _, _)| *known > pause);
        if place >= MAX_LONGEST || remembered.collection.bytes() > MAX_LONGEST_BYTES {
            return;
        }
        self.longest.reserve_exact(1);
        self.longest.insert(place, (pause, at, remembered.clone()));
        self.longest.truncate(MAX_LONGEST);
        while bytes(self.longest.iter().map(|(_, _, kept)| kept)) > MAX_LONGEST_BYTES {
            self.longest.pop();
        }
        self.longest.shrink_to(MAX_LONGEST);
    }

    /// Sets the trace id of the most recently observed collection, which became spans.
    pub(crate) fn traced(&mut self, number: u32, trace_id: [u8; 16]) {
        let newest = self.newest.back_mut();
        let longest = self.longest.iter_mut().map(|(_, _, kept)| kept);
        for kept in newest.into_iter().chain(longest) {
            if kept.collection.number() == number {
                kept.trace_id = Some(trace_id);
            }
        }
    }

    /// Pins a collection if it is still kept. A pinned collection is kept until newer pinned collections need its room.
    pub(crate) fn pin(&mut self, number: u32) {
        let is_it = |kept: &&RetainedCollection| kept.collection.number() == number;
        if self.pinned.iter().any(|kept| is_it(&kept)) {
            return;
        }
        let longest = self.longest.iter().map(|(_, _, kept)| kept);
        let Some(kept) = self.newest.iter().rev().chain(longest).find(is_it).cloned() else {
            return;
        };
        if kept.collection.bytes() > MAX_PINNED_BYTES {
            return;
        }
        while self.pinned.len() >= MAX_PINNED || bytes(self.pinned.iter()) + kept.collection.bytes() > MAX_PINNED_BYTES
        {
            self.pinned.remove(0);
        }
        self.pinned.reserve_exact(1);
        self.pinned.push(kept);
    }

    /// Returns the collections that incidents refer to.
    pub fn pinned(&self) -> impl Iterator<Item = &RetainedCollection> {
        self.pinned.iter()
    }

    /// Returns the newest collections, in the order in which they were observed.
    pub fn newest(&self) -> impl DoubleEndedIterator<Item = &RetainedCollection> {
        self.newest.iter()
    }

    pub(crate) fn longest(&self, from: Moment) -> impl Iterator<Item = &RetainedCollection> {
        let young = self.longest.iter().filter(move |(_, at, _)| *at >= from);
        young.map(|(_, _, kept)| kept)
    }

    #[cfg(test)]
    pub(crate) fn memory_bytes(&self) -> usize {
        let packed = bytes(self.newest.iter()) + bytes(self.longest.iter().map(|(_, _, kept)| kept));
        let newest = self.newest.capacity() * size_of::<RetainedCollection>();
        let pinned = bytes(self.pinned.iter()) + self.pinned.capacity() * size_of::<RetainedCollection>();
        packed + pinned + newest + self.longest.capacity() * size_of::<(u64, Moment, RetainedCollection)>()
    }
}
