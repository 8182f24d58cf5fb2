//! Metrics of a process.

use super::span::{GENERATION, REASON, TYPE};
use super::{Attribute, MetricDefinition, ValueKind, attributes, metrics};

attributes! {
    RUNTIME_GENERATION "gc.heap.generation" Text Own
        "Optional replacement of `dotnet.gc.heap.generation`: the key in the runtime's meter (.NET 9 and later)."
        from "as dotnet.gc.heap.generation"
    STOP_REASON "gcwatch.gc.stop.reason" Text Own
        "Reason of the suspension: `GC` or `GCPrep`."
        from "GCSuspendEEBegin Reason"
    CAUSE "gcwatch.cause" Text Own
        "Cause of stopped time: `threads.slow`, `prepare`, `roots.stacks`, `roots.handles`, `roots.dependent-handles`, `roots.sized-references`, `roots.old-to-young`, `roots.finalizer-queue`, `roots.background`, `roots.few`, `weak`, `survivors`, `plan`, `relocate`, `compact`, `sweep`, `pinned.gaps`, `finish`, `resume`, `background.mark`, `tool.heap-dump`, `no-collection`, `tool.session`, `no-cpu`, `unexplained`."
        from "the account of stopped time"
    ALLOCATED_UNKNOWN_WHY "gcwatch.unknown" Text Own
        "Reason why the allocated amount is unknown: `first` (the first collection of a session), `loss`, `missing_history`, `sweep` (inside a background collection that began before the session), `contradiction`."
        from "gcwatch"
    FIGURE "gcwatch.figure" Text Own
        "Name of the implausible value, as in records."
        from "gcwatch"
    UNEXPORTED "gcwatch.unexported" Text Own
        "Reason why a collection was not exported as a span: `not_selected` (generation, pause, share) or `over_rate`."
        from "gcwatch"
    ROUTE "gcwatch.request.route" Text Own
        "Class of the request: a name of `requests.routes` selected by the path, or a name of `requests.sources`; absent \
         without a class."
        from "the path of Microsoft.AspNetCore.Hosting.EndRequest, http.route or url.path of a span"
    OVERFLOW "otel.metric.overflow" Bool Stable
        "True on the overflow point of a metric: the point aggregates all measurements after the process reached its limit of series."
        from "gcwatch"
}

/// Attribute with the generation of a heap size. Objects of the large object heap and of the pinned object heap have
/// separate values.
pub static HEAP_GENERATION: Attribute = Attribute {
    name: GENERATION.name,
    kind: ValueKind::Text,
    description: "Generation: `gen0`, `gen1`, `gen2`, `loh`, `poh`.",
    source: "GCHeapStats, GCPerHeapHistory",
};

