//! A collection that still receives facts, in any order, and its conversion to a record.

use crate::event::{GcReason, GcStart, GcType, HeapStats, PerHeapHistory, Phases};
use crate::gc::account::{Account, DividedStop, MarkTimes, MarkingCost, StopFacts};
use crate::gc::allocated::{Allocated, AllocatedUnknown, CollectionFacts, Spaces};
use crate::gc::collection::{
    Collection, Committed, GenerationSizes, Implausible, Missing, MissingParts, Pause, PerHeapSums, plausible,
};
use crate::gc::history::GlobalHistory;
use crate::gc::loss::LossIntervals;
use crate::gc::stop::{PauseKind, Stop, StopEdges, StopId, StopPart};

/// Maximum number of heaps that are distinguished. A runtime has at most 1024 (`MAX_SUPPORTED_CPUS` of gc.h).
pub const MAX_HEAPS: u32 = 4096;

/// The facts of one collection that have arrived so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct FormingCollection {
    pub(crate) number: u32,
    pub(crate) clr_instance: Option<u16>,
    pub(crate) start: Option<(i64, u64, GcStart)>,
    /// Time of GCEnd and the generation that it names.
    pub(crate) end: Option<(i64, u32)>,
    pub(crate) trigger: Option<GcReason>,
    pub(crate) trigger_thread: Option<u64>,
    /// Whether events of a heap dump arrived during the collection.
    pub(crate) dumped: bool,
    pub(crate) heap_stats: Option<HeapStats>,
    pub(crate) global: Option<GlobalHistory>,
    pub(crate) stops: Vec<StopId>,
    /// Number of the background collection that was in progress at GCStart; `None` if none was.
    pub(crate) background: Option<u32>,
    /// Whether the collection is known to have had a stop that was never observed.
    pub(crate) stop_unseen: bool,
    /// Bytes allocated before the collection, set once its histories are complete.
    pub(crate) allocated: Option<Result<Allocated, AllocatedUnknown>>,
    pub(crate) committed: Committed,
    pub(crate) throughput_cost_percent: Option<f32>,
    /// Whether CreateConcurrentThread arrived during the collection.
    pub(crate) thread_created: bool,
    pub(crate) last_event: i64,
    /// Time of GCGlobalHeapHistory.
    pub(crate) history_at: Option<i64>,
    /// Marks of the collection.
    pub(crate) marking: Option<MarkTimes>,
    heaps: Vec<u64>,
    sums: [Option<PerHeapSums>; 5],
    spaces: Spaces,
    /// Surviving bytes in the heap with the most survivors.
    largest: u64,
    histories: u32,
}

impl FormingCollection {
    pub(crate) fn new(number: u32, at: i64) -> Self {
        Self {
            number,
            last_event: at,
            ..Self::default()
        }
    }

