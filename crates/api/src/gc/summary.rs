//! The record of what all collections of a process add up to, by generation and type and in all.

use clr_gc::gc::{Group, OtherStops, PauseQuantiles, Totals};
use gc_rules::account::AccountRecord;
use gc_rules::ledger::Ledger;
use serde::Serialize;

use crate::gc::{Subject, type_name};

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
#[serde(tag = "kind", rename = "summary")]
pub struct SummaryRecord {
    #[serde(flatten)]
    subject: Subject,
    observed_ns: i64,
    /// `null`, as the sums: the recording has no event of a collection, and nothing is known.
    count: Option<u64>,
    incomplete: u64,
    lossy: u64,
    pause_ns: Option<i64>,
    stopped_ns: Option<i64>,
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
    /// More was allocated: of some collections it is not known how much before them.
    allocated_lower_bound: bool,
    promoted: Option<u64>,
    groups: Vec<GroupRecord>,
    other_stops: Vec<OtherStopsRecord>,
    /// What it was stopped for.
    account: AccountRecord,
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
            subject,
            observed_ns,
            count: Some(totals.count),
            incomplete: totals.incomplete,
            lossy: totals.lossy,
            pause_ns: Some(totals.pause_ns()),
            stopped_ns: Some(totals.stopped_ns),
            stopped_share: share(totals.stopped_ns, observed_ns),
            lower_bounds: totals.has_unknown_pauses(),
            p50_ns: quantiles.map(|quantiles| quantiles.p50),
            p95_ns: quantiles.map(|quantiles| quantiles.p95),
            p99_ns: quantiles.map(|quantiles| quantiles.p99),
            max_ns: quantiles.map(|quantiles| quantiles.max),
            suspensions: totals.suspensions,
            suspensions_ns: totals.suspensions_ns,
            allocated: totals.allocated,
            allocated_lower_bound: totals.allocated_lower_bound,
            promoted: totals.promoted,
            groups: totals
                .groups
                .iter()
                .map(|group| GroupRecord::new(group, observed_ns))
                .collect(),
            other_stops: others.iter().map(other).collect(),
            account: AccountRecord::of_stopped_time(&totals.stopped, Some(observed_ns)),
            ledger: None,
        }
    }
}

impl SummaryRecord {
    /// The same of a recording without an event of a collection.
    #[must_use]
    pub fn known_if(mut self, has_gc_events: bool) -> Self {
        if !has_gc_events {
            (self.count, self.pause_ns, self.stopped_ns, self.stopped_share) = (None, None, None, None);
        }
        self
    }

    /// The same with where the heap's memory was at its end.
    #[must_use]
    pub fn with(mut self, ledger: Option<Ledger>) -> Self {
        self.ledger = ledger;
        self
    }
}
