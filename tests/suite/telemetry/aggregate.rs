//! Series of services: recordings replayed as processes of one service.

use std::sync::Arc;

use gc_telemetry::aggregate::Services;
use gc_telemetry::options::{Aggregate, HistogramBuckets, MetricOptions, Temporality};
use gc_telemetry::origin::Origin;
use gc_telemetry::series::Series;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::metrics::v1::Metric;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;
use test_support::notices::attribute;

use crate::telemetry::recordings::{BASE_NS, Process, all_spans, base, end, names, read, series};

const RECORDINGS: [&str; 3] = ["net10-steady", "net11-steady", "svc8-workstation"];

fn options(buckets: HistogramBuckets) -> MetricOptions {
    MetricOptions {
        aggregate: Aggregate::Service,
        buckets,
        ..MetricOptions::default()
    }
}

fn exponential() -> MetricOptions {
    options(HistogramBuckets::Exponential { max_buckets: 160 })
}

fn resource(pid: &str) -> Vec<KeyValue> {
    vec![attribute("service.name", "shop"), attribute("process.pid", pid)]
}

/// Returns the number of measurements (0 for a counter) and their sum, over all points of a metric that only increases;
/// `None` for other metrics.
fn total(metric: &Metric) -> Option<(f64, f64)> {
    let number = |value: Option<Value>| match value {
        Some(Value::AsInt(int)) => int as f64,
        Some(Value::AsDouble(double)) => double,
        None => 0.0,
    };
    match metric.data.as_ref()? {
        Data::Sum(sum) if sum.is_monotonic => {
            Some((0.0, sum.data_points.iter().map(|point| number(point.value)).sum()))
        }
        Data::Histogram(histogram) => {
            let points = histogram.data_points.iter();
            Some(points.fold((0.0, 0.0), |all, point| {
                assert_eq!(point.bucket_counts.iter().sum::<u64>(), point.count);
                (all.0 + point.count as f64, all.1 + point.sum.unwrap())
            }))
        }
        Data::ExponentialHistogram(histogram) => {
            let points = histogram.data_points.iter();
            Some(points.fold((0.0, 0.0), |all, point| {
                let counts: u64 = point.positive.iter().flat_map(|buckets| &buckets.bucket_counts).sum();
                assert_eq!(counts + point.zero_count, point.count);
                (all.0 + point.count as f64, all.1 + point.sum.unwrap())
            }))
        }
        _ => None,
    }
}

fn assert_totals(metrics: &[Metric], expected: &[(String, (f64, f64))], context: &str) {
    for (name, (count, sum)) in expected {
        let metric = metrics.iter().find(|metric| metric.name == *name);
        let (known, value) = total(metric.unwrap_or_else(|| panic!("{context}: no {name}"))).unwrap();
        assert_eq!(known, *count, "{context}: {name}");
        assert!(
            (value - sum).abs() <= 1e-9 * sum.abs().max(1.0),
            "{context}: {name}: {value}, {sum}"
        );
    }
}

/// Returns the totals of several processes, by name.
fn totals<'a>(of: impl Iterator<Item = &'a [Metric]>) -> Vec<(String, (f64, f64))> {
    let mut all: Vec<(String, (f64, f64))> = Vec::new();
    for metric in of.flatten() {
        // Omitted, because this metric can be absent: a gap in one process would distort the sum over all processes.
        let Some((count, sum)) = total(metric).filter(|_| metric.name != "dotnet.gc.heap.total_allocated") else {
            continue;
        };
        match all.iter_mut().find(|(name, _)| *name == metric.name) {
            Some((_, known)) => *known = (known.0 + count, known.1 + sum),
            None => all.push((metric.name.clone(), (count, sum))),
        }
    }
    all
}

fn processes() -> Vec<Process> {
    RECORDINGS.iter().map(|name| read(name).remove(0)).collect()
}

fn only(all: Vec<(Arc<Origin>, Vec<Metric>)>) -> Vec<Metric> {
    assert_eq!(all.len(), 1, "all processes are of one service");
    all.into_iter().next().unwrap().1
}

