//! Inputs of a run.

use std::sync::Arc;

use base::time::{Moment, TimeBase, Wall};
use clr_gc::gc::{Collection, OpenOperations, Suspension};
use gc_requests::request::Request;
use incidents::{Finding, Incidents, Recordings};
use opentelemetry_proto::tonic::common::v1::KeyValue;
use processes::container::Figures;
use processes::container::ledger::MemoryReading;
use processes::{RunState, StreamProgress};
use rule_engine::field::{HostFacts, MemoryFacts};
use rule_engine::rule_set::RuleSet;

use crate::settings::PipelineSettings;

/// Time of an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InputTime {
    pub now: Moment,
    /// Offset of the wall clock, for this and later records.
    pub wall: Wall,
}

/// An input of a run.
#[derive(Debug)]
pub enum Input {
    /// The state of monitoring has changed. [`RunState::Attached`] arrives as [`Input::Attached`].
    State(RunState),
    /// A session has started. The stream of the session is counted from the start.
    Attached(Box<Attachment>),
    /// The reader has exited without reporting the end of its session.
    ReaderLeft,
    /// More facts about the process are known: the version of the runtime, or attributes of the resource. An existing
    /// attribute gets the new value.
    Learned {
        /// Version of the runtime, if known.
        runtime: Option<String>,
        attributes: Vec<KeyValue>,
    },
    /// The metadata from an orchestrator has changed.
    Metadata(Vec<KeyValue>),
    /// A collection is complete or will never be complete.
    Collection {
        collection: Box<Collection>,
        /// Time base of the offsets.
        base: TimeBase,
        /// Time for which the collection was held back before this input. This time does not count as lag.
        held_back_ns: u64,
    },
    /// A suspension without a collection.
    Suspension {
        suspension: Box<Suspension>,
        /// Time base of the offsets.
        base: TimeBase,
    },
    /// Requests have ended.
    Requests {
        requests: Vec<Request>,
        /// Time base of the offsets.
        base: TimeBase,
    },
    /// Requests are no longer read, for the given reason; `None` if requests are read again.
    RequestsUnread(Option<String>),
    /// The open operations have changed, according to the events so far.
    Open {
        /// Operations that have started but not ended.
        open: OpenOperations,
        /// Time base of the offsets.
        base: TimeBase,
    },
    /// Progress of reading the session's stream.
    Progress(StreamProgress),
    /// Whether the stream contains more data than has been read.
    Undrained(bool),
    /// The stream has ended. `in_order` is whether the runtime ended the stream. The runtime ends the stream if the
    /// process exits by itself.
    Closed {
        /// Whether the runtime ended the stream.
        in_order: bool,
    },
    /// The leftovers of another tool's session in the process have been removed.
    Healed,
    /// One second has passed.
    Tick {
        /// Time since all streams were last read to their ends, in nanoseconds.
        behind_ns: u64,
    },
    /// The memory and the container have been read.
    Measured(Box<ProcessReading>),
    /// The pages have been counted, see [`Run::begin_count`](crate::Run::begin_count); `None` if the count failed.
    Counted(Option<Box<MemoryReading>>),
    /// The CPU share of the finalizer thread in a round of finalizers has been measured.
    FinalizerCpu {
        /// Start of the round.
        begun: Moment,
        /// Share of the time in which the thread had a CPU; `None` if unknown.
        share: Option<f64>,
    },
    /// gcwatch has started (`true`) or finished a heap dump. The collections of the dump do not belong to the program.
    OwnDump(bool),
    /// A burst for an incident has finished, or no burst was possible.
    Found {
        /// Number of the incident. An incident that has ended does not receive the finding.
        incident: u64,
        finding: Box<Finding>,
    },
    /// The rules have been replaced.
    Rules(Arc<RuleSet>),
    /// The settings have been replaced. Histograms keep their buckets.
    Settings(Arc<PipelineSettings>),
    /// The history has been written to disk up to a bucket.
    HistoryKept {
        /// Index of the first bucket that has not been written.
        until: u64,
    },
    /// The process is no longer monitored, although the process is running. Open alerts are closed.
    Unwatched,
    /// The process has exited.
    Ended,
    /// The process has exited, and its last metrics have been exported. Only data for display is kept.
    Forgotten,
}

impl Input {
    /// Returns whether a similar input with the same information follows soon, so that this input may be dropped if the
    /// inbox is full.
    pub fn is_renewed(&self) -> bool {
        matches!(self, Self::Tick { .. } | Self::Measured(_))
    }
}

/// The start parameters of a session.
#[derive(Debug)]
pub struct Attachment {
    /// Time base of a recording; `None` for a live process, or while unknown.
    pub base: Option<TimeBase>,
    /// The active rules.
    pub rules: Arc<RuleSet>,
    /// Incidents from before a restart of gcwatch; `None` if there are no such incidents.
    pub incidents: Option<Incidents>,
    /// Factory for recordings of severe incidents; `None` if incidents are not recorded.
    pub recordings: Option<Arc<dyn Recordings>>,
}

/// A reading of a process from outside.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ProcessReading {
    /// Figures of the container; `None` if the figures could not be read.
    pub figures: Option<Figures>,
    pub memory: MemoryFacts,
    /// Start time of the process; `None` if unknown.
    pub started: Option<Moment>,
    /// Maximum number of bytes that the heap can commit; `None` if the limit is not visible from outside.
    pub heap_limit: Option<u64>,
    /// Whether the configuration of the process was read and has no absolute heap limit. The heap limit is then a share
    /// of the container's limit.
    pub follows_container: bool,
    /// Memory of the machine, in bytes; `None` if unknown.
    pub machine: Option<u64>,
    /// Load of the host.
    pub host: HostFacts,
    /// Evidence that the process exports its own runtime metrics; `None` if there is no evidence.
    pub exports_runtime: Option<&'static str>,
    /// Configured settings of the collector; `None` if the configuration was not read.
    pub collector: Option<ConfiguredCollector>,
    /// CPU time since the start of the process, in nanoseconds; `None` if unknown.
    pub cpu_ns: Option<u64>,
    /// Number of CPUs on which the process may run; `None` if unknown.
    pub allowed_cpus: Option<u32>,
}

/// Settings of the collector that no event reports. A setting is `None` if it is not configured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ConfiguredCollector {
    /// Budget of generation 0 (`GCgen0size`), in bytes.
    pub gen0_size: Option<u64>,
    /// `GCConserveMemory`, 0 to 9.
    pub conserve_memory: Option<u64>,
}
