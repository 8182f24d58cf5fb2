//! The memory ledger of a process: its memory by use, as a record and as one clause of text.
//!
//! ```text
//! limit = headroom + usage
//! usage = live + not_looked_at + free                      the collector: objects, and free space between them
//!       + committed_unused + bookkeeping                   the collector: the rest
//!       + native                                           the rest of the process
//!       + other_processes + files_in_memory + kernel       the rest of the container
//!       + page_cache + kernel_reclaimable                  memory that the kernel reclaims by itself
//!       + unknown                                          the difference
//! ```
//!
//! `growth` divides the growth of the usage in the same way.
//!
//! A record consists of plain values. The code that reads the sources also divides the memory. The names of the fields
//! are a contract, sizes are in bytes, and unknown values are null.

use base::words;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::field::CommandName;

words! {
    /// The line with most of the memory.
    #[derive(Default)]
    pub enum MemoryVerdict {
        /// Objects that the program keeps alive.
        LiveHeap = "live-heap",
        /// Old objects that no full collection has visited. They can be dead.
        NotLookedAt = "not-looked-at",
        /// Free space between live objects.
        Fragmentation = "fragmentation",
        /// Memory that the collector keeps for later: free regions, and memory that it has not released.
        CommittedUnused = "committed-unused",
        /// Memory of the process outside the collector.
        Native = "native",
        /// Other processes in the same container.
        OtherProcesses = "other-processes",
        /// Files in memory (tmpfs, shared memory).
        FilesInMemory = "files-in-memory",
        /// Pages of files on disk.
        PageCache = "page-cache",
        /// Kernel memory of the container that cannot be reclaimed.
        Kernel = "kernel",
        /// Most of the memory is unknown.
        #[default]
        NotKnown = "not-known",
    }
}

words! {
    /// The subject of a ledger.
    #[derive(Default)]
    pub enum Scope {
        /// A container, or a control group with a limit.
        Container = "container",
        /// A process outside a container.
        Process = "process",
        /// A heap only. A recording contains no other memory.
        #[default]
        Heap = "heap",
    }
}

/// Memory of a process by use. Unknown values are null.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Ledger {
    /// Time of the ledger, in Unix milliseconds.
    pub at_ms: Option<u64>,
    /// Subject of the ledger.
    pub of: Scope,
    /// Whether the resident pages of the heap were counted. If false, the heap is assumed to be resident, up to the
    /// resident memory of the process.
    pub counted: bool,
    /// The line with most of the memory.
    pub verdict: MemoryVerdict,
    /// Growth of the line of `verdict`, in bytes per minute; null with a single reading.
    pub growth_per_minute: Option<i64>,
    /// The line that grows fastest; null if no line grows by at least 64 KiB per minute.
    pub fastest: Option<MemoryVerdict>,
    /// Growth of the line `fastest`, in bytes per minute.
    pub fastest_per_minute: Option<i64>,
    /// Memory limit of the container; null without a limit.
    pub limit: Option<u64>,
    /// Unused part of the limit.
    pub headroom: Option<u64>,
    /// Total memory in use.
    pub usage: Option<u64>,
    /// Live objects: young objects as of the newest collection, old objects as of the newest full collection.
    pub live: Option<u64>,
    /// Objects that became old since the newest full collection, or all old objects if that collection was more than
    /// five minutes ago. These objects were alive when they became old.
    pub not_looked_at: Option<u64>,
    /// Seconds since the newest full collection or, if none was observed, since gcwatch started to monitor the process.
    pub not_looked_at_s: Option<u64>,
    /// Free space between objects.
    pub free: Option<u64>,
    /// Resident memory that the collector has committed beyond its objects.
    pub committed_unused: Option<u64>,
    /// Tables of the collector.
    pub bookkeeping: Option<u64>,
    /// Other memory of the process, without pages of files.
    pub native: Option<u64>,
    /// Other processes in the container.
    pub other_processes: Option<u64>,
    /// Name of the other process in the container with the most private memory; null without other processes, or if
    /// unknown.
    pub largest_other: Option<CommandName>,
    /// Files in memory (tmpfs, shared memory), without the part that the process has mapped. The kernel cannot reclaim
    /// these files.
    pub files_in_memory: Option<u64>,
    /// Pages of files on disk. The kernel reclaims these pages when memory is needed.
    pub page_cache: Option<u64>,
    /// Kernel memory for the container that cannot be reclaimed, such as network buffers and page tables.
    pub kernel: Option<u64>,
    /// Kernel memory for the container that the kernel reclaims when memory is needed, such as cached directory
    /// entries.
    pub kernel_reclaimable: Option<u64>,
    /// Whether the division of the kernel memory into the two lines is an estimate. Control groups of version 1 do not
    /// report the division.
    pub kernel_is_estimated: bool,
    /// Part of the usage that no line explains.
    pub unknown: Option<u64>,
    /// Growth of each line.
    pub growth: Growth,
}

