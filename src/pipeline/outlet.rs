//! What the pipeline asks of the rest of the daemon: a way out, and what an orchestrator knows of a process.

use std::fmt;
use std::sync::Arc;

use delivery::alerts::{IncidentNotice, Notices};
use gc_rules::time::Wall;
use gc_telemetry::origin::Origin;
use gc_telemetry::spans::Encoded;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::metrics::v1::Metric;

use crate::container::ContainerIdentity;
use crate::pipeline::service::Ended;

/// Where spans, metrics and alerts go. An implementation never waits; what it cannot take it drops and counts.
pub trait Outlet: Send + Sync + fmt::Debug {
    /// Spans of one process.
    fn spans(&self, resource: &Arc<Origin>, spans: Encoded);
    /// Metrics of one process.
    fn metrics(&self, resource: &Arc<Origin>, metrics: Vec<Metric>);
    /// Changes of alerts and incidents of one process, in order.
    fn alerts(&self, resource: &Arc<Origin>, notices: Notices);
    /// Incidents of one process that receivers know already, from before gcwatch was restarted.
    fn resumed(&self, _resource: &Arc<Origin>, _incidents: Vec<IncidentNotice>, _wall: Wall) {}
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
