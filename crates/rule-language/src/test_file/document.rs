//! The types of a test file.

use std::collections::BTreeMap;

use base::units::HumanDuration;
use rule_engine::engine::State;
use rule_engine::rule::Severity;
use schemars::JsonSchema;
use serde::Deserialize;

/// A file with tests of rules.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TestDocument {
    /// The version of the format: `gcwatch/v1`.
    #[serde(rename = "apiVersion")]
    pub api_version: String,
    /// Rule files, relative to this file, in their order.
    pub rule_files: Vec<String>,
    /// The tests.
    pub tests: Vec<Test>,
}

/// One test: events of one process, and the expected alerts.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Test {
    /// One sentence that states what the test shows.
    pub name: String,
    /// Start time, RFC 3339. Default: 2026-01-01T00:00:00Z. A recording has its own time.
    #[serde(default)]
    pub start: Option<String>,
    /// The process.
    #[serde(default)]
    pub process: Process,
    /// Recording, relative to this file, that replaces the events.
    #[serde(default)]
    pub recording: Option<String>,
    /// Number of times that the recording is played in sequence, to simulate a longer run. Default: 1.
    #[serde(default)]
    pub rounds: Option<u32>,
    /// Pid of the process in the recording. Default: the only process.
    #[serde(default)]
    pub pid: Option<u32>,
    /// The events, in any order.
    #[serde(default)]
    pub events: Vec<TestEvent>,
    /// Time for which the test continues after its last event or expectation.
    #[serde(default)]
    pub until: Option<HumanDuration>,
    /// Expected states at certain times.
    #[serde(default)]
    pub expect: Vec<Expectation>,
    /// All rules that fire at any time, in any order. An empty list means that no rule fires.
    #[serde(default)]
    pub fires: Option<Vec<String>>,
    /// Minimum severity that `fires` considers. Default: all.
    #[serde(default)]
    pub fires_from: Option<Severity>,
}

/// The process of a test.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Process {
    /// Pid of the process.
    pub pid: Option<u32>,
    /// Name of the process.
    pub name: Option<String>,
    /// Version of the runtime, such as `10.0.1`.
    pub runtime: Option<String>,
    /// Resource attributes, such as `k8s.namespace.name: shop`. Numbers and booleans are read as such.
    pub attributes: BTreeMap<String, String>,
    /// GC settings, such as `server: true`, `hard_limit: 200000000`.
    pub settings: BTreeMap<String, String>,
    /// Limits of the container: `memory_limit` in bytes, `cpu_limit` in CPUs.
    pub container: BTreeMap<String, String>,
}

/// An event: exactly one of `gc`, `suspension`, `stream`, `container`, `memory`, `open`, `service`, `watcher`, `end`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TestEvent {
    /// Time since the start. For a collection or suspension, its end.
    pub at: HumanDuration,
    /// A collection: fields of `gc.` by name, without that prefix. Other fields are unknown.
    #[serde(default)]
    pub gc: Option<BTreeMap<String, String>>,
    /// A suspension without a collection: `stopped_ms`, `suspend_ms`, `triggered`.
    #[serde(default)]
    pub suspension: Option<BTreeMap<String, String>>,
    /// Counters of the stream, such as `lost_events: 12`; also `finalizers_waiting`, `finalizer_cpu`, `host_load`,
    /// `host_cpus`, and `requests` and `requests_touched` of the last minute, which are gauges.
    #[serde(default)]
    pub stream: Option<BTreeMap<String, String>>,
    /// Usage of the container after this event: fields of `container.` by name, such as `memory_usage: 100000000`,
    /// `throttled_ratio: 0.5`.
    #[serde(default)]
    pub container: Option<BTreeMap<String, String>>,
    /// Memory of the process after this event, in bytes: `resident`, `private`.
    #[serde(default)]
    pub memory: Option<BTreeMap<String, String>>,
    /// Operation that starts at this event and is in progress until the next event of this kind.
    #[serde(default)]
    pub open: Option<UnfinishedOperation>,
    /// Facts about a service after this event: fields of `service.` by name. The test then evaluates rules `on:
    /// service`.
    #[serde(default)]
    pub service: Option<BTreeMap<String, String>>,
    /// Facts about gcwatch itself after this event: fields of `watcher.` by name. The test then evaluates rules `on:
    /// watcher`.
    #[serde(default)]
    pub watcher: Option<BTreeMap<String, String>>,
    /// The process exits.
    #[serde(default)]
    pub end: bool,
    /// Repetitions of the event.
    #[serde(default)]
    pub repeat: Option<Repeat>,
}

/// An operation in progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "Unfinished")]
pub enum UnfinishedOperation {
    /// A suspension.
    Stop,
    /// A blocking collection.
    Collection,
    /// A blocking collection that a tool requested for a heap dump.
    Dump,
    /// A background collection.
    Background,
    /// A round of the finalizer thread.
    Finalizers,
    /// No operation.
    Nothing,
}

/// Repetitions of an event.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Repeat {
    /// The total number of events.
    pub times: u32,
    /// Interval between the events.
    pub every: HumanDuration,
    /// Increments of fields per repetition.
    #[serde(default)]
    pub step: BTreeMap<String, f64>,
}

/// An expected state at a time.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Expectation {
    /// Time since the start.
    pub at: HumanDuration,
    /// The rule.
    pub rule: String,
    /// State of the rule.
    pub state: State,
    /// Number of times that the condition was true, if the rule fires.
    #[serde(default)]
    pub count: Option<u64>,
    /// The severity of the alert.
    #[serde(default)]
    pub severity: Option<Severity>,
    /// All labels of the alert.
    #[serde(default)]
    pub labels: Option<BTreeMap<String, String>>,
    /// The summary of the alert.
    #[serde(default)]
    pub summary: Option<String>,
    /// All annotations of the alert, without the summary.
    #[serde(default)]
    pub annotations: Option<BTreeMap<String, String>>,
}
