//! Attributes of spans and span links.

use super::{Attribute, Row, Stability, ValueKind, attributes};
use clr_gc::gc::GenerationSizes;

attributes! {
    NUMBER "gcwatch.gc.number" Int Own
        "Number of the collection in its process. On a link: number of the linked collection."
        from "GCStart Count (GCEnd Count if only GCEnd was observed)"
    GENERATION "dotnet.gc.heap.generation" Text Stable
        "Collected generation: `gen0`, `gen1`, `gen2`."
        from "GCStart Depth (GCEnd Depth if only GCEnd was observed)"
    TYPE "gcwatch.gc.type" Text Own
        "`blocking`, `background` or `foreground` (blocking, during a background collection). A collection that was announced as background and ran as blocking is `blocking`."
        from "GCStart Type; GCEnd before the first restart, or GCGlobalHeapHistory GlobalMechanisms bit 0 clear"
    BECAME_BLOCKING "gcwatch.gc.became_blocking" Bool Own
        "Whether the collection was announced as background and ran as blocking. Only on collections that were announced as background."
        from "as gcwatch.gc.type"
    REASON "gcwatch.gc.reason" Text Own
        "Reason for the collection: `AllocSmall`, `AllocLarge`, `Induced`, `LowMemory`, and others."
        from "GCStart Reason"
    TRIGGER "gcwatch.gc.trigger" Text Own
        "Reason of the last request for a collection before the start; same names as gcwatch.gc.reason."
        from "GCTriggered Reason, newest since the previous GCStart"
    PAUSE_TIME "gcwatch.gc.pause_time" Double Own
        "Time that the process was paused for this collection: the collection's parts of all suspensions, s. Absent if one end of a suspension is missing. The span of a background collection is much longer, because the collection runs concurrently."
        from "GCSuspendEEBegin to GCRestartEEEnd, divided if several collections share a suspension"
    SUSPEND_TIME "gcwatch.gc.suspend_time" Double Own
        "Part of the pause for the suspension of the threads, s."
        from "GCSuspendEEBegin to GCSuspendEEEnd"
    COMPACTING "gcwatch.gc.compacting" Bool Own
        "`true`: the collection compacted the heap; `false`: the collection swept the heap."
        from "GCGlobalHeapHistory GlobalMechanisms bit 1"
    CONDEMNED_REASONS "gcwatch.gc.condemned_reasons" Texts Own
        "Reasons for the selection of this generation. Absent without a special reason."
        from "GCGlobalHeapHistory CondemnReasons1"
    PAUSE_MODE "gcwatch.gc.pause_mode" Text Own
        "Latency mode of the process: `Batch`, `Interactive`, `LowLatency`, `SustainedLowLatency`, `NoGC`."
        from "GCGlobalHeapHistory PauseMode"
    HEAP_COUNT "gcwatch.gc.heap_count" Int Own
        "Number of heaps used."
        from "GCGlobalHeapHistory NumHeaps"
    MEMORY_LOAD "gcwatch.gc.memory_load" Double Own
        "Memory load: share (0 to 1) of the physical memory or of the container limit."
        from "GCGlobalHeapHistory MemoryPressure"
    PINNED_OBJECTS "gcwatch.gc.pinned_objects" Int Own
        "Pinned objects found."
        from "GCHeapStats PinnedObjectCount"
    SYNC_BLOCKS "gcwatch.gc.sync_blocks" Int Own
        "Sync blocks in use."
        from "GCHeapStats SinkBlockCount"
    HANDLES "gcwatch.gc.handles" Int Own
        "GC handles in use."
        from "GCHeapStats GCHandleCount"
    FINALIZATION_PROMOTED_SIZE "gcwatch.gc.finalization.promoted_size" Int Own
        "Bytes kept alive only because finalizers must run."
        from "GCHeapStats FinalizationPromotedSize"
    FINALIZATION_PROMOTED_COUNT "gcwatch.gc.finalization.promoted_objects" Int Own
        "Objects kept alive only because finalizers must run."
        from "GCHeapStats FinalizationPromotedCount"
    COMMITTED_BEFORE "gcwatch.gc.committed.before" Int Own
        "Bytes committed for objects immediately after GCStart, in use or retained (.NET 8 and later)."
        from "GCDynamicEvent CommittedUsage InUse + GlobalDecommit + Free + GlobalFree, first"
    COMMITTED_AFTER "gcwatch.gc.committed.after" Int Own
        "Bytes committed for objects immediately before GCEnd, in use or retained (.NET 8 and later, not in background collections)."
        from "GCDynamicEvent CommittedUsage InUse + GlobalDecommit + Free + GlobalFree, second"
    ALLOCATED_SINCE_LAST "gcwatch.gc.allocated_since_last" Int Own
        "Bytes allocated since the measurement of the previous collection (at the end of a background collection). Absent for the first collection, after a loss, and if a history is missing."
        from "GCPerHeapHistory SizeBefore - FreeListBefore - FreeObjBefore, minus the same difference after the previous collection"
    HEAP_SIZE_BEFORE "gcwatch.gc.heap.size_before" Int Own
        "Bytes in all generations before the collection."
        from "GCPerHeapHistory SizeBefore"
    HEAP_SIZE_AFTER "gcwatch.gc.heap.size_after" Int Own
        "Bytes in all generations after the collection."
        from "GCHeapStats GenerationSize"
    HEAP_PROMOTED "gcwatch.gc.heap.promoted" Int Own
        "Bytes promoted in all generations."
        from "GCHeapStats TotalPromotedSize"
    COMPLETE "gcwatch.gc.complete" Bool Own
        "Whether all parts of the collection were observed. If the collection is complete and not lossy, all attributes are exact."
        from "the reconstruction"
    MISSING "gcwatch.gc.missing" Texts Own
        "Unobserved parts: `start`, `end`, `heap_stats`, `suspension`, `global_history`, `per_heap_history`. Absent if no part is missing."
        from "the reconstruction"
    LOSSY "gcwatch.gc.lossy" Bool Own
        "Whether events were lost during the collection."
        from "sequence numbers of the stream"
    OBSERVED_BY_OTHERS "gcwatch.gc.observed_by_others" Bool Own
        "Whether a session of another tool was open in the process, or was still affecting the process: the collection may have been slower. `true` from the first check after the start of the session (one check every 2 s). Absent if unknown, and in recordings."
        from "/proc/PID/net/unix"
    REQUESTED_BY_TOOL "gcwatch.gc.requested_by_tool" Bool Own
        "Whether a tool requested the collection over the diagnostics socket for a heap dump, and not the program. Only for collections with the reason Induced; absent if unknown."
        from "GCTriggered by the thread that serves the socket; GCBulkRootEdge"
    REQUESTS_HIT "gcwatch.gc.requests.hit" Int Own
        "Requests that the collection stopped, of the requests that ended within `requests.wait` of the collection. Absent unless `requests.mode` is on for the process."
        from "Microsoft.AspNetCore.Hosting.EndRequest, GCSuspendEEBegin to GCRestartEEBegin"
    REQUEST_TIME_LOST "gcwatch.gc.requests.time_lost" Double Own
        "Total time that the collection cost these requests, s."
        from "as gcwatch.gc.requests.hit"
    WORST_REQUEST_LOST "gcwatch.gc.requests.worst_lost" Double Own
        "Time that the collection cost the request with the largest loss, s. The link `worst_request` points to this request."
        from "as gcwatch.gc.requests.hit"
    CLR_INSTANCE "gcwatch.gc.clr_instance" Int Own
        "Runtime instance in the process. Absent if 0, as in all processes with one runtime."
        from "ClrInstanceID"
    PAUSE_KIND "gcwatch.gc.pause.kind" Text Own
        "Kind of a pause: `blocking`, `initial` or `final` (the two pauses of a background collection)."
        from "the reconstruction"
    PAUSE_SUSPEND "gcwatch.gc.pause.suspend_time" Double Own
        "On a pause: time to suspend the threads if less than 1 ms, s. A longer time is the span `GC suspend`."
        from "GCSuspendEEBegin to GCSuspendEEEnd"
    PAUSE_RESTART "gcwatch.gc.pause.restart_time" Double Own
        "On a pause: time until the threads ran again if less than 1 ms, s. A longer time is the span `GC restart`."
        from "GCRestartEEBegin to GCRestartEEEnd"
    PAUSE_STOP "gcwatch.gc.pause.stop_time" Double Own
        "On a pause that shares its suspension with other collections: length of the whole suspension, s."
        from "GCSuspendEEBegin to GCRestartEEEnd"
    LINK "gcwatch.gc.link" Text Own
        "On a link: `background` (the collection ran during the linked background collection), `same_stop` (the collection followed the linked collection in the same suspension), `worst_request` (the request with the largest loss), or `collection` (on a pause in the trace of a request)."
        from "the reconstruction"
}

