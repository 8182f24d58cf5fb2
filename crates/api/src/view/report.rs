//! The contents of a page about recordings. Users can send this page to others. The page corresponds to the page of a
//! live process, without data that a recording does not contain.

use incidents::IncidentRecord;
use serde::Serialize;

use super::{CauseRecord, CollectionLine, HeapColumns, HistoryColumns, PauseColumns, ReportedRequests, UnobservedFact};

/// All contents of a page.
#[derive(Debug, Serialize)]
pub struct ReportRecord {
    /// Version of gcwatch that created the page.
    pub version: &'static str,
    /// Recordings, in the order in which they were named.
    pub recordings: Vec<ReportedRecording>,
}

/// All contents of a recording. Unknown values are null.
#[derive(Debug, Serialize)]
pub struct ReportedRecording {
    /// File name of the recording, without its folder.
    pub file: String,
    /// Command line of the process; null if it was not requested or the recording does not contain it.
    pub command_line: Option<String>,
    /// Version of the runtime.
    pub runtime: Option<String>,
    /// Start of the recording, RFC 3339.
    pub started: Option<String>,
    /// Time from the start of the session to the last event.
    pub observed_ns: i64,
    /// Processes of the recording; nearly always one.
    pub processes: Vec<ReportedProcess>,
    /// Requests; null if the recording contains no requests.
    pub requests: Option<ReportedRequests>,
    /// Facts that were not observed, with the reasons.
    pub unseen: Vec<UnobservedFact>,
}

/// A process of a recording. Unknown values are null.
#[derive(Debug, Serialize)]
pub struct ReportedProcess {
    /// Display name: the pid, and the runtime if there are several.
    pub name: String,
    /// Operating mode of the collector; null if no collection shows it.
    pub collector: Option<String>,
    /// The record of `kind: "summary"`.
    pub summary: serde_json::Value,
    /// Mean of the known pauses.
    pub mean_ns: Option<i64>,
    /// Maximum bytes in all generations, before or after a collection.
    pub largest_heap: Option<u64>,
    /// Number of collections requested by code.
    pub induced: u64,
    /// History in intervals of equal length.
    pub history: HistoryColumns,
    /// The heap after each collection.
    pub heap: HeapPoints,
    /// All collections with one point each. If there are too many collections, only the longest collection of each
    /// interval has a point.
    pub pauses: PauseColumns,
    /// Reasons of collections.
    pub causes: Vec<CauseRecord>,
    /// The longest collections.
    pub longest: Vec<CollectionLine>,
    /// The records of `kind: "gc"` for the longest collections and for the collections that incidents name.
    pub full: Vec<serde_json::Value>,
    /// Incidents found by rules; null if the rules were not evaluated.
    pub incidents: Option<Vec<IncidentRecord>>,
    /// The record of `kind: "rules_judged"`: rules for which the recording is too short or lacks data; null if the
    /// rules were not evaluated.
    pub judged: Option<serde_json::Value>,
}

/// Findings of rules in a process of a recording.
#[derive(Debug, Default)]
pub struct RuleFindings {
    /// Incidents of the process, the most severe first.
    pub incidents: Vec<IncidentRecord>,
    /// The record of `kind: "rules_judged"`.
    pub judged: serde_json::Value,
}

/// Columns of equal length. Each entry is the heap after one collection, in chronological order.
#[derive(Debug, Default, Serialize)]
pub struct HeapPoints {
    /// Time of the entry, in Unix milliseconds.
    pub at_ms: Vec<u64>,
    /// Bytes in each generation.
    pub heap: HeapColumns,
    /// Bytes that the heap had committed.
    pub committed: Vec<Option<u64>>,
    /// Number of collections covered. If there are fewer entries than collections, each entry is the collection with
    /// the largest heap in its interval.
    pub of: u64,
}
