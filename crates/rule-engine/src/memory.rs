//! Level, trend and age of the memory of one process: the facts on which memory verdicts are based.
//!
//! ```text
//! collections ---------------> heap: live after full collections ----+
//! private memory ------------> process ------------------------------+-> MemoryHistory -> MemoryTrends
//! container's held memory ---> container ----------------------------+   (1 per process)  (fields, page, API)
//! ```
//!
//! | Memory | Level | Trend |
//! |---|---|---|
//! | container | memory that the kernel cannot reclaim, as a share of the container's limit | the same memory without unvisited heap bytes |
//! | process | private memory, as a share of the container's limit | private memory without unvisited heap bytes |
//! | heap | live bytes after the newest full collection, as a share of the heap's limit | the same bytes; before the first full collection, bytes in use after the first collection |
//!
//! A heap byte is *unvisited* if it survived a collection of generation 0 or 1 and no full collection has visited it
//! since. Such a byte can be dead. A latency mode that prevents full collections (LowLatency, a no-GC region) is the
//! exception: objects that become old in this mode stay, so they count as growth of the process. These objects do not
//! count as growth of the container, because the runtime does run full collections when memory is short.
//!
//! Without unvisited bytes, a memory rises in steps, one per full collection. The steps can be minutes apart, so they
//! show the end of a warm-up late, but the memory including unvisited bytes stops growing at once. Therefore this whole
//! memory must grow too.
//!
//! The trend of each memory is the slope of its [lower envelope](envelope). The age of the trend is the time since this
//! slope started. Trend and age are unknown if too little was observed. The trend is 0 if the memory does not grow.
//!
//! The state of one process takes at most [`MemoryHistory::MAX_BYTES`].

mod envelope;

use clr_gc::event::PauseMode;
use clr_gc::gc::{Collection, GenerationSizes};

use crate::field::{Limits, MemoryTrend, MemoryTrends, StreamFacts};
use base::time::Moment;
use envelope::{Envelope, Growth};

/// Length of the time slots of a window of five minutes, in nanoseconds.
const FAST_SLOT_NS: u64 = 15_000_000_000;

/// Length of the time slots of a window of one hour, in nanoseconds.
const SLOW_SLOT_NS: u64 = 180_000_000_000;

/// Maximum time without a collection. After a longer time, the process can be filling generation 0, so its private
/// memory shows no trend.
const MAX_QUIET_NS: u64 = 100_000_000_000;

/// Minimum growth in five minutes, as a share of the deepest fall. For one hour there is no minimum, so that a batch
/// within this hour does not hide a leak.
const MIN_SHARE: f64 = 0.3;

/// Maximum time without a rise, as a number of gaps between rises. After a longer time, growth has ended.
const MAX_GAPS: f64 = 2.0;

/// Maximum number of gaps for a memory without unvisited bytes. This part rises only with full collections, and the
/// whole memory shows the end of growth.
const MAX_PART_GAPS: f64 = 3.0;

/// Maximum number of gaps for a memory including unvisited bytes, which rises with each collection.
const MAX_WHOLE_GAPS: f64 = 1.5;

/// Minimum observation time after which a memory without growth has the trend 0.
const MIN_WATCHED_NS: u64 = 60_000_000_000;

/// History of the memory of one process. Pure: [`Self::collection`] and [`Self::observe`] take values and their time.
#[derive(Debug, Default)]
pub(crate) struct MemoryHistory {
    container: Option<Box<Track>>,
    process: Option<Box<Track>>,
    heap: Option<Box<Track>>,
    heap_now: Option<Heap>,
    /// Whether the samples of `process` are private memory.
    has_private: bool,
}

/// State of the heap as of the newest collections.
#[derive(Debug, Clone, Copy)]
struct Heap {
    /// Time of the newest collection.
    at: Moment,
    /// Bytes of objects after the newest collection.
    in_use: u64,
    /// Bytes of objects after the newest full collection or, before the first full collection, after the first
    /// collection.
    visited: u64,
    /// Time of the collection of `visited`.
    visited_at: Moment,
    /// Whether the collection of `visited` was a full collection.
    is_full: bool,
    /// Unvisited bytes when the latency mode was first observed. `None` unless the mode prevents full collections.
    unvisited_before_mode: Option<u64>,
}

