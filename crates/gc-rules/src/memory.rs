//! Level, trend and age of the memory of one process: the facts that verdicts on memory rest on.
//!
//! ```text
//! collections ---------------> heap: live after full collections ----+
//! private memory ------------> process ------------------------------+-> MemoryHistory -> MemoryTrends
//! container's held memory ---> container ----------------------------+   (one a process)  (fields, page, API)
//! ```
//!
//! | Memory | Level | Trend |
//! |---|---|---|
//! | container | memory that the kernel cannot reclaim, as a share of the container's limit | the same memory without unvisited heap bytes |
//! | process | private memory, as a share of the container's limit | private memory without unvisited heap bytes |
//! | heap | live bytes after the newest full collection, as a share of the heap's limit | the same bytes |
//!
//! A heap byte is *unvisited* if it survived a collection of generation 0 or 1 and no full collection has looked at it
//! since: it may be dead. A latency mode that keeps full collections away (LowLatency, a no-GC region) is the
//! exception: what becomes old in it stays, so it counts as growth.
//!
//! The trend of each memory is the slope of its [lower envelope](envelope). The age of the trend is the time since that
//! slope started. Both are unknown where too little was seen, and the trend is 0 where memory does not grow.
//!
//! The state of one process takes at most [`MemoryHistory::MAX_BYTES`].

mod envelope;

use clr_gc::event::PauseMode;
use clr_gc::gc::{Collection, GenerationSizes};

use crate::field::StreamFacts;
use crate::time::Moment;
use envelope::{Envelope, Growth};

/// Length of the slots of a window of five minutes.
const FAST_SLOT_NS: u64 = 15_000_000_000;

/// Length of the slots of a window of one hour.
const SLOW_SLOT_NS: u64 = 180_000_000_000;

/// A process without a collection for this long may be filling generation 0: its private memory shows no trend.
const REST_NS: u64 = 100_000_000_000;

/// Minimum time of observation before a memory without growth has the trend 0.
const MIN_WATCHED_NS: u64 = 60_000_000_000;

/// The facts about one memory.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct MemoryTrend {
    /// The memory in bytes; `None` if unknown.
    pub bytes: Option<u64>,
    /// The share of the smallest limit that holds, 0 to 1 and above; `None` without a limit or if unknown.
    pub level: Option<f64>,
    /// Growth over the last five minutes in bytes per minute, 0 if the memory does not grow; `None` if too little was
    /// observed.
    pub per_minute: Option<f64>,
    /// Growth over the last hour in bytes per minute, like `per_minute`.
    pub slow_per_minute: Option<f64>,
    /// Start of the growth over the last five minutes, or of that over the last hour if that is earlier; `None` if the
    /// memory does not grow.
    pub since: Option<Moment>,
    /// Start of the growth over the last hour; `None` if there is none.
    pub slow_since: Option<Moment>,
}

/// The facts about the three memories of a process.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct MemoryTrends {
    /// The container's memory that the kernel cannot reclaim.
    pub container: MemoryTrend,
    /// The private memory of the process. Without a reading of it, as in a recording, the trend is that of the heap.
    pub process: MemoryTrend,
    /// Live bytes of the heap after the newest full collection.
    pub heap: MemoryTrend,
    /// Heap bytes that no full collection has visited; `None` before the first collection.
    pub unvisited: Option<u64>,
    /// Time of the newest full collection, or of the first collection if no full one was observed.
    pub full_collection: Option<Moment>,
    /// Whether the latency mode keeps full collections away.
    pub is_full_kept_away: Option<bool>,
}

/// The limits that levels relate to, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Limits {
    pub(crate) container: Option<u64>,
    pub(crate) heap: Option<u64>,
}

/// The memory of one process over time. Pure: [`Self::collection`] and [`Self::observe`] take values and their time.
#[derive(Debug, Default)]
pub(crate) struct MemoryHistory {
    container: Option<Box<Track>>,
    process: Option<Box<Track>>,
    heap: Option<Box<Track>>,
    heap_now: Option<Heap>,
    /// Whether the samples of `process` are of private memory.
    has_private: bool,
}

/// The heap as of the newest collections.
#[derive(Debug, Clone, Copy)]
struct Heap {
    /// Time of the newest collection.
    at: Moment,
    /// Bytes of objects after it.
    in_use: u64,
    /// Bytes of objects after the newest full collection; before the first full one, after the first collection.
    visited: u64,
    /// Time of that collection.
    visited_at: Moment,
    /// Whether that was a full collection.
    is_full: bool,
    /// Set while the latency mode keeps full collections away: unvisited bytes when the mode was first observed.
    unvisited_before_mode: Option<u64>,
}

impl Heap {
    fn unvisited(&self) -> u64 {
        self.in_use.saturating_sub(self.visited)
    }

    /// Unvisited bytes that are not growth.
    fn uncounted(&self) -> u64 {
        let unvisited = self.unvisited();
        self.unvisited_before_mode
            .map_or(unvisited, |before| unvisited.min(before))
    }
}

/// Samples of one memory.
#[derive(Debug)]
struct Track {
    began: Moment,
    fast: Envelope,
    slow: Envelope,
    /// The newest sample and its slot, so that equal samples in one slot cost nothing.
    newest: (u64, u64),
    trend: MemoryTrend,
}

impl Track {
    fn new(at: Moment) -> Self {
        Self {
            began: at,
            fast: Envelope::new(FAST_SLOT_NS),
            slow: Envelope::new(SLOW_SLOT_NS),
            newest: (u64::MAX, u64::MAX),
            trend: MemoryTrend::default(),
        }
    }

