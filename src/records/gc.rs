//! Records of collections, suspensions, summaries and streams. Their names are a contract: they stay, new ones may be
//! added.
//!
//! Sizes in bytes, durations in integer nanoseconds. Unknown values are `null`: never 0, never omitted.

use clr_gc::event::{GcReason, GcType};
use clr_gc::gc::{
    Collection, Committed, GenerationSizes, Group, HeapGeneration, Missing, OtherStops, Pause, PauseQuantiles, Phases,
    Suspension, Totals,
};
use gc_rules::ledger::Ledger;
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

use crate::records::request::hex;

/// The runtime in a process that a record is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Subject {
    /// The pid that the stream names: the target's own.
    pub pid: Option<u64>,
    /// Which runtime of the process.
    pub clr_instance: Option<u16>,
}

/// `kind: "gc"`: one collection.
#[derive(Debug, Serialize)]
pub struct GcRecord<'a> {
    kind: &'static str,
    #[serde(flatten)]
    subject: Subject,
    number: u32,
    generation: Option<u32>,
    #[serde(rename = "type")]
    gc_type: Option<String>,
    became_blocking: bool,
    reason: Option<String>,
    trigger: Option<String>,
    start_offset_ns: Option<i64>,
    start: Option<String>,
    duration_ns: Option<i64>,
    pause_ns: Option<i64>,
    suspend_ns: Option<i64>,
    pauses: Vec<PauseRecord<'a>>,
    heap: HeapRecord<'a>,
    heap_before: Option<u64>,
    heap_after: Option<u64>,
    promoted: Option<u64>,
    pinned_objects: Option<u32>,
    sync_blocks: Option<u32>,
    gc_handles: Option<u32>,
    finalization_promoted_bytes: Option<u64>,
    finalization_promoted_count: Option<u64>,
    heap_count: Option<u32>,
    memory_load_percent: Option<u32>,
    pause_mode: Option<String>,
    compacting: Option<bool>,
    condemned_reasons: Option<Vec<&'static str>>,
    #[serde(serialize_with = "phases")]
    phases: Phases,
    #[serde(serialize_with = "committed")]
    committed: Committed,
    largest_heap_survived: Option<u64>,
    throughput_cost_percent: Option<f32>,
    allocated_since_last: Option<u64>,
    missing: Vec<&'static str>,
    complete: bool,
    lossy: bool,
    observed_by_others: Option<bool>,
    thread_created: bool,
    requests_hit: Option<u64>,
    request_time_lost_ns: Option<u64>,
    worst_request: Option<WorstRequestRecord>,
}

/// The request that a collection cost most.
#[derive(Debug, Serialize)]
struct WorstRequestRecord {
    trace_id: Option<String>,
    span_id: Option<String>,
    lost_ns: u64,
}

/// One suspension, from the view of the collection.
#[derive(Debug, Serialize)]
struct PauseRecord<'a> {
    start_offset_ns: Option<i64>,
    suspend_ns: Option<i64>,
    pause_ns: Option<i64>,
    stopped_ns: Option<i64>,
    shared_with: &'a [u32],
    kind: &'static str,
}

impl<'a> From<&'a Pause> for PauseRecord<'a> {
    fn from(pause: &'a Pause) -> Self {
        Self {
            start_offset_ns: pause.start,
            suspend_ns: pause.suspend_ns,
            pause_ns: pause.pause_ns,
            stopped_ns: pause.stopped_ns,
            shared_with: &pause.shared_with,
            kind: pause.kind.name(),
        }
    }
}

#[derive(Debug)]
struct HeapRecord<'a>(&'a [GenerationSizes; 5]);

impl Serialize for HeapRecord<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Sizes {
            before: Option<u64>,
            after: Option<u64>,
            promoted: Option<u64>,
            fragmentation: Option<u64>,
            budget: Option<u64>,
            survived: Option<u64>,
        }
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (generation, sizes) in HeapGeneration::ALL.into_iter().zip(self.0) {
            let GenerationSizes {
                before,
                after,
                promoted,
                fragmentation,
                budget,
                survived,
            } = *sizes;
            let sizes = Sizes {
                before,
                after,
                promoted,
                fragmentation,
                budget,
                survived,
            };
            map.serialize_entry(generation.name(), &sizes)?;
        }
        map.end()
    }
}

fn phases<S: Serializer>(phases: &Phases, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(phases.named())
}

fn committed<S: Serializer>(committed: &Committed, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map([
        ("before", committed.before),
        ("after", committed.after),
        ("bookkeeping", committed.bookkeeping),
    ])
}

/// `blocking`, `background`, `foreground`; an unknown number as text.
pub fn type_name(gc_type: GcType) -> String {
    match gc_type {
        GcType::BLOCKING => "blocking".to_owned(),
        GcType::BACKGROUND => "background".to_owned(),
        GcType::FOREGROUND => "foreground".to_owned(),
        GcType(other) => format!("Unknown({other})"),
    }
}

