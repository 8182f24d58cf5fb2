//! Events around collections: triggers, starts and ends, suspensions, threads, finalizers.
//!
//! Version 0 of these events is known only from the manifest. .NET Core has never sent this version.

use super::enums::{GcReason, GcType, SuspendReason};
use super::reader::HalfInV0;
use super::record::record;

record! {
    /// GCStart (1): a collection starts. Versions 0 (8 bytes), 1 (18), 2 (26: the only version that .NET Core sends).
    GcStart {
        /// Number of the collection in its process, from 1.
        count: u32 = "Count",
        /// Generation that is collected.
        depth: u32 = "Depth" since 1,
        /// Reason for the collection.
        reason: GcReason = "Reason",
        /// Kind as announced. A background collection can still run blocking.
        gc_type: GcType = "Type" since 1,
        /// Number of the runtime within its process: 0 on Linux and macOS, any number on Windows.
        clr_instance: u16 = "ClrInstanceID" since 1,
        /// Number that a controller sent with the session's request to collect, or 0.
        client_sequence_number: u64 = "ClientSequenceNumber" since 2,
    }

    /// GCEnd (2): a collection has ended. Versions 0 (6 bytes: Depth has 16 bits), 1 (10).
    GcEnd {
        /// Number of the collection.
        count: u32 = "Count",
        /// Generation that was collected.
        depth: u32 as HalfInV0<u32> = "Depth",
        /// Number of the runtime within its process.
        clr_instance: u16 = "ClrInstanceID" since 1,
    }

    /// GCTriggered (35): a collection was requested. Version 0 (6 bytes). Not every collection has this event, and
    /// no-GC regions send it without a collection.
    GcTriggered {
        /// Reason for the request.
        reason: GcReason = "Reason",
        /// Number of the runtime within its process.
        clr_instance: u16 = "ClrInstanceID",
    }

    /// GCSuspendEEBegin (9): the managed threads are about to be stopped. Versions 0 (2 bytes: Reason has 16 bits),
    /// 1 (10).
    SuspendEeBegin {
        /// Reason for the stop. Not only collections stop threads.
        reason: SuspendReason as HalfInV0<SuspendReason> = "Reason",
        /// Number of the previous collection or of the background collection in progress, or 0xFFFFFFFF if there is no
        /// such collection. The number does not identify the collection that follows.
        count: u32 = "Count" since 1,
        /// Number of the runtime within its process.
        clr_instance: u16 = "ClrInstanceID" since 1,
    }

    /// Events without a payload beyond ClrInstanceID, versions 0 (no bytes) and 1 (2 bytes): GCSuspendEEEnd (8),
    /// GCRestartEEBegin (7), GCRestartEEEnd (3), GCCreateConcurrentThread (11), GCTerminateConcurrentThread (12),
    /// GCFinalizersBegin (14).
    NoUserData {
        /// Number of the runtime within its process.
        clr_instance: u16 = "ClrInstanceID" since 1,
    }

    /// GCFinalizersEnd (13): the finalizer thread has no more work. Versions 0 (4 bytes), 1 (6).
    FinalizersEnd {
        /// Number of finalizers that ran since GCFinalizersBegin.
        count: u32 = "Count",
        /// Number of the runtime within its process.
        clr_instance: u16 = "ClrInstanceID" since 1,
    }

    /// GenAwareBegin and GenAwareEnd (206, 207): start and end of a generation-aware analysis. Version 0 (6 bytes);
    /// manifest only.
    GenAware {
        /// Number of the collection.
        count: u32 = "Count",
        /// Number of the runtime within its process.
        clr_instance: u16 = "ClrInstanceID",
    }
}
