//! What the tasks of the targets report to: the pipeline, or a test.

use base::time::TimeBase;
use clr_gc::gc::{Open, Outcome};
use gc_requests::request::Request;
use opentelemetry_proto::tonic::common::v1::KeyValue;

use base::run_key::RunKey;
use processes::{Identity, RunState, StreamProgress};

/// The limit of processes is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{limit} processes are attached already; this one waits until one of them exits")]
pub struct Full {
    pub limit: usize,
}

/// Takes what is found and read, of all runs.
pub trait Sink: Clone + Send + Sync + 'static {
    /// Takes what is read of one run.
    type Run: RunSink;

    /// A run is about to be read.
    ///
    /// # Errors
    ///
    /// When the limit of runs is reached.
    fn open(&self, identity: Identity) -> Result<Self::Run, Full>;

    /// A run is known and not read, and why.
    fn note(&self, identity: &Identity, state: RunState);

    /// A run that was noted is gone.
    fn forget(&self, key: RunKey);

    /// A session was ended because its stream took more memory than it may.
    fn over_memory(&self) {}

    /// All of `/proc` was looked through.
    fn scanned(&self) {}
}

/// Takes what is read of one run.
pub trait RunSink: Send + 'static {
    /// What is done with the process now. [`RunState::Attached`] begins a new session.
    fn state(&mut self, state: RunState);

    /// More is known of who it is: the runtime's version, attributes of its resource.
    fn learned(&mut self, runtime: Option<String>, attributes: Vec<KeyValue>);

    /// Offsets of what follows lie on `base`.
    fn time_base(&mut self, base: TimeBase);

    /// One outcome of the reconstruction.
    fn observe(&mut self, outcome: Outcome);

    /// Outcomes are kept back for so long before they are observed: nanoseconds.
    fn held_back(&mut self, _ns: u64) {}

    /// Requests that ended; their offsets lie on `base`.
    fn requests(&mut self, _requests: &[Request], _base: TimeBase) {}

    /// Requests are not read, and why: a sentence. `None`: they are read again.
    fn requests_unread(&mut self, _why: Option<String>) {}

    /// How far the session's stream was read.
    fn progress(&mut self, progress: StreamProgress);

    /// What has begun and not ended; called when it changed, at most a second after the events.
    fn open(&mut self, open: Open);

    /// Whether the stream brings more than is read of it, for longer than a moment; called when that changed.
    fn undrained(&mut self, _is: bool) {}

    /// The stream is over. `in_order`: the runtime ended it, as it does when a process exits by itself.
    fn closed(&mut self, _in_order: bool) {}

    /// What another tool's session left behind in the process was healed.
    fn healed(&mut self) {}

    /// The process exited.
    fn end(self);
}
