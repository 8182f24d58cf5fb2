//! The daemon's own listener: `/metrics`, health, the JSON API and a page for people.
//!
//! | Path | What |
//! |---|---|
//! | `/`, `/processes/PID`, `/processes/PID/collections/N`, `/rules`, `/self` | the page (`assets`) |
//! | `/metrics` | Prometheus text; OpenMetrics with exemplars when the scraper asks for it |
//! | `/livez` | 200 while the parts of the daemon are alive, else 503; the parts and their ages |
//! | `/readyz` | 200 from the first complete scan of the host until shutdown, else 503; independent of receivers |
//! | `/api/v1/...` | the same records as JSON (`api`); `docs/api.md` lists them |
//! | `/mcp` | the same for agents (`mcp`) |
//! | `/api/v1/events` | a view as it changes, as server-sent events (`events`) |
//!
//! Answers of a kibibyte and more are compressed (gzip) where that is accepted.
//!
//! Read only: no request changes anything. It listens on loopback by default, because it shows the names of processes.
//! At most 64 connections at a time, each at most 90 s idle and ten minutes old, and 16 more that follow events; health
//! is answered beyond that (`connections`). With a certificate it speaks TLS (`tls`); what may hold secrets is served
//! on loopback to root and the user of gcwatch, or after a login (`access`, `peer`). On loopback it answers to names of
//! loopback only (`hosts`). The page runs its own scripts only, and cannot insert HTML: its policy requires trusted
//! types and allows none.

// Time is a value: only the modules that allow it ask a clock (clippy.toml).
#![deny(clippy::disallowed_methods)]

mod access;
#[expect(clippy::disallowed_methods, reason = "answers have deadlines")]
mod answer;
#[expect(clippy::disallowed_methods, reason = "answers are of now")]
mod api;
mod assets;
mod compressed;
#[expect(clippy::disallowed_methods, reason = "connections have deadlines")]
mod connections;
#[expect(clippy::disallowed_methods, reason = "events are sent at intervals")]
mod events;
#[expect(clippy::disallowed_methods, reason = "histories end now")]
mod evidence;
mod health;
mod hosts;
#[expect(clippy::disallowed_methods, reason = "questions have deadlines")]
mod mcp;
#[expect(clippy::disallowed_methods, reason = "`/metrics` is of now")]
mod metrics;
pub mod openapi;
pub mod options;
mod peer;
pub mod report;
#[expect(clippy::disallowed_methods, reason = "the record of gcwatch itself is of now")]
mod site;
#[expect(clippy::disallowed_methods, reason = "handshakes have deadlines")]
pub(crate) mod tls;
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
use self::events::Link;
use self::health::{health, no_place};
use self::hosts::Hosts;
use self::options::{Mcp, WebOptions};
use self::peer::{Ends, is_proxied};
pub use self::site::{PartAge, Site, Views, WatcherInfo};
use self::tls::Certificate;
pub use self::tls::TlsError;

/// Limit of collections of one process in `/api/v1/gcs`, which is the number that is kept.
const MAX_COLLECTIONS: usize = 1000;

/// The listener cannot bind its address.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot listen at {address}: {source}; set another address with --listen (127.0.0.1:0 takes any free port), or disable the listener with --listen none"
)]
pub struct ListenError {
    /// The configured address.
    pub address: SocketAddr,
    /// The system's error.
    pub source: std::io::Error,
}

/// Binds the listener.
///
/// # Errors
///
/// When the port is taken, or the address is not this host's.
pub async fn listen(address: SocketAddr) -> Result<TcpListener, ListenError> {
    TcpListener::bind(address)
        .await
        .map_err(|source| ListenError { address, source })
}

/// A listener that is bound, with all that its requests need.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    guard: Guard,
    certificate: Option<Arc<Certificate>>,
    /// Agents may ask.
    has_mcp: bool,
}

impl Server {
    /// Prepares a bound listener: reads the certificate.
    ///
    /// # Errors
    ///
    /// When the certificate cannot be used.
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

    /// The address, with the port that the system chose for port 0.
    pub fn address(&self) -> Option<SocketAddr> {
        self.listener.local_addr().ok()
    }

    /// Serves requests until `end` completes.
    ///
    /// # Errors
    ///
    /// When the listener fails.
    pub async fn serve(self, site: Site, end: impl Future<Output = ()> + Send + 'static) -> std::io::Result<()> {
        let guard = Arc::new(self.guard);
        let guarded = |router: Router| router.layer(middleware::from_fn_with_state(Arc::clone(&guard), guarded));
        let plain = router(site.clone());
        let all = if self.has_mcp {
            // It asks a router of its own, guarded too: whoever asks sees there what the API shows them.
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
            // It never ends.
            () = certificate.follow() => Ok(()),
        }
    }
}

/// Which requests are served.
#[derive(Debug)]
struct Guard {
    hosts: Hosts,
    access: Access,
}

impl Guard {
    /// The connection whose user decides; `None`: no user of this host may see it without a login.
    fn asked_by(&self, request: &Request) -> Option<Ends> {
        let (uri, headers) = (request.uri(), request.headers());
        let is_direct = Hosts::is_of_loopback(uri, headers) && !is_proxied(headers);
        let depends = is_direct && self.access.depends_on_user(uri.path());
        let link = request.extensions().get::<Link>().filter(|_| depends)?;
        Some(link.ends)
    }
}

/// What looks at processes: an answer within a time.
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

/// Refuses foreign names, and has browsers run the page's own scripts only and show the answer nowhere else.
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
    // A picture that is looked at by itself has one of its own.
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

/// The page of a process; it says itself what is not known.
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

/// A path that there is not: for people the page, which says so, for programs what there is.
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
