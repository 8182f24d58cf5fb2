//! The memory ledger of a process: where its memory is, as a record and as one clause of text.
//!
//! ```text
//! limit = headroom + usage
//! usage = live + free + committed_unused + bookkeeping     the collector's
//!       + native                                           the rest of the process
//!       + other_processes + page_cache + kernel            the rest of the container
//!       + unknown                                          what does not add up
//! ```
//!
//! A record is plain values: who reads the sources also divides them. The names of its fields are a contract, sizes
//! are bytes, and what is not known is null.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strict_yaml::words;

words! {
    /// Where most of the memory is.
    pub enum Verdict {
        /// Objects that the program keeps.
        LiveHeap = "live-heap",
        /// Free space between live objects.
        Fragmentation = "fragmentation",
        /// Memory that the collector keeps for later: free regions, and what it has not given back.
        CommittedUnused = "committed-unused",
        /// The process's memory that is not the collector's.
        Native = "native",
        /// Other processes in the same container.
        OtherProcesses = "other-processes",
        /// Pages of files that are in use, and files in memory (tmpfs).
        PageCache = "page-cache",
        /// Most of it is not known.
        NotKnown = "not-known",
    }
}

words! {
    /// What a ledger is of.
    #[derive(Default)]
    pub enum Scope {
        /// A container, or a control group with a limit.
        Container = "container",
        /// A process that is in none.
        Process = "process",
        /// A heap alone: a recording knows nothing else.
        #[default]
        Heap = "heap",
    }
}

/// Where the memory of a process is. Null: unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Ledger {
    /// When it was so, Unix milliseconds.
    pub at_ms: Option<u64>,
    /// What it is of.
    pub of: Scope,
    /// The heap's resident pages were counted; false: it is taken to be resident, as far as the process is.
    pub counted: bool,
    /// Where most of it is.
    pub verdict: Verdict,
    /// How fast that line grows, bytes a minute; null: there is one reading.
    pub growth_per_minute: Option<i64>,
    /// The line that grows fastest, if one grows by 64 KiB a minute.
    pub fastest: Option<Verdict>,
    /// How fast, bytes a minute.
    pub fastest_per_minute: Option<i64>,
    /// The container's memory limit; null where there is none.
    pub limit: Option<u64>,
    /// What is left of it.
    pub headroom: Option<u64>,
    /// All that is in use.
    pub usage: Option<u64>,
    /// Live objects, as of the newest collection.
    pub live: Option<u64>,
    /// Free space between them.
    pub free: Option<u64>,
    /// What the collector has committed beyond its objects, as far as it is resident.
    pub committed_unused: Option<u64>,
    /// The collector's own tables.
    pub bookkeeping: Option<u64>,
    /// The process's other memory, without pages of files.
    pub native: Option<u64>,
    /// Other processes of the container.
    pub other_processes: Option<u64>,
    /// Pages of files, and files in memory.
    pub page_cache: Option<u64>,
    /// The kernel's own memory for the container.
    pub kernel: Option<u64>,
    /// What of the usage no line explains.
    pub unknown: Option<u64>,
}

impl Default for Ledger {
    fn default() -> Self {
        Self {
            at_ms: None,
            of: Scope::Heap,
            counted: false,
            verdict: Verdict::NotKnown,
            growth_per_minute: None,
            fastest: None,
            fastest_per_minute: None,
            limit: None,
            headroom: None,
            usage: None,
            live: None,
            free: None,
            committed_unused: None,
            bookkeeping: None,
            native: None,
            other_processes: None,
            page_cache: None,
            kernel: None,
            unknown: None,
        }
    }
}

/// A slower growth is not worth a word, bytes a minute.
pub const WORTH_SAYING: i64 = 64 << 10;

impl Ledger {
    /// The lines of the usage with their names, in order.
    pub fn lines(&self) -> [(&'static str, Option<u64>); 9] {
        [
            ("live", self.live),
            ("free", self.free),
            ("unused", self.committed_unused),
            ("bookkeeping", self.bookkeeping),
            ("native", self.native),
            ("other processes", self.other_processes),
            ("page cache", self.page_cache),
            ("kernel", self.kernel),
            ("unknown", self.unknown),
        ]
    }

    /// The line that a verdict names.
    pub fn line_of(&self, verdict: Verdict) -> Option<u64> {
        match verdict {
            Verdict::LiveHeap => self.live,
            Verdict::Fragmentation => self.free,
            Verdict::CommittedUnused => self.committed_unused,
            Verdict::Native => self.native,
            Verdict::OtherProcesses => self.other_processes,
            Verdict::PageCache => self.page_cache,
            Verdict::NotKnown => None,
        }
    }

    /// Whether nothing of it is known.
    pub fn is_empty(&self) -> bool {
        self.usage.is_none() && self.lines().iter().all(|(_, bytes)| bytes.is_none())
    }

    /// `limit 512 MiB: live 120, free 90, native 290 and growing 4 MiB a minute`. Lines of less than a fiftieth are
    /// left out, but for those that it is about. `None`: nothing is known.
    pub fn clause(&self) -> Option<String> {
        if self.is_empty() {
            return None;
        }
        let known = || self.lines().into_iter().filter_map(|(_, bytes)| bytes);
        let (what, whole) = match (self.limit, self.usage) {
            (Some(limit), _) => ("limit", limit),
            (None, Some(usage)) => ("in use", usage),
            (None, None) => ("heap", known().fold(0, u64::saturating_add)),
        };
        let unit = Unit::of(whole);
        let is_of = |verdict: Option<Verdict>, name: &str| verdict.is_some_and(|verdict| line_name(verdict) == name);
        let fastest = self.fastest.filter(|fastest| *fastest != self.verdict);
        let lines = self.lines().into_iter().filter_map(|(name, bytes)| {
            let bytes = bytes?;
            let is_subject = is_of(Some(self.verdict), name);
            let growth = match (is_subject, is_of(fastest, name)) {
                (true, _) => self.growth_per_minute,
                (_, true) => self.fastest_per_minute,
                _ => None,
            };
            let growth = growth.filter(|bytes| *bytes >= WORTH_SAYING);
            if !is_subject && growth.is_none() && bytes.saturating_mul(50) < whole {
                return None;
            }
            let growth = growth.and_then(|bytes| u64::try_from(bytes).ok()).map(|bytes| {
                let unit = Unit::of(bytes);
                format!(" and growing {} {} a minute", unit.number(bytes), unit.name())
            });
            Some(format!("{name} {}{}", unit.number(bytes), growth.unwrap_or_default()))
        });
        let lines: Vec<String> = lines.collect();
        let whole = format!("{what} {} {}", unit.number(whole), unit.name());
        Some(if lines.is_empty() {
            whole
        } else {
            format!("{whole}: {}", lines.join(", "))
        })
    }
}

/// The name of a verdict's line.
fn line_name(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::LiveHeap => "live",
        Verdict::Fragmentation => "free",
        Verdict::CommittedUnused => "unused",
        Verdict::Native => "native",
        Verdict::OtherProcesses => "other processes",
        Verdict::PageCache => "page cache",
        Verdict::NotKnown => "unknown",
    }
}

