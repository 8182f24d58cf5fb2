//! Items that the tests send, and settings of the exporter.

use std::sync::Arc;
use std::time::Duration;

use delivery::otlp::settings::{Limits, OtlpSettings, Protocol, Receiver as Settled};
use delivery::otlp::signal::Signal;
use delivery::otlp::stats::SignalStats;
use delivery::otlp::{Exporter, RunningExport};
use gc_telemetry::origin::Origin;
use opentelemetry_proto::tonic::logs::v1::LogRecord;
use opentelemetry_proto::tonic::metrics::v1::{Gauge, Metric, NumberDataPoint, metric};
use opentelemetry_proto::tonic::trace::v1::Span;

pub(crate) use test_support::notices::attribute;
use test_support::receiver::{LONG, Receiver};

pub(crate) const PROTOCOLS: [Protocol; 3] = [Protocol::Grpc, Protocol::HttpProtobuf, Protocol::HttpJson];

/// Returns settings that send one signal to `receiver`.
pub(crate) fn to(receiver: &Receiver, signal: Signal, protocol: Protocol) -> Settled {
    let path = match protocol {
        Protocol::Grpc => String::new(),
        Protocol::HttpProtobuf | Protocol::HttpJson => signal.http_path().to_owned(),
    };
    Settled::new(format!("{}{path}", receiver.url()), protocol, LONG)
}

/// Returns settings that send all signals to `receiver` with little delay.
pub(crate) fn all_to(receiver: &Receiver, protocol: Protocol) -> OtlpSettings {
    OtlpSettings {
        traces: Some(to(receiver, Signal::Traces, protocol)),
        metrics: Some(to(receiver, Signal::Metrics, protocol)),
        logs: Some(to(receiver, Signal::Logs, protocol)),
        limits: Limits {
            batch_delay: Duration::from_millis(20),
            ..Limits::default()
        },
        delta_metrics: false,
        disk: None,
    }
}

/// Returns settings that send only spans.
pub(crate) fn spans_to(receiver: &Receiver, protocol: Protocol) -> OtlpSettings {
    OtlpSettings {
        metrics: None,
        logs: None,
        ..all_to(receiver, protocol)
    }
}

pub(crate) fn resource(service: &str) -> Arc<Origin> {
    Arc::new(Origin::new(vec![attribute("service.name", service)]))
}

pub(crate) fn span(name: &str) -> Span {
    Span {
        name: name.to_owned(),
        trace_id: vec![1; 16],
        span_id: vec![2; 8],
        ..Span::default()
    }
}

/// Returns a span of at least `bytes` encoded bytes.
pub(crate) fn large_span(name: &str, bytes: usize) -> Span {
    Span {
        attributes: vec![attribute("filling", &"x".repeat(bytes))],
        ..span(name)
    }
}

pub(crate) fn record(text: &str) -> LogRecord {
    LogRecord {
        event_name: text.to_owned(),
        ..LogRecord::default()
    }
}

/// Returns a metric with `points` data points.
pub(crate) fn gauge(name: &str, points: usize) -> Metric {
    let data_points = vec![NumberDataPoint::default(); points];
    Metric {
        name: name.to_owned(),
        data: Some(metric::Data::Gauge(Gauge { data_points })),
        ..Metric::default()
    }
}

pub(crate) fn start(settings: &OtlpSettings) -> (Exporter, RunningExport) {
    Exporter::start(settings).unwrap()
}

/// Waits until every item passed to the exporter so far was sent, stored or dropped.
pub(crate) async fn settle(exporter: &Exporter) {
    assert!(
        exporter.flush(LONG).await,
        "every item is settled in time: {:?}",
        exporter.stats()
    );
}

/// Asserts that the counters of a signal contain every item exactly once.
pub(crate) fn assert_sum(stats: &SignalStats) {
    let sum = stats.exported + stats.rejected + stats.dropped.total() + stats.queued + stats.in_flight + stats.stored;
    assert_eq!(stats.given, sum, "{stats:?}");
}
