//! One request: an export over gRPC or over HTTP, and its answer.
//!
//! Formats: <https://opentelemetry.io/docs/specs/otlp/>, and gRPC's PROTOCOL-HTTP2.md for its frames and trailers. Of
//! HTTP's two encodings protobuf is read, which all exporters send unless they are configured otherwise.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use gc_requests::span::{self, Malformed};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body, Bytes};
use tokio::time::timeout;

use super::body::{self, Held, NotRead, Room};
use super::stats::{Dropped, IntakeStats};
use crate::targets::directory::{Delivered, Directory};

/// The one method of the service, and the path over HTTP.
const METHOD: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";
const PATH: &str = "/v1/traces";
/// Deadline for the body of a request.
const BODY_WITHIN: Duration = Duration::from_secs(10);

/// The codes of gRPC that are answered.
mod code {
    pub(super) const OK: u16 = 0;
    pub(super) const INVALID_ARGUMENT: u16 = 3;
    pub(super) const DEADLINE_EXCEEDED: u16 = 4;
    pub(super) const RESOURCE_EXHAUSTED: u16 = 8;
    pub(super) const UNIMPLEMENTED: u16 = 12;
}

pub(super) type Answer = Response<BoxBody<Bytes, Infallible>>;

/// What requests are answered with.
#[derive(Debug, Clone)]
pub(super) struct Exports {
    pub(super) directory: Arc<Directory>,
    pub(super) stats: Arc<IntakeStats>,
    pub(super) room: Room,
}

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Refusal {
    NotFound,
    Method,
    Content,
    Compression,
    TooLarge,
    Damaged,
    Slow,
}

impl Refusal {
    fn text(self) -> &'static str {
        match self {
            Self::NotFound => "gcwatch takes traces here: POST /v1/traces, or gRPC's TraceService",
            Self::Method => "an export is sent by POST",
            Self::Content => "an export is sent as application/x-protobuf, or over gRPC",
            Self::Compression => "gzip is read, and what is not compressed",
            Self::TooLarge => "an export has at most 4 MiB, 8 MiB when decompressed: send smaller batches",
            Self::Damaged => "this is no ExportTraceServiceRequest",
            Self::Slow => "the request did not arrive within 10 s",
        }
    }

    fn status(self) -> StatusCode {
        match self {
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::Method => StatusCode::METHOD_NOT_ALLOWED,
            Self::Content | Self::Compression => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Damaged => StatusCode::BAD_REQUEST,
            Self::Slow => StatusCode::REQUEST_TIMEOUT,
        }
    }

    fn code(self) -> u16 {
        match self {
            Self::NotFound | Self::Method | Self::Content | Self::Compression => code::UNIMPLEMENTED,
            Self::TooLarge => code::RESOURCE_EXHAUSTED,
            Self::Damaged => code::INVALID_ARGUMENT,
            Self::Slow => code::DEADLINE_EXCEEDED,
        }
    }

    /// `None`: no export was sent.
    fn dropped(self) -> Option<Dropped> {
        match self {
            Self::NotFound | Self::Method => None,
            Self::Content | Self::Compression => Some(Dropped::Unsupported),
            Self::TooLarge => Some(Dropped::TooLarge),
            Self::Damaged => Some(Dropped::Damaged),
            Self::Slow => Some(Dropped::Slow),
        }
    }
}

impl From<Malformed> for Refusal {
    fn from(Malformed: Malformed) -> Self {
        Self::Damaged
    }
}

/// How an export comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Transport {
    Grpc,
    Http,
}

impl Exports {
    pub(super) async fn answer<B: Body<Data = Bytes> + Unpin>(&self, request: Request<B>) -> Answer {
        let transport = transport(request.headers());
        match self.take(transport, request).await {
            Ok(()) => accepted(transport),
            Err(refusal) => {
                if let Some(dropped) = refusal.dropped() {
                    self.stats.dropped(dropped);
                }
                refused(transport, refusal)
            }
        }
    }

    async fn take<B: Body<Data = Bytes> + Unpin>(
        &self,
        transport: Transport,
        request: Request<B>,
    ) -> Result<(), Refusal> {
        let is_gzip = check(transport, &request)?;
        let body = timeout(BODY_WITHIN, body::collect(request.into_body(), &self.room));
        let read = match body.await.map_err(|_| Refusal::Slow)? {
            Ok(body) => self.read(transport, is_gzip, &body),
            Err(error) => Err(Unread::NotRead(error)),
        };
        match read {
            Ok(()) => Ok(()),
            // Its sender would send it again, and cannot help it.
            Err(Unread::NotRead(NotRead::Full)) => {
                self.stats.dropped(Dropped::Full);
                Ok(())
            }
            Err(Unread::NotRead(NotRead::TooLarge)) => Err(Refusal::TooLarge),
            Err(Unread::NotRead(NotRead::Damaged)) => Err(Refusal::Damaged),
            Err(Unread::Refused(refusal)) => Err(refusal),
        }
    }

