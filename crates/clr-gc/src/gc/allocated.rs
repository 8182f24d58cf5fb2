//! The number of bytes that the program allocated between two collections.
//!
//! No event states this number. The number follows from the per-heap histories of the generations in which programs
//! allocate (0, large, pinned): the live bytes before a collection minus the live bytes after the previous collection.
//! *Live* is the size without the free list and without free space too small for it. Allocations into free space
//! therefore count, and the unused ends of allocation contexts, which the collector turns into free objects, do not
//! count. The result was compared with `GC.GetTotalAllocatedBytes`; see docs/compatibility.md.
//!
//! **.NET Core 3.1 under server GC** omits generation 0 of most heaps from the sizes after a background collection.
//! These heaps are assumed to keep their previous size, and the sum is a lower bound ([`Allocated::at_least`]).
//!
//! **Background collections** are measured at their end, by their own history, and collections that run inside them are
//! measured earlier. [`AllocatedBytes::measure`] is called in the order in which histories become complete, and each
//! call covers the time since the previous call. Sums over collections are therefore differences of totals.
//!
//! The memory that a background collection frees hides the bytes allocated while it runs:
//!
//! * *Generation 0* is swept in the final stop. Until then its size grows by the allocated bytes, so SizeAfter -
//!   SizeBefore is added. Allocations into the swept free space before the history is written are not in any event. The
//!   budget compensates for these allocations: when the budget of generation 0 triggers the next collection (reason
//!   AllocSmall), the whole budget has been handed out since the last collection, minus the unused ends of contexts.
//! * *Large objects*: .NET 9 and later write the live bytes at the final stop, so no allocation is hidden. .NET 8 and
//!   earlier write the live bytes at the start. The allocation from the start to the end is estimated from the previous
//!   rate and from the growth of generation 0 during the collection, because the events do not state how many of the
//!   live bytes at the end are new. Under server GC the estimate is usually too low ([`Allocated::at_least`]). A
//!   collection of .NET 8 or earlier is recognized by its compact phase, in which .NET 8 writes a clock instead of a
//!   duration, by an inner collection that saw more large objects, or by growth of the large objects during the
//!   collection.

use crate::event::PerHeapHistory;

/// Share of the previous rate at which large objects are allocated while a background collection marks, on .NET 8 and
/// earlier. This value is used if generation 0 does not show how active the program is.
const MARKING_ACTIVITY: f64 = 0.7;

/// Share of the previous rate at which large objects are allocated while a background collection sweeps, because
/// sweeping delays their allocation. The share was measured on .NET 8 with one to four threads that allocate 0.3 to 1.5
/// GB/s.
const SWEEPING_ACTIVITY: f64 = 0.35;

/// Minimum number of bytes that the program must have allocated in generation 0 before the background collection. With
/// fewer bytes, generation 0 does not show how active the program is.
const SHOWS_ACTIVITY: u64 = 1 << 20;

/// Number of rows in a history of .NET 5 and later, including the row of the pinned object heap.
const GENERATIONS_WITH_PINNED: usize = 5;

/// Maximum negative difference that counts as 0, in bytes. Allocation contexts that both sizes count explain such a
/// difference. With a larger difference, the sizes contradict each other.
const ROUNDING: u64 = 1 << 20;

/// Reason why the number of bytes allocated before a collection is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AllocatedUnknown {
    /// No earlier collection with sizes was observed.
    First,
    /// Events between the previous measurement and this measurement were lost.
    Loss,
    /// A per-heap history of this or an earlier collection was never observed.
    MissingHistory,
    /// The collection ran during a background collection whose start was not observed, so the sizes are from the middle
    /// of a sweep.
    Sweep,
    /// The sizes contradict the sizes after the previous collection.
    Contradiction,
}

impl AllocatedUnknown {
    /// All reasons.
    pub const ALL: [Self; 5] = [
        Self::First,
        Self::Loss,
        Self::MissingHistory,
        Self::Sweep,
        Self::Contradiction,
    ];

    /// Returns `first`, `loss`, `missing_history`, `sweep` or `contradiction`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Loss => "loss",
            Self::MissingHistory => "missing_history",
            Self::Sweep => "sweep",
            Self::Contradiction => "contradiction",
        }
    }
}

