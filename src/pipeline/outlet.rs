//! The interface through which the pipeline sends data to the rest of the daemon.

use std::fmt;
use std::sync::Arc;

use base::time::Wall;
use delivery::alerts::{IncidentNotice, Notices};
use gc_advice::change::ChangeRecord;
use gc_telemetry::origin::Origin;
use gc_telemetry::spans::EncodedSpans;
use opentelemetry_proto::tonic::metrics::v1::Metric;

/// Receiver of spans, metrics and alerts. An implementation never waits; it drops and counts items that it cannot
/// accept.
pub trait Outlet: Send + Sync + fmt::Debug {
    /// Sends spans of one process.
    fn spans(&self, resource: &Arc<Origin>, spans: EncodedSpans);
    /// Sends metrics of one process.
    fn metrics(&self, resource: &Arc<Origin>, metrics: Vec<Metric>);
    /// Sends changes of alerts and incidents of one process, in order.
    fn alerts(&self, resource: &Arc<Origin>, notices: Notices);
    /// Sends a change of the configuration of a service that has new verdicts. `resource` belongs to a process after the
    /// change.
    fn change(&self, _resource: &Arc<Origin>, _change: &ChangeRecord) {}
    /// Passes incidents of one process that receivers already have, from before a restart of gcwatch.
    fn resumed(&self, _resource: &Arc<Origin>, _incidents: Vec<IncidentNotice>, _wall: Wall) {}
}
