//! The overview: incidents, and one row per process.

use std::collections::BTreeMap;

use incidents::IncidentRecord;
use rule_engine::rule::Severity;
use schemars::JsonSchema;
use serde::Serialize;

/// Response of `/api/v1/overview`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct OverviewRecord {
    /// Time of the response, in Unix milliseconds.
    pub at_ms: u64,
    /// Version of gcwatch.
    pub version: &'static str,
    /// Name of this host; null if unknown.
    pub host: Option<String>,
    /// URL template of a page with figures of a service, with the placeholders `{service}`, `{from}` and others
    /// (`web.grafana_url`); null if it is not configured.
    pub grafana_url: Option<String>,
    /// Whether gcwatch has inspected all processes and is not shutting down.
    pub ready: bool,
    /// Open incidents, the most severe first, followed by the most recently closed incidents.
    pub incidents: Vec<IncidentRecord>,
    /// Number of processes in each state.
    pub states: BTreeMap<&'static str, u64>,
    /// All known .NET processes, by pid.
    pub processes: Vec<ProcessRow>,
    /// Remembered processes that have exited, the newest first. `since` is the exit time, `detail` the reason.
    pub exited: Vec<ProcessRow>,
}

/// A process in the overview. Values that are unknown or do not exist are null.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct ProcessRow {
    /// Pid on the host.
    pub pid: u32,
    /// Start time in kernel ticks, which identifies the run together with the pid.
    pub start_time: u64,
    /// Pid in the process's own pid namespace.
    pub ns_pid: Option<u32>,
    /// Display name: the name of the service if it is known, or of the entry assembly.
    pub name: String,
    /// Name of the entry assembly, or of the executable if there is no entry assembly.
    pub process: String,
    /// `service.name`.
    pub service: Option<String>,
    /// `k8s.namespace.name`.
    pub namespace: Option<String>,
    /// `k8s.pod.name`.
    pub pod: Option<String>,
    /// `k8s.container.name`.
    pub container: Option<String>,
    /// Version of the runtime.
    pub runtime: Option<String>,
    /// Operating mode of the collector: `workstation` or `server`, with `background` and `adapting` if known.
    pub collector: Option<String>,
    /// State of monitoring, as in `/api/v1/targets`.
    pub state: &'static str,
    /// Reason why the process is not read, as one word.
    pub reason: Option<String>,
    /// Explanation of the state, in one sentence.
    pub detail: Option<String>,
    /// Recommended action.
    pub remedy: Option<String>,
    /// Start of the state.
    pub since: Option<String>,
    /// Highest severity of the open incidents.
    pub severity: Option<Severity>,
    /// Number of open incidents.
    pub incidents: usize,
    /// Figures of the last minute; null if no data was ever read.
    pub minute: Option<MinuteRecord>,
    /// Bytes in all generations after the newest collection.
    pub heap_after: Option<u64>,
    /// Maximum bytes that the heap can commit.
    pub heap_limit: Option<u64>,
    /// Bytes that the container uses, without pages that can be freed immediately.
    pub container_memory: Option<u64>,
    /// Memory limit of the container in bytes.
    pub container_limit: Option<u64>,
    /// Memory by kind; null while unknown.
    pub memory: Option<RowMemory>,
    /// Number of collections since the first attach.
    pub collections: u64,
    /// Number of the newest collection.
    pub last_collection: Option<u32>,
    /// Time of the newest collection, in Unix milliseconds.
    pub last_collection_ms: Option<u64>,
    /// Time from the end of the newest collection until it was processed.
    pub lag_ns: Option<u64>,
    /// Number of events that the runtime dropped; null if it does not number its events.
    pub lost_events: Option<u64>,
    /// Number of collections that overlap a loss of events.
    pub lossy: u64,
    /// The last 30 minutes in 60 points. Null in an event if the points have hardly changed since the previous event;
    /// the points of the previous event then still apply.
    pub spark: Option<SparkRecord>,
}

/// Memory of a process and its container by kind, in bytes; null if unknown.
#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
pub struct RowMemory {
    /// The lowest limit that applies; null if no limit applies or the limit is unknown.
    pub limit: Option<u64>,
    /// Highest usage since the first attach, with one reading every 15 s.
    pub peak: Option<u64>,
    /// Memory in use.
    pub usage: Option<u64>,
    /// Live objects; old objects are as of the newest full collection.
    pub live: Option<u64>,
    /// Old objects that no full collection has looked at.
    pub not_looked_at: Option<u64>,
    /// Free space between objects.
    pub free: Option<u64>,
    /// Resident memory that the collector has committed beyond its objects.
    pub committed_unused: Option<u64>,
    /// The process's other memory.
    pub native: Option<u64>,
    /// The limit without the peak.
    pub limit_never_reached: Option<u64>,
    /// `free` and `committed_unused` without `beyond_working_room`: the room in which the collector works. With less
    /// room, the process collects more often.
    pub working_room: Option<u64>,
    /// The part of `free` and `committed_unused` that no cycle between two full collections used. The current cycle and
    /// the cycles that ended in the hour before the newest full collection count. Null before the second full
    /// collection, if the room of a collection in these cycles is unknown, or if the runtime does not report committed
    /// memory.
    pub beyond_working_room: Option<u64>,
}

/// The last minute of a process: six whole buckets of ten seconds, and the open bucket. Unknown values are null.
#[derive(Debug, Serialize, JsonSchema)]
pub struct MinuteRecord {
    /// Actual length: 60 to 70 s, or less shortly after the first attach.
    pub window_ns: u64,
    /// Time for which the managed threads were suspended.
    pub stopped_ns: u64,
    /// Share of the stopped time, 0 to 1.
    pub stopped_share: Option<f64>,
    /// Duration of the longest pause of a collection.
    pub longest_ns: Option<u64>,
    /// Median of the pauses, too high by at most half because lengths are counted in classes.
    pub p50_ns: Option<u64>,
    /// 99th percentile of the pauses, too high by at most half.
    pub p99_ns: Option<u64>,
    /// Number of collections of generation 0.
    pub gen0: u64,
    /// Number of collections of generation 1.
    pub gen1: u64,
    /// Number of collections of generation 2 that stopped the process while they ran.
    pub gen2: u64,
    /// Number of background collections.
    pub background: u64,
    /// Number of collections requested by code.
    pub induced: u64,
    /// Bytes allocated; null if no collection shows it.
    pub allocated: Option<u64>,
    /// Whether the true allocation is higher, because the allocation before some collection is unknown.
    pub allocated_lower_bound: bool,
}

/// The last 30 minutes in points of 30 s, the oldest first.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct SparkRecord {
    /// Share of stopped time per point, in per mille; null if the process was not read or no data was observed.
    pub stopped: Vec<Option<u16>>,
    /// Bytes in the heap after the last collection, in KiB.
    pub heap: Vec<Option<u64>>,
}
