//! A point of a metric, which accumulates values and exports them.

use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::metrics::v1::exponential_histogram_data_point::Buckets;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Exemplar, ExponentialHistogram as ExponentialData, ExponentialHistogramDataPoint, Gauge,
    Histogram as ExplicitData, HistogramDataPoint, Metric, NumberDataPoint, Sum,
};

use super::exemplars::Exemplars;
use super::labels::Labels;
use crate::definition::{Instrument, MetricDefinition};
use crate::histogram::{ExplicitHistogram, ExponentialHistogram, Summary};
use crate::options::{HistogramBuckets, MetricOptions, Temporality};
use crate::spans::SpanIds;

const SECOND_NS: f64 = 1e9;

/// Start time and export time of a point, in Unix nanoseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    pub(super) start: u64,
    pub(super) now: u64,
}

/// State of a point.
#[derive(Debug)]
pub(super) enum Point {
    /// A total, the part of the total that was already exported as deltas, and the start time of the total in Unix
    /// nanoseconds, or 0 if the total counts since the first attach.
    Sum { total: u64, exported: u64, since: u64 },
    /// The newest value and its time, in Unix nanoseconds.
    Newest { value: u64, at: u64 },
    /// A distribution of durations.
    Distribution(Box<Durations>),
}

/// Distribution with its exemplars.
#[derive(Debug)]
pub(super) struct Durations {
    total: Distribution,
    /// Distribution since the last export; `None` unless the temporality is delta.
    news: Option<Distribution>,
    exemplars: Exemplars,
}

#[derive(Debug, Clone)]
pub(super) enum Distribution {
    Exponential(ExponentialHistogram),
    Explicit(ExplicitHistogram),
}

/// Value of a point for export.
pub(super) enum PointValue {
    /// A number and its start time in Unix nanoseconds, or 0 if the number starts together with the other points.
    Number(Value, u64),
    Distribution(Distribution, Vec<Exemplar>),
}

impl Point {
    pub(super) fn new(definition: &MetricDefinition, options: &MetricOptions) -> Self {
        match definition.instrument {
            Instrument::Counter => Self::Sum {
                total: 0,
                exported: 0,
                since: 0,
            },
            Instrument::UpDownCounter | Instrument::Gauge => Self::Newest { value: 0, at: 0 },
            Instrument::Histogram => Self::Distribution(Box::new(Durations {
                total: Distribution::new(&options.buckets),
                news: (options.temporality == Temporality::Delta).then(|| Distribution::new(&options.buckets)),
                exemplars: Exemplars::default(),
            })),
        }
    }

    pub(super) fn add(&mut self, amount: u64) {
        if let Self::Sum { total, .. } = self {
            *total = total.saturating_add(amount);
        }
    }

    /// Adds to a total that counts since its first addition, which started at `start`.
    pub(super) fn add_since(&mut self, start: u64, amount: u64) {
        if let Self::Sum { since, .. } = self
            && *since == 0
        {
            *since = start;
        }
        self.add(amount);
    }

    /// Sets the newest value. A value older than the newest value is ignored, because a background collection can be
    /// observed late.
    pub(super) fn set(&mut self, new: u64, when: u64) {
        if let Self::Newest { value, at } = self
            && when >= *at
        {
            (*value, *at) = (new, when);
        }
    }

    pub(super) fn record(&mut self, ns: u64, at: u64, span: Option<SpanIds>, window: u64) {
        if let Self::Distribution(durations) = self {
            durations.total.record(ns);
            if let Some(news) = &mut durations.news {
                news.record(ns);
            }
            if let Some(span) = span {
                durations.exemplars.observe(ns, at, span, window);
            }
        }
    }

    /// Returns the total, the newest value, or the whole distribution. The result is always `Some`.
    pub(super) fn total(&self, definition: &MetricDefinition) -> Option<PointValue> {
        Some(match self {
            Self::Sum { total, since, .. } => PointValue::Number(number(*total, definition), *since),
            Self::Newest { value, .. } => PointValue::Number(number(*value, definition), 0),
            Self::Distribution(durations) => {
                PointValue::Distribution(durations.total.clone(), durations.exemplars.exported())
            }
        })
    }

    /// Returns the change since the last delta export, or `None` if nothing was added or the point is a newest value.
    pub(super) fn delta(&self, definition: &MetricDefinition) -> Option<PointValue> {
        match self {
            Self::Sum { total, exported, since } => {
                let news = total.saturating_sub(*exported);
                (news > 0).then(|| PointValue::Number(number(news, definition), *since))
            }
            Self::Newest { .. } => None,
            Self::Distribution(durations) => durations
                .news
                .as_ref()
                .filter(|news| news.summary().count > 0)
                .map(|news| PointValue::Distribution(news.clone(), durations.exemplars.exported())),
        }
    }

    /// Marks the point as exported: the next delta starts here.
    pub(super) fn mark_exported(&mut self) {
        match self {
            Self::Sum { total, exported, .. } => *exported = *total,
            Self::Newest { .. } => {}
            Self::Distribution(durations) => {
                if let Some(news) = &mut durations.news {
                    news.clear();
                    durations.exemplars.forget();
                }
            }
        }
    }
}

