//! What fields are read of: what is known of a process and its stream, of a service, and of gcwatch itself.

use super::command_name::CommandName;
use super::trends::MemoryTrends;
use crate::time::{Moment, Wall};
use crate::value::Value;
use strict_yaml::words;

/// What is known of a process: its resource attributes, which include its GC settings and, in a container, its limits.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ProcessFacts {
    /// Pid on the host; in a recording, the pid in the stream.
    pub pid: Option<u32>,
    pub name: Option<Box<str>>,
    /// The runtime's version, as `10.0.1`.
    pub runtime: Option<Box<str>>,
    attributes: Vec<(Box<str>, FactValue)>,
}

/// The value of an attribute.
#[derive(Debug, Clone, PartialEq)]
pub enum FactValue {
    Text(Box<str>),
    /// An integer.
    Int(i64),
    /// A floating-point number.
    Double(f64),
    Bool(bool),
}

impl FactValue {
    /// The string; `None` if it is something else.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(super) fn value(&self) -> Value<'_> {
        match self {
            Self::Text(text) => Value::Text(text),
            Self::Int(number) => Value::Int(*number),
            Self::Double(number) => Value::Double(*number),
            Self::Bool(truth) => Value::Bool(*truth),
        }
    }
}

/// The attribute of the maximum bytes that the heap can commit, by the process's environment, its
/// `runtimeconfig.json` or its container. It is for the rules alone.
pub const HEAP_LIMIT: &str = "gcwatch.process.heap_limit";

/// The attribute of the memory limit of the process's container, where the runtime does not see it. It is for the rules
/// alone.
pub const UNSEEN_LIMIT: &str = "gcwatch.process.unseen_limit";

/// The attribute of the limit of the heap that the runtime keeps although its container's limit has changed, in bytes.
/// For the rules only.
pub const STALE_HEAP_LIMIT: &str = "gcwatch.process.stale_heap_limit";

/// The attribute of the limit of the heap after a refresh or a restart, where it is another one. For the rules only.
pub const FRESH_HEAP_LIMIT: &str = "gcwatch.process.fresh_heap_limit";

impl ProcessFacts {
    /// Identity and resource attributes of a run. NaN is dropped.
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

    /// A resource attribute; `None`: there is none of that name.
    pub fn attribute(&self, name: &str) -> Option<&FactValue> {
        self.attributes
            .iter()
            .find(|(known, _)| **known == *name)
            .map(|(_, value)| value)
    }

    /// Whether they are of one version of a service.
    pub(crate) fn is_of_version(&self) -> bool {
        self.attribute(OF_VERSION).is_some()
    }

    /// The same with an attribute more, or with another value of it.
    #[must_use]
    pub fn with(mut self, name: &str, value: FactValue) -> Self {
        self.attributes.retain(|(known, _)| **known != *name);
        self.attributes.push((name.into(), value));
        self
    }

    /// The resource attributes.
    pub fn attributes(&self) -> impl Iterator<Item = (&str, &FactValue)> {
        self.attributes.iter().map(|(name, value)| (&**name, value))
    }
}

/// Health of the event stream, and what is in progress. Counters are since the first attach.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct StreamFacts {
    /// Time of the first attach; in a recording, its beginning.
    pub since: Option<Moment>,
    /// Events delivered.
    pub events: Option<u64>,
    /// Events that the runtime dropped; `None` if its events have no sequence numbers.
    pub lost_events: Option<u64>,
    /// Events whose payload could not be decoded.
    pub undecodable: Option<u64>,
    /// Sessions.
    pub sessions: Option<u64>,
    /// Lag of the newest collection, nanoseconds: from its end until it was processed.
    pub lag_ns: Option<u64>,
    /// Time of the newest event of a collection.
    pub newest: Option<Moment>,
    /// What the wall clock shows.
    pub wall: Wall,
    /// What is in progress.
    pub open: Open,
    /// The collection that is being judged is that of a heap dump of gcwatch's own.
    pub own_dump: bool,
    /// Objects whose finalizers have not run.
    pub finalizers_waiting: Option<u64>,
    /// The share of the time for which the finalizer thread had a CPU between the newest two readings of a round that
    /// has not ended.
    pub finalizer_cpu: Option<f64>,
    /// Requests of the last minute; `None`: they are not observed.
    pub requests: Option<RequestFacts>,
    /// Its memory as the kernel counts it.
    pub memory: MemoryFacts,
    /// The reader is behind: what is in progress now, and whether the stream is silent, is unknown.
    pub behind: bool,
    /// Time at which the process started; `None` if unknown, as in a recording.
    pub started: Option<Moment>,
    /// How the process ended; `None` while it runs, or if unknown.
    pub exit: Option<Exit>,
    /// Usage of its container; counters are since the first attach.
    pub container: ContainerFacts,
    /// Level, trend and age of its memory. The engine computes them; what a caller sets is replaced.
    pub trends: MemoryTrends,
    /// The host that it runs on.
    pub host: HostFacts,
    /// The service that rules `on: service` are about; `None` for a process.
    pub service: Option<ServiceFacts>,
    /// What rules `on: watcher` are about; `None` for a process.
    pub watcher: Option<WatcherFacts>,
}

words! {
    /// How a process ended.
    pub enum Exit {
        /// The runtime closed its event stream, as it does when the program exits by itself.
        InOrder = "in order",
        /// The stream broke off: the process was killed, or an unhandled exception ended it.
        Abrupt = "abrupt",
    }
}

/// Requests that ended in the last minute and of which it is known what they lost to collections.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RequestFacts {
    /// All of them.
    pub judged: u64,
    /// Those that a collection stopped.
    pub touched: u64,
}

