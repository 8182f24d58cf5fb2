//! Events about the work of a collection: histories (global and per heap), marking, joins, large object compaction.

use super::enums::{BucketKind, GcReason, JoinTime, JoinType, PauseMode, RootKind};
use super::flags::{CompactMechanism, CondemnReasons0, CondemnReasons1, ExpandMechanism, GlobalMechanisms};
use super::reader::{AlignedPtr, AlignedU32, Count, Enum16, Ptr};
use super::record::record;
use super::rows::{Iter, Rows};

record! {
    /// GCGlobalHeapHistory (205): one per collection. Versions 2 (38 bytes: .NET Core 3.x), 3 (46; manifest only),
    /// 4 (50 + 4 per phase: .NET 6 and later). Versions 0 and 1 belong to the private provider.
    GlobalHeapHistory<'a> {
        /// Budget of the youngest generation until the next collection, in bytes.
        final_youngest_desired: u64 = "FinalYoungestDesired",
        /// Number of heaps, and of the GCPerHeapHistory events that belong to this collection.
        num_heaps: i32 = "NumHeaps",
        /// Generation that was collected.
        condemned_generation: u32 = "CondemnedGeneration",
        /// Number of times the budget of generation 0 was reduced.
        gen0_reduction_count: u32 = "Gen0ReductionCount",
        /// Reason for the collection.
        reason: GcReason = "Reason",
        /// Mechanisms that the collection used.
        global_mechanisms: GlobalMechanisms = "GlobalMechanisms",
        /// Number of the runtime within its process.
        clr_instance: u16 = "ClrInstanceID",
        /// `GCSettings.LatencyMode`.
        pause_mode: PauseMode = "PauseMode",
        /// Load of the physical memory, or of the container's limit, in percent.
        memory_pressure: u32 = "MemoryPressure",
        /// Generations that were considered.
        condemn_reasons0: CondemnReasons0 = "CondemnReasons0" since 3,
        /// Reasons for the choice of the generation.
        condemn_reasons1: CondemnReasons1 = "CondemnReasons1" since 3,
        /// Number of phase times.
        count: u32 as Count<u32> = "Count" since 4,
        /// Duration of each phase; [`GlobalHeapHistory::phases`] names them.
        values: Rows<'a, PhaseTime> = "Values" since 4,
    }

    /// Time of one phase in [`GlobalHeapHistory`].
    PhaseTime {
        /// Duration in microseconds; 0xFFFFFFFF if the phase started before the session.
        time: u32 = "Time",
    }

    /// GCPerHeapHistory (204): one per heap and collection, without the number of the collection. Version 3 (86 bytes +
    /// 80 per generation on 64 bits, 58 + 40 on 32). Values are bytes unless another unit is named.
    PerHeapHistory<'a> {
        /// Number of the runtime within its process.
        clr_instance: u16 = "ClrInstanceID",
        /// Survivors allocated out of the free list of the next generation.
        free_list_allocated: u64 as Ptr = "FreeListAllocated",
        /// Free list items that were tried but did not fit.
        free_list_rejected: u64 as Ptr = "FreeListRejected",
        /// Survivors allocated at the end of segments.
        end_of_seg_allocated: u64 as Ptr = "EndOfSegAllocated",
        /// Survivors allocated in the condemned generations.
        condemned_allocated: u64 as Ptr = "CondemnedAllocated",
        /// Pinned survivors.
        pinned_allocated: u64 as Ptr = "PinnedAllocated",
        /// Pinned survivors that were promoted to the next generation.
        pinned_allocated_advance: u64 as Ptr = "PinnedAllocatedAdvance",
        /// Efficiency of the free list of generation 2 so far, in percent.
        running_free_list_efficiency: u32 = "RunningFreeListEfficiency",
        /// Generations that were considered.
        condemn_reasons0: CondemnReasons0 = "CondemnReasons0",
        /// Reasons for the choice of the generation.
        condemn_reasons1: CondemnReasons1 = "CondemnReasons1",
        /// Whether this heap was compacted, and the reason.
        compact_mechanisms: CompactMechanism = "CompactMechanisms",
        /// Whether this heap was expanded, and the method.
        expand_mechanisms: ExpandMechanism = "ExpandMechanisms",
        /// Index of the heap.
        heap_index: u32 = "HeapIndex",
        /// Bytes committed for generation 0 in addition to the bytes that it uses.
        extra_gen0_commit: u64 as Ptr = "ExtraGen0Commit",
        /// Number of generations: 4 on .NET Core 3.x, 5 later.
        count: u32 as Count<u32> = "Count",
        /// Generations 0, 1, 2, large (3) and pinned (4) object heap.
        values: Rows<'a, GenerationHistory> = "Values",
    }

    /// One generation in [`PerHeapHistory`], in bytes.
    GenerationHistory {
        /// Size before the collection.
        size_before: u64 as Ptr = "SizeBefore",
        /// Bytes in the free list before the collection.
        free_list_space_before: u64 as Ptr = "FreeListBefore",
        /// Free bytes too small for the free list, before the collection.
        free_obj_space_before: u64 as Ptr = "FreeObjBefore",
        /// Size after the collection.
        size_after: u64 as Ptr = "SizeAfter",
        /// Bytes in the free list after the collection.
        free_list_space_after: u64 as Ptr = "FreeListAfter",
        /// Free bytes too small for the free list, after the collection.
        free_obj_space_after: u64 as Ptr = "FreeObjAfter",
        /// Bytes that entered the generation during the collection.
        in_: u64 as Ptr = "In",
        /// Bytes of pinned survivors.
        pinned_surv: u64 as Ptr = "PinnedSurv",
        /// Bytes of other survivors.
        none_pinned_surv: u64 as Ptr = "NonePinnedSurv",
        /// Budget until the next collection of the generation.
        new_allocation: u64 as Ptr = "NewAllocation",
    }

    /// GCMarkWithType (202): the bytes that one heap marked from one kind of root. Version 0 (18 bytes). A kind can
    /// occur more than once per heap and collection; add up the bytes.
    MarkWithType {
        /// Index of the heap.
        heap_num: u32 = "HeapNum",
        /// Number of the runtime within its process.
        clr_instance: u16 = "ClrInstanceID",
        /// Kind of root at which the marking started.
        root_kind: RootKind = "Type",
        /// Number of bytes marked.
        bytes: u64 = "Bytes",
    }

    /// Events (25 to 28) that GCMarkWithType replaced: GCMarkStackRoots, GCMarkFinalizeQueueRoots, GCMarkHandles,
    /// GCMarkOlderGenerationRoots. Version 0 (6 bytes); manifest only.
    MarkRoots {
        /// Index of the heap.
        heap_num: u32 = "HeapNum",
        /// Number of the runtime within its process.
        clr_instance: u16 = "ClrInstanceID",
    }

    /// GCJoin (203): a thread of a server GC waits for the other threads. Verbose. Version 2 (18 bytes).
    Join {
        /// Heap of the thread; 100 and 200 are restarts rather than heaps.
        heap: u32 = "Heap",
        /// Start or end of the wait.
        join_time: JoinTime = "JoinTime",
        /// Action of the thread.
        join_type: JoinType = "JoinType",
        /// Number of the runtime within its process.
        clr_instance: u16 = "ClrInstanceID",
        /// Id of the join, which changes between versions of the runtime; -1 for restarts (unsigned in the manifest).
        join_id: i32 = "JoinID",
    }

    /// GCLOHCompact (208): the large object heap was compacted. Version 0 (4 bytes + 32 per heap on 64 bits, 20 on 32).
    /// Rows are padded C structs, although the manifest has no padding; the 32-bit layout is covered only by the
    /// encoder.
    LohCompact<'a> {
        /// Number of the runtime within its process.
        clr_instance: u16 = "ClrInstanceID",
        /// Number of heaps.
        count: u16 as Count<u16> = "Count",
        /// One row per heap.
        values: Rows<'a, LohCompactHeap> = "Values",
    }

    /// One heap in [`LohCompact`].
    LohCompactHeap {
        /// Planning time in microseconds.
        time_plan: u32 = "TimePlan",
        /// Compaction time in microseconds.
        time_compact: u32 = "TimeCompact",
        /// Relocation time in microseconds.
        time_relocate: u32 = "TimeRelocate",
        /// Number of references examined.
        total_refs: u64 as AlignedPtr = "TotalRefs",
        /// Number of these references that are null.
        zero_refs: u64 as Ptr = "ZeroRefs",
    }

    /// GCFitBucketInfo (209): sizes of free items or plugs, by powers of two. Verbose. Version 0 (14 bytes + 16 per
    /// bucket on 64 bits, 12 on 32). Rows are padded C structs; the 32-bit layout is covered only by the encoder.
    FitBucketInfo<'a> {
        /// Number of the runtime within its process.
        clr_instance: u16 = "ClrInstanceID",
        /// Kind of the counted items.
        bucket_kind: BucketKind as Enum16<BucketKind> = "BucketKind",
        /// Number of bytes in all buckets.
        total_size: u64 = "TotalSize",
        /// Number of buckets.
        count: u16 as Count<u16> = "Count",
        /// One row per bucket.
        values: Rows<'a, FitBucket> = "Values",
    }

    /// One bucket in [`FitBucketInfo`].
    FitBucket {
        /// Power of two of the bucket.
        index: u16 = "Index",
        /// Number of items.
        count: u32 as AlignedU32 = "Count",
        /// Number of bytes of the items.
        size: u64 as Ptr = "Size",
    }
}

