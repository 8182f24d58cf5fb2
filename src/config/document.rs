//! Every key that there is, once: from these types come the reading, the JSON schema, the page and `--print-config`.
//!
//! The doc comments are what users read. `x-restart` marks keys that a reload cannot change.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::options::LogFormat;
use super::values::{Hidden, ListenAddress, LogLevel};

mod alerts;
mod kubernetes;
mod otlp;
mod targets;
mod telemetry;

pub(crate) use alerts::{Alertmanager, Alerts, Rules, Webhook};
pub(crate) use kubernetes::Kubernetes;
pub(crate) use otlp::{Limits, Otlp, SecretSource, Signal};
pub(crate) use targets::Targets;
pub(crate) use telemetry::{Histogram, Metrics, Spans};

/// The configuration of gcwatch. Every key may be left out; an empty value is a key that is not set.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(title = "gcwatch configuration")]
pub(crate) struct Document {
    /// Which processes are attached to, and how.
    pub(crate) targets: Targets,
    /// Where spans, metrics and log records are sent. `traces`, `metrics` and `logs` have keys of their own for what
    /// differs from the common ones.
    pub(crate) otlp: Otlp,
    /// Which collections become spans, and how much of each.
    pub(crate) spans: Spans,
    /// How the collections of a process become metrics.
    pub(crate) metrics: Metrics,
    /// Which rules say what an anomaly is.
    pub(crate) rules: Rules,
    /// Who is told when an alert begins and ends.
    pub(crate) alerts: Alerts,
    /// What Kubernetes is asked about the pods of processes.
    pub(crate) kubernetes: Kubernetes,
    /// Attributes that every target's telemetry carries. The identity of a process (`service.name` and so on) comes from
    /// the process itself: its `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES` win over these.
    pub(crate) resource: Resource,
    /// Address and port of `/metrics`, `/livez`, `/readyz` and the API, or `none`. An address that others can reach is
    /// your decision: there is no authentication.
    #[schemars(extend("x-restart" = true))]
    pub(crate) listen: ListenAddress,
    /// What gcwatch writes to standard error.
    pub(crate) log: Log,
    /// What gcwatch tells of itself over OTLP, as a service of its own.
    #[schemars(extend("x-restart" = true))]
    pub(crate) self_telemetry: SelfTelemetry,
}

/// Attributes that every target's telemetry carries.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Resource {
    /// `deployment.environment.name`: `production`, `staging`.
    pub(crate) environment: Option<String>,
    /// `k8s.cluster.name`.
    pub(crate) cluster: Option<String>,
    /// Other attributes: names and texts.
    pub(crate) attributes: BTreeMap<String, String>,
}

/// What gcwatch writes to standard error.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Log {
    /// `off`, `error`, `warn`, `info`, `debug` or `trace`; also by module: `info,gcwatch::targets=debug`.
    pub(crate) level: LogLevel,
    /// How lines are written.
    #[schemars(extend("x-restart" = true))]
    pub(crate) format: LogFormat,
}

/// What gcwatch tells of itself over OTLP.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct SelfTelemetry {
    /// Nothing is told when false; `/metrics` has the metrics all the same.
    pub(crate) enabled: bool,
    /// Spans of its own work.
    pub(crate) traces: bool,
    /// Metrics of its own health: losses, queues, retries.
    pub(crate) metrics: bool,
    /// Its log as log records.
    pub(crate) logs: bool,
    /// From which level on log lines become log records; as in `log.level`.
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
