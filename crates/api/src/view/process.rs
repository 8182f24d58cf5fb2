//! One process, and one of its collections.

use gc_rules::account::AccountRecord;
use gc_rules::incident::IncidentRecord;
use gc_rules::ledger::Ledger;
use gc_rules::rule::Role;
use schemars::JsonSchema;
use serde::Serialize;

use super::ProcessRow;

/// `/api/v1/processes/PID`.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct ProcessRecord {
    /// When this was so, Unix milliseconds.
    pub at_ms: u64,
    /// Changes when something was read of the process.
    pub revision: u64,
    /// Its row of the overview.
    pub process: ProcessRow,
    /// Where figures of its service are shown, with `{service}`, `{from}` and others: `web.grafana_url`.
    pub grafana_url: Option<String>,
    /// The attributes of its resource.
    pub resource: serde_json::Map<String, serde_json::Value>,
    /// Its memory, as far as it is known today.
    pub memory: MemoryRecord,
    /// The last half hour.
    pub history: HistoryColumns,
    /// Since when more is kept on disk, Unix milliseconds: `/api/v1/processes/PID/history`. Null: nothing is.
    pub kept_from_ms: Option<u64>,
    /// The newest collections, at most 512, one point each.
    pub pauses: PauseColumns,
    /// Why it collected since the first attach: what stopped it longest first.
    pub causes: Vec<CauseRecord>,
    /// What it was stopped for since the first attach: parts that add up.
    pub account: AccountRecord,
    /// The same of the last minutes; null: it was never stopped.
    pub account_recent: Option<AccountRecord>,
    /// The newest collections that are kept in full, newest first.
    pub newest: Vec<CollectionLine>,
    /// The longest of the last half hour that are kept in full, longest first.
    pub longest: Vec<CollectionLine>,
    /// The collector's configuration.
    pub settings: Vec<SettingRecord>,
    /// Its incidents: open ones, then those that ended.
    pub incidents: Vec<IncidentRecord>,
    /// What is worth knowing beside them: rules that hold and are no harm.
    pub notes: Vec<NoteRecord>,
    /// Its requests of the last minute; null: they are not observed (`requests.mode`). Those that lost most are served
    /// at `/api/v1/evidence/requests/PID`.
    pub requests: Option<RequestsOfMinute>,
    /// How its stream is read.
    pub stream: StreamFigures,
    /// What was not seen, and why.
    pub unseen: Vec<Unseen>,
}

/// A note, or a cause that holds: worth knowing, and no harm.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct NoteRecord {
    /// Id of the rule.
    pub rule: String,
    /// What it is for.
    pub role: Role,
    /// Its title.
    pub title: String,
    /// What happened, one sentence.
    pub summary: String,
    /// What to do.
    pub remedy: String,
    /// Since when it holds, RFC 3339.
    pub since: Option<String>,
}

/// The requests of the last minute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RequestsOfMinute {
    /// Those of which it is known what they lost.
    pub known: u64,
    /// Those that a collection stopped.
    pub hit: u64,
}

/// Where the memory of a process is. Null: unknown.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct MemoryRecord {
    /// Bytes of objects after the newest collection, without what is free between them.
    pub heap_live: Option<u64>,
    /// Free bytes between them.
    pub heap_free: Option<u64>,
    /// Both.
    pub heap_after: Option<u64>,
    /// Bytes that the heap had committed at the newest collection (.NET 8 and later).
    pub heap_committed: Option<u64>,
    /// Bytes that it may commit at most.
    pub heap_limit: Option<u64>,
    /// What people must know of that limit beside the number: the runtime does not see the container's, or does not
    /// say its own. A sentence.
    pub heap_limit_note: Option<String>,
    /// Number of heaps.
    pub heap_count: Option<u32>,
    /// Load of the machine or of the container as the runtime sees it, percent.
    pub load_percent: Option<u32>,
    /// Resident bytes of the process.
    pub resident: Option<u64>,
    /// Bytes of its own (anonymous), resident or swapped out.
    pub private: Option<u64>,
    /// Bytes that its container uses, without pages of files that can be freed at once.
    pub container_working_set: Option<u64>,
    /// The same with them.
    pub container_usage: Option<u64>,
    /// Bytes that the container may use.
    pub container_limit: Option<u64>,
    /// Where all of it is: the lines add up to what is in use.
    pub ledger: Option<Ledger>,
    /// Level, trend and age of the memory that limits relate to.
    pub trends: TrendsRecord,
}

