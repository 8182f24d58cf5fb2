//! What a collection did: the histories (global and of each heap), marking, joins, large object compaction.

use super::enums::{BucketKind, GcReason, JoinTime, JoinType, PauseMode, RootKind};
use super::flags::{CompactMechanism, CondemnReasons0, CondemnReasons1, ExpandMechanism, GlobalMechanisms};
use super::reader::{AlignedPtr, AlignedU32, Count, Half, Ptr};
use super::record::record;
use super::rows::{Iter, Rows};

record! {
    /// GCGlobalHeapHistory (205): one per collection. Versions 2 (38 bytes: .NET Core 3.x), 3 (46; manifest only),
    /// 4 (50 + 4 per phase: .NET 6 and later). Versions 0 and 1 belong to the private provider.
    GlobalHeapHistory<'a> {
        /// Budget of the youngest generation for the time until the next collection, in bytes.
        final_youngest_desired: u64 = "FinalYoungestDesired",
        /// Heaps: as many GCPerHeapHistory belong to this collection.
        num_heaps: i32 = "NumHeaps",
        /// Generation that was collected.
        condemned_generation: u32 = "CondemnedGeneration",
        /// How often the budget of generation 0 was reduced.
        gen0_reduction_count: u32 = "Gen0ReductionCount",
        /// Why.
        reason: GcReason = "Reason",
        /// What was done.
        global_mechanisms: GlobalMechanisms = "GlobalMechanisms",
        /// Number of the runtime within its process.
        clr_instance: u16 = "ClrInstanceID",
        /// `GCSettings.LatencyMode`.
        pause_mode: PauseMode = "PauseMode",
        /// Load of the physical memory, or of the container's limit, in percent.
        memory_pressure: u32 = "MemoryPressure",
        /// Generations that were considered.
        condemn_reasons0: CondemnReasons0 = "CondemnReasons0" since 3,
        /// Why this generation.
        condemn_reasons1: CondemnReasons1 = "CondemnReasons1" since 3,
        /// How many phase times.
        count: u32 as Count<u32> = "Count" since 4,
        /// How long each phase took; [`GlobalHeapHistory::phases`] names them.
        values: Rows<'a, PhaseTime> = "Values" since 4,
    }

    /// Time of one phase in [`GlobalHeapHistory`].
    PhaseTime {
        /// Microseconds; 0xFFFFFFFF where the phase began before the session did.
        time: u32 = "Time",
    }

    /// GCPerHeapHistory (204): one per heap and collection, without the collection's number. Version 3 (86 bytes + 80
    /// per generation on 64 bits, 58 + 40 on 32). Bytes unless another unit is named.
    PerHeapHistory<'a> {
        /// Number of the runtime within its process.
        clr_instance: u16 = "ClrInstanceID",
        /// Survivors allocated out of the free list of the next generation.
        free_list_allocated: u64 as Ptr = "FreeListAllocated",
        /// Free list items that were tried and did not fit.
        free_list_rejected: u64 as Ptr = "FreeListRejected",
        /// Survivors allocated at the end of segments.
        end_of_seg_allocated: u64 as Ptr = "EndOfSegAllocated",
        /// Survivors allocated in the condemned generations.
        condemned_allocated: u64 as Ptr = "CondemnedAllocated",
        /// Pinned survivors.
        pinned_allocated: u64 as Ptr = "PinnedAllocated",
        /// Pinned survivors that moved up a generation.
        pinned_allocated_advance: u64 as Ptr = "PinnedAllocatedAdvance",
        /// How well the free list of generation 2 was used so far, in percent.
        running_free_list_efficiency: u32 = "RunningFreeListEfficiency",
        /// Generations that were considered.
        condemn_reasons0: CondemnReasons0 = "CondemnReasons0",
        /// Why this generation.
        condemn_reasons1: CondemnReasons1 = "CondemnReasons1",
        /// Whether and why this heap was compacted.
        compact_mechanisms: CompactMechanism = "CompactMechanisms",
        /// Whether and how this heap was expanded.
        expand_mechanisms: ExpandMechanism = "ExpandMechanisms",
        /// Index of the heap.
        heap_index: u32 = "HeapIndex",
        /// Committed for generation 0 beyond what it uses.
        extra_gen0_commit: u64 as Ptr = "ExtraGen0Commit",
        /// How many generations: 4 on .NET Core 3.x, 5 later.
        count: u32 as Count<u32> = "Count",
        /// Generations 0, 1, 2, large (3) and pinned (4) object heap.
        values: Rows<'a, GenerationHistory> = "Values",
    }

    /// One generation in [`PerHeapHistory`], in bytes.
    GenerationHistory {
        /// Size before the collection.
        size_before: u64 as Ptr = "SizeBefore",
        /// In the free list before.
        free_list_space_before: u64 as Ptr = "FreeListBefore",
        /// Free, too small for the list, before.
        free_obj_space_before: u64 as Ptr = "FreeObjBefore",
        /// Size after.
        size_after: u64 as Ptr = "SizeAfter",
        /// In the free list after.
        free_list_space_after: u64 as Ptr = "FreeListAfter",
        /// Free, too small for the list, after.
        free_obj_space_after: u64 as Ptr = "FreeObjAfter",
        /// Came into the generation during the collection.
        in_: u64 as Ptr = "In",
        /// Survived pinned.
        pinned_surv: u64 as Ptr = "PinnedSurv",
        /// Survived otherwise.
        none_pinned_surv: u64 as Ptr = "NonePinnedSurv",
        /// Budget until the next collection of the generation.
        new_allocation: u64 as Ptr = "NewAllocation",
    }

    /// GCMarkWithType (202): what one heap marked from one kind of root. Version 0 (18 bytes). A kind may come more
    /// than once per heap and collection: the bytes add up.
    MarkWithType {
        /// Index of the heap.
        heap_num: u32 = "HeapNum",
        /// Number of the runtime within its process.
        clr_instance: u16 = "ClrInstanceID",
        /// Where the marking began.
        root_kind: RootKind = "Type",
        /// Bytes marked.
        bytes: u64 = "Bytes",
    }

    /// GCMarkStackRoots, GCMarkFinalizeQueueRoots, GCMarkHandles, GCMarkOlderGenerationRoots (25 to 28) before
    /// GCMarkWithType replaced them. Version 0 (6 bytes); manifest only.
    MarkRoots {
        /// Index of the heap.
        heap_num: u32 = "HeapNum",
        /// Number of the runtime within its process.
        clr_instance: u16 = "ClrInstanceID",
    }

    /// GCJoin (203): a thread of a server GC waits for the others. Verbose. Version 2 (18 bytes).
    Join {
        /// Which heap's thread; 100 and 200 are not heaps but restarts.
        heap: u32 = "Heap",
        /// Begin or end.
        join_time: JoinTime = "JoinTime",
        /// What the thread does.
        join_type: JoinType = "JoinType",
        /// Number of the runtime within its process.
        clr_instance: u16 = "ClrInstanceID",
        /// Which join; the numbers change between versions of the runtime. -1 for restarts (unsigned in the manifest).
        join_id: i32 = "JoinID",
    }

    /// GCLOHCompact (208): the large object heap was compacted. Version 0 (4 bytes + 32 per heap on 64 bits, 20 on 32:
    /// rows are C structs, padded, though the manifest has no padding; 32 bits from the encoder only).
    LohCompact<'a> {
        /// Number of the runtime within its process.
        clr_instance: u16 = "ClrInstanceID",
        /// How many heaps.
        count: u16 as Count<u16> = "Count",
        /// Each heap.
        values: Rows<'a, LohCompactHeap> = "Values",
    }

    /// One heap in [`LohCompact`].
    LohCompactHeap {
        /// Microseconds to plan.
        time_plan: u32 = "TimePlan",
        /// Microseconds to compact.
        time_compact: u32 = "TimeCompact",
        /// Microseconds to relocate.
        time_relocate: u32 = "TimeRelocate",
        /// References that were looked at.
        total_refs: u64 as AlignedPtr = "TotalRefs",
        /// Of these, null.
        zero_refs: u64 as Ptr = "ZeroRefs",
    }

    /// GCFitBucketInfo (209): sizes of free items or plugs, by powers of two. Verbose. Version 0 (14 bytes + 16 per
    /// bucket on 64 bits, 12 on 32: rows are padded C structs; 32 bits from the encoder only).
    FitBucketInfo<'a> {
        /// Number of the runtime within its process.
        clr_instance: u16 = "ClrInstanceID",
        /// What is counted.
        bucket_kind: BucketKind as Half<BucketKind> = "BucketKind",
        /// Bytes in all buckets.
        total_size: u64 = "TotalSize",
        /// How many buckets.
        count: u16 as Count<u16> = "Count",
        /// Each bucket.
        values: Rows<'a, FitBucket> = "Values",
    }

    /// One bucket in [`FitBucketInfo`].
    FitBucket {
        /// Which power of two.
        index: u16 = "Index",
        /// How many items.
        count: u32 as AlignedU32 = "Count",
        /// Their bytes.
        size: u64 as Ptr = "Size",
    }
}

