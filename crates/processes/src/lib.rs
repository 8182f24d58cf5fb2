//! A .NET process in the data model of gcwatch: its identity, the state of monitoring, the progress of its stream, and
//! the identity, limits and usage of its container.
//!
//! Values are created by `targets` (live processes) or by the pipeline's player (recordings), and read by `pipeline`,
//! `kubernetes` and `evidence`.
//!
//! # Layers
//!
//! 1. [`container`], [`files`], [`mod@text`]: independent of each other
//! 2. [`surroundings`]: facts that an orchestrator has about a container
//! 3. this module: plain values
//! 4. [`service`]: the service that a process belongs to
//!
//! # Invariants
//!
//! * **No clock, no waiting.** I/O is in `container::read`, [`container::ledger::read()`], `container::group`,
//!   `container::kills`, `container::others` and [`files`]; all other code works on texts and values.
//! * **A process cannot choose its identity.** The facts that decide on its owner ([`Provenance`]) come from the
//!   kernel. Facts from the process itself are bounded ([`mod@text`]).
//! * **Unknown values are absent**, never 0.

// Time is a value: no clock is read here (see clippy.toml).
#![deny(clippy::disallowed_methods)]

use base::run_key::RunKey;
use gc_telemetry::definition::resource::SERVICE_NAME;
use gc_telemetry::value::text;
use opentelemetry_proto::tonic::common::v1::KeyValue;

use crate::container::ContainerIdentity;

pub mod container;
pub mod files;
pub mod service;
pub mod surroundings;
pub mod text;

/// Identity of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Identity {
    /// Pid and start time.
    pub key: RunKey,
    /// Pid in the process's own pid namespace; `None` if unknown.
    pub ns_pid: Option<u32>,
    /// Name of the entry assembly, or of the executable if there is no entry assembly.
    pub name: String,
    /// Version of the runtime, once it is known.
    pub runtime: Option<String>,
    /// Whether the program was compiled ahead of time (NativeAOT). Such a runtime does not send its settings.
    pub native_aot: Option<bool>,
    /// Attributes of the OpenTelemetry resource.
    pub resource: Vec<KeyValue>,
    /// Origin of the attributes, which decides which of them can be replaced.
    pub provenance: Provenance,
}

impl Identity {
    /// Creates the identity of a run of which only key and name are known.
    pub fn new(key: RunKey, name: impl Into<String>) -> Self {
        Self {
            key,
            ns_pid: None,
            name: name.into(),
            runtime: None,
            native_aot: None,
            resource: Vec::new(),
            provenance: Provenance::default(),
        }
    }

    /// Returns the display name of the process.
    pub fn one_name(&self) -> String {
        one_name(&self.name, &self.resource)
    }
}

/// Returns the display name of a process: the name of the service if it is known, or the given name of the program.
pub fn one_name(name: &str, resource: &[KeyValue]) -> String {
    text(resource, SERVICE_NAME.name).unwrap_or_else(|| name.to_owned())
}

/// Origin of a run's attributes, to decide which of them can be replaced.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Provenance {
    /// Names of the attributes that the process set itself. Their values are never replaced.
    pub own_names: Vec<String>,
    /// Container in which the process was found, regardless of the attributes that it sets. An orchestrator identifies
    /// the process by this container.
    pub container: ContainerIdentity,
    /// Owner of the process, in words that the process cannot choose: its pod, its container, or its user. Empty if
    /// unknown.
    pub tenant: String,
    /// Hash of the command line; `None` if the command line is not readable. A process that replaces this one has the
    /// same hash.
    pub command: Option<u64>,
}

/// Current state of monitoring a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum RunState {
    /// Found; no action has been taken yet.
    #[default]
    Found,
    /// Excluded by the configuration.
    Excluded,
    /// The limit of attached processes has been reached.
    OverLimit,
    /// Another gcwatch instance reads the process.
    HeldElsewhere {
        /// Text of the lease: program, version, pid.
        holder: String,
    },
    /// The process cannot be attached to now; attaching is retried.
    Unattachable {
        /// Reason as one word, as in `gcwatch ps` (`permission`, `silent`, ...).
        reason: String,
        /// Explanation in one sentence.
        detail: String,
    },
    /// A session is being started.
    Attaching,
    /// The events of the process are being read.
    Attached,
    /// The session is being stopped, or has ended and will be started again.
    Detached {
        /// Reason in one sentence.
        detail: String,
    },
    /// The process has exited.
    Ended,
}

impl RunState {
    /// Returns the state as one word, which is the value of the attribute `gcwatch.target.state`.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Found => "found",
            Self::Excluded => "excluded",
            Self::OverLimit => "over_limit",
            Self::HeldElsewhere { .. } => "held_elsewhere",
            Self::Unattachable { .. } => "unattachable",
            Self::Attaching => "attaching",
            Self::Attached => "attached",
            Self::Detached { .. } => "detached",
            Self::Ended => "ended",
        }
    }

    /// Returns the reason why the process is not read, or `None` if the process is read or the state is temporary. The
    /// reason is one of a small set of words.
    pub fn not_attached(&self) -> Option<String> {
        match self {
            Self::Unattachable { reason, .. } => Some(reason.clone()),
            Self::Excluded => Some("excluded".to_owned()),
            Self::OverLimit => Some("over-limit".to_owned()),
            Self::HeldElsewhere { .. } => Some("held-elsewhere".to_owned()),
            Self::Found | Self::Attaching | Self::Attached | Self::Detached { .. } | Self::Ended => None,
        }
    }

    /// Returns the reason why a process cannot be attached to, as one word as in `gcwatch ps`, or `None` in any other
    /// state.
    pub fn reason(&self) -> Option<String> {
        match self {
            Self::Unattachable { reason, .. } => Some(reason.clone()),
            _ => None,
        }
    }

    /// Returns one sentence that explains the state, or `None` if the word of the state is sufficient.
    pub fn detail(&self) -> Option<String> {
        match self {
            Self::Unattachable { detail, .. } | Self::Detached { detail } => Some(detail.clone()),
            Self::HeldElsewhere { holder } => Some(format!("read by {holder}")),
            _ => None,
        }
    }
}

/// Progress of reading a stream, as counted by its decoder, for one session from its start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StreamProgress {
    /// Number of bytes received.
    pub bytes: u64,
    /// Number of events delivered.
    pub events: u64,
    /// Number of events that the runtime dropped; `None` if the runtime does not number its events.
    pub lost_events: Option<u64>,
    /// Number of events whose payload could not be decoded.
    pub undecodable: u64,
}