/// The bytes that a program allocated between two measurements, usually between two collections.
///
/// No event states this number. The number follows from the histories of the generations in which programs allocate (0,
/// large, pinned): the live bytes before a collection minus the live bytes after the previous collection. A background
/// collection is measured at its end, after the collections that ran inside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allocated {
    /// Time of the previous measurement, in nanoseconds since the sync point.
    pub since: i64,
    /// Time of this measurement, in nanoseconds since the sync point.
    pub until: i64,
    /// Number of bytes.
    pub bytes: u64,
    /// Whether the number of bytes is a lower bound. On .NET 8 and earlier, large objects allocated during a background
    /// collection are estimated, and the estimate is usually too low under server GC, or if the heap grew by more than
    /// the estimate. On .NET Core 3.1 under server GC, the sizes can omit generation 0 of some heaps.
    pub at_least: bool,
}

impl Allocated {
    /// Returns the bytes per second in the interval, or `None` if the interval has no length.
    pub fn per_second(&self) -> Option<f64> {
        let ns = self.until.saturating_sub(self.since);
        (ns > 0).then(|| self.bytes as f64 / (ns as f64 / 1e9))
    }

    fn over(since: i64, until: i64, bytes: Option<u64>) -> Result<Self, AllocatedUnknown> {
        let bytes = bytes.ok_or(AllocatedUnknown::Contradiction)?;
        Ok(Self {
            since,
            until,
            bytes,
            at_least: false,
        })
    }
}

/// Sums over heaps of one kind of space, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Space {
    live_before: u64,
    live_after: u64,
    size_before: u64,
    size_after: u64,
    /// Bytes in the free list before the collection.
    free_before: u64,
    /// Free bytes too small for the free list, before and after the collection.
    holes_before: u64,
    holes_after: u64,
    /// Sum of SizeAfter - SizeBefore over the heaps that grew.
    grown: u64,
    /// Sum of SizeBefore - SizeAfter over the heaps that shrank (.NET Core 3.1).
    vanished: u64,
}

/// Sums over the per-heap histories of one collection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Spaces {
    gen0: Space,
    /// The large and the pinned object heap.
    large: Space,
}

impl Spaces {
    /// Adds the history of one heap.
    pub(crate) fn add(&mut self, event: &PerHeapHistory<'_>) {
        let rows = event.generations().count();
        for (generation, row) in event.generations().enumerate() {
            let space = match generation {
                0 => &mut self.gen0,
                3 | 4 => &mut self.large,
                _ => continue,
            };
            let add = |sum: &mut u64, bytes: u64| *sum = sum.saturating_add(bytes);
            let free = |list: u64, holes: u64| list.saturating_add(holes);
            let before = free(row.free_list_space_before, row.free_obj_space_before);
            let after = free(row.free_list_space_after, row.free_obj_space_after);
            add(&mut space.live_before, row.size_before.saturating_sub(before));
            add(&mut space.live_after, row.size_after.saturating_sub(after));
            add(&mut space.size_before, row.size_before);
            add(&mut space.size_after, row.size_after);
            add(&mut space.free_before, row.free_list_space_before);
            add(&mut space.holes_before, row.free_obj_space_before);
            add(&mut space.holes_after, row.free_obj_space_after);
            add(&mut space.grown, row.size_after.saturating_sub(row.size_before));
            if rows < GENERATIONS_WITH_PINNED && row.size_after.saturating_add(ROUNDING) < row.size_before {
                add(&mut space.vanished, row.size_before - row.size_after);
            }
        }
    }
}

/// Facts about a collection, available once its histories are complete.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CollectionFacts {
    pub(crate) number: u32,
    /// Time of GCStart; `None` if it was not observed.
    pub(crate) start: Option<i64>,
    /// Time of the last history.
    pub(crate) at: i64,
    pub(crate) concurrent: bool,
    /// Whether the budget of generation 0 triggered the collection.
    pub(crate) for_small_objects: bool,
    pub(crate) heap_count: u32,
    /// Budget of generation 0 until the next collection, per heap.
    pub(crate) gen0_budget: u64,
    /// Whether the compact phase is longer than the collection.
    pub(crate) compact_is_a_clock: bool,
    pub(crate) spaces: Spaces,
}

/// The background collection around a collection that starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EnclosingCollection {
    /// The collection runs alone; no background collection is in progress.
    Nothing,
    /// A background collection whose start was observed is possibly in progress.
    Background,
    /// A background collection whose start was not observed is in progress.
    Unseen,
}

