//! Sampled allocations.

use super::enums::AllocationKind;
use super::reader::Ptr;
use super::record::record;
use super::text::Utf16;

record! {
    /// GCAllocationTick (10): about 100 KiB were allocated since the last event of the same heap and kind. Verbose. The
    /// type describes only the object that crossed the threshold.
    ///
    /// There are five versions: 0 (8 bytes; manifest only), 1 (10; NativeAOT 8 has only this shape), 2 (30 + name on 64
    /// bits; manifest only), 3 (38 + name: .NET Core 3.x to 6), 4 (46 + name: .NET 8 and later).
    AllocationTick<'a> {
        /// Bytes allocated, truncated to 32 bits.
        allocation_amount: u32 = "AllocationAmount",
        /// Kind of the heap.
        allocation_kind: AllocationKind = "AllocationKind",
        /// Number of the runtime within its process.
        clr_instance: u16 = "ClrInstanceID" since 1,
        /// Bytes allocated.
        allocation_amount64: u64 = "AllocationAmount64" since 2,
        /// Method table of the type.
        type_id: u64 as Ptr = "TypeID" since 2,
        /// Name of the type; the literal `NULL` on NativeAOT.
        type_name: Utf16<'a> = "TypeName" since 2,
        /// Index of the heap (server GC).
        heap_index: u32 = "HeapIndex" since 2,
        /// Address of the object.
        address: u64 as Ptr = "Address" since 3,
        /// Size of the object in bytes.
        object_size: u64 = "ObjectSize" since 4,
    }

    /// GCSampledObjectAllocationHigh and GCSampledObjectAllocationLow (20, 32; keywords 0x200000 and 0x2000000):
    /// objects of a type were allocated. Version 0 (30 bytes on 64 bits, 22 on 32); manifest only.
    SampledObjectAllocation {
        /// Address of the object.
        address: u64 as Ptr = "Address",
        /// Method table of the type.
        type_id: u64 as Ptr = "TypeID",
        /// Number of objects of the type since its last sample.
        object_count_for_type_sample: u32 = "ObjectCountForTypeSample",
        /// Bytes of these objects.
        total_size_for_type_sample: u64 = "TotalSizeForTypeSample",
        /// Number of the runtime within its process.
        clr_instance: u16 = "ClrInstanceID",
    }

    /// AllocationSampled (303; keyword 0x80000000000, .NET 10): an allocation was selected at random, one byte in 100
    /// KiB. Version 0 (38 bytes + name on 64 bits; observed on .NET 10).
    AllocationSampled<'a> {
        /// Kind of the heap.
        allocation_kind: AllocationKind = "AllocationKind",
        /// Number of the runtime within its process.
        clr_instance: u16 = "ClrInstanceID",
        /// Method table of the type.
        type_id: u64 as Ptr = "TypeID",
        /// Name of the type.
        type_name: Utf16<'a> = "TypeName",
        /// Address of the object.
        address: u64 as Ptr = "Address",
        /// Size of the object in bytes.
        object_size: u64 = "ObjectSize",
        /// Offset of the selected byte within the object.
        sampled_byte_offset: u64 = "SampledByteOffset",
    }
}