/// All figures of a clause are in one unit.
#[derive(Clone, Copy)]
enum Unit {
    Kib,
    Mib,
    Gib,
}

impl Unit {
    fn of(bytes: u64) -> Self {
        match bytes {
            0..0x10_0000 => Self::Kib,
            0x10_0000..0x2_8000_0000 => Self::Mib,
            _ => Self::Gib,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Kib => "KiB",
            Self::Mib => "MiB",
            Self::Gib => "GiB",
        }
    }

    fn number(self, bytes: u64) -> String {
        let bits = match self {
            Self::Kib => 10,
            Self::Mib => 20,
            Self::Gib => 30,
        };
        // Below 2^53 exact; above it the rounding is far below a digit that is shown.
        let number = bytes as f64 / (1u64 << bits) as f64;
        let text = if number < 9.95 {
            format!("{number:.1}")
        } else {
            format!("{number:.0}")
        };
        text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// Scenario: a container at its limit with a native leak; one line is small, another unknown.
    /// Guarantee: the clause names what counts, in the limit's unit, with the growth of the line that it is about.
    #[test]
    fn a_clause_says_what_counts() {
        let ledger = Ledger {
            of: Scope::Container,
            verdict: Verdict::Native,
            growth_per_minute: Some(4 * MIB as i64),
            limit: Some(512 * MIB),
            headroom: Some(MIB),
            usage: Some(511 * MIB),
            live: Some(120 * MIB),
            free: Some(90 * MIB),
            bookkeeping: Some(2 * MIB),
            native: Some(290 * MIB),
            unknown: Some(9 * MIB),
            ..Ledger::default()
        };
        let text = "limit 512 MiB: live 120, free 90, native 290 and growing 4 MiB a minute";
        assert_eq!(ledger.clause().unwrap(), text);
        let other = Ledger {
            fastest: Some(Verdict::LiveHeap),
            fastest_per_minute: Some(3 << 19),
            growth_per_minute: Some(-5),
            ..ledger
        };
        let text = "limit 512 MiB: live 120 and growing 1.5 MiB a minute, free 90, native 290";
        assert_eq!(other.clause().unwrap(), text);
    }

    /// Scenario: a process without a limit, a heap of a recording, and nothing.
    /// Guarantee: each says what it is of; large ones are in GiB; nothing has no clause.
    #[test]
    fn a_clause_says_what_it_is_of() {
        let process = Ledger {
            of: Scope::Process,
            usage: Some(64 << 30),
            live: Some(3 << 29),
            unknown: Some(62 << 30),
            ..Ledger::default()
        };
        assert_eq!(process.clause().unwrap(), "in use 64 GiB: live 1.5, unknown 62");
        let heap = Ledger {
            verdict: Verdict::LiveHeap,
            live: Some(12 * MIB),
            free: Some(MIB / 2),
            ..Ledger::default()
        };
        assert_eq!(heap.clause().unwrap(), "heap 12 MiB: live 12, free 0.5");
        assert_eq!(Ledger::default().clause(), None);
    }

    /// Scenario: a ledger as text of a file, and one of an older version.
    /// Guarantee: it comes back as it was; unknown is null, and what is not there is unknown.
    #[test]
    fn a_record_comes_back() {
        let ledger = Ledger {
            live: Some(5),
            verdict: Verdict::LiveHeap,
            ..Ledger::default()
        };
        let text = serde_json::to_string(&ledger).unwrap();
        assert!(
            text.contains(r#""verdict":"live-heap""#) && text.contains(r#""native":null"#),
            "{text}"
        );
        assert_eq!(serde_json::from_str::<Ledger>(&text).unwrap(), ledger);
        assert_eq!(serde_json::from_str::<Ledger>("{}").unwrap(), Ledger::default());
    }
}
