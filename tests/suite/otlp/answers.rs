//! Answers of receivers, and how the exporter handles them.

use std::time::Duration;

use base::secret::Secret;
use delivery::otlp::settings::{Compression, Protocol};
use tonic::Code;

use crate::otlp::given::{
    PROTOCOLS, all_to, assert_sum, gauge, large_span, record, resource, settle, span, spans_to, start,
};
use test_support::receiver::{LONG, Receiver, Reply};

const AN_HOUR: Duration = Duration::from_secs(3600);

/// Sends one span to a receiver that answers with `replies` and then accepts.
/// Returns the number of requests and the counters.
async fn one_span(protocol: Protocol, replies: Vec<Reply>) -> (usize, delivery::otlp::stats::SignalStats) {
    let mut receiver = Receiver::start().await;
    let silent = |reply: &Reply| matches!(reply, Reply::Hang | Reply::Deaf | Reply::Trickle);
    let silent = replies.iter().any(silent);
    receiver.script(replies);
    let mut settings = spans_to(&receiver, protocol);
    if let Some(traces) = settings.traces.as_mut().filter(|_| silent) {
        traces.timeout = Duration::from_millis(500);
    }
    let (exporter, _running) = start(&settings);
    exporter.spans(&resource("shop"), vec![span("gc")]);
    settle(&exporter).await;
    let mut requests = 0;
    while let Some(request) = receiver.try_next() {
        requests += 1;
        if !request.body.is_empty() {
            assert_eq!(request.span_names(), ["gc"]);
        }
    }
    let stats = exporter.stats().traces;
    assert_sum(&stats);
    (requests, stats)
}

/// Scenario: a gRPC receiver gives each answer for which the specification requires a retry, then accepts.
/// Guarantee: each answer costs one retry; then the span is delivered, and no item is dropped.
#[tokio::test]
async fn retryable_grpc_codes_are_retried() {
    for code in [
        Code::Cancelled,
        Code::DeadlineExceeded,
        Code::Aborted,
        Code::OutOfRange,
        Code::Unavailable,
        Code::DataLoss,
    ] {
        let (requests, stats) =
            one_span(Protocol::Grpc, vec![Reply::grpc(code, "not now", Some(Duration::ZERO))]).await;
        assert_eq!(
            (requests, stats.exported, stats.retries, stats.requests.unavailable),
            (2, 1, 1, 1),
            "{code:?}"
        );
    }
    let busy = Reply::grpc(Code::ResourceExhausted, "busy", Some(Duration::from_millis(1)));
    let (requests, stats) = one_span(Protocol::Grpc, vec![busy.clone(), busy]).await;
    assert_eq!((requests, stats.exported, stats.retries), (3, 1, 2));
    assert_eq!(stats.last_error.unwrap().text, "ResourceExhausted: busy");
}

/// Scenario: a receiver answers "not now" over gRPC and HTTP, and does not demand a delay.
/// Guarantee: the exporter retries after its own backoff.
#[tokio::test]
async fn missing_retry_delay_uses_own_backoff() {
    let (requests, stats) = one_span(Protocol::Grpc, vec![Reply::unavailable(None)]).await;
    assert_eq!((requests, stats.exported, stats.retries), (2, 1, 1));
    let (requests, stats) = one_span(Protocol::HttpProtobuf, vec![Reply::http(503, &[])]).await;
    assert_eq!((requests, stats.exported, stats.retries), (2, 1, 1));
}

/// Scenario: an HTTP receiver answers with each retryable status and `Retry-After`.
/// Guarantee: one retry delivers the span.
#[tokio::test]
async fn retryable_http_statuses_are_retried() {
    for protocol in [Protocol::HttpProtobuf, Protocol::HttpJson] {
        for status in [429, 502, 503, 504] {
            let (requests, stats) = one_span(protocol, vec![Reply::http(status, &[("retry-after", "0")])]).await;
            assert_eq!((requests, stats.exported, stats.retries), (2, 1, 1), "{status}");
        }
    }
    let past = Reply::http(429, &[("retry-after", "Sun, 06 Nov 1994 08:49:37 GMT")]);
    let (requests, stats) = one_span(Protocol::HttpProtobuf, vec![past]).await;
    assert_eq!((requests, stats.exported), (2, 1));
}