/// The live bytes after the last measurement.
#[derive(Debug, Clone, Copy)]
struct Base {
    at: i64,
    gen0_live: u64,
    gen0_size: u64,
    gen0_holes: u64,
    /// Whether only the size of generation 0 is known, not its live bytes.
    by_size: bool,
    large_live: u64,
}

/// The background collection in progress.
#[derive(Debug, Clone, Copy)]
struct Background {
    number: Option<u32>,
    start: Option<i64>,
    /// Time at which the threads resumed after the first stop.
    restarted: Option<i64>,
    /// Time at which the final stop started.
    final_stop: Option<i64>,
    /// Whether generation 0 was measured after the final stop started.
    measured_in_sweep: bool,
}

/// The period from one collection of generation 0 to the next.
#[derive(Debug, Clone, Copy)]
struct Gen0Cycle {
    heap_count: u32,
    budget: u64,
    /// Allocated bytes that sizes show.
    seen: u64,
    /// Bytes of the budget that were left unused at the ends of contexts.
    holes: u64,
    /// Whether a background collection swept generation 0 in this period.
    swept: bool,
    /// Maximum number of bytes that can have been allocated into free space unobserved.
    hidden: u64,
    /// Whether events were lost in this period, so that `seen` is incomplete.
    lossy: bool,
}

/// Allocation rates in bytes per nanosecond in the last interval without a sweep.
#[derive(Debug, Clone, Copy)]
struct Rates {
    gen0: f64,
    gen0_bytes: u64,
    large: f64,
}

/// Allocation account of one runtime. Only the machine updates it, in the order of events.
#[derive(Debug, Default)]
pub(crate) struct AllocatedBytes {
    base: Option<Base>,
    /// Reason why there is no base; `None` if there is a base, or if no collection was measured before.
    unknown: Option<AllocatedUnknown>,
    background: Option<Background>,
    cycle: Option<Gen0Cycle>,
    /// Number of the newest collection that is not a background collection; `None` if its histories are complete.
    unmeasured: Option<u32>,
    rates: Option<Rates>,
    /// Whether the sizes before a background collection are the sizes at its start (.NET 8 and earlier).
    large_before_is_at_start: bool,
}

impl AllocatedBytes {
    /// Returns the time of the measurement with which the next measurement is compared, or `None` before the
    /// first measurement.
    pub(crate) fn compared_with(&self) -> Option<i64> {
        self.base.map(|base| base.at)
    }

    /// Discards the last measurement and all information since, and stores the reason.
    pub(crate) fn forget(&mut self, why: AllocatedUnknown) {
        if self.base.take().is_some() {
            self.unknown = Some(why);
        }
        self.cycle = None;
        self.rates = None;
    }

    /// Records lost events. The allocation in an interval with a loss is unknown anyway, and the budget of the period
    /// provides no information about the other intervals.
    pub(crate) fn lost(&mut self) {
        if let Some(cycle) = &mut self.cycle {
            cycle.lossy = true;
        }
    }

    /// Handles the start of a collection.
    pub(crate) fn started(&mut self, at: i64, number: u32, background: bool, inside: EnclosingCollection) {
        if !background && inside == EnclosingCollection::Nothing && self.background.take().is_some() {
            // The background collection has ended, and its histories were never observed.
            self.forget(AllocatedUnknown::MissingHistory);
        }
        if background {
            if self.background.is_some() {
                self.forget(AllocatedUnknown::MissingHistory);
            }
            self.background = Some(Background {
                number: Some(number),
                start: Some(at),
                restarted: None,
                final_stop: None,
                measured_in_sweep: false,
            });
            return;
        }
        if self.unmeasured.is_some() {
            self.forget(AllocatedUnknown::MissingHistory);
        }
        self.unmeasured = Some(number);
        if inside == EnclosingCollection::Unseen && self.background.is_none() {
            self.forget(AllocatedUnknown::Sweep);
            self.unknown = Some(AllocatedUnknown::Sweep);
            self.background = Some(Background {
                number: None,
                start: None,
                restarted: None,
                final_stop: None,
                measured_in_sweep: false,
            });
        }
    }

    /// Handles the start of the final stop of the background collection in progress.
    pub(crate) fn final_stop(&mut self, at: i64) {
        if let Some(background) = &mut self.background {
            background.final_stop.get_or_insert(at);
        }
    }

