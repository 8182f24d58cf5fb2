//! The history of one run for display. It covers the last 30 minutes in at most 21 KiB.
//!
//! ```text
//! History -> Buckets   10 s each, 30 minutes: stopped time, pauses, collections, allocation, heap, memory
//!            Marks     the newest 512 collections as points: time, number, pause
//!            Causes    reasons of collections, since the first attach
//!            Stopped   causes of stopped time, since the first attach and in the last few minutes
//!            Kept      the newest and the longest collections, and the collections of incidents, in full
//! ```
//!
//! The module has no clock: its callers pass every time. If a part reaches its bound, its oldest items are dropped.
//! Exceptions: of the longest collections, the shortest is dropped, and further causes share one row. Values that were
//! never observed remain unknown. Sums are exact: for a recording that fits into the history, they equal the sums of
//! `gcwatch analyze`.
//!
//! | Part | Bound, bytes |
//! |---|---|
//! | buckets | [`MAX_BUCKET_BYTES`] packed, plus the open bucket |
//! | marks | [`MAX_MARK_BYTES`] packed |
//! | causes | [`causes::MAX_CAUSES`] rows |
//! | kept collections | [`kept::MAX_NEWEST_BYTES`], [`kept::MAX_LONGEST_BYTES`], [`kept::MAX_PINNED_BYTES`] packed |

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

use base::time::{Moment, TimeBase};
use clr_gc::event::GcType;
use clr_gc::gc::{Collection, Suspension};
use rule_engine::engine::{collection_at, suspension_at};

pub use bucket::{BUCKET_NS, Bucket, bucket_of};
use buckets::Buckets;
pub use causes::{Cause, Causes};
pub use kept::{RetainedCollection, RetainedCollections};
pub use mark::Mark;
use packed::Queue;
pub use pauses::Pauses;
use processes::container::ledger::{HeapFigures, not_looked_at, old_objects};
pub use room::RoomHistory;
pub use stopped::StoppedSums;

/// Number of buckets in the history, including the open bucket.
pub const BUCKETS: u64 = 180;
/// Length of the history, in nanoseconds.
pub const HISTORY_NS: u64 = BUCKETS * BUCKET_NS;
/// Maximum number of marks.
pub const MAX_MARKS: usize = 512;
/// Maximum size of the packed buckets in bytes. A busy bucket takes 30 to 60 bytes, so the history of the busiest
/// processes is slightly shorter.
const MAX_BUCKET_BYTES: usize = 10 << 10;
/// Maximum size of the packed marks in bytes. A mark takes 7 to 9 bytes.
const MAX_MARK_BYTES: usize = 4608;

/// History of a run.
#[derive(Debug, Default)]
pub struct History {
    buckets: Buckets,
    marks: Queue<Mark>,
    /// Reasons for the collections of the run.
    pub causes: Causes,
    /// Causes of the run's stopped time.
    pub stopped: StoppedSums,
    /// Collections kept in full.
    pub kept: RetainedCollections,
    /// Number of collections observed.
    pub collections: u64,
    /// Number of suspensions without a collection.
    pub suspensions: u64,
    /// Number of collections that overlap a loss of events.
    pub lossy: u64,
    /// Number of collections with at least one part that was never observed.
    pub incomplete: u64,
    /// Revision, which increases with every change. A viewer that has seen the current revision is up to date.
    pub revision: u64,
    /// Index of the first bucket that is not on disk.
    pub kept_until: u64,
    /// Newest known figures of the collections.
    pub figures: Newest,
    /// The collector's working room: memory that the collector has and does not use.
    pub room: RoomHistory,
}

/// The newest known figures of the collections. Each figure is from the newest collection that reports it, and is
/// `None` if no collection has reported it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Newest {
    /// Number of the newest collection.
    pub number: Option<u32>,
    /// Time of the newest collection; `None` before the first collection.
    pub at: Option<Moment>,
    /// Bytes in each generation after a collection.
    pub heap: [Option<u64>; 5],
    /// Time of the heap figures; [`Moment::FIRST`] if none are known.
    heap_at: Moment,
    /// Bytes of old objects: generation 2, large and pinned objects, without free space.
    old: Option<u64>,
    /// Bytes of old objects after the newest full collection, and the time of this collection; `None` before the first
    /// full collection.
    looked_at: Option<(u64, Moment)>,
    /// Free bytes inside the generations.
    pub fragmentation: Option<u64>,
    /// Bytes that the heap has committed, in use or kept.
    pub committed: Option<u64>,
    /// Committed bytes that are in use.
    in_use: Option<u64>,
    /// Bytes committed for regions without objects.
    pub kept: Option<u64>,
    /// Bytes of the collector's tables.
    pub bookkeeping: Option<u64>,
    /// Number of pinned objects that the collector found.
    pub pinned_objects: Option<u32>,
    pub heap_count: Option<u32>,
    /// Memory load of the machine or the container, as seen by the runtime, in percent.
    pub memory_load_percent: Option<u32>,
}