    /// Returns the number of bytes on the heap.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.stops.capacity() * size_of::<StopId>() + self.heaps.capacity() * size_of::<u64>()
    }

    /// Returns whether the collection was announced as background.
    pub(crate) fn announced_background(&self) -> bool {
        matches!(
            self.start,
            Some((
                _,
                _,
                GcStart {
                    gc_type: Some(GcType::BACKGROUND),
                    ..
                }
            ))
        )
    }

    pub(crate) fn touch(&mut self, at: i64) {
        self.last_event = self.last_event.max(at);
    }

    /// Adds the history of one heap. A second history of the same heap is ignored.
    pub(crate) fn per_heap(&mut self, event: &PerHeapHistory<'_>) {
        if event.heap_index >= MAX_HEAPS {
            return;
        }
        let (word, bit) = ((event.heap_index / 64) as usize, 1u64 << (event.heap_index % 64));
        if self.heaps.len() <= word {
            self.heaps.resize(word + 1, 0);
        }
        if let Some(seen) = self.heaps.get_mut(word)
            && *seen & bit == 0
        {
            *seen |= bit;
            self.histories += 1;
            PerHeapSums::add(&mut self.sums, event);
            self.spaces.add(event);
            let survived = event.values.iter().map(|generation| generation.survived());
            self.largest = self.largest.max(survived.fold(0, u64::saturating_add));
        }
    }

    /// Adopts the histories that arrived before the collection's number was known, if their generation matches.
    pub(crate) fn adopt(&mut self, unnumbered: Self, generation: u32) {
        let fits = |global: &GlobalHistory| global.condemned_generation == generation;
        if self.global.is_none() && unnumbered.global.as_ref().is_some_and(fits) {
            self.global = unnumbered.global;
            self.heaps = unnumbered.heaps;
            self.sums = unnumbered.sums;
            self.spaces = unnumbered.spaces;
            self.largest = unnumbered.largest;
            self.histories = unnumbered.histories;
        }
    }

    /// Returns whether the collection has the reason of `GC.Collect`.
    pub(crate) fn is_induced(&self) -> bool {
        self.start
            .as_ref()
            .is_some_and(|(_, _, start)| start.reason == GcReason::INDUCED)
    }

    /// Returns whether every heap has sent its history.
    pub(crate) fn has_all_histories(&self) -> bool {
        self.global
            .is_some_and(|global| global.heap_count > 0 && self.histories >= global.heap_count)
    }

    /// Returns whether all facts except the stops have arrived.
    pub(crate) fn has_all_facts(&self) -> bool {
        self.start.is_some() && self.end.is_some() && self.heap_stats.is_some() && self.has_all_histories()
    }

    /// Returns whether the collection was announced as background but ended before the threads resumed, or did no
    /// concurrent work.
    fn became_blocking(&self, stops: &[&Stop]) -> bool {
        if !self.announced_background() {
            return false;
        }
        let ended_inside = || {
            let first = stops.first()?;
            Some(self.end?.0 <= first.restarting.or(first.restarted)?)
        };
        self.global.is_some_and(|global| !global.mechanisms.is_concurrent()) || ended_inside().unwrap_or(false)
    }

    /// Creates the record. `stops` are the stops of the collection, in order; they are closed unless the session ended
    /// during a stop. `cost` covers earlier collections, and learns from this collection if it is not a full
    /// collection.
    pub(crate) fn into_collection(self, stops: &[&Stop], losses: &LossIntervals, cost: &mut MarkingCost) -> Collection {
        let became_blocking = self.became_blocking(stops);
        let mut pauses: Vec<Pause> = Vec::with_capacity(stops.len());
        for stop in stops {
            pauses.push(self.pause(stop, became_blocking, cost));
        }
        let has_final = stops.iter().any(|stop| stop.final_of == Some(self.number));
        // Every concurrent collection stops the threads a second time (exactly once in every recording). A collection
        // that ended without a second stop was not observed completely.
        let final_unseen = self.announced_background() && !became_blocking && self.end.is_some() && !has_final;
        let first_stop_seen = stops
            .iter()
            .any(|stop| stop.runs.iter().any(|run| run.number == self.number));
        let edges_seen = stops
            .iter()
            .all(|stop| stop.stopped_ns().is_some() && stop.suspend_ns().is_some());
        let parts_known = pauses.iter().all(|pause| pause.pause_ns.is_some());

        let mut missing = MissingParts::default();
        missing.add(Missing::Start, self.start.is_none());
        missing.add(Missing::End, self.end.is_none());
        missing.add(Missing::HeapStats, self.heap_stats.is_none());
        missing.add(
            Missing::Suspension,
            !first_stop_seen || self.stop_unseen || final_unseen || !edges_seen || !parts_known,
        );
        missing.add(Missing::GlobalHistory, self.global.is_none());
        missing.add(Missing::PerHeapHistory, !self.has_all_histories());

        // A collection in progress reports the pauses so far; its missing end shows that the sum is incomplete.
        let pause_known = first_stop_seen && !self.stop_unseen && !final_unseen && parts_known;
        let (start, end) = (self.start.as_ref().map(|start| start.0), self.end.map(|end| end.0));
        let first = stops
            .first()
            .and_then(|stop| stop.first_seen())
            .or(start)
            .unwrap_or(self.last_event);
        let last = stops
            .iter()
            .filter_map(|stop| stop.last_seen())
            .fold(self.last_event, i64::max);
        let heap = self.sizes();
        let mut collection = Collection {
            number: self.number,
            generation: self
                .start
                .as_ref()
                .and_then(|start| start.2.depth)
                .or(self.end.map(|end| end.1)),
            clr_instance: self.clr_instance,
            gc_type: self.start.as_ref().and_then(|start| start.2.gc_type),
            became_blocking,
            reason: self.start.as_ref().map(|start| start.2.reason),
            trigger: self.trigger,
            trigger_thread: self.trigger_thread,
            // A dump also walks the heap in other collections during the dump, and the program can have requested one
            // of them. `Machine::report` therefore overrides this value if the requesting thread is known.
            requested_by_tool: self.dumped.then_some(true).filter(|_| self.is_induced()),
            start,
            end,
            start_thread: self.start.as_ref().map(|start| start.1),
            last_event: last,
            pause_ns: pause_known.then(|| {
                pauses
                    .iter()
                    .filter_map(|pause| pause.pause_ns)
                    .fold(0, i64::saturating_add)
            }),
            suspend_ns: (first_stop_seen && !self.stop_unseen)
                .then(|| {
                    pauses
                        .iter()
                        .try_fold(0i64, |sum, pause| Some(sum.saturating_add(pause.suspend_ns?)))
                })
                .flatten(),
            pauses,
            largest_heap_survived: self.has_all_histories().then_some(self.largest),
            throughput_cost_percent: self.throughput_cost_percent,
            allocated: self.allocated(losses),
            heap_stats: self.heap_stats,
            heap,
            per_heap_histories: self.histories,
            phases: self.phases(),
            global: self.global,
            committed: self.committed,
            background: self.background,
            thread_created: self.thread_created,
            missing,
            implausible: Implausible::default(),
            lossy: losses.overlap(first, last),
            observed_by_others: None,
            cpu: None,
            requests: None,
        };
        plausible::judge(&mut collection);
        collection
    }

    fn pause(&self, stop: &Stop, became_blocking: bool, cost: &mut MarkingCost) -> Pause {
        let parts = stop.division();
        let own = parts.iter().find(|part| part.number == self.number);
        let kind = if stop.final_of == Some(self.number) {
            PauseKind::Final
        } else if self.announced_background() && !became_blocking {
            PauseKind::Initial
        } else {
            PauseKind::Blocking
        };
        let spans = own.and_then(|part| part.spans.clone()).unwrap_or_default();
        let pause_ns = own.and_then(StopPart::ns);
        // In damaged streams, a span can end before it starts.
        let can_be = spans.iter().all(|(from, to)| from <= to);
        let divided = pause_ns.map(|ns| match can_be {
            true => self.stopped(stop, &spans, kind, cost).divide(),
            false => DividedStop {
                account: Account::unexplained(ns),
                handles_ns: None,
                marks: Vec::new(),
            },
        });
        if let (Some(divided), false) = (&divided, self.is_full()) {
            cost.learn(&divided.marks);
        }
        Pause {
            start: own.and_then(|part| part.start),
            suspend_ns: if own.is_some_and(|part| part.first) {
                stop.suspend_ns()
            } else {
                Some(0)
            },
            pause_ns,
            spans,
            account: divided.as_ref().map(|divided| divided.account),
            handles_ns: divided.and_then(|divided| divided.handles_ns),
            stopped_ns: stop.stopped_ns(),
            shared_with: parts
                .iter()
                .map(|part| part.number)
                .filter(|&number| number != self.number)
                .collect(),
            kind,
            edges: StopEdges::from_stop(stop),
        }
    }

    fn is_full(&self) -> bool {
        self.start.as_ref().is_some_and(|start| start.2.depth == Some(2))
    }

    fn stopped<'a>(
        &'a self,
        stop: &Stop,
        spans: &'a [(i64, i64)],
        kind: PauseKind,
        cost: &'a MarkingCost,
    ) -> StopFacts<'a> {
        let start = self.start.as_ref();
        let sent = self.global.as_ref();
        StopFacts {
            start: start.map(|start| start.0),
            history: self.history_at,
            is_compacting: sent.is_some_and(|sent| sent.mechanisms.is_compaction()),
            phases: self.phases(),
            marking: self.marking.as_ref(),
            heaps: sent.map_or(0, |sent| sent.heap_count),
            is_full: self.is_full(),
            is_foreground: start.is_some_and(|start| start.2.gc_type == Some(GcType::FOREGROUND)),
            handles: self.heap_stats.map(|stats| stats.gc_handle_count),
            pinned: self.heap_stats.map(|stats| stats.pinned_object_count),
            cost: Some(cost),
            ..StopFacts::new(StopEdges::from_stop(stop), spans, kind)
        }
    }

    /// Returns the plausible phase times of the collection.
    fn phases(&self) -> Phases {
        let (start, end) = (self.start.as_ref().map(|start| start.0), self.end.map(|end| end.0));
        let duration = start.zip(end).map(|(start, end)| end - start).filter(|&ns| ns >= 0);
        let sent = self.global.map(|global| global.phases.within(duration));
        sent.unwrap_or_default()
    }

    fn sizes(&self) -> [GenerationSizes; 5] {
        let whole = self.has_all_histories();
        let mut sizes = [GenerationSizes::default(); 5];
        let stats = self.heap_stats.map(|stats| stats.generations()).unwrap_or_default();
        for ((sizes, stats), sums) in sizes.iter_mut().zip(stats).zip(self.sums) {
            if let Some(stats) = stats {
                (sizes.after, sizes.promoted) = (Some(stats.size), Some(stats.promoted));
            }
            if let (true, Some(sums)) = (whole, sums) {
                sizes.before = Some(sums.before);
                sizes.fragmentation = Some(sums.fragmentation);
                sizes.budget = Some(sums.budget);
                sizes.survived = Some(sums.survived);
            }
        }
        sizes
    }

    /// Returns the bytes allocated before the collection, or the reason why they are unknown, for example because
    /// events of the interval were lost.
    fn allocated(&self, losses: &LossIntervals) -> Result<Allocated, AllocatedUnknown> {
        let allocated = self.allocated.unwrap_or(Err(AllocatedUnknown::MissingHistory))?;
        if losses.overlap(allocated.since, allocated.until) {
            return Err(AllocatedUnknown::Loss);
        }
        Ok(allocated)
    }

    /// Returns the input for the allocation measurement, or `None` if the histories are incomplete or the allocation is
    /// already measured.
    pub(crate) fn measured(&self, at: i64) -> Option<CollectionFacts> {
        let global = self
            .global
            .filter(|_| self.allocated.is_none() && self.has_all_histories())?;
        let start = self.start.as_ref().map(|start| start.0);
        let lasted = start.map(|start| at.saturating_sub(start));
        Some(CollectionFacts {
            number: self.number,
            start,
            at,
            concurrent: global.mechanisms.is_concurrent(),
            for_small_objects: matches!(&self.start, Some((_, _, start)) if start.reason == GcReason::ALLOC_SMALL),
            heap_count: global.heap_count,
            gen0_budget: global.gen0_budget,
            compact_is_a_clock: global.phases.compact > lasted && lasted.is_some(),
            spaces: self.spaces,
        })
    }
}