    /// Records that the program has resumed.
    pub(crate) fn restarted(&mut self, at: i64) {
        if let Some(background) = &mut self.background {
            background.restarted.get_or_insert(at);
        }
    }

    /// Returns the bytes allocated since the previous measurement. The machine calls this method when the histories of
    /// a collection are complete.
    pub(crate) fn measure(&mut self, of: &CollectionFacts) -> Result<Allocated, AllocatedUnknown> {
        self.large_before_is_at_start |= of.compact_is_a_clock;
        let ours = |background: &Background| background.number.is_none_or(|number| number == of.number);
        let background = self.background.filter(ours);
        if !of.concurrent {
            if background.is_some_and(|background| background.number.is_some()) {
                // The collection was announced as background and became blocking.
                self.background = None;
            }
            return self.measure_stopped(of);
        }
        if background.is_some() {
            self.background = None;
        }
        self.measure_background(of, background)
    }

    fn measure_stopped(&mut self, of: &CollectionFacts) -> Result<Allocated, AllocatedUnknown> {
        self.unmeasured = self.unmeasured.filter(|&number| number != of.number);
        let Spaces { gen0, large } = of.spaces;
        let unseen_background = self.background.is_some_and(|background| background.start.is_none());
        let in_sweep = self
            .background
            .and_then(|background| background.final_stop)
            .is_some_and(|stop| of.start.is_none_or(|start| start > stop));
        let lossy = self.cycle.is_some_and(|cycle| cycle.lossy && (cycle.swept || in_sweep));
        let allocated = self.base.map(|base| {
            if lossy {
                return Err(AllocatedUnknown::Loss);
            }
            let small = match in_sweep || base.by_size {
                false => difference(gen0.live_before, base.gen0_live),
                true => Some(gen0.size_before.saturating_sub(base.gen0_size)),
            };
            let small = small.map(|seen| {
                let holes = gen0.holes_before.saturating_sub(base.gen0_holes);
                seen.saturating_add(self.hidden(of, seen, holes, in_sweep))
            });
            // During a sweep the sizes of large objects are meaningless; the background collection provides valid
            // sizes.
            let large = match in_sweep {
                false => difference(large.live_before, base.large_live),
                true => Some(0),
            };
            if let (false, Some(small), Some(large)) = (in_sweep, small, large) {
                self.rates = Rates::over(base.at, of.start.unwrap_or(of.at), small, large);
            }
            let until = of.start.unwrap_or(of.at);
            let bytes = small.zip(large).map(|(small, large)| small.saturating_add(large));
            Allocated::over(base.at, until, bytes).map(|over| Allocated {
                at_least: base.by_size,
                ..over
            })
        });
        let kept = self.base.filter(|_| in_sweep).map(|base| base.large_live);
        if in_sweep && let Some(background) = &mut self.background {
            background.measured_in_sweep = true;
        }
        self.cycle = Some(Gen0Cycle {
            heap_count: of.heap_count,
            budget: of.gen0_budget.saturating_mul(of.heap_count.into()),
            seen: 0,
            holes: 0,
            swept: false,
            hidden: 0,
            lossy: false,
        });
        let without = self.unknown.unwrap_or(AllocatedUnknown::First);
        // Inside a background collection whose start was never observed, sizes cannot be compared until that background
        // collection ends.
        self.base = (!unseen_background).then(|| Base {
            at: of.at,
            gen0_live: gen0.live_after,
            gen0_size: gen0.size_after,
            gen0_holes: gen0.holes_after,
            by_size: false,
            large_live: kept.unwrap_or(large.live_after),
        });
        if self.base.is_some() {
            self.unknown = None;
        }
        allocated.unwrap_or(Err(without))
    }

    /// Returns the bytes allocated into swept free space of generation 0 since its last collection, derived from the
    /// consumed budget.
    fn hidden(&mut self, of: &CollectionFacts, seen: u64, holes: u64, in_sweep: bool) -> u64 {
        let Some(cycle) = self.cycle else { return 0 };
        if !(cycle.swept || in_sweep) || !of.for_small_objects || cycle.heap_count != of.heap_count {
            return 0;
        }
        let handed_out = cycle.budget.saturating_sub(cycle.holes.saturating_add(holes));
        let seen = cycle.seen.saturating_add(seen);
        // During a sweep, any live object can have been allocated since the final stop.
        let unseen = match in_sweep {
            true => cycle.hidden.saturating_add(of.spaces.gen0.live_before),
            false => cycle.hidden,
        };
        handed_out.saturating_sub(seen).min(unseen)
    }

