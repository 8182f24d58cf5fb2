//! What an orchestrator knows of a process: `kubernetes` answers, the pipeline asks.

use std::fmt;

use opentelemetry_proto::tonic::common::v1::KeyValue;

use crate::container::ContainerIdentity;

/// What an orchestrator knows of the end of a container.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ended {
    /// It was killed for memory.
    pub oom_killed: bool,
    /// It ended with a failure, and was started again or will be.
    pub failed: bool,
}

/// Attributes of a process by where it runs: an orchestrator's metadata.
pub trait Surroundings: Send + Sync + fmt::Debug {
    /// Attributes of a process in this container, as far as they are known now; those that the process gave itself win.
    /// Called under a lock: it does not wait.
    fn attributes(&self, container: &ContainerIdentity) -> Vec<KeyValue>;

    /// How a container ended; `None`: it is not known (yet), or it runs. Called as [`Self::attributes`].
    fn ended(&self, _container: &ContainerIdentity) -> Option<Ended> {
        None
    }
}
