//! How many bytes the program allocated between two collections.
//!
//! No event says it. The per-heap histories do, in the generations in which programs allocate (0, large, pinned): what
//! lives before a collection, less what lived after the one before. *Lives* is the size without the free list and
//! without free space too small for it, so what is allocated into free space counts, and the unused ends of
//! allocation contexts, which the collector turns into free objects, do not. Measured against
//! `GC.GetTotalAllocatedBytes`, see docs/compatibility.md.
//!
//! **.NET Core 3.1 under server GC** leaves generation 0 of most heaps out of the sizes after a background collection:
//! these are taken to have the size that they had before, and the sum is at least that ([`Allocated::at_least`]).
//!
//! **Background collections** measure at their end, by their own history, and those that run inside them measure
//! before: [`AllocatedBytes::measure`] is called in the order in which histories are whole, and each call accounts for
//! the time since the call before. So sums over collections are differences of totals.
//!
//! What a background collection frees hides what was allocated meanwhile:
//!
//! * *Generation 0* is swept in the final stop. Until then its size grows by what is allocated: SizeAfter - SizeBefore
//!   is added. What goes into the swept free space before the history is written is not in any event. It is made up
//!   for by the budget: when generation 0's budget triggers the next collection (reason AllocSmall), that much was
//!   handed out since the last one, less what was left unused at the ends of contexts.
//! * *Large objects*: .NET 9 and later write what lived at the final stop, so nothing is hidden. .NET 8 and earlier
//!   write what lived at the start; what was allocated from then to the end is estimated by the rate before, and by
//!   how fast generation 0 grew meanwhile: nothing in the events says how much of what lives at the end is new. Under
//!   server GC that is mostly too low ([`Allocated::at_least`]). Such a collection is recognized by its compact phase,
//!   in which .NET 8 writes a clock instead of a duration, by a collection inside that saw more large objects, and by
//!   large objects that grew in it.

use crate::event::PerHeapHistory;

/// .NET 8 and earlier: share of the rate before that is allocated in large objects while a background collection marks,
/// where generation 0 does not show how active the program is.
const MARKING_ACTIVITY: f64 = 0.7;

/// The same while it sweeps: the sweep of large objects holds their allocation up. Measured on .NET 8 with one to four
/// threads that allocate 0.3 to 1.5 GB/s.
const SWEEPING_ACTIVITY: f64 = 0.35;

/// Generation 0 shows how active the program is when so much was allocated in it before, bytes.
const SHOWS_ACTIVITY: u64 = 1 << 20;

/// Rows of a history of .NET 5 and later, which have the pinned object heap.
const GENERATIONS_WITH_PINNED: usize = 5;

/// Differences that are negative by no more than this are 0: allocation contexts that were counted on both sides.
/// Beyond it, the sizes do not belong together.
const ROUNDING: u64 = 1 << 20;

/// Why it is not known how many bytes were allocated before a collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AllocatedUnknown {
    /// No collection before it was seen with its sizes.
    First,
    /// Events between the collection before and this one were lost.
    Loss,
    /// A per-heap history of it, or of a collection before it, was never seen.
    MissingHistory,
    /// It ran while a background collection was under way whose start was not seen: sizes are in the middle of a sweep.
    Sweep,
    /// Its sizes and those after the collection before contradict each other.
    Contradiction,
}

impl AllocatedUnknown {
    /// Each of them.
    pub const ALL: [Self; 5] = [
        Self::First,
        Self::Loss,
        Self::MissingHistory,
        Self::Sweep,
        Self::Contradiction,
    ];

    /// `first`, `loss`, `missing_history`, `sweep`, `contradiction`.
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

/// Bytes allocated in a span of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allocated {
    /// The measurement before, ns since the sync point.
    pub since: i64,
    /// This measurement.
    pub until: i64,
    /// Bytes.
    pub bytes: u64,
    /// A part of them is an estimate that is mostly too low: .NET 8 and earlier, large objects that were allocated during
    /// a background collection, under server GC or where the heap grew by more than the estimate.
    pub at_least: bool,
}

