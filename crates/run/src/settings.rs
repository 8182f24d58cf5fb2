//! Settings of the pipeline, from the configuration.

use gc_telemetry::options::{MetricOptions, SpanOptions};
use opentelemetry_proto::tonic::common::v1::KeyValue;

/// Clock to which the times of events refer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Clock {
    /// The current time, for running processes. The lag of each collection is measured.
    #[default]
    Live,
    /// The times of the events, for recordings.
    Recorded,
}

/// Settings for the spans, the metrics and the history of collections.
#[derive(Debug, Clone, PartialEq)]
pub struct PipelineSettings {
    /// Selection of collections and requests that become spans.
    pub spans: SpanOptions,
    /// Options of the metrics.
    pub metrics: MetricOptions,
    /// Maximum number of runs that are observed at the same time.
    pub max_runs: usize,
    /// Number of recent collections kept per run, for the API.
    pub recent: usize,
    /// Whether the runs are live or recorded.
    pub clock: Clock,
    /// Attributes added to the resource of every process. Attributes that a process already has keep their values.
    pub resource: Vec<KeyValue>,
}

impl Default for PipelineSettings {
    fn default() -> Self {
        Self {
            spans: SpanOptions::default(),
            metrics: MetricOptions::default(),
            max_runs: 1000,
            recent: 6,
            clock: Clock::Live,
            resource: Vec::new(),
        }
    }
}
