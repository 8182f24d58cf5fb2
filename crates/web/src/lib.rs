//! Listener of the daemon: `/metrics`, health, the JSON API and a page.
//!
//! | Path | Content |
//! |---|---|
//! | `/`, `/processes/PID`, `/processes/PID/collections/N`, `/rules`, `/self` | page (`assets`) |
//! | `/metrics` | Prometheus text; OpenMetrics with exemplars if the scraper requests it |
//! | `/livez` | 200 while the parts of the daemon are alive, otherwise 503; parts with their ages |
//! | `/readyz` | 200 from the first complete scan of the host until shutdown, otherwise 503; independent of receivers |
//! | `/api/v1/...` | records as JSON (`api`); `docs/api.md` lists the paths |
//! | `/mcp` | records for agents (`mcp`) |
//! | `/api/v1/events` | changes of a view, as server-sent events (`events`) |
//!
//! Text responses of at least 1 KiB are compressed if the client accepts gzip.
//!
//! The listener is read-only. The listener uses loopback by default, because its responses contain process names. The
//! listener serves at most 64 connections at the same time, each at most 90 s idle and ten minutes old, and 16
//! additional connections that follow events; health is served beyond the limit (`connections`). With a certificate,
//! the listener uses TLS (`tls`). Content with possible secrets is served on loopback to root and the user of gcwatch,
//! or after a login (`access`, `peer`). On loopback, the listener accepts only names of loopback and configured names
//! (`hosts`). The page runs only its own scripts and cannot insert HTML: its policy requires trusted types and allows
//! none.

// Time is a value: only the modules with an exception use a clock (clippy.toml).
#![deny(clippy::disallowed_methods)]

mod access;
#[expect(clippy::disallowed_methods, reason = "responses have deadlines")]
mod answer;
#[expect(clippy::disallowed_methods, reason = "responses contain the current time")]
mod api;
mod assets;
mod compressed;
#[expect(clippy::disallowed_methods, reason = "connections have deadlines")]
mod connections;
#[expect(clippy::disallowed_methods, reason = "events are sent at intervals")]
mod events;
#[expect(clippy::disallowed_methods, reason = "histories end at the current time")]
mod evidence;
mod health;
mod hosts;
#[expect(clippy::disallowed_methods, reason = "requests have deadlines")]
mod mcp;
#[expect(clippy::disallowed_methods, reason = "`/metrics` contains the current time")]
mod metrics;
pub mod openapi;
pub mod options;
mod peer;
pub mod report;
#[expect(
    clippy::disallowed_methods,
    reason = "the record of gcwatch contains the current time"
)]
mod site;
#[expect(clippy::disallowed_methods, reason = "handshakes have deadlines")]
pub(crate) mod tls;
mod viewers;
pub(crate) mod wire;

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::net::TcpListener;

use self::access::{Access, Admission};
use self::connections::Routers;
use self::health::{health, no_place};
use self::hosts::Hosts;
use self::options::{Mcp, WebOptions};
use self::peer::{Ends, is_proxied};
pub use self::site::{PartAge, Site, Views, WatcherInfo};
use self::tls::Certificate;
pub use self::tls::TlsError;
use self::viewers::Link;

/// Maximum number of collections of one process in `/api/v1/gcs`; also the number of retained collections.
const MAX_COLLECTIONS: usize = 1000;

/// Error returned if the listener cannot bind its address.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot listen at {address}: {source}; set another address with --listen (127.0.0.1:0 selects a free port), or disable the listener with --listen none"
)]
pub struct ListenError {
    /// Configured address.
    pub address: SocketAddr,
    /// Error of the system.
    pub source: std::io::Error,
}

/// Binds the listener.
///
/// # Errors
///
/// Returns an error if the address cannot be bound, for example if the port is taken or the address does not belong to
/// this host.
pub async fn listen(address: SocketAddr) -> Result<TcpListener, ListenError> {
    TcpListener::bind(address)
        .await
        .map_err(|source| ListenError { address, source })
}

/// Bound listener with its rules of admission and its certificate.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    guard: Guard,
    certificate: Option<Arc<Certificate>>,
    /// Whether agents can use `/mcp`.
    has_mcp: bool,
}

impl Server {
    /// Creates a server for a bound listener and reads the certificate.
    ///
    /// # Errors
    ///
    /// Returns an error if the certificate is unusable.
    pub fn new(listener: TcpListener, options: &WebOptions) -> Result<Self, TlsError> {
        let is_loopback = listener.local_addr().is_ok_and(|address| address.ip().is_loopback());
        Ok(Self {
            listener,
            guard: Guard {
                hosts: Hosts {
                    is_loopback,
                    listed: options.hosts.clone(),
                },
                access: Access::new(options, is_loopback),
            },
            certificate: options.tls.as_ref().map(Certificate::read).transpose()?,
            has_mcp: options.mcp == Mcp::On || (options.mcp == Mcp::Auto && is_loopback),
        })
    }

    /// Returns the address, with the port that the system selected for port 0.
    pub fn address(&self) -> Option<SocketAddr> {
        self.listener.local_addr().ok()
    }