/// Scenario: the receiver demands a delay of one hour, by RetryInfo or by `Retry-After`; the time limit for a batch is
/// much shorter.
/// Guarantee: the exporter sends no further request. It drops the batch as expired, and also the next batch, which it
/// never sent.
#[tokio::test]
async fn demanded_delay_is_respected() {
    for (protocol, reply) in [
        (Protocol::Grpc, Reply::unavailable(Some(AN_HOUR))),
        (
            Protocol::Grpc,
            Reply::grpc(Code::ResourceExhausted, "quota", Some(AN_HOUR)),
        ),
        (Protocol::HttpProtobuf, Reply::http(429, &[("retry-after", "3600")])),
    ] {
        let mut receiver = Receiver::start().await;
        receiver.then(reply);
        let mut settings = spans_to(&receiver, protocol);
        settings.limits.retry_for = Duration::from_millis(50);
        let (exporter, _running) = start(&settings);
        for name in ["first", "second"] {
            exporter.spans(&resource("shop"), vec![span(name)]);
            settle(&exporter).await;
        }
        assert_eq!(receiver.next().await.span_names(), ["first"]);
        assert!(receiver.try_next().is_none());
        let stats = exporter.stats().traces;
        assert_eq!((stats.dropped.expired, stats.exported, stats.retries), (2, 0, 0));
        assert_sum(&stats);
    }
}

/// Scenario: one receiver reads a request and never answers, one never reads, and one resets the connection in the
/// middle of the body.
/// Guarantee: each failure costs one attempt; the next attempt delivers the span.
#[tokio::test]
async fn silence_and_resets_cost_one_attempt() {
    for protocol in PROTOCOLS {
        for reply in [Reply::Hang, Reply::Deaf, Reply::Reset] {
            let (requests, stats) = one_span(protocol, vec![reply.clone()]).await;
            let failed = match reply {
                Reply::Reset => stats.requests.unreachable,
                _ => stats.requests.timed_out,
            };
            assert_eq!((requests, stats.exported, failed), (2, 1, 1), "{protocol:?}: {stats:?}");
        }
    }
}

/// Scenario: a request is larger than any window of the connection; the receiver stops reading or resets the connection
/// in the middle of the body.
/// Guarantee: the attempt fails after its timeout at the latest, and the next request arrives complete.
#[tokio::test]
async fn interrupted_request_is_sent_again_completely() {
    for protocol in [Protocol::Grpc, Protocol::HttpProtobuf] {
        for reply in [Reply::Deaf, Reply::Reset] {
            let mut receiver = Receiver::start().await;
            receiver.script([reply.clone()]);
            let mut settings = spans_to(&receiver, protocol);
            if let Some(traces) = &mut settings.traces {
                traces.timeout = Duration::from_secs(3);
            }
            settings.limits.batch_bytes = 8 << 20;
            let (exporter, _running) = start(&settings);
            let large = large_span("large", 4 << 20);
            exporter.spans(&resource("shop"), vec![large.clone()]);
            settle(&exporter).await;
            receiver.next().await;
            let spans = receiver.next().await.spans();
            assert!(spans == [large], "{protocol:?}, {reply:?}: the span arrives complete");
            let requests = exporter.stats().traces.requests;
            assert_eq!((requests.timed_out + requests.unreachable, requests.accepted), (1, 1));
        }
    }
}

/// Scenario: an HTTP receiver answers with 200 and a body that breaks off, never ends, or is long and not OTLP; a gRPC
/// receiver sends a long answer.
/// Guarantee: the status decides: the request counts as accepted and is not sent twice.
#[tokio::test]
async fn invalid_body_of_success_causes_no_retry() {
    for reply in [Reply::BrokenAnswer, Reply::Trickle, Reply::LongAnswer(10 << 20)] {
        for protocol in [Protocol::HttpProtobuf, Protocol::HttpJson] {
            let (requests, stats) = one_span(protocol, vec![reply.clone()]).await;
            assert_eq!(
                (requests, stats.exported, stats.retries),
                (1, 1, 0),
                "{protocol:?}, {reply:?}"
            );
        }
    }
    let (requests, stats) = one_span(Protocol::Grpc, vec![Reply::LongAnswer(1 << 20)]).await;
    assert_eq!((requests, stats.exported, stats.requests.partial), (1, 1, 1));
}