impl Heap {
    fn unvisited(&self) -> u64 {
        self.in_use.saturating_sub(self.visited)
    }

    /// Returns the unvisited bytes that do not count as growth.
    fn uncounted(&self) -> u64 {
        let unvisited = self.unvisited();
        self.unvisited_before_mode
            .map_or(unvisited, |before| unvisited.min(before))
    }
}

/// A sample of a memory, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Sample {
    /// The memory without unvisited bytes that do not count as growth.
    visited: u64,
    /// The memory that must also grow: the memory with unvisited bytes or, for the heap, the private memory.
    whole: u64,
}

/// Samples of one memory.
#[derive(Debug)]
struct Track {
    began: Moment,
    /// Samples without unvisited bytes, over five minutes.
    fast: Envelope,
    /// Samples without unvisited bytes, over one hour.
    slow: Envelope,
    /// Samples of the whole memory, over five minutes.
    whole: Envelope,
    /// Whether `visited` and `whole` differed in any sample.
    is_part: bool,
    /// The newest sample and its slot, so that equal samples in one slot cost nothing.
    newest: (Sample, u64),
    trend: MemoryTrend,
}

impl Track {
    fn new(at: Moment) -> Self {
        Self {
            began: at,
            fast: Envelope::new(FAST_SLOT_NS),
            slow: Envelope::new(SLOW_SLOT_NS),
            whole: Envelope::new(FAST_SLOT_NS),
            is_part: false,
            newest: (Sample::default(), u64::MAX),
            trend: MemoryTrend::default(),
        }
    }

    fn add(&mut self, at: Moment, sample: Sample) {
        let newest = (sample, at.ns() / FAST_SLOT_NS);
        if newest == self.newest {
            return;
        }
        self.newest = newest;
        self.is_part |= sample.visited != sample.whole;
        self.fast.add(at, sample.visited);
        self.slow.add(at, sample.visited);
        self.whole.add(at, sample.whole);
        self.update(at);
    }

    /// Recomputes the trend.
    fn update(&mut self, now: Moment) {
        // The whole memory shows the end of growth at once. A part of it rises only with full collections and cannot
        // grow faster than the whole for long, because its rise replaces unvisited bytes.
        let fast = if self.is_part {
            let fast = self.fast.growth(now, MAX_PART_GAPS, MIN_SHARE);
            fast.zip(self.whole.growth(now, MAX_WHOLE_GAPS, MIN_SHARE))
                .map(|(fast, whole)| Growth {
                    per_minute: fast.per_minute.min(whole.overdue_per_minute()),
                    ..fast
                })
        } else {
            self.fast.growth(now, MAX_GAPS, MIN_SHARE).map(|fast| Growth {
                per_minute: fast.overdue_per_minute(),
                ..fast
            })
        };
        let slow = self.slow.growth(now, MAX_GAPS, 0.0);
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
            self.newest = (Sample::default(), slot);
            self.update(now);
        }
    }
}

