//! What the pipeline asks of the rest of the daemon: a way out.

use std::fmt;
use std::sync::Arc;

use base::time::Wall;
use delivery::alerts::{IncidentNotice, Notices};
use gc_telemetry::origin::Origin;
use gc_telemetry::spans::Encoded;
use opentelemetry_proto::tonic::metrics::v1::Metric;

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
