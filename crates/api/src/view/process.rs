//! One process, and one of its collections.

use gc_advice::change::ChangeRecord;
use gc_advice::sizing::SizingRecord;
use incidents::IncidentRecord;
use rule_engine::account::AccountRecord;
use rule_engine::ledger::Ledger;
use rule_engine::rule::Role;
use schemars::JsonSchema;
use serde::Serialize;

use super::ProcessRow;

/// Response of `/api/v1/processes/PID`.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct ProcessRecord {
    /// Time of the response, in Unix milliseconds.
    pub at_ms: u64,
    /// Revision, which changes whenever new data of the process is available.
    pub revision: u64,
    /// Row of the process in the overview.
    pub process: ProcessRow,
    /// URL template of a page with figures of the service, with the placeholders `{service}`, `{from}` and others
    /// (`web.grafana_url`); null if it is not configured.
    pub grafana_url: Option<String>,
    /// Attributes of the resource.
    pub resource: serde_json::Map<String, serde_json::Value>,
    /// Current memory of the process.
    pub memory: MemoryRecord,
    /// History of the last 30 minutes.
    pub history: HistoryColumns,
    /// Start of the history on disk (`/api/v1/processes/PID/history`), in Unix milliseconds; null if no history is on
    /// disk.
    pub kept_from_ms: Option<u64>,
    /// The newest collections, at most 512, with one point each.
    pub pauses: PauseColumns,
    /// Reasons of collections since the first attach, by descending stopped time.
    pub causes: Vec<CauseRecord>,
    /// Stopped time since the first attach by cause; the parts add up.
    pub account: AccountRecord,
    /// Stopped time of the last minutes by cause; null if the process was never stopped.
    pub account_recent: Option<AccountRecord>,
    /// The newest collections that are kept in full, newest first.
    pub newest: Vec<CollectionLine>,
    /// The longest collections of the last 30 minutes that are kept in full, longest first.
    pub longest: Vec<CollectionLine>,
    /// Configuration of the collector.
    pub settings: Vec<SettingRecord>,
    /// Incidents of the process: open incidents, then closed incidents.
    pub incidents: Vec<IncidentRecord>,
    /// Changes of the configuration of the process's service, newest first, at most four. Each compares the measures
    /// before and after the change.
    pub changes: Vec<ChangeRecord>,
    /// Memory that the process's service needs, from the profile of its newest configuration; null if the service has
    /// no profile yet.
    pub sizing: Option<SizingRecord>,
    /// Notes in addition to the incidents: rules that hold and report no problem.
    pub notes: Vec<NoteRecord>,
    /// Requests of the last minute; null if gcwatch does not observe requests (`requests.mode`). The requests that lost
    /// the most time are served at `/api/v1/evidence/requests/PID`.
    pub requests: Option<RequestsOfMinute>,
    /// Figures about reading the stream.
    pub stream: StreamFigures,
    /// Facts that were not observed, with the reasons.
    pub unseen: Vec<UnobservedFact>,
}

/// A rule that holds and reports no problem: a note or a cause.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct NoteRecord {
    /// Id of the rule.
    pub rule: String,
    /// Role of the rule.
    pub role: Role,
    /// Title of the rule.
    pub title: String,
    /// Description of the event, in one sentence.
    pub summary: String,
    /// Recommended action.
    pub remedy: String,
    /// Time since which the rule holds, RFC 3339.
    pub since: Option<String>,
}

/// The requests of the last minute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RequestsOfMinute {
    /// Number of requests whose lost time is known.
    pub known: u64,
    /// Number of requests that a collection stopped.
    pub hit: u64,
}

/// Memory of a process by kind. Null if unknown.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct MemoryRecord {
    /// Bytes of objects after the newest collection, without the free space between them.
    pub heap_live: Option<u64>,
    /// Bytes of free space between objects.
    pub heap_free: Option<u64>,
    /// Bytes of objects and free space.
    pub heap_after: Option<u64>,
    /// Bytes that the heap had committed at the newest collection (.NET 8 and later).
    pub heap_committed: Option<u64>,
    /// Maximum bytes that the heap can commit; null also if there is no limit.
    pub heap_limit: Option<u64>,
    /// Sentence that qualifies the limit if the runtime does not see the limit of the container, or does not report its
    /// own limit; null otherwise.
    pub heap_limit_note: Option<String>,
    /// Number of heaps.
    pub heap_count: Option<u32>,
    /// Load of the machine or of the container as seen by the runtime, in percent.
    pub load_percent: Option<u32>,
    /// Resident bytes of the process.
    pub resident: Option<u64>,
    /// Private (anonymous) bytes, resident or swapped out.
    pub private: Option<u64>,
    /// Bytes that the container uses, without pages of files that can be freed immediately.
    pub container_working_set: Option<u64>,
    /// Bytes that the container uses, including pages of files that can be freed immediately.
    pub container_usage: Option<u64>,
    /// Memory limit of the container in bytes.
    pub container_limit: Option<u64>,
    /// Memory ledger. The lines add up to the memory in use.
    pub ledger: Option<Ledger>,
    /// Level, trend and age of the memory that limits apply to.
    pub trends: TrendsRecord,
}

