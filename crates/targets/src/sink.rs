//! Receivers of the results of target tasks: the pipeline, or a test.

use base::time::TimeBase;
use clr_gc::gc::{OpenOperations, Outcome};
use gc_requests::request::Request;
use opentelemetry_proto::tonic::common::v1::KeyValue;

use base::run_key::RunKey;
use processes::{Identity, RunState, StreamProgress};

/// Error returned if the limit of attached processes is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{limit} processes are already attached; this process waits until one of them exits")]
pub struct TargetLimitError {
    pub limit: usize,
}

/// A receiver of the discovered runs and their data.
pub trait Sink: Clone + Send + Sync + 'static {
    /// Receiver for the data of one run.
    type Run: RunSink;

    /// Starts a run that is about to be read.
    ///
    /// # Errors
    ///
    /// Returns [`TargetLimitError`] if the limit of runs is reached.
    fn open(&self, identity: Identity) -> Result<Self::Run, TargetLimitError>;

    /// Reports a run that is known but not read, with the reason as its state.
    fn note(&self, identity: &Identity, state: RunState);

    /// Removes a run that was reported by [`note`](Self::note) and has exited.
    fn forget(&self, key: RunKey);

    /// Reports that a session was stopped because its stream used too much memory.
    fn over_memory(&self) {}

    /// Reports that a scan of the whole `/proc` is complete.
    fn scanned(&self) {}
}

/// A receiver of the data of one run.
pub trait RunSink: Send + 'static {
    /// Sets the state of the run. [`RunState::Attached`] starts a new session.
    fn state(&mut self, state: RunState);

    /// Adds details to the identity: the runtime's version, and resource attributes.
    fn learned(&mut self, runtime: Option<String>, attributes: Vec<KeyValue>);

    /// Sets the time base of all offsets that follow.
    fn time_base(&mut self, base: TimeBase);

    /// Receives one outcome of the reconstruction.
    fn observe(&mut self, outcome: Outcome);

    /// Sets the time for which outcomes are held back before they are observed, in nanoseconds.
    fn held_back(&mut self, _ns: u64) {}

    /// Receives finished requests. The offsets of the requests are relative to `base`.
    fn requests(&mut self, _requests: &[Request], _base: TimeBase) {}

    /// Sets the reason why requests are not read, as a sentence; `None` if requests are read again.
    fn requests_unread(&mut self, _why: Option<String>) {}

    /// Reports the progress of reading the session's stream.
    fn progress(&mut self, progress: StreamProgress);

    /// Sets the operations that have started and not ended. Called after a change, at most 1 s after the events.
    fn open(&mut self, open: OpenOperations);

    /// Sets whether gcwatch has not reached the end of the stream's waiting bytes for some time. Called after a change.
    fn undrained(&mut self, _is: bool) {}

    /// Reports the end of the stream. `in_order` is whether the runtime ended the stream, as it does if the process
    /// exits by itself.
    fn closed(&mut self, _in_order: bool) {}

    /// Reports that gcwatch healed a problem that another tool's session left behind in the process.
    fn healed(&mut self) {}

    /// Reports that the process has exited.
    fn end(self);
}