impl MemoryHistory {
    /// Maximum memory of the history of one process, in bytes.
    pub(crate) const MAX_BYTES: usize = size_of::<Self>() + 3 * (size_of::<Track>() + 3 * Envelope::MAX_BYTES);

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
    }

    /// Applies the facts at `now`, about once per second. The container is tracked only if it has a limit.
    pub(crate) fn observe(&mut self, now: Moment, stream: &StreamFacts, limits: Limits) {
        let uncounted = self.heap_now.map_or(0, |heap| heap.uncounted());
        let sample = |track: &mut Option<Box<Track>>, sample: Option<Sample>| match sample {
            Some(sample) => {
                let track = track.get_or_insert_with(|| Box::new(Track::new(now)));
                track.add(now, sample);
            }
            None => {
                if let Some(track) = track {
                    track.pass(now);
                }
            }
        };
        let unvisited = self.heap_now.map_or(0, |heap| heap.unvisited());
        let without = |whole: u64, bytes: u64| Sample {
            visited: whole.saturating_sub(bytes),
            whole,
        };
        let held = stream.container.memory_held.filter(|_| limits.container.is_some());
        sample(&mut self.container, held.map(|held| without(held, unvisited)));
        let private = stream.memory.private;
        if private.is_some() && !self.has_private {
            self.has_private = true;
            (self.process, self.heap) = (None, None);
        }
        // Between collections, private memory rises with each allocation until generation 0 is full.
        let recent = self.heap_now.filter(|heap| now.since(heap.at) < MAX_QUIET_NS);
        let process = recent.and_then(|heap| {
            let whole = if self.has_private { private? } else { heap.in_use };
            Some(without(whole, uncounted))
        });
        sample(&mut self.process, process);
        // Bytes in use form a saw-tooth between full collections, so private memory shows whether the heap still grows.
        // A recording has no private memory.
        let heap = self.heap_now.map(|heap| Sample {
            visited: heap.visited,
            whole: private.unwrap_or(heap.visited),
        });
        sample(&mut self.heap, heap);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::{ContainerFacts, MemoryFacts};
    use clr_gc::event::{GcReason, GlobalMechanisms};
    use clr_gc::gc::{GlobalHistory, Phases};

    const MIB: u64 = 1 << 20;

    fn at(second: u64) -> Moment {
        Moment::from_ns((1_000_000 + second) * 1_000_000_000)
    }

    /// Returns a collection that leaves `mib` MiB in generation 2.
    fn collection(generation: u32, mib: u64, mode: PauseMode) -> Collection {
        let mut collection = Collection::unknown(1);
        collection.generation = Some(generation);
        if let Some(gen2) = collection.heap.get_mut(2) {
            (gen2.after, gen2.fragmentation) = (Some(mib * MIB), Some(0));
        }
        collection.global = Some(GlobalHistory {
            heap_count: 1,
            gen0_budget: 0,
            condemned_generation: generation,
            reason: GcReason(0),
            mechanisms: GlobalMechanisms(0),
            pause_mode: mode,
            memory_load_percent: 0,
            condemn_reasons0: None,
            condemn_reasons1: None,
            phases: Phases::default(),
        });
        collection
    }

    fn stream(private: Option<u64>, held: Option<u64>) -> StreamFacts {
        StreamFacts {
            memory: MemoryFacts {
                private: private.map(|mib| mib * MIB),
                ..MemoryFacts::default()
            },
            container: ContainerFacts {
                memory_held: held.map(|mib| mib * MIB),
                ..ContainerFacts::default()
            },
            ..StreamFacts::default()
        }
    }

    /// Returns the facts after `seconds` young collections, one per second. Each collection leaves 1 MiB more in the
    /// heap, in private memory and in the container.
    fn young_growth(seconds: u64, mode: PauseMode, reads_private: bool) -> MemoryTrends {
        let mut history = MemoryHistory::default();
        history.collection(&collection(2, 50, mode), at(0));
        let limits = Limits {
            container: Some(1000 * MIB),
            heap: Some(500 * MIB),
        };
        let mut last = StreamFacts::default();
        for second in 1..=seconds {
            history.collection(&collection(1, 50 + second, mode), at(second));
            last = stream(reads_private.then_some(100 + second), Some(200 + second));
            history.observe(at(second), &last, limits);
        }
        history.trends(&last, limits)
    }

    fn mib_per_minute(trend: &MemoryTrend) -> Option<f64> {
        trend.per_minute.map(|bytes| (bytes / MIB as f64).round())
    }

    /// Scenario: each second, a young collection leaves 1 MiB more, and no full collection visits it; then the same
    /// happens in the latency mode LowLatency.
    /// Guarantee: unvisited bytes have no trend. In LowLatency, they are growth of the process, not of the container.
    #[test]
    fn unvisited_bytes_grow_only_in_latency_mode() {
        let facts = young_growth(150, PauseMode(1), true);
        assert_eq!(mib_per_minute(&facts.process), Some(0.0));
        assert_eq!(mib_per_minute(&facts.container), Some(0.0));
        assert_eq!(
            (facts.unvisited, facts.is_full_kept_away),
            (Some(150 * MIB), Some(false))
        );
        let facts = young_growth(150, PauseMode::LOW_LATENCY, true);
        assert_eq!(mib_per_minute(&facts.process), Some(60.0));
        assert_eq!(mib_per_minute(&facts.container), Some(0.0));
        assert_eq!(facts.is_full_kept_away, Some(true));
        assert!(facts.process.since.is_some_and(|since| since <= at(20)));
    }

    /// Scenario: a recording, which has no private memory, contains the mode LowLatency.
    /// Guarantee: the trend of the process is the trend of the heap, and its bytes and level are unknown.
    #[test]
    fn recording_has_trend_of_heap() {
        let facts = young_growth(150, PauseMode::LOW_LATENCY, false);
        assert_eq!(mib_per_minute(&facts.process), Some(60.0));
        assert_eq!((facts.process.bytes, facts.process.level), (None, None));
    }

    /// Scenario: full collections every 10 s each leave 5 MiB more, under limits.
    /// Guarantee: the heap grows by 30 MiB per minute, levels are shares of the limits, and no bytes are unvisited.
    #[test]
    fn full_collections_show_trend_and_level() {
        let mut history = MemoryHistory::default();
        let limits = Limits {
            container: Some(1000 * MIB),
            heap: Some(500 * MIB),
        };
        let mut last = StreamFacts::default();
        for second in 0..=200 {
            if second % 10 == 0 {
                history.collection(&collection(2, 100 + second / 2, PauseMode(1)), at(second));
            }
            last = stream(Some(200 + second / 2), Some(300 + second / 2));
            history.observe(at(second), &last, limits);
        }
        let facts = history.trends(&last, limits);
        for trend in [&facts.heap, &facts.process, &facts.container] {
            let pace = mib_per_minute(trend).unwrap();
            assert!((27.0..33.0).contains(&pace), "{trend:?}");
        }
        assert_eq!(facts.heap.level, Some(0.4));
        assert_eq!(facts.process.level, Some(0.3));
        assert_eq!(facts.container.level, Some(0.4));
        assert_eq!((facts.unvisited, facts.full_collection), (Some(0), Some(at(200))));
    }

    /// Scenario: a warm-up adds 2 MiB per second for two minutes, with full collections after 10, 30, 60 and 110 s.
    /// Guarantee: the process grows during the warm-up, and no longer grows 55 s after the end of the warm-up.
    #[test]
    fn growth_ends_with_the_whole_memory() {
        let mut history = MemoryHistory::default();
        for second in 0..400 {
            let grown = 2 * second.min(120);
            let generation = if [10, 30, 60, 110].contains(&second) { 2 } else { 1 };
            history.collection(&collection(generation, 20 + grown, PauseMode(1)), at(second));
            let last = stream(Some(60 + grown), None);
            history.observe(at(second), &last, Limits::default());
            let pace = mib_per_minute(&history.trends(&last, Limits::default()).process);
            match second {
                115 => assert!(pace > Some(60.0), "{pace:?}"),
                175.. => assert_eq!(pace, Some(0.0), "{second}"),
                _ => {}
            }
        }
    }

    /// Scenario: there is no collection and no reading; then a process stops collecting and fills generation 0.
    /// Guarantee: unknown facts are `None`, and the trend of private memory is 0 if the last collection was more than
    /// 100 s ago.
    #[test]
    fn unknown_is_not_zero() {
        let mut history = MemoryHistory::default();
        let facts = history.trends(&StreamFacts::default(), Limits::default());
        assert_eq!(facts, MemoryTrends::default());
        history.collection(&collection(0, 10, PauseMode(1)), at(0));
        for second in 0..600 {
            history.observe(at(second), &stream(Some(100 + second), None), Limits::default());
        }
        let facts = history.trends(&stream(Some(700), None), Limits::default());
        assert_eq!(mib_per_minute(&facts.process), Some(0.0));
        assert_eq!(facts.process.bytes, Some(700 * MIB));
        assert_eq!((facts.process.level, facts.heap.bytes), (None, None));
    }
}
