//! Collections that are kept in full: the newest few, and the longest few of the last half hour.

use std::collections::VecDeque;

use base::time::{Moment, TimeBase};
use clr_gc::gc::{Collection, CompactCollection};

use super::{HISTORY_NS, length};

/// Limit of the longest.
const MOST_LONGEST: usize = 3;
/// Limit of the newest ones' packed bytes; the newest alone may have any size.
pub(crate) const MOST_NEWEST_BYTES: usize = 2048;
/// Limit of the longest ones' packed bytes.
pub(crate) const MOST_LONGEST_BYTES: usize = 768;

/// Limit of those that incidents refer to.
const MOST_PINNED: usize = 4;
/// Limit of their packed bytes.
pub(crate) const MOST_PINNED_BYTES: usize = 1536;

/// A collection that is remembered, with the time of its stream.
#[derive(Debug, Clone)]
pub struct Remembered {
    pub collection: CompactCollection,
    /// Where its offsets lie.
    pub base: TimeBase,
    /// Its trace, where it became spans.
    pub trace_id: Option<[u8; 16]>,
}

/// Those that are kept.
#[derive(Debug, Default)]
pub struct Kept {
    /// In the order in which they were observed.
    newest: VecDeque<Remembered>,
    /// With pause and time, the longest first.
    longest: Vec<(u64, Moment, Remembered)>,
    /// Those that incidents refer to, the oldest first.
    pinned: Vec<Remembered>,
}

fn bytes<'a>(kept: impl Iterator<Item = &'a Remembered>) -> usize {
    kept.map(|kept| kept.collection.bytes()).sum()
}

impl Kept {
    /// Keeps a collection in the place of the oldest of `limit`.
    pub(crate) fn observe(&mut self, collection: Box<Collection>, base: TimeBase, limit: usize, at: Moment) {
        let pause = length(collection.pause_ns);
        let remembered = Remembered {
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
        // Whoever wants more of them gets more.
        let room = MOST_NEWEST_BYTES.max(limit * 290);
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

    /// Keeps a collection where it is among the longest of the last half hour.
    fn lengthen(&mut self, pause: u64, at: Moment, remembered: &Remembered) {
        let from = at.before(HISTORY_NS);
        self.longest.retain(|(_, at, _)| *at >= from);
        let place = self.longest.partition_point(|(known, _, _)| *known > pause);
        if place >= MOST_LONGEST || remembered.collection.bytes() > MOST_LONGEST_BYTES {
            return;
        }
        self.longest.reserve_exact(1);
        self.longest.insert(place, (pause, at, remembered.clone()));
        self.longest.truncate(MOST_LONGEST);
        while bytes(self.longest.iter().map(|(_, _, kept)| kept)) > MOST_LONGEST_BYTES {
            self.longest.pop();
        }
        self.longest.shrink_to(MOST_LONGEST);
    }

    /// The collection observed last became spans of this trace.
    pub(crate) fn traced(&mut self, number: u32, trace_id: [u8; 16]) {
        let newest = self.newest.back_mut();
        let longest = self.longest.iter_mut().map(|(_, _, kept)| kept);
        for kept in newest.into_iter().chain(longest) {
            if kept.collection.number() == number {
                kept.trace_id = Some(trace_id);
            }
        }
    }

    /// Keeps one of those that are there for as long as the run is remembered. The oldest leave for newer ones.
    pub(crate) fn pin(&mut self, number: u32) {
        let is_it = |kept: &&Remembered| kept.collection.number() == number;
        if self.pinned.iter().any(|kept| is_it(&kept)) {
            return;
        }
        let longest = self.longest.iter().map(|(_, _, kept)| kept);
        let Some(kept) = self.newest.iter().rev().chain(longest).find(is_it).cloned() else {
            return;
        };
        if kept.collection.bytes() > MOST_PINNED_BYTES {
            return;
        }
        while self.pinned.len() >= MOST_PINNED
            || bytes(self.pinned.iter()) + kept.collection.bytes() > MOST_PINNED_BYTES
        {
            self.pinned.remove(0);
        }
        self.pinned.reserve_exact(1);
        self.pinned.push(kept);
    }

    /// The ones that incidents refer to.
    pub fn pinned(&self) -> impl Iterator<Item = &Remembered> {
        self.pinned.iter()
    }

    /// The newest ones, in the order in which they were observed.
    pub fn newest(&self) -> impl DoubleEndedIterator<Item = &Remembered> {
        self.newest.iter()
    }

    pub(crate) fn longest(&self, from: Moment) -> impl Iterator<Item = &Remembered> {
        let young = self.longest.iter().filter(move |(_, at, _)| *at >= from);
        young.map(|(_, _, kept)| kept)
    }

    #[cfg(test)]
    pub(crate) fn memory_bytes(&self) -> usize {
        let packed = bytes(self.newest.iter()) + bytes(self.longest.iter().map(|(_, _, kept)| kept));
        let newest = self.newest.capacity() * size_of::<Remembered>();
        let pinned = bytes(self.pinned.iter()) + self.pinned.capacity() * size_of::<Remembered>();
        packed + pinned + newest + self.longest.capacity() * size_of::<(u64, Moment, Remembered)>()
    }
}
