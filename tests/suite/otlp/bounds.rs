//! Tests of the bounds of the queue, of a request and of the shutdown.

use std::time::Duration;

use delivery::otlp::settings::Protocol;
use delivery::otlp::stats::LostItems;

use crate::otlp::given::{
    PROTOCOLS, all_to, assert_sum, gauge, large_span, record, resource, settle, span, spans_to, start,
};
use test_support::receiver::{LONG, Receiver, Reply};

/// Scenario: while a receiver holds the first request, ten more spans arrive for a queue of four.
/// Guarantee: the newest four spans and the span in flight are delivered, and the oldest six queued spans are counted
/// as dropped.
#[tokio::test]
async fn full_queue_drops_oldest_items() {
    let mut receiver = Receiver::start().await;
    receiver.script([Reply::Held]);
    let mut settings = spans_to(&receiver, Protocol::Grpc);
    settings.limits.queue_items = 4;
    let (exporter, _running) = start(&settings);
    let resource = resource("shop");
    exporter.spans(&resource, vec![span("in flight")]);
    assert_eq!(receiver.next().await.span_names(), ["in flight"]);
    for number in 0..10 {
        exporter.spans(&resource, vec![span(&number.to_string())]);
    }
    let stats = exporter.stats().traces;
    assert_eq!((stats.in_flight, stats.queued, stats.dropped.queue_full), (1, 4, 6));
    assert_sum(&stats);
    receiver.release();
    settle(&exporter).await;
    assert_eq!(receiver.next().await.span_names(), ["6", "7", "8", "9"]);
    let stats = exporter.stats().traces;
    assert_eq!((stats.exported, stats.queued, stats.queued_bytes), (5, 0, 0));
    assert_sum(&stats);
}

/// Scenario: spans of 1 KB arrive for a queue of 10 KB, and one span is larger than the queue.
/// Guarantee: the queue never exceeds its bound; the large span does not displace other spans and is counted as too
/// large.
#[tokio::test]
async fn queue_is_bounded_in_bytes() {
    let mut receiver = Receiver::start().await;
    receiver.script([Reply::Held]);
    let mut settings = spans_to(&receiver, Protocol::Grpc);
    settings.limits.queue_bytes = 10 << 10;
    let (exporter, _running) = start(&settings);
    let resource = resource("shop");
    exporter.spans(&resource, vec![span("in flight")]);
    receiver.next().await;
    for _ in 0..100 {
        exporter.spans(&resource, vec![large_span("kilobyte", 1 << 10)]);
        assert!(exporter.stats().traces.queued_bytes <= 10 << 10);
    }
    let before = exporter.stats().traces;
    assert_eq!((before.queued, before.dropped.queue_full), (9, 91));
    exporter.spans(&resource, vec![large_span("larger than the queue", 11 << 10)]);
    let after = exporter.stats().traces;
    assert_eq!(
        (after.queued, after.dropped.queue_full, after.dropped.too_large),
        (9, 91, 1)
    );
    assert_sum(&after);
    receiver.release();
}

/// Scenario: many processes produce hundreds of spans; requests are bounded to 20 items and to 8 KiB, and one span has
/// more bytes.
/// Guarantee: no request exceeds a bound, except the request with the large span, which contains no other span. Every
/// span arrives exactly once.
#[tokio::test]
async fn requests_are_split_before_sending() {
    let bound = 8 << 10;
    for protocol in PROTOCOLS {
        let mut receiver = Receiver::start().await;
        let mut settings = spans_to(&receiver, protocol);
        settings.limits.batch_items = 20;
        settings.limits.batch_bytes = bound;
        let (exporter, _running) = start(&settings);
        let resources: Vec<_> = (0..7).map(|number| resource(&format!("service-{number}"))).collect();
        let mut expected = Vec::new();
        for number in 0..300 {
            let name = number.to_string();
            let size = if number == 150 { 2 * bound } else { number * 7 % 900 };
            exporter.spans(&resources[number % resources.len()], vec![large_span(&name, size)]);
            expected.push(name);
        }
        settle(&exporter).await;
        let mut names = Vec::new();
        while let Some(request) = receiver.try_next() {
            let in_it = request.span_names();
            assert!(in_it.len() <= 20);
            let encoded = prost::Message::encoded_len(&request.traces());
            assert!(encoded <= bound || in_it == ["150"], "{encoded} bytes with {in_it:?}");
            names.extend(in_it);
        }
        names.sort_by_key(|name| name.parse::<usize>().unwrap());
        assert_eq!(names, expected);
        assert_eq!(exporter.stats().traces.exported, 300);
    }
}

/// Scenario: a receiver rejects requests above 40 KB, and one span is larger.
/// Guarantee: the exporter halves rejected requests until they fit. It drops and counts only the large span.
#[tokio::test]
async fn oversized_request_is_halved() {
    for protocol in PROTOCOLS {
        let mut receiver = Receiver::start().await;
        receiver.limit(40 << 10);
        let (exporter, _running) = start(&spans_to(&receiver, protocol));
        let resource = resource("shop");
        let mut spans: Vec<_> = (0..100)
            .map(|number| large_span(&number.to_string(), 1 << 10))
            .collect();
        spans.insert(50, large_span("too large", 64 << 10));
        exporter.spans(&resource, spans);
        settle(&exporter).await;
        let stats = exporter.stats().traces;
        assert_eq!(
            (stats.exported, stats.dropped.too_large, stats.dropped.total()),
            (100, 1, 1),
            "{protocol:?}"
        );
        assert!(stats.requests.too_large >= 2);
        assert_sum(&stats);
        let mut accepted = 0;
        while let Some(request) = receiver.try_next() {
            if request.body.len() <= 40 << 10 {
                accepted += request.span_names().len();
            }
        }
        assert_eq!(accepted, 100);
    }
}

