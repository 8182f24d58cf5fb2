//! The record of one collection, with its pauses and its heap by generation.

use clr_gc::event::GcReason;
use clr_gc::gc::{
    Account, AllocatedUnknown, Cause, Collection, Committed, Figure, GenerationSizes, HeapGeneration, Missing,
    PartKind, Pause, Phases,
};
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

use crate::gc::{Subject, type_name};
use crate::request::hex;

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
    /// All that is committed for objects, in use or kept: `GCMemoryInfo.TotalCommittedBytes`.
    #[serde(serialize_with = "committed_total")]
    committed_total: Committed,
    largest_heap_survived: Option<u64>,
    throughput_cost_percent: Option<f32>,
    /// What its stops were spent on, nanoseconds by cause: these add up to its pause. Parts of 0 are left out; null:
    /// not known, and in what is unexplained.
    #[serde(serialize_with = "account")]
    account: Account,
    /// Of these, those that are estimated.
    account_estimated: Vec<&'static str>,
    /// Who asked for it.
    asked_by: &'static str,
    allocated_since_last: Option<u64>,
    /// Why that is not known: `first`, `loss`, `missing_history`, `sweep`, `contradiction`.
    allocated_unknown: Option<&'static str>,
    /// A part of it is an estimate that is mostly too low.
    allocated_lower_bound: bool,
    missing: Vec<&'static str>,
    /// Figures that cannot be, by their names here: they are null.
    implausible: Vec<&'static str>,
    complete: bool,
    lossy: bool,
    observed_by_others: Option<bool>,
    requested_by_tool: Option<bool>,
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

fn account<S: Serializer>(account: &Account, serializer: S) -> Result<S::Ok, S::Error> {
    // Of what events do not show, nothing is said where it is not known, as in a recording.
    let said = |cause: &Cause| {
        let ns = account.of(*cause);
        if cause.is_seen_in_events() {
            ns != Some(0)
        } else {
            ns.is_some()
        }
    };
    let parts = Cause::ALL.into_iter().filter(said);
    serializer.collect_map(parts.map(|cause| (cause.id(), account.of(cause))))
}

fn estimated(account: &Account) -> Vec<&'static str> {
    let parts = account.parts().filter(|part| part.kind == PartKind::Estimated);
    parts.map(|part| part.cause.id()).collect()
}

fn committed<S: Serializer>(committed: &Committed, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map([
        ("before", committed.before),
        ("after", committed.after),
        ("bookkeeping", committed.bookkeeping),
    ])
}

fn committed_total<S: Serializer>(committed: &Committed, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map([("before", committed.total_before()), ("after", committed.total_after())])
}

impl<'a> GcRecord<'a> {
    /// The record of a collection; `start` is its GCStart as RFC 3339.
    pub fn new(subject: Subject, collection: &'a Collection, start: Option<String>) -> Self {
        let account = collection.account();
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
            sync_blocks: collection.sync_blocks(),
            gc_handles: collection.handles(),
            finalization_promoted_bytes: collection.finalization_promoted_bytes(),
            finalization_promoted_count: collection.finalization_promoted_count(),
            heap_count: global.map(|global| global.heap_count),
            memory_load_percent: collection.memory_load_percent(),
            pause_mode: global.map(|global| global.pause_mode.to_string()),
            compacting: collection.is_compacting(),
            condemned_reasons: global
                .and_then(|global| global.condemn_reasons1)
                .map(|reasons| reasons.names().collect()),
            phases: collection.phases,
            committed: collection.committed,
            committed_total: collection.committed,
            largest_heap_survived: collection.largest_heap_survived,
            throughput_cost_percent: collection.throughput_cost_percent,
            account_estimated: estimated(&account),
            account,
            asked_by: collection.asker().id(),
            allocated_since_last: collection.allocated_since_last(),
            allocated_unknown: collection.allocated.err().map(AllocatedUnknown::name),
            allocated_lower_bound: collection.allocated.is_ok_and(|allocated| allocated.at_least),
            implausible: collection.implausible.iter().map(Figure::name).collect(),
            missing: collection.missing.iter().map(Missing::name).collect(),
            complete: collection.is_complete(),
            lossy: collection.lossy,
            observed_by_others: collection.observed_by_others,
            requested_by_tool: collection.requested_by_tool,
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
