//! What of the configuration concerns the daemon as a whole.

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

/// What gcwatch writes to standard error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogOptions {
    /// A filter as `tracing_subscriber::EnvFilter` reads it: `info`, `info,gcwatch::targets=debug`.
    pub filter: String,
    /// How lines are written.
    pub format: LogFormat,
}

/// What gcwatch tells of itself over OTLP, to the same receivers as the targets' telemetry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SelfTelemetryOptions {
    /// Spans of its own work.
    pub traces: bool,
    /// Metrics of its own health.
    pub metrics: bool,
    /// Its log lines as log records, of those that this filter lets through; `None`: none.
    pub logs: Option<String>,
    /// The `service.name` of gcwatch itself.
    pub service_name: String,
    /// Further attributes of its resource: names and texts.
    pub attributes: Vec<(String, String)>,
}

/// Where rules come from. Later files may change what earlier ones say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleSources {
    /// The rules that ship come first.
    pub shipped: bool,
    /// Files, and folders whose `*.yaml` and `*.yml` are read in the order of their names, `*.test.yaml` aside.
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
