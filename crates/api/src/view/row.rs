//! The overview: incidents, and a row for each process.

use std::collections::BTreeMap;

use gc_rules::incident::IncidentRecord;
use gc_rules::rule::Severity;
use schemars::JsonSchema;
use serde::Serialize;

/// `/api/v1/overview`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct OverviewRecord {
    /// When this was so, Unix milliseconds.
    pub at_ms: u64,
    /// The version of gcwatch.
    pub version: &'static str,
    /// The name of this host.
    pub host: Option<String>,
    /// Where figures of a service are shown, with `{service}`, `{from}` and others: `web.grafana_url`.
    pub grafana_url: Option<String>,
    /// False: gcwatch has not looked at all processes yet, or is ending.
    pub ready: bool,
    /// Open incidents, the most severe first; after them the newest that ended.
    pub incidents: Vec<IncidentRecord>,
    /// How many processes are in each state.
    pub states: BTreeMap<&'static str, u64>,
    /// Every .NET process that is known, by pid.
    pub processes: Vec<ProcessRow>,
    /// Processes that exited and are remembered, the newest first; `since` is when, `detail` why.
    pub exited: Vec<ProcessRow>,
}

/// A process in the overview.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct ProcessRow {
    /// The host's pid.
    pub pid: u32,
    /// When it started, in ticks of the kernel: with the pid, which run it is.
    pub start_time: u64,
    /// Its pid in its own pid namespace.
    pub ns_pid: Option<u32>,
    /// What it is called everywhere: the service's name where it is known, else the entry assembly.
    pub name: String,
    /// The entry assembly's name, else the executable's.
    pub process: String,
    /// `service.name`.
    pub service: Option<String>,
    /// `k8s.namespace.name`.
    pub namespace: Option<String>,
    /// `k8s.pod.name`.
    pub pod: Option<String>,
    /// `k8s.container.name`.
    pub container: Option<String>,
    /// The runtime's version.
    pub runtime: Option<String>,
    /// How the collector works: `workstation` or `server`, with `background` and `adapting` where that is known.
    pub collector: Option<String>,
    /// As in `/api/v1/targets`.
    pub state: &'static str,
    /// Why nothing is read, one word.
    pub reason: Option<String>,
    /// One sentence on the state.
    pub detail: Option<String>,
    /// What to do about it.
    pub remedy: Option<String>,
    /// When the state began.
    pub since: Option<String>,
    /// The highest severity of its open incidents.
    pub severity: Option<Severity>,
    /// Its open incidents.
    pub incidents: usize,
    /// The last minute; null: nothing was ever read.
    pub minute: Option<MinuteRecord>,
    /// Bytes in all generations after the newest collection.
    pub heap_after: Option<u64>,
    /// Bytes that the heap may commit at most.
    pub heap_limit: Option<u64>,
    /// Bytes that its container uses, without pages that can be freed at once.
    pub container_memory: Option<u64>,
    /// Bytes that its container may use.
    pub container_limit: Option<u64>,
    /// Where its memory is; null: not known yet.
    pub memory: Option<RowMemory>,
    /// Collections since the first attach.
    pub collections: u64,
    /// Number of the newest one.
    pub last_collection: Option<u32>,
    /// When that was, Unix milliseconds.
    pub last_collection_ms: Option<u64>,
    /// From its end until it was processed.
    pub lag_ns: Option<u64>,
    /// Events that the runtime dropped; null where it numbers nothing.
    pub lost_events: Option<u64>,
    /// Collections that lie in a loss of events.
    pub lossy: u64,
    /// Half an hour in 60 points. Null in events between which it has hardly changed: the one before holds.
    pub spark: Option<SparkRecord>,
}

/// Where the memory of a process and its container is, bytes; null: unknown.
#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
pub struct RowMemory {
    /// The smallest limit that applies; null also where there is none.
    pub limit: Option<u64>,
    /// The highest usage since the first attach, of one reading in 15 s.
    pub peak: Option<u64>,
    /// All that is in use.
    pub usage: Option<u64>,
    /// Live objects: old ones as of the newest full collection.
    pub live: Option<u64>,
    /// Old objects that no full collection has looked at.
    pub not_looked_at: Option<u64>,
    /// Free space between them.
    pub free: Option<u64>,
    /// What the collector has committed beyond its objects, as far as it is resident.
    pub committed_unused: Option<u64>,
    /// The process's other memory.
    pub native: Option<u64>,
    /// The limit without the peak.
    pub limit_never_reached: Option<u64>,
    /// `free` and `committed_unused` without the next line: the room in which the collector works. Without it, the
    /// process collects more often.
    pub working_room: Option<u64>,
    /// The part of `free` and `committed_unused` that no cycle between two full collections used, in the cycles that
    /// ended in the hour before the newest full collection; null before the second full collection, and if the runtime
    /// does not report committed memory.
    pub beyond_working_room: Option<u64>,
}

/// The last minute of a process: six whole buckets of ten seconds, and the one that is open.
#[derive(Debug, Serialize, JsonSchema)]
pub struct MinuteRecord {
    /// How long it really is: 60 to 70 s, less after the first attach.
    pub window_ns: u64,
    /// For how long the managed threads were suspended.
    pub stopped_ns: u64,
    /// The share of that, 0 to 1.
    pub stopped_share: Option<f64>,
    /// The longest pause of a collection.
    pub longest_ns: Option<u64>,
    /// Half of the pauses are no longer. Up to half too long: from classes of lengths.
    pub p50_ns: Option<u64>,
    /// 99 of a hundred pauses are no longer. Up to half too long.
    pub p99_ns: Option<u64>,
    /// Collections of generation 0.
    pub gen0: u64,
    /// Of generation 1.
    pub gen1: u64,
    /// Of generation 2 that stopped the process while they ran.
    pub gen2: u64,
    /// Background collections.
    pub background: u64,
    /// Of all, the ones that code asked for.
    pub induced: u64,
    /// Bytes allocated; null: no collection says.
    pub allocated: Option<u64>,
    /// More was allocated: of some collection it is not known how much before it.
    pub allocated_lower_bound: bool,
}

/// Half an hour in points of 30 s, the oldest first.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct SparkRecord {
    /// Share of the time stopped, per mille; null: not read, or nothing was seen.
    pub stopped: Vec<Option<u16>>,
    /// Bytes in the heap after the last collection, in KiB.
    pub heap: Vec<Option<u64>>,
}
