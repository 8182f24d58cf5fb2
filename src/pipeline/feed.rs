//! What the task of a process tells.

use std::sync::Arc;

use clr_gc::gc::Outcome;
use opentelemetry_proto::tonic::common::v1::KeyValue;

use crate::pipeline::run::{Identity, Run, RunKey, State, StreamProgress};
use crate::telemetry::time::TimeBase;

/// As many processes as may be are told of already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{limit} processes are told of already; more are counted only")]
pub struct Full {
    /// The limit.
    pub limit: usize,
}

/// The pipeline from outcomes to what leaves, shared by all tasks.
#[derive(Debug, Clone, Default)]
pub struct Pipeline {
    // Filled in by the registry of runs and the exporters.
    _private: (),
}

impl Pipeline {
    /// Begins to tell of a run, or goes on with one that was told of before (its totals go on, too).
    ///
    /// # Errors
    ///
    /// When there are as many as may be.
    pub fn open(&self, identity: Identity) -> Result<Feed, Full> {
        let run = Arc::new(Run::new(identity.key));
        Ok(Feed { run, base: None })
    }

    /// Says what is done with a process that has no feed (left out, not attachable); the newest word stands.
    pub fn note(&self, _identity: &Identity, _state: State) {}

    /// Forgets a process that has no feed: it is gone.
    pub fn forget(&self, _key: RunKey) {}
}

/// What one task tells of one run. Dropped without [`end`](Self::end), the run stays, detached.
#[derive(Debug)]
pub struct Feed {
    run: Arc<Run>,
    base: Option<TimeBase>,
}

impl Feed {
    /// The run that it tells of.
    pub fn run(&self) -> &Arc<Run> {
        &self.run
    }

    /// What is done with the process now.
    pub fn state(&mut self, _state: State) {}

    /// More is known of who it is: the runtime's version, attributes of the resource (a name that is there already gets the new
    /// value). Spans and metrics from now on carry it.
    pub fn learned(&mut self, _runtime: Option<String>, _attributes: Vec<KeyValue>) {}

    /// A session began; offsets of what follows lie on `base`. Given again while the session goes on, it corrects the drift of
    /// the two clocks.
    pub fn time_base(&mut self, base: TimeBase) {
        self.base = Some(base);
    }

    /// One outcome of the reconstruction.
    pub fn observe(&mut self, _outcome: Outcome) {}

    /// How far the session's stream was read.
    pub fn progress(&mut self, _progress: StreamProgress) {}

    /// The process is gone: its metrics are sent a last time, then its series end.
    pub fn end(self) {}
}