/// Level, trend and age of the memory of a process: the facts on which verdicts on memory are based. Null if unknown.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct TrendsRecord {
    /// The container's memory that the kernel cannot reclaim.
    pub container: TrendRecord,
    /// Private memory of the process.
    pub process: TrendRecord,
    /// Live bytes of the heap after the newest full collection.
    pub heap: TrendRecord,
    /// Heap bytes that no full collection has visited.
    pub unvisited: Option<u64>,
    /// Seconds since the newest full collection, or since the first collection if no full collection was observed.
    pub full_collection_s: Option<u64>,
    /// Whether the latency mode prevents full collections (LowLatency, a no-GC region).
    pub full_kept_away: Option<bool>,
    /// Seconds since the process started.
    pub age_s: Option<u64>,
}

/// Level, trend and age of one kind of memory. Null if unknown.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct TrendRecord {
    /// The memory in bytes.
    pub bytes: Option<u64>,
    /// Share of the smallest applicable limit, 0 to 1 or more; null without a limit.
    pub level: Option<f64>,
    /// Growth over the last five minutes in bytes per minute: the slope of the lower envelope, without heap bytes that
    /// no full collection has visited; 0 if the memory does not grow.
    pub growth_per_minute: Option<i64>,
    /// Growth over the last hour in bytes per minute.
    pub growth_per_minute_1h: Option<i64>,
    /// Seconds since the growth started; null if the memory does not grow.
    pub growing_s: Option<u64>,
}

/// Columns of equal length. Each entry covers `bucket_ms`, which is ten seconds in the last 30 minutes. Empty intervals
/// have no entry.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct HistoryColumns {
    /// Length of an interval.
    pub bucket_ms: u64,
    /// Maximum age of the history.
    pub span_ms: u64,
    /// Time of the first attach, in Unix milliseconds; null if unknown. No data exists for earlier times.
    pub attached_ms: Option<u64>,
    /// Start of each interval, in Unix milliseconds.
    pub start_ms: Vec<u64>,
    /// Time for which the managed threads were suspended.
    pub stopped_ns: Vec<u64>,
    /// Duration of the longest pause of the collections that ended in the interval.
    pub longest_ns: Vec<Option<u64>>,
    /// 99th percentile of the pauses. The value is at most 50 % too high.
    pub p99_ns: Vec<Option<u64>>,
    /// Number of collections that ended in the interval.
    pub collections: KindColumns,
    /// Bytes allocated.
    pub allocated: Vec<Option<u64>>,
    /// Whether the true allocation is higher, because the allocation before at least one collection is unknown.
    pub allocated_lower_bound: Vec<bool>,
    /// Bytes in each generation after the last collection.
    pub heap: HeapColumns,
    /// Bytes that the heap had committed.
    pub committed: Vec<Option<u64>>,
    /// Bytes that the container used.
    pub container_memory: Vec<Option<u64>>,
    /// Number of collections that overlap a loss of events.
    pub lossy: Vec<u32>,
}

/// Number of collections by generation and kind.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct KindColumns {
    /// Collections of generation 0.
    pub gen0: Vec<u32>,
    /// Collections of generation 1.
    pub gen1: Vec<u32>,
    /// Collections of generation 2 that are not background collections.
    pub gen2: Vec<u32>,
    /// Background collections.
    pub background: Vec<u32>,
    /// Collections whose generation or type was not observed.
    pub unknown: Vec<u32>,
    /// Collections of all kinds that were requested by code.
    pub induced: Vec<u32>,
}

/// Bytes by generation.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct HeapColumns {
    /// Generation 0.
    pub gen0: Vec<Option<u64>>,
    /// Generation 1.
    pub gen1: Vec<Option<u64>>,
    /// Generation 2.
    pub gen2: Vec<Option<u64>>,
    /// Large objects.
    pub loh: Vec<Option<u64>>,
    /// Pinned objects.
    pub poh: Vec<Option<u64>>,
}

/// Columns of equal length. Each entry is one collection. The entries are in the order in which the collections were
/// observed.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct PauseColumns {
    /// Number of the collection.
    pub number: Vec<u64>,
    /// Start of the collection, in Unix milliseconds.
    pub start_ms: Vec<u64>,
    /// Duration for which the collection stopped the process.
    pub pause_ns: Vec<Option<u64>>,
    /// Generation of the collection.
    pub generation: Vec<Option<u64>>,
    /// Type: `blocking`, `background` or `foreground`.
    #[serde(rename = "type")]
    pub gc_type: Vec<Option<String>>,
    /// Reason for the collection.
    pub reason: Vec<Option<String>>,
    /// Whether the collection overlaps a loss of events.
    pub lossy: Vec<bool>,
}

