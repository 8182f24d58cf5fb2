//! The records of `/api/v1/targets`.

use schemars::JsonSchema;
use serde::Serialize;

/// A process: its identity, and the state of reading it. Values that are unknown or do not exist are null.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct TargetView {
    /// Pid on the host. For a process that is not visible to gcwatch (see `targets.sockets`), the pid in the name of
    /// its socket.
    pub pid: u32,
    /// Pid in the process's own pid namespace.
    pub ns_pid: Option<u32>,
    /// Name of the entry assembly, or of the executable if there is no entry assembly.
    pub name: String,
    /// `service.name` of the resource.
    pub service_name: Option<String>,
    /// Version of the runtime.
    pub runtime: Option<String>,
    /// State of monitoring: `found`, `excluded`, `over_limit`, `held_elsewhere`, `unattachable`, `attaching`,
    /// `attached`, `detached` or `ended`.
    pub state: &'static str,
    /// Reason for `unattachable` as one word, as in `gcwatch ps`.
    pub reason: Option<String>,
    /// Explanation of the state, in one sentence.
    pub detail: Option<String>,
    /// Start of the state, RFC 3339.
    pub since: Option<String>,
    /// Time of the first attach, RFC 3339, at which the totals start.
    pub first_attached: Option<String>,
    /// Number of sessions started.
    pub sessions: u64,
    /// Number of times the leftovers of another tool's session were removed from the process.
    pub healings: u64,
    /// Number of bytes read.
    pub bytes: u64,
    /// Number of events read.
    pub events: u64,
    /// Number of events that the runtime dropped; null if it does not number its events.
    pub lost_events: Option<u64>,
    /// Number of events whose payload could not be decoded.
    pub undecodable_events: u64,
    /// Number of collections observed.
    pub collections: u64,
    /// Number of collections that overlap a loss of events.
    pub lossy: u64,
    /// Number of collections with a part that was never observed.
    pub incomplete: u64,
    /// Number of the newest collection.
    pub last_collection: Option<u32>,
    /// Time from the end of the newest collection until it was processed, in nanoseconds.
    pub lag_ns: Option<u64>,
    /// Evidence that the process exports its own runtime metrics; null if there is no evidence.
    pub exports_runtime: Option<&'static str>,
    /// Attributes of the resource.
    pub resource: serde_json::Map<String, serde_json::Value>,
}
