//! Fields `gc.*` and `suspension.*`.

use clr_gc::event::{GcReason, GcType, PauseMode, SuspendReason};
use clr_gc::gc::{Cause, Collection, GenerationSizes, PauseKind, Phases};

use super::{Field, Root, Scope, fields};
use crate::value::{Texts, Type, Value};

fn gc<'a>(scope: &Scope<'a>) -> Option<&'a Collection> {
    scope.gc.map(|gc| gc.collection)
}

fn bytes(bytes: Option<u64>) -> Option<Value<'static>> {
    bytes.map(|bytes| Value::Int(i64::try_from(bytes).unwrap_or(i64::MAX)))
}

fn number(number: Option<u32>) -> Option<Value<'static>> {
    number.map(|number| Value::Int(number.into()))
}

fn ns(ns: Option<i64>) -> Option<Value<'static>> {
    ns.map(Value::Int)
}

fn ms(ns: Option<i64>) -> Option<Value<'static>> {
    ns.map(|ns| Value::Double(ns as f64 / 1e6))
}

/// Returns the ratio of the part to the whole, or `None` if the whole is 0, or if one of them is unknown.
fn ratio(part: Option<u64>, whole: Option<u64>) -> Option<Value<'static>> {
    let whole = whole.filter(|whole| *whole > 0)?;
    Some(Value::Double(part? as f64 / whole as f64))
}

/// Returns whether the collection ran while all threads were suspended, regardless of its announced type; `None` if the
/// type is unknown.
fn is_blocking(gc: &Collection) -> Option<bool> {
    Some(gc.gc_type? != GcType::BACKGROUND || gc.became_blocking)
}

/// Returns the sum of a collection's pauses of one kind, or `None` if there is no such pause, or if the duration of one
/// is unknown.
fn pauses(gc: &Collection, kind: PauseKind) -> Option<i64> {
    let mut sum = None;
    for pause in gc.pauses.iter().filter(|pause| pause.kind == kind) {
        sum = Some(sum.unwrap_or(0i64).saturating_add(pause.pause_ns?));
    }
    sum
}

/// Returns the time from GCEnd to the restart, for a blocking collection that has its own suspension. Returns `None`
/// for other collections, and if an edge is missing.
fn restart_ns(gc: &Collection) -> Option<i64> {
    let last = gc
        .pauses
        .last()
        .filter(|pause| pause.kind == PauseKind::Blocking && pause.shared_with.is_empty())?;
    Some(last.edges.restart_end?.saturating_sub(gc.end?)).filter(|&ns| ns >= 0)
}

/// Returns the bytes in all generations after the collection, without free space, or `None` if the free space of a
/// generation is unknown.
fn live(gc: &Collection) -> Option<u64> {
    let live = |sizes: &GenerationSizes| Some(sizes.after?.saturating_sub(sizes.fragmentation?));
    let is_known = |sizes: &GenerationSizes| sizes.after.is_none() || sizes.fragmentation.is_some();
    gc.total(live).filter(|_| gc.heap.iter().all(is_known))
}

fn thread_created(gc: &Collection) -> Option<Value<'static>> {
    (gc.thread_created || !gc.lossy).then_some(Value::Bool(gc.thread_created))
}

/// Returns the largest part of the pause of a blocking collection, and its share. Returns `None` for a background
/// collection, and if the largest part is unknown.
///
/// The parts are disjoint: suspending the threads, the phases, and the remainder, which is mostly waiting for a
/// restart. If a part is unknown, the remainder is unknown too, but a part that takes at least half of the pause still
/// dominates.
fn dominant(gc: &Collection) -> Option<(&'static str, f64)> {
    if !is_blocking(gc)? {
        return None;
    }
    largest_part(gc.pause_ns?, gc.suspend_ns, &gc.phases, gc.is_compacting())
}