    fn add(&mut self, at: Moment, bytes: u64) {
        let sample = (bytes, at.ns() / FAST_SLOT_NS);
        if sample == self.newest {
            return;
        }
        self.newest = sample;
        self.fast.add(at, bytes);
        self.slow.add(at, bytes);
        self.update(at);
    }

    /// Recomputes the trend.
    fn update(&mut self, now: Moment) {
        let (fast, slow) = (self.fast.growth(now), self.slow.growth(now));
        let watched = now.since(self.began);
        let pace = |growth: Option<Growth>, least: u64| match growth {
            Some(growth) => Some(growth.per_minute),
            None => (watched >= least).then_some(0.0),
        };
        let starts = [fast, slow]
            .into_iter()
            .flatten()
            .map(|growth| growth.since.max(self.began));
        self.trend.per_minute = pace(fast, MIN_WATCHED_NS);
        self.trend.slow_per_minute = pace(slow, 10 * MIN_WATCHED_NS);
        self.trend.since = fast.and_then(|_| starts.min());
        self.trend.slow_since = slow.map(|slow| slow.since.max(self.began));
    }

    /// Recomputes the trend if a slot has passed without a sample.
    fn pass(&mut self, now: Moment) {
        let slot = now.ns() / FAST_SLOT_NS;
        if self.newest.1 < slot {
            self.newest = (u64::MAX, slot);
            self.update(now);
        }
    }
}

impl MemoryHistory {
    /// Maximum memory of the history of one process, in bytes.
    pub(crate) const MAX_BYTES: usize = size_of::<Self>() + 3 * (size_of::<Track>() + 2 * Envelope::MAX_BYTES);

    /// Applies a collection that ended at `at`.
    pub(crate) fn collection(&mut self, collection: &Collection, at: Moment) {
        let used = |sizes: &GenerationSizes| Some(sizes.after?.saturating_sub(sizes.fragmentation.unwrap_or(0)));
        let Some(in_use) = collection.total(used) else { return };
        let is_full = collection.generation == Some(2);
        let mode = collection.global.as_ref().map(|global| global.pause_mode);
        let keeps_away = mode.is_some_and(|mode| matches!(mode, PauseMode::LOW_LATENCY | PauseMode::NO_GC));
        // A foreground collection can be reported after the background collection that contains it.
        let before = self.heap_now.filter(|heap| heap.at <= at);
        if before.is_none() && self.heap_now.is_some() {
            return;
        }
        let mut heap = before.unwrap_or(Heap {
            at,
            in_use,
            visited: in_use,
            visited_at: at,
            is_full,
            unvisited_before_mode: None,
        });
        (heap.at, heap.in_use) = (at, in_use);
        if is_full {
            (heap.visited, heap.visited_at, heap.is_full) = (in_use, at, true);
        }
        heap.unvisited_before_mode = keeps_away.then(|| {
            let unvisited = heap.unvisited();
            heap.unvisited_before_mode.unwrap_or(unvisited).min(unvisited)
        });
        self.heap_now = Some(heap);
        if is_full {
            self.heap
                .get_or_insert_with(|| Box::new(Track::new(at)))
                .add(at, in_use);
        }
    }

    /// Applies what is known at `now`, about once a second.
    pub(crate) fn observe(&mut self, now: Moment, stream: &StreamFacts) {
        let uncounted = self.heap_now.map_or(0, |heap| heap.uncounted());
        let sample = |track: &mut Option<Box<Track>>, bytes: Option<u64>| match bytes {
            Some(bytes) => track.get_or_insert_with(|| Box::new(Track::new(now))).add(now, bytes),
            None => {
                if let Some(track) = track {
                    track.pass(now);
                }
            }
        };
        let held = stream.container.memory_held;
        sample(&mut self.container, held.map(|held| held.saturating_sub(uncounted)));
        if stream.memory.private.is_some() && !self.has_private {
            self.has_private = true;
            self.process = None;
        }
        // Between collections, private memory rises with each allocation until generation 0 is full.
        let heap = self.heap_now.filter(|heap| now.since(heap.at) < REST_NS);
        let process = heap.and_then(|heap| {
            let all = if self.has_private {
                stream.memory.private?
            } else {
                heap.in_use
            };
            Some(all.saturating_sub(uncounted))
        });
        sample(&mut self.process, process);
        if let Some(heap) = &mut self.heap {
            heap.pass(now);
        }
    }

    /// Returns the facts at the newest time.
    pub(crate) fn trends(&self, stream: &StreamFacts, limits: Limits) -> MemoryTrends {
        let of = |track: &Option<Box<Track>>, bytes: Option<u64>, limit: Option<u64>| MemoryTrend {
            bytes,
            level: bytes
                .zip(limit)
                .filter(|(_, limit)| *limit > 0)
                .map(|(bytes, limit)| bytes as f64 / limit as f64),
            ..track.as_ref().map(|track| track.trend).unwrap_or_default()
        };
        let visited = self.heap_now.filter(|heap| heap.is_full).map(|heap| heap.visited);
        MemoryTrends {
            container: of(&self.container, stream.container.memory_held, limits.container),
            process: of(&self.process, stream.memory.private, limits.container),
            heap: of(&self.heap, visited, limits.heap),
            unvisited: self.heap_now.map(|heap| heap.unvisited()),
            full_collection: self.heap_now.map(|heap| heap.visited_at),
            is_full_kept_away: self.heap_now.map(|heap| heap.unvisited_before_mode.is_some()),
        }
    }
}
