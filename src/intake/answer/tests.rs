//! Exports as they are sent, over both transports, and what is answered and counted.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use http::{HeaderMap, StatusCode};
use http_body_util::{BodyExt as _, Full};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use prost::Message as _;

use super::transport::{METHOD, PATH};
use super::*;

fn exports() -> Exports {
    Exports {
        directory: Arc::default(),
        stats: Arc::default(),
        room: Room::default(),
    }
}

/// Two requests and another span, of nobody.
fn export() -> Vec<u8> {
    let span = |kind: i32| Span {
        kind,
        start_time_unix_nano: 1,
        end_time_unix_nano: 2,
        ..Span::default()
    };
    let scope_spans = ScopeSpans {
        spans: vec![span(2), span(5), span(3)],
        ..ScopeSpans::default()
    };
    let resource_spans = ResourceSpans {
        scope_spans: vec![scope_spans],
        ..ResourceSpans::default()
    };
    let export = ExportTraceServiceRequest {
        resource_spans: vec![resource_spans],
    };
    export.encode_to_vec()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn frame(flag: u8, message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    [&[flag][..], &length, message].concat()
}

fn post(path: &str, headers: &[(&str, &str)], body: Vec<u8>) -> Request<Full<Bytes>> {
    let mut request = Request::post(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(Full::new(body.into())).unwrap()
}

const GRPC: (&str, &str) = ("content-type", "application/grpc+proto");
const HTTP: (&str, &str) = ("content-type", "application/x-protobuf");

/// Status, gRPC's code in headers or trailers, and the body.
async fn shape(answer: Answer) -> (u16, Option<String>, Vec<u8>) {
    let status = answer.status().as_u16();
    let of = |headers: &HeaderMap| headers.get("grpc-status").map(|code| code.to_str().unwrap().to_owned());
    let in_head = of(answer.headers());
    let collected = answer.into_body().collect().await.unwrap();
    let code = in_head.or_else(|| collected.trailers().and_then(of));
    (status, code, collected.to_bytes().to_vec())
}

/// Scenario: an export over both transports, plain and compressed.
/// Guarantee: it is answered as the protocol says, and its spans are counted by what became of them.
#[tokio::test]
async fn an_export_is_taken() {
    let (plain, compressed) = (export(), gzip(&export()));
    let grpc = |flag: u8, message: &[u8], encoding: &str| {
        post(METHOD, &[GRPC, ("grpc-encoding", encoding)], frame(flag, message))
    };
    let http = |body: &[u8], encoding: &str| post(PATH, &[HTTP, ("content-encoding", encoding)], body.to_vec());
    let exports = exports();
    for request in [
        grpc(0, &plain, "identity"),
        grpc(0, &plain, "gzip"),
        grpc(1, &compressed, "gzip"),
    ] {
        let expected = (200, Some("0".to_owned()), vec![0; 5]);
        assert_eq!(shape(exports.answer(request).await).await, expected);
    }
    for request in [http(&plain, "identity"), http(&compressed, "gzip")] {
        assert_eq!(shape(exports.answer(request).await).await, (200, None, Vec::new()));
    }
    let counts: Vec<(&str, u64)> = exports.stats.spans().collect();
    let expected = [
        ("matched", 0),
        ("unmatched", 10),
        ("ambiguous", 0),
        ("dropped", 0),
        ("no_request", 5),
    ];
    assert_eq!(counts, expected);
    assert!(exports.stats.exports_dropped().all(|(_, count)| count == 0));
}

/// Scenario: other paths, methods, encodings and compressions; damaged frames, messages and gzip; too much.
/// Guarantee: each is refused with its status over HTTP and its code over gRPC, and counted as what it is.
#[tokio::test]
async fn what_is_no_export_is_refused() {
    let large = vec![0; body::MAX_BODY_BYTES + 1];
    let bomb = gzip(&vec![0; body::MAX_EXPORT_BYTES + 1]);
    let json = ("content-type", "application/json");
    let http = |headers: &[(&str, &str)], body: &[u8]| post(PATH, headers, body.to_vec());
    let get = Request::get(PATH).header(HTTP.0, HTTP.1).body(Full::default()).unwrap();
    let gzipped = ("content-encoding", "gzip");
    let grpc = |body: Vec<u8>| post(METHOD, &[GRPC, ("grpc-encoding", "gzip")], body);
    let all = [
        (post("/v1/logs", &[HTTP], export()), 404, None, None),
        (get, 405, None, None),
        (http(&[json], b"{}"), 415, None, Some("unsupported")),
        (
            http(&[HTTP, ("content-encoding", "br")], b""),
            415,
            None,
            Some("unsupported"),
        ),
        (http(&[HTTP], &large), 413, None, Some("too_large")),
        (http(&[HTTP, gzipped], &bomb), 413, None, Some("too_large")),
        (http(&[HTTP], b"\x0a\x05"), 400, None, Some("damaged")),
        (http(&[HTTP, gzipped], b"none"), 400, None, Some("damaged")),
        (
            post("/other/Export", &[GRPC], frame(0, &export())),
            200,
            Some("12"),
            None,
        ),
        (grpc(frame(0, &export())[..9].to_vec()), 200, Some("3"), Some("damaged")),
        (grpc(Vec::new()), 200, Some("3"), Some("damaged")),
        (grpc(frame(2, &export())), 200, Some("3"), Some("damaged")),
        (grpc(frame(1, &bomb)), 200, Some("8"), Some("too_large")),
        (
            post(METHOD, &[GRPC], frame(1, &export())),
            200,
            Some("12"),
            Some("unsupported"),
        ),
    ];
    for (request, status, code, counted) in all {
        let exports = exports();
        let what = format!("{request:?}").chars().take(120).collect::<String>();
        let answer = shape(exports.answer(request).await).await;
        assert_eq!((answer.0, answer.1.as_deref()), (status, code), "{what}");
        let dropped: Vec<&str> = exports
            .stats
            .exports_dropped()
            .filter(|(_, count)| *count > 0)
            .map(|(reason, _)| reason)
            .collect();
        assert_eq!(dropped, Vec::from_iter(counted), "{what}");
    }
}

/// Scenario: exports while others hold all the memory for them.
/// Guarantee: they are read to their end, answered with success, and counted.
#[tokio::test]
async fn a_sender_is_not_held_up() {
    let exports = exports();
    let mut held = Vec::new();
    while let Ok(one) = body::collect(Full::new(vec![0; body::MAX_BODY_BYTES].into()), &exports.room).await {
        held.push(one);
    }
    let answer = exports.answer(post(PATH, &[HTTP], export())).await;
    assert_eq!(answer.status(), StatusCode::OK);
    let answer = exports.answer(post(METHOD, &[GRPC], frame(0, &export()))).await;
    assert_eq!(shape(answer).await.1.as_deref(), Some("0"));
    assert_eq!(exports.stats.exports_dropped().next(), Some(("full", 2)));
    drop(held);
    exports.answer(post(PATH, &[HTTP], export())).await;
    assert_eq!(exports.stats.spans().nth(1), Some(("unmatched", 2)));
}

/// Scenario: a body that does not end.
/// Guarantee: after ten seconds it is refused, and counted.
#[tokio::test(start_paused = true)]
async fn a_slow_sender_is_refused() {
    struct Endless;
    impl Body for Endless {
        type Data = Bytes;
        type Error = Infallible;
        fn poll_frame(
            self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Option<Result<hyper::body::Frame<Bytes>, Infallible>>> {
            std::task::Poll::Pending
        }
    }
    let exports = exports();
    let request = Request::post(PATH).header(HTTP.0, HTTP.1).body(Endless).unwrap();
    assert_eq!(exports.answer(request).await.status(), StatusCode::REQUEST_TIMEOUT);
    assert_eq!(exports.stats.exports_dropped().nth(3), Some(("slow", 1)));
}
