//! Enumerations. Each is a number with names for the values that are known: newer runtimes add values, and an unknown
//! one keeps its number and prints as `Unknown(19)`.

use std::fmt;

use super::fields::{ToValue, Value};
use super::reader::{Cursor, Short, Wire};
use nettrace::PointerSize;

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
                #[doc = concat!("`", $text, "`")]
                $(#[$code_meta])*
                pub const $code: Self = Self($number);
            )+

            /// The known values, in order.
            pub const KNOWN: &'static [Self] = &[$(Self::$code),+];

            /// Its name; `None` for a value that is not known.
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

        impl From<u32> for $name {
            #[inline]
            fn from(number: u32) -> Self {
                Self(number)
            }
        }

        impl ToValue for $name {
            fn to_value(&self) -> Value<'_> {
                Value::U64(self.0.into())
            }
        }

        impl Wire<'_> for $name {
            type Value = Self;
            #[inline]
            fn least(_: PointerSize) -> usize {
                4
            }
            #[inline]
            fn read(cursor: &mut Cursor<'_>, field: &'static str) -> Result<Self, Short> {
                u32::read(cursor, field).map(Self)
            }
        }
    )+};
}

code! {
    /// Why a collection was started (`gc_reason` in the runtime's gc.h; the manifest's map stops at 9).
    /// .NET Core 3.1 ends at 13.
    GcReason {
        /// The budget of the small object heap was used up.
        ALLOC_SMALL = 0 "AllocSmall",
        /// `GC.Collect`, also TryStartNoGCRegion.
        INDUCED = 1 "Induced",
        /// The operating system reported little memory.
        LOW_MEMORY = 2 "LowMemory",
        /// No reason.
        EMPTY = 3 "Empty",
        /// The budget of the large (or pinned) object heap was used up.
        ALLOC_LARGE = 4 "AllocLarge",
        /// No room for a small object.
        OUT_OF_SPACE_SOH = 5 "OutOfSpaceSOH",
        /// No room for a large object.
        OUT_OF_SPACE_LOH = 6 "OutOfSpaceLOH",
        /// `GC.Collect` that need not block.
        INDUCED_NOT_FORCED = 7 "InducedNotForced",
        /// GCStress testing.
        GC_STRESS = 8 "GCStress",
        /// Little memory; blocking.
        LOW_MEMORY_BLOCKING = 9 "LowMemoryBlocking",
        /// `GC.Collect` with compaction.
        INDUCED_COMPACTING = 10 "InducedCompacting",
        /// The host reported little memory.
        LOW_MEMORY_HOST = 11 "LowMemoryHost",
        /// A full collection that provisional mode asked for.
        PM_FULL_GC = 12 "PMFullGC",
        /// The host reported little memory; blocking.
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

    /// Kind of a collection (`gc_etw_type`), as announced by GCStart: a background one may yet run blocking.
    GcType {
        /// All threads are suspended to its end.
        BLOCKING = 0 "Blocking",
        /// Generation 2, concurrent with the program but for two pauses.
        BACKGROUND = 1 "Background",
        /// Generation 0 or 1, blocking, while a background collection runs.
        FOREGROUND = 2 "Foreground",
    }

    /// Why the threads were stopped. Only [`FOR_GC`](Self::FOR_GC) and [`FOR_GC_PREP`](Self::FOR_GC_PREP) are the
    /// collector's.
    SuspendReason {
        /// Something else; also the sample profiler.
        OTHER = 0 "Other",
        /// A collection, a no-GC region, or a refreshed memory limit.
        FOR_GC = 1 "GC",
        /// An AppDomain shuts down.
        FOR_APP_DOMAIN_SHUTDOWN = 2 "AppDomainShutdown",
        /// Methods are compiled anew (formerly: code pitching).
        FOR_REJIT = 3 "ReJIT",
        /// The process shuts down.
        FOR_SHUTDOWN = 4 "Shutdown",
        /// The debugger.
        FOR_DEBUGGER = 5 "Debugger",
        /// A background collection's own pause.
        FOR_GC_PREP = 6 "GCPrep",
        /// The debugger's second attempt.
        FOR_DEBUGGER_SWEEP = 7 "DebuggerSweep",
        /// A profiler.
        FOR_PROFILER = 8 "Profiler",
    }

    /// What a segment (a region on .NET 7 and later) holds.
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

    /// Kind of a GC handle (the manifest's map stops at 8).
    HandleKind {
        /// Cleared before finalizers run.
        WEAK_SHORT = 0 "WeakShort",
        /// Cleared after finalizers ran: tracks resurrection.
        WEAK_LONG = 1 "WeakLong",
        /// Keeps its object.
        STRONG = 2 "Strong",
        /// Keeps its object and its place.
        PINNED = 3 "Pinned",
        /// Of changing kind.
        VARIABLE = 4 "Variable",
        /// Strong while a count is not zero (COM).
        REF_COUNTED = 5 "RefCounted",
        /// Keeps a second object as long as the first lives (ConditionalWeakTable).
        DEPENDENT = 6 "Dependent",
        /// Pins for overlapped I/O.
        ASYNC_PINNED = 7 "AsyncPinned",
        /// Strong, and measures the size of what it keeps alive.
        SIZED_REF = 8 "SizedRef",
        /// Weak reference to a COM object.
        WEAK_NATIVE_COM = 9 "WeakNativeCom",
        /// Weak reference to the inside of an object.
        WEAK_INTERIOR_POINTER = 10 "WeakInteriorPointer",
    }

    /// What objects were marked from: in GCMarkWithType, and with the first six values in GCBulkRootEdge.
    /// .NET Core 3.1 has 0 to 3 only.
    RootKind {
        /// Stacks of the threads.
        STACK = 0 "Stack",
        /// Objects that wait for their finalizer.
        FINALIZER = 1 "Finalizer",
        /// Handles.
        HANDLE = 2 "Handle",
        /// Older generations, found by cards; not in full collections.
        OLDER = 3 "Older",
        /// Sized references.
        SIZED_REF = 4 "SizedRef",
        /// Overflow of the mark stack.
        OVERFLOW = 5 "Overflow",
        /// Dependent handles. Comes twice per heap and collection: the bytes add up.
        DEPENDENT_HANDLE = 6 "DependentHandle",
        /// Objects that newly wait for their finalizer.
        NEW_FINALIZER = 7 "NewFQ",
        /// Taken from another heap's mark stack (server).
        STEAL = 8 "Steal",
        /// Roots of the background collection under way; in foreground collections only.
        BGC = 9 "BGC",
    }

    /// Which side of a join an event reports.
    JoinTime {
        /// The thread begins to wait.
        START = 0 "Start",
        /// The wait is over.
        END = 1 "End",
    }

    /// What a thread does in a join.
    JoinType {
        /// It came last.
        LAST_JOIN = 0 "LastJoin",
        /// It waits.
        JOIN = 1 "Join",
        /// It releases the others.
        RESTART = 2 "Restart",
        /// It came first to a join of which only the first does the work.
        FIRST_R_JOIN = 3 "FirstReverseJoin",
        /// It waits for the first.
        R_JOIN = 4 "ReverseJoin",
    }

    /// `GCSettings.LatencyMode` in effect.
    PauseMode {
        /// No background collections.
        BATCH = 0 "Batch",
        /// The default.
        INTERACTIVE = 1 "Interactive",
        /// Avoid generation 2.
        LOW_LATENCY = 2 "LowLatency",
        /// Avoid blocking generation 2.
        SUSTAINED_LOW_LATENCY = 3 "SustainedLowLatency",
        /// No collections until memory set aside is used up.
        NO_GC = 4 "NoGC",
    }

    /// What GCFitBucketInfo counts.
    BucketKind {
        /// The largest free list items.
        LARGEST_FREE_LIST_ITEMS = 0 "FLItem",
        /// Plugs in the condemned generation.
        PLUGS_IN_CONDEMNED = 1 "Plug",
    }
}

impl SuspendReason {
    /// The collector stopped the threads: [`FOR_GC`](Self::FOR_GC) or [`FOR_GC_PREP`](Self::FOR_GC_PREP).
    #[inline]
    pub const fn is_gc(self) -> bool {
        matches!(self, Self::FOR_GC | Self::FOR_GC_PREP)
    }
}
