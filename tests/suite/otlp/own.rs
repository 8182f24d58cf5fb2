//! Tests of the log records and spans of gcwatch itself, which the SDK and `opentelemetry-otlp` send over the
//! connections of the targets' data.
//!
//! The runtime of these tests has one thread, like the runtime of the daemon.

use std::time::{Duration, Instant};

use base::secret::Secret;
use delivery::otlp::Exporter;
use delivery::otlp::settings::{Compression, OtlpSettings, Protocol};
use delivery::otlp::stats::LostItems;
use opentelemetry::logs::{AnyValue, LogRecord as _, Logger as _, LoggerProvider as _, Severity};
use opentelemetry::trace::{Span as _, Tracer as _};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_sdk::logs::{SdkLogger, SdkLoggerProvider};
use opentelemetry_sdk::trace::SdkTracer;
use tonic::Code;

use super::given::{PROTOCOLS, all_to, assert_sum, attribute, record, resource, settle, start};
use super::outage::{until, with_disk};
use test_support::receiver::{LONG, Receiver, Recorded, Reply};

/// The providers of an exporter's own telemetry.
struct OwnProviders {
    /// Kept because dropping the provider shuts it down.
    _provider: SdkLoggerProvider,
    logger: SdkLogger,
    tracer: SdkTracer,
}

impl OwnProviders {
    fn new(exporter: &Exporter) -> Self {
        let provider = exporter.own_logs(&resource("gcwatch")).unwrap();
        Self {
            // The exporter replaces this scope.
            logger: provider.logger(""),
            _provider: provider,
            tracer: exporter.own_spans(&resource("gcwatch")).unwrap(),
        }
    }

    fn log(&self, text: &str) {
        let mut record = self.logger.create_log_record();
        record.set_severity_number(Severity::Warn);
        record.set_target("gcwatch::targets");
        record.set_body(AnyValue::from(text.to_owned()));
        self.logger.emit(record);
    }

    fn span(&self, name: &'static str) {
        self.tracer.start(name).end();
    }
}

/// Returns the bodies of the log records in a request.
fn bodies(request: &Recorded) -> Vec<String> {
    let scopes = request
        .logs()
        .resource_logs
        .into_iter()
        .flat_map(|resource| resource.scope_logs);
    let records = scopes.flat_map(|scope| scope.log_records);
    records
        .map(|record| match record.body.unwrap().value {
            Some(Value::StringValue(text)) => text,
            other => panic!("{other:?}"),
        })
        .collect()
}

/// Scenario: a log record and a span are sent in each protocol and compression, with a header from the settings.
/// Guarantee: both items arrive at the paths of the targets' data, with gcwatch's resource, scope, version and schema,
/// and with the configured compression and headers. Over gRPC, they share a connection with the targets' data. The
/// counters include both items and the targets' data.
#[tokio::test]
async fn own_telemetry_arrives_like_target_data() {
    for protocol in PROTOCOLS {
        for compression in [Compression::None, Compression::Gzip, Compression::Zstd] {
            let mut receiver = Receiver::start().await;
            let mut settings = all_to(&receiver, protocol);
            for one in [&mut settings.traces, &mut settings.logs].into_iter().flatten() {
                one.compression = compression;
                one.headers = vec![("x-tenant".to_owned(), Secret::new("seven"))];
            }
            let (exporter, running) = start(&settings);
            exporter.logs(&resource("shop"), vec![record("anomaly")]);
            settle(&exporter).await;
            let of_targets = receiver.next().await;
            let own = OwnProviders::new(&exporter);
            own.log("attached");
            let logs = receiver.next().await;
            own.span("attach");
            let traces = receiver.next().await;
            for request in [&logs, &traces] {
                for name in ["content-type", "user-agent", "x-tenant"] {
                    assert_eq!(request.header(name), of_targets.header(name), "{protocol:?}");
                }
                assert_eq!(request.packed, of_targets.packed, "{protocol:?}");
            }
            assert_eq!(logs.path, of_targets.path);
            assert!(traces.path.to_lowercase().contains("trace"));
            if protocol == Protocol::Grpc {
                assert_eq!(receiver.connections(), 1);
            }
            let logs = logs.logs().resource_logs.remove(0);
            let spans = traces.traces().resource_spans.remove(0);
            let schema = "https://opentelemetry.io/schemas/1.44.0";
            let expected = [attribute("service.name", "gcwatch")];
            assert_eq!(logs.resource.unwrap().attributes, expected);
            assert_eq!(spans.resource.unwrap().attributes, expected);
            assert_eq!((logs.schema_url.as_str(), spans.schema_url.as_str()), (schema, schema));
            for (scope, url) in [
                (&logs.scope_logs[0].scope, &logs.scope_logs[0].schema_url),
                (&spans.scope_spans[0].scope, &spans.scope_spans[0].schema_url),
            ] {
                let scope = scope.as_ref().unwrap();
                let version = env!("CARGO_PKG_VERSION");
                assert_eq!((scope.name.as_str(), scope.version.as_str()), ("gcwatch", version));
                assert_eq!(url, schema);
            }
            assert_eq!(logs.scope_logs[0].log_records[0].severity_number, 13);
            assert_eq!(spans.scope_spans[0].spans[0].name, "attach");
            assert!(running.shutdown(LONG).await.is_nothing());
            let stats = exporter.stats();
            assert_eq!((stats.logs.exported, stats.traces.exported), (2, 1), "{protocol:?}");
            assert_sum(&stats.logs);
            assert_sum(&stats.traces);
        }
    }
}

