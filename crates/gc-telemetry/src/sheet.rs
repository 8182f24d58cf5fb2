//! The values of one moment as metrics: what is counted elsewhere and only told here.

use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::{AggregationTemporality, Gauge, Metric, NumberDataPoint, Sum};

pub use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as Number;

use crate::definition::{Attribute, Instrument, MetricDefinition};
use crate::value::key_value;

/// The metrics of one moment.
#[derive(Debug)]
pub struct Sheet {
    start_unix_ns: u64,
    now_unix_ns: u64,
    metrics: Vec<Metric>,
}

impl Sheet {
    /// Nothing is told; totals count from `start_unix_ns`.
    pub fn new(start_unix_ns: u64, now_unix_ns: u64) -> Self {
        Self {
            start_unix_ns,
            now_unix_ns,
            metrics: Vec::new(),
        }
    }

    /// One metric with its points. Without points it is left out. Totals are from the start on.
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

    /// One metric of one point without attributes; left out when it is not known.
    pub fn put_one(&mut self, definition: &'static MetricDefinition, value: Option<Number>) {
        self.put(definition, value.map(|value| (Vec::new(), value)));
    }

    /// What was put.
    pub fn into_metrics(self) -> Vec<Metric> {
        self.metrics
    }
}

/// A whole number; OTLP has signed ones.
pub fn whole(value: u64) -> Number {
    Number::AsInt(i64::try_from(value).unwrap_or(i64::MAX))
}

/// Nanoseconds in seconds.
pub fn seconds(ns: u64) -> Number {
    Number::AsDouble(ns as f64 / 1e9)
}

/// An attribute with a text.
pub fn text(attribute: &'static Attribute, value: &str) -> KeyValue {
    key_value(attribute.name, Value::StringValue(value.to_owned()))
}