impl Allocated {
    /// Bytes a second of its span; `None` where that has no length.
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

/// Sums over heaps of one kind of space, bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Space {
    live_before: u64,
    live_after: u64,
    size_before: u64,
    size_after: u64,
    /// Free list before.
    free_before: u64,
    /// Free space too small for the list, before and after.
    holes_before: u64,
    holes_after: u64,
    /// SizeAfter - SizeBefore of the heaps that grew.
    grown: u64,
    /// .NET Core 3.1: SizeBefore - SizeAfter of the heaps that shrank.
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
    /// Adds one heap's history.
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

/// What is known of a collection when its histories are whole.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Measured {
    pub(crate) number: u32,
    /// Its GCStart; `None`: not seen.
    pub(crate) start: Option<i64>,
    /// Its last history.
    pub(crate) at: i64,
    pub(crate) concurrent: bool,
    /// Generation 0's budget triggered it.
    pub(crate) for_small_objects: bool,
    pub(crate) heap_count: u32,
    /// Budget of generation 0 until the next collection, each heap.
    pub(crate) gen0_budget: u64,
    /// Its compact phase is longer than the collection.
    pub(crate) compact_is_a_clock: bool,
    pub(crate) spaces: Spaces,
}

/// What a collection that starts can be inside of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Inside {
    /// It runs alone: no background collection is under way.
    Nothing,
    /// A background collection that was seen to start may be under way.
    Background,
    /// A background collection that was not.
    Unseen,
}

/// What lived after the last measurement.
#[derive(Debug, Clone, Copy)]
struct Base {
    at: i64,
    gen0_live: u64,
    gen0_size: u64,
    gen0_holes: u64,
    /// What lived in generation 0 is not known, its size is.
    by_size: bool,
    large_live: u64,
}

/// The background collection under way.
#[derive(Debug, Clone, Copy)]
struct Background {
    number: Option<u32>,
    start: Option<i64>,
    /// When the threads ran again after its first stop.
    restarted: Option<i64>,
    /// When its final stop began.
    final_stop: Option<i64>,
    /// Generation 0 was measured after that.
    measured_in_sweep: bool,
}

/// From one collection of generation 0 to the next.
#[derive(Debug, Clone, Copy)]
struct Gen0Cycle {
    heap_count: u32,
    budget: u64,
    /// Bytes allocated that sizes show.
    seen: u64,
    /// Of the budget, left unused at the ends of contexts.
    holes: u64,
    /// A background collection swept generation 0 in it.
    swept: bool,
    /// No more than this can have gone into free space unseen.
    hidden: u64,
    /// Events were lost in it: what is seen is not all.
    lossy: bool,
}

/// Bytes a nanosecond in the last span without a sweep.
#[derive(Debug, Clone, Copy)]
struct Rates {
    gen0: f64,
    gen0_bytes: u64,
    large: f64,
}

/// The account of one runtime's allocation. One writer: the machine, in the order of events.
#[derive(Debug, Default)]
pub(crate) struct AllocatedBytes {
    base: Option<Base>,
    /// Why there is no base.
    unknown: Option<AllocatedUnknown>,
    background: Option<Background>,
    cycle: Option<Gen0Cycle>,
    /// The newest collection with the program stopped, until its histories are whole.
    unmeasured: Option<u32>,
    rates: Option<Rates>,
    /// .NET 8 and earlier: a background collection's sizes before are those at its start.
    large_before_is_at_start: bool,
}

impl AllocatedBytes {
    /// The time of the oldest measurement that the next one is compared with.
    pub(crate) fn compared_with(&self) -> Option<i64> {
        self.base.map(|base| base.at)
    }

    /// Nothing is known of what happened since the last measurement.
    pub(crate) fn forget(&mut self, why: AllocatedUnknown) {
        if self.base.take().is_some() {
            self.unknown = Some(why);
        }
        self.cycle = None;
        self.rates = None;
    }

    /// Events were lost: what lies between is void anyway, and the budget says nothing about the rest.
    pub(crate) fn lost(&mut self) {
        if let Some(cycle) = &mut self.cycle {
            cycle.lossy = true;
        }
    }

