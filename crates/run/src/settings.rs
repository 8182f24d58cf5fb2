//! What the configuration decides about the pipeline.

use gc_telemetry::options::{MetricOptions, SpanOptions};
use opentelemetry_proto::tonic::common::v1::KeyValue;

/// What the time of an event is compared with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Clock {
    /// Processes that run now: the lag of each collection is measured.
    #[default]
    Live,
    /// Recordings: the time is that of their events.
    Recorded,
}

/// What becomes of collections: spans, metrics, and what is remembered for the API.
#[derive(Debug, Clone, PartialEq)]
pub struct PipelineSettings {
    /// What becomes spans.
    pub spans: SpanOptions,
    /// What becomes metrics.
    pub metrics: MetricOptions,
    /// Limit of runs that are observed at the same time.
    pub max_runs: usize,
    /// Collections that are remembered of each run, for the API.
    pub recent: usize,
    /// Live or recorded.
    pub clock: Clock,
    /// Attributes of every process's resource; those that a process has already keep their values.
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
