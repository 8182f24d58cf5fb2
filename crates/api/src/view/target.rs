//! The records of `/api/v1/targets`.

use schemars::JsonSchema;
use serde::Serialize;

/// One process: who it is, and how it is read.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct TargetView {
    /// The host's pid; of a process that is not visible to gcwatch (see `targets.sockets`), the one in its socket's
    /// name.
    pub pid: u32,
    /// Its pid in its own pid namespace.
    pub ns_pid: Option<u32>,
    /// The entry assembly's name, else the executable's.
    pub name: String,
    /// `service.name` of its resource.
    pub service_name: Option<String>,
    /// The runtime's version.
    pub runtime: Option<String>,
    /// `found`, `excluded`, `over_limit`, `held_elsewhere`, `unattachable`, `attaching`, `attached`, `detached`,
    /// `ended`.
    pub state: &'static str,
    /// For `unattachable`: one word, as in `gcwatch ps`.
    pub reason: Option<String>,
    /// One sentence on the state.
    pub detail: Option<String>,
    /// When the state began, RFC 3339.
    pub since: Option<String>,
    /// When it was attached to for the first time, RFC 3339: where its totals begin.
    pub first_attached: Option<String>,
    /// Sessions begun.
    pub sessions: u64,
    /// How often what another tool's session left behind in it was healed.
    pub healings: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Events read.
    pub events: u64,
    /// Events that the runtime dropped; null where it numbers nothing.
    pub lost_events: Option<u64>,
    /// Events whose payload could not be decoded.
    pub undecodable_events: u64,
    /// Collections observed.
    pub collections: u64,
    /// Of those, how many lie in a loss of events.
    pub lossy: u64,
    /// Of those, of how many a part was never seen.
    pub incomplete: u64,
    /// Number of the newest one.
    pub last_collection: Option<u32>,
    /// From its end until it was processed, nanoseconds.
    pub lag_ns: Option<u64>,
    /// What shows that it exports the metrics of its runtime itself; null: nothing does.
    pub exports_runtime: Option<&'static str>,
    /// The attributes of its resource.
    pub resource: serde_json::Map<String, serde_json::Value>,
}
