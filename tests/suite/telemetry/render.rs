//! Readable text of spans and metrics for golden files.

use std::fmt::Write as _;

use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as Number;
use opentelemetry_proto::tonic::metrics::v1::{Exemplar, Metric};
use opentelemetry_proto::tonic::trace::v1::Span;

use crate::telemetry::recordings::BASE_NS;

pub(crate) fn value(value: Option<&AnyValue>) -> String {
    match value.and_then(|value| value.value.as_ref()) {
        Some(Value::StringValue(text)) => text.clone(),
        Some(Value::BoolValue(bool)) => bool.to_string(),
        Some(Value::IntValue(int)) => int.to_string(),
        Some(Value::DoubleValue(double)) => double.to_string(),
        Some(Value::ArrayValue(array)) => {
            let values: Vec<String> = array.values.iter().map(|one| self::value(Some(one))).collect();
            format!("[{}]", values.join(", "))
        }
        other => format!("{other:?}"),
    }
}

fn ms(ns: u64) -> String {
    format!("{:.3}", ns as f64 / 1e6)
}

fn hex(id: &[u8]) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Formats a tree with the start and length of each span. With `attributes`, the ids and the attributes of the root
/// follow.
pub(crate) fn tree(spans: &[Span], attributes: bool) -> String {
    let mut out = String::new();
    let Some(root) = spans.first() else { return out };
    let start = root.start_time_unix_nano;
    for span in spans {
        let depth = depth(span, spans);
        let name = format!("{}{}", "  ".repeat(depth), span.name);
        let length = ms(span.end_time_unix_nano - span.start_time_unix_nano);
        let at = if depth == 0 {
            format!("at {}", ms(start - BASE_NS))
        } else {
            format!("+{}", ms(span.start_time_unix_nano - start))
        };
        write!(out, "{name:<32}{at:>16} {length:>12}").unwrap();
        if depth > 0 {
            for pair in &span.attributes {
                write!(out, "  {}={}", pair.key, value(pair.value.as_ref())).unwrap();
            }
        }
        out.push('\n');
        for link in &span.links {
            write!(out, "  -> {}/{}", hex(&link.trace_id), hex(&link.span_id)).unwrap();
            for pair in &link.attributes {
                write!(out, "  {}={}", pair.key, value(pair.value.as_ref())).unwrap();
            }
            out.push('\n');
        }
    }
    if attributes {
        writeln!(out, "  trace {} span {}", hex(&root.trace_id), hex(&root.span_id)).unwrap();
        for pair in &root.attributes {
            writeln!(out, "  {} = {}", pair.key, value(pair.value.as_ref())).unwrap();
        }
    }
    out
}

fn depth(span: &Span, spans: &[Span]) -> usize {
    let parent = spans.iter().find(|other| other.span_id == span.parent_span_id);
    parent.map_or(0, |parent| 1 + depth(parent, spans))
}

fn labels(attributes: &[KeyValue]) -> String {
    let pairs: Vec<String> = attributes
        .iter()
        .map(|pair| format!("{}={}", pair.key, value(pair.value.as_ref())))
        .collect();
    format!("{{{}}}", pairs.join(", "))
}

/// Formats metrics with one block per metric and one line per point.
pub(crate) fn metrics(metrics: &[Metric]) -> String {
    let mut out = String::new();
    for metric in metrics {
        writeln!(out, "{} [{}] {}", metric.name, metric.unit, kind(metric)).unwrap();
        match metric.data.as_ref().unwrap() {
            Data::Gauge(gauge) => numbers(&mut out, &gauge.data_points),
            Data::Sum(sum) => numbers(&mut out, &sum.data_points),
            Data::Histogram(histogram) => {
                for point in &histogram.data_points {
                    let what = labels(&point.attributes);
                    writeln!(
                        out,
                        "  {what} count {} sum {:?} min {:?} max {:?}",
                        point.count, point.sum, point.min, point.max
                    )
                    .unwrap();
                    writeln!(out, "    {:?} in {:?}", point.bucket_counts, point.explicit_bounds).unwrap();
                    exemplars(&mut out, &point.exemplars);
                }
            }
            Data::ExponentialHistogram(histogram) => {
                for point in &histogram.data_points {
                    let what = labels(&point.attributes);
                    let (count, zero) = (point.count, point.zero_count);
                    writeln!(
                        out,
                        "  {what} count {count} sum {:?} min {:?} max {:?} zero {zero}",
                        point.sum.unwrap(),
                        point.min.unwrap(),
                        point.max.unwrap()
                    )
                    .unwrap();
                    let buckets = point.positive.as_ref().unwrap();
                    let (offset, used) = (buckets.offset, buckets.bucket_counts.len());
                    writeln!(out, "    scale {} offset {offset} buckets {used}", point.scale).unwrap();
                    exemplars(&mut out, &point.exemplars);
                }
            }
            Data::Summary(_) => panic!("no metric is a summary"),
        }
    }
    out
}

pub(crate) fn kind(metric: &Metric) -> &'static str {
    match metric.data.as_ref().unwrap() {
        Data::Gauge(_) => "Gauge",
        Data::Sum(sum) if sum.is_monotonic => "Counter",
        Data::Sum(_) => "UpDownCounter",
        Data::Histogram(_) | Data::ExponentialHistogram(_) => "Histogram",
        Data::Summary(_) => "Summary",
    }
}

fn numbers(out: &mut String, points: &[opentelemetry_proto::tonic::metrics::v1::NumberDataPoint]) {
    for point in points {
        let value = match point.value.unwrap() {
            Number::AsInt(int) => int.to_string(),
            Number::AsDouble(double) => format!("{double:?}"),
        };
        writeln!(out, "  {} {value}", labels(&point.attributes)).unwrap();
    }
}

fn exemplars(out: &mut String, exemplars: &[Exemplar]) {
    for exemplar in exemplars {
        writeln!(
            out,
            "    {:?} at {} -> {}/{}",
            exemplar.value.as_ref().unwrap(),
            ms(exemplar.time_unix_nano - BASE_NS),
            hex(&exemplar.trace_id),
            hex(&exemplar.span_id)
        )
        .unwrap();
    }
}
