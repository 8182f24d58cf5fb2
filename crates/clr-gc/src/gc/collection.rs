//! The record of one collection, and the values derived from it.

use std::fmt;

use crate::event::{
    CondemnReasons0, CondemnReasons1, GcReason, GcType, GlobalHeapHistory, GlobalMechanisms, HeapStats, PauseMode,
    PerHeapHistory, SuspendReason,
};
use crate::gc::impact::RequestImpact;

/// The generations in events, in the order of their numbers in GCHeapStats and GCPerHeapHistory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HeapGeneration {
    /// Generation 0.
    Gen0,
    /// Generation 1.
    Gen1,
    /// Generation 2.
    Gen2,
    /// The large object heap, 3.
    Loh,
    /// The pinned object heap, 4 (.NET 5 and later).
    Poh,
}

impl HeapGeneration {
    /// All of them, in order.
    pub const ALL: [Self; 5] = [Self::Gen0, Self::Gen1, Self::Gen2, Self::Loh, Self::Poh];

    /// `gen0`, `gen1`, `gen2`, `loh`, `poh`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gen0 => "gen0",
            Self::Gen1 => "gen1",
            Self::Gen2 => "gen2",
            Self::Loh => "loh",
            Self::Poh => "poh",
        }
    }
}

/// Sizes of one generation around a collection, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GenerationSizes {
    /// Before the collection: the sum of SizeBefore over its heaps.
    pub before: Option<u64>,
    /// After it: GCHeapStats' GenerationSize.
    pub after: Option<u64>,
    /// GCHeapStats' TotalPromotedSize.
    pub promoted: Option<u64>,
    /// Free space inside the generation after it: FreeListSpaceAfter + FreeObjSpaceAfter over its heaps.
    pub fragmentation: Option<u64>,
    /// What may be allocated in it before the next collection: NewAllocation over its heaps.
    pub budget: Option<u64>,
    /// PinnedSurv + NonePinnedSurv over its heaps.
    pub survived: Option<u64>,
}

/// Sums over the per-heap histories of one collection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct PerHeapSums {
    pub(crate) before: u64,
    pub(crate) fragmentation: u64,
    pub(crate) budget: u64,
    pub(crate) survived: u64,
}

/// GCGlobalHeapHistory without the borrowed phase times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GlobalHistory {
    /// Number of heaps that took part (it changes at run time with DATAS).
    pub heap_count: u32,
    /// Generation that was condemned.
    pub condemned_generation: u32,
    /// Why it began, by this event.
    pub reason: GcReason,
    /// Bits of what was done.
    pub mechanisms: GlobalMechanisms,
    /// The process's latency mode.
    pub pause_mode: PauseMode,
    /// Load of the physical memory or of the container's limit, percent.
    pub memory_load_percent: u32,
    /// Generations that were considered; `None` on 3.x.
    pub condemn_reasons0: Option<CondemnReasons0>,
    /// Why that generation; `None` on 3.x.
    pub condemn_reasons1: Option<CondemnReasons1>,
    /// Phase times as they came.
    pub phases: Phases,
}

/// Times of the phases, nanoseconds. `None`: not sent, or implausible.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Phases {
    /// Marking from sized references.
    pub mark_sized_refs: Option<i64>,
    /// Marking from roots.
    pub mark_roots: Option<i64>,
    /// Clearing short weak references.
    pub short_weak: Option<i64>,
    /// Scanning for finalization.
    pub scan_finalization: Option<i64>,
    /// Clearing long weak references.
    pub long_weak: Option<i64>,
    /// Planning.
    pub plan: Option<i64>,
    /// Relocating references (compacting only).
    pub relocate: Option<i64>,
    /// Moving objects (compacting only).
    pub compact: Option<i64>,
    /// Sweeping (not compacting).
    pub sweep: Option<i64>,
}