fn largest_part(
    pause: i64,
    suspend: Option<i64>,
    phases: &Phases,
    is_compacting: Option<bool>,
) -> Option<(&'static str, f64)> {
    let other_marks = phases.marking().zip(phases.mark_roots);
    let parts = [
        ("suspension", suspend),
        ("mark_roots", phases.mark_roots),
        ("mark_other", other_marks.map(|(all, roots)| all.saturating_sub(roots))),
        ("plan", phases.plan),
        ("relocate", phases.relocate),
        ("compact", phases.compact),
        ("sweep", phases.sweep),
    ];
    // Objects are either moved or swept.
    let is_there = |name: &str| match name {
        "relocate" | "compact" => is_compacting != Some(false),
        "sweep" => is_compacting != Some(true),
        _ => true,
    };
    let is_whole = parts.iter().all(|(name, ns)| ns.is_some() || !is_there(name));
    let known = parts.iter().filter_map(|(name, ns)| Some((*name, (*ns)?)));
    let sum = known.clone().fold(0i64, |sum, (_, ns)| sum.saturating_add(ns));
    let rest = is_whole.then(|| ("other", pause.saturating_sub(sum).max(0)));
    let (name, most) = known.chain(rest).max_by_key(|(_, ns)| *ns)?;
    let share = (pause > 0).then(|| (most as f64 / pause as f64).min(1.0))?;
    (is_whole || share >= 0.5).then_some((name, share))
}

fn imbalance(gc: &Collection) -> Option<Value<'static>> {
    let total = gc.total(|sizes| sizes.survived).filter(|total| *total > 0)?;
    let mean = total as f64 / f64::from(gc.global?.heap_count);
    Some(Value::Double(gc.largest_heap_survived? as f64 / mean)).filter(|_| mean > 0.0)
}

fn survival(sizes: &GenerationSizes) -> Option<Value<'static>> {
    ratio(sizes.survived, sizes.before)
}

/// Returns the part of the collection's stopped time that has this cause, or `None` if the duration of the pause or the
/// part is unknown.
fn stopped(gc: &Collection, cause: Cause) -> Option<Value<'static>> {
    gc.pause_ns?;
    ns(gc.account().get(cause))
}

fn reason_name(reason: Option<GcReason>) -> Option<Value<'static>> {
    reason.map(|reason| Value::Text(reason.name().unwrap_or("Unknown")))
}

fn type_name(gc_type: Option<GcType>) -> Option<Value<'static>> {
    let name = |gc_type| match gc_type {
        GcType::BLOCKING => "blocking",
        GcType::BACKGROUND => "background",
        GcType::FOREGROUND => "foreground",
        GcType(_) => "Unknown",
    };
    gc_type.map(|gc_type| Value::Text(name(gc_type)))
}

fn mode_name(mode: PauseMode) -> &'static str {
    mode.name().unwrap_or("Unknown")
}