/// Scenario: recordings are replayed as processes of a service. The metrics of each process are read twice, in the
/// middle and at its end, with both types of histograms.
/// Guarantee: counters and histograms of the service are the sums over the processes, and each metric has the same
/// name, unit and kind as in a process.
#[test]
fn service_totals_are_sums_over_processes() {
    let explicit = HistogramBuckets::Explicit(vec![0.001, 0.01, 0.1]);
    for options in [exponential(), options(explicit)] {
        let mut services = Services::default();
        let mut last = Vec::new();
        for (pid, process) in (1u32..).zip(processes()) {
            let resource = resource(&pid.to_string());
            let mut half = Series::new(options.clone(), BASE_NS);
            for collection in process.collections.iter().take(process.collections.len() / 2) {
                half.observe(collection, base(), None);
            }
            let metrics = half.cumulative(end(&process));
            services.observe((pid, 1), &resource, &[], metrics, &options);
            let metrics = series(&process, options.clone(), all_spans()).cumulative(end(&process));
            last.push(metrics.clone());
            services.observe((pid, 1), &resource, &[], metrics, &options);
        }
        let expected = totals(last.iter().map(Vec::as_slice));
        assert!(expected.len() > 15, "{expected:?}");
        let now = BASE_NS + 1_000_000_000_000;
        let metrics = only(services.metrics((0, 1), now, Temporality::Cumulative, &options));
        assert_totals(&metrics, &expected, "sum");
        let kind = |metric: &Metric| std::mem::discriminant(metric.data.as_ref().unwrap());
        for metric in &metrics {
            let of_process = last.iter().flatten().find(|other| other.name == metric.name);
            if let Some(other) = of_process {
                assert_eq!(
                    (&metric.unit, kind(metric)),
                    (&other.unit, kind(other)),
                    "{}",
                    metric.name
                );
            }
        }
    }
}

/// Scenario: all recordings are replayed as processes of a service, one after the other. Each process ends before the
/// next starts, and once reports counts that start again at zero.
/// Guarantee: no counter and no histogram count ever decreases.
#[test]
fn counters_never_decrease() {
    let options = exponential();
    let mut services = Services::default();
    let mut before: Vec<(String, (f64, f64))> = Vec::new();
    let mut check = |metrics: &[Metric]| {
        let now = totals(std::iter::once(metrics));
        for (name, (count, sum)) in &before {
            let (_, known) = now.iter().find(|(other, _)| other == name).unwrap();
            assert!(
                known.0 >= *count && known.1 >= *sum,
                "{name}: {known:?} after {count}, {sum}"
            );
        }
        before = now;
    };
    let all = names().into_iter().flat_map(|name| read(&name));
    for (pid, process) in (1u32..).zip(all) {
        let resource = resource(&pid.to_string());
        let now = end(&process);
        let whole = series(&process, options.clone(), all_spans()).cumulative(now);
        let scratch = Series::new(options.clone(), BASE_NS).cumulative(now);
        for metrics in [whole.clone(), scratch, whole] {
            services.observe((pid, 1), &resource, &[], metrics, &options);
            check(&only(services.metrics((0, 1), now, Temporality::Cumulative, &options)));
        }
        let (_, last) = services
            .remove((pid, 1), now, Temporality::Cumulative, &options)
            .unwrap();
        check(&last);
        assert!(
            services
                .metrics((0, 1), now, Temporality::Cumulative, &options)
                .is_empty()
        );
    }
}

/// Scenario: processes of a service with delta temporality are read in turn, and a scraper reads totals in between.
/// Guarantee: all deltas add up to the totals, and a reading without changes has no points of counters.
#[test]
fn deltas_add_up_to_totals() {
    let options = MetricOptions {
        temporality: Temporality::Delta,
        ..exponential()
    };
    let mut services = Services::default();
    let mut parts: Vec<Vec<Metric>> = Vec::new();
    for (pid, process) in (1u32..).zip(processes()) {
        let metrics = series(&process, options.clone(), all_spans()).cumulative(end(&process));
        services.observe((pid, 1), &resource(&pid.to_string()), &[], metrics, &options);
        only(services.metrics((0, 1), end(&process), Temporality::Cumulative, &options));
        parts.push(only(services.metrics(
            (0, 1),
            end(&process),
            Temporality::Delta,
            &options,
        )));
    }
    let whole = only(services.metrics((0, 1), BASE_NS, Temporality::Cumulative, &options));
    let expected = totals(parts.iter().map(Vec::as_slice));
    assert!(expected.len() > 10, "{expected:?}");
    assert_totals(&whole, &expected, "differences");
    let nothing = only(services.metrics((0, 1), BASE_NS, Temporality::Delta, &options));
    assert!(totals(std::iter::once(nothing.as_slice())).is_empty());
}