/// Scenario: a receiver starts at its address after the exporter.
/// Guarantee: the missing receiver does not prevent the start, and the span arrives as soon as the receiver listens.
#[tokio::test]
async fn receiver_that_starts_later_gets_span() {
    for protocol in [Protocol::Grpc, Protocol::HttpProtobuf] {
        let before = Receiver::start().await;
        let settings = spans_to(&before, protocol);
        let address = before.address;
        drop(before);
        let (exporter, _running) = start(&settings);
        exporter.spans(&resource("shop"), vec![span("gc")]);
        exporter.until(|stats| stats.traces.requests.unreachable > 0).await;
        let mut receiver = Receiver::listen(address, None).await;
        assert_eq!(receiver.next().await.span_names(), ["gc"]);
        settle(&exporter).await;
        assert_eq!(exporter.stats().traces.exported, 1);
    }
}

/// Scenario: a receiver gives final answers: a bad request, a missing permission, a redirect.
/// Guarantee: the exporter does not retry, counts the items as refused, and keeps the error text without the token that
/// the receiver repeats.
#[tokio::test]
async fn refusals_are_final_and_reported_without_secrets() {
    let (requests, stats) = one_span(
        Protocol::Grpc,
        vec![Reply::grpc(Code::InvalidArgument, "bad\nid", None)],
    )
    .await;
    assert_eq!((requests, stats.dropped.refused, stats.requests.refused), (1, 1, 1));
    assert_eq!(stats.last_error.unwrap().text, "InvalidArgument: bad\\nid");
    let (requests, stats) = one_span(
        Protocol::HttpProtobuf,
        vec![Reply::http(307, &[("location", "/elsewhere")])],
    )
    .await;
    assert_eq!((requests, stats.dropped.refused), (1, 1));
    assert_eq!(
        stats.last_error.unwrap().text,
        "HTTP status 307: redirects are not followed"
    );

    let mut receiver = Receiver::start().await;
    let token = "Bearer keep-secret";
    receiver.script([Reply::Http {
        status: 401,
        headers: Vec::new(),
        body: b"unknown token keep-secret".to_vec(),
    }]);
    let mut settings = spans_to(&receiver, Protocol::HttpProtobuf);
    if let Some(traces) = &mut settings.traces {
        traces.headers = vec![("authorization".to_owned(), Secret::new(token))];
    }
    let (exporter, _running) = start(&settings);
    exporter.spans(&resource("shop"), vec![span("gc")]);
    settle(&exporter).await;
    assert_eq!(receiver.next().await.header("authorization"), token);
    let text = exporter.stats().traces.last_error.unwrap().text;
    assert_eq!(text, "HTTP status 401: unknown token <redacted>");
    assert!(!format!("{exporter:?}").contains("keep-secret"));
}

/// Scenario: in each protocol, a receiver reports partial success for requests with five spans: two rejected spans, a
/// warning without rejected spans, a negative number, and more than five.
/// Guarantee: each request counts at least 0 and at most 5 spans as rejected and the others as exported, the message is
/// kept, and no span is sent again.
#[tokio::test]
async fn partial_success_is_counted_and_not_repeated() {
    for protocol in PROTOCOLS {
        let mut receiver = Receiver::start().await;
        let partial = |rejected, message: &str| Reply::Partial {
            rejected,
            message: message.to_owned(),
        };
        receiver.script([
            partial(2, "too old"),
            partial(0, "use another endpoint"),
            partial(-7, "what"),
            partial(99, "all?"),
        ]);
        let (exporter, _running) = start(&spans_to(&receiver, protocol));
        let five = vec![span("gc"); 5];
        exporter.spans(&resource("shop"), five.clone());
        settle(&exporter).await;
        let stats = exporter.stats().traces;
        assert_eq!(
            (stats.exported, stats.rejected, stats.requests.partial),
            (3, 2, 1),
            "{protocol:?}"
        );
        assert_eq!(stats.last_error.unwrap().text, "2 spans rejected: too old");
        for _ in 0..3 {
            exporter.spans(&resource("shop"), five.clone());
            settle(&exporter).await;
        }
        let stats = exporter.stats().traces;
        // A receiver cannot reject more spans than the exporter sent to it, or a negative number.
        assert_eq!(
            (stats.exported, stats.rejected, stats.requests.partial),
            (13, 7, 4),
            "{protocol:?}"
        );
        assert_eq!((stats.retries, stats.dropped.total()), (0, 0));
        assert_sum(&stats);
        for _ in 0..4 {
            receiver.next().await;
        }
        assert!(receiver.try_next().is_none());
    }
}