/// The collections with the same reason, generation and type. A value is null if it was not observed.
#[derive(Debug, Serialize, JsonSchema)]
pub struct CauseRecord {
    /// Reason for the collections; null if it was not observed.
    pub reason: Option<String>,
    /// Generation of the collections.
    pub generation: Option<u32>,
    /// Type: `blocking`, `background` or `foreground`.
    #[serde(rename = "type")]
    pub gc_type: Option<String>,
    /// Whether a tool, not the program, requested the collections for heap dumps.
    pub requested_by_tool: bool,
    /// Whether this row is for all collections without a separate row.
    pub rest: bool,
    /// Number of collections.
    pub count: u64,
    /// Number of collections with unknown pause.
    pub unknown_pauses: u64,
    /// Sum of the known pauses.
    pub pause_ns: u64,
    /// Duration of the longest pause; null if no pause is known.
    pub longest_ns: Option<u64>,
}

/// A collection as a line. Unknown values are null.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct CollectionLine {
    /// Number of the collection.
    pub number: u32,
    /// Start of the collection, RFC 3339.
    pub start: Option<String>,
    /// Generation of the collection.
    pub generation: Option<u32>,
    /// Type: `blocking`, `background` or `foreground`.
    #[serde(rename = "type")]
    pub gc_type: Option<String>,
    /// Reason for the collection.
    pub reason: Option<String>,
    /// Whether a tool, not the program, requested the collection for a heap dump; null if the collection has another
    /// reason, or if its origin is unknown.
    pub requested_by_tool: Option<bool>,
    /// Duration for which the collection stopped the process.
    pub pause_ns: Option<i64>,
    /// Part of the pause before all threads were suspended.
    pub suspend_ns: Option<i64>,
    /// Bytes in all generations before the collection.
    pub heap_before: Option<u64>,
    /// Bytes in all generations after the collection.
    pub heap_after: Option<u64>,
    /// Bytes that survived the collection.
    pub promoted: Option<u64>,
    /// Whether the collection overlaps a loss of events.
    pub lossy: bool,
}

/// A configured value of the collector.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SettingRecord {
    /// Name of the setting, which is also the name of the resource attribute.
    pub name: String,
    /// Value of the setting.
    pub value: serde_json::Value,
    /// Meaning of the setting.
    pub description: &'static str,
}

/// Figures about reading a process's stream, since the first attach.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct StreamFigures {
    /// Number of sessions started.
    pub sessions: u64,
    /// Number of times the leftovers of another tool's session were removed.
    pub healings: u64,
    /// Number of bytes read.
    pub bytes: u64,
    /// Number of events read.
    pub events: u64,
    /// Number of events that the runtime dropped; null if the runtime does not number its events.
    pub lost_events: Option<u64>,
    /// Number of events whose payload could not be decoded.
    pub undecodable: u64,
    /// Number of collections that overlap a loss of events.
    pub lossy: u64,
    /// Number of collections with a part that was never observed.
    pub incomplete: u64,
    /// Number of suspensions without a collection.
    pub suspensions: u64,
    /// Number of objects whose finalizers have not run; null if unknown.
    pub finalizers_waiting: Option<u64>,
}

/// A fact that was not observed.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Unseen")]
pub struct UnobservedFact {
    /// Description of the fact.
    pub what: String,
    /// Reason, and the recommended action if there is one.
    pub why: String,
}

/// Response of `/api/v1/processes/PID/collections/N`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct CollectionRecord {
    /// Pid on the host.
    pub pid: u32,
    /// Display name of the process.
    pub name: String,
    /// Number of the collection.
    pub number: u64,
    /// Facts that are known about every collection of the last minutes.
    pub line: CollectionLine,
    /// The record of `kind: "gc"`; null if the collection is no longer kept in full.
    pub gc: Option<serde_json::Value>,
    /// Trace id, hexadecimal; null if the collection did not become spans, or is no longer kept in full.
    pub trace_id: Option<String>,
    /// URL template of a page that shows traces, with the placeholder `{trace_id}` (`web.trace_url`); null if it is not
    /// configured.
    pub trace_url: Option<String>,
    /// The previous collection; null if it is not remembered.
    pub previous: Option<Neighbour>,
    /// The next collection; null if it is not remembered.
    pub next: Option<Neighbour>,
}

/// A collection next to another collection. Unknown values are null.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Neighbour {
    /// Number of the collection.
    pub number: u64,
    /// Start of the collection, in Unix milliseconds.
    pub start_ms: u64,
    /// Generation of the collection.
    pub generation: Option<u64>,
    /// Duration for which the collection stopped the process.
    pub pause_ns: Option<u64>,
}

/// Reason why there is no record of a collection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CollectionLookupError {
    /// No process has this pid, or no data of the process was ever read.
    NoProcess,
    /// No remembered collection of the process has this number. The values are the oldest and the newest remembered
    /// numbers; `None` if no collection is remembered.
    NoNumber(Option<(u64, u64)>),
}
