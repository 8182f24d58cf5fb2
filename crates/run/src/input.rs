//! What may happen to a run.

use std::sync::Arc;

use clr_gc::gc::{Collection, Open, Suspension};
use gc_requests::request::Request;
use gc_rules::field::{HostFacts, MemoryFacts};
use gc_rules::incident::{Finding, Incidents, Recordings};
use gc_rules::rule_set::RuleSet;
use gc_rules::time::{Moment, TimeBase, Wall};
use opentelemetry_proto::tonic::common::v1::KeyValue;
use processes::container::Figures;
use processes::container::ledger::MemoryReading;
use processes::{RunState, StreamProgress};

use crate::settings::PipelineSettings;

/// When something happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct At {
    pub now: Moment,
    /// What the wall clock shows at the instants of records from now on.
    pub wall: Wall,
}

/// Something that happens to a run.
#[derive(Debug)]
pub enum Input {
    /// What is done with the process now. [`RunState::Attached`] comes as [`Input::Attached`].
    State(RunState),
    /// A session begins: its stream is counted from its beginning.
    Attached(Box<Attachment>),
    /// Nobody reads it any more, though it was not said that its session ended.
    ReaderLeft,
    /// More is known of who it is: the runtime's version, attributes of the resource (a name that is there already gets
    /// the new value).
    Learned {
        /// The runtime's version, if that is what is known.
        runtime: Option<String>,
        attributes: Vec<KeyValue>,
    },
    /// What an orchestrator knows of it from now on.
    Metadata(Vec<KeyValue>),
    /// A collection is complete, or never will be.
    Collection {
        collection: Box<Collection>,
        /// Where its offsets lie.
        base: TimeBase,
        /// It was kept back for so long before it came here: that is no lag.
        held_back_ns: u64,
    },
    /// A suspension in which no collection ran.
    Suspension {
        /// The suspension.
        suspension: Box<Suspension>,
        /// Where its offsets lie.
        base: TimeBase,
    },
    /// Requests that ended.
    Requests {
        requests: Vec<Request>,
        /// Where their offsets lie.
        base: TimeBase,
    },
    /// Requests are not read from now on, and why; `None`: they are.
    RequestsUnread(Option<String>),
    /// What has begun and not ended, by the events that came so far.
    Open {
        /// What.
        open: Open,
        /// Where its offsets lie.
        base: TimeBase,
    },
    /// How far the session's stream was read.
    Progress(StreamProgress),
    /// Whether the stream brings more than is read of it.
    Undrained(bool),
    /// The stream is over. `in_order`: the runtime ended it, as it does when the process exits by itself.
    Closed {
        /// Whether the runtime ended it.
        in_order: bool,
    },
    /// What another tool's session left behind in the process was healed.
    Healed,
    /// A second passed.
    Tick {
        /// How long ago all streams were read to their end.
        behind_ns: u64,
    },
    /// A reading of its memory and its container.
    Measured(Box<Measured>),
    /// Its pages were counted, see [`Run::begin_count`](crate::Run::begin_count); `None`: that failed.
    Counted(Option<Box<MemoryReading>>),
    /// How much of the time the finalizer thread had a CPU in the round that began then.
    FinalizerCpu {
        /// When the round began.
        begun: Moment,
        /// `None`: unknown.
        share: Option<f64>,
    },
    /// gcwatch begins a heap dump of it (`true`), or has ended one: those collections are not the program's.
    OwnDump(bool),
    /// A burst for an incident is over, or there is none.
    Found {
        /// The incident's number; one that ended meanwhile does not get it.
        incident: u64,
        /// What was found.
        finding: Box<Finding>,
    },
    /// Other rules from now on.
    Rules(Arc<RuleSet>),
    /// Other settings from now on. Histograms keep their buckets.
    Settings(Arc<PipelineSettings>),
    /// Its history is on disk up to that bucket.
    HistoryKept {
        /// The first bucket that is not.
        until: u64,
    },
    /// Nobody watches it any more, though it lives: what is open ends.
    Unwatched,
    /// The process exited.
    Ended,
    /// It exited, and its last metrics were exported: only what people look at is kept.
    Forgotten,
}

impl Input {
    /// Whether another one like it comes soon and says as much: where there is no room, this one may be dropped.
    pub fn is_renewed(&self) -> bool {
        matches!(self, Self::Tick { .. } | Self::Measured(_))
    }
}

/// What a session begins with.
#[derive(Debug)]
pub struct Attachment {
    /// Where the offsets of a recording lie; `None`: of a live process, or not known yet.
    pub base: Option<TimeBase>,
    /// The rules in force.
    pub rules: Arc<RuleSet>,
    /// Incidents of before gcwatch was restarted.
    pub incidents: Option<Incidents>,
    /// Where recordings of severe incidents begin; `None`: none are made.
    pub recordings: Option<Arc<dyn Recordings>>,
}

/// A reading from outside of a process.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Measured {
    /// Of its container; `None`: it could not be read.
    pub figures: Option<Figures>,
    pub memory: MemoryFacts,
    /// Time at which the process started; `None` if unknown.
    pub started: Option<Moment>,
    /// Maximum bytes that its heap can commit, as far as that is seen from outside.
    pub heap_limit: Option<u64>,
    /// Whether its configuration was read and has no absolute limit of the heap: its limit is a share of its container's.
    pub follows_container: bool,
    /// The memory of the machine, bytes.
    pub machine: Option<u64>,
    /// What the host has to do.
    pub host: HostFacts,
    /// What shows that it exports the metrics of its runtime itself.
    pub exports_runtime: Option<&'static str>,
}
