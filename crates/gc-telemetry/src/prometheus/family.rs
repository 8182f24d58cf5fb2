//! Families: metrics with the same name over all processes. The formats require that all samples of a family are
//! together.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Exemplar, ExponentialHistogramDataPoint, HistogramDataPoint, Metric, NumberDataPoint,
    exemplar,
};

use super::Format;
use super::labels::merged;
use super::text::{bound, family_name, push_help, push_label, push_number, push_time, unit_suffix};
use crate::definition::metric::REQUEST_PAUSE;
use crate::snapshot::points;

/// Exponents of the powers of two that are the bounds of an exponential histogram's buckets.
const BOUND_EXPONENTS: std::ops::RangeInclusive<i32> = -13..=3;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Counter,
    Gauge,
    Histogram,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// Metrics of all processes with the same name.
#[derive(Debug)]
struct Family<'a> {
    kind: Kind,
    unit: Option<String>,
    help: &'a str,
    /// Metrics, each with the labels of its process.
    metrics: Vec<(&'a Metric, &'a str)>,
}

/// All families by name.
#[derive(Debug, Default)]
pub(super) struct Families<'a> {
    families: BTreeMap<String, Family<'a>>,
    left_out: usize,
}

impl<'a> Families<'a> {
    pub(super) fn add(&mut self, metric: &'a Metric, target: &'a str) {
        let Some(kind) = kind(metric) else {
            self.left_out += points(metric);
            return;
        };
        let unit = unit_suffix(&metric.unit, kind == Kind::Gauge);
        let mut name = family_name(&metric.name);
        if let Some(unit) = unit.as_ref().filter(|unit| !name.ends_with(&format!("_{unit}"))) {
            name.push('_');
            name.push_str(unit);
        }
        let family = self.families.entry(name).or_insert_with(|| Family {
            kind,
            unit,
            help: &metric.description,
            metrics: Vec::new(),
        });
        if family.kind == kind {
            family.metrics.push((metric, target));
        } else {
            self.left_out += points(metric);
        }
    }

    /// Appends all families and returns the number of skipped points.
    pub(super) fn write(&self, format: Format, out: &mut String) -> usize {
        for (name, family) in &self.families {
            family.write(name, format, out);
        }
        self.left_out
    }
}

/// Returns the type of the metric in Prometheus; `None` if Prometheus has no equivalent type.
fn kind(metric: &Metric) -> Option<Kind> {
    let cumulative = |temporality: i32| temporality == i32::from(AggregationTemporality::Cumulative);
    match metric.data.as_ref()? {
        Data::Gauge(_) => Some(Kind::Gauge),
        Data::Sum(sum) if !cumulative(sum.aggregation_temporality) => None,
        Data::Sum(sum) if sum.is_monotonic => Some(Kind::Counter),
        Data::Sum(_) => Some(Kind::Gauge),
        Data::Histogram(histogram) => cumulative(histogram.aggregation_temporality).then_some(Kind::Histogram),
        Data::ExponentialHistogram(histogram) => {
            cumulative(histogram.aggregation_temporality).then_some(Kind::Histogram)
        }
        Data::Summary(_) => None,
    }
}

impl Family<'_> {
    fn write(&self, name: &str, format: Format, out: &mut String) {
        // In OpenMetrics, the name of the family has no suffix.
        let total = if self.kind == Kind::Counter { "_total" } else { "" };
        let family = match format {
            Format::Text => format!("{name}{total}"),
            Format::OpenMetrics => name.to_owned(),
        };
        let _ = write!(out, "# HELP {family} ");
        push_help(format, out, self.help);
        let _ = write!(out, "\n# TYPE {family} {}\n", self.kind.name());
        if let (Format::OpenMetrics, Some(unit)) = (format, &self.unit) {
            let _ = writeln!(out, "# UNIT {family} {unit}");
        }
        for (metric, target) in &self.metrics {
            let mut writer = Writer {
                name,
                target,
                format,
                // Exemplars with the ids of requests are only for authenticated users, so they are exported only over
                // OTLP.
                has_exemplars: format == Format::OpenMetrics && metric.name != REQUEST_PAUSE.name,
                out: &mut *out,
            };
            match &metric.data {
                Some(Data::Gauge(gauge)) => writer.numbers(&gauge.data_points, ""),
                Some(Data::Sum(sum)) => writer.numbers(&sum.data_points, total),
                Some(Data::Histogram(histogram)) => {
                    for point in &histogram.data_points {
                        writer.histogram(&Buckets::explicit(point));
                    }
                }
                Some(Data::ExponentialHistogram(histogram)) => {
                    for point in &histogram.data_points {
                        writer.histogram(&Buckets::exponential(point));
                    }
                }
                Some(Data::Summary(_)) | None => {}
            }
        }
    }
}

/// Histogram with cumulative counts, as in the text formats.
struct Buckets<'a> {
    attributes: &'a [KeyValue],
    start_unix_ns: u64,
    count: u64,
    sum: Option<f64>,
    /// Upper bounds in ascending order, each with the number of values at or below the bound.
    not_above: Vec<(f64, u64)>,
    exemplars: &'a [Exemplar],
}

