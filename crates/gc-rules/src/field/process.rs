//! `process.*`, `settings.*`, `container.*`, `stream.*`, `open.*`.

use super::{Scope, fields};
use crate::value::Value;

/// What is known of a process: the attributes of its resource, which include the settings of its collector and, in a container, its limits.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ProcessFacts {
    /// The host's pid; in a recording, the pid that the stream names.
    pub pid: Option<u32>,
    /// The name that people know it by.
    pub name: Option<Box<str>>,
    /// The runtime's version, as `10.0.1`.
    pub runtime: Option<Box<str>>,
    attributes: Vec<(Box<str>, FactValue)>,
}

/// The value of an attribute.
#[derive(Debug, Clone, PartialEq)]
pub enum FactValue {
    /// A text.
    Text(Box<str>),
    /// A whole number.
    Int(i64),
    /// A number.
    Double(f64),
    /// True or false.
    Bool(bool),
}

impl FactValue {
    /// The text; `None` for what is none.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    fn value(&self) -> Value<'_> {
        match self {
            Self::Text(text) => Value::Text(text),
            Self::Int(number) => Value::Int(*number),
            Self::Double(number) => Value::Double(*number),
            Self::Bool(truth) => Value::Bool(*truth),
        }
    }
}

impl ProcessFacts {
    /// The facts of a run: who it is, and the attributes of its resource. A number that is NaN is no fact.
    pub fn new(
        pid: Option<u32>,
        name: Option<&str>,
        runtime: Option<&str>,
        attributes: impl IntoIterator<Item = (Box<str>, FactValue)>,
    ) -> Self {
        let is_known =
            |(_, value): &(Box<str>, FactValue)| !matches!(value, FactValue::Double(number) if number.is_nan());
        Self {
            pid,
            name: name.map(Into::into),
            runtime: runtime.map(Into::into),
            attributes: attributes.into_iter().filter(is_known).collect(),
        }
    }

    /// An attribute of the resource; `None`: it has none of that name.
    pub fn attribute(&self, name: &str) -> Option<&FactValue> {
        self.attributes
            .iter()
            .find(|(known, _)| **known == *name)
            .map(|(_, value)| value)
    }

    /// The attributes of the resource.
    pub fn attributes(&self) -> impl Iterator<Item = (&str, &FactValue)> {
        self.attributes.iter().map(|(name, value)| (&**name, value))
    }
}

/// How well a process is read, and what is under way in it. Counters are since the first attach.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct StreamFacts {
    /// When the process was first attached to, Unix nanoseconds; in a recording, its beginning.
    pub since_unix_ns: Option<u64>,
    /// Events delivered.
    pub events: Option<u64>,
    /// Events that the runtime dropped; `None` where it numbers nothing.
    pub lost_events: Option<u64>,
    /// Events whose payload could not be decoded.
    pub undecodable: Option<u64>,
    /// Sessions begun.
    pub sessions: Option<u64>,
    /// How late the newest collection was told, nanoseconds after its end.
    pub lag_ns: Option<u64>,
    /// When the newest event of a collection was, Unix nanoseconds.
    pub newest_unix_ns: Option<u64>,
    /// What has begun and not ended.
    pub open: Open,
    /// What its container may use and does use; counters are since the first attach, too.
    pub container: ContainerFacts,
}

/// What the container of a process uses. Counters are since the first attach; `None`: unknown.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ContainerFacts {
    /// Memory in use with the pages of files, bytes.
    pub memory_usage: Option<u64>,
    /// The same without pages of files that were not used lately, bytes.
    pub memory_working_set: Option<u64>,
    /// Processes that were killed because the memory limit was met.
    pub oom_kills: Option<u64>,
    /// How often the memory limit was met.
    pub memory_limit_hits: Option<u64>,
    /// How often a process was slowed down because the group was over `memory.high`.
    pub memory_high_events: Option<u64>,
    /// Periods of the CPU limit in which something ran.
    pub cpu_periods: Option<u64>,
    /// Those of them that were CPU-throttled.
    pub throttled_periods: Option<u64>,
    /// For how long it was CPU-throttled, nanoseconds, summed over its CPUs.
    pub throttled_ns: Option<u64>,
    /// Which share of the periods between the last two readings was throttled, 0 to 1.
    pub throttled_ratio: Option<f64>,
}