/// Level, trend and age of the memory of a process: the facts that verdicts on memory rest on. Null: unknown.
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
    /// Seconds since the newest full collection; if none was observed, since the first collection.
    pub full_collection_s: Option<u64>,
    /// Whether the latency mode keeps full collections away (LowLatency, a no-GC region).
    pub full_kept_away: Option<bool>,
    /// Seconds since the process started.
    pub age_s: Option<u64>,
}

/// Level, trend and age of one memory.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct TrendRecord {
    /// The memory in bytes.
    pub bytes: Option<u64>,
    /// Share of the smallest limit that holds, 0 to 1 and above; null without a limit.
    pub level: Option<f64>,
    /// Growth over the last five minutes, bytes per minute: the slope of the lower envelope, without heap bytes that no
    /// full collection has visited. 0: it does not grow.
    pub growth_per_minute: Option<i64>,
    /// Growth over the last hour, bytes per minute.
    pub growth_per_minute_1h: Option<i64>,
    /// Seconds since that growth started; null if the memory does not grow.
    pub growing_s: Option<u64>,
}

/// Columns of the same length: one place is `bucket_ms`, ten seconds in the last half hour. Places without anything are
/// not there.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct HistoryColumns {
    /// Length of a place.
    pub bucket_ms: u64,
    /// How far back it may go.
    pub span_ms: u64,
    /// When the process was attached to first; before that nothing is known.
    pub attached_ms: Option<u64>,
    /// When each begins, Unix milliseconds.
    pub start_ms: Vec<u64>,
    /// For how long the managed threads were suspended.
    pub stopped_ns: Vec<u64>,
    /// The longest pause of a collection that ended in it.
    pub longest_ns: Vec<Option<u64>>,
    /// 99 of a hundred pauses are no longer; up to half too long.
    pub p99_ns: Vec<Option<u64>>,
    /// Collections that ended in it.
    pub collections: KindColumns,
    /// Bytes allocated.
    pub allocated: Vec<Option<u64>>,
    /// Where more was: of some collection it is not known how much before it.
    pub allocated_lower_bound: Vec<bool>,
    /// Bytes in each generation after the last collection.
    pub heap: HeapColumns,
    /// Bytes that the heap had committed.
    pub committed: Vec<Option<u64>>,
    /// Bytes that the container used.
    pub container_memory: Vec<Option<u64>>,
    /// Collections that lie in a loss of events.
    pub lossy: Vec<u32>,
}

/// Collections by generation and kind.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct KindColumns {
    /// Of generation 0.
    pub gen0: Vec<u32>,
    /// Of generation 1.
    pub gen1: Vec<u32>,
    /// Of generation 2, not in the background.
    pub gen2: Vec<u32>,
    /// In the background.
    pub background: Vec<u32>,
    /// Of which generation or type was not seen.
    pub unknown: Vec<u32>,
    /// Of all, the ones that code asked for.
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

/// Columns of the same length: one place is one collection, in the order in which they were observed.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct PauseColumns {
    /// Its number.
    pub number: Vec<u64>,
    /// When it began, Unix milliseconds.
    pub start_ms: Vec<u64>,
    /// How long it stopped the process.
    pub pause_ns: Vec<Option<u64>>,
    /// Its generation.
    pub generation: Vec<Option<u64>>,
    /// `blocking`, `background`, `foreground`.
    #[serde(rename = "type")]
    pub gc_type: Vec<Option<String>>,
    /// Why it began.
    pub reason: Vec<Option<String>>,
    /// Whether it lies in a loss of events.
    pub lossy: Vec<bool>,
}

