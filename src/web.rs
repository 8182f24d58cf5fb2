//! The daemon's own listener: `/metrics`, health, the JSON API and a page for people.
//!
//! | Path | What |
//! |---|---|
//! | `/`, `/processes/PID`, `/processes/PID/collections/N`, `/rules`, `/self` | the page (`assets`) |
//! | `/metrics` | Prometheus text; OpenMetrics with exemplars when the scraper asks for it |
//! | `/livez` | 200 while the parts of the daemon are alive, else 503; the parts and their ages |
//! | `/readyz` | 200 from the first complete scan of the host until shutdown, else 503; independent of receivers |
//! | `/api/v1/...` | the same records as JSON (`api`); `docs/api.md` lists them |
//! | `/api/v1/events` | a view as it changes, as server-sent events (`events`) |
//!
//! Answers of a kibibyte and more are compressed (gzip) where that is accepted.
//!
//! Read only: no request changes anything. It listens on loopback by default, because it shows the names of processes.
//! At most 64 connections at a time, each at most 90 s idle and ten minutes old, and 16 more that follow events; health
//! is answered beyond that (`connections`). With a certificate it speaks TLS (`tls`); what may hold secrets is served
//! on loopback or after a login only (`access`). On loopback it answers to names of loopback only (`hosts`). The page
//! runs its own scripts only, and cannot insert HTML: its policy requires trusted types and allows none.

mod access;
mod answer;
mod api;
mod assets;
mod compressed;
mod connections;
mod events;
mod evidence;
mod hosts;
pub mod openapi;
pub mod options;
pub mod report;
pub(crate) mod tls;
pub(crate) mod wire;

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use gc_telemetry::origin::Origin;
use opentelemetry_proto::tonic::metrics::v1::Metric;
use opentelemetry_proto::tonic::resource::v1::Resource;
use tokio::net::TcpListener;

use self::access::{Access, Verdict};
use self::connections::Routers;
use self::events::{MOST_VIEWERS, Viewers};
use self::hosts::Hosts;
use self::options::WebOptions;
use self::tls::Certificate;
pub use self::tls::TlsError;
use crate::pipeline::Pipeline;
use crate::records::view::{ListenerRecord, WatcherRecord};
use delivery::clock::now_unix_ns;
use gc_telemetry::prometheus::{self, Format};

/// Limit of collections of one process in `/api/v1/gcs`, which is the number that is kept.
const MAX_COLLECTIONS: usize = 1000;

/// Source of the daemon's own metrics.
pub trait OwnMetrics: Send + Sync + std::fmt::Debug {
    /// The daemon's resource and the current values of its metrics.
    fn own_metrics(&self, now_unix_ns: u64) -> (Arc<Origin>, Vec<Metric>);
}

/// A part of the daemon that must be alive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartAge {
    /// Its name, one word.
    pub name: &'static str,
    /// How long ago it was alive.
    pub age: Duration,
    /// That is too long.
    pub is_late: bool,
}

/// Source of `/livez`.
pub trait LiveInfo: Send + Sync + std::fmt::Debug {
    /// The parts that must be alive; none for a command that only replays.
    fn parts(&self) -> Vec<PartAge>;
}

/// Source of the state of the rule files.
pub trait RuleInfo: Send + Sync + std::fmt::Debug {
    /// Files, health, errors, warnings, and when the rules in force were read.
    fn rule_files(&self) -> serde_json::Value;
}

/// Source of what is said of gcwatch itself.
pub trait WatcherInfo: Send + Sync + std::fmt::Debug {
    /// All of it, but for the listener.
    fn watcher(&self, now_unix_ns: u64) -> WatcherRecord;

    /// The name of this host.
    fn host(&self) -> Option<String>;
}