    fn measure_background(
        &mut self,
        of: &CollectionFacts,
        background: Option<Background>,
    ) -> Result<Allocated, AllocatedUnknown> {
        let Spaces { mut gen0, large } = of.spaces;
        let start_seen = background.is_some_and(|background| background.start.is_some());
        let start = background.and_then(|background| background.start);
        // Whether an inner collection has been measured since the start.
        let inside = self.base.is_some_and(|base| start < Some(base.at));
        // No background collection releases generation 0 of a heap, so without an inner collection the heap keeps its
        // size.
        let vanished = of.heap_count > 1 && gen0.vanished > 0 && !inside;
        gen0.size_after = gen0.size_after.saturating_add(if vanished { gen0.vanished } else { 0 });
        let in_sweep = background.is_some_and(|background| background.measured_in_sweep);
        let known = self.base.filter(|_| start_seen);
        let allocated = known.map(|base| {
            // No inner collection frees large objects, so a lower value can only be the value at the start.
            self.large_before_is_at_start |= inside && large.live_before < base.large_live;
            // On .NET 9 and later both sizes are from the final stop, so no heap grows.
            self.large_before_is_at_start |= large.grown > ROUNDING;
            let mut small = Some(0);
            if !in_sweep {
                let (before, holes, grown) = match inside {
                    true => (Some(0), 0, gen0.size_after.saturating_sub(base.gen0_size)),
                    false => (
                        match base.by_size {
                            true => Some(gen0.size_before.saturating_sub(base.gen0_size)),
                            false => difference(gen0.live_before, base.gen0_live),
                        },
                        gen0.holes_before.saturating_sub(base.gen0_holes),
                        gen0.grown,
                    ),
                };
                small = before.map(|before| before.saturating_add(grown));
                if let (Some(cycle), Some(small)) = (&mut self.cycle, small) {
                    cycle.seen = cycle.seen.saturating_add(small);
                    cycle.holes = cycle.holes.saturating_add(holes);
                    cycle.swept = true;
                    let hidden = gen0.free_before.saturating_add(gen0.live_after);
                    cycle.hidden = cycle.hidden.saturating_add(hidden);
                }
            }
            let shown = match inside && self.large_before_is_at_start {
                true => Some(0),
                false => difference(large.live_before, base.large_live),
            };
            if !inside && let (Some(start), Some(small), Some(shown)) = (start, small, shown) {
                let before = small.saturating_sub(gen0.grown);
                self.rates = Rates::over(base.at, start, before, shown).or(self.rates);
            }
            let (estimated, is_refuted) = match self.large_before_is_at_start {
                true => self.large_meanwhile(of, background, inside),
                false => (0, false),
            };
            let shown = small.zip(shown).map(|(small, shown)| small.saturating_add(shown));
            let over = Allocated::over(base.at, of.at, shown.map(|shown| shown.saturating_add(estimated)));
            over.map(|over| Allocated {
                at_least: of.heap_count > 1 && estimated > 0 || is_refuted || vanished || base.by_size,
                ..over
            })
        });
        let without = match (start_seen, self.base) {
            (false, Some(_)) => AllocatedUnknown::MissingHistory,
            _ => self.unknown.unwrap_or(AllocatedUnknown::First),
        };
        let keeps_gen0 = self.base.filter(|_| in_sweep);
        self.base = Some(Base {
            at: of.at,
            gen0_live: keeps_gen0.map_or(gen0.live_after, |base| base.gen0_live),
            gen0_size: keeps_gen0.map_or(gen0.size_after, |base| base.gen0_size),
            gen0_holes: keeps_gen0.map_or(gen0.holes_after, |base| base.gen0_holes),
            by_size: keeps_gen0.map_or(vanished, |base| base.by_size),
            large_live: large.live_after,
        });
        self.unknown = None;
        allocated.unwrap_or(Err(without))
    }

