//! Where the pipeline's data goes: the OTLP client and the receivers of alerts.

use std::sync::Arc;

use gc_telemetry::origin::Origin;
use opentelemetry_proto::tonic::metrics::v1::Metric;

use crate::daemon::incident_log;
use crate::pipeline::Outlet;
use base::clock::now_unix_ns;
use base::time::Wall;
use delivery::alerts::{IncidentNotice, Notices, Notifier, subject};
use delivery::otlp::Exporter;
use gc_telemetry::anomaly::log_record;
use gc_telemetry::incident::incident_record;
use gc_telemetry::spans::Encoded;

/// Gives spans and metrics to the exporter, alerts to the notifier.
#[derive(Debug)]
pub(crate) struct DeliveryOutlet {
    pub(crate) exporter: Exporter,
    pub(crate) notifier: Notifier,
}

impl Outlet for DeliveryOutlet {
    fn spans(&self, resource: &Arc<Origin>, spans: Encoded) {
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
            let logged = notices
                .alerts
                .iter()
                .filter(|notice| notice.transition.alert().rule.emit.log);
            let records =
                logged.map(|notice| log_record(&notice.transition, notice.group.as_deref(), notice.span, wall, now));
            let incidents = notices.incidents.iter().filter(|notice| notice.change.is_message());
            let incidents = incidents.map(|notice| {
                let subject = subject(notice.run, &notice.process, resource);
                incident_record(&notice.change, &subject, wall, notice.span, now)
            });
            self.exporter.logs(resource, records.chain(incidents).collect());
        }
        for notice in &notices.incidents {
            incident_log::write(notice, resource, wall);
        }
        self.notifier.notify(resource, &notices.incidents, wall);
    }

    fn resumed(&self, resource: &Arc<Origin>, incidents: Vec<IncidentNotice>, wall: Wall) {
        self.notifier.resumed(resource, &incidents, wall);
    }
}
