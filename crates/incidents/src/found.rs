//! Findings of bursts and of the census for an incident: who requested collections, what was allocated, what threads
//! did, which live objects grew; or the reason why there was no burst.

mod census;
mod stacks;

use base::time::rfc3339;
pub use census::{FoundCensus, FoundHolder, FoundKept, FoundLiving, MAX_LIVING};
pub use stacks::{FoundStack, FoundStacks};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use rule_engine::rule::Evidence;

/// Maximum number of sites, types and callers of a burst in an incident.
pub const MAX_FOUND: usize = 3;

/// Findings of bursts and of the census. Each kind is requested once per incident. A kind is null if it was not
/// requested, or if its result is pending.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Found")]
pub struct Findings {
    /// Code that requests collections.
    pub callers: Option<FoundCallers>,
    /// Code that allocates.
    pub allocations: Option<FoundAllocations>,
    /// Activity of the threads.
    #[serde(default)]
    pub stacks: Option<FoundStacks>,
    /// Live objects, and growth.
    #[serde(default)]
    pub census: Option<FoundCensus>,
}

/// Finding of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding {
    /// Code that requests collections.
    Callers(FoundCallers),
    /// Code that allocates.
    Allocations(FoundAllocations),
    /// Activity of the threads.
    Stacks(FoundStacks),
    /// Live objects, and growth.
    Census(FoundCensus),
}

/// Callers that made the process collect during a burst. Unknown values are null.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FoundCallers {
    /// Reason why there was no burst; null if there was one.
    pub none_because: Option<String>,
    /// Start of the burst on the stream's clock, in nanoseconds.
    pub start_ns: Option<i64>,
    /// End of the burst on the stream's clock, in nanoseconds.
    pub end_ns: Option<i64>,
    /// End of the burst as RFC 3339; null if there was no burst.
    #[serde(default)]
    pub at: Option<String>,
    /// Number of requests for a collection.
    pub triggers: Option<u64>,
    /// Number of collections.
    pub collections: Option<u64>,
    /// Time for which these collections stopped the process, in nanoseconds.
    pub stopped_ns: Option<i64>,
    /// Number of stops without a request. The runtime does not report the requester of such a stop.
    pub unasked_stops: Option<u64>,
    /// Callers with the longest stopped time, at most [`MAX_FOUND`].
    pub callers: Vec<FoundCaller>,
}

/// A caller that requested collections.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FoundCaller {
    /// Called API; null if unknown.
    pub api: Option<String>,
    /// Nearest frame outside the framework; null if there is no such frame.
    pub site: Option<String>,
    /// Method of the program that called the library; null if the site is not in a library.
    #[serde(default)]
    pub called_by: Option<String>,
    /// Reason reported by the runtime.
    pub reason: String,
    /// Readable names of the innermost frames, starting at the requesting method.
    pub frames: Vec<String>,
    /// Number of collections that answered the request.
    pub collections: u64,
    /// Number of requests without a collection.
    pub without_collection: u64,
    /// Time for which the collections stopped the process, in nanoseconds.
    pub stopped_ns: Option<i64>,
}

/// Allocations during a burst. Unknown values are null.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FoundAllocations {
    /// Reason why there was no burst; null if there was one.
    pub none_because: Option<String>,
    /// Start of the burst on the stream's clock, in nanoseconds.
    pub start_ns: Option<i64>,
    /// End of the burst on the stream's clock, in nanoseconds.
    pub end_ns: Option<i64>,
    /// End of the burst as RFC 3339; null if there was no burst.
    #[serde(default)]
    pub at: Option<String>,
    /// Kind of samples: `sampled` for random samples, or `tick` for biased samples.
    pub method: Option<String>,
    /// Total amount of allocated memory.
    pub total: Option<FoundAmount>,
    /// Types with the most bytes, at most [`MAX_FOUND`].
    pub types: Vec<FoundType>,
    /// Sites with the most bytes, at most [`MAX_FOUND`].
    pub sites: Vec<FoundSite>,
    /// Path of the flame graph of all stacks (SVG) while this gcwatch instance runs; null if there is no flame graph.
    #[serde(default)]
    pub flame: Option<String>,
}

/// Number of bytes with its 95 % interval.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FoundAmount {
    /// Estimated number of bytes.
    pub estimate: u64,
    /// Lower limit of the interval, in bytes; null if the error is unknown.
    pub low: Option<u64>,
    /// Upper limit of the interval, in bytes; null if the error is unknown.
    pub high: Option<u64>,
    /// Number of samples behind the estimate.
    pub samples: u64,
}

/// An allocated type.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FoundType {
    /// Human-readable name; null if the runtime does not report it.
    pub r#type: Option<String>,
    /// Allocated bytes.
    #[serde(flatten)]
    pub amount: FoundAmount,
}