/// Growth of the lines of a ledger, in bytes per minute; negative if they shrink. A growth is null if its line is
/// unknown, or with a single reading. If all lines are known, they add up to `usage`, except for rounding.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Growth {
    /// Growth of the total memory in use.
    pub usage: Option<i64>,
    /// Growth of live objects.
    pub live: Option<i64>,
    /// Growth of old objects that no full collection has visited.
    pub not_looked_at: Option<i64>,
    /// Growth of the free space between objects.
    pub free: Option<i64>,
    /// Growth of the memory that the collector has committed beyond its objects.
    pub committed_unused: Option<i64>,
    /// Growth of the tables of the collector.
    pub bookkeeping: Option<i64>,
    /// Growth of the other memory of the process.
    pub native: Option<i64>,
    /// Growth of other processes in the container.
    pub other_processes: Option<i64>,
    /// Growth of files in memory.
    pub files_in_memory: Option<i64>,
    /// Growth of pages of files on disk.
    pub page_cache: Option<i64>,
    /// Growth of kernel memory that cannot be reclaimed.
    pub kernel: Option<i64>,
    /// Growth of reclaimable kernel memory.
    pub kernel_reclaimable: Option<i64>,
    /// Growth of the unexplained part.
    pub unknown: Option<i64>,
}

/// Minimum growth that is reported, in bytes per minute.
pub const WORTH_SAYING: i64 = 64 << 10;

impl Ledger {
    /// Returns the lines of the usage with their names, in order.
    pub fn lines(&self) -> [(&'static str, Option<u64>); 12] {
        [
            ("live", self.live),
            (NOT_LOOKED_AT, self.not_looked_at),
            ("free", self.free),
            ("unused", self.committed_unused),
            ("bookkeeping", self.bookkeeping),
            ("native", self.native),
            (OTHER_PROCESSES, self.other_processes),
            ("files in memory", self.files_in_memory),
            ("page cache", self.page_cache),
            ("kernel", self.kernel),
            ("kernel reclaimable", self.kernel_reclaimable),
            ("unknown", self.unknown),
        ]
    }

    /// Returns the bytes of the line that a verdict names, or `None` if the line is unknown, or if the verdict is
    /// [`MemoryVerdict::NotKnown`].
    pub fn line_of(&self, verdict: MemoryVerdict) -> Option<u64> {
        let mut lines = self.lines().into_iter();
        let (_, bytes) = lines.find(|(name, _)| *name == line_name(verdict))?;
        bytes.filter(|_| verdict != MemoryVerdict::NotKnown)
    }

    /// Returns whether all values are unknown.
    pub fn is_empty(&self) -> bool {
        self.usage.is_none() && self.lines().iter().all(|(_, bytes)| bytes.is_none())
    }

    /// Returns `limit 512 MiB: live 120, free 90, native 290 and growing 4 MiB per minute`. Lines of less than 2 % are
    /// omitted, except for the verdict's line and the fastest growing line. Returns `None` if all values are unknown.
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
        let unit = Unit::for_bytes(whole);
        let is_of =
            |verdict: Option<MemoryVerdict>, name: &str| verdict.is_some_and(|verdict| line_name(verdict) == name);
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
                let unit = Unit::for_bytes(bytes);
                format!(" and growing {} {} per minute", unit.number(bytes), unit.0)
            });
            let age = self.not_looked_at_s.filter(|_| name == NOT_LOOKED_AT);
            let bytes = unit.number(bytes);
            let line = match age {
                Some(age) => format!("{bytes} {name} for {}", duration(age)),
                None => format!("{name} {bytes}"),
            };
            let largest = self.largest_other.filter(|_| name == OTHER_PROCESSES);
            let line = match largest {
                Some(largest) => format!("{line} ({})", largest.as_str()),
                None => line,
            };
            Some(line + &growth.unwrap_or_default())
        });
        let lines: Vec<String> = lines.collect();
        let whole = format!("{what} {} {}", unit.number(whole), unit.0);
        Some(if lines.is_empty() {
            whole
        } else {
            format!("{whole}: {}", lines.join(", "))
        })
    }
}

/// Name of the line of old objects that no full collection has visited.
const NOT_LOOKED_AT: &str = "not looked at";

/// Name of the line of other processes.
const OTHER_PROCESSES: &str = "other processes";

/// Returns `40 s`, `6 min`, `3 h`.
fn duration(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        _ => format!("{} h", seconds / 3600),
    }
}

/// Returns the name of a verdict's line.
fn line_name(verdict: MemoryVerdict) -> &'static str {
    match verdict {
        MemoryVerdict::LiveHeap => "live",
        MemoryVerdict::NotLookedAt => NOT_LOOKED_AT,
        MemoryVerdict::Fragmentation => "free",
        MemoryVerdict::CommittedUnused => "unused",
        MemoryVerdict::Native => "native",
        MemoryVerdict::OtherProcesses => OTHER_PROCESSES,
        MemoryVerdict::FilesInMemory => "files in memory",
        MemoryVerdict::PageCache => "page cache",
        MemoryVerdict::Kernel => "kernel",
        MemoryVerdict::NotKnown => "unknown",
    }
}

