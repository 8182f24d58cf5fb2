//! Records of collections, suspensions, summaries and streams. The names in the records are a contract: existing names
//! never change, and new names may be added.
//!
//! Sizes are in bytes, durations in integer nanoseconds. Unknown values are `null`: never 0, never omitted.

mod collection;
mod summary;

pub use collection::GcRecord;
pub use summary::{SummaryRecord, share};

use clr_gc::event::{GcReason, GcType};
use clr_gc::gc::{Collection, Suspension};
use serde::Serialize;

/// The process and runtime that a record is about.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Subject {
    /// Pid from the stream, in the target's own pid namespace; `None` if the stream does not contain it.
    pub pid: Option<u64>,
    /// Number of the runtime within its process; `None` if unknown.
    pub clr_instance: Option<u16>,
}

/// Returns the name of a type: `blocking`, `background` or `foreground`, or `Unknown(N)` for another number N.
pub fn type_name(gc_type: GcType) -> String {
    match gc_type {
        GcType::BLOCKING => "blocking".to_owned(),
        GcType::BACKGROUND => "background".to_owned(),
        GcType::FOREGROUND => "foreground".to_owned(),
        GcType(other) => format!("Unknown({other})"),
    }
}

/// `kind: "suspension"`: a suspension for the GC in which no collection ran.
#[derive(Debug, Serialize)]
#[serde(tag = "kind", rename = "suspension")]
pub struct SuspensionRecord {
    #[serde(flatten)]
    subject: Subject,
    reason: Option<String>,
    start_offset_ns: Option<i64>,
    suspend_ns: Option<i64>,
    stopped_ns: Option<i64>,
    triggered: bool,
}

impl SuspensionRecord {
    /// Creates the record of a suspension without a collection.
    pub fn new(subject: Subject, suspension: &Suspension) -> Self {
        Self {
            subject,
            reason: suspension.reason.map(|reason| reason.to_string()),
            start_offset_ns: suspension.edges.suspend_begin,
            suspend_ns: suspension.suspend_ns,
            stopped_ns: suspension.stopped_ns,
            triggered: suspension.triggered,
        }
    }
}

/// `kind: "stream"`: the stream of a recording. This record is the last record of each recording.
#[derive(Debug, Default, Serialize)]
#[serde(tag = "kind", rename = "stream")]
pub struct StreamRecord {
    /// Name of the file as given on the command line.
    pub file: String,
    /// Number of event blobs in the recording.
    pub events: u64,
    /// Number of events that the writer dropped; `None` if the events have no sequence numbers.
    pub lost_events: Option<u64>,
    /// Number of collections reported.
    pub gcs: u64,
    /// Uncompressed length of the stream in bytes.
    pub bytes: u64,
    /// Whether the end tag was read.
    pub clean_end: bool,
    /// Pointer size of the traced process in bytes; `None` if the header could not be read.
    pub pointer_size: Option<u8>,
    /// Version of the runtime; `None` if the stream does not contain it.
    pub runtime: Option<String>,
    /// Time from the first to the last event; `None` if the stream has no events.
    pub duration_ns: Option<i64>,
    /// Clock of the traced machine (Linux: CLOCK_MONOTONIC) in ticks at the sync point, to which all offsets refer;
    /// `None` if the header could not be read.
    pub sync_ticks: Option<i64>,
    /// Number of ticks per second; `None` if the header could not be read.
    pub tick_frequency: Option<i64>,
    /// Number of events of known kinds whose payload could not be decoded.
    pub undecodable: u64,
}

/// Returns whether code, rather than a tool, requested a collection.
pub fn is_induced(collection: &Collection) -> bool {
    let is_asked_for = |reason: GcReason| reason.to_string().starts_with("Induced");
    collection.requested_by_tool != Some(true) && collection.reason.is_some_and(is_asked_for)
}
