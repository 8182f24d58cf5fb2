//! Tests of the requests on the wire, in each protocol and compression.

use base::secret::Secret;
use delivery::otlp::settings::{Compression, Protocol};
use delivery::otlp::signal::Signal;

use crate::otlp::given::{PROTOCOLS, all_to, gauge, record, resource, settle, span, spans_to, start};
use test_support::receiver::Receiver;

/// Scenario: a span, a log record and a metric are sent in each of the three protocols with each of the three
/// compressions, and with a header.
/// Guarantee: each item arrives at the path of its signal with its resource, compressed as configured, with the header
/// and the user agent `gcwatch`; the span has the scope, version and schema; the counters contain each item.
#[tokio::test]
async fn every_protocol_and_compression_is_delivered() {
    for protocol in PROTOCOLS {
        for compression in [Compression::None, Compression::Gzip, Compression::Zstd] {
            let mut receiver = Receiver::start().await;
            let mut settings = all_to(&receiver, protocol);
            let receivers = [&mut settings.traces, &mut settings.metrics, &mut settings.logs];
            for one in receivers.into_iter().flatten() {
                one.compression = compression;
                one.headers = vec![("x-tenant".to_owned(), Secret::new("seven"))];
            }
            let (exporter, running) = start(&settings);
            let resource = resource("shop");
            exporter.spans(&resource, vec![span("gc")]);
            settle(&exporter).await;
            let traces = receiver.next().await;
            exporter.metrics(&resource, vec![gauge("heap", 3)]);
            settle(&exporter).await;
            let metrics = receiver.next().await;
            exporter.logs(&resource, vec![record("anomaly")]);
            settle(&exporter).await;
            let logs = receiver.next().await;

            let packed = match compression {
                Compression::None => None,
                Compression::Gzip => Some("gzip"),
                Compression::Zstd => Some("zstd"),
            };
            let (kind, paths) = match protocol {
                Protocol::Grpc => (
                    "application/grpc",
                    [
                        "trace.v1.TraceService/Export",
                        "metrics.v1.MetricsService/Export",
                        "logs.v1.LogsService/Export",
                    ]
                    .map(|method| format!("/opentelemetry.proto.collector.{method}")),
                ),
                Protocol::HttpProtobuf => (
                    "application/x-protobuf",
                    ["v1/traces", "v1/metrics", "v1/logs"].map(|path| format!("/{path}")),
                ),
                Protocol::HttpJson => (
                    "application/json",
                    ["v1/traces", "v1/metrics", "v1/logs"].map(|path| format!("/{path}")),
                ),
            };
            for (request, path) in [&traces, &metrics, &logs].into_iter().zip(paths) {
                assert_eq!(request.path, path);
                assert_eq!(request.packed.as_deref(), packed, "{protocol:?}");
                assert_eq!(request.header("content-type"), kind);
                assert_eq!(request.header("x-tenant"), "seven");
                let agent = request.header("user-agent").to_owned();
                assert!(
                    agent.starts_with(concat!("gcwatch/", env!("CARGO_PKG_VERSION"))),
                    "{agent}"
                );
            }
            let traces = traces.traces().resource_spans;
            assert_eq!(traces[0].resource.as_ref(), Some(&**resource));
            assert_eq!(traces[0].schema_url, "https://opentelemetry.io/schemas/1.44.0");
            let scope = traces[0].scope_spans[0].scope.clone().unwrap();
            assert_eq!(
                (scope.name.as_str(), scope.version.as_str()),
                ("gcwatch", env!("CARGO_PKG_VERSION"))
            );
            assert_eq!(traces[0].scope_spans[0].schema_url, traces[0].schema_url);
            assert_eq!(traces[0].scope_spans[0].spans, [span("gc")]);
            let metrics = metrics.metrics().resource_metrics;
            assert_eq!(metrics[0].resource.as_ref(), Some(&**resource));
            assert_eq!(metrics[0].scope_metrics[0].metrics, [gauge("heap", 3)]);
            let logs = logs.logs().resource_logs;
            assert_eq!(logs[0].resource.as_ref(), Some(&**resource));
            assert_eq!(logs[0].scope_logs[0].log_records, [record("anomaly")]);

            let stats = exporter.stats();
            let exported = Signal::ALL.map(|signal| stats.get(signal).exported);
            assert_eq!(exported, [1, 3, 1]);
            assert!(running.shutdown(test_support::receiver::LONG).await.is_nothing());
        }
    }
}

/// Scenario: two processes alternately produce spans; the first process also has a second, equal resource.
/// Guarantee: one request has one part for each process, with the spans of the process in order.
#[tokio::test]
async fn one_request_is_grouped_by_process() {
    let mut receiver = Receiver::start().await;
    let (exporter, _running) = start(&spans_to(&receiver, Protocol::Grpc));
    let (a, b, a_again) = (resource("a"), resource("b"), resource("a"));
    exporter.spans(&a, vec![span("a1")]);
    exporter.spans(&b, vec![span("b1")]);
    exporter.spans(&a_again, vec![span("a2")]);
    exporter.spans(&b, vec![span("b2")]);
    exporter.spans(&a, vec![span("a3")]);
    settle(&exporter).await;
    let request = receiver.next().await;
    assert_eq!(request.span_names(), ["a1", "a2", "a3", "b1", "b2"]);
    let parts = request.traces().resource_spans;
    assert_eq!(
        parts
            .iter()
            .map(|part| part.resource.clone().unwrap())
            .collect::<Vec<_>>(),
        [(**a).clone(), (**b).clone()]
    );
    assert!(receiver.try_next().is_none());
}

/// Scenario: all three signals are sent several times to the same gRPC endpoint.
/// Guarantee: the signals share one connection.
#[tokio::test]
async fn signals_share_connection() {
    let mut receiver = Receiver::start().await;
    let (exporter, _running) = start(&all_to(&receiver, Protocol::Grpc));
    let resource = resource("shop");
    for _ in 0..3 {
        exporter.spans(&resource, vec![span("gc")]);
        exporter.metrics(&resource, vec![gauge("heap", 1)]);
        exporter.logs(&resource, vec![record("anomaly")]);
        settle(&exporter).await;
    }
    for _ in 0..9 {
        receiver.next().await;
    }
    assert_eq!(receiver.connections(), 1);
}
