//! The metrics of a process.

use super::span::{GENERATION, REASON, TYPE};
use super::{Attribute, ValueKind, attributes, metrics};

attributes! {
    RUNTIME_GENERATION "gc.heap.generation" Text Own
        "In place of `dotnet.gc.heap.generation`, by option: the key that the runtime's own meter of .NET 9 and later uses."
        from "as dotnet.gc.heap.generation"
    STOP_REASON "dotnet.gc.stop.reason" Text Own
        "Why the threads were stopped: `GC` or `GCPrep`."
        from "GCSuspendEEBegin Reason"
    UNTOLD "gcwatch.untold" Text Own
        "Why a collection did not become a span: `not_selected` (generation, pause, share) or `over_rate`."
        from "gcwatch"
    OVERFLOW "otel.metric.overflow" Bool Stable
        "True on the one point of a metric that takes what came after the limit of series was reached."
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
        "The number of garbage collections, each counted in the generation that it collected."
        from "GCStart Depth (GCEnd Depth where only that was seen)"
    PAUSE_TIME "dotnet.gc.pause.time" "s" Counter [] Stable
        "The time that the program stood still for garbage collections, as far as the edges of the stops were seen."
        from "GCSuspendEEBegin to GCRestartEEEnd"
    HEAP_SIZE "dotnet.gc.last_collection.heap.size" "By" UpDownCounter [HEAP_GENERATION] Stable
        "The managed heap's size after the last garbage collection, free space included."
        from "GCHeapStats GenerationSize"
    HEAP_FRAGMENTATION "dotnet.gc.last_collection.heap.fragmentation.size" "By" UpDownCounter [HEAP_GENERATION] Stable
        "The free space inside the managed heap after the last garbage collection."
        from "GCPerHeapHistory FreeListSpaceAfter + FreeObjSpaceAfter"
    COMMITTED_SIZE "dotnet.gc.last_collection.memory.committed_size" "By" UpDownCounter [] Stable
        "The memory committed for the managed heap in the last garbage collection (.NET 8 and later)."
        from "GCDynamicEvent CommittedUsage TotalCommittedInUse: before GCEnd, in a background collection after GCStart"
    PAUSE_DURATION "dotnet.gc.pause.duration" "s" Histogram [GENERATION, TYPE, REASON] Own
        "How long the program stood still at once: one measurement per stop and collection in it, so that the two pauses of a background collection are two. A stop that collections share is divided among them."
        from "GCSuspendEEBegin to GCRestartEEEnd"
    SUSPEND_DURATION "dotnet.gc.suspend.duration" "s" Histogram [] Own
        "How long it took to bring the threads to a stand, one measurement per stop with a collection."
        from "GCSuspendEEBegin to GCSuspendEEEnd"
    BACKGROUND_DURATION "dotnet.gc.background.duration" "s" Histogram [] Own
        "From the start to the end of a background collection, most of which runs beside the program. The durations of other collections are their pauses, but for microseconds."
        from "GCStart, GCEnd"
    PAUSES_UNKNOWN "gcwatch.gc.pauses.unknown" "{pause}" Counter [] Own
        "Pauses whose length is not known, because an edge of the stop was not seen. They are in no other metric of pauses."
        from "the reconstruction"
    COMPACTIONS "gcwatch.gc.compactions" "{collection}" Counter [GENERATION] Own
        "Collections that moved objects together."
        from "GCGlobalHeapHistory GlobalMechanisms bit 1"
    ALLOCATED "gcwatch.gc.allocated" "By" Counter [] Own
        "Bytes allocated between collections, as far as they tell: a lower bound, without background collections, losses and what came after the last collection. The conventions' dotnet.gc.heap.total_allocated counts every byte at any moment and is not told."
        from "GCPerHeapHistory SizeBefore, GCHeapStats"
    PROMOTED "gcwatch.gc.promoted" "By" Counter [HEAP_GENERATION] Own
        "Bytes that survived collections of their generation."
        from "GCHeapStats TotalPromotedSize"
    BUDGET "gcwatch.gc.heap.budget" "By" Gauge [HEAP_GENERATION] Own
        "Bytes that may be allocated in a generation before it is collected again, as of the last collection."
        from "GCPerHeapHistory NewAllocation"
    HEAP_COUNT "gcwatch.gc.heaps" "{heap}" Gauge [] Own
        "Heaps that took part in the last collection."
        from "GCGlobalHeapHistory NumHeaps"
    MEMORY_LOAD "gcwatch.gc.memory.load" "1" Gauge [] Own
        "Load of the physical memory or of the container's limit at the last collection, 0 to 1."
        from "GCGlobalHeapHistory MemoryPressure"
    PINNED_OBJECTS "gcwatch.gc.pinned_objects" "{object}" Gauge [] Own
        "Pinned objects that the last collection met."
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
        "Stops for the collector in which no collection ran: a no-GC region, a request that led to nothing, a refreshed memory limit."
        from "GCSuspendEEBegin"
    SUSPENSION_TIME "gcwatch.gc.suspension.time" "s" Counter [STOP_REASON] Own
        "The time that the program stood still in stops without a collection, as far as their edges were seen."
        from "GCSuspendEEBegin to GCRestartEEEnd"
    INCOMPLETE "gcwatch.collections.incomplete" "{collection}" Counter [] Own
        "Collections of which a part was never seen: those under way at attach or at the end of a session, and those that overlap a loss."
        from "the reconstruction"
    LOSSY "gcwatch.collections.lossy" "{collection}" Counter [] Own
        "Collections in whose time events were lost."
        from "sequence numbers of the stream"
    UNTOLD_SPANS "gcwatch.collections.untold" "{collection}" Counter [UNTOLD] Own
        "Collections that did not become spans. They are in every metric."
        from "gcwatch"
    EVENTS_LOST "gcwatch.events.lost" "{event}" Counter [] Own
        "Events that the runtime dropped because its buffer was full; absent where the stream numbers nothing."
        from "sequence numbers of the stream"
    SERIES_OVERFLOW "gcwatch.series.overflow" "{measurement}" Counter [] Own
        "Measurements that went to a point with otel.metric.overflow, because the process has as many series as it may have."
        from "gcwatch"
}