fields! { FIELDS Gc
    "gc.number" Int "" "Number of the collection in the process, starting at 1 (Count of GCStart)."
        = |s| gc(s).map(|gc| Value::Int(gc.number.into()));
    "gc.generation" Int "" "Collected generation: 0, 1, 2."
        = |s| number(gc(s)?.generation);
    "gc.type" Text "" ["blocking", "background", "foreground", "Unknown"] "Type as announced by the runtime."
        = |s| type_name(gc(s)?.gc_type);
    "gc.blocking" Bool "" "Whether all threads were suspended during the collection: blocking, foreground, or background that became blocking."
        = |s| is_blocking(gc(s)?).map(Value::Bool);
    "gc.became_blocking" Bool "" "Whether the collection was announced as background but completed before the threads were restarted."
        = |s| gc(s).map(|gc| Value::Bool(gc.became_blocking));
    "gc.thread_created" Bool "" "Whether the runtime created a new thread for background collections: for the first collection, or after 20 s without one. Unknown after a loss of events."
        = |s| thread_created(gc(s)?);
    "gc.reason" Text "" ["AllocSmall", "Induced", "LowMemory", "Empty", "AllocLarge", "OutOfSpaceSOH", "OutOfSpaceLOH", "InducedNotForced",
        "GCStress", "LowMemoryBlocking", "InducedCompacting", "LowMemoryHost", "PMFullGC", "LowMemoryHostBlocking", "BGCTuningSOH",
        "BGCTuningLOH", "BGCStepping", "InducedAggressive", "Unknown"] "Reason of the collection."
        = |s| reason_name(gc(s)?.reason);
    "gc.asked_by" Text "" ["allocation.small", "allocation.large", "program", "limit", "tool", "collector", "unknown"] "Requester of the collection: an allocation, the program, a memory limit (also if generation 2 was collected because of the limit), another tool for a heap dump, or the collector itself."
        = |s| gc(s).map(|gc| Value::Text(gc.asker().id()));
    "gc.trigger" Text "" ["AllocSmall", "Induced", "LowMemory", "Empty", "AllocLarge", "OutOfSpaceSOH", "OutOfSpaceLOH", "InducedNotForced",
        "GCStress", "LowMemoryBlocking", "InducedCompacting", "LowMemoryHost", "PMFullGC", "LowMemoryHostBlocking", "BGCTuningSOH",
        "BGCTuningLOH", "BGCStepping", "InducedAggressive", "Unknown"] "Reason of the newest GCTriggered before the collection; unknown if there was no GCTriggered."
        = |s| reason_name(gc(s)?.trigger);
    "gc.duration_ns" Int "ns" "Time from GCStart to GCEnd. A background collection mostly runs concurrently with the program."
        = |s| ns(gc(s)?.duration_ns());
    "gc.duration_ms" Double "ms" "The same in milliseconds."
        = |s| ms(gc(s)?.duration_ns());
    "gc.pause_ns" Int "ns" "Pause: the sum of the collection's shares of the suspensions."
        = |s| ns(gc(s)?.pause_ns);
    "gc.pause_ms" Double "ms" "The same in milliseconds."
        = |s| ms(gc(s)?.pause_ns);
    "gc.suspend_ns" Int "ns" "Time to suspend the threads; 0 for a collection inside the suspension of another collection."
        = |s| ns(gc(s)?.suspend_ns);
    "gc.suspend_ms" Double "ms" "The same in milliseconds."
        = |s| ms(gc(s)?.suspend_ns);
    "gc.initial_pause_ns" Int "ns" "First pause of a background collection; unknown for others."
        = |s| ns(pauses(gc(s)?, PauseKind::Initial));
    "gc.initial_pause_ms" Double "ms" "The same in milliseconds."
        = |s| ms(pauses(gc(s)?, PauseKind::Initial));
    "gc.final_pause_ns" Int "ns" "Last pause of a background collection; unknown for others."
        = |s| ns(pauses(gc(s)?, PauseKind::Final));
    "gc.final_pause_ms" Double "ms" "The same in milliseconds."
        = |s| ms(pauses(gc(s)?, PauseKind::Final));
    "gc.restart_ns" Int "ns" "From the end of a blocking collection to the restart of the threads; unknown for background and for shared suspensions."
        = |s| ns(restart_ns(gc(s)?));
    "gc.restart_ms" Double "ms" "The same in milliseconds."
        = |s| ms(restart_ns(gc(s)?));
    "gc.since_last_ns" Int "ns" "Time for which the program ran between the previous suspension and this one. Unknown for the first collection and after a loss of events."
        = |s| ns(s.gc?.since_last_ns);
    "gc.since_last_ms" Double "ms" "The same in milliseconds."
        = |s| ms(s.gc?.since_last_ns);
    "gc.foreground_within" Int "" "Foreground collections during this background collection; unknown for others."
        = |s| number(s.gc?.foreground_within);
    "gc.heap_before" Int "bytes" "Bytes in all generations before the collection."
        = |s| bytes(gc(s)?.heap_before());
    "gc.heap_after" Int "bytes" "Bytes in all generations after the collection, including free space."
        = |s| bytes(gc(s)?.heap_after());
    "gc.heap_live" Int "bytes" "Bytes in all generations after the collection, without free space; unknown if the free space of a generation is unknown."
        = |s| bytes(live(gc(s)?));
    "gc.promoted" Int "bytes" "Surviving bytes in all generations."
        = |s| bytes(gc(s)?.promoted());
    "gc.pinned_objects" Int "" "Number of pinned objects that the collection found."
        = |s| number(Some(gc(s)?.heap_stats.as_ref()?.pinned_object_count));
    "gc.sync_blocks" Int "" "Sync blocks in use."
        = |s| number(gc(s)?.sync_blocks());
    "gc.gc_handles" Int "" "GC handles in use."
        = |s| number(gc(s)?.handles());
    "gc.finalization_promoted_bytes" Int "bytes" "Bytes kept alive because their finalizers have to run."
        = |s| bytes(gc(s)?.finalization_promoted_bytes());
    "gc.finalization_promoted_count" Int "" "Number of objects kept alive because their finalizers have to run."
        = |s| bytes(gc(s)?.finalization_promoted_count());
    "gc.heap_count" Int "" "Number of heaps; it can change with DATAS."
        = |s| number(Some(gc(s)?.global?.heap_count));
    "gc.memory_load_percent" Int "percent" "Memory load of the host or the container, as reported by the GC."
        = |s| number(gc(s)?.memory_load_percent());
    "gc.pause_mode" Text "" "Latency mode: `Batch`, `Interactive`, `LowLatency`, `SustainedLowLatency`, `NoGC`."
        = |s| Some(Value::Text(mode_name(gc(s)?.global?.pause_mode)));
    "gc.compacting" Bool "" "Whether the collection moved objects."
        = |s| gc(s)?.is_compacting().map(Value::Bool);
    "gc.elevation" Bool "" "Whether a full collection was replaced by a generation 1 collection."
        = |s| Some(Value::Bool(gc(s)?.global?.mechanisms.is_elevation()));
    "gc.condemned_reasons" Texts "" "Reasons for the generation, as names: `'BeforeOOM' in gc.condemned_reasons`. Unknown on .NET Core 3."
        = |s| Some(Value::Texts(Texts::Condemned(gc(s)?.global?.condemn_reasons1?)));
    "gc.committed_before" Int "bytes" "Committed memory in use right after the start of the collection (.NET 8 and later)."
        = |s| bytes(gc(s)?.committed.before);
    "gc.committed_after" Int "bytes" "Committed memory in use right before the end of the collection (.NET 8 and later); unknown for background collections."
        = |s| bytes(gc(s)?.committed.after);
    "gc.committed_total_before" Int "bytes" "Memory committed for objects right after the start of the collection, in use or retained (.NET 8 and later)."
        = |s| bytes(gc(s)?.committed.total_before());
    "gc.committed_total_after" Int "bytes" "Memory committed for objects right before the end of the collection, like GCMemoryInfo.TotalCommittedBytes; unknown for background collections."
        = |s| bytes(gc(s)?.committed.total_after());
    "gc.bookkeeping" Int "bytes" "Memory committed for the GC's own data (.NET 8 and later)."
        = |s| bytes(gc(s)?.committed.bookkeeping);
    "gc.imbalance" Double "" "Surviving bytes of the heap with the most survivors, relative to the mean of all heaps; 1 with a single heap."
        = |s| imbalance(gc(s)?);
    "gc.throughput_cost_percent" Double "percent" "Cost of GC for the program as measured by DATAS. Known only for collections that adapted the number of heaps."
        = |s| gc(s)?.throughput_cost_percent.map(|cost| Value::Double(cost.into()));
    "gc.allocated_since_last" Int "bytes" "Bytes allocated since the previous collection was measured; a background collection is measured at its end. Unknown for the first collection, after a loss of events, and if a history is missing."
        = |s| bytes(gc(s)?.allocated_since_last());
    "gc.allocation_rate" Double "bytes/s" "Bytes allocated since the previous collection per second of that time."
        = |s| gc(s)?.allocated.ok()?.per_second().map(Value::Double);
    "gc.finalization_share" Double "ratio" "Bytes kept alive for finalizers, relative to all surviving bytes."
        = |s| ratio(gc(s)?.finalization_promoted_bytes(), gc(s)?.promoted());
    "gc.suspend_share" Double "ratio" "Time to suspend the threads, relative to the pause."
        = |s| {
            let pause = gc(s)?.pause_ns.filter(|ns| *ns > 0)?;
            Some(Value::Double(gc(s)?.suspend_ns? as f64 / pause as f64))
        };
    "gc.phases.mark_sized_refs_ns" Int "ns" "Time to mark from sized references. Phases are unknown if the runtime does not report them."
        = |s| ns(gc(s)?.phases.mark_sized_refs);
    "gc.phases.mark_roots_ns" Int "ns" "Time to mark from roots."
        = |s| ns(gc(s)?.phases.mark_roots);
    "gc.phases.short_weak_ns" Int "ns" "Time to clear short weak references."
        = |s| ns(gc(s)?.phases.short_weak);
    "gc.phases.scan_finalization_ns" Int "ns" "Time to scan for finalization."
        = |s| ns(gc(s)?.phases.scan_finalization);
    "gc.phases.long_weak_ns" Int "ns" "Time to clear long weak references."
        = |s| ns(gc(s)?.phases.long_weak);
    "gc.phases.plan_ns" Int "ns" "Time to plan."
        = |s| ns(gc(s)?.phases.plan);
    "gc.phases.relocate_ns" Int "ns" "Time to relocate references."
        = |s| ns(gc(s)?.phases.relocate);
    "gc.phases.compact_ns" Int "ns" "Time to move objects."
        = |s| ns(gc(s)?.phases.compact);
    "gc.phases.sweep_ns" Int "ns" "Time to sweep."
        = |s| ns(gc(s)?.phases.sweep);
    "gc.mark_ns" Int "ns" "Total time to mark: from sized references and roots, weak references, finalization. Concurrent in a background collection."
        = |s| ns(gc(s)?.phases.marking());
    "gc.mark_ms" Double "ms" "The same in milliseconds."
        = |s| ms(gc(s)?.phases.marking());
    "gc.dominant" Text "" ["suspension", "mark_roots", "mark_other", "plan", "relocate", "compact", "sweep", "other"] "Largest part of a blocking pause: suspending the threads, a phase, or the remainder. Unknown for background collections, and if parts are unknown (.NET Core 3; compacting collections of .NET 8), unless a known part took at least half of the pause."
        = |s| dominant(gc(s)?).map(|(name, _)| Value::Text(name));
    "gc.dominant_share" Double "ratio" "Share of the pause of the part in `gc.dominant`, 0 to 1."
        = |s| dominant(gc(s)?).map(|(_, share)| Value::Double(share));
    "gc.missing" Texts "" "Missing parts of the collection: `start`, `end`, `heap_stats`, `suspension`, `global_history`, `per_heap_history`."
        = |s| Some(Value::Texts(Texts::Missing(gc(s)?.missing)));
    "gc.complete" Bool "" "Whether no part of the collection is missing."
        = |s| gc(s).map(|gc| Value::Bool(gc.is_complete()));
    "gc.lossy" Bool "" "Whether events were lost during the collection."
        = |s| gc(s).map(|gc| Value::Bool(gc.lossy));
    "gc.observed_by_others" Bool "" "Whether a session of another tool (dotnet-trace, dotnet-monitor, a profiler) was open in the process during the collection, or shortly before, which can lengthen the pause. Unknown if sessions cannot be observed, and in a recording."
        = |s| gc(s)?.observed_by_others.map(Value::Bool);
    "gc.throttled_ns" Int "ns" "Upper limit for the part of `gc.stopped.no_cpu_ns` caused by an exhausted CPU limit of the container. Unknown if `gc.stopped.no_cpu_ns` is unknown, and without a limit."
        = |s| ns(gc(s)?.cpu?.throttled_ns);
    "gc.throttled_ms" Double "ms" "The same in milliseconds."
        = |s| ms(gc(s)?.cpu?.throttled_ns);
    "gc.page_faults" Int "" "Number of times that the collecting thread needed a page from disk, such as swapped-out memory, around the stops of the collection. Unknown if `gc.stopped.no_cpu_ns` is unknown."
        = |s| bytes(gc(s)?.cpu?.page_faults);
    "gc.requested_by_tool" Bool "" "Whether a tool, not the program, requested the collection over the diagnostics socket for a heap dump. Known only for some of the collections with the reason Induced."
        = |s| gc(s)?.requested_by_tool.map(Value::Bool);
    "gc.requested_by_gcwatch" Bool "" "Whether gcwatch requested the collection for a heap dump of an incident (`evidence.census: on`). False in a recording."
        = |s| gc(s).map(|_| Value::Bool(s.stream.own_dump));
    "gc.requests_hit" Int "" "Number of requests that the collection stopped and that ended within `requests.wait` of it. Unknown unless `requests.mode` is on for the process, and in a recording."
        = |s| bytes(Some(gc(s)?.requests?.hit));
    "gc.request_time_lost_ns" Int "ns" "Total time that those requests lost to the collection."
        = |s| bytes(Some(gc(s)?.requests?.lost_ns));
    "gc.request_time_lost_ms" Double "ms" "The same in milliseconds."
        = |s| gc(s)?.requests.map(|impact| Value::Double(impact.lost_ns as f64 / 1e6));
    "gc.worst_request_lost_ns" Int "ns" "Longest time that a single request lost to the collection; unknown if the collection stopped no request."
        = |s| bytes(Some(gc(s)?.requests?.worst?.lost_ns));
    "gc.worst_request_lost_ms" Double "ms" "The same in milliseconds."
        = |s| gc(s)?.requests?.worst.map(|worst| Value::Double(worst.lost_ns as f64 / 1e6));
}

