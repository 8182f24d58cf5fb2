//! One run of a process, as everybody but its own task sees it.

use opentelemetry_proto::tonic::common::v1::KeyValue;

/// Which run of a process: a pid is used again, a pid with its start time is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RunKey {
    /// The host's pid; in a recording, the pid that the stream names.
    pub pid: u32,
    /// When it started: clock ticks after boot (field 22 of `/proc/PID/stat`); in a recording, the stream's sync time.
    pub start_time: u64,
}

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
}

/// What the daemon does with a run at present.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
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

/// One run of a process.
#[derive(Debug)]
pub struct Run {
    key: RunKey,
}

impl Run {
    pub(crate) fn new(key: RunKey) -> Self {
        Self { key }
    }

    /// Which run.
    pub fn key(&self) -> RunKey {
        self.key
    }
}