impl Phases {
    /// Each phase with its name, in the order in which they run.
    pub fn named(&self) -> [(&'static str, Option<i64>); 9] {
        [
            ("mark_sized_refs", self.mark_sized_refs),
            ("mark_roots", self.mark_roots),
            ("short_weak", self.short_weak),
            ("scan_finalization", self.scan_finalization),
            ("long_weak", self.long_weak),
            ("plan", self.plan),
            ("relocate", self.relocate),
            ("compact", self.compact),
            ("sweep", self.sweep),
        ]
    }

    /// All of marking: its phases, summed; `None` as long as one is unknown.
    pub fn marking(&self) -> Option<i64> {
        let marks = [
            self.mark_sized_refs,
            self.mark_roots,
            self.short_weak,
            self.scan_finalization,
            self.long_weak,
        ];
        marks.iter().try_fold(0i64, |sum, ns| Some(sum.saturating_add((*ns)?)))
    }

    /// Without those longer than the collection. .NET 8 sends the time of day of its compact phase, not the length, and
    /// a background collection that ran before the session began has no start stamps.
    pub(crate) fn within(self, duration_ns: Option<i64>) -> Self {
        let keep = |phase: Option<i64>| phase.filter(|&ns| duration_ns.is_some_and(|duration| ns <= duration));
        Self {
            mark_sized_refs: keep(self.mark_sized_refs),
            mark_roots: keep(self.mark_roots),
            short_weak: keep(self.short_weak),
            scan_finalization: keep(self.scan_finalization),
            long_weak: keep(self.long_weak),
            plan: keep(self.plan),
            relocate: keep(self.relocate),
            compact: keep(self.compact),
            sweep: keep(self.sweep),
        }
    }
}

/// What a stop was for, from the view of one collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PauseKind {
    /// The collection ran in it from start to end.
    Blocking,
    /// A background collection began in it.
    Initial,
    /// A background collection's own later stop (SuspendEEBegin reason 6).
    Final,
}

impl PauseKind {
    /// `blocking`, `initial` or `final`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Blocking => "blocking",
            Self::Initial => "initial",
            Self::Final => "final",
        }
    }
}

/// One stop of the managed threads, from the view of one collection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pause {
    /// When this collection's part begins, ns since the sync point: the stop's SuspendEEBegin for the first collection
    /// in it, its own GCStart for a later one.
    pub start: Option<i64>,
    /// SuspendEEBegin to SuspendEEEnd if it was the first to start in the stop, 0 for an inner one.
    pub suspend_ns: Option<i64>,
    /// This collection's part of the stop. The parts of a stop add up to it.
    pub pause_ns: Option<i64>,
    /// From when to when the stop was this collection's, ns since the sync point; empty when its part is not known.
    pub spans: Vec<(i64, i64)>,
    /// The whole stop, SuspendEEBegin to RestartEEEnd.
    pub stopped_ns: Option<i64>,
    /// Numbers of the other collections of the stop.
    pub shared_with: Vec<u32>,
    /// What it was for.
    pub kind: PauseKind,
    /// The edges as they were seen.
    pub edges: StopEdges,
}

/// The events around a stop, nanoseconds since the sync point.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StopEdges {
    /// SuspendEEBegin.
    pub suspend_begin: Option<i64>,
    /// SuspendEEEnd.
    pub suspend_end: Option<i64>,
    /// RestartEEBegin.
    pub restart_begin: Option<i64>,
    /// RestartEEEnd.
    pub restart_end: Option<i64>,
    /// The thread that stopped and restarted the others.
    pub thread: u64,
}

/// A part of a collection that was never seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Missing {
    /// GCStart.
    Start,
    /// GCEnd.
    End,
    /// GCHeapStats.
    HeapStats,
    /// An edge of one of its stops, or a whole stop.
    Suspension,
    /// GCGlobalHeapHistory.
    GlobalHistory,
    /// Fewer GCPerHeapHistory than heaps.
    PerHeapHistory,
}

impl Missing {
    pub(crate) const ALL: [Self; 6] = [
        Self::Start,
        Self::End,
        Self::HeapStats,
        Self::Suspension,
        Self::GlobalHistory,
        Self::PerHeapHistory,
    ];

    /// The part of that name.
    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|part| part.name() == name)
    }

    /// The name in records.
    pub fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::End => "end",
            Self::HeapStats => "heap_stats",
            Self::Suspension => "suspension",
            Self::GlobalHistory => "global_history",
            Self::PerHeapHistory => "per_heap_history",
        }
    }
}

/// Which parts of a collection were never seen.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct MissingParts(u8);

