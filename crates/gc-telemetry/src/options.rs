//! Options of the export: selection of collections for spans, and form of the metrics.

use std::time::Duration;

use base::words;
use gc_requests::route::Routes;

/// Selection of collections for spans, and their level of detail. Collections that match a rule are exported regardless
/// of the selection.
#[derive(Debug, Clone, PartialEq)]
pub struct SpanOptions {
    /// Whether spans are exported.
    pub enabled: bool,
    /// Youngest generation to export; 0 exports all collections.
    pub min_generation: u32,
    /// Minimum pause. Collections with an unknown pause are exported too. Shorter collections are exported only if they
    /// are blocking collections of generation 2, stopped a request, or (at most one per second) occur while an incident
    /// is open.
    pub min_pause: Duration,
    /// Share of the collections to export, 0 to 1, selected by trace id.
    pub ratio: f64,
    /// Maximum number of exported collections of one process per second; the other collections are counted.
    pub max_per_second: u32,
    /// Whether the pauses and the concurrent parts of a collection have child spans.
    pub children: bool,
    /// Whether phase durations are attributes. The runtime reports no start times, so the phases cannot be spans.
    pub phases: bool,
    /// Selection of requests whose traces contain the pauses.
    pub requests: VictimOptions,
}

impl Default for SpanOptions {
    fn default() -> Self {
        Self {
            enabled: true,
            min_generation: 0,
            min_pause: Duration::from_millis(10),
            ratio: 1.0,
            max_per_second: 50,
            children: true,
            phases: true,
            requests: VictimOptions::default(),
        }
    }
}

/// Selection of requests whose traces contain the pauses.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct VictimOptions {
    /// Whether pauses are exported in the traces of requests.
    pub enabled: bool,
    /// Minimum time that a request lost.
    pub min_lost: Duration,
    /// Alternative minimum: the lost time as a share of the request's duration, 0 to 1.
    pub min_share: f64,
    /// Maximum number of exported requests of one process per second; the other requests are counted.
    pub max_per_second: u32,
}

impl Default for VictimOptions {
    fn default() -> Self {
        Self {
            enabled: true,
            min_lost: Duration::from_millis(10),
            min_share: 0.2,
            max_per_second: 20,
        }
    }
}

words! {
    /// Name of the attribute that contains a point's generation.
    #[derive(Default)]
    pub enum GenerationKey {
        /// `dotnet.gc.heap.generation`, as in the semantic conventions.
        #[default]
        Conventions = "conventions",
        /// `gc.heap.generation`, as in the runtime's own meter (.NET 9 and later).
        Runtime = "runtime",
    }
}

/// Histogram buckets for durations.
#[derive(Debug, Clone, PartialEq)]
pub enum HistogramBuckets {
    /// Exponential histogram with a maximum number of buckets.
    Exponential {
        /// Maximum number of buckets; the scale becomes coarser if the number is not sufficient.
        max_buckets: u16,
    },
    /// Upper bounds in ascending order, seconds.
    Explicit(Vec<f64>),
}

words! {
    /// Start time of a point's value.
    #[derive(Default)]
    pub enum Temporality {
        /// First attach to the process.
        #[default]
        Cumulative = "cumulative",
        /// Previous export.
        Delta = "delta",
    }
}

words! {
    /// Amount of detail in the metrics of each process.
    #[derive(Default)]
    pub enum Detail {
        /// All metrics.
        #[default]
        Full = "full",
        /// One histogram of pauses without attributes, and no metric of `definition::metric::DETAILED`: less than 10 kB
        /// per process on `/metrics`.
        Low = "low",
    }
}

words! {
    /// Export of the conventions' `dotnet.gc.*` metrics, which a process with .NET 9 or later can also export.
    #[derive(Default)]
    pub enum RuntimeMetrics {
        /// Export for processes without evidence that they export these metrics themselves.
        #[default]
        Auto = "auto",
        /// Export for all processes.
        On = "on",
        /// No export.
        Off = "off",
    }
}

words! {
    /// The subject of a series.
    #[derive(Default)]
    pub enum Aggregate {
        /// Each process.
        #[default]
        Process = "process",
        /// Each service on a host: its processes are added up.
        Service = "service",
    }
}

/// Options for the metrics of a process.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricOptions {
    /// Interval between exports; exemplars belong to one interval.
    pub interval: Duration,
    /// Start time of a point's value over OTLP; `/metrics` is always cumulative.
    pub temporality: Temporality,
    /// Key of the generation in the attributes of points.
    pub generation_key: GenerationKey,
    /// Buckets of the histograms of durations.
    pub buckets: HistogramBuckets,
    /// Export of the conventions' `dotnet.gc.*` metrics. The `gcwatch.*` metrics contain the same values.
    pub runtime_metrics: RuntimeMetrics,
    /// Amount of detail for each process.
    pub detail: Detail,
    /// The subject of a series.
    pub aggregate: Aggregate,
    /// Classes of requests.
    pub routes: Routes,
    /// Maximum number of series of one process; further measurements are aggregated into an overflow point and counted.
    pub max_series: usize,
}

impl Default for MetricOptions {
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(60),
            temporality: Temporality::Cumulative,
            generation_key: GenerationKey::Conventions,
            buckets: HistogramBuckets::Exponential { max_buckets: 160 },
            runtime_metrics: RuntimeMetrics::Auto,
            detail: Detail::Full,
            aggregate: Aggregate::Process,
            routes: Routes::default(),
            max_series: 500,
        }
    }
}