    /// A collection started.
    pub(crate) fn started(&mut self, at: i64, number: u32, background: bool, inside: Inside) {
        if !background && inside == Inside::Nothing && self.background.take().is_some() {
            // The background collection is over, and its histories were never seen.
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
        if inside == Inside::Unseen && self.background.is_none() {
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

    /// The final stop of the background collection under way begins.
    pub(crate) fn final_stop(&mut self, at: i64) {
        if let Some(background) = &mut self.background {
            background.final_stop.get_or_insert(at);
        }
    }

    /// The program runs again.
    pub(crate) fn restarted(&mut self, at: i64) {
        if let Some(background) = &mut self.background {
            background.restarted.get_or_insert(at);
        }
    }

    /// The histories of a collection are whole: what was allocated since the measurement before.
    pub(crate) fn measure(&mut self, of: &Measured) -> Result<Allocated, AllocatedUnknown> {
        self.large_before_is_at_start |= of.compact_is_a_clock;
        let ours = |background: &Background| background.number.is_none_or(|number| number == of.number);
        let background = self.background.filter(ours);
        if !of.concurrent {
            if background.is_some_and(|background| background.number.is_some()) {
                // It was announced as background and became blocking.
                self.background = None;
            }
            return self.measure_stopped(of);
        }
        if background.is_some() {
            self.background = None;
        }
        self.measure_background(of, background)
    }

    fn measure_stopped(&mut self, of: &Measured) -> Result<Allocated, AllocatedUnknown> {
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
            // In a sweep the sizes of large objects mean nothing; the background collection's own will.
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
        // Inside of a background collection that was never seen to start, nothing can be compared until it ends.
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

    /// What went into swept free space of generation 0 since its last collection, by the budget that is used up.
    fn hidden(&mut self, of: &Measured, seen: u64, holes: u64, in_sweep: bool) -> u64 {
        let Some(cycle) = self.cycle else { return 0 };
        if !(cycle.swept || in_sweep) || !of.for_small_objects || cycle.heap_count != of.heap_count {
            return 0;
        }
        let handed_out = cycle.budget.saturating_sub(cycle.holes.saturating_add(holes));
        let seen = cycle.seen.saturating_add(seen);
        // In a sweep anything that lives may have been allocated since its final stop.
        let unseen = match in_sweep {
            true => cycle.hidden.saturating_add(of.spaces.gen0.live_before),
            false => cycle.hidden,
        };
        handed_out.saturating_sub(seen).min(unseen)
    }

    fn measure_background(
        &mut self,
        of: &Measured,
        background: Option<Background>,
    ) -> Result<Allocated, AllocatedUnknown> {
        let Spaces { mut gen0, large } = of.spaces;
        let start_seen = background.is_some_and(|background| background.start.is_some());
        let start = background.and_then(|background| background.start);
        // A collection inside of it measured since it started.
        let inside = self.base.is_some_and(|base| start < Some(base.at));
        // No background collection gives generation 0 of a heap back: without a collection inside it has what it had.
        let vanished = of.heap_count > 1 && gen0.vanished > 0 && !inside;
        gen0.size_after = gen0.size_after.saturating_add(if vanished { gen0.vanished } else { 0 });
        let in_sweep = background.is_some_and(|background| background.measured_in_sweep);
        let known = self.base.filter(|_| start_seen);
        let allocated = known.map(|base| {
            // Nothing that runs inside of it frees large objects: less than then can only be of its start.
            self.large_before_is_at_start |= inside && large.live_before < base.large_live;
            // From .NET 9 on both sizes are of the final stop: none was seen to grow.
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

    /// .NET 8 and earlier: large objects allocated from the start of a background collection to its end. All of them
    /// live at its end. Whether the heap grew by more than the estimate, which is too low then, and so is the growth: what
    /// went into free space is not in it.
    fn large_meanwhile(&self, of: &Measured, background: Option<Background>, inside: bool) -> (u64, bool) {
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
            // A float of times and sizes below 2^63: what does not fit is cut.
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

/// `None`: smaller than before by more than rounding explains.
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

    /// What a program and its collector do.
    #[derive(Debug, Clone)]
    enum Step {
        Small(u64),
        Large(u64),
        /// A collection of generation 0 or more, with the program stopped; so much of each space survives, percent.
        Collect(u64),
        /// A background collection starts; so much is allocated until its final stop; so much survives.
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

    /// One heap of .NET 9 or later that allocates at the end of its generations only.
    #[derive(Default)]
    struct Model {
        account: AllocatedBytes,
        now: i64,
        number: u32,
        small: u64,
        large: u64,
        total: u64,
        measured: Vec<Result<Allocated, AllocatedUnknown>>,
        /// Bytes allocated when it was measured.
        at: Vec<u64>,
    }

    impl Model {
        fn start(&mut self, background: bool, inside: Inside) -> (u32, i64) {
            self.number += 1;
            self.now += MS;
            self.account.started(self.now, self.number, background, inside);
            (self.number, self.now)
        }

        fn measure(&mut self, (number, start): (u32, i64), concurrent: bool, gen0: Space, large: Space) {
            self.now += MS;
            let measured = self.account.measure(&Measured {
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

        fn collect(&mut self, survives: u64, inside: Inside) {
            let start = self.start(false, inside);
            let (small, large) = (self.small, self.large);
            self.small = 0;
            // One inside of a background collection leaves large objects alone.
            if inside == Inside::Nothing {
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
            let start = self.start(true, Inside::Nothing);
            self.account.restarted(self.now);
            let before = self.small;
            if inside {
                self.allocate(small, large);
                self.collect(survives, Inside::Background);
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
            // The free list is used up first: what lives and the size of generation 0 grow alike from here.
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
                Step::Collect(survives) => self.collect(survives, Inside::Nothing),
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
        /// Scenario: any order of allocations, collections and background collections, with others inside of them.
        /// Guarantee: the first is unknown, every other one is known, their times join, and the sum over any of them
        /// is the difference of the totals.
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

        /// Scenario: sizes that belong to nothing, in any order, as a damaged stream has them.
        /// Guarantee: no panic, and no more bytes than the sizes of the heap hold.
        #[test]
        fn sizes_without_sense_do_no_harm(numbers in prop::collection::vec(any::<(u32, u64, u64, u8)>(), 1..40)) {
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
                    0 => account.started(at, number, true, Inside::Nothing),
                    1 => account.started(at, number, false, Inside::Unseen),
                    2 => account.started(at, number, false, Inside::Nothing),
                    3 => account.final_stop(at),
                    4 => account.restarted(at),
                    5 => account.lost(),
                    _ => account.forget(AllocatedUnknown::MissingHistory),
                }
                let _ = account.measure(&Measured {
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

    /// Scenario: .NET Core 3.1 under server GC leaves a heap of 50 MB out of generation 0 after two background
    /// collections, while 1 MB is allocated; then generation 0 is collected.
    /// Guarantee: the heap is not counted as allocated, and what is said is said to be a lower bound.
    #[test]
    fn a_heap_that_vanishes_was_not_allocated() {
        const MB: u64 = 1_000_000;
        let mut account = AllocatedBytes::default();
        let mut next = |number: u32, concurrent: bool, before: u64, after: u64, vanished: u64| {
            let at = i64::from(number) * 100 * MS;
            account.started(at, number, concurrent, Inside::Nothing);
            account.measure(&Measured {
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

    /// Scenario: .NET 8 allocates large objects before and during a background collection, with one heap and with two;
    /// .NET 9 does the same.
    /// Guarantee: under server GC of .NET 8 the interval is said to be at least what it is; the others are not.
    #[test]
    fn an_estimate_under_server_gc_is_a_lower_bound() {
        let large = |before: u64, after: u64| Space {
            live_before: before,
            live_after: after,
            size_before: before,
            size_after: after,
            ..Space::default()
        };
        for (heap_count, is_8) in [(1, true), (2, true), (2, false)] {
            let mut account = AllocatedBytes::default();
            let measured = |number: u32, at: i64, concurrent: bool, large: Space| Measured {
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
            account.started(MS, 1, false, Inside::Nothing);
            let _first = account.measure(&measured(1, MS, false, large(0, 0)));
            account.started(101 * MS, 2, true, Inside::Nothing);
            account.restarted(102 * MS);
            account.final_stop(122 * MS);
            let of = measured(2, 101 * MS, true, large(100_000_000, 30_000_000));
            let allocated = account.measure(&of).unwrap();
            assert_eq!(allocated.at_least, is_8 && heap_count > 1, "{allocated:?}");
            assert!(allocated.bytes >= 100_000_000, "{allocated:?}");
        }
    }

    /// Scenario: a collection whose histories never come, between two that are whole.
    /// Guarantee: what was allocated before the one after it is unknown, and the one after that is known again.
    #[test]
    fn a_missing_history_makes_one_interval_unknown() {
        let mut model = Model::default();
        model.collect(50, Inside::Nothing);
        model.allocate(1_000_000, 2_000_000);
        model.start(false, Inside::Nothing);
        model.allocate(1_000_000, 0);
        model.collect(50, Inside::Nothing);
        model.allocate(3_000_000, 0);
        model.collect(50, Inside::Nothing);
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