impl<'a> Buckets<'a> {
    fn explicit(point: &'a HistogramDataPoint) -> Self {
        let counts = point.bucket_counts.iter().scan(0u64, |sum, count| {
            *sum = sum.saturating_add(*count);
            Some(*sum)
        });
        Self {
            attributes: &point.attributes,
            start_unix_ns: point.start_time_unix_nano,
            count: point.count,
            sum: point.sum,
            not_above: point.explicit_bounds.iter().copied().zip(counts).collect(),
            exemplars: &point.exemplars,
        }
    }

    fn exponential(point: &'a ExponentialHistogramDataPoint) -> Self {
        let (offset, counts) = point.positive.as_ref().map_or((0, &[][..]), |buckets| {
            (buckets.offset, buckets.bucket_counts.as_slice())
        });
        // The upper bound of bucket i is 2 to the power of (i + 1) / 2^scale.
        let is_not_above = |index: i64, exponent: i64| match u32::try_from(point.scale) {
            Ok(scale) => index < exponent.checked_shl(scale).unwrap_or(i64::MAX),
            Err(_) => {
                (index + 1).saturating_mul(1i64.checked_shl(point.scale.unsigned_abs()).unwrap_or(i64::MAX)) <= exponent
            }
        };
        let not_above = BOUND_EXPONENTS.map(|exponent| {
            let within = (i64::from(offset)..)
                .zip(counts)
                .take_while(|&(index, _)| is_not_above(index, i64::from(exponent)));
            let count = within.fold(point.zero_count, |sum, (_, count)| sum.saturating_add(*count));
            (f64::from(exponent).exp2(), count)
        });
        Self {
            attributes: &point.attributes,
            start_unix_ns: point.start_time_unix_nano,
            count: point.count,
            sum: point.sum,
            not_above: not_above.collect(),
            exemplars: &point.exemplars,
        }
    }
}

struct Writer<'a> {
    name: &'a str,
    target: &'a str,
    format: Format,
    has_exemplars: bool,
    out: &'a mut String,
}

impl Writer<'_> {
    fn numbers(&mut self, points: &[NumberDataPoint], suffix: &str) {
        for point in points {
            let labels = self.labels(&point.attributes);
            let Some(value) = &point.value else { continue };
            self.sample(suffix, &labels);
            match value {
                Value::AsInt(int) => {
                    let _ = write!(self.out, "{int}");
                }
                Value::AsDouble(double) => push_number(self.out, *double),
            }
            self.out.push('\n');
            if !suffix.is_empty() {
                self.created(&labels, point.start_time_unix_nano);
            }
        }
    }

    fn histogram(&mut self, histogram: &Buckets<'_>) {
        let labels = self.labels(histogram.attributes);
        let mut below = f64::NEG_INFINITY;
        let all = (f64::INFINITY, histogram.count);
        for (upper, count) in histogram.not_above.iter().copied().chain([all]) {
            let mut with_bound = labels.clone();
            push_label(&mut with_bound, "le", &bound(upper));
            self.sample("_bucket", &with_bound);
            let _ = write!(self.out, "{count}");
            self.exemplar(histogram.exemplars, below, upper);
            self.out.push('\n');
            below = upper;
        }
        if let Some(sum) = histogram.sum {
            self.sample("_sum", &labels);
            push_number(self.out, sum);
            self.out.push('\n');
        }
        self.sample("_count", &labels);
        let _ = writeln!(self.out, "{}", histogram.count);
        self.created(&labels, histogram.start_unix_ns);
    }

    /// Writes the first exemplar above `below` and at most `upper`.
    fn exemplar(&mut self, exemplars: &[Exemplar], below: f64, upper: f64) {
        if !self.has_exemplars {
            return;
        }
        let inside = exemplars.iter().find_map(|exemplar| {
            let value = match exemplar.value.as_ref()? {
                exemplar::Value::AsDouble(double) => *double,
                exemplar::Value::AsInt(int) => *int as f64,
            };
            (below < value && value <= upper).then_some((exemplar, value))
        });
        let Some((exemplar, value)) = inside else { return };
        let mut labels = String::new();
        for (name, id) in [("trace_id", &exemplar.trace_id), ("span_id", &exemplar.span_id)] {
            let hex = id.iter().fold(String::new(), |mut hex, byte| {
                let _ = write!(hex, "{byte:02x}");
                hex
            });
            push_label(&mut labels, name, &hex);
        }
        let _ = write!(self.out, " # {{{labels}}} ");
        push_number(self.out, value);
        self.out.push(' ');
        push_time(self.out, exemplar.time_unix_nano);
    }

    fn created(&mut self, labels: &str, start_unix_ns: u64) {
        if self.format == Format::OpenMetrics && start_unix_ns > 0 {
            self.sample("_created", labels);
            push_time(self.out, start_unix_ns);
            self.out.push('\n');
        }
    }

    /// Writes the name and labels of a sample, up to its value.
    fn sample(&mut self, suffix: &str, labels: &str) {
        self.out.push_str(self.name);
        self.out.push_str(suffix);
        if !labels.is_empty() {
            self.out.push('{');
            self.out.push_str(labels);
            self.out.push('}');
        }
        self.out.push(' ');
    }

    /// Returns the labels of the process and of the point.
    fn labels(&self, attributes: &[KeyValue]) -> String {
        let mut labels = self.target.to_owned();
        for (name, value) in merged(attributes.iter()) {
            push_label(&mut labels, &name, &value);
        }
        labels
    }
}
