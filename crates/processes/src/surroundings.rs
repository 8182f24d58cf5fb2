//! Facts that an orchestrator has about a process. `kubernetes` provides them, the pipeline queries them.

use std::fmt;

use opentelemetry_proto::tonic::common::v1::KeyValue;

use crate::container::ContainerIdentity;

/// Facts that an orchestrator has about the end of a container.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ContainerEnd {
    /// Whether the container was killed for memory.
    pub oom_killed: bool,
    /// Whether the container failed, and was or will be restarted.
    pub failed: bool,
}

/// Source of attributes from the environment of a process: the metadata of an orchestrator.
pub trait Surroundings: Send + Sync + fmt::Debug {
    /// Returns the attributes of a process in this container that are known now. Attributes that the process set itself
    /// take precedence. The method is called under a lock and must not wait.
    fn attributes(&self, container: &ContainerIdentity) -> Vec<KeyValue>;

    /// Returns how a container ended, or `None` if that is still unknown or the container is running. The method is
    /// called under a lock and must not wait.
    fn ended(&self, _container: &ContainerIdentity) -> Option<ContainerEnd> {
        None
    }
}
