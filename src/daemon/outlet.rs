//! Passes the data of the pipeline to the OTLP client, the receivers of alerts, the log, the evidence store and
//! Kubernetes Events.

use std::sync::Arc;

use gc_telemetry::origin::Origin;
use opentelemetry_proto::tonic::metrics::v1::Metric;
use tracing::info;

use crate::daemon::{incident_log, pod_events};
use crate::pipeline::Outlet;
use base::clock::now_unix_ns;
use base::time::Wall;
use delivery::alerts::{IncidentNotice, Notices, Notifier, subject};
use delivery::otlp::Exporter;
use evidence::store::Store;
use gc_advice::change::ChangeRecord;
use gc_telemetry::anomaly::log_record;
use gc_telemetry::change::change_record;
use gc_telemetry::incident::incident_record;
use gc_telemetry::spans::EncodedSpans;
use incidents::{IncidentChange, IncidentRecord, key_of_record};
use kubernetes::Events;

/// An outlet that sends telemetry to the exporter, incidents to the notifier and the log, evidence to the store, and
/// events to pods.
#[derive(Debug)]
pub(crate) struct DeliveryOutlet {
    pub(crate) exporter: Exporter,
    pub(crate) notifier: Notifier,
    /// Store that keeps evidence outside the host; `None` if evidence stays on the host.
    pub(crate) store: Option<Store>,
    /// Client that creates Kubernetes Events on pods; `None` if disabled.
    pub(crate) events: Option<Events>,
}

impl DeliveryOutlet {
    /// Stores the record of an incident with evidence when the incident starts, gets evidence or ends.
    fn store(&self, notice: &IncidentNotice, resource: &Origin, wall: Wall) {
        let Some(store) = &self.store else { return };
        let changes_evidence = matches!(
            notice.change,
            IncidentChange::Began(_) | IncidentChange::Gathered(..) | IncidentChange::Ended(_)
        );
        if !changes_evidence {
            return;
        }
        let subject = subject(notice.run, &notice.process, resource);
        let record = IncidentRecord::new(notice.change.incident(), &subject, wall).in_store(Some(store.base()));
        if record.evidence.is_empty() {
            return;
        }
        // A record of strings and numbers can always be serialized as JSON.
        if let Ok(mut bytes) = serde_json::to_vec_pretty(&record) {
            bytes.push(b'\n');
            store.store_bytes(key_of_record(&record.id), bytes);
        }
    }
}

impl Outlet for DeliveryOutlet {
    fn spans(&self, resource: &Arc<Origin>, spans: EncodedSpans) {
        let count = spans.count();
        self.exporter.encoded_spans(resource, spans.into_fields(), count);
    }

    fn metrics(&self, resource: &Arc<Origin>, metrics: Vec<Metric>) {
        self.exporter.metrics(resource, metrics);
    }

    fn alerts(&self, resource: &Arc<Origin>, notices: Notices) {
        let wall = notices.wall;
        if self.notifier.logs() {
            let now = now_unix_ns();
            let alerts = notices.alerts.iter();
            let records =
                alerts.map(|notice| log_record(&notice.transition, notice.group.as_deref(), notice.span, wall, now));
            let incidents = notices.incidents.iter().filter(|notice| notice.change.is_message());
            let store = self.store.as_ref().map(|store| &**store.base());
            let incidents = incidents.map(|notice| {
                let subject = subject(notice.run, &notice.process, resource);
                incident_record(&notice.change, &subject, store, wall, notice.span, now)
            });
            self.exporter.logs(resource, records.chain(incidents).collect());
        }
        for notice in &notices.incidents {
            incident_log::write(notice, resource, wall);
            self.store(notice, resource, wall);
            if let Some(events) = &self.events
                && let Some(event) = pod_events::event(notice, resource, wall)
            {
                events.create(event);
            }
        }
        self.notifier.notify(resource, &notices.incidents, wall);
    }

    fn change(&self, resource: &Arc<Origin>, change: &ChangeRecord) {
        self.exporter.logs(resource, vec![change_record(change, now_unix_ns())]);
        // Over OTLP, the change is a log record of its process, so this line goes only to standard error.
        info!(
            target: incident_log::TARGET,
            service = change.service, change = change.id.as_deref(), "change of configuration: {}", change.summary()
        );
    }

    fn resumed(&self, resource: &Arc<Origin>, incidents: Vec<IncidentNotice>, wall: Wall) {
        self.notifier.resumed(resource, &incidents, wall);
    }
}