impl MissingParts {
    /// Nothing is missing.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// This part is missing.
    pub fn contains(self, part: Missing) -> bool {
        self.0 & (1 << part as u8) != 0
    }

    /// The missing parts, in a fixed order.
    pub fn iter(self) -> impl Iterator<Item = Missing> {
        Missing::ALL.into_iter().filter(move |&part| self.contains(part))
    }

    pub(crate) fn add(&mut self, part: Missing, missing: bool) {
        self.0 |= u8::from(missing) << part as u8;
    }
}

impl FromIterator<Missing> for MissingParts {
    fn from_iter<I: IntoIterator<Item = Missing>>(parts: I) -> Self {
        let mut missing = Self::default();
        parts.into_iter().for_each(|part| missing.add(part, true));
        missing
    }
}

impl fmt::Debug for MissingParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter().map(Missing::name)).finish()
    }
}

/// CommittedUsage around a collection: TotalCommittedInUse, what is committed beside it, and TotalBookkeepingCommitted;
/// bytes (.NET 8 and later, regions).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Committed {
    /// Right after GCStart.
    pub before: Option<u64>,
    /// Right before GCEnd; a background collection has none.
    pub after: Option<u64>,
    /// The collector's own tables, sent with [`after`](Self::after).
    pub bookkeeping: Option<u64>,
    /// Regions without objects: free ones and those that wait to be decommitted (InFree, InGlobalFree,
    /// InGlobalDecommit), sent with [`after`](Self::after).
    pub kept: Option<u64>,
}

/// One garbage collection. Times are nanoseconds since the stream's sync point. What was never seen is `None`.
#[derive(Debug, Clone, PartialEq)]
pub struct Collection {
    /// GCStart's Count (GCEnd's where only that was seen).
    pub number: u32,
    /// Generation that was collected.
    pub generation: Option<u32>,
    /// Which runtime of the process.
    pub clr_instance: Option<u16>,
    /// As the runtime announced it.
    pub gc_type: Option<GcType>,
    /// Announced as background, but it ran to its end before the threads were restarted.
    pub became_blocking: bool,
    /// Why it began.
    pub reason: Option<GcReason>,
    /// Reason of the newest GCTriggered since the previous GCStart.
    pub trigger: Option<GcReason>,
    /// GCStart.
    pub start: Option<i64>,
    /// GCEnd.
    pub end: Option<i64>,
    /// Thread of GCStart.
    pub start_thread: Option<u64>,
    /// The last event that belongs to it.
    pub last_event: i64,
    /// Its stops, in order.
    pub pauses: Vec<Pause>,
    /// Sum of its parts of the stops; `None` when an edge of one is missing.
    pub pause_ns: Option<i64>,
    /// Sum of the times to suspend of the stops in which it was the first.
    pub suspend_ns: Option<i64>,
    /// GCHeapStats.
    pub heap_stats: Option<HeapStats>,
    /// Sizes per generation, indexed as [`HeapGeneration::ALL`].
    pub heap: [GenerationSizes; 5],
    /// GCGlobalHeapHistory.
    pub global: Option<GlobalHistory>,
    /// How many heaps sent a history.
    pub per_heap_histories: u32,
    /// Phase times no longer than the collection.
    pub phases: Phases,
    /// Committed memory.
    pub committed: Committed,
    /// Bytes that survived in the heap in which the most did; `None` as long as a heap's history is missing.
    pub largest_heap_survived: Option<u64>,
    /// DATAS: what collecting costs, percent of the throughput (MedianThroughputCostPercent); only where it was sent in
    /// this collection.
    pub throughput_cost_percent: Option<f32>,
    /// Bytes allocated since the previous collection (generation 0, LOH, POH).
    pub allocated_since_last: Option<u64>,
    /// Number of the background collection that was under way at its GCStart, where that one's GCStart was seen.
    pub background: Option<u32>,
    /// The runtime made the thread of background collections anew for it (GCCreateConcurrentThread). That thread ends
    /// after 20 s without a background collection.
    pub thread_created: bool,
    /// What was never seen of it.
    pub missing: MissingParts,
    /// Events are missing somewhere in its time.
    pub lossy: bool,
    /// A session of another tool was open in the process meanwhile. No event says so: whoever reads a live process sets
    /// it, where it can be known.
    pub observed_by_others: Option<bool>,
    /// What it did to requests. Set by who reads them, as well.
    pub requests: Option<RequestImpact>,
}

