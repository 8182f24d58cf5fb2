//! Events that frame collections: triggers, starts and ends, suspensions, threads, finalizers.
//!
//! Version 0 of all of them is known from the manifest only: .NET Core has never sent it.

use super::enums::{GcReason, GcType, SuspendReason};
use super::reader::HalfInV0;
use super::record::record;

record! {
    /// GCStart (1): a collection begins. Versions 0 (8 bytes), 1 (18), 2 (26: all that .NET Core sends).
    GcStart {
        /// Number of the collection in its process, from 1.
        count: u32 = "Count",
        /// Generation that is collected.
        depth: u32 = "Depth" since 1,
        /// Why.
        reason: GcReason = "Reason",
        /// Kind as announced; a background collection may yet run blocking.
        gc_type: GcType = "Type" since 1,
        /// Which runtime of the process: 0 on Linux and macOS, any number on Windows.
        clr_instance: u16 = "ClrInstanceID" since 1,
        /// Number that a controller gave with the session's request to collect; else 0.
        client_sequence_number: u64 = "ClientSequenceNumber" since 2,
    }

    /// GCEnd (2): a collection is over. Versions 0 (6 bytes: Depth has 16 bits), 1 (10).
    GcEnd {
        /// Number of the collection.
        count: u32 = "Count",
        /// Generation that was collected.
        depth: u32 as HalfInV0<u32> = "Depth",
        /// Number of the runtime within its process.
        clr_instance: u16 = "ClrInstanceID" since 1,
    }

    /// GCTriggered (35): somebody asks for a collection. Version 0 (6 bytes). Not every collection has one, and no-GC
    /// regions have one without a collection.
    GcTriggered {
        /// Why.
        reason: GcReason = "Reason",
        /// Number of the runtime within its process.
        clr_instance: u16 = "ClrInstanceID",
    }

    /// GCSuspendEEBegin (9): the managed threads are about to be stopped. Versions 0 (2 bytes: Reason has 16 bits),
    /// 1 (10).
    SuspendEeBegin {
        /// Why; not only collections stop threads.
        reason: SuspendReason as HalfInV0<SuspendReason> = "Reason",
        /// Number of the previous collection, of the background collection under way, or 0xFFFFFFFF without any. Says
        /// nothing about which collection follows.
        count: u32 = "Count" since 1,
        /// Number of the runtime within its process.
        clr_instance: u16 = "ClrInstanceID" since 1,
    }

    /// Events that are their name and nothing more, versions 0 (no bytes) and 1 (2 bytes): GCSuspendEEEnd (8),
    /// GCRestartEEBegin (7), GCRestartEEEnd (3), GCCreateConcurrentThread (11), GCTerminateConcurrentThread (12; never
    /// recorded), GCFinalizersBegin (14).
    NoUserData {
        /// Number of the runtime within its process.
        clr_instance: u16 = "ClrInstanceID" since 1,
    }

    /// GCFinalizersEnd (13): the finalizer thread has nothing more to do. Versions 0 (4 bytes), 1 (6).
    FinalizersEnd {
        /// Finalizers that ran since GCFinalizersBegin.
        count: u32 = "Count",
        /// Number of the runtime within its process.
        clr_instance: u16 = "ClrInstanceID" since 1,
    }

    /// GenAwareBegin and GenAwareEnd (206, 207): around a generation-aware analysis. Version 0 (6 bytes); manifest
    /// only.
    GenAware {
        /// Number of the collection.
        count: u32 = "Count",
        /// Number of the runtime within its process.
        clr_instance: u16 = "ClrInstanceID",
    }
}