metrics! { METRICS
    COLLECTIONS "dotnet.gc.collections" "{collection}" Counter [GENERATION] Stable
        "Number of garbage collections, by collected generation. Missed collections have no generation: the total is complete; the number per generation is a lower bound."
        from "GCStart Depth (GCEnd Depth if only GCEnd was observed)"
    PAUSE_TIME "dotnet.gc.pause.time" "s" Counter [] Stable
        "Total time that the process was paused for garbage collection, as in GC.GetTotalPauseDuration: until the restart of the threads begins. Histogram and spans end when the threads run again, which is later (by microseconds, or more with many threads on few cores)."
        from "GCSuspendEEBegin to GCRestartEEBegin"
    TOTAL_ALLOCATED "dotnet.gc.heap.total_allocated" "By" Counter [] Stable
        "Bytes allocated on the managed heap since the first observed collection (the start time), as of the last collection: within 2 % of GC.GetTotalAllocatedBytes. Absent after a gap (lost events, a new session) and after an estimate (large objects during background collections of .NET 8 under server GC); the count then restarts at the next collection."
        from "GCPerHeapHistory SizeBefore - FreeListBefore - FreeObjBefore, SizeAfter - FreeListAfter - FreeObjAfter, GCGlobalHeapHistory FinalYoungestDesired"
    HEAP_SIZE "dotnet.gc.last_collection.heap.size" "By" UpDownCounter [HEAP_GENERATION] Stable
        "Size of the managed heap after the last garbage collection, including fragmentation."
        from "GCHeapStats GenerationSize"
    HEAP_FRAGMENTATION "dotnet.gc.last_collection.heap.fragmentation.size" "By" UpDownCounter [HEAP_GENERATION] Stable
        "Free space inside the managed heap after the last garbage collection."
        from "GCPerHeapHistory FreeListSpaceAfter + FreeObjSpaceAfter"
    COMMITTED_SIZE "dotnet.gc.last_collection.memory.committed_size" "By" UpDownCounter [] Stable
        "Memory committed for the managed heap as of the last garbage collection (.NET 8 and later), in use or retained: GCMemoryInfo.TotalCommittedBytes."
        from "GCDynamicEvent CommittedUsage InUse + GlobalDecommit + Free + GlobalFree: before GCEnd; after GCStart in a background collection"
    OWN_COLLECTIONS "gcwatch.gc.collections" "{collection}" Counter [GENERATION] Own
        "Same value as dotnet.gc.collections, under a name that only gcwatch exports."
        from "as dotnet.gc.collections"
    OWN_PAUSE_TIME "gcwatch.gc.pause.time" "s" Counter [] Own
        "Same value as dotnet.gc.pause.time, under a name that only gcwatch exports."
        from "as dotnet.gc.pause.time"
    OWN_HEAP_SIZE "gcwatch.gc.heap.size" "By" UpDownCounter [HEAP_GENERATION] Own
        "Same value as dotnet.gc.last_collection.heap.size, under a name that only gcwatch exports."
        from "as dotnet.gc.last_collection.heap.size"
    OWN_HEAP_FRAGMENTATION "gcwatch.gc.heap.fragmentation" "By" UpDownCounter [HEAP_GENERATION] Own
        "Same value as dotnet.gc.last_collection.heap.fragmentation.size, under a name that only gcwatch exports."
        from "as dotnet.gc.last_collection.heap.fragmentation.size"
    OWN_COMMITTED_SIZE "gcwatch.gc.heap.committed" "By" UpDownCounter [] Own
        "Same value as dotnet.gc.last_collection.memory.committed_size, under a name that only gcwatch exports."
        from "as dotnet.gc.last_collection.memory.committed_size"
    PAUSE_DURATION "gcwatch.gc.pause.duration" "s" Histogram [GENERATION, TYPE, REASON] Own
        "Duration of each pause. One measurement per suspension and collection; a background collection has two. Collections that share a suspension have one part each."
        from "GCSuspendEEBegin to GCRestartEEEnd"
    SUSPEND_DURATION "gcwatch.gc.suspend.duration" "s" Histogram [] Own
        "Time to suspend all threads. One measurement per suspension with a collection."
        from "GCSuspendEEBegin to GCSuspendEEEnd"
    BACKGROUND_DURATION "gcwatch.gc.background.duration" "s" Histogram [] Own
        "Duration of background collections from start to end. Background collections run mostly concurrently with the program. Other collections take as long as their pauses, within microseconds."
        from "GCStart, GCEnd"
    PAUSES_UNKNOWN "gcwatch.gc.pauses.unknown" "{pause}" Counter [] Own
        "Pauses of unknown length: one end of the suspension was not observed. No other pause metric includes these pauses."
        from "the reconstruction"
    COMPACTIONS "gcwatch.gc.compactions" "{collection}" Counter [GENERATION] Own
        "Collections that compacted the heap."
        from "GCGlobalHeapHistory GlobalMechanisms bit 1"
    ALLOCATED "gcwatch.gc.allocated" "By" Counter [] Own
        "Bytes allocated since the first observed collection, as of the last collection. A lower bound if gcwatch.gc.allocated.unknown has values other than `first`, for large objects under server GC on .NET 8 and on .NET Core 3.1, and if an estimate on .NET 8 is too low."
        from "as dotnet.gc.heap.total_allocated"
    ALLOCATED_UNKNOWN "gcwatch.gc.allocated.unknown" "{collection}" Counter [ALLOCATED_UNKNOWN_WHY] Own
        "Collections for which the amount allocated before the collection is unknown, by reason."
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
        "Memory load at the last collection: share (0 to 1) of the physical memory or of the container limit."
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
        "Objects that the last collection kept alive only because their finalizers must run."
        from "GCHeapStats FinalizationPromotedCount"
    SUSPENSIONS "gcwatch.gc.suspensions" "{stop}" Counter [STOP_REASON] Own
        "Suspensions for the GC without a collection: a no-GC region, a request without effect, a refreshed memory limit."
        from "GCSuspendEEBegin"
    SUSPENSION_TIME "gcwatch.gc.suspension.time" "s" Counter [STOP_REASON] Own
        "Total time that the process was suspended for the GC without a collection, for suspensions with two observed ends."
        from "GCSuspendEEBegin to GCRestartEEEnd"
    STOPPED_TIME "gcwatch.stopped.time" "s" Counter [CAUSE] Own
        "Total time that the process was stopped for the GC, with or without a collection, by cause; the sum of all causes. Relocation time is split among the roots in proportion to their marking time. Time that no event explains is `unexplained` (most of the time on .NET Core 3.1)."
        from "GCSuspendEEBegin to GCRestartEEEnd, divided by GCMarkWithType and the phase times of GCGlobalHeapHistory"
    INCOMPLETE "gcwatch.collections.incomplete" "{collection}" Counter [] Own
        "Partially observed collections: in progress at attach or at the end of a session, or overlapping lost events."
        from "the reconstruction"
    MISSED "gcwatch.collections.missed" "{collection}" Counter [] Own
        "Collections without observed events, derived from gaps in the collection numbers: collections between sessions since the first attach, and collections whose events were all lost."
        from "GCStart Count, GCEnd Count"
    LOSSY "gcwatch.collections.lossy" "{collection}" Counter [] Own
        "Collections during which events were lost."
        from "sequence numbers of the stream"
    IMPLAUSIBLE "gcwatch.collections.implausible" "{figure}" Counter [FIGURE] Own
        "Implausible values from the runtime, such as memory that was never written. The values are unknown in all outputs."
        from "GCHeapStats, GCPerHeapHistory, GCGlobalHeapHistory, GCDynamicEvent"
    UNEXPORTED_SPANS "gcwatch.collections.unexported" "{collection}" Counter [UNEXPORTED] Own
        "Collections not exported as spans. All metrics include them."
        from "gcwatch"
    REQUEST_PAUSE "gcwatch.request.gc_pause.duration" "s" Histogram [ROUTE] Own
        "Time that a request lost to collections, for requests that lost time. Absent unless `requests.mode` is on for the process."
        from "Microsoft.AspNetCore.Hosting.EndRequest, GCSuspendEEBegin to GCRestartEEBegin"
    REQUESTS "gcwatch.requests" "{request}" Counter [ROUTE] Own
        "Ended requests with a known loss to collections. The share of requests with a loss is the count of `gcwatch.request.gc_pause.duration` divided by this value."
        from "Microsoft.AspNetCore.Hosting.EndRequest"
    REQUESTS_UNKNOWN "gcwatch.requests.unknown" "{request}" Counter [] Own
        "Ended requests with an unknown loss to collections: the request has no activity (the service neither logs nor traces), took longer than `requests.longest`, or overlaps lost events."
        from "Microsoft.AspNetCore.Hosting.EndRequest"
    REQUESTS_UNEXPORTED "gcwatch.requests.unexported" "{request}" Counter [] Own
        "Sampled requests without spans in their traces although their loss was large enough: the limit `requests.spans.max_per_second` was reached."
        from "gcwatch"
    EVENTS_LOST "gcwatch.events.lost" "{event}" Counter [] Own
        "Events that the runtime dropped because its buffer was full. Absent if the stream has no sequence numbers."
        from "sequence numbers of the stream"
    SERIES_OVERFLOW "gcwatch.series.overflow" "{measurement}" Counter [] Own
        "Measurements aggregated into a point with otel.metric.overflow after the process reached its limit of series."
        from "gcwatch"
}

/// Pairs of a conventions metric and the gcwatch metric with the same points.
pub static SAME: [(&MetricDefinition, &MetricDefinition); 5] = [
    (&COLLECTIONS, &OWN_COLLECTIONS),
    (&PAUSE_TIME, &OWN_PAUSE_TIME),
    (&HEAP_SIZE, &OWN_HEAP_SIZE),
    (&HEAP_FRAGMENTATION, &OWN_HEAP_FRAGMENTATION),
    (&COMMITTED_SIZE, &OWN_COMMITTED_SIZE),
];

/// Metrics omitted with `metrics.detail: low`.
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
