//! Compression of responses with gzip for clients that accept it: the metrics of 200 processes shrink to 5 %.

use std::io::Write as _;

use axum::body::{Body, HttpBody as _, to_bytes};
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::middleware::Next;
use axum::response::Response;
use flate2::Compression;
use flate2::write::GzEncoder;

/// Minimum size of compressed responses, bytes.
const MIN_BYTES: u64 = 1024;

/// Compresses the response if the client accepts gzip and the response is large enough. Streams of events, small
/// responses and images are not compressed.
pub(super) async fn compressed(request: Request, next: Next) -> Response {
    let accepts = accepts_gzip(request.headers());
    let answer = next.run(request).await;
    let is_worth = answer
        .body()
        .size_hint()
        .exact()
        .is_some_and(|bytes| bytes >= MIN_BYTES);
    if !is_worth || !is_text(answer.headers()) {
        return answer;
    }
    let (mut parts, body) = answer.into_parts();
    // A cache must not serve a compressed response to a client that does not accept gzip.
    parts
        .headers
        .append(header::VARY, HeaderValue::from_static("accept-encoding"));
    if !accepts {
        return Response::from_parts(parts, body);
    }
    // The whole body is already in memory.
    let Ok(plain) = to_bytes(body, usize::MAX).await else {
        return Response::from_parts(parts, Body::empty());
    };
    let source = plain.clone();
    // The compression of megabytes takes tens of milliseconds: a separate thread keeps the reads of streams on time.
    let packed = tokio::task::spawn_blocking(move || {
        let mut encoder = GzEncoder::new(Vec::with_capacity(source.len() / 8), Compression::fast());
        encoder.write_all(&source).and_then(|()| encoder.finish())
    });
    let Ok(Ok(packed)) = packed.await else {
        return Response::from_parts(parts, Body::from(plain));
    };
    parts.headers.remove(header::CONTENT_LENGTH);
    parts
        .headers
        .insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    Response::from_parts(parts, Body::from(packed))
}

fn is_text(headers: &HeaderMap) -> bool {
    let media = headers.get(header::CONTENT_TYPE).and_then(|media| media.to_str().ok());
    media.is_some_and(|media| {
        let media = media.split(';').next().unwrap_or_default();
        media != "text/event-stream" && (media.starts_with("text/") || media.starts_with("application/"))
    })
}

/// Returns `true` if a client accepts gzip (RFC 9110, 12.5.3): a coding with weight 0 is not accepted. `*` stands for
/// `gzip` if the client does not list `gzip`.
fn accepts_gzip(headers: &HeaderMap) -> bool {
    let all = headers.get_all(header::ACCEPT_ENCODING);
    let codings = all
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','));
    let mut any = false;
    for coding in codings {
        let mut parts = coding.split(';').map(str::trim);
        let name = parts.next().unwrap_or_default();
        let weight = parts.find_map(|part| part.strip_prefix("q="));
        let is_accepted = weight.is_none_or(|weight| weight.parse::<f32>().is_ok_and(|weight| weight > 0.0));
        if name.eq_ignore_ascii_case("gzip") {
            return is_accepted;
        }
        any |= name == "*" && is_accepted;
    }
    any
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: the headers come from browsers, from Prometheus, and from programs that do not accept gzip or forbid
    /// it.
    /// Guarantee: only clients that accept gzip receive gzip.
    #[test]
    fn accepting_clients_receive_gzip() {
        let accepts = |value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static(value));
            accepts_gzip(&headers)
        };
        assert!(
            accepts("gzip") && accepts("gzip, deflate, br, zstd") && accepts("br;q=1.0, GZIP;q=0.8") && accepts("*")
        );
        for none in ["", "br", "gzip;q=0", "identity", "*;q=0", "gzip;q=0, *", "gzip;q=x"] {
            assert!(!accepts(none), "{none}");
        }
        assert!(!accepts_gzip(&HeaderMap::new()));
    }
}
