//! Record of a process's stopped time, divided into parts that add up to the total.
//!
//! ```text
//! total = parts + unexplained          by cause
//!       = asked_by                     by requester
//! ```
//!
//! Field names and the ids of causes and requesters are a contract. See [`clr_gc::gc::Cause`] for their meaning.

use clr_gc::gc::{Asker, Cause, StoppedTime};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Stopped time of a process by cause. Parts of 0 ns are omitted; the largest part comes first.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AccountRecord {
    /// The quantity that is divided: `stopped-time`.
    pub of: String,
    /// Unit of the quantity: `ns`.
    pub unit: String,
    /// Total stopped time, in nanoseconds.
    pub total: i64,
    /// Duration of the observed period, in nanoseconds; null if unknown.
    pub over_ns: Option<i64>,
    /// Whether the total is a lower bound because the duration of a stop is unknown.
    pub lower_bound: bool,
    /// Parts by cause. Together with `unexplained`, they add up to the total.
    pub parts: Vec<AccountPart>,
    /// Stopped time without a known cause, in nanoseconds.
    pub unexplained: i64,
    /// Parts by requester, which add up to the total.
    pub asked_by: Vec<AskedPart>,
}

/// A part of the stopped time, by cause.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AccountPart {
    /// Id of the cause: `roots.stacks`.
    pub cause: String,
    /// Human-readable name of the cause.
    pub title: String,
    /// Stopped time in nanoseconds.
    pub value: i64,
    /// Minimum stopped time, in nanoseconds. Lower than `value` if the process does not separate this part from another
    /// part.
    #[serde(default)]
    pub low: i64,
    /// Maximum stopped time, in nanoseconds.
    #[serde(default)]
    pub high: i64,
    /// Share of the total, 0 to 1.
    pub share: f64,
    /// Origin of the value: `measured`, or `estimated` if the value was computed from a proportion or from the
    /// remainder of a phase.
    pub kind: String,
}

/// A part of the stopped time, by requester.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AskedPart {
    /// Id of the requester: `allocation.small`.
    pub asker: String,
    /// Human-readable name of the requester.
    pub title: String,
    /// Stopped time in nanoseconds.
    pub value: i64,
    /// Share of the total, 0 to 1.
    pub share: f64,
}

/// Minimum width of a range that is displayed, as a share of the total.
const MIN_SHOWN: f64 = 0.02;

impl AccountPart {
    /// Returns the minimum and maximum share of `total`, 0 to 1, or `None` if they differ by less than 2 % of `total`.
    pub fn range(&self, total: i64) -> Option<(f64, f64)> {
        let share = |ns: i64| ns as f64 / total.max(1) as f64;
        let (low, high) = (share(self.low), share(self.high));
        (high - low >= MIN_SHOWN).then_some((low, high))
    }
}

impl AccountRecord {
    /// Creates the account of the stopped time in a period of `over_ns` nanoseconds.
    pub fn from_stopped_time(stopped: &StoppedTime, over_ns: Option<i64>) -> Self {
        let total = stopped.total();
        let share = |ns: i64| if total > 0 { ns as f64 / total as f64 } else { 0.0 };
        let largest = stopped.parts().largest_first().into_iter();
        let parts = largest.filter(|part| part.cause != Cause::Unexplained);
        let mut askers: Vec<(Asker, i64)> = Asker::ALL.map(|asker| (asker, stopped.asked_by(asker))).into();
        askers.retain(|(_, ns)| *ns > 0);
        askers.sort_by_key(|(_, ns)| -ns);
        Self {
            of: "stopped-time".to_owned(),
            unit: "ns".to_owned(),
            total,
            over_ns,
            lower_bound: stopped.unknown() > 0,
            parts: parts
                .map(|part| AccountPart {
                    cause: part.cause.id().to_owned(),
                    title: part.cause.title().to_owned(),
                    value: part.ns,
                    low: part.low,
                    high: part.high.min(total),
                    share: share(part.ns),
                    kind: part.kind.name().to_owned(),
                })
                .collect(),
            unexplained: stopped.unexplained(),
            asked_by: askers
                .into_iter()
                .map(|(asker, ns)| AskedPart {
                    asker: asker.id().to_owned(),
                    title: asker.title().to_owned(),
                    value: ns,
                    share: share(ns),
                })
                .collect(),
        }
    }
}