impl<'a> PerHeapHistory<'a> {
    /// Generations 0, 1, 2, the large (3) and, from .NET 5, the pinned (4) object heap.
    pub fn generations(&self) -> Iter<'a, GenerationHistory> {
        self.values.iter()
    }
}

impl GenerationHistory {
    /// Free space after the collection, listed or not: the generation's fragmentation.
    pub const fn fragmentation(&self) -> u64 {
        self.free_list_space_after.saturating_add(self.free_obj_space_after)
    }

    /// What survived, pinned or not.
    pub const fn survived(&self) -> u64 {
        self.pinned_surv.saturating_add(self.none_pinned_surv)
    }
}

/// How long each phase of a collection took, in nanoseconds. `None`: not sent, or the phase does not exist in this
/// kind of collection.
///
/// **.NET 8** gives in `compact` of generations 1 and 2 not a duration but the absolute clock (5062 of 5062 collections
/// of 8.0.33): drop a phase that is longer than the collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Phases {
    /// Marking from sized references.
    pub mark_sized_refs: Option<i64>,
    /// Marking from roots: usually the largest.
    pub mark_roots: Option<i64>,
    /// Clearing short weak handles.
    pub short_weak: Option<i64>,
    /// Finding objects to finalize.
    pub scan_finalization: Option<i64>,
    /// Clearing long weak handles.
    pub long_weak: Option<i64>,
    /// Planning where survivors go; not in background collections.
    pub plan: Option<i64>,
    /// Updating references; when compacting.
    pub relocate: Option<i64>,
    /// Moving survivors; when compacting.
    pub compact: Option<i64>,
    /// Making free lists; when sweeping (not in background collections, which sweep without a time).
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

    pub(crate) fn each_mut(&mut self) -> [&mut Option<i64>; 9] {
        [
            &mut self.mark_sized_refs,
            &mut self.mark_roots,
            &mut self.short_weak,
            &mut self.scan_finalization,
            &mut self.long_weak,
            &mut self.plan,
            &mut self.relocate,
            &mut self.compact,
            &mut self.sweep,
        ]
    }

    /// Without those longer than the collection. .NET 8 sends the time of day of its compact phase, not the length, and
    /// a background collection that ran before the session began has no start stamps.
    pub(crate) fn within(mut self, duration_ns: Option<i64>) -> Self {
        for phase in self.each_mut() {
            *phase = phase.filter(|&ns| duration_ns.is_some_and(|duration| ns <= duration));
        }
        self
    }
}

impl GlobalHeapHistory<'_> {
    /// The phases by name. Their times are positional: 5 in a background collection, 7 when sweeping, 8 when
    /// compacting; for any other number the mechanisms decide what follows `plan`.
    pub fn phases(&self) -> Phases {
        let Some(values) = self.values else {
            return Phases::default();
        };
        let mut times = values
            .iter()
            .map(|phase| (phase.time != u32::MAX).then(|| i64::from(phase.time) * 1000));
        let mut next = || times.next().flatten();
        let mut phases = Phases {
            mark_sized_refs: next(),
            mark_roots: next(),
            short_weak: next(),
            scan_finalization: next(),
            long_weak: next(),
            plan: next(),
            ..Phases::default()
        };
        let compacted = match values.len() {
            7 => false,
            8 => true,
            _ => self.global_mechanisms.is_compaction(),
        };
        if compacted {
            phases.relocate = next();
            phases.compact = next();
        } else {
            phases.sweep = next();
        }
        phases
    }
}