    /// Returns the estimated bytes of large objects allocated from the start of a background collection to its end
    /// (.NET 8 and earlier); all of these objects are alive at the end. Also returns whether the heap grew by more than
    /// the estimate, which means that the estimate is too low. The growth is also too low, because it excludes
    /// allocations into free space.
    fn large_meanwhile(&self, of: &CollectionFacts, background: Option<Background>, inside: bool) -> (u64, bool) {
        let Spaces { gen0, large } = of.spaces;
        let estimate = || {
            let (rates, background) = (self.rates?, background?);
            let (running, stop) = (background.restarted?, background.final_stop?);
            let marking = stop.saturating_sub(running).max(0) as f64;
            let sweeping = of.at.saturating_sub(stop).max(0) as f64;
            let shows = rates.gen0_bytes >= SHOWS_ACTIVITY && rates.gen0 > 0.0 && marking > 0.0 && !inside;
            let activity = match shows {
                true => (gen0.grown as f64 / marking / rates.gen0).min(1.2),
                false => MARKING_ACTIVITY,
            };
            let bytes = rates.large * (marking * activity + sweeping * SWEEPING_ACTIVITY);
            // The float is derived from times and sizes below 2^63; the cast saturates.
            Some((bytes.max(0.0) as u64).min(large.live_after))
        };
        let estimate = estimate().unwrap_or(0);
        (
            estimate.max(large.grown),
            large.grown > estimate.saturating_add(ROUNDING),
        )
    }
}

impl Rates {
    fn over(since: i64, until: i64, gen0: u64, large: u64) -> Option<Self> {
        let ns = until.saturating_sub(since);
        (ns > 0).then(|| Self {
            gen0: gen0 as f64 / ns as f64,
            gen0_bytes: gen0,
            large: large as f64 / ns as f64,
        })
    }
}