fields! { SUSPENSION_FIELDS Suspension
    "suspension.stopped_ns" Int "ns" "Duration of a suspension without a collection, from SuspendEEBegin to the restart."
        = |s| ns(s.suspension?.stopped_ns);
    "suspension.stopped_ms" Double "ms" "The same in milliseconds."
        = |s| ms(s.suspension?.stopped_ns);
    "suspension.suspend_ns" Int "ns" "Time to suspend the threads."
        = |s| ns(s.suspension?.suspend_ns);
    "suspension.suspend_ms" Double "ms" "The same in milliseconds."
        = |s| ms(s.suspension?.suspend_ns);
    "suspension.triggered" Bool "" "Whether a collection was requested during the suspension; false if a memory limit was refreshed."
        = |s| s.suspension.map(|suspension| Value::Bool(suspension.triggered));
    "suspension.reason" Text "" "Reason of the suspension."
        = |s| s.suspension?.reason.map(|reason: SuspendReason| Value::Text(reason.name().unwrap_or("Unknown")));
}

macro_rules! generation {
    ($($index:literal $name:literal $what:literal),+ $(,)?) => {
        /// Sizes by generation.
        pub(super) static HEAP_FIELDS: &[Field] = &[$(
            gc_field(concat!("gc.heap.", $name, ".before"), Type::Int, "bytes", concat!("Bytes in ", $what, " before the collection."),
                |s| bytes(gc(s)?.heap.get($index)?.before)),
            gc_field(concat!("gc.heap.", $name, ".after"), Type::Int, "bytes", concat!("Bytes in ", $what, " after the collection, including free space."),
                |s| bytes(gc(s)?.heap.get($index)?.after)),
            gc_field(concat!("gc.heap.", $name, ".promoted"), Type::Int, "bytes", concat!("Surviving bytes in ", $what, "; known only for collected generations."),
                |s| bytes(gc(s)?.heap.get($index)?.promoted)),
            gc_field(concat!("gc.heap.", $name, ".fragmentation"), Type::Int, "bytes", concat!("Free bytes inside ", $what, " after the collection."),
                |s| bytes(gc(s)?.heap.get($index)?.fragmentation)),
            gc_field(concat!("gc.heap.", $name, ".fragmentation_ratio"), Type::Double, "ratio", concat!("Free bytes inside ", $what, " after the collection, relative to its size."),
                |s| ratio(gc(s)?.heap.get($index)?.fragmentation, gc(s)?.heap.get($index)?.after)),
            gc_field(concat!("gc.heap.", $name, ".budget"), Type::Int, "bytes", concat!("Bytes that can be allocated in ", $what, " before the next collection."),
                |s| bytes(gc(s)?.heap.get($index)?.budget)),
            gc_field(concat!("gc.heap.", $name, ".survived"), Type::Int, "bytes", concat!("Surviving bytes in ", $what, ", pinned or not, from the per-heap histories."),
                |s| bytes(gc(s)?.heap.get($index)?.survived)),
            gc_field(concat!("gc.heap.", $name, ".survival_ratio"), Type::Double, "ratio", concat!("Surviving bytes in ", $what, ", relative to the bytes before the collection."),
                |s| survival(gc(s)?.heap.get($index)?)),
        )+];
    };
}

