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

/// The options of all parts of the daemon, at the start and after a reload. By default, the shipped rules are
/// evaluated, no telemetry is sent, and no port is opened.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Options {
    /// Selection of processes, and their sessions.
    pub targets: TargetOptions,
    /// Conversion of collections to spans and metrics.
    pub pipeline: PipelineSettings,
    /// The OTLP receivers.
    pub otlp: OtlpSettings,
    /// Directory of data that survives a restart of the daemon.
    pub state_directory: Option<PathBuf>,
    /// The rule files.
    pub rules: RuleSources,
    /// The receivers of alerts.
    pub alerts: AlertSettings,
    /// Whether severe incidents are recorded, and the limits of the recordings.
    pub black_box: BlackBoxOptions,
    /// Store for evidence outside the host, and the name of this host in it; `None` if evidence stays on the host.
    pub store: Option<(StoreOptions, String)>,
    /// Whether incidents have bursts, and the limits of bursts.
    pub bursts: BurstOptions,
    /// Whether incidents have heap dumps, and the limits of heap dumps.
    pub census: CensusOptions,
    /// Source of pod metadata in Kubernetes.
    pub kubernetes: Settings,
    /// Address of `/metrics` and the API; `None` if there is no listener.
    pub listen: Option<SocketAddr>,
    /// Access rules of the listener.
    pub web: WebOptions,
    /// Attributes of the daemon's own resource.
    pub own_resource: Vec<KeyValue>,
    /// Whether the daemon's own metrics are exported over OTLP. `/metrics` always contains these metrics.
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
    /// Filter in the format of `tracing_subscriber::EnvFilter`: `info`, `info,gcwatch::targets=debug`.
    pub filter: String,
    /// The format of log lines.
    pub format: LogFormat,
    /// Whether incidents are logged, independent of the filter.
    pub incidents: bool,
}

/// Telemetry of gcwatch itself over OTLP, to the same receivers as the targets' telemetry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SelfTelemetryOptions {
    /// Whether spans are exported: attach, export, reload.
    pub traces: bool,
    /// Whether metrics are exported: losses, queues, retries.
    pub metrics: bool,
    /// Filter for exporting the log as log records; `None` if the log is not exported.
    pub logs: Option<String>,
    /// The `service.name` of gcwatch itself.
    pub service_name: String,
    /// Further attributes of gcwatch's own resource, as names and strings.
    pub attributes: Vec<(String, String)>,
}

/// The rules for anomalies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Rules")]
pub struct RuleSources {
    /// Whether the shipped rules are loaded before the files. `overrides` in a file can change or disable a rule.
    pub shipped: bool,
    /// Rule files, and directories whose `*.yaml` files are read in the order of their names (except `*.test.yaml`). A
    /// file can change rules of previous files. Changed files are read again.
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