/// A site that allocates.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FoundSite {
    /// Nearest frame outside the framework; null if there is no such frame.
    pub site: Option<String>,
    /// Method of the program that called the library; null if the site is not in a library.
    #[serde(default)]
    pub called_by: Option<String>,
    /// Allocated type; null if there are several types, or if unknown.
    pub r#type: Option<String>,
    /// Readable names of the innermost frames, starting at the site.
    pub frames: Vec<String>,
    /// Allocated bytes.
    #[serde(flatten)]
    pub amount: FoundAmount,
}

impl Finding {
    /// Sets the time of the finding, in Unix nanoseconds. Does nothing if there was no burst.
    pub fn dated(&mut self, unix_ns: u64) {
        let (is_found, at) = match self {
            Self::Callers(found) => (found.end_ns.is_some(), &mut found.at),
            Self::Allocations(found) => (found.end_ns.is_some(), &mut found.at),
            Self::Stacks(found) => (found.end_ns.is_some(), &mut found.at),
            Self::Census(found) => (found.bytes.is_some(), &mut found.at),
        };
        if is_found && at.is_none() {
            *at = rfc3339(unix_ns);
        }
    }

    /// Returns whether there was no burst.
    pub(super) fn is_none(&self) -> bool {
        let because = match self {
            Self::Callers(found) => &found.none_because,
            Self::Allocations(found) => &found.none_because,
            Self::Stacks(found) => &found.none_because,
            Self::Census(found) => &found.none_because,
        };
        because.is_some()
    }

    /// Returns the kind of evidence.
    pub fn evidence(&self) -> Evidence {
        match self {
            Self::Callers(_) => Evidence::Callers,
            Self::Allocations(_) => Evidence::Allocations,
            Self::Stacks(_) => Evidence::Stacks,
            Self::Census(_) => Evidence::Census,
        }
    }
}

impl Findings {
    /// Returns whether this kind was requested and its result is final.
    pub fn has(&self, evidence: Evidence) -> bool {
        match evidence {
            Evidence::Callers => self.callers.is_some(),
            Evidence::Allocations => self.allocations.is_some(),
            Evidence::Stacks => self.stacks.is_some(),
            Evidence::Census => self.census.as_ref().is_some_and(FoundCensus::is_final),
            Evidence::Ledger | Evidence::BlackBox => false,
        }
    }

    /// Stores a finding.
    pub(super) fn take(&mut self, finding: Finding) {
        match finding {
            Finding::Callers(callers) => self.callers = Some(callers),
            Finding::Allocations(allocations) => self.allocations = Some(allocations),
            Finding::Stacks(stacks) => self.stacks = Some(stacks),
            Finding::Census(census) => self.census = Some(census),
        }
    }
}

impl FoundCallers {
    /// Creates the result if there was no burst, from the reason.
    pub fn none(because: String) -> Self {
        Self {
            none_because: Some(because),
            ..Self::default()
        }
    }

    /// Returns `Shop.Cache.Trim -> GC.Collect: 41 collections, 0.830 s stopped; ...; in 10 s`.
    pub fn clause(&self) -> String {
        if let Some(because) = &self.none_because {
            return format!("not asked: {because}");
        }
        let time = seconds(self.start_ns, self.end_ns);
        if self.callers.is_empty() {
            return format!("no collection was requested{time}");
        }
        let callers = self.callers.iter().map(|caller| {
            let stopped = caller
                .stopped_ns
                .map_or_else(|| "unknown time".to_owned(), |ns| format!("{:.3} s", ns as f64 / 1e9));
            let count = match caller.collections {
                0 => plural(caller.without_collection, "request"),
                collections => plural(collections, "collection"),
            };
            format!("{}: {count}, {stopped} stopped", caller.name())
        });
        format!("{}{time}", callers.collect::<Vec<_>>().join("; "))
    }
}

impl FoundCaller {
    /// Returns `Shop.Cache.Trim -> GC.Collect`; for a library, `Shop.Program.Learn -> Acme.Trainer.Fit -> GC.Collect`.
    pub fn name(&self) -> String {
        let site = place(self.called_by.as_deref(), self.site.as_deref());
        match self.api.as_deref() {
            Some("allocation") => format!("{site} -> allocation ({})", self.reason),
            Some(api) => format!("{site} -> {api}"),
            None => format!("{site} -> {}", self.reason),
        }
    }
}

impl FoundAllocations {
    /// Creates the result if there was no burst, from the reason.
    pub fn none(because: String) -> Self {
        Self {
            none_because: Some(because),
            ..Self::default()
        }
    }

