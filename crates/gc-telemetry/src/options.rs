//! Options of the export: which collections become spans, and how they become metrics.

use std::time::Duration;

use gc_requests::route::Routes;
use strict_yaml::words;

/// Which collections become spans, and with how much detail.
#[derive(Debug, Clone, PartialEq)]
pub struct SpanOptions {
    /// No spans at all when false.
    pub enabled: bool,
    /// Only collections of this generation or an older one (0: all).
    pub min_generation: u32,
    /// Collections that paused the process for at least as long, or for a time that is unknown; shorter ones only where
    /// they were blocking ones of generation 2 or stopped a request.
    pub min_pause: Duration,
    /// Share of the collections that become spans, 0 to 1, decided by their trace ids.
    pub ratio: f64,
    /// Limit of collections of one process that become spans in one second; the others are counted.
    pub max_per_second: u32,
    /// Child spans for pauses and the concurrent part.
    pub children: bool,
    /// Durations of the phases as attributes: the runtime reports no start times, so they cannot be spans.
    pub phases: bool,
    /// Which requests get the pauses into their own traces.
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

/// Which requests get the pauses into their traces.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct VictimOptions {
    /// None at all when false.
    pub enabled: bool,
    /// Requests that lost at least this much.
    pub min_lost: Duration,
    /// Or at least this share of their time, 0 to 1.
    pub min_share: f64,
    /// Limit of requests of one process in one second; the others are counted.
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

/// Buckets of the histograms of durations.
#[derive(Debug, Clone, PartialEq)]
pub enum HistogramBuckets {
    /// An exponential histogram of at most so many buckets.
    Exponential {
        /// Limit of buckets; the scale becomes coarser when they do not suffice.
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

words! {
    /// How much of each process becomes metrics.
    #[derive(Default)]
    pub enum Detail {
        /// Everything.
        #[default]
        Full = "full",
        /// One histogram of pauses without attributes, and no metric of `definition::metric::DETAILED`: less than 10 kB of
        /// a process on `/metrics`.
        Low = "low",
    }
}

words! {
    /// Whether the conventions' `dotnet.gc.*` metrics are exported, which a process of .NET 9 or later may export itself.
    #[derive(Default)]
    pub enum RuntimeMetrics {
        /// Of a process that does not export them itself, as far as that is seen.
        #[default]
        Auto = "auto",
        /// Of every process.
        On = "on",
        /// Of none.
        Off = "off",
    }
}

words! {
    /// What has its own series.
    #[derive(Default)]
    pub enum Aggregate {
        /// Each process.
        #[default]
        Process = "process",
        /// Each service on a host: its processes are added up.
        Service = "service",
    }
}

/// How the collections of a process become metrics.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricOptions {
    /// Interval of the export; exemplars are of one interval.
    pub interval: Duration,
    /// What a point's value counts from (over OTLP; `/metrics` is always cumulative).
    pub temporality: Temporality,
    /// Key of the generation in the attributes of points.
    pub generation_key: GenerationKey,
    /// Buckets of the histograms of durations.
    pub buckets: HistogramBuckets,
    /// Whether the conventions' `dotnet.gc.*` are exported. What they say is in `gcwatch.*`, too.
    pub runtime_metrics: RuntimeMetrics,
    /// How much of each process.
    pub detail: Detail,
    /// What has its own series.
    pub aggregate: Aggregate,
    /// The classes of requests.
    pub routes: Routes,
    /// Limit of series of one process; measurements beyond it go to an overflow point and are counted.
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