impl<'a> GcRecord<'a> {
    /// The record of a collection; `start` is its GCStart as RFC 3339.
    pub fn new(subject: Subject, collection: &'a Collection, start: Option<String>) -> Self {
        let stats = collection.heap_stats.as_ref();
        let global = collection.global.as_ref();
        let reason = |reason: GcReason| reason.to_string();
        Self {
            kind: "gc",
            subject,
            number: collection.number,
            generation: collection.generation,
            gc_type: collection.gc_type.map(type_name),
            became_blocking: collection.became_blocking,
            reason: collection.reason.map(reason),
            trigger: collection.trigger.map(reason),
            start_offset_ns: collection.start,
            start,
            duration_ns: collection.duration_ns(),
            pause_ns: collection.pause_ns,
            suspend_ns: collection.suspend_ns,
            pauses: collection.pauses.iter().map(PauseRecord::from).collect(),
            heap: HeapRecord(&collection.heap),
            heap_before: collection.heap_before(),
            heap_after: collection.heap_after(),
            promoted: collection.promoted(),
            pinned_objects: stats.map(|stats| stats.pinned_object_count),
            sync_blocks: stats.map(|stats| stats.sink_block_count),
            gc_handles: stats.map(|stats| stats.gc_handle_count),
            finalization_promoted_bytes: stats.map(|stats| stats.finalization_promoted_size),
            finalization_promoted_count: stats.map(|stats| stats.finalization_promoted_count),
            heap_count: global.map(|global| global.heap_count),
            memory_load_percent: global.map(|global| global.memory_load_percent),
            pause_mode: global.map(|global| global.pause_mode.to_string()),
            compacting: collection.is_compacting(),
            condemned_reasons: global
                .and_then(|global| global.condemn_reasons1)
                .map(|reasons| reasons.names().collect()),
            phases: collection.phases,
            committed: collection.committed,
            largest_heap_survived: collection.largest_heap_survived,
            throughput_cost_percent: collection.throughput_cost_percent,
            allocated_since_last: collection.allocated_since_last,
            missing: collection.missing.iter().map(Missing::name).collect(),
            complete: collection.is_complete(),
            lossy: collection.lossy,
            observed_by_others: collection.observed_by_others,
            thread_created: collection.thread_created,
            requests_hit: collection.requests.map(|impact| impact.hit),
            request_time_lost_ns: collection.requests.map(|impact| impact.lost_ns),
            worst_request: collection
                .requests
                .and_then(|impact| impact.worst)
                .map(|worst| WorstRequestRecord {
                    trace_id: worst.trace_id.map(|id| hex(&id)),
                    span_id: worst.span_id.map(|id| hex(&id)),
                    lost_ns: worst.lost_ns,
                }),
        }
    }
}

/// `kind: "suspension"`: a suspension for the GC in which no collection ran.
#[derive(Debug, Serialize)]
pub struct SuspensionRecord {
    kind: &'static str,
    #[serde(flatten)]
    subject: Subject,
    reason: Option<String>,
    start_offset_ns: Option<i64>,
    suspend_ns: Option<i64>,
    stopped_ns: Option<i64>,
    triggered: bool,
}

impl SuspensionRecord {
    /// The record of a suspension without a collection.
    pub fn new(subject: Subject, suspension: &Suspension) -> Self {
        Self {
            kind: "suspension",
            subject,
            reason: suspension.reason.map(|reason| reason.to_string()),
            start_offset_ns: suspension.edges.suspend_begin,
            suspend_ns: suspension.suspend_ns,
            stopped_ns: suspension.stopped_ns,
            triggered: suspension.triggered,
        }
    }
}

/// Pauses of one generation and type, or of all.
#[derive(Debug, Serialize)]
pub struct GroupRecord {
    generation: Option<u32>,
    #[serde(rename = "type")]
    gc_type: Option<String>,
    count: u64,
    unknown_pauses: u64,
    pause_ns: i64,
    p50_ns: Option<i64>,
    p95_ns: Option<i64>,
    p99_ns: Option<i64>,
    max_ns: Option<i64>,
    /// Of the time observed, 0 to 1.
    share: Option<f64>,
}

impl GroupRecord {
    fn new(group: &Group, observed_ns: i64) -> Self {
        let quantiles = group.quantiles();
        Self {
            generation: group.generation,
            gc_type: group.gc_type.map(type_name),
            count: group.count,
            unknown_pauses: group.unknown_pauses,
            pause_ns: group.pause_ns,
            p50_ns: quantiles.map(|quantiles| quantiles.p50),
            p95_ns: quantiles.map(|quantiles| quantiles.p95),
            p99_ns: quantiles.map(|quantiles| quantiles.p99),
            max_ns: quantiles.map(|quantiles| quantiles.max),
            share: share(group.pause_ns, observed_ns),
        }
    }
}