const fn gc_field(
    name: &'static str,
    kind: Type,
    unit: &'static str,
    description: &'static str,
    read: for<'a> fn(&Scope<'a>) -> Option<Value<'a>>,
) -> Field {
    Field {
        name,
        root: Root::Gc,
        kind,
        unit,
        description,
        words: &[],
        read,
    }
}

generation! {
    0 "gen0" "generation 0",
    1 "gen1" "generation 1",
    2 "gen2" "generation 2",
    3 "loh" "the large object heap",
    4 "poh" "the pinned object heap (.NET 5 and later)",
}

macro_rules! least {
    ($($name:literal $cause:ident;)+) => {
        /// Minimum values of the parts of the account that can have a range.
        pub(super) static MIN_FIELDS: &[Field] = &[$(
            gc_field(
                concat!("gc.stopped.", $name, "_low_ns"),
                Type::Int,
                "ns",
                concat!(
                    "Minimum of `gc.stopped.", $name, "_ns`. Lower than the value if the process does not separate the scan of roots ",
                    "from the marking of the objects reachable from them.",
                ),
                |s| {
                    let gc = gc(s)?;
                    gc.pause_ns?;
                    ns(gc.account().low(Cause::$cause))
                },
            ),
        )+];
    };
}

least! {
    "roots_stacks" Stacks;
    "roots_handles" Handles;
    "roots_dependent_handles" DependentHandles;
    "roots_sized_references" SizedReferences;
    "roots_old_to_young" OldToYoung;
    "roots_finalizer_queue" FinalizerQueue;
    "roots_background" BackgroundRoots;
    "survivors" Survivors;
    "relocate" Relocate;
}

