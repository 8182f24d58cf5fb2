//! The attributes of spans and of their links.

use super::{Attribute, Row, Stability, ValueKind, attributes};
use clr_gc::gc::GenerationSizes;

attributes! {
    NUMBER "dotnet.gc.number" Int Own
        "Number of the collection in its process. On a link: number of the linked collection."
        from "GCStart Count (GCEnd Count where only that was seen)"
    GENERATION "dotnet.gc.heap.generation" Text Stable
        "Collected generation: `gen0`, `gen1`, `gen2`."
        from "GCStart Depth (GCEnd Depth where only that was seen)"
    TYPE "dotnet.gc.type" Text Own
        "`blocking`, `background` or `foreground` (blocking, during a background collection). A collection that was announced as background and ran blocking is `blocking`."
        from "GCStart Type; GCEnd before the first restart, or GCGlobalHeapHistory GlobalMechanisms bit 0 clear"
    BECAME_BLOCKING "dotnet.gc.became_blocking" Bool Own
        "The collection was announced as background and ran blocking. Only on collections that were announced as background."
        from "as dotnet.gc.type"
    REASON "dotnet.gc.reason" Text Own
        "Why the collection started: `AllocSmall`, `AllocLarge`, `Induced`, `LowMemory` ..."
        from "GCStart Reason"
    TRIGGER "dotnet.gc.trigger" Text Own
        "Reason of the last request for a collection before it started; the same names as dotnet.gc.reason."
        from "GCTriggered Reason, newest since the previous GCStart"
    DURATION_MS "dotnet.gc.duration_ms" Double Own
        "Time from GCStart to GCEnd in ms; most of a background collection runs concurrently with the program."
        from "GCStart, GCEnd"
    PAUSE_MS "dotnet.gc.pause_ms" Double Own
        "Time that the process was paused for this collection in ms: its parts of all its suspensions. Absent when one end of a suspension is missing."
        from "GCSuspendEEBegin to GCRestartEEEnd, divided where several collections share a suspension"
    SUSPEND_MS "dotnet.gc.suspend_ms" Double Own
        "Part of the pause that it took to suspend the threads in ms."
        from "GCSuspendEEBegin to GCSuspendEEEnd"
    COMPACTING "dotnet.gc.compacting" Bool Own
        "True: the collection compacted the heap; false: it swept."
        from "GCGlobalHeapHistory GlobalMechanisms bit 1"
    CONDEMNED_REASONS "dotnet.gc.condemned_reasons" Texts Own
        "Why this generation was chosen; absent when there was no special reason."
        from "GCGlobalHeapHistory CondemnReasons1"
    PAUSE_MODE "dotnet.gc.pause_mode" Text Own
        "Latency mode of the process: `Batch`, `Interactive`, `LowLatency`, `SustainedLowLatency`, `NoGC`."
        from "GCGlobalHeapHistory PauseMode"
    HEAP_COUNT "dotnet.gc.heap_count" Int Own
        "Number of heaps used."
        from "GCGlobalHeapHistory NumHeaps"
    MEMORY_LOAD_PERCENT "dotnet.gc.memory_load_percent" Int Own
        "Memory load in percent of the physical memory or of the container's limit."
        from "GCGlobalHeapHistory MemoryPressure"
    PINNED_OBJECTS "dotnet.gc.pinned_objects" Int Own
        "Pinned objects found."
        from "GCHeapStats PinnedObjectCount"
    SYNC_BLOCKS "dotnet.gc.sync_blocks" Int Own
        "Sync blocks in use."
        from "GCHeapStats SinkBlockCount"
    HANDLES "dotnet.gc.handles" Int Own
        "GC handles in use."
        from "GCHeapStats GCHandleCount"
    FINALIZATION_PROMOTED_BYTES "dotnet.gc.finalization.promoted_bytes" Int Own
        "Bytes kept alive only because their finalizer must run."
        from "GCHeapStats FinalizationPromotedSize"
    FINALIZATION_PROMOTED_COUNT "dotnet.gc.finalization.promoted_count" Int Own
        "Objects kept alive only because their finalizer must run."
        from "GCHeapStats FinalizationPromotedCount"
    COMMITTED_BEFORE "dotnet.gc.committed.before" Int Own
        "Bytes committed for objects right after GCStart, in use or kept (.NET 8 and later)."
        from "GCDynamicEvent CommittedUsage InUse + GlobalDecommit + Free + GlobalFree, first"
    COMMITTED_AFTER "dotnet.gc.committed.after" Int Own
        "Bytes committed for objects right before GCEnd, in use or kept (.NET 8 and later, not in background collections)."
        from "GCDynamicEvent CommittedUsage InUse + GlobalDecommit + Free + GlobalFree, second"
    ALLOCATED_SINCE_LAST "dotnet.gc.allocated_since_last" Int Own
        "Bytes allocated since the collection before was measured (a background one is at its end); absent for the first one, after a loss and where a history is missing."
        from "GCPerHeapHistory SizeBefore - FreeListBefore - FreeObjBefore, less the same after the collection before"
    HEAP_SIZE_BEFORE "dotnet.gc.heap.size_before" Int Own
        "Bytes in all generations before the collection."
        from "GCPerHeapHistory SizeBefore"
    HEAP_SIZE_AFTER "dotnet.gc.heap.size_after" Int Own
        "Bytes in all generations after the collection."
        from "GCHeapStats GenerationSize"
    HEAP_PROMOTED "dotnet.gc.heap.promoted" Int Own
        "Bytes promoted in all generations."
        from "GCHeapStats TotalPromotedSize"
    COMPLETE "dotnet.gc.complete" Bool Own
        "Every part of the collection was observed. If it is complete and not lossy, every attribute is exact."
        from "the reconstruction"
    MISSING "dotnet.gc.missing" Texts Own
        "Parts that were not observed: `start`, `end`, `heap_stats`, `suspension`, `global_history`, `per_heap_history`. Absent when nothing is missing."
        from "the reconstruction"
    LOSSY "dotnet.gc.lossy" Bool Own
        "Events were lost during the collection."
        from "sequence numbers of the stream"
    OBSERVED_BY_OTHERS "dotnet.gc.observed_by_others" Bool Own
        "A session of another tool was open in the process, or its consequences were not over yet: the collection may have been slower for it. True from the first look after the session began, every 2 s; absent where it cannot be known, and in recordings."
        from "/proc/PID/net/unix"
    REQUESTED_BY_TOOL "dotnet.gc.requested_by_tool" Bool Own
        "A tool asked for the collection over the diagnostics socket, for a heap dump, and not the program. Only of those with the reason Induced; absent where it is not known."
        from "GCTriggered by the thread that serves the socket; GCBulkRootEdge"
    REQUESTS_HIT "dotnet.gc.requests.hit" Int Own
        "Requests that the collection stopped, of those that ended within `requests.wait` of it. Absent unless `requests.mode` is on for the process."
        from "Microsoft.AspNetCore.Hosting.EndRequest, GCSuspendEEBegin to GCRestartEEBegin"
    REQUEST_TIME_LOST_MS "dotnet.gc.requests.time_lost_ms" Double Own
        "What those requests lost by the collection in all, ms."
        from "as dotnet.gc.requests.hit"
    WORST_REQUEST_LOST_MS "dotnet.gc.requests.worst_lost_ms" Double Own
        "What the request that lost most lost by it, ms; a link with `worst_request` points at it."
        from "as dotnet.gc.requests.hit"
    CLR_INSTANCE "dotnet.gc.clr_instance" Int Own
        "Runtime instance in the process; absent when it is 0, as in every process with one runtime."
        from "ClrInstanceID"
    PAUSE_KIND "dotnet.gc.pause.kind" Text Own
        "On a pause: `blocking`, `initial` or `final` (the two pauses of a background collection)."
        from "the reconstruction"
    PAUSE_STOP_MS "dotnet.gc.pause.stop_ms" Double Own
        "On a pause whose suspension several collections share: length of the whole suspension in ms."
        from "GCSuspendEEBegin to GCRestartEEEnd"
    LINK "dotnet.gc.link" Text Own
        "On a link: `background` (the collection ran during that background collection) or `same_stop` (it followed that collection in the same suspension), `worst_request` (the request that lost most by it), on a pause in a request's trace `collection`."
        from "the reconstruction"
}

