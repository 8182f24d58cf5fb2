//! `/mcp`: answers for agents, over the same router as everybody else's.
//!
//! ```text
//! POST /mcp -- the guard: name, login --> its body, bounded in bytes and time --> no Origin --> the SDK, stateless
//!      the SDK -> a tool -> GET /api/v1/... with the caller's headers and connection -> the guard again -> a record
//! ```
//!
//! A page in a browser never asks here: it would send its origin, and every origin is refused. Nothing is kept between
//! requests, so that there are no sessions to exhaust. Recordings are listed and not analyzed: that takes memory and
//! CPU of the daemon; `gcwatch mcp` analyzes them where the question is asked. Nothing here runs a command.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, TRANSFER_ENCODING};
use axum::http::request::Parts;
use axum::http::{Request, StatusCode};
use axum::response::{IntoResponse as _, Response};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::time::timeout;

use mcp::server::{Offer, Server};
use mcp::source::{Answer, Printed, Recording, Refusal, Source, record};

/// Where agents ask.
const PATH: &str = "/mcp";

/// The largest question. Those of agents have a few hundred bytes.
const MOST_BODY_BYTES: usize = 32 << 10;
/// How long a question may take to come.
const BODY_WITHIN: Duration = Duration::from_secs(5);
/// The largest record that is read again: a thousand processes take a megabyte.
const MOST_RECORD_BYTES: usize = 32 << 20;

/// The route, whose tools ask this router.
pub(super) fn router(api: Router) -> Router {
    let server = Server::new(Own { api }, Offer::Reading);
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .with_max_request_body_bytes(MOST_BODY_BYTES)
        // The guard decides by which names the listener is addressed.
        .disable_allowed_hosts()
        .enforce_origin_validation();
    let service = StreamableHttpService::new(
        move || Ok(server.clone()),
        Arc::new(NeverSessionManager::default()),
        config,
    );
    Router::new().route_service(PATH, service)
}

/// The request with all of its body, where it is a question of an agent.
///
/// # Errors
///
/// The answer to one that is too large or comes too slowly.
pub(super) async fn whole(request: Request<Body>) -> Result<Request<Body>, Box<Response>> {
    if request.uri().path() != PATH {
        return Ok(request);
    }
    let (parts, body) = request.into_parts();
    let refused = |status: StatusCode, text: &'static str| Err(Box::new((status, text).into_response()));
    match timeout(BODY_WITHIN, Limited::new(body, MOST_BODY_BYTES).collect()).await {
        Ok(Ok(body)) => Ok(Request::from_parts(parts, Body::from(body.to_bytes()))),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            refused(StatusCode::PAYLOAD_TOO_LARGE, "a question has at most 32 KiB\n")
        }
        Ok(Err(_)) => refused(StatusCode::BAD_REQUEST, "the question was cut off\n"),
        Err(_) => refused(StatusCode::REQUEST_TIMEOUT, "the question took longer than 5 s\n"),
    }
}

/// The daemon's own records, as whoever asked may see them.
struct Own {
    api: Router,
}

impl Source for Own {
    async fn record(&self, path: &str, asked: Option<&Parts>) -> Answer {
        let mut request = Request::new(Body::empty());
        *request.uri_mut() = path
            .parse()
            .map_err(|_| Refusal::new(format!("{path:?} is no path"), "ask another one"))?;
        if let Some(asked) = asked {
            // Who asks: login, name of the host, proxies, connection.
            *request.headers_mut() = asked.headers.clone();
            *request.extensions_mut() = asked.extensions.clone();
        }
        for of_the_question in [
            ACCEPT,
            ACCEPT_ENCODING,
            CONTENT_ENCODING,
            CONTENT_LENGTH,
            CONTENT_TYPE,
            TRANSFER_ENCODING,
        ] {
            request.headers_mut().remove(of_the_question);
        }
        let router = TowerToHyperService::new(self.api.clone().into_service::<Body>());
        let Ok(response) = router.call(request).await;
        let status = response.status();
        let body = to_bytes(response.into_body(), MOST_RECORD_BYTES).await;
        let body = body.map_err(|_| Refusal::new("the record is too large", "ask for less"))?;
        record(status.as_u16(), &body)
    }

    fn files(&self) -> &[PathBuf] {
        &[]
    }

    async fn recording(&self, which: Recording) -> Answer {
        Err(match which {
            Recording::File(_) => Refusal::new("the listener reads no files", "use `gcwatch mcp` over stdio"),
            Recording::Incident(path) => Refusal::new(
                format!("recordings are not analyzed here; this one is at {path}"),
                "use `gcwatch mcp` over stdio, or download it and use `gcwatch analyze`",
            ),
        })
    }

    async fn command(&self, _words: Vec<String>) -> Result<Printed, Refusal> {
        Err(Refusal::new(
            "the listener takes no commands",
            "use `gcwatch mcp --allow-bursts` over stdio",
        ))
    }
}
