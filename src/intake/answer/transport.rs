//! The two transports of an export: how a request says which one it is of and how its body is written, and what an
//! answer looks like.

use http::{HeaderMap, HeaderValue, Method, Request, Response, header};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;

use super::refusal::Refusal;
use super::{Answer, code};

/// The one method of the service, and the path over HTTP.
pub(super) const METHOD: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";
pub(super) const PATH: &str = "/v1/traces";

/// How an export comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Transport {
    Grpc,
    Http,
}

fn value<'a>(headers: &'a HeaderMap, name: &str) -> &'a [u8] {
    headers.get(name).map_or(&[], HeaderValue::as_bytes)
}

pub(super) fn transport(headers: &HeaderMap) -> Transport {
    if value(headers, "content-type").starts_with(b"application/grpc") {
        Transport::Grpc
    } else {
        Transport::Http
    }
}

/// Whether it is an export that can be read; `true`: its compression is gzip.
pub(super) fn check<B>(transport: Transport, request: &Request<B>) -> Result<bool, Refusal> {
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
pub(super) fn framed(body: &[u8]) -> Result<(bool, &[u8]), Refusal> {
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
pub(super) fn accepted(transport: Transport) -> Answer {
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

pub(super) fn refused(transport: Transport, refusal: Refusal) -> Answer {
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