/// Defines attributes of phase durations in seconds.
macro_rules! phases {
    ($($name:literal $description:literal)+) => {
        /// Durations of the phases, in the order of [`clr_gc::gc::Phases::named`]. The runtime reports no start times,
        /// so the phases are attributes and not spans.
        pub static PHASES: [Attribute; 9] = [$(Attribute {
            name: concat!("gcwatch.gc.phase.", $name, ".duration"),
            kind: ValueKind::Double,
            description: $description,
            source: "GCGlobalHeapHistory phase times",
        },)+];
    };
}

phases! {
    "mark_sized_refs" "Marking from sized references, s."
    "mark_roots" "Marking from roots, s."
    "short_weak" "Clearing short weak references, s."
    "scan_finalization" "Scanning for finalization, s."
    "long_weak" "Clearing long weak references, s."
    "plan" "Planning, s (not in background collections)."
    "relocate" "Relocating references, s (compacting only)."
    "compact" "Moving objects, s (compacting only)."
    "sweep" "Sweeping, s (not compacting, not in background collections)."
}

/// Measure of a generation, as five attributes.
#[derive(Debug)]
pub struct PerGeneration {
    /// Row of the documentation; the name contains `GENERATION` as a placeholder.
    pub pattern: Attribute,
    /// Attributes of gen0, gen1, gen2, loh and poh, in the order of [`clr_gc::gc::HeapGeneration::ALL`].
    pub attributes: [Attribute; 5],
    /// Function that returns the measure.
    pub of: fn(&GenerationSizes) -> Option<u64>,
}

