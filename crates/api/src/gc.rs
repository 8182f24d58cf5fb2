//! Records of collections, suspensions, summaries and streams. Their names are a contract: they stay, new ones may be
//! added.
//!
//! Sizes in bytes, durations in integer nanoseconds. Unknown values are `null`: never 0, never omitted.

mod collection;
mod summary;

pub use collection::GcRecord;
pub use summary::{SummaryRecord, share};

use clr_gc::event::{GcReason, GcType};
use clr_gc::gc::{Collection, Suspension};
use serde::Serialize;

/// The runtime in a process that a record is about.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Subject {
    /// The pid that the stream names: the target's own.
    pub pid: Option<u64>,
    /// Which runtime of the process.
    pub clr_instance: Option<u16>,
}

/// `blocking`, `background`, `foreground`; an unknown number as text.
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
    /// The record of a suspension without a collection.
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

/// `kind: "stream"`: the recording itself; the last record of each.
#[derive(Debug, Default, Serialize)]
#[serde(tag = "kind", rename = "stream")]
pub struct StreamRecord {
    /// As named on the command line.
    pub file: String,
    /// Event blobs in it.
    pub events: u64,
    /// Events that the writer dropped; `None` without sequence numbers.
    pub lost_events: Option<u64>,
    /// Collections reported.
    pub gcs: u64,
    /// Length of the stream, unpacked.
    pub bytes: u64,
    /// The end tag was read.
    pub clean_end: bool,
    /// Bytes of a pointer of the traced process.
    pub pointer_size: Option<u8>,
    /// Version of the runtime.
    pub runtime: Option<String>,
    /// First to last event.
    pub duration_ns: Option<i64>,
    /// The clock of the traced machine (Linux: CLOCK_MONOTONIC) at the sync point, to which all offsets refer, ticks.
    pub sync_ticks: Option<i64>,
    /// Ticks a second.
    pub tick_frequency: Option<i64>,
    /// Events of known kinds whose payload could not be decoded.
    pub undecodable: u64,
}

/// Whether code asked for a collection, and no tool.
pub fn is_induced(collection: &Collection) -> bool {
    let is_asked_for = |reason: GcReason| reason.to_string().starts_with("Induced");
    collection.requested_by_tool != Some(true) && collection.reason.is_some_and(is_asked_for)
}
