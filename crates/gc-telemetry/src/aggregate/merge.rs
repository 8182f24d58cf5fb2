//! Differences and sums of metrics. Points belong together if their attributes are equal.

use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::metrics::v1::exponential_histogram_data_point::Buckets;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Exemplar, ExponentialHistogramDataPoint as ExponentialPoint,
    HistogramDataPoint as ExplicitPoint, Metric, NumberDataPoint,
};

use crate::definition::GaugeRule;

/// Maximum number of exemplars of a point.
const MAX_EXEMPLARS: usize = 8;

/// A point of a metric.
pub(super) trait Point: Clone {
    fn attributes(&self) -> &[KeyValue];
    /// Subtracts an older total. A total that has fallen was counted from scratch, so it is not changed.
    fn subtract(&mut self, older: &Self);
    /// Adds another part. `max_buckets` limits the buckets of an exponential histogram.
    fn add(&mut self, part: &Self, max_buckets: usize);
    /// Returns whether the point has no measurement.
    fn is_empty(&self) -> bool;
}

fn as_double(value: Value) -> f64 {
    match value {
        Value::AsDouble(double) => double,
        // The rounding error is far smaller than the displayed digits.
        Value::AsInt(int) => int as f64,
    }
}

fn plus(one: Option<Value>, other: Option<Value>) -> Option<Value> {
    match (one, other) {
        (Some(Value::AsInt(one)), Some(Value::AsInt(other))) => Some(Value::AsInt(one.saturating_add(other))),
        (Some(one), Some(other)) => Some(Value::AsDouble(as_double(one) + as_double(other))),
        (one, other) => one.or(other),
    }
}

fn minus(newer: Option<Value>, older: Option<Value>) -> Option<Value> {
    match (newer, older) {
        (Some(Value::AsInt(newer)), Some(Value::AsInt(older))) if newer >= older => Some(Value::AsInt(newer - older)),
        (Some(Value::AsDouble(newer)), Some(Value::AsDouble(older))) if newer >= older => {
            Some(Value::AsDouble(newer - older))
        }
        (newer, _) => newer,
    }
}

impl Point for NumberDataPoint {
    fn attributes(&self) -> &[KeyValue] {
        &self.attributes
    }

    fn subtract(&mut self, older: &Self) {
        self.value = minus(self.value, older.value);
    }

    fn add(&mut self, part: &Self, _: usize) {
        self.value = plus(self.value, part.value);
    }

    fn is_empty(&self) -> bool {
        self.value.is_none_or(|value| as_double(value) == 0.0)
    }
}

fn least(one: Option<f64>, other: Option<f64>) -> Option<f64> {
    one.into_iter().chain(other).reduce(f64::min)
}

fn most(one: Option<f64>, other: Option<f64>) -> Option<f64> {
    one.into_iter().chain(other).reduce(f64::max)
}

impl Point for ExplicitPoint {
    fn attributes(&self) -> &[KeyValue] {
        &self.attributes
    }

    fn subtract(&mut self, older: &Self) {
        if self.explicit_bounds != older.explicit_bounds || self.count < older.count {
            return;
        }
        self.count -= older.count;
        self.sum = self.sum.map(|sum| (sum - older.sum.unwrap_or(0.0)).max(0.0));
        for (count, older) in self.bucket_counts.iter_mut().zip(&older.bucket_counts) {
            *count = count.saturating_sub(*older);
        }
    }

    fn add(&mut self, part: &Self, _: usize) {
        // The bounds come from the configuration, and change only with a restart.
        if self.explicit_bounds != part.explicit_bounds {
            *self = part.clone();
            return;
        }
        self.count = self.count.saturating_add(part.count);
        self.sum = self.sum.zip(part.sum).map(|(one, other)| one + other);
        for (count, part) in self.bucket_counts.iter_mut().zip(&part.bucket_counts) {
            *count = count.saturating_add(*part);
        }
        (self.min, self.max) = (least(self.min, part.min), most(self.max, part.max));
    }

    fn is_empty(&self) -> bool {
        self.count == 0
    }
}