impl Collection {
    /// Nothing is missing.
    pub fn is_complete(&self) -> bool {
        self.missing.is_empty()
    }

    /// GCStart to GCEnd; for a background collection most of it ran beside the program.
    pub fn duration_ns(&self) -> Option<i64> {
        // A GCEnd that came before its GCStart is damage, not a length.
        Some(self.end?.saturating_sub(self.start?)).filter(|&ns| ns >= 0)
    }

    /// Announced as background and really concurrent.
    pub fn is_concurrent(&self) -> bool {
        self.gc_type == Some(GcType::BACKGROUND) && !self.became_blocking
    }

    /// It relocated objects (GlobalMechanisms bit 1).
    pub fn is_compacting(&self) -> Option<bool> {
        self.global.map(|global| global.mechanisms.is_compaction())
    }

    /// Sum over the generations that are known; `None` when none is.
    pub fn total(&self, size: impl Fn(&GenerationSizes) -> Option<u64>) -> Option<u64> {
        self.heap
            .iter()
            .filter_map(size)
            .fold(None, |sum, bytes| Some(sum.unwrap_or(0u64).saturating_add(bytes)))
    }

    /// Bytes in all generations before it.
    pub fn heap_before(&self) -> Option<u64> {
        self.total(|sizes| sizes.before)
    }

    /// Bytes in all generations after it.
    pub fn heap_after(&self) -> Option<u64> {
        self.total(|sizes| sizes.after)
    }

    /// Bytes promoted in all generations.
    pub fn promoted(&self) -> Option<u64> {
        self.total(|sizes| sizes.promoted)
    }
}

/// A stop for the collector (reason 1 or 6) in which no collection ran.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Suspension {
    /// Why the threads were stopped; `None` when SuspendEEBegin was not seen.
    pub reason: Option<SuspendReason>,
    /// Which runtime of the process.
    pub clr_instance: Option<u16>,
    /// Its edges.
    pub edges: StopEdges,
    /// SuspendEEBegin to SuspendEEEnd.
    pub suspend_ns: Option<i64>,
    /// SuspendEEBegin to RestartEEEnd.
    pub stopped_ns: Option<i64>,
    /// A GCTriggered came in it: a no-GC region or a request that led to no collection. Without one a memory limit was
    /// refreshed.
    pub triggered: bool,
}

impl GlobalHistory {
    pub(crate) fn of(event: &GlobalHeapHistory<'_>) -> Self {
        let ns = |micros: Option<u32>| micros.map(|micros| i64::from(micros) * 1000);
        let phases = event.phases();
        Self {
            heap_count: u32::try_from(event.num_heaps).unwrap_or(0),
            condemned_generation: event.condemned_generation,
            reason: event.reason,
            mechanisms: event.global_mechanisms,
            pause_mode: event.pause_mode,
            memory_load_percent: event.memory_pressure,
            condemn_reasons0: event.condemn_reasons0,
            condemn_reasons1: event.condemn_reasons1,
            phases: Phases {
                mark_sized_refs: ns(phases.mark_sized_refs),
                mark_roots: ns(phases.mark_roots),
                short_weak: ns(phases.short_weak),
                scan_finalization: ns(phases.scan_finalization),
                long_weak: ns(phases.long_weak),
                plan: ns(phases.plan),
                relocate: ns(phases.relocate),
                compact: ns(phases.compact),
                sweep: ns(phases.sweep),
            },
        }
    }
}

impl PerHeapSums {
    /// Adds one heap's history to the sums of its generations; generations beyond POH are not known.
    pub(crate) fn add(sums: &mut [Option<Self>; 5], event: &PerHeapHistory<'_>) {
        for (sum, generation) in sums.iter_mut().zip(event.values.iter()) {
            let sum = sum.get_or_insert_default();
            sum.before = sum.before.saturating_add(generation.size_before);
            sum.fragmentation = sum.fragmentation.saturating_add(generation.fragmentation());
            sum.budget = sum.budget.saturating_add(generation.new_allocation);
            sum.survived = sum.survived.saturating_add(generation.survived());
        }
    }
}