    fn read(&self, transport: Transport, is_gzip: bool, body: &Held) -> Result<(), Unread> {
        let (is_compressed, message) = match transport {
            Transport::Http => (is_gzip, body.bytes()),
            Transport::Grpc => {
                let (is_compressed, message) = framed(body.bytes())?;
                if is_compressed && !is_gzip {
                    return Err(Refusal::Compression.into());
                }
                (is_compressed, message)
            }
        };
        let inflated;
        let export = if is_compressed {
            inflated = body::inflate(message, &self.room)?;
            inflated.bytes()
        } else {
            message
        };
        span::read(export, |spans| {
            let count = spans.requests.len() as u64;
            self.stats.others(spans.others);
            self.stats.left_out(spans.left_out);
            if count == 0 {
                return;
            }
            match self.directory.deliver(&spans.source, spans.requests) {
                Delivered::To { dropped } => {
                    let dropped = dropped as u64;
                    self.stats.matched(count - dropped);
                    self.stats.left_out(dropped);
                }
                Delivered::Nobody => self.stats.unmatched(count),
                Delivered::Several => self.stats.ambiguous(count),
            }
        })
        .map_err(Refusal::from)?;
        Ok(())
    }
}

/// Why an export comes to nothing.
enum Unread {
    NotRead(NotRead),
    Refused(Refusal),
}

impl From<NotRead> for Unread {
    fn from(error: NotRead) -> Self {
        Self::NotRead(error)
    }
}

impl From<Refusal> for Unread {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

fn value<'a>(headers: &'a HeaderMap, name: &str) -> &'a [u8] {
    headers.get(name).map_or(&[], HeaderValue::as_bytes)
}

fn transport(headers: &HeaderMap) -> Transport {
    if value(headers, "content-type").starts_with(b"application/grpc") {
        Transport::Grpc
    } else {
        Transport::Http
    }
}

/// Whether it is an export that can be read; `true`: its compression is gzip.
fn check<B>(transport: Transport, request: &Request<B>) -> Result<bool, Refusal> {
    let (path, encoding) = match transport {
        Transport::Grpc => (METHOD, "grpc-encoding"),
        Transport::Http => (PATH, "content-encoding"),
    };
    if request.uri().path() != path {
        return Err(Refusal::NotFound);
    }
    if request.method() != Method::POST {
        return Err(Refusal::Method);
    }
    let is_protobuf = value(request.headers(), "content-type").starts_with(b"application/x-protobuf");
    if transport == Transport::Http && !is_protobuf {
        return Err(Refusal::Content);
    }
    match value(request.headers(), encoding) {
        b"" | b"identity" => Ok(false),
        b"gzip" => Ok(true),
        _ => Err(Refusal::Compression),
    }
}

/// The message of gRPC's one frame, and whether it is compressed.
fn framed(body: &[u8]) -> Result<(bool, &[u8]), Refusal> {
    let (head, message) = body.split_first_chunk::<5>().ok_or(Refusal::Damaged)?;
    let [flag, length @ ..] = *head;
    if flag > 1 || u32::from_be_bytes(length) as usize != message.len() {
        return Err(Refusal::Damaged);
    }
    Ok((flag == 1, message))
}

fn bytes(bytes: &'static [u8]) -> Full<Bytes> {
    Full::new(Bytes::from_static(bytes))
}

/// An empty `ExportTraceServiceResponse`.
fn accepted(transport: Transport) -> Answer {
    let mut answer = match transport {
        Transport::Http => Response::new(bytes(b"").boxed()),
        Transport::Grpc => {
            let trailers = HeaderMap::from_iter([(http::HeaderName::from_static("grpc-status"), code::OK.into())]);
            let body = bytes(&[0; 5]).with_trailers(std::future::ready(Some(Ok(trailers))));
            Response::new(body.boxed())
        }
    };
    let content = match transport {
        Transport::Http => HeaderValue::from_static("application/x-protobuf"),
        Transport::Grpc => HeaderValue::from_static("application/grpc"),
    };
    answer.headers_mut().insert(header::CONTENT_TYPE, content);
    answer
}

fn refused(transport: Transport, refusal: Refusal) -> Answer {
    let text = refusal.text();
    match transport {
        Transport::Http => {
            let mut answer = Response::new(bytes(text.as_bytes()).boxed());
            *answer.status_mut() = refusal.status();
            let content = HeaderValue::from_static("text/plain; charset=utf-8");
            answer.headers_mut().insert(header::CONTENT_TYPE, content);
            answer
        }
        // The short form: an answer of headers alone.
        Transport::Grpc => {
            let mut answer = Response::new(bytes(b"").boxed());
            let headers = answer.headers_mut();
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
            headers.insert("grpc-status", refusal.code().into());
            headers.insert("grpc-message", HeaderValue::from_static(text));
            answer
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
    use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
    use prost::Message as _;

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
}
