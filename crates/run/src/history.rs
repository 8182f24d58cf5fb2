//! What is remembered of one run for people to look at: the last half hour, in at most 21 KiB.
//!
//! ```text
//! History -> Buckets   10 s each, 30 minutes: time stopped, pauses, collections, allocation, heap, memory
//!            Marks     the newest 512 collections as points: when, which, how long
//!            Causes    why it collected, since the first attach
//!            Stopped   what it was stopped for, since the first attach and in the last minutes
//!            Kept      the newest few and the longest few collections in full
//! ```
//!
//! Values and times in, values out: no clock is asked. What is over a bound leaves oldest first; what was never seen
//! stays unknown. Sums are exact: over a recording that fits they are those of `gcwatch analyze`.
//!
//! | Part | Bound, bytes |
//! |---|---|
//! | buckets | [`MOST_BUCKET_BYTES`] packed, and the one that is open |
//! | marks | [`MOST_MARK_BYTES`] packed |
//! | causes | [`causes::MOST_CAUSES`] rows |
//! | kept collections | [`kept::MOST_NEWEST_BYTES`], [`kept::MOST_LONGEST_BYTES`], [`kept::MOST_PINNED_BYTES`] packed |

mod bucket;
mod buckets;
mod causes;
mod kept;
mod mark;
mod packed;
mod pauses;
mod room;
mod stopped;
pub mod stored;

#[cfg(test)]
mod tests;

use clr_gc::event::GcType;
use clr_gc::gc::{Collection, Suspension};
use gc_rules::engine::{collection_at, suspension_at};
use gc_rules::time::{Moment, TimeBase};

pub use bucket::{BUCKET_NS, Bucket, bucket_of};
use buckets::Buckets;
pub use causes::{Cause, Causes};
pub use kept::{Kept, Remembered};
pub use mark::Mark;
use packed::Queue;
pub use pauses::Pauses;
use processes::container::ledger::{HeapFigures, not_looked_at, old_objects};
pub use room::Room;
pub use stopped::Stopped;

/// How far back the buckets go, the one that is open included.
pub const BUCKETS: u64 = 180;
/// How far back the history goes.
pub const HISTORY_NS: u64 = BUCKETS * BUCKET_NS;
/// Limit of the points.
pub const MOST_MARKS: usize = 512;
/// Limit of the buckets' packed bytes. A busy one takes 30 to 60: of the busiest, the history goes back a little less.
const MOST_BUCKET_BYTES: usize = 10 << 10;
/// Limit of the points' packed bytes. One takes 7 to 9.
const MOST_MARK_BYTES: usize = 4608;

/// What is remembered of a run.
#[derive(Debug, Default)]
pub struct History {
    buckets: Buckets,
    marks: Queue<Mark>,
    /// Why it collected.
    pub causes: Causes,
    /// What it was stopped for.
    pub stopped: Stopped,
    /// Collections in full.
    pub kept: Kept,
    /// Collections observed.
    pub collections: u64,
    /// Suspensions without a collection.
    pub suspensions: u64,
    /// Of the collections, those that lie in a loss.
    pub lossy: u64,
    /// Of the collections, those of which a part was never seen.
    pub incomplete: u64,
    /// Changes with everything that is taken in: whoever has seen this number has seen all.
    pub revision: u64,
    /// Buckets before this one are on the disk.
    pub kept_until: u64,
    /// Figures of the newest collection.
    pub figures: Newest,
    /// The room in which the collector works.
    pub room: Room,
}

/// Figures of the newest collection that has them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Newest {
    /// Number of the newest collection.
    pub number: Option<u32>,
    /// When it was.
    pub at: Option<Moment>,
    /// Bytes in each generation after a collection.
    pub heap: [Option<u64>; 5],
    /// When that was; [`Moment::FIRST`]: never.
    heap_at: Moment,
    /// Bytes of old objects: generation 2, large and pinned ones, without free space.
    old: Option<u64>,
    /// The same after the newest full collection, and when that was.
    looked_at: Option<(u64, Moment)>,
    /// Free bytes inside them.
    pub fragmentation: Option<u64>,
    /// Bytes that the heap has committed, in use or kept.
    pub committed: Option<u64>,
    /// Of those, the ones in use.
    in_use: Option<u64>,
    /// Bytes committed for regions without objects.
    pub kept: Option<u64>,
    /// Bytes of the collector's tables.
    pub bookkeeping: Option<u64>,
    /// Pinned objects that it found.
    pub pinned_objects: Option<u32>,
    pub heap_count: Option<u32>,
    /// Load of the machine's or the container's memory as the runtime sees it, percent.
    pub memory_load_percent: Option<u32>,
}

impl Newest {
    /// Bytes in all generations.
    pub fn heap_after(&self) -> Option<u64> {
        let known = self.heap.iter().flatten();
        known.copied().reduce(u64::saturating_add)
    }

    /// Its memory at a time; the process is watched since another one.
    pub fn heap_figures(&self, now: Moment, since: Moment) -> HeapFigures {
        let ago_ns = |at: Moment| now.since(at);
        let looked_at = self.looked_at.map(|(bytes, at)| (bytes, ago_ns(at)));
        let not_looked_at = |old| not_looked_at(old, looked_at, ago_ns(since));
        HeapFigures {
            not_looked_at: self.old.map(not_looked_at),
            after: self.heap_after(),
            free: self.fragmentation,
            committed: self.in_use,
            kept: self.kept,
            bookkeeping: self.bookkeeping,
        }
    }