/// Scenario: a backend accepts only traces: it answers metrics with gRPC Unimplemented or HTTP 404, and logs with HTTP
/// 405.
/// Guarantee: the exporter rarely sends metrics and logs to the backend. A flush does not wait for these signals: their
/// queued items are dropped as unsupported. Traces are still delivered.
#[tokio::test]
async fn unsupported_signal_is_rarely_sent() {
    for protocol in PROTOCOLS {
        let mut receiver = Receiver::start().await;
        let (metrics, logs) = match protocol {
            Protocol::Grpc => {
                let reply = Reply::grpc(Code::Unimplemented, "unknown service", None);
                (reply.clone(), reply)
            }
            Protocol::HttpProtobuf | Protocol::HttpJson => (Reply::http(404, &[]), Reply::http(405, &[])),
        };
        receiver.script_for("metrics", vec![metrics; 20]);
        receiver.script_for("logs", vec![logs; 20]);
        let (exporter, running) = start(&all_to(&receiver, protocol));
        let resource = resource("shop");
        for _ in 0..3 {
            exporter.metrics(&resource, vec![gauge("heap", 2)]);
            exporter.logs(&resource, vec![record("anomaly")]);
            exporter.spans(&resource, vec![span("gc")]);
            settle(&exporter).await;
        }
        let stats = exporter.stats();
        assert_eq!(
            (stats.metrics.dropped.unsupported, stats.metrics.unsupported),
            (6, true)
        );
        assert_eq!((stats.logs.dropped.unsupported, stats.logs.unsupported), (3, true));
        assert_eq!((stats.traces.exported, stats.traces.unsupported), (3, false));
        assert_sum(&stats.metrics);
        let mut requests = 0;
        while receiver.try_next().is_some() {
            requests += 1;
        }
        assert!(
            (5..=11).contains(&requests),
            "three requests for traces, few for the other signals: {requests}"
        );
        assert!(running.shutdown(LONG).await.is_nothing());
    }
}

/// Scenario: a receiver answers small requests with RESOURCE_EXHAUSTED and without RetryInfo: its quota is used up, the
/// size is acceptable.
/// Guarantee: the exporter retries the complete request with growing delays until the batch expires; the exporter does
/// not split the request.
#[tokio::test]
async fn exhausted_quota_is_retried_with_backoff() {
    let mut receiver = Receiver::start().await;
    receiver.then(Reply::grpc(Code::ResourceExhausted, "quota used up", None));
    let mut settings = spans_to(&receiver, Protocol::Grpc);
    settings.limits.retry_for = Duration::from_secs(2);
    let (exporter, _running) = start(&settings);
    exporter.spans(&resource("shop"), vec![span("gc"); 20]);
    settle(&exporter).await;
    assert_eq!(exporter.stats().traces.dropped.expired, 20);
    let mut requests = Vec::new();
    while let Some(request) = receiver.try_next() {
        requests.push(request.span_names().len());
    }
    assert!((2..=5).contains(&requests.len()), "{requests:?}");
    assert!(requests.iter().all(|spans| *spans == 20), "{requests:?}");
}

/// Scenario: receivers cannot decompress: they send UNIMPLEMENTED as grpc-go and tonic do, or HTTP 415; another
/// receiver sends the same answer to an uncompressed request.
/// Guarantee: the exporter immediately sends the request again without compression, and later requests as well. The
/// exporter does not treat the signal as unsupported. If the request was not compressed, the items count as refused.
#[tokio::test]
async fn receiver_without_decompression_gets_plain_requests() {
    let go = Reply::grpc(
        Code::Unimplemented,
        "grpc: Decompressor is not installed for grpc-encoding \"zstd\"",
        None,
    );
    let tonic = Reply::grpc(
        Code::Unimplemented,
        "Content is compressed with `zstd` which isn't supported",
        None,
    );
    for (protocol, reply) in [
        (Protocol::Grpc, go),
        (Protocol::Grpc, tonic),
        (Protocol::HttpProtobuf, Reply::http(415, &[])),
    ] {
        let mut receiver = Receiver::start().await;
        receiver.script([reply.clone()]);
        let mut settings = spans_to(&receiver, protocol);
        if let Some(traces) = &mut settings.traces {
            traces.compression = Compression::Zstd;
        }
        let (exporter, _running) = start(&settings);
        for _ in 0..2 {
            exporter.spans(&resource("shop"), vec![span("gc")]);
            settle(&exporter).await;
        }
        for packed in [Some("zstd"), None, None] {
            assert_eq!(receiver.next().await.packed.as_deref(), packed);
        }
        let stats = exporter.stats().traces;
        assert_eq!((stats.exported, stats.unsupported), (2, false));

        let (requests, stats) = one_span(protocol, vec![reply]).await;
        assert_eq!((requests, stats.dropped.refused), (1, 1));
    }
}
