//! What everybody knows of a process: which run of it, who it is, what is done with it, how far its stream was read.
//!
//! Plain values. Who finds them out is [`crate::targets`] (a live process) or [`crate::pipeline::replay`] (a recording).

use opentelemetry_proto::tonic::common::v1::KeyValue;

use crate::container::ContainerIdentity;

pub use gc_rules::alert::RunKey;

pub mod text;

/// Who a run is.
#[derive(Debug, Clone, PartialEq)]
pub struct Identity {
    /// Which run.
    pub key: RunKey,
    /// Its pid in its own pid namespace.
    pub ns_pid: Option<u32>,
    /// The name that people know it by (the entry assembly's, else the executable's).
    pub name: String,
    /// The runtime's version, once it is known.
    pub runtime: Option<String>,
    /// The attributes of the OpenTelemetry resource.
    pub resource: Vec<KeyValue>,
    /// What decides which attributes others may add.
    pub provenance: Provenance,
}

/// Where a run's attributes are from, as far as it decides what others may say of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Provenance {
    /// Names of the attributes that the process gave itself: nobody else's word takes their place.
    pub said: Vec<String>,
    /// Where it was found, whatever it says of itself: by this others know it.
    pub container: ContainerIdentity,
}

/// What the daemon does with a run at present.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunState {
    /// Found, nothing done yet.
    Found,
    /// The configuration leaves it out.
    Excluded,
    /// As many processes as may be are attached already.
    OverLimit,
    /// Another gcwatch reads it.
    HeldElsewhere {
        /// Who: its pid, and what else it says of itself.
        holder: String,
    },
    /// It cannot be attached to now; it is tried again.
    Unattachable {
        /// One word, as `gcwatch ps` says it (`permission`, `silent`, ...).
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
    /// The process is gone.
    Ended,
}

/// How far a stream was read, as its decoder counts; of one session, from its beginning.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StreamProgress {
    /// Bytes.
    pub bytes: u64,
    /// Events delivered.
    pub events: u64,
    /// Events that the runtime dropped; `None` where it numbers nothing.
    pub lost_events: Option<u64>,
    /// Events whose payload could not be decoded.
    pub undecodable: u64,
}
