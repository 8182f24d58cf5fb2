//! Events about the contents of the heap after a collection, and about its segments.

use super::enums::SegmentType;
use super::reader::Ptr;
use super::record::record;

record! {
    /// GCHeapStats (4): the heap after a collection, sent right after GCEnd on the same thread. Values are bytes unless
    /// another unit is named. Versions 0 (92 bytes; manifest only), 1 (94: .NET Core 3.x), 2 (110: .NET 5 and later).
    ///
    /// Generation 3 is the large object heap, generation 4 the pinned object heap. Promoted bytes are the bytes that
    /// survived in the generation.
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
        /// Bytes of objects that wait for their finalizer.
        finalization_promoted_size: u64 = "FinalizationPromotedSize",
        /// Number of objects that wait for their finalizer.
        finalization_promoted_count: u64 = "FinalizationPromotedCount",
        /// Number of pinned objects encountered.
        pinned_object_count: u32 = "PinnedObjectCount",
        /// Number of sync blocks in use (the manifest spells them "sink").
        sink_block_count: u32 = "SinkBlockCount",
        /// Number of GC handles in use.
        gc_handle_count: u32 = "GCHandleCount",
        /// Number of the runtime within its process.
        clr_instance: u16 = "ClrInstanceID" since 1,
        /// Size of the pinned object heap.
        generation_size4: u64 = "GenerationSize4" since 2,
        /// Survivors of the pinned object heap.
        total_promoted_size4: u64 = "TotalPromotedSize4" since 2,
    }

    /// GCCreateSegment (5): a segment, or a region on .NET 7 and later, comes into use. Versions 0 (20 bytes; manifest
    /// only), 1 (22). EventPipe sends only segments created during the session.
    CreateSegment {
        /// Start of the segment.
        address: u64 = "Address",
        /// Size of the segment in bytes.
        size: u64 = "Size",
        /// Contents of the segment.
        segment_type: SegmentType = "Type",
        /// Number of the runtime within its process.
        clr_instance: u16 = "ClrInstanceID" since 1,
    }

    /// GCFreeSegment (6): a segment or region is released. Versions 0 (8 bytes; manifest only), 1 (10). .NET 8 never
    /// sends this event.
    FreeSegment {
        /// Former start of the segment.
        address: u64 = "Address",
        /// Number of the runtime within its process.
        clr_instance: u16 = "ClrInstanceID" since 1,
    }

    /// GCGenerationRange (23): the address range of a generation (keyword 0x400000). Version 0 (27 bytes on 64 bits, 23
    /// on 32); observed on .NET Core 3.x only.
    GenerationRange {
        /// Number of the generation.
        generation: u8 = "Generation",
        /// Start of the range.
        range_start: u64 as Ptr = "RangeStart",
        /// Number of bytes used.
        range_used_length: u64 = "RangeUsedLength",
        /// Number of bytes reserved.
        range_reserved_length: u64 = "RangeReservedLength",
        /// Number of the runtime within its process.
        clr_instance: u16 = "ClrInstanceID",
    }
}

/// The sizes of a generation in [`HeapStats`], in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GenerationStats {
    /// Size of the generation after the collection, free space included.
    pub size: u64,
    /// Bytes that survived in the generation.
    pub promoted: u64,
}

impl HeapStats {
    /// Returns the sizes of generations 0, 1, 2, the large (3) and the pinned (4) object heap. The pinned object heap
    /// is `None` before .NET 5. The other elements always have a value.
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