impl Newest {
    /// Returns the sum of the bytes in all generations, or `None` if no generation is known.
    pub fn heap_after(&self) -> Option<u64> {
        let known = self.heap.iter().flatten();
        known.copied().reduce(u64::saturating_add)
    }

    /// Returns the memory figures at `now`. The process has been monitored since `since`.
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
        // A foreground collection can be observed after the background collection that ended later.
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

/// Returns the latest committed bytes of the heap, in use or kept, that a collection reports, or `None` if it reports
/// none.
fn committed(collection: &Collection) -> Option<u64> {
    collection
        .committed
        .total_after()
        .or(collection.committed.total_before())
}

/// Converts a length. Returns `None` if the length is unknown, or negative because the stream is damaged.
fn length(ns: Option<i64>) -> Option<u64> {
    ns.and_then(|ns| u64::try_from(ns).ok())
}

/// Returns the type under which a collection is counted, or `None` if the type is unknown. A collection that became
/// blocking counts as blocking.
fn type_of(collection: &Collection) -> Option<GcType> {
    if collection.became_blocking {
        Some(GcType::BLOCKING)
    } else {
        collection.gc_type
    }
}

impl History {
    /// Adds a collection, and keeps the newest `limit` collections in full. Event times later than `now` are set to
    /// `now`, which is [`Moment::NEVER`] for a recording.
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
                // The length of the stopped time is known, but not its position, so it is assumed to end with the
                // collection.
                let part = length(pause.pause_ns).unwrap_or(0);
                self.buckets.stopped(at.before(part), part.min(HISTORY_NS), now);
            }
            for (from, to) in &pause.spans {
                let part = length(Some(to.saturating_sub(*from))).unwrap_or(0);
                self.buckets.stopped(base.moment(*from), part, now);
            }
        }
        self.marks.push(Mark::new(&collection, start));
        self.causes.observe(&collection);
        self.stopped.collection(&collection, at);
        self.figures.observe(&collection, at);
        self.room.observe(&collection, at);
        self.kept.observe(collection, base, limit, at);
    }

    /// Adds a suspension without a collection.
    pub(crate) fn suspension(&mut self, suspension: &Suspension, base: TimeBase, now: Moment) {
        self.revision += 1;
        self.suspensions += 1;
        let ended = suspension_at(suspension).map(|at| base.moment(at));
        self.stopped.suspension(suspension, ended.unwrap_or(now).min(now));
        if let (Some(stopped), Some(ended)) = (length(suspension.stopped_ns), ended) {
            self.buckets.stopped(ended.before(stopped), stopped, now);
        }
    }

    /// Adds a reading of the memory that the container uses, in bytes. Ignores `None`, an unknown reading.
    pub(crate) fn measured(&mut self, container_memory: Option<u64>, now: Moment) {
        let Some(bytes) = container_memory else { return };
        self.revision += 1;
        self.buckets.at(now, |bucket| bucket.container_memory = Some(bytes));
    }

    /// Returns the non-empty buckets of the last 30 minutes, in order.
    pub fn buckets(&self, now: Moment) -> Vec<Bucket> {
        let from = (bucket_of(now) + 1).saturating_sub(BUCKETS);
        self.buckets.all().filter(|bucket| bucket.index >= from).collect()
    }

    /// Returns the non-empty buckets of the last 30 minutes that are not on disk, in order.
    pub fn unkept(&self, now: Moment) -> Vec<Bucket> {
        let mut buckets = self.buckets(now);
        buckets.retain(|bucket| bucket.index >= self.kept_until);
        buckets
    }

    /// Returns the pauses since the start of the bucket that contains `from`.
    pub fn pauses_since(&self, from: Moment) -> Pauses {
        let mut pauses = Pauses::default();
        let from = bucket_of(from);
        for bucket in self.buckets.all().filter(|bucket| bucket.index >= from) {
            pauses.add(&bucket);
        }
        pauses
    }

    /// Returns the newest collections as points, in the order in which they were observed.
    pub fn marks(&self) -> impl Iterator<Item = Mark> + '_ {
        self.marks.iter()
    }

    /// Returns the longest collections of the last 30 minutes in full, the longest first.
    pub fn longest(&self, now: Moment) -> impl Iterator<Item = &RetainedCollection> {
        self.kept.longest(now.before(HISTORY_NS))
    }

    /// Returns the number of bytes used, including the struct itself.
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