impl<'a> PerHeapHistory<'a> {
    /// Returns generations 0, 1, 2, the large (3) and, on .NET 5 and later, the pinned (4) object heap.
    pub fn generations(&self) -> Iter<'a, GenerationHistory> {
        self.values.iter()
    }
}

impl GenerationHistory {
    /// Returns the free space after the collection in bytes, listed or not: the fragmentation of the generation.
    pub const fn fragmentation(&self) -> u64 {
        self.free_list_space_after.saturating_add(self.free_obj_space_after)
    }

    /// Returns the bytes that survived, pinned or not.
    pub const fn survived(&self) -> u64 {
        self.pinned_surv.saturating_add(self.none_pinned_surv)
    }
}

/// Duration of each phase of a collection, in nanoseconds. `None` if the duration was not sent, or if the phase does
/// not exist in this kind of collection.
///
/// **.NET 8** sends the absolute clock in `compact` of generations 1 and 2 instead of a duration (5062 of 5062
/// collections of 8.0.33). Discard phases that are longer than the collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Phases {
    /// Marking from sized references.
    pub mark_sized_refs: Option<i64>,
    /// Marking from roots, usually the longest phase.
    pub mark_roots: Option<i64>,
    /// Clearing short weak handles.
    pub short_weak: Option<i64>,
    /// Finding objects to finalize.
    pub scan_finalization: Option<i64>,
    /// Clearing long weak handles.
    pub long_weak: Option<i64>,
    /// Planning the location of survivors; not in background collections.
    pub plan: Option<i64>,
    /// Updating references; only when compacting.
    pub relocate: Option<i64>,
    /// Moving survivors; only when compacting.
    pub compact: Option<i64>,
    /// Building free lists; only when sweeping (not in background collections, which report no time for sweeping).
    pub sweep: Option<i64>,
}

impl Phases {
    /// Returns each phase with its name, in the order in which the phases run.
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

    /// Returns the sum of all marking phases, in nanoseconds, or `None` if any of these phases is unknown.
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

    /// Removes phases that are longer than the collection, or all phases if the duration of the collection is unknown.
    /// .NET 8 sends a clock instead of the duration of the compact phase, and a phase of a background collection that
    /// started before the session has no start time.
    pub(crate) fn within(mut self, duration_ns: Option<i64>) -> Self {
        for phase in self.each_mut() {
            *phase = phase.filter(|&ns| duration_ns.is_some_and(|duration| ns <= duration));
        }
        self
    }
}

impl GlobalHeapHistory<'_> {
    /// Returns the phases by name; all phases are `None` before version 4. The times are positional: 5 in a background
    /// collection, 7 when sweeping, 8 when compacting. For any other number, the mechanisms decide which phase follows
    /// `plan`.
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