/// The sources of all answers.
#[derive(Debug, Clone)]
pub struct Site {
    /// Targets, collections, alerts and metrics.
    pub pipeline: Pipeline,
    /// The daemon's own metrics.
    pub own: Arc<dyn OwnMetrics>,
    /// Which parts are alive.
    pub live: Arc<dyn LiveInfo>,
    /// State of the rule files.
    pub rules: Arc<dyn RuleInfo>,
    /// gcwatch itself.
    pub watcher: Arc<dyn WatcherInfo>,
    /// The answer of `/readyz`: true from the first complete scan until shutdown.
    pub ready: Arc<AtomicBool>,
    viewers: Arc<Viewers>,
}

impl Site {
    /// Answers from these sources.
    pub fn new(
        pipeline: Pipeline,
        own: Arc<dyn OwnMetrics>,
        live: Arc<dyn LiveInfo>,
        rules: Arc<dyn RuleInfo>,
        watcher: Arc<dyn WatcherInfo>,
        ready: Arc<AtomicBool>,
    ) -> Self {
        Self {
            pipeline,
            own,
            live,
            rules,
            watcher,
            ready,
            viewers: Arc::default(),
        }
    }

    fn watcher_record(&self) -> WatcherRecord {
        let listener = ListenerRecord {
            viewers: self.viewers.count(),
            most_viewers: MOST_VIEWERS,
        };
        WatcherRecord {
            listener,
            ..self.watcher.watcher(now_unix_ns())
        }
    }
}

