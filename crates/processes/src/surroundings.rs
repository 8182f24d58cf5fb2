//! Facts that an orchestrator has about a process. The crate `kubernetes` provides the facts, and the pipeline queries
//! them.

use std::fmt;

use opentelemetry_proto::tonic::common::v1::KeyValue;

use crate::container::ContainerIdentity;

/// Facts that an orchestrator has about the end of a container.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ContainerEnd {
    /// Whether the kernel killed the container because of its memory.
    pub oom_killed: bool,
    /// Whether the container failed: it was killed because of its memory, or its exit code is neither 0 nor the code of
    /// SIGTERM.
    pub failed: bool,
}

/// Source of attributes from the environment of a process: the metadata of an orchestrator.
pub trait Surroundings: Send + Sync + fmt::Debug {
    /// Returns the attributes of a process in this container that are known now. Attributes that the process set itself
    /// take precedence. The method is called under a lock and must not wait.
    fn attributes(&self, container: &ContainerIdentity) -> Vec<KeyValue>;

    /// Returns the end of a container, or `None` if the end is unknown or the container is running. The method is
    /// called under a lock and must not wait.
    fn ended(&self, _container: &ContainerIdentity) -> Option<ContainerEnd> {
        None
    }
}