/// Scenario: the metrics of 20 processes have 3,000 points in total, which exceed the bound of a request.
/// Guarantee: all metrics arrive, no request exceeds the bound, and the counters count points.
#[tokio::test]
async fn metrics_are_counted_in_points() {
    let mut receiver = Receiver::start().await;
    let mut settings = all_to(&receiver, Protocol::HttpProtobuf);
    settings.limits.batch_bytes = 100 << 10;
    let (exporter, _running) = start(&settings);
    for process in 0..20 {
        let metrics = (0..50)
            .map(|number| gauge(&format!("{number}:{}", "n".repeat(1 << 10)), 3))
            .collect();
        exporter.metrics(&resource(&process.to_string()), metrics);
    }
    settle(&exporter).await;
    let stats = exporter.stats().metrics;
    assert_eq!((stats.given, stats.exported), (3000, 3000));
    let mut metrics = 0;
    while let Some(request) = receiver.try_next() {
        assert!(request.body.len() <= 100 << 10);
        let parts = request.metrics().resource_metrics;
        metrics += parts
            .iter()
            .flat_map(|part| &part.scope_metrics)
            .map(|scope| scope.metrics.len())
            .sum::<usize>();
    }
    assert_eq!(metrics, 1000);
}

/// Scenario: the exporter is shut down while all three signals wait for a fuller batch.
/// Guarantee: shutdown sends every queued item and loses none; items given afterwards are counted as dropped.
#[tokio::test]
async fn shutdown_sends_queued_items() {
    let mut receiver = Receiver::start().await;
    let mut settings = all_to(&receiver, Protocol::Grpc);
    settings.limits.batch_delay = Duration::from_secs(3600);
    let (exporter, running) = start(&settings);
    let resource = resource("shop");
    exporter.spans(&resource, vec![span("gc")]);
    exporter.metrics(&resource, vec![gauge("heap", 1)]);
    exporter.logs(&resource, vec![record("anomaly")]);
    assert!(running.shutdown(LONG).await.is_nothing());
    for _ in 0..3 {
        receiver.next().await;
    }
    exporter.spans(&resource, vec![span("too late")]);
    let stats = exporter.stats().traces;
    assert_eq!((stats.exported, stats.dropped.shutdown), (1, 1));
    assert_sum(&stats);
}

/// Scenario: the exporter is shut down while a receiver hangs on a batch of three spans, five more spans are queued,
/// and the receiver of the metrics is down.
/// Guarantee: shutdown finishes within its timeout and reports exactly the lost items.
#[tokio::test]
async fn shutdown_is_bounded_and_reports_lost_items() {
    for protocol in PROTOCOLS {
        let mut receiver = Receiver::start().await;
        receiver.then(Reply::Hang);
        let mut settings = all_to(&receiver, protocol);
        let nobody = Receiver::start().await;
        settings.metrics = all_to(&nobody, protocol).metrics;
        drop(nobody);
        let (exporter, running) = start(&settings);
        let resource = resource("shop");
        exporter.metrics(&resource, vec![gauge("heap", 4)]);
        exporter.spans(&resource, vec![span("in flight"); 3]);
        assert_eq!(receiver.next().await.span_names().len(), 3);
        exporter.spans(&resource, vec![span("waits"); 5]);
        let end = tokio::time::timeout(LONG / 2, running.shutdown(Duration::from_millis(100)));
        assert_eq!(
            end.await.unwrap(),
            LostItems {
                spans: 8,
                points: 4,
                records: 0
            }
        );
        let stats = exporter.stats();
        assert_eq!(
            (
                stats.traces.dropped.shutdown,
                stats.traces.queued,
                stats.traces.in_flight
            ),
            (8, 0, 0)
        );
        assert_sum(&stats.traces);
        assert_sum(&stats.metrics);
    }
}

/// Scenario: one flush runs while a receiver hangs, another after the receiver has answered.
/// Guarantee: the first flush returns false within its timeout, the second returns true.
#[tokio::test]
async fn flush_is_bounded() {
    let mut receiver = Receiver::start().await;
    receiver.script([Reply::Held]);
    let (exporter, _running) = start(&spans_to(&receiver, Protocol::Grpc));
    assert!(exporter.flush(LONG).await, "a flush of an empty queue succeeds");
    exporter.spans(&resource("shop"), vec![span("gc")]);
    receiver.next().await;
    assert!(!exporter.flush(Duration::from_millis(50)).await);
    receiver.release();
    assert!(exporter.flush(LONG).await);
    assert_eq!(exporter.stats().traces.exported, 1);
}

/// Scenario: the time limit for a batch expires while its receiver is down.
/// Guarantee: the batch is dropped and counted as expired.
#[tokio::test]
async fn batch_expires() {
    let nobody = Receiver::start().await;
    let mut settings = spans_to(&nobody, Protocol::HttpProtobuf);
    drop(nobody);
    settings.limits.retry_for = Duration::from_millis(200);
    let (exporter, _running) = start(&settings);
    exporter.spans(&resource("shop"), vec![span("gc"); 2]);
    settle(&exporter).await;
    let stats = exporter.stats().traces;
    assert_eq!((stats.dropped.expired, stats.dropped.total()), (2, 2));
    assert!(stats.requests.unreachable >= 1);
    assert_sum(&stats);
}
