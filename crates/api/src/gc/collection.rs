//! The record of one collection, with its pauses and its heap by generation.

use clr_gc::gc::{
    Account, AllocatedUnknown, Cause, Collection, Figure, GenerationSizes, HeapGeneration, Missing, PartKind, Pause,
};
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

use crate::event::hex;
use crate::gc::{Subject, type_name};

/// `kind: "gc"`: one collection.
#[derive(Debug)]
pub struct GcRecord<'a> {
    subject: Subject,
    collection: &'a Collection,
    start: Option<String>,
}

impl<'a> GcRecord<'a> {
    /// Creates the record of a collection. `start` is the time of its GCStart in RFC 3339; `None` if unknown.
    pub fn new(subject: Subject, collection: &'a Collection, start: Option<String>) -> Self {
        Self {
            subject,
            collection,
            start,
        }
    }
}

impl Serialize for GcRecord<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let gc = self.collection;
        let account = gc.account();
        let global = gc.global.as_ref();
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("kind", "gc")?;
        map.serialize_entry("pid", &self.subject.pid)?;
        map.serialize_entry("clr_instance", &self.subject.clr_instance)?;
        map.serialize_entry("number", &gc.number)?;
        map.serialize_entry("generation", &gc.generation)?;
        map.serialize_entry("type", &gc.gc_type.map(type_name))?;
        map.serialize_entry("became_blocking", &gc.became_blocking)?;
        map.serialize_entry("reason", &gc.reason.map(|reason| reason.to_string()))?;
        map.serialize_entry("trigger", &gc.trigger.map(|reason| reason.to_string()))?;
        map.serialize_entry("start_offset_ns", &gc.start)?;
        map.serialize_entry("start", &self.start)?;
        map.serialize_entry("duration_ns", &gc.duration_ns())?;
        map.serialize_entry("pause_ns", &gc.pause_ns)?;
        map.serialize_entry("suspend_ns", &gc.suspend_ns)?;
        map.serialize_entry("pauses", &gc.pauses.iter().map(PauseRecord).collect::<Vec<_>>())?;
        let generations = HeapGeneration::ALL.into_iter().zip(&gc.heap);
        let heap = generations.map(|(generation, of)| (generation.name(), Entries(sizes(of))));
        map.serialize_entry("heap", &Entries(heap))?;
        map.serialize_entry("heap_before", &gc.heap_before())?;
        map.serialize_entry("heap_after", &gc.heap_after())?;
        map.serialize_entry("promoted", &gc.promoted())?;
        let stats = gc.heap_stats.as_ref();
        map.serialize_entry("pinned_objects", &stats.map(|stats| stats.pinned_object_count))?;
        map.serialize_entry("sync_blocks", &gc.sync_blocks())?;
        map.serialize_entry("gc_handles", &gc.handles())?;
        map.serialize_entry("finalization_promoted_bytes", &gc.finalization_promoted_bytes())?;
        map.serialize_entry("finalization_promoted_count", &gc.finalization_promoted_count())?;
        map.serialize_entry("heap_count", &global.map(|global| global.heap_count))?;
        map.serialize_entry("memory_load_percent", &gc.memory_load_percent())?;
        map.serialize_entry("pause_mode", &global.map(|global| global.pause_mode.to_string()))?;
        map.serialize_entry("compacting", &gc.is_compacting())?;
        let condemned = global.and_then(|global| global.condemn_reasons1);
        let condemned = condemned.map(|reasons| reasons.names().collect::<Vec<_>>());
        map.serialize_entry("condemned_reasons", &condemned)?;
        map.serialize_entry("phases", &Entries(gc.phases.named()))?;
        let committed = &gc.committed;
        let by_part = [
            ("before", committed.before),
            ("after", committed.after),
            ("bookkeeping", committed.bookkeeping),
        ];
        map.serialize_entry("committed", &Entries(by_part))?;
        // All memory committed for objects, in use or kept: `GCMemoryInfo.TotalCommittedBytes`.
        let total = [("before", committed.total_before()), ("after", committed.total_after())];
        map.serialize_entry("committed_total", &Entries(total))?;
        map.serialize_entry("largest_heap_survived", &gc.largest_heap_survived)?;
        map.serialize_entry("throughput_cost_percent", &gc.throughput_cost_percent)?;
        // Stopped time by cause in nanoseconds; the parts add up to the pause. Parts of 0 are omitted. Null means that
        // the part is unknown; its time is included in the unexplained time.
        map.serialize_entry("account", &Entries(parts(&account)))?;
        // Causes whose part is estimated.
        let estimated = account.parts().filter(|part| part.kind == PartKind::Estimated);
        let estimated: Vec<_> = estimated.map(|part| part.cause.id()).collect();
        map.serialize_entry("account_estimated", &estimated)?;
        // Minimum and maximum nanoseconds of the parts that have a range.
        let ranged = account.parts().filter(|part| part.low < part.ns || part.ns < part.high);
        let ranges = ranged.map(|part| (part.cause.id(), [part.low, part.high]));
        map.serialize_entry("account_ranges", &Entries(ranges.collect::<Vec<_>>()))?;
        map.serialize_entry("asked_by", gc.asker().id())?;
        map.serialize_entry("allocated_since_last", &gc.allocated_since_last())?;
        // Reason why the allocation is unknown (null if it is known): `first`, `loss`, `missing_history`, `sweep`,
        // `contradiction`.
        map.serialize_entry("allocated_unknown", &gc.allocated.err().map(AllocatedUnknown::name))?;
        // Whether part of the allocation is an estimate that is usually too low.
        let lower_bound = gc.allocated.is_ok_and(|allocated| allocated.at_least);
        map.serialize_entry("allocated_lower_bound", &lower_bound)?;
        map.serialize_entry("missing", &gc.missing.iter().map(Missing::name).collect::<Vec<_>>())?;
        // Names of impossible figures, which are null in this record.
        let implausible: Vec<_> = gc.implausible.iter().map(Figure::name).collect();
        map.serialize_entry("implausible", &implausible)?;
        map.serialize_entry("complete", &gc.is_complete())?;
        map.serialize_entry("lossy", &gc.lossy)?;
        map.serialize_entry("observed_by_others", &gc.observed_by_others)?;
        map.serialize_entry("requested_by_tool", &gc.requested_by_tool)?;
        map.serialize_entry("thread_created", &gc.thread_created)?;
        map.serialize_entry("requests_hit", &gc.requests.map(|impact| impact.hit))?;
        map.serialize_entry("request_time_lost_ns", &gc.requests.map(|impact| impact.lost_ns))?;
        // The request that lost the most time.
        let worst = gc.requests.and_then(|impact| impact.worst);
        let worst = worst.map(|worst| WorstRequestRecord {
            trace_id: worst.trace_id.map(|id| hex(&id)),
            span_id: worst.span_id.map(|id| hex(&id)),
            lost_ns: worst.lost_ns,
        });
        map.serialize_entry("worst_request", &worst)?;
        map.end()
    }
}