macro_rules! per_generation {
    ($($name:literal $of:ident $description:literal from $source:literal)+) => {
        /// Sizes of each generation before and after a collection.
        pub static PER_GENERATION: &[PerGeneration] = &[$(PerGeneration {
            pattern: per_generation!(@one "GENERATION" $name $description $source),
            attributes: [
                per_generation!(@one "gen0" $name $description $source),
                per_generation!(@one "gen1" $name $description $source),
                per_generation!(@one "gen2" $name $description $source),
                per_generation!(@one "loh" $name $description $source),
                per_generation!(@one "poh" $name $description $source),
            ],
            of: |sizes| sizes.$of,
        },)+];
    };
    (@one $generation:literal $name:literal $description:literal $source:literal) => {
        Attribute {
            name: concat!("gcwatch.gc.heap.", $generation, ".", $name),
            kind: ValueKind::Int,
            description: $description,
            source: $source,
        }
    };
}

per_generation! {
    "size_before" before "Bytes before the collection." from "GCPerHeapHistory SizeBefore"
    "size_after" after "Bytes after the collection." from "GCHeapStats GenerationSize"
    "promoted" promoted "Bytes promoted." from "GCHeapStats TotalPromotedSize"
    "fragmentation" fragmentation "Free bytes inside the generation after the collection." from "GCPerHeapHistory FreeListSpaceAfter + FreeObjSpaceAfter"
    "budget" budget "Bytes that can be allocated in the generation before the next collection." from "GCPerHeapHistory NewAllocation"
}

/// Returns all rows of a collection's spans and links, including rows per generation and phase.
pub fn rows() -> impl Iterator<Item = Row> {
    let own = |attribute| Row {
        attribute,
        stability: Stability::Own,
    };
    let sizes = PER_GENERATION.iter().flat_map(|measure| &measure.attributes);
    ALL.iter().copied().chain(PHASES.iter().chain(sizes).map(own))
}
