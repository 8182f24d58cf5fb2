//! The keys of the configuration. The parser, the JSON schema, the reference page and `--print-config` are derived from
//! these types.
//!
//! The doc comments of the keys are the descriptions that users see. `x-restart` marks keys that a reload cannot
//! change.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::options::{LogFormat, RuleSources};
use super::values::{HiddenString, ListenAddress, LogLevel};
use web::options::{Mcp, Protects};

mod alerts;
mod evidence;
mod kubernetes;
mod otlp;
mod requests;
mod targets;
mod telemetry;

pub(crate) use alerts::{Alertmanager, Alerts, Webhook};
pub(crate) use evidence::Evidence;
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
    /// Selection of the processes that gcwatch attaches to, and settings for their sessions.
    pub(crate) targets: Targets,
    /// Receivers of spans, metrics and log records. The keys of `traces`, `metrics` and `logs` override the common
    /// keys.
    pub(crate) otlp: Otlp,
    /// Selection of the collections that become spans, and the content of the spans.
    pub(crate) spans: Spans,
    /// Measurement of the time that collections cost the requests of web services.
    pub(crate) requests: Requests,
    /// Conversion of the collections of a process to metrics.
    pub(crate) metrics: Metrics,
    /// Rules that detect anomalies.
    pub(crate) rules: RuleSources,
    /// Receivers of notifications when an alert starts and ends.
    pub(crate) alerts: Alerts,
    /// Evidence that gcwatch gathers for incidents.
    pub(crate) evidence: Evidence,
    /// Pod metadata from Kubernetes.
    pub(crate) kubernetes: Kubernetes,
    /// Data that survives a restart of gcwatch.
    pub(crate) state: State,
    /// Resource attributes of every target. The identity of a process (`service.name` and so on) comes from the process
    /// itself: its `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES` override these attributes.
    pub(crate) resource: Resource,
    /// Address and port of `/metrics`, `/livez`, `/readyz` and the API, or `none`. All data requires a login only if
    /// `web.protects` is `all` and `web.token_from` or `web.users_from` is set: consider this before you use an address
    /// that other hosts can reach.
    #[schemars(extend("x-restart" = true))]
    pub(crate) listen: ListenAddress,
    /// Access to the listener: names, logins, agents, links and TLS.
    pub(crate) web: Web,
    /// The log on standard error.
    pub(crate) log: Log,
    /// Telemetry of gcwatch itself over OTLP, as a separate service.
    #[schemars(extend("x-restart" = true))]
    pub(crate) self_telemetry: SelfTelemetry,
}

/// Data that survives a restart of gcwatch.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct State {
    /// A directory on a local disk that only gcwatch uses. The directory contains the queue of data that receivers did
    /// not accept (`otlp.queue`), open incidents, recordings of incidents (`evidence.black_box`) and a one-day history
    /// of processes. If the directory does not exist, gcwatch creates it, readable only by gcwatch. Without this key,
    /// the queue is only in memory (`otlp.limits`), incidents are not recorded, and the page shows the last 30 minutes.
    /// systemd sets the key with `StateDirectory=gcwatch`.
    #[schemars(extend("x-restart" = true))]
    pub(crate) directory: Option<PathBuf>,
}

/// The listener.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Web {
    /// Accepted names of the listener (the `Host` header, without port), in addition to `localhost` and loopback
    /// addresses. If empty, a listener on a loopback address accepts only `localhost` and loopback addresses, so that a
    /// page in a browser cannot read the listener by DNS rebinding. A listener on any other address accepts any name.
    /// `/livez` and `/readyz` accept any name if the address is not loopback.
    #[schemars(inner(length(min = 1)), extend("x-restart" = true))]
    pub(crate) hosts: Vec<String>,
    /// Source of the token that grants access to protected data (`Authorization: Bearer ...`): at least 16 characters.
    #[schemars(extend("x-restart" = true))]
    pub(crate) token_from: Option<SecretSource>,
    /// Names of users with access to protected data, and the sources of their passwords: at least 12 characters.
    #[schemars(extend("x-restart" = true))]
    pub(crate) users_from: BTreeMap<String, SecretSource>,
    /// Data that requires a login. `private`: data that can contain secrets (recordings, flame graphs, requests), which
    /// is also available without a login on a loopback address. `all`: everything except `/livez` and `/readyz`.
    #[schemars(extend("x-restart" = true))]
    pub(crate) protects: Protects,
    /// Whether agents can use `/mcp` (Model Context Protocol), under the same access rules. `auto`: only on a loopback
    /// address. `/mcp` does not offer tools that have a cost for a process (docs/mcp.md).
    #[schemars(extend("x-restart" = true))]
    pub(crate) mcp: Mcp,
    /// URL of the trace viewer with `{trace_id}`, such as `https://jaeger.example.org/trace/{trace_id}`. Trace ids on
    /// the page link to this URL.
    #[schemars(extend("x-restart" = true))]
    pub(crate) trace_url: Option<String>,
    /// URL of a dashboard for a service with `{service}`, and optionally `{namespace}`, `{pod}`, `{from}` and `{to}`
    /// (Unix milliseconds, or `now`), such as
    /// `https://grafana.example.org/d/gcwatch-service?var-service={service}&from={from}&to={to}`. Incidents on the page
    /// and in messages link to this URL.
    #[schemars(extend("x-restart" = true))]
    pub(crate) grafana_url: Option<String>,
    /// TLS of the listener. Required for `token_from` and `users_from` if the address is not loopback.
    #[schemars(extend("x-restart" = true))]
    pub(crate) tls: WebTls,
}

/// The certificate of the listener.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct WebTls {
    /// PEM file of the certificate chain; requires `key`. Both files are read again when they change.
    pub(crate) certificate: Option<PathBuf>,
    /// PEM file of the private key; requires `certificate`.
    pub(crate) key: Option<PathBuf>,
}

/// Resource attributes of every target.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Resource {
    /// Value of `deployment.environment.name`, such as `production` or `staging`.
    pub(crate) environment: Option<String>,
    /// Value of `k8s.cluster.name`.
    pub(crate) cluster: Option<String>,
    /// Other attributes, as names and strings.
    pub(crate) attributes: BTreeMap<String, String>,
}

/// The log on standard error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Log {
    /// Minimum level: `off`, `error`, `warn`, `info`, `debug` or `trace`, optionally per module:
    /// `info,gcwatch::targets=debug`.
    pub(crate) level: LogLevel,
    /// Format of log lines.
    #[schemars(extend("x-restart" = true))]
    pub(crate) format: LogFormat,
    /// Whether one line is logged when an incident starts, escalates or ends, independently of `level`.
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
    /// Whether telemetry of gcwatch is exported. `/metrics` always contains the metrics.
    pub(crate) enabled: bool,
    /// Whether spans are exported, for attaching, exporting and reloading.
    pub(crate) traces: bool,
    /// Whether metrics are exported, such as losses, queues and retries.
    pub(crate) metrics: bool,
    /// Whether the log is exported as log records.
    pub(crate) logs: bool,
    /// Minimum level of log records, in the format of `log.level`.
    pub(crate) log_level: LogLevel,
    /// `service.name` of gcwatch itself.
    #[schemars(length(min = 1))]
    pub(crate) service_name: String,
    /// Additional resource attributes of gcwatch itself.
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