/// Scenario: a reload sets another receiver with another protocol, then no receiver, then a receiver again.
/// Guarantee: each record goes to the receiver that is configured when it is sent; without a receiver, records are
/// discarded.
#[tokio::test]
async fn own_telemetry_follows_reload() {
    let (mut first, mut second) = (Receiver::start().await, Receiver::start().await);
    let (exporter, running) = start(&all_to(&first, Protocol::Grpc));
    let own = OwnProviders::new(&exporter);
    own.log("one");
    assert_eq!(bodies(&first.next().await), ["one"]);
    exporter.reconfigure(&all_to(&second, Protocol::HttpJson)).unwrap();
    own.log("two");
    assert_eq!(bodies(&second.next().await), ["two"]);
    // Items in flight count as dropped if their signal is switched off.
    exporter.until(|stats| stats.logs.exported == 2).await;
    exporter.reconfigure(&OtlpSettings::default()).unwrap();
    own.log("nowhere");
    exporter.reconfigure(&all_to(&first, Protocol::HttpProtobuf)).unwrap();
    own.log("three");
    assert_eq!(bodies(&first.next().await), ["three"]);
    assert!(running.shutdown(LONG).await.is_nothing());
    assert_eq!(exporter.stats().logs.exported, 3);
}

/// Scenario: a receiver is unavailable and demands a long delay before the next attempt; then a reload sets another
/// receiver.
/// Guarantee: the exporter immediately sends the record to the new receiver, and drops no record.
#[tokio::test]
async fn retry_follows_reload() {
    for protocol in [Protocol::Grpc, Protocol::HttpProtobuf] {
        let (mut old, mut new) = (Receiver::start().await, Receiver::start().await);
        match protocol {
            Protocol::Grpc => old.then(Reply::unavailable(Some(LONG * 10))),
            _ => old.then(Reply::http(503, &[("retry-after", "600")])),
        }
        let (exporter, running) = start(&all_to(&old, protocol));
        let own = OwnProviders::new(&exporter);
        own.log("attached");
        assert_eq!(bodies(&old.next().await), ["attached"]);
        exporter.reconfigure(&all_to(&new, protocol)).unwrap();
        assert_eq!(bodies(&new.next().await), ["attached"]);
        assert!(running.shutdown(LONG).await.is_nothing());
        assert_eq!(
            (exporter.stats().logs.exported, exporter.stats().logs.dropped.total()),
            (1, 0)
        );
    }
}

/// Scenario: a receiver permanently refuses a record, then answers the next record like a backend that accepts only
/// traces; a third record follows.
/// Guarantee: the refused record is counted and not retried. The third record is not sent, and counts as dropped.
#[tokio::test]
async fn refusal_is_final_and_unsupported_signal_is_sent_once() {
    for protocol in [Protocol::Grpc, Protocol::HttpProtobuf] {
        let mut receiver = Receiver::start().await;
        let (refused, unsupported) = match protocol {
            Protocol::Grpc => (
                Reply::grpc(Code::InvalidArgument, "bad", None),
                Reply::grpc(Code::Unimplemented, "unknown service", None),
            ),
            _ => (Reply::http(400, &[]), Reply::http(404, &[])),
        };
        receiver.script([refused, unsupported]);
        let (exporter, running) = start(&all_to(&receiver, protocol));
        let own = OwnProviders::new(&exporter);
        own.log("refused");
        assert_eq!(bodies(&receiver.next().await), ["refused"]);
        own.log("unsupported");
        assert_eq!(bodies(&receiver.next().await), ["unsupported"]);
        exporter.until(|stats| stats.logs.unsupported).await;
        own.log("not even tried");
        // The last record is dropped before or during shutdown; in the second case it counts as lost.
        let _lost = running.shutdown(LONG).await;
        assert!(receiver.try_next().is_none());
        let stats = exporter.stats().logs;
        let dropped = &stats.dropped;
        assert!(
            dropped.refused == 1 && dropped.unsupported >= 1 && dropped.unsupported + dropped.shutdown == 2,
            "{protocol:?}: {stats:?}"
        );
        assert_sum(&stats);
    }
}

