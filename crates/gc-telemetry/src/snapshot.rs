//! Metrics built from values that other code counts.

use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::{AggregationTemporality, Gauge, Metric, NumberDataPoint, Sum};

pub use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as Number;

use crate::definition::{Attribute, Instrument, MetricDefinition};
use crate::value::key_value;

/// Values of metrics at one time.
#[derive(Debug)]
pub struct MetricSnapshot {
    start_unix_ns: u64,
    now_unix_ns: u64,
    metrics: Vec<Metric>,
}

impl MetricSnapshot {
    /// Creates an empty snapshot; totals count from `start_unix_ns`.
    pub fn new(start_unix_ns: u64, now_unix_ns: u64) -> Self {
        Self {
            start_unix_ns,
            now_unix_ns,
            metrics: Vec::new(),
        }
    }

    /// Adds a metric with its points. A metric without points is omitted.
    pub fn put(
        &mut self,
        definition: &'static MetricDefinition,
        points: impl IntoIterator<Item = (Vec<KeyValue>, Number)>,
    ) {
        let start_time_unix_nano = match definition.instrument {
            Instrument::Gauge => 0,
            _ => self.start_unix_ns,
        };
        let data_points: Vec<NumberDataPoint> = points
            .into_iter()
            .map(|(attributes, value)| NumberDataPoint {
                attributes,
                start_time_unix_nano,
                time_unix_nano: self.now_unix_ns,
                value: Some(value),
                ..NumberDataPoint::default()
            })
            .collect();
        if data_points.is_empty() {
            return;
        }
        let data = match definition.instrument {
            Instrument::Gauge => Data::Gauge(Gauge { data_points }),
            instrument => Data::Sum(Sum {
                data_points,
                aggregation_temporality: AggregationTemporality::Cumulative.into(),
                is_monotonic: instrument == Instrument::Counter,
            }),
        };
        self.metrics.push(Metric {
            name: definition.name.to_owned(),
            unit: definition.unit.to_owned(),
            description: definition.description.to_owned(),
            data: Some(data),
            ..Metric::default()
        });
    }

    /// Adds a metric with one point without attributes. The metric is omitted if `value` is `None` (unknown).
    pub fn put_one(&mut self, definition: &'static MetricDefinition, value: Option<Number>) {
        self.put(definition, value.map(|value| (Vec::new(), value)));
    }

    /// Returns the metrics in the order of their addition.
    pub fn into_metrics(self) -> Vec<Metric> {
        self.metrics
    }
}

/// Returns the number of a metric's data points.
pub fn points(metric: &Metric) -> usize {
    match &metric.data {
        Some(Data::Gauge(gauge)) => gauge.data_points.len(),
        Some(Data::Sum(sum)) => sum.data_points.len(),
        Some(Data::Histogram(histogram)) => histogram.data_points.len(),
        Some(Data::ExponentialHistogram(histogram)) => histogram.data_points.len(),
        Some(Data::Summary(summary)) => summary.data_points.len(),
        None => 0,
    }
}

/// Returns an integer; OTLP has signed integers, so larger values become `i64::MAX`.
pub fn whole(value: u64) -> Number {
    Number::AsInt(i64::try_from(value).unwrap_or(i64::MAX))
}

/// Returns nanoseconds as seconds.
pub fn seconds(ns: u64) -> Number {
    Number::AsDouble(ns as f64 / 1e9)
}

/// Returns a string attribute of a point.
pub fn text(attribute: &'static Attribute, value: &str) -> KeyValue {
    key_value(attribute.name, Value::StringValue(value.to_owned()))
}
