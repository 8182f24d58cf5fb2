//! Events of the private provider: phases of background collections and other internals. The runtime can change them at
//! any time.
//!
//! Events 11 to 17, 20, 21, 22 version 1 and 26 were recorded on .NET 10 at level 4, and event 199 on .NET Core 3.0.
//! The other layouts follow the manifest.

use super::enums::{GcReason, JoinTime, JoinType};
use super::flags::GlobalMechanisms;
use super::reader::Ptr;
use super::record::record;
use super::text::Utf16;

record! {
    /// GCDecision (1): whether the collection will compact. Versions 0 (4 bytes), 1 (6).
    PrvDecision {
        /// 1 if the collection will compact.
        do_compact: u32 = "DoCompact",
        /// Number of the runtime within its process.
        clr_instance: u16 = "ClrInstanceID" since 1,
    }

    /// GCSettings (2): sent when a session starts. Versions 0 (20 bytes), 1 (22).
    PrvSettings {
        /// Size of a segment in bytes.
        segment_size: u64 = "SegmentSize",
        /// Size of a segment for large objects in bytes.
        large_object_segment_size: u64 = "LargeObjectSegmentSize",
        /// 1 for server GC.
        server_gc: u32 = "ServerGC",
        /// Number of the runtime within its process.
        clr_instance: u16 = "ClrInstanceID" since 1,
    }

    /// GCOptimized (3): budget of a generation, in bytes. Verbose. Versions 0 (20 bytes), 1 (22).
    PrvOptimized {
        /// Requested bytes.
        desired_allocation: u64 = "DesiredAllocation",
        /// Granted bytes.
        new_allocation: u64 = "NewAllocation",
        /// Number of the generation.
        generation_number: u32 = "GenerationNumber",
        /// Number of the runtime within its process.
        clr_instance: u16 = "ClrInstanceID" since 1,
    }

    /// GCGlobalHeapHistory (5), before it moved to the runtime provider. Versions 0 (28 bytes), 1 (30).
    PrvGlobalHeapHistory {
        /// Budget of the youngest generation in bytes.
        final_youngest_desired: u64 = "FinalYoungestDesired",
        /// Number of heaps.
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
        clr_instance: u16 = "ClrInstanceID" since 1,
    }

    /// GCJoin (6), before it moved to the runtime provider. Verbose. Versions 0 (12 bytes), 1 (14).
    PrvJoin {
        /// Heap of the thread.
        heap: u32 = "Heap",
        /// Start or end of the wait.
        join_time: JoinTime = "JoinTime",
        /// Action of the thread.
        join_type: JoinType = "JoinType",
        /// Number of the runtime within its process.
        clr_instance: u16 = "ClrInstanceID" since 1,
    }

    /// PrvGCMarkStackRoots, PrvGCMarkFinalizeQueueRoots, PrvGCMarkHandles, PrvGCMarkCards (7 to 10): a heap has marked
    /// from one kind of root. Versions 0 (4 bytes), 1 (6).
    PrvMark {
        /// Index of the heap.
        heap_num: u32 = "HeapNum",
        /// Number of the runtime within its process.
        clr_instance: u16 = "ClrInstanceID" since 1,
    }

    /// A step of a background collection, named by the event itself: BGCBegin (11), BGC1stNonConEnd (12), BGC1stConEnd
    /// (13), BGC2ndNonConBegin and End (14, 15), BGC2ndConBegin and End (16, 17), BGCPlanEnd (18), BGCSweepEnd (19).
    /// Version 0 (2 bytes).
    BgcStep {
        /// Number of the runtime within its process.
        clr_instance: u16 = "ClrInstanceID",
    }

    /// BGCDrainMark (20): a background collection marks from the objects on its mark list. Version 0 (10 bytes).
    BgcDrainMark {
        /// Number of objects on the mark list.
        objects: u64 = "Objects",
        /// Number of the runtime within its process.
        clr_instance: u16 = "ClrInstanceID",
    }

    /// BGCRevisit (21): pages that were written to during marking are revisited. Version 0 (22 bytes).
    BgcRevisit {
        /// Number of pages.
        pages: u64 = "Pages",
        /// Number of objects.
        objects: u64 = "Objects",
        /// 1 for the large object heap.
        is_large: u32 = "IsLarge",
        /// Number of the runtime within its process.
        clr_instance: u16 = "ClrInstanceID",
    }

    /// BGCOverflow (22): the mark stack overflowed. Versions 0 (30 bytes), 1 (34).
    BgcOverflow {
        /// Lowest address that has not been marked through.
        min: u64 = "Min",
        /// Highest address that has not been marked through.
        max: u64 = "Max",
        /// Number of objects.
        objects: u64 = "Objects",
        /// 1 for the large object heap.
        is_large: u32 = "IsLarge",
        /// Number of the runtime within its process.
        clr_instance: u16 = "ClrInstanceID",
        /// Number of the generation.
        gen_number: u32 = "GenNumber" since 1,
    }

    /// BGCAllocWaitBegin and End (23, 24): an allocating thread waits for the background collection. Version 0 (6
    /// bytes).
    BgcAllocWait {
        /// Reason for the wait, 0 to 11 (`alloc_wait_reason`).
        reason: u32 = "Reason",
        /// Number of the runtime within its process.
        clr_instance: u16 = "ClrInstanceID",
    }

    /// GCFullNotify (25): a full collection is approaching. Versions 0 (8 bytes), 1 (10).
    FullNotify {
        /// Number of the generation.
        gen_number: u32 = "GenNumber",
        /// 1 if the cause is allocation.
        is_alloc: u32 = "IsAlloc",
        /// Number of the runtime within its process.
        clr_instance: u16 = "ClrInstanceID" since 1,
    }

    /// BGC1stSweepEnd (26): the first sweep of a background collection has ended. Version 0 (6 bytes).
    Bgc1stSweepEnd {
        /// Number of the generation.
        gen_number: u32 = "GenNumber",
        /// Number of the runtime within its process.
        clr_instance: u16 = "ClrInstanceID",
    }

    /// PrvFinalizeObject (192): like FinalizeObject, but with the name of the type. Version 0 (18 bytes + name on 64
    /// bits, 10 + name on 32).
    PrvFinalizeObject<'a> {
        /// Method table of the object's type.
        type_id: u64 as Ptr = "TypeID",
        /// Address of the object.
        object_id: u64 as Ptr = "ObjectID",
        /// Number of the runtime within its process.
        clr_instance: u16 = "ClrInstanceID",
        /// Name of the type.
        type_name: Utf16<'a> = "TypeName",
    }

    /// PinPlugAtGCTime (199): a run of objects that a pin keeps in place. Verbose. Version 0 (26 bytes on 64 bits, 14
    /// on 32).
    PinPlugAtGcTime {
        /// Start of the plug.
        plug_start: u64 as Ptr = "PlugStart",
        /// End of the plug.
        plug_end: u64 as Ptr = "PlugEnd",
        /// Bytes of free space before the plug.
        gap_before_size: u64 as Ptr = "GapBeforeSize",
        /// Number of the runtime within its process.
        clr_instance: u16 = "ClrInstanceID",
    }
}
