//! All keys: reading, JSON schema, reference page and `--print-config` are derived from these types.
//!
//! The doc comments are the users' documentation. `x-restart` marks keys that a reload cannot change.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::options::{LogFormat, RuleSources};
use super::values::{Hidden, ListenAddress, LogLevel};
use web::options::{Mcp, Protects};

mod alerts;
mod evidence;
mod kubernetes;
mod otlp;
mod requests;
mod targets;
mod telemetry;

pub(crate) use alerts::{Alertmanager, Alerts, Webhook};
pub(crate) use evidence::{Evidence, Switch};
pub(crate) use kubernetes::Kubernetes;
pub(crate) use otlp::{Limits, Otlp, SecretSource, SignalKeys};
pub(crate) use requests::{RequestMode, Requests};
pub(crate) use targets::Targets;
pub(crate) use telemetry::{Histogram, Metrics, Spans};

/// The configuration of gcwatch. All keys are optional; a key with an empty value is not set.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(title = "gcwatch configuration")]
pub(crate) struct Document {
    /// Which processes gcwatch attaches to, and how.
    pub(crate) targets: Targets,
    /// Where spans, metrics and log records are sent. The keys of `traces`, `metrics` and `logs` override the common
    /// ones.
    pub(crate) otlp: Otlp,
    /// Which collections become spans, and how much of each.
    pub(crate) spans: Spans,
    /// What collections take of the requests of web services.
    pub(crate) requests: Requests,
    /// How the collections of a process become metrics.
    pub(crate) metrics: Metrics,
    /// The rules for anomalies.
    pub(crate) rules: RuleSources,
    /// Receivers of notifications when an alert begins and ends.
    pub(crate) alerts: Alerts,
    /// What is gathered for incidents.
    pub(crate) evidence: Evidence,
    /// Pod metadata from Kubernetes.
    pub(crate) kubernetes: Kubernetes,
    /// What outlives gcwatch.
    pub(crate) state: State,
    /// Resource attributes of every target. The identity of a process (`service.name` and so on) comes from the process
    /// itself: its `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES` override these.
    pub(crate) resource: Resource,
    /// Address and port of `/metrics`, `/livez`, `/readyz` and the API, or `none`. There is no authentication without
    /// `web.token_from` or `web.users_from`, and `web.protects: all`: consider this before you use an address that other
    /// hosts can reach.
    #[schemars(extend("x-restart" = true))]
    pub(crate) listen: ListenAddress,
    /// The listener.
    pub(crate) web: Web,
    /// The log on standard error.
    pub(crate) log: Log,
    /// Telemetry of gcwatch itself over OTLP, as a separate service.
    #[schemars(extend("x-restart" = true))]
    pub(crate) self_telemetry: SelfTelemetry,
}

/// What outlives gcwatch.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct State {
    /// A directory for gcwatch alone, on a local disk: the queue of what receivers did not take (`otlp.queue`), open
    /// incidents, recordings of incidents (`evidence.black_box`) and a day of the history of processes are below it. It
    /// is made when it is missing, readable by gcwatch only. Without one, that queue is in memory only (`otlp.limits`),
    /// incidents are not recorded, and the page has the last half hour. systemd sets it with `StateDirectory=gcwatch`.
    #[schemars(extend("x-restart" = true))]
    pub(crate) directory: Option<PathBuf>,
}