/// Returns a counted value in the exported unit: nanoseconds become seconds, percentages become fractions from 0 to 1.
fn number(counted: u64, definition: &MetricDefinition) -> Value {
    match definition.unit {
        "s" => Value::AsDouble(counted as f64 / SECOND_NS),
        "1" => Value::AsDouble(counted as f64 / 100.0),
        _ => Value::AsInt(i64::try_from(counted).unwrap_or(i64::MAX)),
    }
}

impl Distribution {
    fn new(buckets: &HistogramBuckets) -> Self {
        match buckets {
            HistogramBuckets::Exponential { max_buckets } => Self::Exponential(ExponentialHistogram::new(*max_buckets)),
            HistogramBuckets::Explicit(bounds) => Self::Explicit(ExplicitHistogram::new(bounds)),
        }
    }

    fn record(&mut self, ns: u64) {
        match self {
            Self::Exponential(histogram) => histogram.record(ns),
            Self::Explicit(histogram) => histogram.record(ns),
        }
    }

    fn summary(&self) -> Summary {
        match self {
            Self::Exponential(histogram) => histogram.summary(),
            Self::Explicit(histogram) => histogram.summary(),
        }
    }

    fn clear(&mut self) {
        match self {
            Self::Exponential(histogram) => histogram.clear(),
            Self::Explicit(histogram) => histogram.clear(),
        }
    }
}

/// Returns the metric with the points for which `read` returns a value, or `None` if there are no such points.
pub(super) fn metric(
    definition: &MetricDefinition,
    points: &[(Labels, Point)],
    options: &MetricOptions,
    temporality: Temporality,
    times: Times,
    read: impl Fn(&Point) -> Option<PointValue>,
) -> Option<Metric> {
    let aggregation_temporality = match temporality {
        Temporality::Cumulative => AggregationTemporality::Cumulative,
        Temporality::Delta => AggregationTemporality::Delta,
    }
    .into();
    let (mut numbers, mut exponential, mut explicit) = (Vec::new(), Vec::new(), Vec::new());
    for (labels, point) in points {
        let Some(reading) = read(point) else { continue };
        let attributes = labels.attributes(options);
        match reading {
            PointValue::Number(value, since) => {
                let start = times.start.max(since).min(times.now);
                numbers.push(number_point(value, attributes, Times { start, ..times }));
            }
            PointValue::Distribution(Distribution::Exponential(histogram), exemplars) => {
                exponential.push(exponential_point(&histogram, attributes, exemplars, times));
            }
            PointValue::Distribution(Distribution::Explicit(histogram), exemplars) => {
                explicit.push(explicit_point(&histogram, attributes, exemplars, times));
            }
        }
    }
    let instrument = definition.instrument;
    let data = if !exponential.is_empty() {
        Data::ExponentialHistogram(ExponentialData {
            data_points: exponential,
            aggregation_temporality,
        })
    } else if !explicit.is_empty() {
        Data::Histogram(ExplicitData {
            data_points: explicit,
            aggregation_temporality,
        })
    } else if numbers.is_empty() {
        return None;
    } else if instrument == Instrument::Gauge {
        for point in &mut numbers {
            // A gauge has no start time.
            point.start_time_unix_nano = 0;
        }
        Data::Gauge(Gauge { data_points: numbers })
    } else {
        Data::Sum(Sum {
            data_points: numbers,
            aggregation_temporality,
            is_monotonic: instrument == Instrument::Counter,
        })
    };
    Some(Metric {
        name: definition.name.to_owned(),
        description: definition.description.to_owned(),
        unit: definition.unit.to_owned(),
        metadata: Vec::new(),
        data: Some(data),
    })
}

fn number_point(value: Value, attributes: Vec<KeyValue>, times: Times) -> NumberDataPoint {
    NumberDataPoint {
        attributes,
        start_time_unix_nano: times.start,
        time_unix_nano: times.now,
        value: Some(value),
        ..NumberDataPoint::default()
    }
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / SECOND_NS
}

fn exponential_point(
    histogram: &ExponentialHistogram,
    attributes: Vec<KeyValue>,
    exemplars: Vec<Exemplar>,
    times: Times,
) -> ExponentialHistogramDataPoint {
    let summary = histogram.summary();
    let (offset, counts) = histogram.buckets();
    ExponentialHistogramDataPoint {
        attributes,
        start_time_unix_nano: times.start,
        time_unix_nano: times.now,
        count: summary.count,
        sum: Some(seconds(summary.sum_ns)),
        scale: histogram.scale(),
        zero_count: histogram.zero_count(),
        positive: Some(Buckets {
            offset,
            bucket_counts: counts.to_vec(),
        }),
        exemplars,
        min: summary.min_ns.map(seconds),
        max: summary.max_ns.map(seconds),
        ..ExponentialHistogramDataPoint::default()
    }
}

fn explicit_point(
    histogram: &ExplicitHistogram,
    attributes: Vec<KeyValue>,
    exemplars: Vec<Exemplar>,
    times: Times,
) -> HistogramDataPoint {
    let summary = histogram.summary();
    let (bounds, counts) = histogram.buckets();
    HistogramDataPoint {
        attributes,
        start_time_unix_nano: times.start,
        time_unix_nano: times.now,
        count: summary.count,
        sum: Some(seconds(summary.sum_ns)),
        bucket_counts: counts.to_vec(),
        explicit_bounds: bounds.to_vec(),
        exemplars,
        flags: 0,
        min: summary.min_ns.map(seconds),
        max: summary.max_ns.map(seconds),
    }
}
