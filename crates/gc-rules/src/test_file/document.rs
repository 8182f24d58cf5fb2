//! The types of a test file.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::engine::State;
use crate::rule::Severity;
use strict_yaml::units::HumanDuration;

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

/// One test: what happens to one process, and what the rules say of it.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Test {
    /// What it shows, one sentence.
    pub name: String,
    /// When its time begins, RFC 3339. By default 2026-01-01T00:00:00Z; a recording has its own time.
    #[serde(default)]
    pub start: Option<String>,
    /// Who the process is.
    #[serde(default)]
    pub process: Process,
    /// A recording, relative to this file, instead of events.
    #[serde(default)]
    pub recording: Option<String>,
    /// How often the recording is played, one time behind the other: what the process would be if it did the same for longer. By
    /// default once.
    #[serde(default)]
    pub rounds: Option<u32>,
    /// Which process of the recording, by its pid; by default the only one.
    #[serde(default)]
    pub pid: Option<u32>,
    /// What happens, in any order.
    #[serde(default)]
    pub events: Vec<TestEvent>,
    /// How long the test goes on after its last event or expectation.
    #[serde(default)]
    pub until: Option<HumanDuration>,
    /// What must be at certain times.
    #[serde(default)]
    pub expect: Vec<Expectation>,
    /// Every rule that fires at any time, in any order; an empty list: nothing fires.
    #[serde(default)]
    pub fires: Option<Vec<String>>,
    /// The least severity that `fires` is about: `info`, `warning`, `error`, `critical`. By default all.
    #[serde(default)]
    pub fires_from: Option<Severity>,
}

/// Who the process is.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Process {
    /// Its pid.
    pub pid: Option<u32>,
    /// Its name.
    pub name: Option<String>,
    /// The runtime's version, as `10.0.1`.
    pub runtime: Option<String>,
    /// Attributes of its resource, as `k8s.namespace.name: shop`; numbers and truths are read as such.
    pub attributes: BTreeMap<String, String>,
    /// Settings of its collector, as `server: true`, `hard_limit: 200000000`.
    pub settings: BTreeMap<String, String>,
    /// Limits of its container: `memory_limit` in bytes, `cpu_limit` in CPUs.
    pub container: BTreeMap<String, String>,
}

/// Something that happens; exactly one of `gc`, `suspension`, `stream`, `container`, `open`, `end`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TestEvent {
    /// When, after the beginning. A collection and a suspension are told at their end.
    pub at: HumanDuration,
    /// A collection: fields of `gc.` by name, without that prefix. What is not given is unknown.
    #[serde(default)]
    pub gc: Option<BTreeMap<String, String>>,
    /// A stop without a collection: `stopped_ms`, `suspend_ms`, `triggered`.
    #[serde(default)]
    pub suspension: Option<BTreeMap<String, String>>,
    /// Counters of the stream, as `lost_events: 12`.
    #[serde(default)]
    pub stream: Option<BTreeMap<String, String>>,
    /// What its container uses from now on: fields of `container.` by name, as `memory_usage: 100000000`, `throttled_ratio: 0.5`.
    #[serde(default)]
    pub container: Option<BTreeMap<String, String>>,
    /// What begins now and does not end, until the next such event: `stop`, `collection`, `background`, or `nothing`.
    #[serde(default)]
    pub open: Option<Unfinished>,
    /// The process ends.
    #[serde(default)]
    pub end: bool,
    /// The event again and again.
    #[serde(default)]
    pub repeat: Option<Repeat>,
}

/// What is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Unfinished {
    /// A stop for the collector.
    Stop,
    /// A blocking collection.
    Collection,
    /// A background collection.
    Background,
    /// Nothing.
    Nothing,
}

/// An event again and again.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Repeat {
    /// How often in all.
    pub times: u32,
    /// The time between two.
    pub every: HumanDuration,
    /// What is added to fields from one to the next.
    #[serde(default)]
    pub step: BTreeMap<String, f64>,
}

/// What must be at a time.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Expectation {
    /// When, after the beginning.
    pub at: HumanDuration,
    /// The rule.
    pub rule: String,
    /// What it does then.
    pub state: State,
    /// How often the condition held, for one that fires.
    #[serde(default)]
    pub count: Option<u64>,
    /// All of its labels.
    #[serde(default)]
    pub labels: Option<BTreeMap<String, String>>,
    /// Its summary.
    #[serde(default)]
    pub summary: Option<String>,
    /// All of its annotations, without the summary.
    #[serde(default)]
    pub annotations: Option<BTreeMap<String, String>>,
}
