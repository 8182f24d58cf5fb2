//! The keys of `spans` and `metrics`.

use super::{Deserialize, Duration, JsonSchema, Serialize};
use base::units::HumanDuration;
use base::words;
use gc_telemetry::options::{
    Aggregate, Detail, GenerationKey, HistogramBuckets, MetricOptions, RuntimeMetrics, SpanOptions, Temporality,
};

/// Selection of the collections that become spans, and the content of the spans.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Spans {
    /// Whether there are spans.
    pub(crate) enabled: bool,
    /// Minimum generation of collections that become spans; 0 for all.
    #[schemars(range(min = 0, max = 2))]
    pub(crate) min_generation: u32,
    /// Minimum pause of collections that become spans; `0s` for all. Collections with an unknown pause are included.
    /// Collections with a shorter pause are included if they were blocking collections of generation 2, paused a
    /// request or are anomalous, and once per second while an incident is open.
    #[schemars(extend("x-maximum" = "1h"))]
    pub(crate) min_pause: HumanDuration,
    /// Ratio of collections that become spans, from 0 to 1.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub(crate) ratio: f64,
    /// Maximum number of collections per process and second that become spans; the others are counted.
    #[schemars(range(min = 0, max = 100_000))]
    pub(crate) max_per_second: u32,
    /// Whether pauses and the concurrent part become child spans.
    pub(crate) children: bool,
    /// Whether the phases of the collection become child spans.
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

/// Conversion of the collections of a process to metrics.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Metrics {
    /// Export interval over OTLP.
    #[schemars(extend("x-minimum" = "100ms", "x-maximum" = "1h"))]
    pub(crate) interval: HumanDuration,
    /// Start of the interval that a point's value covers, over OTLP; `/metrics` is always cumulative.
    #[schemars(extend("x-restart" = true))]
    pub(crate) temporality: Temporality,
    /// Name of the attribute for a point's generation.
    #[schemars(extend("x-restart" = true))]
    pub(crate) generation_key: GenerationKey,
    /// Type of the histogram for pauses.
    #[schemars(extend("x-restart" = true))]
    pub(crate) histogram: Histogram,
    /// Maximum number of buckets of an exponential histogram. Its scale is reduced if necessary.
    #[schemars(range(min = 2, max = 1000), extend("x-restart" = true))]
    pub(crate) max_buckets: u16,
    /// Upper bounds of the buckets of an explicit histogram, in ascending order.
    #[schemars(length(min = 1, max = 200), extend("x-restart" = true))]
    pub(crate) bounds: Vec<HumanDuration>,
    /// Whether the `dotnet.gc.*` metrics of OpenTelemetry's conventions are exported in addition to `gcwatch.*`. A
    /// process of .NET 9 or later can export them itself, and equal names of one service would be counted twice.
    #[schemars(extend("x-restart" = true))]
    pub(crate) runtime_metrics: RuntimeMetrics,
    /// Amount of data for each process. `low`: one histogram of pauses without attributes, and no metrics for the
    /// durations of suspensions and background collections, compactions, promoted bytes, budgets, heaps, handles and
    /// sync blocks. `/metrics` then has less than 10 kB per process instead of up to 45 kB. Dashboards that show why
    /// processes are stopped need `full`.
    #[schemars(extend("x-restart" = true))]
    pub(crate) detail: Detail,
    /// Subject of a series: each process, or each service on a host. `service` adds up the processes of a service;
    /// counters and histograms keep the counts of exited processes. Pods and pids are lost; see telemetry.md.
    #[schemars(extend("x-restart" = true))]
    pub(crate) aggregate: Aggregate,
    /// Maximum number of series per process. Further series are dropped and counted.
    #[schemars(range(min = 1, max = 100_000), extend("x-restart" = true))]
    pub(crate) max_series: u32,
}

impl Default for Metrics {
    fn default() -> Self {
        let options = MetricOptions::default();
        // The range of pauses, from the youngest generation of a small heap to a blocking collection of a large heap.
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
            // These values come from another section.
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