/// The unit of all figures of a clause: its name, and the number of low bits of a byte count that it drops.
#[derive(Clone, Copy)]
struct Unit(&'static str, u32);

impl Unit {
    fn for_bytes(bytes: u64) -> Self {
        match bytes {
            0..0x10_0000 => Self("KiB", 10),
            0x10_0000..0x2_8000_0000 => Self("MiB", 20),
            _ => Self("GiB", 30),
        }
    }

    fn number(self, bytes: u64) -> String {
        // The conversion is exact below 2^53 bytes. Above this value, the rounding error is far below the displayed
        // digits.
        let number = bytes as f64 / (1u64 << self.1) as f64;
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

    /// Scenario: no full collection has visited the old objects of an idle process for six minutes; in another process,
    /// for 40 s.
    /// Guarantee: the objects are not called live, and their age is stated.
    #[test]
    fn unvisited_objects_are_not_called_live() {
        let ledger = Ledger {
            usage: Some(800 * MIB),
            verdict: MemoryVerdict::NotLookedAt,
            live: Some(2 * MIB),
            not_looked_at: Some(708 * MIB),
            not_looked_at_s: Some(371),
            native: Some(60 * MIB),
            ..Ledger::default()
        };
        let text = "in use 800 MiB: 708 not looked at for 6 min, native 60";
        assert_eq!(ledger.clause().unwrap(), text);
        let other = Ledger {
            not_looked_at_s: Some(40),
            ..ledger
        };
        assert!(other.clause().unwrap().contains("708 not looked at for 40 s"));
    }

    /// Scenario: a container at its limit has a native leak; one line is small, another is unknown.
    /// Guarantee: the clause names the relevant lines in the unit of the limit, with the growth of the verdict's line.
    #[test]
    fn clause_names_relevant_lines() {
        let ledger = Ledger {
            of: Scope::Container,
            verdict: MemoryVerdict::Native,
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
        let text = "limit 512 MiB: live 120, free 90, native 290 and growing 4 MiB per minute";
        assert_eq!(ledger.clause().unwrap(), text);
        let other = Ledger {
            fastest: Some(MemoryVerdict::LiveHeap),
            fastest_per_minute: Some(3 << 19),
            growth_per_minute: Some(-5),
            ..ledger
        };
        let text = "limit 512 MiB: live 120 and growing 1.5 MiB per minute, free 90, native 290";
        assert_eq!(other.clause().unwrap(), text);
    }

    /// Scenario: one container is full of files in memory; in another, a different process has most of the memory.
    /// Guarantee: the clause names the files, and the largest of the other processes.
    #[test]
    fn clause_names_files_and_other_processes() {
        let files = Ledger {
            verdict: MemoryVerdict::FilesInMemory,
            limit: Some(320 * MIB),
            live: Some(12 * MIB),
            other_processes: Some(0),
            files_in_memory: Some(262 * MIB),
            page_cache: Some(MIB),
            ..Ledger::default()
        };
        let text = "limit 320 MiB: live 12, files in memory 262";
        assert_eq!(
            Ledger {
                usage: Some(275 * MIB),
                ..files
            }
            .clause()
            .unwrap(),
            text
        );
        let others = Ledger {
            verdict: MemoryVerdict::OtherProcesses,
            usage: Some(275 * MIB),
            other_processes: Some(262 * MIB),
            largest_other: Some(CommandName::new("worker")),
            files_in_memory: Some(0),
            ..files
        };
        let text = "limit 320 MiB: live 12, other processes 262 (worker)";
        assert_eq!(others.clause().unwrap(), text);
        let json = serde_json::to_string(&others).unwrap();
        assert!(json.contains(r#""largest_other":"worker""#), "{json}");
        assert_eq!(serde_json::from_str::<Ledger>(&json).unwrap(), others);
    }

    /// Scenario: ledgers describe a process without a limit, the heap of a recording, and no values.
    /// Guarantee: each clause states its subject, large values are in GiB, and a ledger without values has no clause.
    #[test]
    fn clause_states_its_subject() {
        let process = Ledger {
            of: Scope::Process,
            usage: Some(64 << 30),
            live: Some(3 << 29),
            unknown: Some(62 << 30),
            ..Ledger::default()
        };
        assert_eq!(process.clause().unwrap(), "in use 64 GiB: live 1.5, unknown 62");
        let heap = Ledger {
            verdict: MemoryVerdict::LiveHeap,
            live: Some(12 * MIB),
            free: Some(MIB / 2),
            ..Ledger::default()
        };
        assert_eq!(heap.clause().unwrap(), "heap 12 MiB: live 12, free 0.5");
        assert_eq!(Ledger::default().clause(), None);
    }

    /// Scenario: a ledger is read back from a file, and another has the format of an older version.
    /// Guarantee: the ledger round-trips unchanged; unknown values are null, and missing fields are unknown.
    #[test]
    fn ledger_round_trips_through_json() {
        let ledger = Ledger {
            live: Some(5),
            verdict: MemoryVerdict::LiveHeap,
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
