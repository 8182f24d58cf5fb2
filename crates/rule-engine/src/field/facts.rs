//! Inputs of fields: facts about a process and its stream, about a service, and about gcwatch itself.

use base::time::{Moment, Wall};
use base::words;

use super::command_name::CommandName;
use super::trends::MemoryTrends;
use crate::value::Value;

/// Facts about a process: its resource attributes, which include its GC settings and, in a container, its limits.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ProcessFacts {
    /// Pid on the host; in a recording, the pid in the stream.
    pub pid: Option<u32>,
    pub name: Option<Box<str>>,
    /// Version of the runtime, such as `10.0.1`.
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
    /// Returns the string, or `None` for another type.
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

/// Attribute with the maximum number of bytes that the heap can commit, from the process's environment, its
/// `runtimeconfig.json` or its container. Only rules use this attribute.
pub const HEAP_LIMIT: &str = "gcwatch.process.heap_limit";

/// Attribute with the memory limit of the process's container if the runtime does not see the limit. Only rules use
/// this attribute.
pub const UNSEEN_LIMIT: &str = "gcwatch.process.unseen_limit";

/// Attribute with the heap limit, in bytes, that the runtime keeps although the limit of its container has changed.
/// Only rules use this attribute.
pub const STALE_HEAP_LIMIT: &str = "gcwatch.process.stale_heap_limit";

/// Attribute with the heap limit, in bytes, that the runtime would have after a refresh or a restart, if it differs
/// from the current limit. Only rules use this attribute.
pub const FRESH_HEAP_LIMIT: &str = "gcwatch.process.fresh_heap_limit";

impl ProcessFacts {
    /// Creates the facts from the identity and resource attributes of a run. Attributes with the value NaN are dropped.
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

    /// Returns a resource attribute, or `None` if it does not exist.
    pub fn attribute(&self, name: &str) -> Option<&FactValue> {
        self.attributes
            .iter()
            .find(|(known, _)| **known == *name)
            .map(|(_, value)| value)
    }

    /// Returns whether these are the facts of one version of a service.
    pub(crate) fn is_of_version(&self) -> bool {
        self.attribute(OF_VERSION).is_some()
    }

    /// Adds an attribute, or replaces its value.
    #[must_use]
    pub fn with(mut self, name: &str, value: FactValue) -> Self {
        self.attributes.retain(|(known, _)| **known != *name);
        self.attributes.push((name.into(), value));
        self
    }

    /// Returns the resource attributes.
    pub fn attributes(&self) -> impl Iterator<Item = (&str, &FactValue)> {
        self.attributes.iter().map(|(name, value)| (&**name, value))
    }
}

/// Health of the event stream, and operations in progress. Counters start at the first attach.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct StreamFacts {
    /// Time of the first attach; in a recording, its start.
    pub since: Option<Moment>,
    /// Number of delivered events.
    pub events: Option<u64>,
    /// Number of events that the runtime dropped; `None` if the events have no sequence numbers.
    pub lost_events: Option<u64>,
    /// Number of events whose payload could not be decoded.
    pub undecodable: Option<u64>,
    /// Number of sessions.
    pub sessions: Option<u64>,
    /// Delay from the end of the newest collection until gcwatch processed this collection, in nanoseconds.
    pub lag_ns: Option<u64>,
    /// Time of the newest event of a collection.
    pub newest: Option<Moment>,
    /// Current wall clock.
    pub wall: Wall,
    /// Operations in progress.
    pub open: OperationStarts,
    /// Whether the collection under evaluation belongs to a heap dump taken by gcwatch.
    pub own_dump: bool,
    /// Number of objects whose finalizers have not run.
    pub finalizers_waiting: Option<u64>,
    /// Share of the time for which the finalizer thread had a CPU, between the newest two readings of an unfinished
    /// round.
    pub finalizer_cpu: Option<f64>,
    /// Requests of the last minute; `None` if requests are not observed.
    pub requests: Option<RequestFacts>,
    /// Memory of the process as counted by the kernel.
    pub memory: MemoryFacts,
    /// Whether the reader of the event stream is behind. In this case, operations in progress and the silence of the
    /// stream are unknown.
    pub behind: bool,
    /// Time at which the process started; `None` if unknown, as in a recording.
    pub started: Option<Moment>,
    /// Kind of exit of the process; `None` while the process runs, or if unknown.
    pub exit: Option<Exit>,
    /// Usage of the container. Counters start at the first attach.
    pub container: ContainerFacts,
    /// Level, trend and age of the memory. The engine computes them and replaces values set by a caller.
    pub trends: MemoryTrends,
    /// Host of the process.
    pub host: HostFacts,
    /// The service that rules `on: service` evaluate; `None` for a process.
    pub service: Option<ServiceFacts>,
    /// The state that rules `on: watcher` evaluate; `None` for a process.
    pub watcher: Option<WatcherFacts>,
}