/// The memory of a process. `None`: unknown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MemoryFacts {
    /// Resident memory, bytes.
    pub resident: Option<u64>,
    /// Memory of its own (anonymous), resident or swapped out, bytes.
    pub private: Option<u64>,
    /// At least so much of that is not the heap's: native. Read while no collection comes, bytes.
    pub native: Option<u64>,
    /// Threads: the stack of each is native memory.
    pub threads: Option<u64>,
    /// Address space in use (`VmSize`), bytes.
    pub address_space: Option<u64>,
    /// Limit of the address space (`ulimit -v`), bytes; `None` if unlimited.
    pub address_space_limit: Option<u64>,
}

/// What the host has to do. `None`: unknown, as in a recording.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct HostFacts {
    /// How many tasks run or wait for a CPU, as an average of the last minute (`/proc/loadavg`).
    pub load: Option<f64>,
    /// Its CPUs that are online.
    pub cpus: Option<u64>,
    /// Memory that the host's processes have committed, bytes. `None` unless the kernel enforces the limit
    /// (`vm.overcommit_memory` is 2).
    pub committed_as: Option<u64>,
    /// Maximum memory that the host's processes can commit, bytes. `None` unless the kernel enforces the limit.
    pub commit_limit: Option<u64>,
}

/// Usage of a process's container. Counters are since the first attach; `None`: unknown.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ContainerFacts {
    /// Memory in use including the page cache, bytes.
    pub memory_usage: Option<u64>,
    /// The same without inactive page cache, bytes.
    pub memory_working_set: Option<u64>,
    /// Memory in use that the kernel cannot reclaim, bytes. With version 1 a lower bound: without all kernel memory.
    pub memory_held: Option<u64>,
    /// Files in memory (tmpfs, shared memory), bytes.
    pub memory_shmem: Option<u64>,
    /// Kernel memory that cannot be reclaimed, bytes; `None` with version 1, which allows an estimate only.
    pub memory_kernel: Option<u64>,
    /// Kernel memory that the kernel reclaims by itself, bytes; `None` with version 1.
    pub memory_kernel_reclaimable: Option<u64>,
    /// Private memory of the other processes in the container, bytes. A lower bound if the container has more
    /// processes than are read.
    pub other_processes: Option<u64>,
    /// Name of the process with the most private memory among them; `None` if there is no other process.
    pub largest_other: Option<CommandName>,
    /// Private memory of the process with that name, bytes.
    pub largest_other_bytes: Option<u64>,
    /// Processes killed at the memory limit.
    pub oom_kills: Option<u64>,
    /// How often the memory limit was reached.
    pub memory_limit_hits: Option<u64>,
    /// How often processes were throttled because usage exceeded `memory.high`.
    pub memory_high_events: Option<u64>,
    /// Periods of the CPU limit in which the container ran.
    pub cpu_periods: Option<u64>,
    /// Those of them that were CPU-throttled.
    pub throttled_periods: Option<u64>,
    /// CPU-throttled time, nanoseconds, summed over its CPUs.
    pub throttled_ns: Option<u64>,
    /// Ratio of throttled periods between the last two readings, 0 to 1.
    pub throttled_ratio: Option<f64>,
}

/// What has begun and not ended, and when it began; `None`: nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Open {
    /// The oldest suspension: SuspendEEBegin without RestartEEEnd.
    pub stop: Option<Moment>,
    /// The oldest blocking or foreground collection: GCStart without GCEnd.
    pub collection: Option<Moment>,
    /// The background collection: GCStart without GCEnd.
    pub background: Option<Moment>,
    /// A tool asked for the collection that is in progress, for a heap dump; `None`: not known, or nobody asked.
    pub requested_by_tool: Option<bool>,
    /// The round of the finalizer thread: GCFinalizersBegin without GCFinalizersEnd.
    pub finalizers: Option<Moment>,
}

/// The attribute of a service that a rule expects: those rules are for it, and for no other.
pub const EXPECTED: &str = "gcwatch.service.expected";

/// The attribute of one version of a service: rules `by: service.version` are for it, and others are not.
pub const OF_VERSION: &str = "gcwatch.service.of_version";

/// The attribute of a service with the id that is read as `service.affected_rule`.
pub const AFFECTED_RULE: &str = "gcwatch.service.affected_rule";

/// The attribute of a service with what is read as `service.last_death`.
pub const LAST_DEATH: &str = "gcwatch.service.last_death";

/// What the attributes begin with that say on how many processes of a service a rule fires; its id follows.
pub const FIRING: &str = "gcwatch.service.firing.";

/// What is known of a service on this host: its processes that live, and how the ones before them ended.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ServiceFacts {
    /// Processes of it that live and were attached to.
    pub processes: u64,
    /// Processes that ended within ten minutes, for whatever reason.
    pub deaths_10m: u64,
    /// Those of them that ended in an emergency of memory and not in order.
    pub deaths_in_emergency_10m: u64,
    /// Those of them that the kernel killed for memory; `None`: of none of them that is known.
    pub oom_kills_10m: Option<u64>,
    /// Those of the killed on which no rule on memory of severity error or critical fired within a minute before: of
    /// the others the process's own incident speaks.
    pub sudden_oom_kills_10m: Option<u64>,
    /// Those of them that lived for less than five minutes and ended by an OOM kill, in an emergency, or were restarted
    /// because they failed.
    pub restarts_10m: u64,
    /// The most processes on which one rule of severity error or critical fires.
    pub affected: u64,
    /// Since when a process that began after the newest death lives without such a rule.
    pub well_since: Option<Moment>,
}

/// What gcwatch knows about itself.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct WatcherFacts {
    /// How often it stalled within ten minutes.
    pub stalls_10m: u64,
    /// How long the newest one of them lasted, nanoseconds.
    pub stall_ns: Option<u64>,
}