/// Returns the difference, or `None` if the value decreased by more than rounding explains.
fn difference(now: u64, before: u64) -> Option<u64> {
    match now.checked_sub(before) {
        Some(bytes) => Some(bytes),
        None => (before - now <= ROUNDING).then_some(0),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: i64 = 1_000_000;

    /// A step of a program and its collector.
    #[derive(Debug, Clone)]
    enum Step {
        Small(u64),
        Large(u64),
        /// A collection of generation 0 or higher with the program stopped; the value is the surviving percentage of
        /// each space.
        Collect(u64),
        /// A background collection: the bytes allocated until its final stop, and the surviving percentage.
        Background {
            small: u64,
            large: u64,
            inside: bool,
            survives: u64,
        },
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (0u64..20_000_000).prop_map(Step::Small),
            (0u64..50_000_000).prop_map(Step::Large),
            (0u64..100).prop_map(Step::Collect),
            (0u64..5_000_000, 0u64..9_000_000, any::<bool>(), 0u64..100).prop_map(
                |(small, large, inside, survives)| Step::Background {
                    small,
                    large,
                    inside,
                    survives
                }
            ),
        ]
    }

    /// A heap of .NET 9 or later that allocates only at the end of its generations.
    #[derive(Default)]
    struct Model {
        account: AllocatedBytes,
        now: i64,
        number: u32,
        small: u64,
        large: u64,
        total: u64,
        measured: Vec<Result<Allocated, AllocatedUnknown>>,
        /// Total number of allocated bytes at each measurement.
        at: Vec<u64>,
    }

    impl Model {
        fn start(&mut self, background: bool, inside: EnclosingCollection) -> (u32, i64) {
            self.number += 1;
            self.now += MS;
            self.account.started(self.now, self.number, background, inside);
            (self.number, self.now)
        }

        fn measure(&mut self, (number, start): (u32, i64), concurrent: bool, gen0: Space, large: Space) {
            self.now += MS;
            let measured = self.account.measure(&CollectionFacts {
                number,
                start: Some(start),
                at: self.now,
                concurrent,
                for_small_objects: false,
                heap_count: 1,
                gen0_budget: 1 << 24,
                compact_is_a_clock: false,
                spaces: Spaces { gen0, large },
            });
            self.measured.push(measured);
            self.at.push(self.total);
        }

        fn collect(&mut self, survives: u64, inside: EnclosingCollection) {
            let start = self.start(false, inside);
            let (small, large) = (self.small, self.large);
            self.small = 0;
            // A collection inside a background collection does not touch large objects.
            if inside == EnclosingCollection::Nothing {
                self.large = large / 100 * survives;
            }
            let space = |before: u64, after: u64| Space {
                live_before: before,
                live_after: after,
                size_before: before,
                size_after: after,
                ..Space::default()
            };
            let spaces = (space(small, self.small), space(large, self.large));
            self.measure(start, false, spaces.0, spaces.1);
        }

        fn background(&mut self, small: u64, large: u64, inside: bool, survives: u64) {
            let start = self.start(true, EnclosingCollection::Nothing);
            self.account.restarted(self.now);
            let before = self.small;
            if inside {
                self.allocate(small, large);
                self.collect(survives, EnclosingCollection::Background);
            }
            self.allocate(small, large);
            self.now += MS;
            self.account.final_stop(self.now);
            let (grown, large_before) = (self.small.saturating_sub(before), self.large);
            let size = self.small;
            self.small = self.small / 100 * survives;
            self.large = self.large / 100 * survives;
            let gen0 = Space {
                live_before: before,
                size_before: before,
                live_after: self.small,
                size_after: size,
                grown,
                ..Space::default()
            };
            let large = Space {
                live_before: large_before,
                size_before: large_before,
                live_after: self.large,
                size_after: self.large,
                ..Space::default()
            };
            self.measure(start, true, gen0, large);
            // The free list is used up first; afterwards the live bytes and the size of generation 0 grow together.
            self.small = self.account.base.map_or(0, |base| base.gen0_live);
        }

        fn allocate(&mut self, small: u64, large: u64) {
            self.small += small;
            self.large += large;
            self.total += small + large;
        }

        fn step(&mut self, step: &Step) {
            match *step {
                Step::Small(bytes) => self.allocate(bytes, 0),
                Step::Large(bytes) => self.allocate(0, bytes),
                Step::Collect(survives) => self.collect(survives, EnclosingCollection::Nothing),
                Step::Background {
                    small,
                    large,
                    inside,
                    survives,
                } => self.background(small, large, inside, survives),
            }
        }
    }

    proptest! {
        /// Scenario: allocations, collections and background collections occur in any order, with collections inside
        /// background collections.
        /// Guarantee: the first measurement is unknown, and all following measurements are known; each has the
        /// difference of the totals as its bytes, and starts at or after the end of the previous measurement.
        #[test]
        fn sums_are_differences_of_totals(steps in prop::collection::vec(step(), 1..60)) {
            let mut model = Model::default();
            for step in &steps {
                model.step(step);
            }
            for (place, measured) in model.measured.iter().enumerate() {
                if place == 0 {
                    prop_assert_eq!(*measured, Err(AllocatedUnknown::First));
                    continue;
                }
                let measured = measured.map_err(|why| TestCaseError::fail(format!("{place}: {why:?}")))?;
                prop_assert_eq!(measured.bytes, model.at[place] - model.at[place - 1], "{}", place);
                if let Some(Ok(before)) = place.checked_sub(1).map(|place| model.measured[place]) {
                    prop_assert!(measured.since >= before.until, "{}", place);
                }
            }
        }

        /// Scenario: arbitrary sizes arrive in any order, as in a damaged stream.
        /// Guarantee: the account does not panic.
        #[test]
        fn arbitrary_sizes_do_not_panic(numbers in prop::collection::vec(any::<(u32, u64, u64, u8)>(), 1..40)) {
            let mut account = AllocatedBytes::default();
            for (number, a, b, bits) in numbers {
                let space = Space {
                    live_before: a,
                    live_after: b,
                    size_before: b,
                    size_after: a,
                    free_before: a ^ b,
                    holes_before: b,
                    holes_after: a,
                    grown: b,
                    vanished: a & b,
                };
                let at = i64::from(number);
                match bits % 7 {
                    0 => account.started(at, number, true, EnclosingCollection::Nothing),
                    1 => account.started(at, number, false, EnclosingCollection::Unseen),
                    2 => account.started(at, number, false, EnclosingCollection::Nothing),
                    3 => account.final_stop(at),
                    4 => account.restarted(at),
                    5 => account.lost(),
                    _ => account.forget(AllocatedUnknown::MissingHistory),
                }
                let _ = account.measure(&CollectionFacts {
                    number,
                    start: (bits & 8 == 0).then_some(at),
                    at,
                    concurrent: bits & 16 == 0,
                    for_small_objects: bits & 32 == 0,
                    heap_count: number,
                    gen0_budget: a,
                    compact_is_a_clock: bits & 64 == 0,
                    spaces: Spaces { gen0: space, large: space },
                });
            }
        }
    }

    /// Scenario: .NET Core 3.1 under server GC omits a heap of 50 MB from generation 0 after two background
    /// collections, while 1 MB is allocated; then generation 0 is collected.
    /// Guarantee: the heap is not counted as allocated, and the results are marked as lower bounds until generation 0
    /// has been collected.
    #[test]
    fn omitted_heap_does_not_count_as_allocated() {
        const MB: u64 = 1_000_000;
        let mut account = AllocatedBytes::default();
        let mut next = |number: u32, concurrent: bool, before: u64, after: u64, vanished: u64| {
            let at = i64::from(number) * 100 * MS;
            account.started(at, number, concurrent, EnclosingCollection::Nothing);
            account.measure(&CollectionFacts {
                number,
                start: Some(at),
                at: at + 10 * MS,
                concurrent,
                for_small_objects: false,
                heap_count: 2,
                gen0_budget: 1 << 24,
                compact_is_a_clock: false,
                spaces: Spaces {
                    gen0: Space {
                        live_before: before,
                        live_after: after,
                        size_before: before,
                        size_after: after,
                        vanished,
                        ..Space::default()
                    },
                    large: Space::default(),
                },
            })
        };
        next(1, false, 60 * MB, 60 * MB, 0).unwrap_err();
        let measured = [
            next(2, true, 61 * MB, 11 * MB, 50 * MB),
            next(3, true, 62 * MB, 12 * MB, 50 * MB),
            next(4, false, 63 * MB, 5 * MB, 0),
            next(5, false, 6 * MB, 5 * MB, 0),
        ];
        let measured = measured.map(|one| one.map(|one| (one.bytes, one.at_least)));
        let expected = [(MB, true), (MB, true), (MB, true), (MB, false)].map(Ok);
        assert_eq!(measured, expected);
    }

    /// Scenario: .NET 8 allocates large objects before and during a background collection, with one heap and with two
    /// heaps; .NET 9 does the same with two heaps.
    /// Guarantee: only the result of .NET 8 under server GC is marked as a lower bound, and each result contains at
    /// least the observed 100 MB.
    #[test]
    fn estimate_under_server_gc_is_lower_bound() {
        let large = |before: u64, after: u64| Space {
            live_before: before,
            live_after: after,
            size_before: before,
            size_after: after,
            ..Space::default()
        };
        for (heap_count, is_8) in [(1, true), (2, true), (2, false)] {
            let mut account = AllocatedBytes::default();
            let measured = |number: u32, at: i64, concurrent: bool, large: Space| CollectionFacts {
                number,
                start: Some(at),
                at: if concurrent { at + 40 * MS } else { at },
                concurrent,
                for_small_objects: false,
                heap_count,
                gen0_budget: 1 << 24,
                compact_is_a_clock: is_8,
                spaces: Spaces {
                    gen0: Space::default(),
                    large,
                },
            };
            account.started(MS, 1, false, EnclosingCollection::Nothing);
            let _first = account.measure(&measured(1, MS, false, large(0, 0)));
            account.started(101 * MS, 2, true, EnclosingCollection::Nothing);
            account.restarted(102 * MS);
            account.final_stop(122 * MS);
            let of = measured(2, 101 * MS, true, large(100_000_000, 30_000_000));
            let allocated = account.measure(&of).unwrap();
            assert_eq!(allocated.at_least, is_8 && heap_count > 1, "{allocated:?}");
            assert!(allocated.bytes >= 100_000_000, "{allocated:?}");
        }
    }

    /// Scenario: the histories of a collection between two complete collections never arrive.
    /// Guarantee: the allocation before the next collection is unknown, and the allocation before the following
    /// collection is known again.
    #[test]
    fn missing_history_makes_one_interval_unknown() {
        let mut model = Model::default();
        model.collect(50, EnclosingCollection::Nothing);
        model.allocate(1_000_000, 2_000_000);
        model.start(false, EnclosingCollection::Nothing);
        model.allocate(1_000_000, 0);
        model.collect(50, EnclosingCollection::Nothing);
        model.allocate(3_000_000, 0);
        model.collect(50, EnclosingCollection::Nothing);
        let bytes: Vec<_> = model
            .measured
            .iter()
            .map(|measured| measured.map(|one| one.bytes))
            .collect();
        assert_eq!(
            bytes,
            [
                Err(AllocatedUnknown::First),
                Err(AllocatedUnknown::MissingHistory),
                Ok(3_000_000)
            ]
        );
    }
}