macro_rules! stopped {
    ($($name:literal $cause:ident $what:literal;)+) => {
        /// Stopped time by cause: the account of stopped time, part by part.
        pub(super) static STOPPED_FIELDS: &[Field] = &[$(
            gc_field(concat!("gc.stopped.", $name, "_ns"), Type::Int, "ns", concat!($what, "."), |s| {
                stopped(gc(s)?, Cause::$cause)
            }),
        )+];

        /// Names of the parts in rule tests, in milliseconds and in nanoseconds, with their causes.
        pub static STOPPED_PARTS: &[(&str, &str, Cause)] = &[$(
            (concat!("stopped.", $name, "_ms"), concat!("stopped.", $name, "_ns"), Cause::$cause),
        )+];
    };
}

stopped! {
    "threads_slow" SlowThreads "Waiting until the last thread had stopped";
    "prepare" Prepare "Preparing the collection: choosing the generation and the number of heaps";
    "roots_stacks" Stacks "Scanning the stacks of threads, during marking and relocation";
    "roots_handles" Handles "Scanning GC handles, during marking and relocation";
    "roots_dependent_handles" DependentHandles "Scanning dependent handles (`ConditionalWeakTable`), during marking and relocation";
    "roots_sized_references" SizedReferences "Scanning sized references, during marking and relocation";
    "roots_old_to_young" OldToYoung "Scanning old objects for references to young objects, during marking and relocation";
    "roots_finalizer_queue" FinalizerQueue "Scanning the queue of finalizable objects, during marking and relocation";
    "roots_background" BackgroundRoots "Scanning the mark list of a background collection in progress, during marking and relocation";
    "roots_few" FewRoots "Scanning the few roots that every process has: the first 100 µs of each kind";
    "weak" Weak "Clearing weak references, and sync blocks of dead objects";
    "survivors" Survivors "Marking surviving objects";
    "plan" Plan "Planning the new location of surviving objects";
    "relocate" Relocate "Updating references in surviving objects";
    "compact" Compact "Moving objects";
    "sweep" Sweep "Sweeping";
    "pinned_gaps" PinnedGaps "Making free space between pinned objects usable";
    "finish" Finish "Work after the phases";
    "resume" Resume "Restarting the threads";
    "background_mark" BackgroundMark "Marking in the stops of a background collection; 0 for other collections";
    "tool_heap_dump" HeapDump "A heap dump that another tool requested, without the wait for threads; 0 for other collections";
    "tool_session" ToolSession "Additional time caused by a session of another tool: scanning GC handles, each of which emits an event for the session. Unknown if no collection without such a session was observed before, if sessions cannot be observed, and in a recording";
    "no_cpu" NoCpu "Time for which the collecting threads had no CPU or waited for a page from disk: an estimate from their delay in the kernel's run queue (`schedstat`). Read while stops are long, starting with the second long stop; otherwise unknown, and unknown in a recording";
    "unexplained" Unexplained "Time without a known cause";
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: the field table is compared with the causes of the account.
    /// Guarantee: each cause that a collection can have has a field with the name of the cause.
    #[test]
    fn each_cause_has_field_of_its_name() {
        let causes = Cause::ALL.into_iter().filter(|cause| *cause != Cause::NoCollection);
        let names = causes.map(|cause| format!("gc.stopped.{}_ns", cause.id().replace(['.', '-'], "_")));
        assert!(names.eq(STOPPED_FIELDS.iter().map(|field| field.name)));
    }

    /// Returns the phases of a sweeping collection with the given `mark_roots`.
    fn sweeping(mark_roots: i64) -> Phases {
        Phases {
            mark_sized_refs: Some(0),
            mark_roots: Some(mark_roots),
            short_weak: Some(1),
            scan_finalization: Some(3),
            long_weak: Some(1),
            plan: Some(10),
            sweep: Some(4),
            ..Phases::default()
        }
    }

    /// Scenario: in a pause of 100 ns, most time is spent on marking roots, on suspending threads, or outside all
    /// phases; in another pause, the compacting phase is unknown; in another, all phases are unknown.
    /// Guarantee: the largest part is named with its share. If parts are unknown, only a part of at least half of the
    /// pause is named, and never the remainder.
    #[test]
    fn dominant_part_of_pause_is_named() {
        let swept = |suspend, roots| largest_part(100, Some(suspend), &sweeping(roots), Some(false));
        assert_eq!(swept(2, 60), Some(("mark_roots", 0.6)));
        assert_eq!(swept(70, 9), Some(("suspension", 0.7)));
        assert_eq!(swept(1, 9), Some(("other", 0.71)));
        let moved = |relocate, compact, roots| {
            let phases = Phases {
                relocate,
                compact,
                sweep: None,
                ..sweeping(roots)
            };
            largest_part(100, Some(1), &phases, Some(true))
        };
        assert_eq!(moved(Some(7), Some(40), 9), Some(("compact", 0.4)));
        assert_eq!(moved(Some(7), None, 30), None);
        assert_eq!(moved(Some(7), None, 50), Some(("mark_roots", 0.5)));
        let blind = |suspend| largest_part(100, suspend, &Phases::default(), None);
        assert_eq!(blind(Some(90)), Some(("suspension", 0.9)));
        assert_eq!((blind(Some(40)), blind(None)), (None, None));
        assert_eq!(largest_part(0, Some(0), &sweeping(0), Some(false)), None);
    }
}
