//! Options of the daemon as a whole.

use std::path::PathBuf;

use strict_yaml::words;

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

/// Sources of rules. Later files can change rules of earlier ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleSources {
    /// Load the shipped rules, before the files.
    pub shipped: bool,
    /// Files, and directories whose `*.yaml` and `*.yml` files are read in the order of their names, except tests.
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
