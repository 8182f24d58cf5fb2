//! The account of stopped time as a record: what a process was stopped for, in parts that add up.
//!
//! ```text
//! total = parts + unexplained          by what it was spent on
//!       = asked_by                     by who asked for it
//! ```
//!
//! The names of its fields and the ids of causes and askers are a contract. See [`clr_gc::gc::Cause`] for what each is.

use clr_gc::gc::{Asker, Cause, StoppedTime};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a process was stopped for. Parts that took nothing are left out; the largest are first.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AccountRecord {
    /// What is divided: `stopped-time`.
    pub of: String,
    /// Its unit: `ns`.
    pub unit: String,
    /// All of it.
    pub total: i64,
    /// The total is of so many nanoseconds; null: not known.
    pub over_ns: Option<i64>,
    /// The length of a stop is not known: the total is a lower bound.
    pub lower_bound: bool,
    /// What it was spent on; with `unexplained` these add up to the total.
    pub parts: Vec<AccountPart>,
    /// What nothing says.
    pub unexplained: i64,
    /// Who asked for it; these add up to the total.
    pub asked_by: Vec<AskedPart>,
}

/// One part, by what it was spent on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AccountPart {
    /// Its id: `roots.stacks`.
    pub cause: String,
    /// The same for people.
    pub title: String,
    /// Nanoseconds.
    pub value: i64,
    /// Minimum nanoseconds: lower than the value if the process does not separate this part from another one.
    #[serde(default)]
    pub low: i64,
    /// Maximum nanoseconds.
    #[serde(default)]
    pub high: i64,
    /// Of the total, 0 to 1.
    pub share: f64,
    /// `measured`; or `estimated`: some of it was divided in a proportion, or is what is left of a phase.
    pub kind: String,
}

/// One part, by who asked for it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AskedPart {
    /// Its id: `allocation.small`.
    pub asker: String,
    /// The same for people.
    pub title: String,
    /// Nanoseconds.
    pub value: i64,
    /// Of the total, 0 to 1.
    pub share: f64,
}

/// A range that is narrower than this share of the total is not shown to people.
const MIN_SHOWN: f64 = 0.02;

impl AccountPart {
    /// Returns the least and the most that the part is of `total`, 0 to 1; `None` if they are about equal.
    pub fn range(&self, total: i64) -> Option<(f64, f64)> {
        let share = |ns: i64| ns as f64 / total.max(1) as f64;
        let (low, high) = (share(self.low), share(self.high));
        (high - low >= MIN_SHOWN).then_some((low, high))
    }
}

impl AccountRecord {
    /// What was stopped in so many nanoseconds.
    pub fn of_stopped_time(stopped: &StoppedTime, over_ns: Option<i64>) -> Self {
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
