//! What of the collections becomes spans and metrics.

use std::time::Duration;

use strict_yaml::words;

/// Which collections become spans, and how much of each.
#[derive(Debug, Clone, PartialEq)]
pub struct SpanOptions {
    /// No spans at all when false.
    pub enabled: bool,
    /// Only collections of this generation or an older one (0: all).
    pub min_generation: u32,
    /// Only collections that stopped the process at least as long; one whose pause is unknown is told.
    pub min_pause: Duration,
    /// The share of the collections that is told, 0 to 1, by their trace ids.
    pub ratio: f64,
    /// Most collections of one process that become spans in one second; the others are counted.
    pub max_per_second: u32,
    /// Child spans for pauses and the concurrent part.
    pub children: bool,
    /// The times of the phases, as attributes: the runtime gives lengths without starts, so they cannot be spans.
    pub phases: bool,
}

impl Default for SpanOptions {
    fn default() -> Self {
        Self {
            enabled: true,
            min_generation: 0,
            min_pause: Duration::ZERO,
            ratio: 1.0,
            max_per_second: 50,
            children: true,
            phases: true,
        }
    }
}

words! {
    /// The attribute of a point's generation.
    #[derive(Default)]
    pub enum GenerationKey {
        /// `dotnet.gc.heap.generation`, as in the semantic conventions.
        #[default]
        Conventions = "conventions",
        /// `gc.heap.generation`, as in the runtime's own meter (.NET 9 and later).
        Runtime = "runtime",
    }
}

/// How pauses are distributed into buckets.
#[derive(Debug, Clone, PartialEq)]
pub enum HistogramBuckets {
    /// An exponential histogram of at most so many buckets.
    Exponential {
        /// Most buckets; the scale becomes coarser when they do not suffice.
        max_buckets: u16,
    },
    /// Upper bounds in seconds, rising.
    Explicit(Vec<f64>),
}

words! {
    /// The time that a point's value counts from.
    #[derive(Default)]
    pub enum Temporality {
        /// The first attach to the process.
        #[default]
        Cumulative = "cumulative",
        /// The previous export.
        Delta = "delta",
    }
}

/// How the collections of a process become metrics.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricOptions {
    /// How often they are sent.
    pub interval: Duration,
    /// What a point's value counts from (over OTLP; `/metrics` is always cumulative).
    pub temporality: Temporality,
    /// Under which key a point says its generation.
    pub generation_key: GenerationKey,
    /// How pauses are distributed into buckets.
    pub buckets: HistogramBuckets,
    /// The `dotnet.gc.*` metrics that a process of .NET 9 or later may send by itself too are told as well.
    pub runtime_metrics: bool,
    /// Most series of one process; more are counted, not told.
    pub max_series: usize,
}

impl Default for MetricOptions {
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(60),
            temporality: Temporality::Cumulative,
            generation_key: GenerationKey::Conventions,
            buckets: HistogramBuckets::Exponential { max_buckets: 160 },
            runtime_metrics: true,
            max_series: 500,
        }
    }
}