    fn observe(&mut self, collection: &Collection, at: Moment) {
        self.number = Some(collection.number);
        self.at = Some(at);
        // A foreground collection may be observed after the background collection that ended later.
        if collection.heap_stats.is_some() && self.heap_at <= at {
            self.heap_at = at;
            self.heap = collection.heap.each_ref().map(|sizes| sizes.after);
            self.fragmentation = collection.total(|sizes| sizes.fragmentation);
            self.old = old_objects(collection);
            if collection.generation == Some(2) {
                self.looked_at = self.old.map(|old| (old, at));
            }
            self.pinned_objects = collection.heap_stats.as_ref().map(|stats| stats.pinned_object_count);
        }
        if let Some(global) = &collection.global {
            self.heap_count = Some(global.heap_count);
            self.memory_load_percent = collection.memory_load_percent();
        }
        self.committed = committed(collection).or(self.committed);
        let in_use = collection.committed.after.or(collection.committed.before);
        self.in_use = in_use.or(self.in_use);
        self.kept = collection.committed.kept.or(self.kept);
        self.bookkeeping = collection.committed.bookkeeping.or(self.bookkeeping);
    }
}

/// What the heap had committed last, in use or kept, as far as a collection shows it.
fn committed(collection: &Collection) -> Option<u64> {
    collection
        .committed
        .total_after()
        .or(collection.committed.total_before())
}

/// A length that can be; a negative one is damage.
fn length(ns: Option<i64>) -> Option<u64> {
    ns.and_then(|ns| u64::try_from(ns).ok())
}

/// What a collection is counted as: one that became blocking is blocking.
fn type_of(collection: &Collection) -> Option<GcType> {
    if collection.became_blocking {
        Some(GcType::BLOCKING)
    } else {
        collection.gc_type
    }
}

impl History {
    /// Takes a collection. Its newest `limit` are kept in full. `now`: no event is later; [`Moment::NEVER`] where
    /// it is a recording.
    pub(crate) fn observe(&mut self, collection: Box<Collection>, base: TimeBase, limit: usize, now: Moment) {
        self.revision += 1;
        self.collections += 1;
        self.lossy += u64::from(collection.lossy);
        self.incomplete += u64::from(!collection.is_complete());
        let at = base.moment(collection_at(&collection)).min(now);
        let start = collection.start.map_or(at, |start| base.moment(start).min(at));
        self.buckets
            .at(at, |bucket| bucket.collection(&collection, length(collection.pause_ns)));
        if let Ok(allocated) = collection.allocated {
            let over = [allocated.since, allocated.until].map(|at| base.moment(at).min(now));
            self.buckets.allocated((over[0], over[1]), allocated.bytes);
        }
        for pause in &collection.pauses {
            if pause.spans.is_empty() {
                // Its part is known, its place is not.
                let part = length(pause.pause_ns).unwrap_or(0);
                self.buckets.stopped(at.before(part), part.min(HISTORY_NS), now);
            }
            for (from, to) in &pause.spans {
                let part = length(Some(to.saturating_sub(*from))).unwrap_or(0);
                self.buckets.stopped(base.moment(*from), part, now);
            }
        }
        self.marks.push(Mark::of(&collection, start));
        self.causes.observe(&collection);
        self.stopped.collection(&collection, at);
        self.figures.observe(&collection, at);
        self.room.observe(&collection, at);
        self.kept.observe(collection, base, limit, at);
    }

    /// Takes a suspension in which no collection ran.
    pub(crate) fn suspension(&mut self, suspension: &Suspension, base: TimeBase, now: Moment) {
        self.revision += 1;
        self.suspensions += 1;
        let ended = suspension_at(suspension).map(|at| base.moment(at));
        self.stopped.suspension(suspension, ended.unwrap_or(now).min(now));
        if let (Some(stopped), Some(ended)) = (length(suspension.stopped_ns), ended) {
            self.buckets.stopped(ended.before(stopped), stopped, now);
        }
    }

    /// Takes a reading of the memory that its container uses; `None`: unknown.
    pub(crate) fn measured(&mut self, container_memory: Option<u64>, now: Moment) {
        let Some(bytes) = container_memory else { return };
        self.revision += 1;
        self.buckets.at(now, |bucket| bucket.container_memory = Some(bytes));
    }

    /// The buckets in which there was something and that are not older than half an hour, in order.
    pub fn buckets(&self, now: Moment) -> Vec<Bucket> {
        let from = (bucket_of(now) + 1).saturating_sub(BUCKETS);
        self.buckets.all().filter(|bucket| bucket.index >= from).collect()
    }

    /// Those of them that are not on the disk.
    pub fn unkept(&self, now: Moment) -> Vec<Bucket> {
        let mut buckets = self.buckets(now);
        buckets.retain(|bucket| bucket.index >= self.kept_until);
        buckets
    }

    /// The pauses since then, of whole buckets.
    pub fn pauses_since(&self, from: Moment) -> Pauses {
        let mut pauses = Pauses::default();
        let from = bucket_of(from);
        for bucket in self.buckets.all().filter(|bucket| bucket.index >= from) {
            pauses.add(&bucket);
        }
        pauses
    }

    /// The newest collections as points, in the order in which they were observed.
    pub fn marks(&self) -> impl Iterator<Item = Mark> + '_ {
        self.marks.iter()
    }

    /// The longest of the last half hour in full, the longest first.
    pub fn longest(&self, now: Moment) -> impl Iterator<Item = &Remembered> {
        self.kept.longest(now.before(HISTORY_NS))
    }

    /// Bytes that this takes, itself included.
    #[cfg(test)]
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>()
            + self.buckets.memory_bytes()
            + self.marks.memory_bytes()
            + self.causes.memory_bytes()
            + self.kept.memory_bytes()
            + self.room.memory_bytes()
    }
}
