//! gcwatch itself.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

/// Response of `/api/v1/self`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct WatcherRecord {
    /// Time of the response, in Unix milliseconds.
    pub at_ms: u64,
    /// Version of gcwatch.
    pub version: &'static str,
    /// Pid of gcwatch.
    pub pid: u32,
    /// Start time of gcwatch, RFC 3339; null if unknown.
    pub started: Option<String>,
    /// Resource usage of gcwatch.
    pub usage: UsageRecord,
    /// Parts that must be alive.
    pub parts: Vec<PartRecord>,
    /// Receivers of spans, metrics, log records and incidents.
    pub receivers: Vec<ReceiverRecord>,
    /// Sums over all streams.
    pub streams: StreamsRecord,
    /// Number of times gcwatch itself stalled.
    pub stalls: u64,
    /// Total duration of the stalls.
    pub stalled_ns: u64,
    /// The listener.
    pub listener: ListenerRecord,
    /// Number of processes that are not read, by reason.
    pub not_read: BTreeMap<String, u64>,
    /// Processes that export the metrics of their runtime themselves, so that gcwatch exports no `dotnet.gc.*` for them
    /// (`metrics.runtime_metrics: auto`).
    pub exports_runtime: Vec<ExportsRuntimeRecord>,
    /// Number of actions not taken because of a limit, by name, without entries of 0.
    pub limits: BTreeMap<&'static str, u64>,
}

/// A process that exports the metrics of its runtime itself.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ExportsRuntimeRecord {
    /// Pid of the process.
    pub pid: u32,
    /// Name of the process.
    pub process: String,
    /// File mapped in the process that indicates the export.
    pub sign: &'static str,
}

/// Resource usage of gcwatch, as counted by the kernel. Null if it cannot be read.
#[derive(Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct UsageRecord {
    /// CPU time in user mode, in seconds.
    pub cpu_user_s: Option<f64>,
    /// CPU time in the kernel, in seconds.
    pub cpu_system_s: Option<f64>,
    /// Resident bytes.
    pub resident: Option<u64>,
    /// Number of threads.
    pub threads: Option<u64>,
    /// Number of open files.
    pub descriptors: Option<u64>,
}

/// A part that must be alive.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PartRecord {
    /// Name of the part, one word.
    pub name: &'static str,
    /// Time since the part was last active.
    pub age_ns: u64,
    /// Whether the part has been inactive for too long.
    pub late: bool,
}

/// A receiver of telemetry.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ReceiverRecord {
    /// Signal: `traces`, `metrics`, `logs`, `incidents` or `evidence`.
    pub signal: &'static str,
    /// Name of the receiver, without secrets.
    pub name: String,
    /// State: `off`, `idle` (no item has been sent yet), `ok`, `failing` or `unsupported`.
    pub state: &'static str,
    /// Number of items that wait or are being sent.
    pub waiting: u64,
    /// Number of items that the receiver accepted.
    pub sent: u64,
    /// Number of dropped items by reason, without entries of 0.
    pub dropped: BTreeMap<&'static str, u64>,
    /// Number of failed requests by reason, without entries of 0.
    pub failures: BTreeMap<&'static str, u64>,
    /// Most recent error, which is kept after a recovery; null if there was no error.
    pub last_error: Option<String>,
    /// Time of the most recent error, RFC 3339; null if there was no error.
    pub last_error_at: Option<String>,
}

/// Figures of all streams together.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct StreamsRecord {
    /// Number of processes whose events are read.
    pub attached: u64,
    /// Number of events read from the processes that are known now.
    pub events: u64,
    /// Number of bytes read.
    pub bytes: u64,
    /// Number of events that runtimes dropped.
    pub lost_events: u64,
    /// The longest lag of a process; null if no lag is known.
    pub lag_ns: Option<u64>,
    /// Number of collections since gcwatch started.
    pub collections: u64,
    /// Number of spans since gcwatch started.
    pub spans: u64,
}

/// The listener.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct ListenerRecord {
    /// Number of pages that currently receive events.
    pub viewers: usize,
    /// Maximum number of pages that receive events.
    pub most_viewers: usize,
}