    /// Serves requests until `end` completes.
    ///
    /// # Errors
    ///
    /// Returns an error if the certificate cannot be used for TLS. Errors of the listener are retried.
    pub async fn serve(self, site: Site, end: impl Future<Output = ()> + Send + 'static) -> std::io::Result<()> {
        let guard = Arc::new(self.guard);
        let guarded = |router: Router| router.layer(middleware::from_fn_with_state(Arc::clone(&guard), guarded));
        let plain = router(site.clone());
        let all = if self.has_mcp {
            // The tools use another router that is guarded too: agents see the same data as the caller in the API.
            plain.clone().merge(mcp::router(guarded(plain)))
        } else {
            plain
        };
        let routers = Routers {
            all: guarded(all),
            health: guarded(health().fallback(no_place).with_state(site)),
        };
        let Some(certificate) = self.certificate else {
            return connections::serve(self.listener, None, routers, end).await;
        };
        let acceptor = certificate.acceptor(&["http/1.1"]).map_err(std::io::Error::other)?;
        tokio::select! {
            served = connections::serve(self.listener, Some(acceptor), routers, end) => served,
            // The follow loop never ends.
            () = certificate.follow() => Ok(()),
        }
    }
}

/// Admission of requests.
#[derive(Debug)]
struct Guard {
    hosts: Hosts,
    access: Access,
}

impl Guard {
    /// Returns the ends of the connection if the admission depends on the user of the client. Returns `None` if the
    /// user does not matter for the path, or if a proxy forwarded the request.
    fn asked_by(&self, request: &Request) -> Option<Ends> {
        let (uri, headers) = (request.uri(), request.headers());
        let is_direct = Hosts::is_of_loopback(uri, headers) && !is_proxied(headers);
        let depends = is_direct && self.access.depends_on_user(uri.path());
        let link = request.extensions().get::<Link>().filter(|_| depends)?;
        Some(link.ends)
    }
}

/// Returns the routes about processes, with a deadline.
fn records() -> Router<Site> {
    Router::new()
        .route("/processes/{pid}", get(process_shell))
        .route("/processes/{pid}/collections/{number}", get(process_shell))
        .route("/api/v1/overview", get(api::overview))
        .route("/api/v1/processes", get(api::processes))
        .route("/api/v1/processes/{pid}", get(api::process))
        .route("/api/v1/processes/{pid}/collections/{number}", get(api::collection))
        .route("/api/v1/targets", get(api::targets))
        .route("/api/v1/gcs", get(api::collections))
        .route("/api/v1/rules", get(api::rules))
        .route("/api/v1/alerts", get(api::alerts))
        .route("/api/v1/incidents", get(api::incidents))
        .route("/api/v1/changes", get(api::changes))
        .route("/api/v1/sizing", get(api::sizing))
        .route("/api/v1/self", get(api::watcher))
        .route_layer(middleware::from_fn(answer::in_time))
}

fn router(site: Site) -> Router {
    health()
        .merge(records())
        .route("/", get(shell))
        .route("/rules", get(shell))
        .route("/self", get(shell))
        .route("/assets/{name}", get(assets::asset))
        .route("/metrics", get(metrics::metrics))
        .route("/api/v1/evidence/", get(evidence::list))
        .route("/api/v1/evidence/{name}", get(evidence::recording))
        .route("/api/v1/evidence/requests/{pid}", get(evidence::requests))
        .route("/api/v1/processes/{pid}/history", get(evidence::history))
        .route("/api/v1/events", get(events::events))
        .route("/api/v1/openapi.json", get(openapi::openapi))
        .fallback(nowhere)
        .layer(middleware::from_fn(compressed::compressed))
        .with_state(site)
}

/// Refuses requests with a foreign host name or without a required login. Sets the policy for browsers: only the page's
/// own scripts run, and other pages cannot embed the response.
async fn guarded(State(guard): State<Arc<Guard>>, request: Request, next: Next) -> Response {
    let mut answer = if guard.hosts.allow(request.uri(), request.headers()) {
        let is_own = match guard.asked_by(&request) {
            Some(ends) => ends.is_of_own_user().await,
            None => false,
        };
        match guard.access.verdict(request.uri().path(), request.headers(), is_own) {
            Admission::Served => next.run(request).await,
            verdict => guard.access.refusal(verdict),
        }
    } else {
        let text = "gcwatch does not answer to this host name; use localhost or 127.0.0.1, or add it to web.hosts\n";
        (StatusCode::FORBIDDEN, text).into_response()
    };
    let headers = answer.headers_mut();
    // A flame graph or a report in its own page already has another policy.
    let policy = headers.entry(header::CONTENT_SECURITY_POLICY);
    policy.or_insert(HeaderValue::from_static(
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
             base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; \
             trusted-types 'none'",
    ));
    for (name, value) in [
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "no-referrer"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    answer
}

async fn shell() -> Response {
    assets::shell(StatusCode::OK)
}

/// Serves the page of a process, with the status 404 if the process is unknown.
async fn process_shell(State(site): State<Site>, Path(parts): Path<Vec<(String, String)>>) -> Response {
    let pid = parts.first().and_then(|(_, pid)| pid.parse::<u32>().ok());
    let is_known = |pid: u32| {
        let known = site.views.targets().iter().any(|target| target.pid == pid);
        known || site.views.incidents().iter().any(|incident| incident.pid == Some(pid))
    };
    assets::shell(match pid {
        Some(pid) if is_known(pid) => StatusCode::OK,
        _ => StatusCode::NOT_FOUND,
    })
}

/// Serves an unknown path with 404: the page for browsers outside `/api/`, otherwise the list of paths.
async fn nowhere(request: Request) -> Response {
    let accept = request
        .headers()
        .get(header::ACCEPT)
        .and_then(|accept| accept.to_str().ok());
    let path = request.uri().path();
    if accept.is_some_and(|accept| accept.contains("text/html")) && !path.starts_with("/api/") {
        return assets::shell(StatusCode::NOT_FOUND);
    }
    answer::no_path(path)
}
