//! Where the tasks of the targets tell: the pipeline, or a test.

use clr_gc::gc::{Open, Outcome};
use opentelemetry_proto::tonic::common::v1::KeyValue;

use crate::pipeline::{Feed, Full, Identity, Pipeline, RunKey, State, StreamProgress};
use crate::telemetry::time::TimeBase;

/// Takes what is told of all runs.
pub trait Sink: Clone + Send + Sync + 'static {
    /// Takes what is told of one run.
    type Told: Told;

    /// See [`Pipeline::open`].
    ///
    /// # Errors
    ///
    /// When there are as many as may be.
    fn open(&self, identity: Identity) -> Result<Self::Told, Full>;

    /// See [`Pipeline::note`].
    fn note(&self, identity: &Identity, state: State);

    /// See [`Pipeline::forget`].
    fn forget(&self, key: RunKey);

    /// All of `/proc` was looked through; see [`Pipeline::scanned`].
    fn scanned(&self) {}
}

/// Takes what is told of one run.
pub trait Told: Send + 'static {
    /// See [`Feed::state`].
    fn state(&mut self, state: State);

    /// See [`Feed::learned`].
    fn learned(&mut self, runtime: Option<String>, attributes: Vec<KeyValue>);

    /// See [`Feed::time_base`].
    fn time_base(&mut self, base: TimeBase);

    /// See [`Feed::observe`].
    fn observe(&mut self, outcome: Outcome);

    /// See [`Feed::progress`].
    fn progress(&mut self, progress: StreamProgress);

    /// See [`Feed::open`]; told when it changed, at most a second after the events that say so.
    fn open(&mut self, open: Open);

    /// See [`Feed::end`].
    fn end(self);
}

impl Sink for Pipeline {
    type Told = Feed;

    fn open(&self, identity: Identity) -> Result<Feed, Full> {
        Self::open(self, identity)
    }

    fn note(&self, identity: &Identity, state: State) {
        Self::note(self, identity, state);
    }

    fn forget(&self, key: RunKey) {
        Self::forget(self, key);
    }

    fn scanned(&self) {
        Self::scanned(self);
    }
}

impl Told for Feed {
    fn state(&mut self, state: State) {
        Self::state(self, state);
    }

    fn learned(&mut self, runtime: Option<String>, attributes: Vec<KeyValue>) {
        Self::learned(self, runtime, attributes);
    }

    fn time_base(&mut self, base: TimeBase) {
        Self::time_base(self, base);
    }

    fn observe(&mut self, outcome: Outcome) {
        Self::observe(self, outcome);
    }

    fn progress(&mut self, progress: StreamProgress) {
        Self::progress(self, progress);
    }

    fn open(&mut self, open: Open) {
        Self::open(self, open);
    }

    fn end(self) {
        Self::end(self);
    }
}
