//! The pipeline as the listener looks at it.

use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::sync::Arc;

use api::view::{
    AlertView, CollectionRecord, HistoryColumns, NoCollection, ProcessRecord, ProcessRow, ReportedRequests, RuleView,
    TargetView,
};
use evidence::black_box::files::Files;
use gc_rules::incident::IncidentRecord;
use gc_telemetry::origin::Origin;
use opentelemetry_proto::tonic::metrics::v1::Metric;
use targets::host::now;
use web::Views;

use crate::pipeline::Pipeline;

impl Views for Pipeline {
    fn incidents(&self) -> Vec<IncidentRecord> {
        Self::incidents(self)
    }

    fn rows(&self, incidents: &[IncidentRecord], sparks: bool) -> Vec<ProcessRow> {
        Self::rows(self, incidents, sparks, now())
    }

    fn exited_rows(&self, incidents: &[IncidentRecord]) -> Vec<ProcessRow> {
        Self::exited_rows(self, incidents, now())
    }

    fn states(&self) -> BTreeMap<&'static str, u64> {
        Self::states(self)
    }

    fn targets(&self) -> Vec<TargetView> {
        Self::targets(self)
    }

    fn process(&self, pid: u32) -> Option<ProcessRecord> {
        Self::process(self, pid, now())
    }

    fn look_at_memory(&self, pid: u32) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(Self::look_at_memory(self, pid))
    }

    fn collection(&self, pid: u32, number: u64) -> Result<CollectionRecord, NoCollection> {
        Self::collection(self, pid, number)
    }

    fn collections(&self, pid: Option<u32>, limit: usize) -> Vec<serde_json::Value> {
        Self::collections(self, pid, limit)
    }

    fn long_history(&self, pid: u32, hours: u64) -> Option<io::Result<HistoryColumns>> {
        Self::long_history(self, pid, hours, now())
    }

    fn request_view(&self, pid: u32) -> Option<ReportedRequests> {
        Self::request_view(self, pid)
    }

    fn rule_views(&self, pid: Option<u32>) -> Vec<RuleView> {
        Self::rule_views(self, pid)
    }

    fn alerts(&self) -> Vec<AlertView> {
        Self::alerts(self)
    }

    fn collect(&self, now_unix_ns: u64) -> Vec<(Arc<Origin>, Vec<Metric>)> {
        Self::collect(self, now_unix_ns)
    }

    fn black_box_files(&self) -> Option<Arc<Files>> {
        Self::black_box_files(self)
    }

    fn flame_graph(&self, name: &str) -> Option<String> {
        self.flames().get(name)
    }
}
