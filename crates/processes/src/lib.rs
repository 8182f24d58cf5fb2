//! A .NET process as all of gcwatch knows it: which run of it, who it is, what is done with it, how far its stream was
//! read; which container it is in, and what that may use.
//!
//! Made by `targets` (a live process) or by the pipeline's player (a recording); `pipeline`, `kubernetes` and
//! `evidence` read it.
//!
//! # Layers
//!
//! 1. [`container`], [`files`], [`mod@text`]: know nothing of each other
//! 2. [`surroundings`]: what an orchestrator knows of a container
//! 3. this module: plain values
//! 4. [`service`]: which service one is of
//!
//! # Invariants
//!
//! * **No clock, no wait.** I/O is in `container::read`, [`container::ledger::read()`], `container::kills` and
//!   [`files`]; everything else takes texts and values.
//! * **A process cannot choose who it is.** What decides whose it is ([`Provenance`]) comes from the kernel; what is
//!   from the process itself is bounded ([`mod@text`]).
//! * **Unknown is absent**, never 0.

// Time is a value: no clock is asked here (clippy.toml).
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

/// Who a run is.
#[derive(Debug, Clone, PartialEq)]
pub struct Identity {
    /// Pid and start time.
    pub key: RunKey,
    /// Its pid in its own pid namespace.
    pub ns_pid: Option<u32>,
    /// The entry assembly's name, else the executable's.
    pub name: String,
    /// The runtime's version, once it is known.
    pub runtime: Option<String>,
    /// Its program was compiled ahead of time (NativeAOT): such a runtime does not send its settings.
    pub native_aot: Option<bool>,
    /// The attributes of the OpenTelemetry resource.
    pub resource: Vec<KeyValue>,
    /// What decides which attributes others may add.
    pub provenance: Provenance,
}

impl Identity {
    /// Of a run of which no more is known.
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

    /// What it is called wherever people look.
    pub fn one_name(&self) -> String {
        one_name(&self.name, &self.resource)
    }
}

/// What a process is called wherever people look: the service's name where it is known, else the entry assembly's.
pub fn one_name(name: &str, resource: &[KeyValue]) -> String {
    text(resource, SERVICE_NAME.name).unwrap_or_else(|| name.to_owned())
}

/// Where a run's attributes are from, as far as that decides which ones others may replace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Provenance {
    /// Names of the attributes that the process gave itself: nothing replaces their values.
    pub own_names: Vec<String>,
    /// Where it was found, whatever attributes it gives itself: an orchestrator knows it by this.
    pub container: ContainerIdentity,
    /// Whose it is, in words that it cannot choose: its pod, its container, or its user. Empty: unknown.
    pub tenant: String,
    /// A hash of its command line, where that can be read: the process that comes in its place has the same.
    pub command: Option<u64>,
}

/// What the daemon does with a run at present.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum RunState {
    /// Found, nothing done yet.
    #[default]
    Found,
    /// Excluded by the configuration.
    Excluded,
    /// The limit of attached processes is reached.
    OverLimit,
    /// Another gcwatch reads it.
    HeldElsewhere {
        /// The text of its lease: program, version, pid.
        holder: String,
    },
    /// It cannot be attached to now; attaching is retried.
    Unattachable {
        /// One word, as in `gcwatch ps` (`permission`, `silent`, ...).
        reason: String,
        /// One sentence.
        detail: String,
    },
    /// A session is being started.
    Attaching,
    /// Its events are read.
    Attached,
    /// The session is being stopped, or ended and will be started again.
    Detached {
        /// Why, one sentence.
        detail: String,
    },
    /// The process exited.
    Ended,
}

impl RunState {
    /// One word, the value of the attribute `gcwatch.target.state`.
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

    /// Why nothing is read, where that lasts; one of a small set.
    pub fn not_attached(&self) -> Option<String> {
        match self {
            Self::Unattachable { reason, .. } => Some(reason.clone()),
            Self::Excluded => Some("excluded".to_owned()),
            Self::OverLimit => Some("over-limit".to_owned()),
            Self::HeldElsewhere { .. } => Some("held-elsewhere".to_owned()),
            Self::Found | Self::Attaching | Self::Attached | Self::Detached { .. } | Self::Ended => None,
        }
    }

    /// Of one that cannot be attached to: one word, as in `gcwatch ps`.
    pub fn reason(&self) -> Option<String> {
        match self {
            Self::Unattachable { reason, .. } => Some(reason.clone()),
            _ => None,
        }
    }

    /// One sentence on the state, where there is more to say than its word.
    pub fn detail(&self) -> Option<String> {
        match self {
            Self::Unattachable { detail, .. } | Self::Detached { detail } => Some(detail.clone()),
            Self::HeldElsewhere { holder } => Some(format!("read by {holder}")),
            _ => None,
        }
    }
}

/// How far a stream was read, as its decoder counts; of one session, from its beginning.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StreamProgress {
    /// Bytes of the stream, as they came.
    pub bytes: u64,
    /// Events delivered.
    pub events: u64,
    /// Events that the runtime dropped; `None` where it numbers nothing.
    pub lost_events: Option<u64>,
    /// Events whose payload could not be decoded.
    pub undecodable: u64,
}