words! {
    /// The kind of exit of a process.
    pub enum Exit {
        /// The runtime closed its event stream, as it does when the program exits normally.
        InOrder = "in order",
        /// The event stream broke off: the process was killed, or an unhandled exception ended it.
        Abrupt = "abrupt",
    }
}

/// Requests of the last minute whose time lost to collections is known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RequestFacts {
    /// Number of requests whose time lost to collections is known.
    pub judged: u64,
    /// Number of such requests that a collection stopped.
    pub touched: u64,
}

/// Memory of a process. Values are `None` if unknown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MemoryFacts {
    /// Resident memory, in bytes.
    pub resident: Option<u64>,
    /// Private (anonymous) memory, resident or swapped out, in bytes.
    pub private: Option<u64>,
    /// Lower bound of the private memory outside the GC heap (native), in bytes. Read between collections.
    pub native: Option<u64>,
    /// Number of threads. The stack of each thread is native memory.
    pub threads: Option<u64>,
    /// Address space in use (`VmSize`), in bytes.
    pub address_space: Option<u64>,
    /// Limit of the address space (`ulimit -v`), in bytes; `None` if unlimited.
    pub address_space_limit: Option<u64>,
}

/// Load of the host. Values are `None` if unknown, as in a recording.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct HostFacts {
    /// Average number of tasks that ran or waited for a CPU in the last minute (`/proc/loadavg`).
    pub load: Option<f64>,
    /// Number of online CPUs.
    pub cpus: Option<u64>,
    /// Memory that the host's processes have committed, in bytes. `None` unless the kernel enforces the limit
    /// (`vm.overcommit_memory` is 2).
    pub committed_as: Option<u64>,
    /// Maximum memory that the host's processes can commit, in bytes. `None` unless the kernel enforces the limit.
    pub commit_limit: Option<u64>,
}

/// Usage of a process's container. Counters start at the first attach. Values are `None` if unknown.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ContainerFacts {
    /// Memory in use including the page cache, in bytes.
    pub memory_usage: Option<u64>,
    /// Memory in use without inactive page cache, in bytes.
    pub memory_working_set: Option<u64>,
    /// Memory in use that the kernel cannot reclaim, in bytes. With cgroup version 1, a lower bound that excludes some
    /// kernel memory.
    pub memory_held: Option<u64>,
    /// Files in memory (tmpfs, shared memory), in bytes.
    pub memory_shmem: Option<u64>,
    /// Kernel memory that cannot be reclaimed, in bytes; `None` with cgroup version 1, which allows only an estimate.
    pub memory_kernel: Option<u64>,
    /// Kernel memory that the kernel reclaims by itself, in bytes; `None` with cgroup version 1.
    pub memory_kernel_reclaimable: Option<u64>,
    /// Private memory of the other processes in the container, in bytes. A lower bound if the container has more
    /// processes than gcwatch reads.
    pub other_processes: Option<u64>,
    /// Name of the other process with the most private memory; `None` if there is no other process.
    pub largest_other: Option<CommandName>,
    /// Private memory of the process `largest_other`, in bytes.
    pub largest_other_bytes: Option<u64>,
    /// Number of processes killed at the memory limit.
    pub oom_kills: Option<u64>,
    /// Number of times that the memory limit was reached.
    pub memory_limit_hits: Option<u64>,
    /// Number of times that processes were throttled because usage exceeded `memory.high`.
    pub memory_high_events: Option<u64>,
    /// Number of CPU limit periods in which the container ran.
    pub cpu_periods: Option<u64>,
    /// Number of CPU limit periods in which the container was throttled.
    pub throttled_periods: Option<u64>,
    /// CPU-throttled time, in nanoseconds, summed over the CPUs of the container.
    pub throttled_ns: Option<u64>,
    /// Ratio of throttled periods between the last two readings, 0 to 1.
    pub throttled_ratio: Option<f64>,
}

