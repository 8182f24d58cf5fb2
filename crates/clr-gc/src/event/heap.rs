//! What the heap holds after a collection, and its segments.

use super::enums::SegmentType;
use super::reader::Ptr;
use super::record::record;

record! {
    /// GCHeapStats (4): the heap after a collection, right after its GCEnd on the same thread. Bytes unless another
    /// unit is named. Versions 0 (92 bytes; manifest only), 1 (94: .NET Core 3.x), 2 (110: .NET 5 and later).
    ///
    /// Generation 3 is the large object heap, 4 the pinned object heap. Promoted is what survived in the generation.
    HeapStats {
        /// Size of generation 0, free space included.
        generation_size0: u64 = "GenerationSize0",
        /// Survivors of generation 0.
        total_promoted_size0: u64 = "TotalPromotedSize0",
        /// Size of generation 1.
        generation_size1: u64 = "GenerationSize1",
        /// Survivors of generation 1.
        total_promoted_size1: u64 = "TotalPromotedSize1",
        /// Size of generation 2.
        generation_size2: u64 = "GenerationSize2",
        /// Survivors of generation 2.
        total_promoted_size2: u64 = "TotalPromotedSize2",
        /// Size of the large object heap.
        generation_size3: u64 = "GenerationSize3",
        /// Survivors of the large object heap.
        total_promoted_size3: u64 = "TotalPromotedSize3",
        /// Objects that wait for their finalizer.
        finalization_promoted_size: u64 = "FinalizationPromotedSize",
        /// How many objects wait for their finalizer.
        finalization_promoted_count: u64 = "FinalizationPromotedCount",
        /// How many pinned objects were met.
        pinned_object_count: u32 = "PinnedObjectCount",
        /// How many sync blocks are in use (the manifest's spelling is "sink").
        sink_block_count: u32 = "SinkBlockCount",
        /// How many GC handles are in use.
        gc_handle_count: u32 = "GCHandleCount",
        /// Number of the runtime within its process.
        clr_instance: u16 = "ClrInstanceID" since 1,
        /// Size of the pinned object heap.
        generation_size4: u64 = "GenerationSize4" since 2,
        /// Survivors of the pinned object heap.
        total_promoted_size4: u64 = "TotalPromotedSize4" since 2,
    }

    /// GCCreateSegment (5): a segment, or on .NET 7 and later a region, comes into use. Versions 0 (20 bytes; manifest
    /// only), 1 (22). Over EventPipe only what happens during the session is sent.
    CreateSegment {
        /// Where it begins.
        address: u64 = "Address",
        /// Number of bytes.
        size: u64 = "Size",
        /// What it holds.
        segment_type: SegmentType = "Type",
        /// Number of the runtime within its process.
        clr_instance: u16 = "ClrInstanceID" since 1,
    }

    /// GCFreeSegment (6): a segment or region is given up. Versions 0 (8 bytes; manifest only), 1 (10). .NET 8 sends
    /// none.
    FreeSegment {
        /// Where it began.
        address: u64 = "Address",
        /// Number of the runtime within its process.
        clr_instance: u16 = "ClrInstanceID" since 1,
    }

    /// GCGenerationRange (23): where a generation lies (keyword 0x400000). Version 0 (27 bytes on 64 bits, 23 on 32);
    /// seen on .NET Core 3.x only.
    GenerationRange {
        /// Number of the generation.
        generation: u8 = "Generation",
        /// Where it begins.
        range_start: u64 as Ptr = "RangeStart",
        /// Bytes used.
        range_used_length: u64 = "RangeUsedLength",
        /// Bytes reserved.
        range_reserved_length: u64 = "RangeReservedLength",
        /// Number of the runtime within its process.
        clr_instance: u16 = "ClrInstanceID",
    }
}

/// A generation in [`HeapStats`], in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GenerationStats {
    /// Its size after the collection, free space included.
    pub size: u64,
    /// What survived in it.
    pub promoted: u64,
}

impl HeapStats {
    /// Generations 0, 1, 2, the large (3) and the pinned (4) object heap; `None` for the latter before .NET 5.
    pub fn generations(&self) -> [Option<GenerationStats>; 5] {
        let known = |size, promoted| Some(GenerationStats { size, promoted });
        [
            known(self.generation_size0, self.total_promoted_size0),
            known(self.generation_size1, self.total_promoted_size1),
            known(self.generation_size2, self.total_promoted_size2),
            known(self.generation_size3, self.total_promoted_size3),
            self.generation_size4
                .zip(self.total_promoted_size4)
                .and_then(|(size, promoted)| known(size, promoted)),
        ]
    }
}
