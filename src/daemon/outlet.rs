//! The pipeline's way to the OTLP client.

use std::sync::Arc;

use opentelemetry_proto::tonic::metrics::v1::Metric;
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::Span;

use crate::export::otlp::Exporter;
use crate::pipeline::Outlet;

impl Outlet for Exporter {
    fn spans(&self, resource: &Arc<Resource>, spans: Vec<Span>) {
        Self::spans(self, resource, spans);
    }

    fn metrics(&self, resource: &Arc<Resource>, metrics: Vec<Metric>) {
        Self::metrics(self, resource, metrics);
    }
}
