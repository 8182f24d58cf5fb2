//! The metrics of a process.

use super::span::{GENERATION, REASON, TYPE};
use super::{Attribute, MetricDefinition, ValueKind, attributes, metrics};

attributes! {
    RUNTIME_GENERATION "gc.heap.generation" Text Own
        "Replaces `dotnet.gc.heap.generation` by option: the key that the runtime's own meter of .NET 9 and later uses."
        from "as dotnet.gc.heap.generation"
    STOP_REASON "gcwatch.gc.stop.reason" Text Own
        "Why the threads were suspended: `GC` or `GCPrep`."
        from "GCSuspendEEBegin Reason"
    CAUSE "gcwatch.cause" Text Own
        "What stopped time was spent on: `threads.slow`, `prepare`, `roots.stacks`, `roots.handles`, `roots.dependent-handles`, `roots.sized-references`, `roots.old-to-young`, `roots.finalizer-queue`, `roots.background`, `roots.few`, `weak`, `survivors`, `plan`, `relocate`, `compact`, `sweep`, `pinned.gaps`, `finish`, `resume`, `background.mark`, `tool.heap-dump`, `no-collection`, `tool.session`, `no-cpu`, `unexplained`."
        from "the account of stopped time"
    ALLOCATED_UNKNOWN_WHY "gcwatch.unknown" Text Own
        "Why it is not known how much was allocated: `first` (the first collection of a session), `loss`, `missing_history`, `sweep` (inside a background collection that began before the session), `contradiction`."
        from "gcwatch"
    FIGURE "gcwatch.figure" Text Own
        "A figure that was beyond its bound, by its name in records."
        from "gcwatch"
    UNEXPORTED "gcwatch.unexported" Text Own
        "Why a collection was not exported as a span: `not_selected` (generation, pause, share) or `over_rate`."
        from "gcwatch"
    ROUTE "gcwatch.request.route" Text Own
        "The class of the request: a name of `requests.routes` by its path, or one of `requests.sources`; absent where it \
         belongs to none."
        from "the path of Microsoft.AspNetCore.Hosting.EndRequest, http.route or url.path of a span"
    OVERFLOW "otel.metric.overflow" Bool Stable
        "True on the one point of a metric that aggregates all measurements after the limit of series was reached."
        from "gcwatch"
}

/// The generation of a heap's size: the objects of the large and the pinned object heap have values of their own.
pub static HEAP_GENERATION: Attribute = Attribute {
    name: GENERATION.name,
    kind: ValueKind::Text,
    description: "Generation: `gen0`, `gen1`, `gen2`, `loh`, `poh`.",
    source: "GCHeapStats, GCPerHeapHistory",
};