/// A phase's time in ms.
macro_rules! phases {
    ($($name:literal $description:literal)+) => {
        /// Durations of the phases, in the order of [`clr_gc::gc::Phases::named`]. The runtime reports them without
        /// start times, so they are attributes and not spans.
        pub static PHASES: [Attribute; 9] = [$(Attribute {
            name: concat!("dotnet.gc.phase.", $name, "_ms"),
            kind: ValueKind::Double,
            description: $description,
            source: "GCGlobalHeapHistory phase times",
        },)+];
    };
}

phases! {
    "mark_sized_refs" "Marking from sized references, ms."
    "mark_roots" "Marking from roots, ms."
    "short_weak" "Clearing short weak references, ms."
    "scan_finalization" "Scanning for finalization, ms."
    "long_weak" "Clearing long weak references, ms."
    "plan" "Planning, ms (not in background collections)."
    "relocate" "Relocating references, ms (compacting only)."
    "compact" "Moving objects, ms (compacting only)."
    "sweep" "Sweeping, ms (not compacting, not in background collections)."
}

/// One measure of a generation, as five attributes.
#[derive(Debug)]
pub struct PerGeneration {
    /// The row of the documentation; its name has `GENERATION` for the generation.
    pub pattern: Attribute,
    /// The attributes of gen0, gen1, gen2, loh, poh, as [`clr_gc::gc::HeapGeneration::ALL`].
    pub attributes: [Attribute; 5],
    /// The measure.
    pub of: fn(&GenerationSizes) -> Option<u64>,
}

macro_rules! per_generation {
    ($($name:literal $of:ident $description:literal from $source:literal)+) => {
        /// The sizes of each generation around a collection.
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
            name: concat!("dotnet.gc.heap.", $generation, ".", $name),
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
    "fragmentation" fragmentation "Free bytes inside the generation after it." from "GCPerHeapHistory FreeListSpaceAfter + FreeObjSpaceAfter"
    "budget" budget "Bytes that may be allocated in it before the next collection." from "GCPerHeapHistory NewAllocation"
}

/// Every row of a collection's spans and links, those per generation and phase too.
pub fn rows() -> impl Iterator<Item = Row> {
    let own = |attribute| Row {
        attribute,
        stability: Stability::Own,
    };
    let sizes = PER_GENERATION.iter().flat_map(|measure| &measure.attributes);
    ALL.iter().copied().chain(PHASES.iter().chain(sizes).map(own))
}