/// Names and values that are serialized as an object.
struct Entries<I>(I);

impl<V: Serialize, I: Clone + IntoIterator<Item = (&'static str, V)>> Serialize for Entries<I> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.clone())
    }
}

fn sizes(of: &GenerationSizes) -> [(&'static str, Option<u64>); 6] {
    [
        ("before", of.before),
        ("after", of.after),
        ("promoted", of.promoted),
        ("fragmentation", of.fragmentation),
        ("budget", of.budget),
        ("survived", of.survived),
    ]
}

fn parts(account: &Account) -> impl Clone + Iterator<Item = (&'static str, Option<i64>)> {
    // A cause that no event shows is omitted if its part is unknown, which is always the case in a recording.
    let said = |(cause, ns): &(Cause, Option<i64>)| match cause.is_seen_in_events() {
        true => *ns != Some(0),
        false => ns.is_some(),
    };
    let parts = Cause::ALL.into_iter().map(|cause| (cause, account.get(cause)));
    parts.filter(said).map(|(cause, ns)| (cause.id(), ns))
}

/// The record of one pause: the collection's share of one suspension.
struct PauseRecord<'a>(&'a Pause);

impl Serialize for PauseRecord<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let pause = self.0;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("start_offset_ns", &pause.start)?;
        map.serialize_entry("suspend_ns", &pause.suspend_ns)?;
        map.serialize_entry("pause_ns", &pause.pause_ns)?;
        map.serialize_entry("stopped_ns", &pause.stopped_ns)?;
        map.serialize_entry("shared_with", &pause.shared_with)?;
        map.serialize_entry("kind", pause.kind.name())?;
        map.end()
    }
}

/// The request that lost the most time in a collection.
#[derive(Serialize)]
struct WorstRequestRecord {
    trace_id: Option<String>,
    span_id: Option<String>,
    lost_ns: u64,
}