metrics! { METRICS
    COLLECTIONS "dotnet.gc.collections" "{collection}" Counter [GENERATION] Stable
        "The number of garbage collections, counted by collected generation. Those that were missed have no generation: the total is whole, by generation it is a lower bound."
        from "GCStart Depth (GCEnd Depth where only that was seen)"
    PAUSE_TIME "dotnet.gc.pause.time" "s" Counter [] Stable
        "Total time that the process was paused for garbage collection, as GC.GetTotalPauseDuration counts it: until the threads begin to be restarted. Histogram and spans have the time until they run, which is longer (microseconds, more with many threads on few cores)."
        from "GCSuspendEEBegin to GCRestartEEBegin"
    TOTAL_ALLOCATED "dotnet.gc.heap.total_allocated" "By" Counter [] Stable
        "Bytes allocated on the managed heap since its start time, which is the first collection that was observed: within 2 % of GC.GetTotalAllocatedBytes, as of the last collection. Absent after a gap (lost events, a new session), and where a part is an estimate (large objects during background collections of .NET 8 under server GC); then counted anew from the next collection."
        from "GCPerHeapHistory SizeBefore - FreeListBefore - FreeObjBefore, SizeAfter - FreeListAfter - FreeObjAfter, GCGlobalHeapHistory FinalYoungestDesired"
    HEAP_SIZE "dotnet.gc.last_collection.heap.size" "By" UpDownCounter [HEAP_GENERATION] Stable
        "Size of the managed heap after the last garbage collection, fragmentation included."
        from "GCHeapStats GenerationSize"
    HEAP_FRAGMENTATION "dotnet.gc.last_collection.heap.fragmentation.size" "By" UpDownCounter [HEAP_GENERATION] Stable
        "Free space inside the managed heap after the last garbage collection."
        from "GCPerHeapHistory FreeListSpaceAfter + FreeObjSpaceAfter"
    COMMITTED_SIZE "dotnet.gc.last_collection.memory.committed_size" "By" UpDownCounter [] Stable
        "Memory committed for the managed heap as of the last garbage collection (.NET 8 and later), in use or kept: GCMemoryInfo.TotalCommittedBytes."
        from "GCDynamicEvent CommittedUsage InUse + GlobalDecommit + Free + GlobalFree: before GCEnd, in a background collection after GCStart"
    OWN_COLLECTIONS "gcwatch.gc.collections" "{collection}" Counter [GENERATION] Own
        "As dotnet.gc.collections, under a name that no process exports itself."
        from "as dotnet.gc.collections"
    OWN_PAUSE_TIME "gcwatch.gc.pause.time" "s" Counter [] Own
        "As dotnet.gc.pause.time, under a name that no process exports itself."
        from "as dotnet.gc.pause.time"
    OWN_HEAP_SIZE "gcwatch.gc.heap.size" "By" UpDownCounter [HEAP_GENERATION] Own
        "As dotnet.gc.last_collection.heap.size, under a name that no process exports itself."
        from "as dotnet.gc.last_collection.heap.size"
    OWN_HEAP_FRAGMENTATION "gcwatch.gc.heap.fragmentation" "By" UpDownCounter [HEAP_GENERATION] Own
        "As dotnet.gc.last_collection.heap.fragmentation.size, under a name that no process exports itself."
        from "as dotnet.gc.last_collection.heap.fragmentation.size"
    OWN_COMMITTED_SIZE "gcwatch.gc.heap.committed" "By" UpDownCounter [] Own
        "As dotnet.gc.last_collection.memory.committed_size, under a name that no process exports itself."
        from "as dotnet.gc.last_collection.memory.committed_size"
    PAUSE_DURATION "gcwatch.gc.pause.duration" "s" Histogram [GENERATION, TYPE, REASON] Own
        "Duration of each pause, one measurement per suspension and collection in it: a background collection has two. Collections that share a suspension each get their part of it."
        from "GCSuspendEEBegin to GCRestartEEEnd"
    SUSPEND_DURATION "gcwatch.gc.suspend.duration" "s" Histogram [] Own
        "Time to suspend all threads, one measurement per suspension with a collection."
        from "GCSuspendEEBegin to GCSuspendEEEnd"
    BACKGROUND_DURATION "gcwatch.gc.background.duration" "s" Histogram [] Own
        "Duration of background collections from start to end; most of it runs concurrently with the program. Other collections last as long as their pauses, within microseconds."
        from "GCStart, GCEnd"
    PAUSES_UNKNOWN "gcwatch.gc.pauses.unknown" "{pause}" Counter [] Own
        "Pauses of unknown length, because one end of the suspension was not observed. No other metric of pauses includes them."
        from "the reconstruction"
    COMPACTIONS "gcwatch.gc.compactions" "{collection}" Counter [GENERATION] Own
        "Collections that compacted the heap."
        from "GCGlobalHeapHistory GlobalMechanisms bit 1"
    ALLOCATED "gcwatch.gc.allocated" "By" Counter [] Own
        "Bytes allocated since the first collection that was observed, as of the last one. A lower bound if gcwatch.gc.allocated.unknown counts anything but `first`, under server GC of .NET 8 with large objects and of .NET Core 3.1, and where an estimate of .NET 8 proves too low."
        from "as dotnet.gc.heap.total_allocated"
    ALLOCATED_UNKNOWN "gcwatch.gc.allocated.unknown" "{collection}" Counter [ALLOCATED_UNKNOWN_WHY] Own
        "Collections of which it is not known how much was allocated before them, by reason."
        from "the reconstruction"
    PROMOTED "gcwatch.gc.promoted" "By" Counter [HEAP_GENERATION] Own
        "Bytes that survived collections of their generation."
        from "GCHeapStats TotalPromotedSize"
    BUDGET "gcwatch.gc.heap.budget" "By" Gauge [HEAP_GENERATION] Own
        "Bytes that can be allocated in a generation before its next collection, as of the last collection."
        from "GCPerHeapHistory NewAllocation"
    HEAP_COUNT "gcwatch.gc.heaps" "{heap}" Gauge [] Own
        "Number of heaps used by the last collection."
        from "GCGlobalHeapHistory NumHeaps"
    MEMORY_LOAD "gcwatch.gc.memory.load" "1" Gauge [] Own
        "Memory load at the last collection, 0 to 1 of the physical memory or of the container's limit."
        from "GCGlobalHeapHistory MemoryPressure"
    PINNED_OBJECTS "gcwatch.gc.pinned_objects" "{object}" Gauge [] Own
        "Pinned objects found by the last collection."
        from "GCHeapStats PinnedObjectCount"
    HANDLES "gcwatch.gc.handles" "{handle}" Gauge [] Own
        "GC handles in use at the last collection."
        from "GCHeapStats GCHandleCount"
    SYNC_BLOCKS "gcwatch.gc.sync_blocks" "{block}" Gauge [] Own
        "Sync blocks in use at the last collection."
        from "GCHeapStats SinkBlockCount"
    FINALIZATION_PROMOTED "gcwatch.gc.finalization.promoted" "{object}" Gauge [] Own
        "Objects that the last collection kept alive only because their finalizer must run."
        from "GCHeapStats FinalizationPromotedCount"
    SUSPENSIONS "gcwatch.gc.suspensions" "{stop}" Counter [STOP_REASON] Own
        "Suspensions for the GC in which no collection ran: a no-GC region, a request without effect, a refreshed memory limit."
        from "GCSuspendEEBegin"
    SUSPENSION_TIME "gcwatch.gc.suspension.time" "s" Counter [STOP_REASON] Own
        "Total time that the process was suspended for the GC without a collection, where both ends were observed."
        from "GCSuspendEEBegin to GCRestartEEEnd"
    STOPPED_TIME "gcwatch.stopped.time" "s" Counter [CAUSE] Own
        "Total time that the process was stopped for the GC, with a collection or without, by what it was spent on: the parts add up to it. Relocation is divided among the roots in the proportion of their marking; what no event says is `unexplained` (on .NET Core 3.1 most of it)."
        from "GCSuspendEEBegin to GCRestartEEEnd, divided by GCMarkWithType and the phase times of GCGlobalHeapHistory"
    INCOMPLETE "gcwatch.collections.incomplete" "{collection}" Counter [] Own
        "Collections of which a part was not observed: those in progress at attach or at the end of a session, and those that overlap lost events."
        from "the reconstruction"
    MISSED "gcwatch.collections.missed" "{collection}" Counter [] Own
        "Collections of which nothing was observed, by the gaps in their numbers: while no session was open since the first attach, and where all their events were lost."
        from "GCStart Count, GCEnd Count"
    LOSSY "gcwatch.collections.lossy" "{collection}" Counter [] Own
        "Collections during which events were lost."
        from "sequence numbers of the stream"
    IMPLAUSIBLE "gcwatch.collections.implausible" "{figure}" Counter [FIGURE] Own
        "Figures of the runtime that cannot be, such as memory that was never written: they are unknown everywhere."
        from "GCHeapStats, GCPerHeapHistory, GCGlobalHeapHistory, GCDynamicEvent"
    UNEXPORTED_SPANS "gcwatch.collections.unexported" "{collection}" Counter [UNEXPORTED] Own
        "Collections not exported as spans. All metrics include them."
        from "gcwatch"
    REQUEST_PAUSE "gcwatch.request.gc_pause.duration" "s" Histogram [ROUTE] Own
        "Time that a request lost to collections, of the requests that lost some. Absent unless `requests.mode` is on for the process."
        from "Microsoft.AspNetCore.Hosting.EndRequest, GCSuspendEEBegin to GCRestartEEBegin"
    REQUESTS "gcwatch.requests" "{request}" Counter [ROUTE] Own
        "Requests that ended and of which it is known what they lost to collections; the share of those that lost some is the count of `gcwatch.request.gc_pause.duration` over this."
        from "Microsoft.AspNetCore.Hosting.EndRequest"
    REQUESTS_UNKNOWN "gcwatch.requests.unknown" "{request}" Counter [] Own
        "Requests that ended and of which it is not known what they lost: they have no activity (the service neither logs nor traces), lasted longer than `requests.longest`, or overlap lost events."
        from "Microsoft.AspNetCore.Hosting.EndRequest"
    REQUESTS_UNEXPORTED "gcwatch.requests.unexported" "{request}" Counter [] Own
        "Sampled requests that lost enough for spans in their own traces, and got none: the limit of `requests.spans.max_per_second`."
        from "gcwatch"
    EVENTS_LOST "gcwatch.events.lost" "{event}" Counter [] Own
        "Events that the runtime dropped because its buffer was full; absent where the stream has no sequence numbers."
        from "sequence numbers of the stream"
    SERIES_OVERFLOW "gcwatch.series.overflow" "{measurement}" Counter [] Own
        "Measurements aggregated into a point with otel.metric.overflow because the process reached its limit of series."
        from "gcwatch"
}

/// The conventions' metrics whose points are those of gcwatch's own metric beside it.
pub static SAME: [(&MetricDefinition, &MetricDefinition); 5] = [
    (&COLLECTIONS, &OWN_COLLECTIONS),
    (&PAUSE_TIME, &OWN_PAUSE_TIME),
    (&HEAP_SIZE, &OWN_HEAP_SIZE),
    (&HEAP_FRAGMENTATION, &OWN_HEAP_FRAGMENTATION),
    (&COMMITTED_SIZE, &OWN_COMMITTED_SIZE),
];

/// What is left out with `metrics.detail: low`.
pub static DETAILED: [&MetricDefinition; 10] = [
    &STOPPED_TIME,
    &SUSPEND_DURATION,
    &BACKGROUND_DURATION,
    &COMPACTIONS,
    &PROMOTED,
    &BUDGET,
    &HEAP_COUNT,
    &SYNC_BLOCKS,
    &FINALIZATION_PROMOTED,
    &HANDLES,
];
