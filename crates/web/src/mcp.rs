//! `/mcp`: responses for agents, over the same router as all other requests.
//!
//! ```text
//! POST /mcp -- guard: name, login --> body, limited in bytes and time --> no Origin --> SDK, stateless
//!      SDK -> tool -> GET /api/v1/... with the caller's headers and connection -> guard -> record
//! ```
//!
//! Pages in browsers cannot use this path: browsers send the origin, and every origin is refused. Requests share no
//! state, so that no sessions can be exhausted. Recordings are listed and not analyzed: an analysis needs memory and
//! CPU of the daemon; `gcwatch mcp` analyzes recordings on the host of the agent. This module runs no commands.

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
use mcp::source::{Answer, CommandOutput, Recording, Refusal, Source, record};

/// Path for agents.
const PATH: &str = "/mcp";

/// Maximum size of a request body, bytes. Requests of agents have a few hundred bytes.
const MAX_BODY_BYTES: usize = 32 << 10;
/// Maximum time for the arrival of a request body.
const BODY_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum size of a record that is read, bytes: a thousand processes need one megabyte.
const MAX_RECORD_BYTES: usize = 32 << 20;

/// Returns the route; its tools send requests to the router `api`.
pub(super) fn router(api: Router) -> Router {
    let server = Server::new(DaemonSource { api }, Offer::Listener);
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .with_max_request_body_bytes(MAX_BODY_BYTES)
        // The guard checks the host names of the listener.
        .disable_allowed_hosts()
        .enforce_origin_validation();
    let service = StreamableHttpService::new(
        move || Ok(server.clone()),
        Arc::new(NeverSessionManager::default()),
        config,
    );
    Router::new().route_service(PATH, service)
}

/// Reads the complete body of a request of an agent. Returns other requests unchanged.
///
/// # Errors
///
/// Returns the response if the body is too large, incomplete or too slow.
pub(super) async fn whole(request: Request<Body>) -> Result<Request<Body>, Box<Response>> {
    if request.uri().path() != PATH {
        return Ok(request);
    }
    let (parts, body) = request.into_parts();
    let refused = |status: StatusCode, text: &'static str| Err(Box::new((status, text).into_response()));
    match timeout(BODY_TIMEOUT, Limited::new(body, MAX_BODY_BYTES).collect()).await {
        Ok(Ok(body)) => Ok(Request::from_parts(parts, Body::from(body.to_bytes()))),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            refused(StatusCode::PAYLOAD_TOO_LARGE, "the request exceeds 32 KiB\n")
        }
        Ok(Err(_)) => refused(StatusCode::BAD_REQUEST, "the request is incomplete\n"),
        Err(_) => refused(StatusCode::REQUEST_TIMEOUT, "the request took longer than 5 s\n"),
    }
}

/// Source of the daemon's records with the access of the caller.
struct DaemonSource {
    api: Router,
}

impl Source for DaemonSource {
    async fn record(&self, path: &str, asked: Option<&Parts>) -> Answer {
        let mut request = Request::new(Body::empty());
        *request.uri_mut() = path
            .parse()
            .map_err(|_| Refusal::new(format!("{path:?} is not a valid path"), "use another path"))?;
        if let Some(asked) = asked {
            // The headers and extensions identify the caller: login, host name, proxies, connection.
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
        let body = to_bytes(response.into_body(), MAX_RECORD_BYTES).await;
        let body = body.map_err(|_| Refusal::new("the record is too large", "request less data"))?;
        record(status.as_u16(), &body)
    }

    fn files(&self) -> &[PathBuf] {
        &[]
    }

    async fn recording(&self, which: Recording) -> Answer {
        Err(match which {
            Recording::File(_) => Refusal::new("the listener reads no files", "use `gcwatch mcp` over stdio"),
            Recording::Incident(path) => Refusal::new(
                format!("the listener does not analyze recordings; download the recording from {path}"),
                "use `gcwatch mcp` over stdio, or `gcwatch analyze` on the downloaded file",
            ),
        })
    }

    async fn command(&self, _words: Vec<String>, _file: Option<PathBuf>) -> Result<CommandOutput, Refusal> {
        Err(Refusal::new(
            "the listener takes no commands",
            "use `gcwatch mcp --allow-bursts` over stdio",
        ))
    }
}