/// The collections of one reason, generation and type.
#[derive(Debug, Serialize, JsonSchema)]
pub struct CauseRecord {
    /// Why they began; null: not seen.
    pub reason: Option<String>,
    /// Their generation.
    pub generation: Option<u32>,
    /// `blocking`, `background`, `foreground`.
    #[serde(rename = "type")]
    pub gc_type: Option<String>,
    /// A tool asked for them, for heap dumps, and not the program.
    pub requested_by_tool: bool,
    /// This row is for all that have no row of their own.
    pub rest: bool,
    /// How many.
    pub count: u64,
    /// Of those, of how many the pause is unknown.
    pub unknown_pauses: u64,
    /// Sum of the known pauses.
    pub pause_ns: u64,
    /// The longest one.
    pub longest_ns: Option<u64>,
}

/// A collection as a line.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct CollectionLine {
    /// Its number.
    pub number: u32,
    /// When it began, RFC 3339.
    pub start: Option<String>,
    /// Its generation.
    pub generation: Option<u32>,
    /// `blocking`, `background`, `foreground`.
    #[serde(rename = "type")]
    pub gc_type: Option<String>,
    /// Why it began.
    pub reason: Option<String>,
    /// A tool asked for it, for a heap dump, and not the program; null: it is another one, or that is not known.
    pub requested_by_tool: Option<bool>,
    /// How long it stopped the process.
    pub pause_ns: Option<i64>,
    /// Of that, until all threads were suspended.
    pub suspend_ns: Option<i64>,
    /// Bytes in all generations before it.
    pub heap_before: Option<u64>,
    /// And after it.
    pub heap_after: Option<u64>,
    /// Bytes that survived it.
    pub promoted: Option<u64>,
    /// It lies in a loss of events.
    pub lossy: bool,
}

/// A configured value of the collector.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SettingRecord {
    /// Its name, as the attribute of the resource.
    pub name: String,
    /// Its value.
    pub value: serde_json::Value,
    /// What it means.
    pub description: &'static str,
}

/// How a process's stream is read, since the first attach.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct StreamFigures {
    /// Sessions begun.
    pub sessions: u64,
    /// How often what another tool's session left behind was healed.
    pub healings: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Events read.
    pub events: u64,
    /// Events that the runtime dropped; null where it numbers nothing.
    pub lost_events: Option<u64>,
    /// Events whose payload could not be decoded.
    pub undecodable: u64,
    /// Collections that lie in a loss of events.
    pub lossy: u64,
    /// Collections of which a part was never seen.
    pub incomplete: u64,
    /// Suspensions in which no collection ran.
    pub suspensions: u64,
    /// Objects whose finalizers have not run.
    pub finalizers_waiting: Option<u64>,
}

/// Something that was not seen.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Unseen {
    /// What.
    pub what: String,
    /// Why, and what to do about it where there is something.
    pub why: String,
}

/// `/api/v1/processes/PID/collections/N`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct CollectionRecord {
    /// The host's pid.
    pub pid: u32,
    /// What the process is called.
    pub name: String,
    /// The collection's number.
    pub number: u64,
    /// What is known of every collection of the last minutes.
    pub line: CollectionLine,
    /// The record of `kind: "gc"`; null: it is not kept in full any more.
    pub gc: Option<serde_json::Value>,
    /// Its trace, hexadecimal; null: it did not become spans, or it is not kept in full any more.
    pub trace_id: Option<String>,
    /// Where traces are shown, with `{trace_id}`: `web.trace_url`.
    pub trace_url: Option<String>,
    /// The one before it, as far as it is remembered.
    pub previous: Option<Neighbour>,
    /// The one after it.
    pub next: Option<Neighbour>,
}

/// A collection beside another one.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Neighbour {
    /// Its number.
    pub number: u64,
    /// When it began, Unix milliseconds.
    pub start_ms: u64,
    /// Its generation.
    pub generation: Option<u64>,
    /// How long it stopped the process.
    pub pause_ns: Option<u64>,
}

/// Why there is no record of a collection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoCollection {
    /// There is no process of that pid, or nothing was ever read from it.
    NoProcess,
    /// The process has no collection of that number that is remembered. The oldest and the newest that are.
    NoNumber(Option<(u64, u64)>),
}