    /// Returns `Shop.Report.Render (byte[]): 71.6 MB (68.1 to 75.2); ...; in 5 s`.
    pub fn clause(&self) -> String {
        if let Some(because) = &self.none_because {
            return format!("not asked: {because}");
        }
        let time = seconds(self.start_ns, self.end_ns);
        if self.sites.is_empty() {
            return format!("no sample of an allocation{time}");
        }
        let sites = self.sites.iter().map(|one| {
            let site = place(one.called_by.as_deref(), one.site.as_deref());
            let what = one.r#type.as_deref().unwrap_or("several types");
            format!("{site} ({what}): {}", one.amount.text())
        });
        let biased = if self.method.as_deref() == Some("tick") {
            ", biased"
        } else {
            ""
        };
        format!("{}{time}{biased}", sites.collect::<Vec<_>>().join("; "))
    }
}

impl FoundAmount {
    /// Returns `71.6 MB (68.1 to 75.2)`.
    fn text(&self) -> String {
        let mb = |bytes: u64| bytes as f64 / 1e6;
        match (self.low, self.high) {
            (Some(low), Some(high)) => {
                format!("{:.1} MB ({:.1} to {:.1})", mb(self.estimate), mb(low), mb(high))
            }
            _ => format!("{:.1} MB", mb(self.estimate)),
        }
    }
}

/// Returns the site, preceded by the program's calling method if the site is in a library.
fn place(called_by: Option<&str>, site: Option<&str>) -> String {
    let site = site.unwrap_or("[no frame]");
    called_by.map_or_else(|| site.to_owned(), |program| format!("{program} -> {site}"))
}

fn plural(count: u64, noun: &str) -> String {
    if count == 1 {
        format!("1 {noun}")
    } else {
        format!("{count} {noun}s")
    }
}

/// Returns ` in 9.8 s`, or an empty string if the start or the end is unknown.
fn seconds(start_ns: Option<i64>, end_ns: Option<i64>) -> String {
    let length = start_ns.zip(end_ns).map(|(start, end)| end.saturating_sub(start));
    length.map_or_else(String::new, |ns| format!(" in {:.1} s", ns as f64 / 1e9))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: a burst finds callers, another finds no callers, and a third burst does not run.
    /// Guarantee: the result is one clause with the findings and their duration, or with the reason why there was no
    /// burst.
    #[test]
    fn clause_names_callers_or_reason() {
        let caller = |site: Option<&str>, collections| FoundCaller {
            api: Some("GC.Collect".to_owned()),
            site: site.map(str::to_owned),
            reason: "Induced".to_owned(),
            collections,
            stopped_ns: Some(830_000_000),
            ..FoundCaller::default()
        };
        let mut found = FoundCallers {
            start_ns: Some(5),
            end_ns: Some(10_000_000_005),
            callers: vec![caller(Some("Shop.Cache.Trim"), 41), caller(None, 1)],
            ..FoundCallers::default()
        };
        assert_eq!(
            found.clause(),
            "Shop.Cache.Trim -> GC.Collect: 41 collections, 0.830 s stopped; \
             [no frame] -> GC.Collect: 1 collection, 0.830 s stopped in 10.0 s"
        );
        found.callers.truncate(1);
        found.callers[0].called_by = Some("Shop.Program.Night".to_owned());
        assert_eq!(
            found.clause(),
            "Shop.Program.Night -> Shop.Cache.Trim -> GC.Collect: 41 collections, 0.830 s stopped in 10.0 s"
        );
        found.callers.clear();
        assert_eq!(found.clause(), "no collection was requested in 10.0 s");
        assert_eq!(FoundCallers::none("busy".to_owned()).clause(), "not asked: busy");
    }

    /// Scenario: allocation sites are sampled with an interval, or biased without an interval.
    /// Guarantee: the clause contains intervals if they are known, and states a bias.
    #[test]
    fn clause_states_interval_and_bias() {
        let site = FoundSite {
            site: Some("Shop.Report.Render".to_owned()),
            r#type: Some("byte[]".to_owned()),
            amount: FoundAmount {
                estimate: 71_600_000,
                low: Some(68_100_000),
                high: Some(75_200_000),
                samples: 700,
            },
            ..FoundSite::default()
        };
        let mut found = FoundAllocations {
            method: Some("sampled".to_owned()),
            sites: vec![site],
            ..FoundAllocations::default()
        };
        assert_eq!(found.clause(), "Shop.Report.Render (byte[]): 71.6 MB (68.1 to 75.2)");
        found.sites[0].called_by = Some("Shop.Program.Main".to_owned());
        assert!(
            found
                .clause()
                .starts_with("Shop.Program.Main -> Shop.Report.Render (byte[]): ")
        );
        found.sites[0].called_by = None;
        found.method = Some("tick".to_owned());
        (found.sites[0].amount.low, found.sites[0].amount.high) = (None, None);
        assert_eq!(found.clause(), "Shop.Report.Render (byte[]): 71.6 MB, biased");
    }
}
