//! The parts of the API records that `gcwatch top` displays.

use base::text::shown;
use rule_engine::ledger::Ledger;
use serde::{Deserialize, Deserializer};

/// Deserializes a text, shortens it to [`MAX_CHARS`] characters, and makes it safe to display ([`shown`]). Null becomes
/// an empty text.
fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Option::<String>::deserialize(deserializer).map(|text| clean(&text.unwrap_or_default()))
}

/// Deserializes a text like [`text`], but null or an empty text becomes `None`.
fn some_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    Option::<String>::deserialize(deserializer)
        .map(|text| text.map(|text| clean(&text)).filter(|text| !text.is_empty()))
}

/// Maximum length of a text, in characters.
const MAX_CHARS: usize = 400;

fn clean(text: &str) -> String {
    shown(&text.chars().take(MAX_CHARS).collect::<String>())
}

/// Response of `/api/v1/overview`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Overview {
    /// Time of the response, in Unix milliseconds.
    pub at_ms: u64,
    #[serde(deserialize_with = "some_text")]
    pub(super) host: Option<String>,
    pub(super) incidents: Vec<Incident>,
    pub(super) processes: Vec<Row>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Incident {
    #[serde(deserialize_with = "text")]
    pub(super) severity: String,
    #[serde(deserialize_with = "text")]
    pub(super) title: String,
    #[serde(deserialize_with = "text")]
    pub(super) summary: String,
    #[serde(deserialize_with = "text")]
    pub(super) remedy: String,
    #[serde(deserialize_with = "some_text")]
    pub(super) since: Option<String>,
    #[serde(deserialize_with = "some_text")]
    pub(super) until: Option<String>,
    #[serde(deserialize_with = "some_text")]
    pub(super) service: Option<String>,
    #[serde(deserialize_with = "some_text")]
    pub(super) process: Option<String>,
    pub(super) pid: Option<u32>,
    pub(super) causes: Vec<IncidentCause>,
    pub(super) evidence: Vec<Evidence>,
}

/// A cause of an incident.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct IncidentCause {
    #[serde(deserialize_with = "text")]
    pub(super) title: String,
    pub(super) share: Option<f64>,
}

/// Evidence gathered for an incident.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Evidence {
    #[serde(deserialize_with = "text")]
    pub(super) name: String,
    #[serde(deserialize_with = "text")]
    pub(super) text: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Row {
    pub(super) pid: u32,
    #[serde(deserialize_with = "text")]
    pub(super) name: String,
    #[serde(deserialize_with = "some_text")]
    pub(super) namespace: Option<String>,
    #[serde(deserialize_with = "some_text")]
    pub(super) pod: Option<String>,
    #[serde(deserialize_with = "some_text")]
    pub(super) runtime: Option<String>,
    #[serde(deserialize_with = "some_text")]
    pub(super) collector: Option<String>,
    #[serde(deserialize_with = "text")]
    pub(super) state: String,
    #[serde(deserialize_with = "some_text")]
    pub(super) reason: Option<String>,
    #[serde(deserialize_with = "some_text")]
    pub(super) detail: Option<String>,
    #[serde(deserialize_with = "some_text")]
    pub(super) remedy: Option<String>,
    #[serde(deserialize_with = "some_text")]
    pub(super) severity: Option<String>,
    pub(super) minute: Option<Minute>,
    pub(super) heap_after: Option<u64>,
    pub(super) heap_limit: Option<u64>,
    pub(super) container_memory: Option<u64>,
    pub(super) container_limit: Option<u64>,
    pub(super) memory: Option<MemoryLines>,
    pub(super) lost_events: Option<u64>,
    pub(super) spark: Option<Spark>,
}

impl Row {
    /// Returns whether the row has figures of the last minute or a severity.
    pub(super) fn is_read(&self) -> bool {
        self.minute.is_some() || self.severity.is_some()
    }
}

/// Memory of a process by kind, in bytes; each value is `None` if unknown.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default)]
pub(super) struct MemoryLines {
    pub(super) limit: Option<u64>,
    pub(super) peak: Option<u64>,
    pub(super) usage: Option<u64>,
    pub(super) live: Option<u64>,
    pub(super) not_looked_at: Option<u64>,
    pub(super) free: Option<u64>,
    pub(super) committed_unused: Option<u64>,
    pub(super) native: Option<u64>,
    pub(super) limit_never_reached: Option<u64>,
    pub(super) working_room: Option<u64>,
    pub(super) beyond_working_room: Option<u64>,
}

impl MemoryLines {
    /// Returns the bytes of all objects, regardless of whether a full collection has visited the objects. An unknown
    /// figure counts as 0. Returns `None` if both figures are unknown.
    pub(super) fn objects(&self) -> Option<u64> {
        let all = [self.live, self.not_looked_at];
        all.into_iter().flatten().reduce(u64::saturating_add)
    }

