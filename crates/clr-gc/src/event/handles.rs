//! Events about handles, pinned objects, finalized objects and memory pressure.

use super::enums::HandleKind;
use super::reader::Ptr;
use super::record::record;
use super::text::Utf16;

record! {
    /// FinalizeObject (29): a finalizer is about to run. Verbose. Version 0 (18 bytes on 64 bits, 10 on 32).
    FinalizeObject {
        /// Method table of the object's type.
        type_id: u64 as Ptr = "TypeID",
        /// Address of the object.
        object_id: u64 as Ptr = "ObjectID",
        /// Number of the runtime within its process.
        clr_instance: u16 = "ClrInstanceID",
    }

    /// SetGCHandle (30) and PrvSetGCHandle (private provider, 194): a handle was created. Version 0 (34 bytes on 64
    /// bits, 26 on 32). SetGCHandle was observed on .NET 10 (64 bits); PrvSetGCHandle was never recorded. The AppDomain
    /// has 64 bits in both layouts.
    SetGcHandle {
        /// Address of the handle.
        handle_id: u64 as Ptr = "HandleID",
        /// Address of the object.
        object_id: u64 as Ptr = "ObjectID",
        /// Kind of the handle.
        kind: HandleKind = "Kind",
        /// Generation of the object.
        generation: u32 = "Generation",
        /// AppDomain; all ones on .NET Core.
        app_domain_id: u64 = "AppDomainID",
        /// Number of the runtime within its process.
        clr_instance: u16 = "ClrInstanceID",
    }

    /// DestroyGCHandle (31) and PrvDestroyGCHandle (private provider, 195): a handle was destroyed. Version 0 (10 bytes
    /// on 64 bits, 6 on 32). DestroyGCHandle was observed on .NET 10 (64 bits); PrvDestroyGCHandle was never recorded.
    DestroyGcHandle {
        /// Address of the handle.
        handle_id: u64 as Ptr = "HandleID",
        /// Number of the runtime within its process.
        clr_instance: u16 = "ClrInstanceID",
    }

    /// PinObjectAtGCTime (33): a collection encountered a pinned object. Verbose. Version 0 (26 bytes + name on 64
    /// bits, 18 + name on 32). On NativeAOT the name is the literal `NULL`, and NativeAOT 10 sends implausible sizes.
    PinObjectAtGcTime<'a> {
        /// Address of the handle that pins the object.
        handle_id: u64 as Ptr = "HandleID",
        /// Address of the object.
        object_id: u64 as Ptr = "ObjectID",
        /// Size of the object in bytes.
        object_size: u64 = "ObjectSize",
        /// Name of the type.
        type_name: Utf16<'a> = "TypeName",
        /// Number of the runtime within its process.
        clr_instance: u16 = "ClrInstanceID",
    }

    /// IncreaseMemoryPressure (200): `GC.AddMemoryPressure`. Verbose. Version 0 (10 bytes).
    IncreaseMemoryPressure {
        /// Number of bytes.
        bytes_allocated: u64 = "BytesAllocated",
        /// Number of the runtime within its process.
        clr_instance: u16 = "ClrInstanceID",
    }

    /// DecreaseMemoryPressure (201): `GC.RemoveMemoryPressure`. Verbose. Version 0 (10 bytes).
    DecreaseMemoryPressure {
        /// Number of bytes.
        bytes_freed: u64 = "BytesFreed",
        /// Number of the runtime within its process.
        clr_instance: u16 = "ClrInstanceID",
    }
}