/// Merges pairs of adjacent buckets until the given scale is reached. The merge is exact.
fn coarsen(point: &mut ExponentialPoint, scale: i32) {
    let steps = u32::try_from(point.scale.saturating_sub(scale)).unwrap_or(0).min(31);
    if steps == 0 {
        return;
    }
    if let Some(buckets) = &mut point.positive {
        let first = buckets.offset >> steps;
        let mut counts: Vec<u64> = Vec::new();
        for (index, count) in (buckets.offset..).zip(&buckets.bucket_counts) {
            let place = usize::try_from((index >> steps) - first).unwrap_or_default();
            if counts.len() <= place {
                counts.resize(place + 1, 0);
            }
            if let Some(sum) = counts.get_mut(place) {
                *sum = sum.saturating_add(*count);
            }
        }
        (buckets.offset, buckets.bucket_counts) = (first, counts);
    }
    point.scale = scale;
}

/// Returns the indexes of the first and the last bucket that is not empty, or `None` if all buckets are empty.
fn extent(point: &ExponentialPoint) -> Option<(i32, i32)> {
    let buckets = point.positive.as_ref()?;
    let mut indexes = (buckets.offset..).zip(&buckets.bucket_counts);
    let first = indexes.find(|(_, count)| **count > 0)?.0;
    let last = indexes.filter(|(_, count)| **count > 0).last();
    Some((first, last.map_or(first, |(index, _)| index)))
}

/// Applies `change` to each pair of counts, over the buckets of both points.
fn combine(point: &mut ExponentialPoint, other: &ExponentialPoint, change: impl Fn(u64, u64) -> u64) {
    let extents = [extent(point), extent(other)].into_iter().flatten();
    let Some((first, last)) = extents.reduce(|one, other| (one.0.min(other.0), one.1.max(other.1))) else {
        return;
    };
    let count = |point: &ExponentialPoint, index: i32| {
        let buckets = point.positive.as_ref()?;
        let place = usize::try_from(i64::from(index) - i64::from(buckets.offset)).ok()?;
        buckets.bucket_counts.get(place).copied()
    };
    let counts = (first..=last).map(|index| change(count(point, index).unwrap_or(0), count(other, index).unwrap_or(0)));
    point.positive = Some(Buckets {
        bucket_counts: counts.collect(),
        offset: first,
    });
}

impl Point for ExponentialPoint {
    fn attributes(&self) -> &[KeyValue] {
        &self.attributes
    }

    fn subtract(&mut self, older: &Self) {
        if self.count < older.count {
            return;
        }
        let mut older = older.clone();
        let scale = self.scale.min(older.scale);
        coarsen(self, scale);
        coarsen(&mut older, scale);
        combine(self, &older, u64::saturating_sub);
        self.count -= older.count;
        self.zero_count = self.zero_count.saturating_sub(older.zero_count);
        self.sum = self.sum.map(|sum| (sum - older.sum.unwrap_or(0.0)).max(0.0));
    }

    fn add(&mut self, part: &Self, max_buckets: usize) {
        let mut part = part.clone();
        let scale = self.scale.min(part.scale);
        coarsen(self, scale);
        coarsen(&mut part, scale);
        let extents = [extent(self), extent(&part)].into_iter().flatten();
        if let Some((mut first, mut last)) = extents.reduce(|one, other| (one.0.min(other.0), one.1.max(other.1))) {
            let mut fitting = scale;
            let most = i64::try_from(max_buckets.max(2)).unwrap_or(i64::MAX);
            while i64::from(last) - i64::from(first) >= most {
                (first, last, fitting) = (first >> 1, last >> 1, fitting - 1);
            }
            coarsen(self, fitting);
            coarsen(&mut part, fitting);
        }
        combine(self, &part, u64::saturating_add);
        self.count = self.count.saturating_add(part.count);
        self.zero_count = self.zero_count.saturating_add(part.zero_count);
        self.sum = self.sum.zip(part.sum).map(|(one, other)| one + other);
        (self.min, self.max) = (least(self.min, part.min), most(self.max, part.max));
    }

    fn is_empty(&self) -> bool {
        self.count == 0
    }
}