/// The listener.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Web {
    /// Names by which the listener may be addressed (the `Host` header, without port), beside `localhost` and loopback
    /// addresses. Empty: any name, but on a loopback address only those, so that a page in a browser cannot read it by
    /// DNS rebinding. `/livez` and `/readyz` answer to any name where the address is not loopback.
    #[schemars(inner(length(min = 1)), extend("x-restart" = true))]
    pub(crate) hosts: Vec<String>,
    /// The source of the token of who may see what is protected (`Authorization: Bearer ...`): 16 characters at least.
    #[schemars(extend("x-restart" = true))]
    pub(crate) token_from: Option<SecretSource>,
    /// Names of who may see what is protected, and the sources of their passwords: 12 characters at least.
    #[schemars(extend("x-restart" = true))]
    pub(crate) users_from: BTreeMap<String, SecretSource>,
    /// What only those see who log in. `private`: what may hold secrets (recordings, flame graphs, requests), which
    /// others see on a loopback address only. `all`: everything but `/livez` and `/readyz`.
    #[schemars(extend("x-restart" = true))]
    pub(crate) protects: Protects,
    /// Whether agents may ask at `/mcp` (Model Context Protocol), under the same rules of who may see what. `auto`: on a
    /// loopback address only. It has no tool that costs a process something (docs/mcp.md).
    #[schemars(extend("x-restart" = true))]
    pub(crate) mcp: Mcp,
    /// Where traces are shown: a URL with `{trace_id}`, such as `https://jaeger.example.org/trace/{trace_id}`. Ids of
    /// traces on the page link there.
    #[schemars(extend("x-restart" = true))]
    pub(crate) trace_url: Option<String>,
    /// Where a service's figures are shown: a URL with `{service}`, and `{namespace}`, `{pod}`, `{from}` and `{to}` (Unix
    /// milliseconds, or `now`) where they are of use, such as
    /// `https://grafana.example.org/d/gcwatch-service?var-service={service}&from={from}&to={to}`. Incidents link there, on
    /// the page and in messages.
    #[schemars(extend("x-restart" = true))]
    pub(crate) grafana_url: Option<String>,
    /// TLS. Required for `token_from` and `users_from` where the address is not loopback.
    #[schemars(extend("x-restart" = true))]
    pub(crate) tls: WebTls,
}

/// The certificate of the listener.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct WebTls {
    /// PEM file of its certificate chain; needs `key`. Both are read again when they change.
    pub(crate) certificate: Option<PathBuf>,
    /// PEM file of its private key; needs `certificate`.
    pub(crate) key: Option<PathBuf>,
}

/// Resource attributes of every target.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Resource {
    /// `deployment.environment.name`: `production`, `staging`.
    pub(crate) environment: Option<String>,
    /// `k8s.cluster.name`.
    pub(crate) cluster: Option<String>,
    /// Other attributes: names and strings.
    pub(crate) attributes: BTreeMap<String, String>,
}

/// The log on standard error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Log {
    /// `off`, `error`, `warn`, `info`, `debug` or `trace`; also per module: `info,gcwatch::targets=debug`.
    pub(crate) level: LogLevel,
    /// The format of log lines.
    #[schemars(extend("x-restart" = true))]
    pub(crate) format: LogFormat,
    /// One line when an incident begins, gets worse or ends, whatever `level` is.
    pub(crate) incidents: bool,
}

impl Default for Log {
    fn default() -> Self {
        Self {
            level: LogLevel::default(),
            format: LogFormat::default(),
            incidents: true,
        }
    }
}

/// Telemetry of gcwatch itself over OTLP.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct SelfTelemetry {
    /// If false, nothing is exported; `/metrics` still has the metrics.
    pub(crate) enabled: bool,
    /// Spans: attach, export, reload.
    pub(crate) traces: bool,
    /// Metrics: losses, queues, retries.
    pub(crate) metrics: bool,
    /// The log as log records.
    pub(crate) logs: bool,
    /// The minimum level of log records; as in `log.level`.
    pub(crate) log_level: LogLevel,
    /// The `service.name` of gcwatch itself.
    #[schemars(length(min = 1))]
    pub(crate) service_name: String,
    /// Attributes of gcwatch's own resource.
    pub(crate) attributes: BTreeMap<String, String>,
}

impl Default for SelfTelemetry {
    fn default() -> Self {
        Self {
            enabled: true,
            traces: false,
            metrics: true,
            logs: true,
            log_level: LogLevel::new("warn"),
            service_name: "gcwatch".to_owned(),
            attributes: BTreeMap::new(),
        }
    }
}
