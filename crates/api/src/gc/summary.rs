//! The record with the totals of all collections of a process, by generation and type and overall.

use clr_gc::gc::{Group, OtherStops, PauseQuantiles, Totals};
use rule_engine::account::AccountRecord;
use rule_engine::ledger::Ledger;
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

use crate::gc::{Subject, type_name};

/// Returns the share of `part_ns` in the observed time, or `None` if no time was observed.
pub fn share(part_ns: i64, observed_ns: i64) -> Option<f64> {
    (observed_ns > 0).then(|| part_ns as f64 / observed_ns as f64)
}

/// `kind: "summary"`: totals of all collections of a process.
#[derive(Debug)]
pub struct SummaryRecord<'a> {
    /// The process and runtime.
    pub subject: Subject,
    /// Totals of the collections.
    pub totals: &'a Totals,
    /// Stops for reasons other than the GC.
    pub others: &'a [OtherStops],
    /// Observed time in nanoseconds.
    pub observed_ns: i64,
    /// Memory ledger of the heap after the newest collection; `None` if unknown.
    pub ledger: Option<Ledger>,
    /// Whether the recording contains events of collections or the runtime. Without such events, the number of
    /// collections, the pause and the stopped time are unknown.
    pub is_known: bool,
}

impl Serialize for SummaryRecord<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (totals, observed_ns, is_known) = (self.totals, self.observed_ns, self.is_known);
        let stopped_share = share(totals.stopped_ns, observed_ns).filter(|_| is_known);
        let groups = totals.groups.iter().map(|group| GroupRecord { group, observed_ns });
        let others = self.others.iter().map(OtherStopsRecord::from);
        let account = AccountRecord::from_stopped_time(&totals.stopped, Some(observed_ns));
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("kind", "summary")?;
        map.serialize_entry("pid", &self.subject.pid)?;
        map.serialize_entry("clr_instance", &self.subject.clr_instance)?;
        map.serialize_entry("observed_ns", &observed_ns)?;
        map.serialize_entry("count", &is_known.then_some(totals.count))?;
        map.serialize_entry("incomplete", &totals.incomplete)?;
        map.serialize_entry("lossy", &totals.lossy)?;
        map.serialize_entry("pause_ns", &is_known.then(|| totals.pause_ns()))?;
        map.serialize_entry("stopped_ns", &is_known.then_some(totals.stopped_ns))?;
        map.serialize_entry("stopped_share", &stopped_share)?;
        // Whether the length of at least one suspension is unknown. The sums and the share are then lower bounds.
        map.serialize_entry("lower_bounds", &totals.has_unknown_pauses())?;
        quantiles(&mut map, totals.quantiles())?;
        map.serialize_entry("suspensions", &totals.suspensions)?;
        map.serialize_entry("suspensions_ns", &totals.suspensions_ns)?;
        map.serialize_entry("allocated", &totals.allocated)?;
        // Whether the true allocation is higher, because the allocation before some collections is unknown.
        map.serialize_entry("allocated_lower_bound", &totals.allocated_lower_bound)?;
        map.serialize_entry("promoted", &totals.promoted)?;
        map.serialize_entry("groups", &groups.collect::<Vec<_>>())?;
        map.serialize_entry("other_stops", &others.collect::<Vec<_>>())?;
        // Stopped time by cause.
        map.serialize_entry("account", &account)?;
        map.serialize_entry("ledger", &self.ledger)?;
        map.end()
    }
}

fn quantiles<M: SerializeMap>(map: &mut M, quantiles: Option<PauseQuantiles>) -> Result<(), M::Error> {
    map.serialize_entry("p50_ns", &quantiles.map(|quantiles| quantiles.p50))?;
    map.serialize_entry("p95_ns", &quantiles.map(|quantiles| quantiles.p95))?;
    map.serialize_entry("p99_ns", &quantiles.map(|quantiles| quantiles.p99))?;
    map.serialize_entry("max_ns", &quantiles.map(|quantiles| quantiles.max))
}

/// Pauses of the collections of one generation and type.
struct GroupRecord<'a> {
    group: &'a Group,
    observed_ns: i64,
}

impl Serialize for GroupRecord<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let group = self.group;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("generation", &group.generation)?;
        map.serialize_entry("type", &group.gc_type.map(type_name))?;
        map.serialize_entry("count", &group.count)?;
        map.serialize_entry("unknown_pauses", &group.unknown_pauses)?;
        map.serialize_entry("pause_ns", &group.pause_ns)?;
        quantiles(&mut map, group.quantiles())?;
        map.serialize_entry("share", &share(group.pause_ns, self.observed_ns))?;
        map.end()
    }
}

#[derive(Serialize)]
struct OtherStopsRecord {
    reason: String,
    count: u64,
    stopped_ns: i64,
}

impl From<&OtherStops> for OtherStopsRecord {
    fn from(other: &OtherStops) -> Self {
        Self {
            reason: other.reason.to_string(),
            count: other.count,
            stopped_ns: other.stopped_ns,
        }
    }
}