/// Start times of operations in progress. Values are `None` if there is no such operation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OperationStarts {
    /// The oldest suspension: SuspendEEBegin without RestartEEEnd.
    pub stop: Option<Moment>,
    /// The oldest blocking or foreground collection: GCStart without GCEnd.
    pub collection: Option<Moment>,
    /// The background collection: GCStart without GCEnd.
    pub background: Option<Moment>,
    /// Whether a tool requested the collection in progress for a heap dump; `None` if unknown, or if no tool requested
    /// the collection.
    pub requested_by_tool: Option<bool>,
    /// The current round of the finalizer thread: GCFinalizersBegin without GCFinalizersEnd.
    pub finalizers: Option<Moment>,
}

/// Attribute of a service that a rule expects. Such rules apply only to services with this attribute.
pub const EXPECTED: &str = "gcwatch.service.expected";

/// Attribute of one version of a service. Only rules `by: service.version` apply to it.
pub const OF_VERSION: &str = "gcwatch.service.of_version";

/// Attribute of a service that contains the value of `service.affected_rule`.
pub const AFFECTED_RULE: &str = "gcwatch.service.affected_rule";

/// Attribute of a service that contains the value of `service.last_death`.
pub const LAST_DEATH: &str = "gcwatch.service.last_death";

/// Prefix of attributes that contain the number of processes of a service on which a rule fires. The rule id follows.
pub const FIRING: &str = "gcwatch.service.firing.";

/// Facts about a service on this host: its running processes, and how earlier processes ended.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ServiceFacts {
    /// Number of running processes that gcwatch attached to.
    pub processes: u64,
    /// Number of processes that ended within the last ten minutes, for any reason.
    pub deaths_10m: u64,
    /// Number of processes that ended within the last ten minutes in a memory emergency and not cleanly.
    pub deaths_in_emergency_10m: u64,
    /// Number of processes that the kernel killed for memory within the last ten minutes; `None` if unknown for all of
    /// them.
    pub oom_kills_10m: Option<u64>,
    /// Number of killed processes for which no memory rule of severity error or critical fired within the minute
    /// before. The kill of each other process is reported by that process's own incident.
    pub sudden_oom_kills_10m: Option<u64>,
    /// Number of processes that ended within the last ten minutes, that lived for less than five minutes and that were
    /// ended by an OOM kill, ended in an emergency, or were restarted because they failed.
    pub restarts_10m: u64,
    /// Maximum number of processes on which the same rule of severity error or critical fires.
    pub affected: u64,
    /// Time since which a process that started after the newest death has run without a firing rule of severity error
    /// or critical; `None` if there is no such process.
    pub well_since: Option<Moment>,
}

/// Facts about gcwatch itself.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct WatcherFacts {
    /// Number of stalls within the last ten minutes.
    pub stalls_10m: u64,
    /// Duration of the newest stall, in nanoseconds.
    pub stall_ns: Option<u64>,
}