/// Scenario: a receiver answers a compressed record with the error that it cannot decompress.
/// Guarantee: the exporter sends the record again without compression, and no record is lost.
#[tokio::test]
async fn receiver_without_decompression_gets_plain_own_records() {
    let grpc = Reply::grpc(
        Code::Unimplemented,
        "Decompressor is not installed for grpc-encoding \"gzip\"",
        None,
    );
    for (protocol, reply) in [(Protocol::Grpc, grpc), (Protocol::HttpProtobuf, Reply::http(415, &[]))] {
        let mut receiver = Receiver::start().await;
        receiver.script([reply]);
        let mut settings = all_to(&receiver, protocol);
        if let Some(logs) = &mut settings.logs {
            logs.compression = Compression::Gzip;
        }
        let (exporter, running) = start(&settings);
        OwnProviders::new(&exporter).log("attached");
        assert_eq!(receiver.next().await.packed.as_deref(), Some("gzip"));
        let again = receiver.next().await;
        assert_eq!(
            (again.packed.as_deref(), bodies(&again)),
            (None, vec!["attached".to_owned()])
        );
        assert!(running.shutdown(LONG).await.is_nothing());
    }
}

/// Scenario: the receiver is unavailable for a log record and a span of gcwatch itself; gcwatch shuts down and starts
/// again with a working receiver. All three protocols are tested.
/// Guarantee: both items wait on disk like target data, no item is lost, and each arrives once with gcwatch's resource
/// and scope.
#[tokio::test]
async fn own_telemetry_survives_outage_and_restart() {
    for protocol in PROTOCOLS {
        let folder = tempfile::tempdir().unwrap();
        let receiver = Receiver::start().await;
        receiver.then(match protocol {
            Protocol::Grpc => Reply::unavailable(None),
            Protocol::HttpProtobuf | Protocol::HttpJson => Reply::http(503, &[]),
        });
        let (exporter, running) = start(&with_disk(all_to(&receiver, protocol), folder.path()));
        let own = OwnProviders::new(&exporter);
        own.log("kept");
        own.span("kept");
        until(&exporter, |stats| (stats.logs.stored, stats.traces.stored) == (1, 1)).await;
        assert!(running.shutdown(LONG).await.is_nothing());
        assert_sum(&exporter.stats().logs);
        assert_sum(&exporter.stats().traces);
        drop((own, exporter));

        let mut receiver = Receiver::start().await;
        let (exporter, running) = start(&with_disk(all_to(&receiver, protocol), folder.path()));
        until(&exporter, |stats| {
            (stats.logs.exported, stats.traces.exported) == (1, 1)
        })
        .await;
        let (mut logs, mut spans) = (Vec::new(), Vec::new());
        while let Some(request) = receiver.try_next() {
            if request.path.to_lowercase().contains("trace") {
                spans.extend(request.span_names());
                continue;
            }
            logs.extend(bodies(&request));
            let resource = request.logs().resource_logs.remove(0);
            assert_eq!(
                resource.resource.unwrap().attributes,
                [attribute("service.name", "gcwatch")]
            );
            assert_eq!(resource.scope_logs[0].scope.as_ref().unwrap().name, "gcwatch");
        }
        assert_eq!(
            (logs, spans),
            (vec!["kept".to_owned()], vec!["kept".to_owned()]),
            "{protocol:?}"
        );
        assert!(running.shutdown(LONG).await.is_nothing());
    }
}

/// Scenario: the exporter shuts down while a receiver hangs on a record and a span, more items are queued, and more
/// arrived than the queue accepts; or the receiver is down.
/// Guarantee: shutdown finishes within its timeout on a runtime with one thread, every item is counted once, and the
/// queue is bounded.
#[tokio::test]
async fn own_telemetry_shutdown_is_bounded_and_reports_lost_items() {
    for protocol in PROTOCOLS {
        for down in [false, true] {
            let mut receiver = Receiver::start().await;
            receiver.then(Reply::Hang);
            let (exporter, running) = start(&all_to(&receiver, protocol));
            let own = OwnProviders::new(&exporter);
            if down {
                drop(receiver);
                own.log("tried");
                own.span("tried");
                let tried =
                    exporter.until(|stats| stats.logs.requests.unreachable.min(stats.traces.requests.unreachable) > 0);
                tried.await;
            } else {
                own.log("in flight");
                receiver.next().await;
                own.span("in flight");
                receiver.next().await;
            }
            for _ in 0..600 {
                own.log("waits");
            }
            let begun = Instant::now();
            let lost = running.shutdown(Duration::from_millis(100)).await;
            assert!(
                begun.elapsed() < Duration::from_secs(3),
                "{protocol:?}, down: {down}: {:?}",
                begun.elapsed()
            );
            let expected = LostItems {
                spans: 1,
                points: 0,
                records: 513,
            };
            let stats = exporter.stats();
            if down {
                // Items that were tried wait in the queue of the signal, so the SDK's queue has room for more.
                let all = lost.records + stats.logs.dropped.queue_full;
                assert_eq!((lost.spans, all), (1, 601), "{protocol:?}: {stats:?}");
            } else {
                // The queued records and the record in flight.
                assert_eq!(
                    (lost, stats.logs.dropped.queue_full),
                    (expected, 88),
                    "{protocol:?}: {stats:?}"
                );
            }
            assert_sum(&stats.logs);
            assert_sum(&stats.traces);
        }
    }
}