    /// Returns the sort key of rows: the sum of the limit that was never reached and the memory beyond working room. An
    /// unknown figure counts as 0. Returns `None` if both figures are unknown. Working room does not count, because the
    /// collector uses it.
    pub(super) fn order(&self) -> Option<u64> {
        let lines = [self.limit_never_reached, self.beyond_working_room];
        lines.into_iter().flatten().reduce(u64::saturating_add)
    }
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default)]
pub(super) struct Minute {
    pub(super) window_ns: u64,
    pub(super) stopped_share: Option<f64>,
    pub(super) longest_ns: Option<u64>,
    pub(super) p99_ns: Option<u64>,
    pub(super) gen0: u64,
    pub(super) gen1: u64,
    pub(super) gen2: u64,
    pub(super) background: u64,
    pub(super) allocated: Option<u64>,
    #[serde(default)]
    pub(super) allocated_lower_bound: bool,
}

impl Minute {
    /// Returns the rate per second of a count over the last minute, or `None` if the length of the window is 0.
    pub(super) fn rate(&self, count: u64) -> Option<f64> {
        (self.window_ns > 0).then(|| count as f64 / (self.window_ns as f64 / 1e9))
    }

    pub(super) fn collections(&self) -> u64 {
        self.gen0 + self.gen1 + self.gen2 + self.background
    }
}

/// The last 30 minutes as points of 30 s, the oldest first.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Spark {
    /// Share of stopped time, in per mille; `None` if unknown.
    pub(super) stopped: Vec<Option<u64>>,
}

/// Response of `/api/v1/processes/PID`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Process {
    pub(super) at_ms: u64,
    pub(super) process: Row,
    pub(super) memory: Memory,
    pub(super) history: History,
    pub(super) causes: Vec<Cause>,
    pub(super) newest: Vec<Line>,
    pub(super) incidents: Vec<Incident>,
    pub(super) unseen: Vec<UnobservedFact>,
}

/// Memory of a process by kind.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Memory {
    pub(super) heap_live: Option<u64>,
    pub(super) heap_free: Option<u64>,
    pub(super) heap_committed: Option<u64>,
    pub(super) resident: Option<u64>,
    pub(super) ledger: Option<Ledger>,
    pub(super) heap_limit_note: Option<String>,
}

/// The history as columns, with one entry per interval of `bucket_ms`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct History {
    pub(super) bucket_ms: u64,
    pub(super) start_ms: Vec<u64>,
    pub(super) stopped_ns: Vec<u64>,
    pub(super) longest_ns: Vec<Option<u64>>,
    pub(super) heap: Heap,
}

/// Bytes of each generation after the last collection in each interval; `None` if unknown.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Heap {
    pub(super) gen0: Vec<Option<u64>>,
    pub(super) gen1: Vec<Option<u64>>,
    pub(super) gen2: Vec<Option<u64>>,
    pub(super) loh: Vec<Option<u64>>,
    pub(super) poh: Vec<Option<u64>>,
}

impl Heap {
    /// Returns the sum of the known sizes of the generations in one interval, or `None` if no size is known. `place` is
    /// the index of the interval.
    pub(super) fn all(&self, place: usize) -> Option<u64> {
        let columns = [&self.gen0, &self.gen1, &self.gen2, &self.loh, &self.poh];
        let known = columns.iter().filter_map(|column| column.get(place).copied().flatten());
        known.fold(None, |sum: Option<u64>, bytes| {
            Some(sum.unwrap_or(0).saturating_add(bytes))
        })
    }
}

/// Collections with the same reason, generation and type, or the remaining collections if `rest` is true.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Cause {
    #[serde(deserialize_with = "some_text")]
    pub(super) reason: Option<String>,
    pub(super) generation: Option<u32>,
    #[serde(rename = "type", deserialize_with = "some_text")]
    pub(super) gc_type: Option<String>,
    pub(super) rest: bool,
    pub(super) count: u64,
    pub(super) pause_ns: u64,
    pub(super) longest_ns: Option<u64>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Line {
    pub(super) number: u32,
    #[serde(deserialize_with = "some_text")]
    pub(super) start: Option<String>,
    pub(super) generation: Option<u32>,
    #[serde(rename = "type", deserialize_with = "some_text")]
    pub(super) gc_type: Option<String>,
    #[serde(deserialize_with = "some_text")]
    pub(super) reason: Option<String>,
    pub(super) pause_ns: Option<i64>,
    pub(super) heap_before: Option<u64>,
    pub(super) heap_after: Option<u64>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct UnobservedFact {
    #[serde(deserialize_with = "text")]
    pub(super) what: String,
    #[serde(deserialize_with = "text")]
    pub(super) why: String,
}