/// What has begun and not ended, Unix nanoseconds of its beginning; `None`: nothing of the kind is open.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Open {
    /// The oldest stop for the collector: SuspendEEBegin without RestartEEEnd.
    pub stop: Option<u64>,
    /// The oldest blocking or foreground collection: GCStart without GCEnd.
    pub collection: Option<u64>,
    /// The background collection: GCStart without GCEnd.
    pub background: Option<u64>,
}

fn text(text: Option<&str>) -> Option<Value<'_>> {
    text.map(Value::Text)
}

fn count(count: Option<u64>) -> Option<Value<'static>> {
    count.map(|count| Value::Int(i64::try_from(count).unwrap_or(i64::MAX)))
}

fn attribute<'a>(scope: &Scope<'a>, name: &str) -> Option<Value<'a>> {
    scope.process.attribute(name).map(FactValue::value)
}

/// Part `index` of a version, as 10 of `10.0.1`.
fn version(runtime: Option<&str>, index: usize) -> Option<Value<'static>> {
    let part = runtime?.split(['.', '-', '+']).nth(index)?;
    part.parse().ok().map(Value::Int)
}

/// The working set as a share of the limit.
fn used<'a>(scope: &Scope<'a>) -> Option<Value<'a>> {
    let Some(Value::Int(limit @ 1..)) = attribute(scope, "gcwatch.container.memory.limit") else {
        return None;
    };
    Some(Value::Double(
        scope.stream.container.memory_working_set? as f64 / limit as f64,
    ))
}

