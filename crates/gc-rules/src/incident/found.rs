//! What a burst or a census found for an incident: who makes the process collect, who allocates, what its threads do,
//! what lives and grew; or why nothing was asked.

mod census;
mod stacks;

use base::time::rfc3339;
pub use census::{FoundCensus, FoundHolder, FoundKept, FoundLiving, MOST_LIVING};
pub use stacks::{FoundStack, FoundStacks};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::rule::Evidence;

/// Sites, types and callers that an incident has of a burst.
pub const MOST_FOUND: usize = 3;

/// What bursts and the census found. Each kind is asked for once in the life of an incident.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Found {
    /// Who makes it collect.
    pub callers: Option<FoundCallers>,
    /// Who allocates.
    pub allocations: Option<FoundAllocations>,
    /// What its threads do.
    #[serde(default)]
    pub stacks: Option<FoundStacks>,
    /// What lives, and what grew.
    #[serde(default)]
    pub census: Option<FoundCensus>,
}

/// One kind of what a burst found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding {
    /// Who makes it collect.
    Callers(FoundCallers),
    /// Who allocates.
    Allocations(FoundAllocations),
    /// What its threads do.
    Stacks(FoundStacks),
    /// What lives, and what grew.
    Census(FoundCensus),
}

/// Who made the process collect while it was watched. Unknown values are null.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FoundCallers {
    /// Why there was no burst; null: there was one.
    pub none_because: Option<String>,
    /// From when on it was watched, on the stream's clock.
    pub start_ns: Option<i64>,
    /// Until when.
    pub end_ns: Option<i64>,
    /// The same as a time, RFC 3339; null: there was no burst.
    #[serde(default)]
    pub at: Option<String>,
    /// Requests for a collection.
    pub triggers: Option<u64>,
    /// Collections.
    pub collections: Option<u64>,
    /// How long the process was stopped for them.
    pub stopped_ns: Option<i64>,
    /// Stops without a request: whose, the runtime does not say.
    pub unasked_stops: Option<u64>,
    /// Those that stopped it longest, at most [`MOST_FOUND`].
    pub callers: Vec<FoundCaller>,
}

/// One caller.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FoundCaller {
    /// What was called; null: nothing says it.
    pub api: Option<String>,
    /// The nearest frame that is not of the framework.
    pub site: Option<String>,
    /// Where that is a library's, the program's own method that called it.
    #[serde(default)]
    pub called_by: Option<String>,
    /// The runtime's reason.
    pub reason: String,
    /// Readable names, from the method that asked outwards; the innermost ones.
    pub frames: Vec<String>,
    /// Collections that answered it.
    pub collections: u64,
    /// Requests that led to none.
    pub without_collection: u64,
    /// How long the process was stopped for it.
    pub stopped_ns: Option<i64>,
}

/// What was allocated while the process was watched. Unknown values are null.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FoundAllocations {
    /// Why there was no burst; null: there was one.
    pub none_because: Option<String>,
    /// From when on it was watched, on the stream's clock.
    pub start_ns: Option<i64>,
    /// Until when.
    pub end_ns: Option<i64>,
    /// The same as a time, RFC 3339; null: there was no burst.
    #[serde(default)]
    pub at: Option<String>,
    /// `sampled` by chance, or by `tick`, which is biased.
    pub method: Option<String>,
    /// All of it.
    pub total: Option<FoundAmount>,
    /// Types with most bytes, at most [`MOST_FOUND`].
    pub types: Vec<FoundType>,
    /// Sites with most bytes, at most [`MOST_FOUND`].
    pub sites: Vec<FoundSite>,
    /// Where the flame graph of all stacks is served (SVG), as long as this gcwatch runs; null: there is none.
    #[serde(default)]
    pub flame: Option<String>,
}

/// Bytes with their 95 % interval.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FoundAmount {
    /// Bytes.
    pub estimate: u64,
    /// Lower limit; null: the error is unknown.
    pub low: Option<u64>,
    /// Upper limit.
    pub high: Option<u64>,
    /// How many samples say so.
    pub samples: u64,
}

