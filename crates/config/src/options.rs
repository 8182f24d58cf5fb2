//! Options of the daemon as a whole.

use std::net::SocketAddr;
use std::path::PathBuf;

use base::words;
use delivery::alerts::settings::AlertSettings;
use delivery::otlp::settings::OtlpSettings;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use evidence::automatic::BurstOptions;
use evidence::black_box::BlackBoxOptions;
use evidence::census::CensusOptions;
use evidence::store::StoreOptions;
use kubernetes::settings::Settings;
use run::settings::PipelineSettings;
use targets::options::TargetOptions;
use web::options::WebOptions;

/// What the parts of the daemon are built from, and changed by. By default, the shipped rules are evaluated, and
/// nothing leaves or listens.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Options {
    /// Which processes are attached to, and how.
    pub targets: TargetOptions,
    /// How collections become spans and metrics.
    pub pipeline: PipelineSettings,
    /// The OTLP receivers.
    pub otlp: OtlpSettings,
    /// The directory of what outlives the daemon.
    pub state_directory: Option<PathBuf>,
    /// The rule files.
    pub rules: RuleSources,
    /// The receivers of alerts.
    pub alerts: AlertSettings,
    /// Whether severe incidents are recorded, and how much of that is kept.
    pub black_box: BlackBoxOptions,
    /// The store of evidence outside of the host, with the name of this host in it; `None`: evidence stays on the host.
    pub store: Option<(StoreOptions, String)>,
    /// Whether incidents have bursts.
    pub bursts: BurstOptions,
    /// Whether incidents have heap dumps.
    pub census: CensusOptions,
    /// How the pods of processes are looked up in Kubernetes.
    pub kubernetes: Settings,
    /// The address of `/metrics` and the API; `None`: there is no listener.
    pub listen: Option<SocketAddr>,
    /// Who may see what of it.
    pub web: WebOptions,
    /// Attributes of the daemon's own resource.
    pub own_resource: Vec<KeyValue>,
    /// Whether the daemon's own metrics are exported over OTLP; `/metrics` always has them.
    pub export_own_metrics: bool,
}

words! {
    /// The format of log lines.
    #[derive(Default)]
    pub enum LogFormat {
        /// Plain text.
        #[default]
        Text = "text",
        /// One JSON object per line.
        Json = "json",
    }
}

/// The log on standard error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogOptions {
    /// A filter as `tracing_subscriber::EnvFilter` reads it: `info`, `info,gcwatch::targets=debug`.
    pub filter: String,
    /// The format of log lines.
    pub format: LogFormat,
    /// Lines on incidents, whatever the filter is.
    pub incidents: bool,
}

/// Telemetry of gcwatch itself over OTLP, to the same receivers as the targets' telemetry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SelfTelemetryOptions {
    /// Spans: attach, export, reload.
    pub traces: bool,
    /// Metrics: losses, queues, retries.
    pub metrics: bool,
    /// The log as log records, with this filter; `None`: no log records.
    pub logs: Option<String>,
    /// The `service.name` of gcwatch itself.
    pub service_name: String,
    /// Further attributes of its resource: names and strings.
    pub attributes: Vec<(String, String)>,
}

/// The rules for anomalies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Rules")]
pub struct RuleSources {
    /// Load the shipped rules, before the files. `overrides` in a file change or disable single ones.
    pub shipped: bool,
    /// Rule files, and directories whose `*.yaml` files are read in the order of their names (except `*.test.yaml`).
    /// Later files can change rules of earlier ones. They are read again when they change.
    #[serde(rename = "files")]
    pub paths: Vec<PathBuf>,
}

impl Default for RuleSources {
    fn default() -> Self {
        Self {
            shipped: true,
            paths: Vec::new(),
        }
    }
}
