//! gcwatch itself.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

/// `/api/v1/self`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct WatcherRecord {
    /// When this was so, Unix milliseconds.
    pub at_ms: u64,
    /// Its version.
    pub version: &'static str,
    /// Its pid.
    pub pid: u32,
    /// When it began, RFC 3339.
    pub started: Option<String>,
    /// What it uses.
    pub usage: UsageRecord,
    /// The parts that must be alive.
    pub parts: Vec<PartRecord>,
    /// The receivers of spans, metrics, log records and incidents.
    pub receivers: Vec<ReceiverRecord>,
    /// What it reads.
    pub streams: StreamsRecord,
    /// How often it stalled itself, and for how long in all.
    pub stalls: u64,
    /// Their length.
    pub stalled_ns: u64,
    /// Its listener.
    pub listener: ListenerRecord,
    /// Processes from which nothing is read, by reason.
    pub not_read: BTreeMap<String, u64>,
    /// Processes that export the metrics of their runtime themselves, so that gcwatch exports no `dotnet.gc.*` of them
    /// (`metrics.runtime_metrics: auto`).
    pub exports_runtime: Vec<ExportsRuntimeRecord>,
    /// What it counted and did not do, because of a limit; by name, without what is 0.
    pub limits: BTreeMap<&'static str, u64>,
}

/// A process that exports the metrics of its runtime itself.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ExportsRuntimeRecord {
    /// Its pid.
    pub pid: u32,
    /// Its name.
    pub process: String,
    /// The file in its memory that shows it.
    pub sign: &'static str,
}

/// What gcwatch uses, as the kernel counts it. Null: cannot be read.
#[derive(Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct UsageRecord {
    /// CPU time in user mode, seconds.
    pub cpu_user_s: Option<f64>,
    /// CPU time in the kernel, seconds.
    pub cpu_system_s: Option<f64>,
    /// Resident bytes.
    pub resident: Option<u64>,
    /// Threads.
    pub threads: Option<u64>,
    /// Open files.
    pub descriptors: Option<u64>,
}

/// A part that must be alive.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PartRecord {
    /// Its name, one word.
    pub name: &'static str,
    /// How long ago it was alive.
    pub age_ns: u64,
    /// That is too long.
    pub late: bool,
}

/// A receiver.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ReceiverRecord {
    /// `traces`, `metrics`, `logs`, `incidents`, `evidence`.
    pub signal: &'static str,
    /// Which one, without what may be secret.
    pub name: String,
    /// `off`, `idle` (nothing was sent yet), `ok`, `failing`, `unsupported`.
    pub state: &'static str,
    /// Items that wait or are being sent.
    pub waiting: u64,
    /// Items that it accepted.
    pub sent: u64,
    /// Items that were dropped, by reason; without what is 0.
    pub dropped: BTreeMap<&'static str, u64>,
    /// Requests that failed, by reason; without what is 0.
    pub failures: BTreeMap<&'static str, u64>,
    /// The newest error; it is kept after a recovery.
    pub last_error: Option<String>,
    /// When that was, RFC 3339.
    pub last_error_at: Option<String>,
}

/// All streams together.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct StreamsRecord {
    /// Processes whose events are read.
    pub attached: u64,
    /// Events read, of the processes that are known now.
    pub events: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Events that runtimes dropped.
    pub lost_events: u64,
    /// The longest lag of a process.
    pub lag_ns: Option<u64>,
    /// Collections since gcwatch began.
    pub collections: u64,
    /// Spans since gcwatch began.
    pub spans: u64,
}

/// The listener.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct ListenerRecord {
    /// Pages that follow by events now.
    pub viewers: usize,
    /// How many there may be.
    pub most_viewers: usize,
}
