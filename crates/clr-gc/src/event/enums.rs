//! Enumerations. Each enumeration is a number with names for the known values. Newer runtimes add values, so an unknown
//! value keeps its number and is displayed as `Unknown(19)`.

use std::fmt;

use super::number::number;

macro_rules! code {
    ($(
        $(#[$meta:meta])*
        $name:ident {
            $($(#[$code_meta:meta])* $code:ident = $number:literal $text:literal,)+
        }
    )+) => {$(
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u32);

        impl $name {
            $(
                #[doc = concat!("`", $text, "`:")]
                $(#[$code_meta])*
                pub const $code: Self = Self($number);
            )+

            /// The known values, in order.
            pub const KNOWN: &'static [Self] = &[$(Self::$code),+];

            /// Returns the name of the value, or `None` if the value is unknown.
            #[inline]
            pub const fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($number => Some($text),)+
                    _ => None,
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self.name() {
                    Some(name) => f.pad(name),
                    None => f.pad(&format!("Unknown({})", self.0)),
                }
            }
        }

        number!($name);
    )+};
}

code! {
    /// Reason for a collection (`gc_reason` in the runtime's gc.h; the manifest's map ends at 9).
    /// .NET Core 3.1 defines values up to 13.
    GcReason {
        /// The budget of the small object heap was used up.
        ALLOC_SMALL = 0 "AllocSmall",
        /// `GC.Collect` or TryStartNoGCRegion.
        INDUCED = 1 "Induced",
        /// The operating system reported low memory.
        LOW_MEMORY = 2 "LowMemory",
        /// No reason.
        EMPTY = 3 "Empty",
        /// The budget of the large (or pinned) object heap was used up.
        ALLOC_LARGE = 4 "AllocLarge",
        /// No space for a small object.
        OUT_OF_SPACE_SOH = 5 "OutOfSpaceSOH",
        /// No space for a large object.
        OUT_OF_SPACE_LOH = 6 "OutOfSpaceLOH",
        /// `GC.Collect` that is not required to block.
        INDUCED_NOT_FORCED = 7 "InducedNotForced",
        /// GCStress testing.
        GC_STRESS = 8 "GCStress",
        /// Low memory; the collection blocks.
        LOW_MEMORY_BLOCKING = 9 "LowMemoryBlocking",
        /// `GC.Collect` with compaction.
        INDUCED_COMPACTING = 10 "InducedCompacting",
        /// The host reported low memory.
        LOW_MEMORY_HOST = 11 "LowMemoryHost",
        /// A full collection requested by provisional mode.
        PM_FULL_GC = 12 "PMFullGC",
        /// The host reported low memory; the collection blocks.
        LOW_MEMORY_HOST_BLOCKING = 13 "LowMemoryHostBlocking",
        /// Tuning of background collections (GCBGCFLTuningEnabled), small object heap.
        BGC_TUNING_SOH = 14 "BGCTuningSOH",
        /// Tuning of background collections, large object heap.
        BGC_TUNING_LOH = 15 "BGCTuningLOH",
        /// Background collection stepping.
        BGC_STEPPING = 16 "BGCStepping",
        /// `GC.Collect` in aggressive mode.
        INDUCED_AGGRESSIVE = 17 "InducedAggressive",
    }

    /// Kind of a collection (`gc_etw_type`), as announced by GCStart. A background collection can still run blocking.
    GcType {
        /// All threads are suspended until the end of the collection.
        BLOCKING = 0 "Blocking",
        /// Generation 2, concurrent with the program except for two pauses.
        BACKGROUND = 1 "Background",
        /// Generation 0 or 1, blocking, while a background collection runs.
        FOREGROUND = 2 "Foreground",
    }

    /// Reason for stopping the threads. Only [`FOR_GC`](Self::FOR_GC) and [`FOR_GC_PREP`](Self::FOR_GC_PREP) belong to
    /// the collector.
    SuspendReason {
        /// Another reason, including the sample profiler.
        OTHER = 0 "Other",
        /// A collection, a no-GC region, or a refreshed memory limit.
        FOR_GC = 1 "GC",
        /// Shutdown of an AppDomain.
        FOR_APP_DOMAIN_SHUTDOWN = 2 "AppDomainShutdown",
        /// Recompilation of methods (formerly code pitching).
        FOR_REJIT = 3 "ReJIT",
        /// Shutdown of the process.
        FOR_SHUTDOWN = 4 "Shutdown",
        /// The debugger.
        FOR_DEBUGGER = 5 "Debugger",
        /// A separate pause of a background collection.
        FOR_GC_PREP = 6 "GCPrep",
        /// The second attempt of the debugger.
        FOR_DEBUGGER_SWEEP = 7 "DebuggerSweep",
        /// A profiler.
        FOR_PROFILER = 8 "Profiler",
    }

    /// Contents of a segment (a region on .NET 7 and later).
    SegmentType {
        /// Small objects: generations 0 to 2.
        SMALL_OBJECT_HEAP = 0 "SmallObjectHeap",
        /// Large objects.
        LARGE_OBJECT_HEAP = 1 "LargeObjectHeap",
        /// Frozen objects.
        READ_ONLY_HEAP = 2 "ReadOnlyHeap",
        /// Pinned objects (.NET 5 and later).
        PINNED_OBJECT_HEAP = 3 "PinnedObjectHeap",
    }

    /// Heap of an allocation.
    AllocationKind {
        /// Small object heap.
        SMALL = 0 "Small",
        /// Large object heap.
        LARGE = 1 "Large",
        /// Pinned object heap (.NET 5 and later).
        PINNED = 2 "Pinned",
    }

    /// Kind of a GC handle (the manifest's map ends at 8).
    HandleKind {
        /// Weak handle that is cleared before finalizers run.
        WEAK_SHORT = 0 "WeakShort",
        /// Weak handle that is cleared after finalizers have run, so that it tracks resurrection.
        WEAK_LONG = 1 "WeakLong",
        /// Handle that keeps its object alive.
        STRONG = 2 "Strong",
        /// Handle that keeps its object alive and in place.
        PINNED = 3 "Pinned",
        /// Handle whose kind can change.
        VARIABLE = 4 "Variable",
        /// Handle that is strong while a count is not 0 (COM).
        REF_COUNTED = 5 "RefCounted",
        /// Handle that keeps a second object alive as long as the first object lives (ConditionalWeakTable).
        DEPENDENT = 6 "Dependent",
        /// Handle that pins an object for overlapped I/O.
        ASYNC_PINNED = 7 "AsyncPinned",
        /// Strong handle that also measures the size of the objects that it keeps alive.
        SIZED_REF = 8 "SizedRef",
        /// Weak reference to a COM object.
        WEAK_NATIVE_COM = 9 "WeakNativeCom",
        /// Weak reference into an object.
        WEAK_INTERIOR_POINTER = 10 "WeakInteriorPointer",
    }

    /// Kind of root from which objects were marked, in GCMarkWithType and, with the first six values, in
    /// GCBulkRootEdge. .NET Core 3.1 defines only 0 to 3.
    RootKind {
        /// Stacks of the threads.
        STACK = 0 "Stack",
        /// Objects that wait for their finalizer.
        FINALIZER = 1 "Finalizer",
        /// Handles.
        HANDLE = 2 "Handle",
        /// Older generations, found through card tables; not in full collections.
        OLDER = 3 "Older",
        /// Sized references.
        SIZED_REF = 4 "SizedRef",
        /// Overflow of the mark stack.
        OVERFLOW = 5 "Overflow",
        /// Dependent handles. The event is sent twice per heap and collection, and the bytes must be added up.
        DEPENDENT_HANDLE = 6 "DependentHandle",
        /// Objects that newly wait for their finalizer.
        NEW_FINALIZER = 7 "NewFQ",
        /// Objects taken from the mark stack of another heap (server GC).
        STEAL = 8 "Steal",
        /// Roots of the background collection in progress; only in foreground collections.
        BGC = 9 "BGC",
    }

    /// Side of a join that an event reports.
    JoinTime {
        /// The thread starts to wait.
        START = 0 "Start",
        /// The wait has ended.
        END = 1 "End",
    }

    /// Action of a thread in a join.
    JoinType {
        /// The thread arrived last.
        LAST_JOIN = 0 "LastJoin",
        /// The thread waits.
        JOIN = 1 "Join",
        /// The thread releases the other threads.
        RESTART = 2 "Restart",
        /// The thread arrived first in a join in which only the first thread does the work.
        FIRST_R_JOIN = 3 "FirstReverseJoin",
        /// The thread waits for the first thread.
        R_JOIN = 4 "ReverseJoin",
    }

    /// `GCSettings.LatencyMode` in effect.
    PauseMode {
        /// No background collections.
        BATCH = 0 "Batch",
        /// The default.
        INTERACTIVE = 1 "Interactive",
        /// Collections of generation 2 are avoided.
        LOW_LATENCY = 2 "LowLatency",
        /// Blocking collections of generation 2 are avoided.
        SUSTAINED_LOW_LATENCY = 3 "SustainedLowLatency",
        /// No collections until the reserved memory is used up.
        NO_GC = 4 "NoGC",
    }

    /// Kind of items that GCFitBucketInfo counts.
    BucketKind {
        /// The largest free list items.
        LARGEST_FREE_LIST_ITEMS = 0 "FLItem",
        /// Plugs in the condemned generation.
        PLUGS_IN_CONDEMNED = 1 "Plug",
    }
}

impl SuspendReason {
    /// Returns whether the collector stopped the threads: [`FOR_GC`](Self::FOR_GC) or
    /// [`FOR_GC_PREP`](Self::FOR_GC_PREP).
    #[inline]
    pub const fn is_gc(self) -> bool {
        matches!(self, Self::FOR_GC | Self::FOR_GC_PREP)
    }
}