/// The listener cannot bind its address.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot listen at {address}: {source}; set another address with --listen, or disable the listener with --listen none"
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
        let routers = Routers {
            all: guarded(router(site.clone())),
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

fn router(site: Site) -> Router {
    health()
        .route("/", get(shell))
        .route("/rules", get(shell))
        .route("/self", get(shell))
        .route("/processes/{pid}", get(process_shell))
        .route("/processes/{pid}/collections/{number}", get(process_shell))
        .route("/assets/{name}", get(assets::asset))
        .route("/metrics", get(metrics))
        .route("/api/v1/evidence/", get(evidence::list))
        .route("/api/v1/evidence/{name}", get(evidence::recording))
        .route("/api/v1/evidence/requests/{pid}", get(evidence::requests))
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
        .route("/api/v1/events", get(events::events))
        .route("/api/v1/openapi.json", get(openapi::openapi))
        .fallback(nowhere)
        .layer(middleware::from_fn(compressed::compressed))
        .with_state(site)
}

/// What is answered also when all places are taken.
fn health() -> Router<Site> {
    Router::new().route("/livez", get(live)).route("/readyz", get(ready))
}

/// Whether a path is one of [`health`]'s.
fn is_health(path: &str) -> bool {
    matches!(path, "/livez" | "/readyz")
}

async fn no_place() -> Response {
    let text = "all connections are in use, and only /livez and /readyz are answered; ask again\n";
    (StatusCode::SERVICE_UNAVAILABLE, text).into_response()
}

/// Refuses foreign names, and has browsers run the page's own scripts only and show the answer nowhere else.
async fn guarded(State(guard): State<Arc<Guard>>, request: Request, next: Next) -> Response {
    let mut answer = if guard.hosts.allow(request.uri(), request.headers()) {
        match guard.access.verdict(request.uri().path(), request.headers()) {
            Verdict::Served => next.run(request).await,
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

async fn live(State(site): State<Site>) -> Response {
    liveness(&site.live.parts()).into_response()
}

fn liveness(parts: &[PartAge]) -> (StatusCode, String) {
    let is_late = parts.iter().any(|part| part.is_late);
    let mut text = String::from(if is_late { "late\n" } else { "ok\n" });
    for PartAge { name, age, is_late } in parts {
        let late = if *is_late { ", late" } else { "" };
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{name}: alive {:.1} s ago{late}", age.as_secs_f64());
    }
    let status = if is_late {
        StatusCode::SERVICE_UNAVAILABLE
    } else {
        StatusCode::OK
    };
    (status, text)
}

async fn shell() -> Response {
    assets::shell(StatusCode::OK)
}

/// The page of a process; it says itself what is not known.
async fn process_shell(State(site): State<Site>, Path(parts): Path<Vec<(String, String)>>) -> Response {
    let pid = parts.first().and_then(|(_, pid)| pid.parse::<u32>().ok());
    let is_known = |pid: u32| {
        let known = site.pipeline.targets().iter().any(|target| target.pid == pid);
        known
            || site
                .pipeline
                .incidents()
                .iter()
                .any(|incident| incident.pid == Some(pid))
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

async fn ready(State(site): State<Site>) -> Response {
    if site.ready.load(Ordering::Acquire) {
        "ready\n".into_response()
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "not ready\n").into_response()
    }
}

async fn metrics(State(site): State<Site>, headers: HeaderMap) -> Response {
    let now = now_unix_ns();
    let mut all = vec![site.own.own_metrics(now)];
    all.extend(site.pipeline.collect(now));
    let format = accepted(&headers);
    let mut text = String::new();
    let parts: Vec<(&Resource, &[Metric])> = all
        .iter()
        .map(|(resource, metrics)| (&***resource, metrics.as_slice()))
        .collect();
    prometheus::exposition(format, &parts, &mut text);
    ([(header::CONTENT_TYPE, format.content_type())], text).into_response()
}

/// OpenMetrics where the scraper accepts it and does not prefer the text format. Prometheus accepts both with weights,
/// OpenMetrics first.
fn accepted(headers: &HeaderMap) -> Format {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
    let weight = |media: &str| {
        accept
            .unwrap_or_default()
            .split(',')
            .map(str::trim)
            .filter(|range| range.split(';').next().is_some_and(|name| name.trim() == media))
            .map(|range| {
                range
                    .split(';')
                    .find_map(|parameter| parameter.trim().strip_prefix("q="))
                    .map_or(1.0, |q| q.trim().parse::<f32>().unwrap_or(0.0))
            })
            .fold(0.0_f32, f32::max)
    };
    let open = weight("application/openmetrics-text");
    if open > 0.0 && open >= weight("text/plain") {
        Format::OpenMetrics
    } else {
        Format::Text
    }
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderMap, HeaderValue, header};

    use std::time::Duration;

    use axum::http::StatusCode;

    use super::{Format, PartAge, accepted, liveness};

    fn part(name: &'static str, ms: u64, is_late: bool) -> PartAge {
        let age = Duration::from_millis(ms);
        PartAge { name, age, is_late }
    }

    /// Scenario: all parts are alive; one is late; a command that has none.
    /// Guarantee: 503 when one is late, and each part is named with its age.
    #[test]
    fn a_late_part_is_not_alive() {
        let alive = liveness(&[part("reading", 140, false), part("exporter", 2000, false)]);
        let text = "ok\nreading: alive 0.1 s ago\nexporter: alive 2.0 s ago\n".to_owned();
        assert_eq!(alive, (StatusCode::OK, text));
        let (status, text) = liveness(&[part("reading", 11_000, true), part("exporter", 0, false)]);
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        assert!(text.starts_with("late\nreading: alive 11.0 s ago, late\n"), "{text}");
        assert_eq!(liveness(&[]), (StatusCode::OK, "ok\n".to_owned()));
    }

    /// Scenario: scrapers with different `Accept` headers.
    /// Guarantee: OpenMetrics only for those that accept it and do not prefer the text format.
    #[test]
    fn the_scraper_chooses_the_format() {
        let format = |accept: Option<&'static str>| {
            let mut headers = HeaderMap::new();
            if let Some(accept) = accept {
                headers.insert(header::ACCEPT, HeaderValue::from_static(accept));
            }
            accepted(&headers)
        };
        assert_eq!(format(None), Format::Text);
        assert_eq!(format(Some("*/*")), Format::Text);
        assert_eq!(
            format(Some(
                "application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,\
                 text/plain;version=1.0.0;q=0.3,text/plain;version=0.0.4;q=0.2,/;q=0.1"
            )),
            Format::OpenMetrics
        );
        assert_eq!(
            format(Some("text/plain, application/openmetrics-text;q=0.5")),
            Format::Text
        );
        assert_eq!(format(Some("application/openmetrics-text;q=0")), Format::Text);
    }
}