/// Seconds from then to now; 0 where then is later.
fn age(scope: &Scope<'_>, then: Option<u64>) -> Option<Value<'static>> {
    then.map(|then| Value::Double(scope.now_unix_ns.saturating_sub(then) as f64 / 1e9))
}

/// What is open, in seconds: nothing open is 0, not unknown.
fn open(scope: &Scope<'_>, begun: Option<u64>) -> Option<Value<'static>> {
    age(scope, Some(begun.unwrap_or(scope.now_unix_ns)))
}

fields! { FIELDS Process
    "process.pid" Int "" "Its pid on the host; in a recording, the pid that the stream names."
        = |s| s.process.pid.map(|pid| Value::Int(pid.into()));
    "process.name" Text "" "The name that people know it by: the entry assembly's, else the executable's."
        = |s| text(s.process.name.as_deref());
    "process.runtime" Text "" "The runtime's version, as `10.0.1`."
        = |s| text(s.process.runtime.as_deref());
    "process.runtime_major" Int "" "The first number of the runtime's version."
        = |s| version(s.process.runtime.as_deref(), 0);
    "process.runtime_minor" Int "" "The second number of the runtime's version."
        = |s| version(s.process.runtime.as_deref(), 1);
    "process.service" Text "" "Its `service.name`."
        = |s| attribute(s, "service.name");
    "process.user" Text "" "The user that it runs as: the name, else the number. Unknown in a recording."
        = |s| attribute(s, "process.owner");
    "process.executable" Text "" "Path of the executable as the process sees it. Unknown in a recording."
        = |s| attribute(s, "process.executable.path");
    "process.watched_s" Double "s" "Seconds since it was first attached to; in a recording, since its beginning."
        = |s| age(s, s.stream.since_unix_ns);
    "settings.server" Bool "" "Server GC: one heap per core. Settings are read from .NET 9 and later (CoreCLR); elsewhere they are unknown."
        = |s| attribute(s, "dotnet.gc.settings.server");
    "settings.concurrent" Bool "" "Background collections are allowed."
        = |s| attribute(s, "dotnet.gc.settings.concurrent");
    "settings.large_pages" Bool "" "The heap uses large pages."
        = |s| attribute(s, "dotnet.gc.settings.large_pages");
    "settings.hard_limit" Int "bytes" "Most bytes that the heap may commit; unknown without a limit."
        = |s| attribute(s, "dotnet.gc.settings.hard_limit");
    "settings.loh_threshold" Int "bytes" "From which size on an object goes to the large object heap."
        = |s| attribute(s, "dotnet.gc.settings.loh_threshold");
    "settings.physical_memory" Int "bytes" "The physical memory that the collector was told to reckon with; unknown when it was not."
        = |s| attribute(s, "dotnet.gc.settings.physical_memory");
    "settings.gen0_min_budget" Int "bytes" "Configured least budget of generation 0 (GCgen0size); unknown when it was not."
        = |s| attribute(s, "dotnet.gc.settings.gen0_min_budget");
    "settings.gen0_max_budget" Int "bytes" "Configured largest budget of generation 0; unknown when it was not."
        = |s| attribute(s, "dotnet.gc.settings.gen0_max_budget");
    "settings.high_memory_percent" Int "percent" "Configured memory load from which on the collector works harder; unknown when it was not."
        = |s| attribute(s, "dotnet.gc.settings.high_memory_percent");
    "settings.dynamic_adaptation" Bool "" "True once the number of heaps was seen to follow the application's size (DATAS); else unknown."
        = |s| attribute(s, "dotnet.gc.settings.dynamic_adaptation");
    "container.memory_limit" Int "bytes" "The memory limit of its container; unknown outside one."
        = |s| attribute(s, "gcwatch.container.memory.limit");
    "container.memory_usage" Int "bytes" "The memory in use in its container, with the pages of files. Read every 15 s, as all that follow; unknown in a recording."
        = |s| count(s.stream.container.memory_usage);
    "container.memory_working_set" Int "bytes" "The same without pages of files that were not used lately: what counts when the limit is met."
        = |s| count(s.stream.container.memory_working_set);
    "container.memory_used_ratio" Double "ratio" "The working set as a share of the limit, 0 to 1; unknown without a limit."
        = used;
    "container.oom_kills" Int "" "Processes of its container that were killed because the memory limit was met, since the first attach."
        = |s| count(s.stream.container.oom_kills);
    "container.memory_limit_hits" Int "" "How often its container met the memory limit, since the first attach."
        = |s| count(s.stream.container.memory_limit_hits);
    "container.memory_high_events" Int "" "How often processes of its container were slowed down because it was over memory.high, since the first attach; unknown with cgroup version 1."
        = |s| count(s.stream.container.memory_high_events);
    "container.cpu_limit" Double "" "CPUs that its container may use; unknown without a limit."
        = |s| attribute(s, "gcwatch.container.cpu.limit");
    "container.cpu_periods" Int "" "Periods of the CPU limit in which its container ran, since the first attach; unknown without a limit."
        = |s| count(s.stream.container.cpu_periods);
    "container.throttled_periods" Int "" "Those of them in which it stood still because the CPU limit was used up."
        = |s| count(s.stream.container.throttled_periods);
    "container.throttled_s" Double "s" "For how long it stood still because of the CPU limit, summed over its CPUs, since the first attach."
        = |s| s.stream.container.throttled_ns.map(|ns| Value::Double(ns as f64 / 1e9));
    "container.throttled_ratio" Double "ratio" "Which share of the periods between the last two readings was throttled, 0 to 1; unknown without a CPU limit."
        = |s| s.stream.container.throttled_ratio.map(Value::Double);
    "container.id" Text "" "The id of its container; unknown outside one."
        = |s| attribute(s, "container.id");
    "container.image" Text "" "The image of its container, without tag and digest; known where Kubernetes is asked."
        = |s| attribute(s, "container.image.name");
    "container.name" Text "" "The name of its container in its pod; known where Kubernetes is asked."
        = |s| attribute(s, "k8s.container.name");
    "container.pod" Text "" "The name of its pod; known where Kubernetes is asked."
        = |s| attribute(s, "k8s.pod.name");
    "container.namespace" Text "" "The namespace of its pod; known where Kubernetes is asked."
        = |s| attribute(s, "k8s.namespace.name");
}

fields! { STREAM_FIELDS Stream
    "stream.events" Int "" "Events delivered since the first attach."
        = |s| count(s.stream.events);
    "stream.lost_events" Int "" "Events that the runtime dropped since the first attach; unknown where it numbers nothing."
        = |s| count(s.stream.lost_events);
    "stream.undecodable" Int "" "Events whose payload could not be decoded since the first attach."
        = |s| count(s.stream.undecodable);
    "stream.sessions" Int "" "Sessions begun in it; more than one: it was attached to again."
        = |s| count(s.stream.sessions);
    "stream.lag_s" Double "s" "How late the newest collection was told, after its end. Unknown in a recording."
        = |s| s.stream.lag_ns.map(|ns| Value::Double(ns as f64 / 1e9));
    "stream.silent_s" Double "s" "Seconds since the newest event of a collection; unknown before the first one."
        = |s| age(s, s.stream.newest_unix_ns);
    "open.stop_s" Double "s" "How long its threads have been stopped for the collector and not restarted; 0 when they run."
        = |s| open(s, s.stream.open.stop);
    "open.collection_s" Double "s" "How long a blocking or foreground collection has been under way; 0 when none is."
        = |s| open(s, s.stream.open.collection);
    "open.background_s" Double "s" "How long a background collection has been under way; 0 when none is."
        = |s| open(s, s.stream.open.background);
}