fn find<'a, P: Point>(points: &'a [P], place: usize, attributes: &[KeyValue]) -> Option<&'a P> {
    // Points keep their order, so the first guess is nearly always right.
    let guess = points.get(place).filter(|point| point.attributes() == attributes);
    guess.or_else(|| points.iter().find(|point| point.attributes() == attributes))
}

fn subtract_points<P: Point>(newer: &mut [P], older: &[P]) {
    for (place, point) in newer.iter_mut().enumerate() {
        if let Some(older) = find(older, place, point.attributes()) {
            point.subtract(older);
        }
    }
}

fn add_points<P: Point>(points: &mut Vec<P>, parts: &[P], max_buckets: usize) {
    for part in parts {
        match points.iter_mut().find(|point| point.attributes() == part.attributes()) {
            Some(point) => point.add(part, max_buckets),
            None => points.push(part.clone()),
        }
    }
}

/// Returns the increase since an older total of the same metric, or the whole total if there is no older total.
pub(super) fn difference(newer: &Metric, older: Option<&Metric>) -> Metric {
    let mut metric = newer.clone();
    let older = older.and_then(|older| older.data.as_ref());
    match (&mut metric.data, older) {
        (Some(Data::Sum(newer)), Some(Data::Sum(older))) => {
            subtract_points(&mut newer.data_points, &older.data_points);
        }
        (Some(Data::Histogram(newer)), Some(Data::Histogram(older))) => {
            subtract_points(&mut newer.data_points, &older.data_points);
        }
        (Some(Data::ExponentialHistogram(newer)), Some(Data::ExponentialHistogram(older))) => {
            subtract_points(&mut newer.data_points, &older.data_points);
        }
        _ => {}
    }
    metric
}

/// Adds the points of a part of the same metric. Gauges follow their rule.
pub(super) fn add(metric: &mut Metric, part: &Metric, rule: Option<GaugeRule>, max_buckets: usize) {
    match (&mut metric.data, &part.data) {
        (Some(Data::Sum(metric)), Some(Data::Sum(part))) => {
            add_points(&mut metric.data_points, &part.data_points, max_buckets);
        }
        (Some(Data::Histogram(metric)), Some(Data::Histogram(part))) => {
            add_points(&mut metric.data_points, &part.data_points, max_buckets);
        }
        (Some(Data::ExponentialHistogram(metric)), Some(Data::ExponentialHistogram(part))) => {
            add_points(&mut metric.data_points, &part.data_points, max_buckets);
        }
        (Some(Data::Gauge(metric)), Some(Data::Gauge(part))) => match rule {
            Some(GaugeRule::Sum) => add_points(&mut metric.data_points, &part.data_points, max_buckets),
            Some(GaugeRule::Max) => highest(&mut metric.data_points, &part.data_points),
            None => {}
        },
        _ => {}
    }
}

fn highest(points: &mut Vec<NumberDataPoint>, parts: &[NumberDataPoint]) {
    for part in parts {
        let value = |point: &NumberDataPoint| point.value.map_or(f64::NEG_INFINITY, as_double);
        match points.iter_mut().find(|point| point.attributes == part.attributes) {
            Some(point) if value(part) > value(point) => point.value = part.value,
            Some(_) => {}
            None => points.push(part.clone()),
        }
    }
}

/// Drops points without a measurement. Returns whether any point remains.
pub(super) fn drop_empty(metric: &mut Metric) -> bool {
    fn retain<P: Point>(points: &mut Vec<P>) -> bool {
        points.retain(|point| !point.is_empty());
        !points.is_empty()
    }
    match &mut metric.data {
        Some(Data::Sum(sum)) => retain(&mut sum.data_points),
        Some(Data::Histogram(histogram)) => retain(&mut histogram.data_points),
        Some(Data::ExponentialHistogram(histogram)) => retain(&mut histogram.data_points),
        _ => false,
    }
}

/// Returns whether the metric is a total that only rises: a counter or a distribution.
pub(super) fn is_total(metric: &Metric) -> bool {
    match &metric.data {
        Some(Data::Sum(sum)) => sum.is_monotonic,
        Some(Data::Histogram(_) | Data::ExponentialHistogram(_)) => true,
        _ => false,
    }
}

