//! The keys of `spans` and `metrics`.

use super::{Deserialize, Duration, JsonSchema, Serialize};
use base::units::HumanDuration;
use base::words;
use gc_telemetry::options::{
    Aggregate, Detail, GenerationKey, HistogramBuckets, MetricOptions, RuntimeMetrics, SpanOptions, Temporality,
};

/// Which collections become spans, and how much of each.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Spans {
    /// If false, there are no spans.
    pub(crate) enabled: bool,
    /// Only collections of this or a higher generation; 0: all.
    #[schemars(range(min = 0, max = 2))]
    pub(crate) min_generation: u32,
    /// Collections with at least this pause, or with an unknown one. Shorter ones only if they were blocking ones of
    /// generation 2, stopped a request or are anomalous; and one a second while an incident is open. `0s`: all.
    #[schemars(extend("x-maximum" = "1h"))]
    pub(crate) min_pause: HumanDuration,
    /// The ratio of collections that become spans, 0 to 1.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub(crate) ratio: f64,
    /// Maximum number of collections per process and second that become spans; the others are counted.
    #[schemars(range(min = 0, max = 100_000))]
    pub(crate) max_per_second: u32,
    /// Child spans for pauses and the concurrent part.
    pub(crate) children: bool,
    /// Child spans for the phases of the collection.
    pub(crate) phases: bool,
}

impl Default for Spans {
    fn default() -> Self {
        let options = SpanOptions::default();
        Self {
            enabled: options.enabled,
            min_generation: options.min_generation,
            min_pause: HumanDuration(options.min_pause),
            ratio: options.ratio,
            max_per_second: options.max_per_second,
            children: options.children,
            phases: options.phases,
        }
    }
}

impl From<&Spans> for SpanOptions {
    fn from(keys: &Spans) -> Self {
        Self {
            enabled: keys.enabled,
            min_generation: keys.min_generation,
            min_pause: keys.min_pause.0,
            ratio: keys.ratio,
            max_per_second: keys.max_per_second,
            children: keys.children,
            phases: keys.phases,
            ..Self::default()
        }
    }
}

/// How the collections of a process become metrics.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Metrics {
    /// Export interval over OTLP.
    #[schemars(extend("x-minimum" = "100ms", "x-maximum" = "1h"))]
    pub(crate) interval: HumanDuration,
    /// The time that a point's value counts from (over OTLP; `/metrics` is always cumulative).
    #[schemars(extend("x-restart" = true))]
    pub(crate) temporality: Temporality,
    /// The attribute of a point's generation.
    #[schemars(extend("x-restart" = true))]
    pub(crate) generation_key: GenerationKey,
    /// The type of histogram for pauses.
    #[schemars(extend("x-restart" = true))]
    pub(crate) histogram: Histogram,
    /// Maximum number of buckets of an exponential histogram; its scale is reduced when needed.
    #[schemars(range(min = 2, max = 1000), extend("x-restart" = true))]
    pub(crate) max_buckets: u16,
    /// Upper bounds of the buckets of an explicit histogram, ascending.
    #[schemars(length(min = 1, max = 200), extend("x-restart" = true))]
    pub(crate) bounds: Vec<HumanDuration>,
    /// Whether the `dotnet.gc.*` metrics of OpenTelemetry's conventions are exported beside `gcwatch.*`. A process of
    /// .NET 9 or later may export them itself; the same name of the same service would count twice.
    #[schemars(extend("x-restart" = true))]
    pub(crate) runtime_metrics: RuntimeMetrics,
    /// How much of each process. `low`: one histogram of pauses without attributes, and no metrics of suspensions'
    /// and background collections' durations, compactions, promoted bytes, budgets, heaps, handles and sync blocks: less
    /// than 10 kB of a process on `/metrics` instead of up to 45 kB. Dashboards of what processes are
    /// stopped for need `full`.
    #[schemars(extend("x-restart" = true))]
    pub(crate) detail: Detail,
    /// What has its own series: each process, or each service on a host. `service` adds up the processes of a service:
    /// counters and histograms keep what ended processes counted. Pods and pids are lost; see telemetry.md.
    #[schemars(extend("x-restart" = true))]
    pub(crate) aggregate: Aggregate,
    /// Maximum number of series per process; more are dropped and counted.
    #[schemars(range(min = 1, max = 100_000), extend("x-restart" = true))]
    pub(crate) max_series: u32,
}

impl Default for Metrics {
    fn default() -> Self {
        let options = MetricOptions::default();
        // The range of pauses: from the youngest generation of a small heap to a blocking collection of a large one.
        let bounds_us = [
            500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000,
            5_000_000, 10_000_000,
        ];
        let max_buckets = match options.buckets {
            HistogramBuckets::Exponential { max_buckets } => max_buckets,
            HistogramBuckets::Explicit(_) => 160,
        };
        Self {
            interval: HumanDuration(options.interval),
            temporality: options.temporality,
            generation_key: options.generation_key,
            histogram: Histogram::Exponential,
            max_buckets,
            bounds: bounds_us.map(|us| HumanDuration(Duration::from_micros(us))).to_vec(),
            runtime_metrics: options.runtime_metrics,
            detail: options.detail,
            aggregate: options.aggregate,
            max_series: u32::try_from(options.max_series).unwrap_or(u32::MAX),
        }
    }
}

impl From<&Metrics> for MetricOptions {
    fn from(keys: &Metrics) -> Self {
        Self {
            interval: keys.interval.0,
            temporality: keys.temporality,
            generation_key: keys.generation_key,
            buckets: match keys.histogram {
                Histogram::Exponential => HistogramBuckets::Exponential {
                    max_buckets: keys.max_buckets,
                },
                Histogram::Explicit => {
                    HistogramBuckets::Explicit(keys.bounds.iter().map(|bound| bound.0.as_secs_f64()).collect())
                }
            },
            runtime_metrics: keys.runtime_metrics,
            detail: keys.detail,
            aggregate: keys.aggregate,
            max_series: usize::try_from(keys.max_series).unwrap_or(usize::MAX),
            // Those of another section.
            ..Self::default()
        }
    }
}

words! {
    /// The type of histogram for pauses.
    pub(crate) enum Histogram {
        /// Buckets that adapt to the values: every quantile within a few percent.
        Exponential = "exponential",
        /// The buckets of `bounds`, for receivers without exponential histograms.
        Explicit = "explicit",
    }
}