/// A part of the time observed; `None` when no time was.
pub fn share(part_ns: i64, observed_ns: i64) -> Option<f64> {
    (observed_ns > 0).then(|| part_ns as f64 / observed_ns as f64)
}

#[derive(Debug, Serialize)]
struct OtherStopsRecord {
    reason: String,
    count: u64,
    stopped_ns: i64,
}

/// `kind: "summary"`: totals of all collections of a process.
#[derive(Debug, Serialize)]
pub struct SummaryRecord {
    kind: &'static str,
    #[serde(flatten)]
    subject: Subject,
    observed_ns: i64,
    count: u64,
    incomplete: u64,
    lossy: u64,
    pause_ns: i64,
    stopped_ns: i64,
    stopped_share: Option<f64>,
    /// The length of a suspension is unknown: the sums and the share are lower bounds.
    lower_bounds: bool,
    p50_ns: Option<i64>,
    p95_ns: Option<i64>,
    p99_ns: Option<i64>,
    max_ns: Option<i64>,
    suspensions: u64,
    suspensions_ns: i64,
    allocated: Option<u64>,
    promoted: Option<u64>,
    groups: Vec<GroupRecord>,
    other_stops: Vec<OtherStopsRecord>,
    /// Where the heap's memory was after the newest collection.
    ledger: Option<Ledger>,
}

impl SummaryRecord {
    /// The record of a process that was observed for `observed_ns`.
    pub fn new(subject: Subject, totals: &Totals, others: &[OtherStops], observed_ns: i64) -> Self {
        let quantiles: Option<PauseQuantiles> = totals.quantiles();
        let other = |other: &OtherStops| OtherStopsRecord {
            reason: other.reason.to_string(),
            count: other.count,
            stopped_ns: other.stopped_ns,
        };
        Self {
            kind: "summary",
            subject,
            observed_ns,
            count: totals.count,
            incomplete: totals.incomplete,
            lossy: totals.lossy,
            pause_ns: totals.pause_ns(),
            stopped_ns: totals.stopped_ns,
            stopped_share: share(totals.stopped_ns, observed_ns),
            lower_bounds: totals.has_unknown_pauses(),
            p50_ns: quantiles.map(|quantiles| quantiles.p50),
            p95_ns: quantiles.map(|quantiles| quantiles.p95),
            p99_ns: quantiles.map(|quantiles| quantiles.p99),
            max_ns: quantiles.map(|quantiles| quantiles.max),
            suspensions: totals.suspensions,
            suspensions_ns: totals.suspensions_ns,
            allocated: totals.allocated,
            promoted: totals.promoted,
            groups: totals
                .groups
                .iter()
                .map(|group| GroupRecord::new(group, observed_ns))
                .collect(),
            other_stops: others.iter().map(other).collect(),
            ledger: None,
        }
    }
}

impl SummaryRecord {
    /// The same with where the heap's memory was at its end.
    #[must_use]
    pub fn with(mut self, ledger: Option<Ledger>) -> Self {
        self.ledger = ledger;
        self
    }
}

/// `kind: "stream"`: the recording itself; the last record of each.
#[derive(Debug, Serialize)]
pub struct StreamRecord {
    kind: &'static str,
    /// As named on the command line.
    pub file: String,
    /// Event blobs in it.
    pub events: u64,
    /// Events that the writer dropped; `None` without sequence numbers.
    pub lost_events: Option<u64>,
    /// Collections reported.
    pub gcs: u64,
    /// Length of the stream, unpacked.
    pub bytes: u64,
    /// The end tag was read.
    pub clean_end: bool,
    /// Bytes of a pointer of the traced process.
    pub pointer_size: Option<u8>,
    /// Version of the runtime.
    pub runtime: Option<String>,
    /// First to last event.
    pub duration_ns: Option<i64>,
    /// The clock of the traced machine (Linux: CLOCK_MONOTONIC) at the sync point, to which all offsets refer, ticks.
    pub sync_ticks: Option<i64>,
    /// Ticks a second.
    pub tick_frequency: Option<i64>,
    /// Events of known kinds whose payload could not be decoded.
    pub undecodable: u64,
}

impl StreamRecord {
    /// An empty record of this file.
    pub fn new(file: String) -> Self {
        Self {
            kind: "stream",
            file,
            events: 0,
            lost_events: None,
            gcs: 0,
            bytes: 0,
            clean_end: false,
            pointer_size: None,
            runtime: None,
            duration_ns: None,
            sync_ticks: None,
            tick_frequency: None,
            undecodable: 0,
        }
    }
}
