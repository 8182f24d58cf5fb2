//! Recordings as a page to send to somebody: what the page of a process shows, as far as a recording knows it.

use gc_rules::incident::IncidentRecord;
use serde::Serialize;

use super::{CauseRecord, CollectionLine, HeapColumns, HistoryColumns, PauseColumns, ReportedRequests, Unseen};

/// All of a page.
#[derive(Debug, Serialize)]
pub struct ReportRecord {
    /// The version of gcwatch that made it.
    pub version: &'static str,
    /// Its recordings, in the order in which they were named.
    pub recordings: Vec<ReportedRecording>,
}

/// All of a recording.
#[derive(Debug, Serialize)]
pub struct ReportedRecording {
    /// The name of the recording, without its folder.
    pub file: String,
    /// Its command line, where that was asked for.
    pub command_line: Option<String>,
    /// Version of the runtime.
    pub runtime: Option<String>,
    /// When it began, RFC 3339.
    pub started: Option<String>,
    /// From the beginning of the session to the last event.
    pub observed_ns: i64,
    /// Its processes: nearly always one.
    pub processes: Vec<ReportedProcess>,
    /// Requests, where it was recorded with them.
    pub requests: Option<ReportedRequests>,
    /// What was not seen, and why.
    pub unseen: Vec<Unseen>,
}

/// A process of a recording.
#[derive(Debug, Serialize)]
pub struct ReportedProcess {
    /// What it is called: its pid, and its runtime where there are several.
    pub name: String,
    /// How its collector works, as far as collections show it.
    pub collector: Option<String>,
    /// The record of `kind: "summary"`.
    pub summary: serde_json::Value,
    /// Mean of the known pauses.
    pub mean_ns: Option<i64>,
    /// Most bytes in all generations, before or after a collection.
    pub largest_heap: Option<u64>,
    /// Collections that code asked for.
    pub induced: u64,
    /// In so many places of equal length.
    pub history: HistoryColumns,
    /// The heap after each collection.
    pub heap: HeapPoints,
    /// All collections, one mark each; of very many the longest of each part of the time.
    pub pauses: PauseColumns,
    /// Why it collected.
    pub causes: Vec<CauseRecord>,
    /// The longest ones.
    pub longest: Vec<CollectionLine>,
    /// The records of `kind: "gc"` of those, and of the ones that incidents name.
    pub full: Vec<serde_json::Value>,
    /// What the rules found; null: they were not evaluated.
    pub incidents: Option<Vec<IncidentRecord>>,
    /// The record of `kind: "rules_judged"`: what the recording was too short for, or lacks; null: no rules were
    /// evaluated.
    pub judged: Option<serde_json::Value>,
}

/// What rules found in a process of a recording.
#[derive(Debug, Default)]
pub struct Found {
    /// Its incidents, the most severe first.
    pub incidents: Vec<IncidentRecord>,
    /// The record of `kind: "rules_judged"`.
    pub judged: serde_json::Value,
}

/// Columns of the same length: one place is the heap after one collection, in the order of the time.
#[derive(Debug, Default, Serialize)]
pub struct HeapPoints {
    /// When that was, Unix milliseconds.
    pub at_ms: Vec<u64>,
    /// Bytes in each generation.
    pub heap: HeapColumns,
    /// Bytes that the heap had committed.
    pub committed: Vec<Option<u64>>,
    /// Of so many collections; where there are fewer places, each is the largest of its part of the time.
    pub of: u64,
}