/// A type that is allocated.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FoundType {
    /// As people write it; null: the runtime does not name it.
    pub r#type: Option<String>,
    /// How much.
    #[serde(flatten)]
    pub amount: FoundAmount,
}

/// A place that allocates.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FoundSite {
    /// The nearest frame that is not of the framework.
    pub site: Option<String>,
    /// Where that is a library's, the program's own method that called it.
    #[serde(default)]
    pub called_by: Option<String>,
    /// What it allocates; null: several types, or it is unknown.
    pub r#type: Option<String>,
    /// Readable names, from the site outwards; the innermost ones.
    pub frames: Vec<String>,
    /// How much.
    #[serde(flatten)]
    pub amount: FoundAmount,
}

impl Finding {
    /// Sets when it was found, Unix nanoseconds; where there was no burst, nothing.
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

    /// Whether nothing was asked of the process.
    pub(super) fn is_none(&self) -> bool {
        let because = match self {
            Self::Callers(found) => &found.none_because,
            Self::Allocations(found) => &found.none_because,
            Self::Stacks(found) => &found.none_because,
            Self::Census(found) => &found.none_because,
        };
        because.is_some()
    }

    /// Which kind it is.
    pub fn evidence(&self) -> Evidence {
        match self {
            Self::Callers(_) => Evidence::Callers,
            Self::Allocations(_) => Evidence::Allocations,
            Self::Stacks(_) => Evidence::Stacks,
            Self::Census(_) => Evidence::Census,
        }
    }
}

impl Found {
    /// Whether that kind was asked for, and nothing more of it comes.
    pub fn has(&self, evidence: Evidence) -> bool {
        match evidence {
            Evidence::Callers => self.callers.is_some(),
            Evidence::Allocations => self.allocations.is_some(),
            Evidence::Stacks => self.stacks.is_some(),
            Evidence::Census => self.census.as_ref().is_some_and(FoundCensus::is_final),
            Evidence::Ledger | Evidence::BlackBox => false,
        }
    }

    /// Takes what a burst found.
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
    /// There was no burst.
    pub fn none(because: String) -> Self {
        Self {
            none_because: Some(because),
            ..Self::default()
        }
    }

    /// `Shop.Cache.Trim -> GC.Collect: 41 collections, 0.830 s stopped; ...; in 10 s`.
    pub fn clause(&self) -> String {
        if let Some(because) = &self.none_because {
            return format!("not asked: {because}");
        }
        let time = seconds(self.start_ns, self.end_ns);
        if self.callers.is_empty() {
            return format!("nobody asked for a collection{time}");
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
    /// `Shop.Cache.Trim -> GC.Collect`; of a library `Shop.Program.Learn -> Acme.Trainer.Fit -> GC.Collect`.
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
    /// There was no burst.
    pub fn none(because: String) -> Self {
        Self {
            none_because: Some(because),
            ..Self::default()
        }
    }

    /// `Shop.Report.Render (byte[]): 71.6 MB (68.1 to 75.2); ...; in 5 s`.
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
    /// `71.6 MB (68.1 to 75.2)`.
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

/// The site, behind the program's method that called it where it is a library's.
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

/// ` in 9.8 s`.
fn seconds(start_ns: Option<i64>, end_ns: Option<i64>) -> String {
    let length = start_ns.zip(end_ns).map(|(start, end)| end.saturating_sub(start));
    length.map_or_else(String::new, |ns| format!(" in {:.1} s", ns as f64 / 1e9))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: a burst with callers, one without, and none.
    /// Guarantee: each is one clause that says what was found, in which time, or why nothing was asked.
    #[test]
    fn a_clause_says_who() {
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
        assert_eq!(found.clause(), "nobody asked for a collection in 10.0 s");
        assert_eq!(FoundCallers::none("busy".to_owned()).clause(), "not asked: busy");
    }

    /// Scenario: sampled sites with their interval, and a biased one.
    /// Guarantee: intervals are shown where they are known, bias is said.
    #[test]
    fn a_clause_says_how_sure() {
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