/// Sets the times of all points, in Unix nanoseconds. Gauges have no start time.
pub(super) fn set_times(metric: &mut Metric, start: u64, now: u64) {
    match &mut metric.data {
        Some(Data::Sum(sum)) => {
            for point in &mut sum.data_points {
                (point.start_time_unix_nano, point.time_unix_nano) = (start, now);
            }
        }
        Some(Data::Gauge(gauge)) => {
            for point in &mut gauge.data_points {
                point.time_unix_nano = now;
            }
        }
        Some(Data::Histogram(histogram)) => {
            for point in &mut histogram.data_points {
                (point.start_time_unix_nano, point.time_unix_nano) = (start, now);
            }
        }
        Some(Data::ExponentialHistogram(histogram)) => {
            for point in &mut histogram.data_points {
                (point.start_time_unix_nano, point.time_unix_nano) = (start, now);
            }
        }
        Some(Data::Summary(_)) | None => {}
    }
}

/// Returns the earliest start time of a total's points, in Unix nanoseconds, or `None` if no point has a start time.
pub(super) fn start_of(metric: &Metric) -> Option<u64> {
    let least = |starts: &mut dyn Iterator<Item = u64>| starts.filter(|start| *start > 0).min();
    match &metric.data {
        Some(Data::Sum(sum)) => least(&mut sum.data_points.iter().map(|point| point.start_time_unix_nano)),
        Some(Data::Histogram(histogram)) => {
            least(&mut histogram.data_points.iter().map(|point| point.start_time_unix_nano))
        }
        Some(Data::ExponentialHistogram(histogram)) => {
            least(&mut histogram.data_points.iter().map(|point| point.start_time_unix_nano))
        }
        _ => None,
    }
}

/// Removes the exemplars of a distribution.
pub(super) fn drop_exemplars(metric: &mut Metric) {
    match &mut metric.data {
        Some(Data::Histogram(histogram)) => histogram
            .data_points
            .iter_mut()
            .for_each(|point| point.exemplars.clear()),
        Some(Data::ExponentialHistogram(histogram)) => {
            histogram
                .data_points
                .iter_mut()
                .for_each(|point| point.exemplars.clear());
        }
        _ => {}
    }
}

/// Adds the exemplars of a part of the same metric, up to a limit.
pub(super) fn add_exemplars(metric: &mut Metric, part: &Metric) {
    fn append(exemplars: &mut Vec<Exemplar>, more: &[Exemplar]) {
        let room = MAX_EXEMPLARS.saturating_sub(exemplars.len());
        exemplars.extend(more.iter().take(room).cloned());
    }
    match (&mut metric.data, &part.data) {
        (Some(Data::Histogram(metric)), Some(Data::Histogram(part))) => {
            for (place, point) in metric.data_points.iter_mut().enumerate() {
                if let Some(part) = find(&part.data_points, place, &point.attributes) {
                    append(&mut point.exemplars, &part.exemplars);
                }
            }
        }
        (Some(Data::ExponentialHistogram(metric)), Some(Data::ExponentialHistogram(part))) => {
            for (place, point) in metric.data_points.iter_mut().enumerate() {
                if let Some(part) = find(&part.data_points, place, &point.attributes) {
                    append(&mut point.exemplars, &part.exemplars);
                }
            }
        }
        _ => {}
    }
}

/// Marks a metric as a difference of totals. The shortest and the longest measurement of a distribution become unknown.
pub(super) fn set_delta(metric: &mut Metric) {
    let delta = AggregationTemporality::Delta.into();
    match &mut metric.data {
        Some(Data::Sum(sum)) => sum.aggregation_temporality = delta,
        Some(Data::Histogram(histogram)) => {
            histogram.aggregation_temporality = delta;
            for point in &mut histogram.data_points {
                (point.min, point.max) = (None, None);
            }
        }
        Some(Data::ExponentialHistogram(histogram)) => {
            histogram.aggregation_temporality = delta;
            for point in &mut histogram.data_points {
                (point.min, point.max) = (None, None);
            }
        }
        _ => {}
    }
}
