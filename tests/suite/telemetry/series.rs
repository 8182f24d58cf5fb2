//! Totals, deltas, limits and exemplars of metrics.

use std::collections::{BTreeMap, BTreeSet};

use clr_gc::gc::{Collection, Pause};
use gc_telemetry::definition::metric;
use gc_telemetry::options::{Detail, HistogramBuckets, MetricOptions, RuntimeMetrics, SpanOptions, Temporality};
use gc_telemetry::prometheus::{Format, exposition};
use gc_telemetry::series::Series;
use gc_telemetry::value::key_value;
use opentelemetry_proto::tonic::common::v1::any_value::Value::StringValue as Text;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;
use opentelemetry_proto::tonic::metrics::v1::{ExponentialHistogramDataPoint, Metric, NumberDataPoint};
use opentelemetry_proto::tonic::resource::v1::Resource;

use crate::telemetry::recordings::{BASE_NS, Process, all_spans, base, end, names, read, series, spans_of, trace};
use crate::telemetry::render::value;

fn numbers(metric: &Metric) -> &[NumberDataPoint] {
    match metric.data.as_ref().unwrap() {
        Data::Gauge(gauge) => &gauge.data_points,
        Data::Sum(sum) => &sum.data_points,
        _ => &[],
    }
}

fn named<'a>(metrics: &'a [Metric], name: &str) -> &'a Metric {
    metrics
        .iter()
        .find(|metric| metric.name == name)
        .unwrap_or_else(|| panic!("no {name}"))
}

fn number(point: &NumberDataPoint) -> f64 {
    match point.value.unwrap() {
        Value::AsInt(int) => int as f64,
        Value::AsDouble(double) => double,
    }
}

fn sum(metrics: &[Metric], name: &str) -> f64 {
    numbers(named(metrics, name)).iter().map(number).sum()
}

fn distributions<'a>(metrics: &'a [Metric], name: &str) -> &'a [ExponentialHistogramDataPoint] {
    match named(metrics, name).data.as_ref().unwrap() {
        Data::ExponentialHistogram(histogram) => &histogram.data_points,
        other => panic!("{other:?}"),
    }
}

fn one(name: &str) -> Process {
    read(name).into_iter().next().unwrap()
}

/// Scenario: the metrics of all recordings are computed.
/// Guarantee: counts, pauses (as a sum and as a distribution) and bytes match the collections; sizes are from the
/// newest collection that has them. The missed collections are the skipped numbers, except for numbers before the last
/// few collections, which only later collections can prove missing.
#[test]
fn metrics_match_sum_of_collections() {
    for name in names() {
        for process in read(&name) {
            let metrics = series(&process, MetricOptions::default(), all_spans()).cumulative(end(&process));
            let collections = &process.collections;
            let missed = sum(&metrics, "gcwatch.collections.missed");
            assert_eq!(
                sum(&metrics, "dotnet.gc.collections"),
                collections.len() as f64 + missed
            );
            let numbers: BTreeSet<u32> = collections.iter().map(|one| one.number).collect();
            let skipped_in = |some: &[Collection]| {
                let last = some.iter().map(|one| one.number).max().unwrap_or(0);
                let from = collections.first().map_or(0, |one| one.number);
                (from..last).filter(|number| !numbers.contains(number)).count() as f64
            };
            let (sure, all) = (
                skipped_in(&collections[..collections.len().saturating_sub(10)]),
                skipped_in(collections),
            );
            assert!(sure <= missed && missed <= all, "{name}: {missed} of {sure} to {all}");
            let pauses = || {
                collections
                    .iter()
                    .flat_map(|one| &one.pauses)
                    .filter_map(|pause| pause.pause_ns)
            };
            let seconds = |ns: i64| ns as f64 / 1e9;
            // The runtime measures pauses until RestartEEBegin; histograms and spans measure until RestartEEEnd.
            let of_runtime = collections.iter().flat_map(|one| &one.pauses);
            let of_runtime: i64 = of_runtime.filter_map(Pause::runtime_pause_ns).sum();
            assert!(of_runtime <= pauses().sum());
            assert_eq!(sum(&metrics, "dotnet.gc.pause.time"), seconds(of_runtime));
            if pauses().count() > 0 {
                let points = distributions(&metrics, "gcwatch.gc.pause.duration");
                assert_eq!(
                    points.iter().map(|point| point.count).sum::<u64>(),
                    pauses().count() as u64
                );
                let reported: f64 = points.iter().map(|point| point.sum.unwrap()).sum();
                assert!((reported - seconds(pauses().sum())).abs() < 1e-9);
                for point in points {
                    let counts = &point.positive.as_ref().unwrap().bucket_counts;
                    assert_eq!(point.zero_count + counts.iter().sum::<u64>(), point.count);
                    assert!(counts.len() <= 160);
                }
            }
            let allocated: u64 = collections.iter().filter_map(|one| one.allocated_since_last()).sum();
            assert_eq!(sum(&metrics, "gcwatch.gc.allocated"), allocated as f64);
            let incomplete = collections.iter().filter(|one| !one.is_complete()).count();
            assert_eq!(sum(&metrics, "gcwatch.collections.incomplete"), incomplete as f64);
            let lossy = collections.iter().filter(|one| one.lossy).count();
            assert_eq!(sum(&metrics, "gcwatch.collections.lossy"), lossy as f64);
            let with_sizes = collections.iter().filter(|one| one.heap_stats.is_some());
            match with_sizes.max_by_key(|one| one.end) {
                Some(newest) => {
                    let size = sum(&metrics, "dotnet.gc.last_collection.heap.size");
                    assert_eq!(size, newest.heap_after().unwrap() as f64, "{}", process.name);
                }
                None => assert!(
                    metrics
                        .iter()
                        .all(|metric| metric.name != "dotnet.gc.last_collection.heap.size")
                ),
            }
        }
    }
}

/// Scenario: the metrics of all recordings are computed with low and with full detail.
/// Guarantee: with low detail, the samples of each process on `/metrics` have less than 10 kB. The totals are the same,
/// with a single histogram of pauses.
#[test]
fn low_detail_is_small() {
    let low = MetricOptions {
        detail: Detail::Low,
        ..MetricOptions::default()
    };
    for name in names() {
        for process in read(&name) {
            let full = series(&process, MetricOptions::default(), all_spans()).cumulative(end(&process));
            let few = series(&process, low.clone(), all_spans()).cumulative(end(&process));
            for same in ["dotnet.gc.collections", "dotnet.gc.pause.time", "gcwatch.gc.allocated"] {
                assert_eq!(sum(&few, same), sum(&full, same));
            }
            if full.iter().any(|metric| metric.name == "gcwatch.gc.pause.duration") {
                let count = |metrics: &[Metric]| {
                    let points = distributions(metrics, "gcwatch.gc.pause.duration");
                    (points.len(), points.iter().map(|point| point.count).sum::<u64>())
                };
                assert_eq!(count(&few), (1, count(&full).1));
            }
            let resource = Resource {
                attributes: vec![key_value("service.name", Text("a-service-with-a-long-name".to_owned()))],
                ..Resource::default()
            };
            let mut text = String::new();
            exposition(Format::Text, &[(&resource, &few)], &mut text);
            let of_process: usize = text
                .lines()
                .filter(|line| !line.starts_with('#'))
                .map(|line| line.len() + 1)
                .sum();
            assert!(of_process < 10_000, "{name}: {of_process} bytes");
        }
    }
}

/// Scenario: one process has no collections, and the number of its lost events is unknown; another process has lost no
/// event.
/// Guarantee: totals are 0, and unknown values are absent. The known number of lost events is 0.
#[test]
fn unknown_values_are_not_reported() {
    let metrics = Series::new(MetricOptions::default(), BASE_NS).cumulative(BASE_NS + 1);
    let names: Vec<&str> = metrics.iter().map(|metric| metric.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "dotnet.gc.collections",
            "dotnet.gc.pause.time",
            "gcwatch.gc.collections",
            "gcwatch.gc.pause.time",
            "gcwatch.gc.pauses.unknown",
            "gcwatch.gc.allocated",
            "gcwatch.collections.incomplete",
            "gcwatch.collections.missed",
            "gcwatch.collections.lossy",
            "gcwatch.series.overflow",
        ]
    );
    assert!(metrics.iter().flat_map(numbers).all(|point| number(point) == 0.0));
    let mut series = Series::new(MetricOptions::default(), BASE_NS);
    series.lost(0);
    assert_eq!(sum(&series.cumulative(BASE_NS), "gcwatch.events.lost"), 0.0);
}

/// Scenario: the metrics of a run are reported with delta temporality after every tenth collection.
/// Guarantee: the deltas add up to the totals, also in the buckets, and each delta starts at the end of the previous
/// delta. Sizes are cumulative. Unchanged values are not reported.
#[test]
fn deltas_add_up() {
    let options = MetricOptions {
        temporality: Temporality::Delta,
        ..MetricOptions::default()
    };
    let process = one("net10-steady");
    let mut series = Series::new(options, BASE_NS);
    let (mut sums, mut counts) = (BTreeMap::<String, f64>::new(), BTreeMap::<String, u64>::new());
    let mut previous = BASE_NS;
    for (place, chunk) in process.collections.chunks(10).enumerate() {
        for collection in chunk {
            series.observe(collection, base(), None);
        }
        let now = BASE_NS + (place as u64 + 1) * 1_000_000_000;
        for metric in series.delta(now) {
            match metric.data.as_ref().unwrap() {
                Data::Sum(data) if data.is_monotonic => {
                    assert_eq!(data.aggregation_temporality, 1);
                    for point in &data.data_points {
                        assert_eq!(point.time_unix_nano, now);
                        match metric.name.as_str() {
                            // This counter starts with its first collection.
                            "dotnet.gc.heap.total_allocated" => assert!(point.start_time_unix_nano >= previous),
                            _ => assert_eq!(point.start_time_unix_nano, previous),
                        }
                        *sums.entry(metric.name.clone()).or_default() += number(point);
                    }
                }
                Data::Sum(data) => {
                    assert_eq!(data.aggregation_temporality, 2);
                    assert!(
                        data.data_points
                            .iter()
                            .all(|point| point.start_time_unix_nano == BASE_NS)
                    );
                }
                Data::ExponentialHistogram(data) => {
                    assert_eq!(data.aggregation_temporality, 1);
                    for point in &data.data_points {
                        assert_eq!(point.time_unix_nano, now);
                        match metric.name.as_str() {
                            // This counter starts with its first collection.
                            "dotnet.gc.heap.total_allocated" => assert!(point.start_time_unix_nano >= previous),
                            _ => assert_eq!(point.start_time_unix_nano, previous),
                        }
                        let buckets = point.positive.as_ref().unwrap();
                        assert_eq!(
                            point.zero_count + buckets.bucket_counts.iter().sum::<u64>(),
                            point.count
                        );
                        *counts.entry(metric.name.clone()).or_default() += point.count;
                    }
                }
                _ => {}
            }
        }
        previous = now;
    }
    let total = series.cumulative(previous);
    for (name, reported) in &sums {
        assert!((reported - sum(&total, name)).abs() < 1e-9, "{name}");
    }
    for (name, reported) in &counts {
        assert_eq!(
            *reported,
            distributions(&total, name).iter().map(|point| point.count).sum::<u64>(),
            "{name}"
        );
    }
    assert!(sums.contains_key("dotnet.gc.collections") && counts.contains_key("gcwatch.gc.pause.duration"));
    let still = series.delta(previous + 1);
    let rising = |metric: &&Metric| match metric.data.as_ref().unwrap() {
        Data::Sum(data) => data.is_monotonic,
        Data::Gauge(_) => false,
        _ => true,
    };
    assert_eq!(still.iter().filter(rising).count(), 0);
}

/// Scenario: a process is attached to again after half a day.
/// Guarantee: the totals continue and keep their start time.
#[test]
fn totals_continue_over_sessions() {
    let process = one("net10-steady");
    let mut series = series(&process, MetricOptions::default(), SpanOptions::default());
    let once = sum(&series.cumulative(end(&process)), "dotnet.gc.collections");
    let later = base::time::UnixBase::at(i128::from(BASE_NS) + 43_200_000_000_000);
    for collection in &process.collections {
        series.observe(collection, later, None);
    }
    let metrics = series.cumulative(BASE_NS + 50_000_000_000_000);
    assert_eq!(sum(&metrics, "dotnet.gc.collections"), 2.0 * once);
    assert!(
        numbers(named(&metrics, "dotnet.gc.collections"))
            .iter()
            .all(|point| point.start_time_unix_nano == BASE_NS)
    );
}

/// Scenario: a stream sends a new reason for every collection of a process that is limited to 40 series.
/// Guarantee: each metric has at most 40 points plus one overflow point, which counts the further values.
#[test]
fn series_are_limited() {
    let template = one("net10-steady").collections.into_iter().next().unwrap();
    let options = MetricOptions {
        max_series: 40,
        ..MetricOptions::default()
    };
    let mut series = Series::new(options, BASE_NS);
    for reason in 0..1000 {
        let mut collection = template.clone();
        collection.reason = Some(clr_gc::event::GcReason(reason));
        series.observe(&collection, base(), None);
    }
    let metrics = series.cumulative(BASE_NS);
    let points = distributions(&metrics, "gcwatch.gc.pause.duration");
    assert!(points.len() <= 40);
    assert_eq!(points.iter().map(|point| point.count).sum::<u64>(), 1000);
    let over: Vec<_> = points
        .iter()
        .filter(|point| point.attributes[0].key == "otel.metric.overflow")
        .collect();
    assert_eq!(over.len(), 1);
    assert_eq!(over[0].attributes.len(), 1);
    assert!(sum(&metrics, "gcwatch.series.overflow") >= over[0].count as f64);
    let all: usize = metrics.iter().map(|metric| numbers(metric).len()).sum::<usize>() + points.len();
    assert!(all <= 40 + metrics.len(), "{all}");
}

/// Scenario: a recording of 3 s is reported with its spans, in windows of one minute and of 100 ms.
/// Guarantee: an exemplar is the longest or the newest pause of the last window, has the duration of this pause, and
/// refers to the root span of its collection; without spans, there are no exemplars.
#[test]
fn exemplars_refer_to_spans() {
    let process = one("net10-steady");
    let traced = trace(&process, all_spans());
    for window in [60_000, 100] {
        let options = MetricOptions {
            interval: std::time::Duration::from_millis(window),
            ..MetricOptions::default()
        };
        let metrics = series(&process, options, all_spans()).cumulative(end(&process));
        for point in distributions(&metrics, "gcwatch.gc.pause.duration") {
            assert!((1..=2).contains(&point.exemplars.len()));
            for exemplar in &point.exemplars {
                let root = traced
                    .iter()
                    .find(|(_, reported)| spans_of(reported)[0].span_id == exemplar.span_id);
                let (collection, reported) = root.unwrap();
                assert_eq!(spans_of(reported)[0].trace_id, exemplar.trace_id);
                let generation = value(point.attributes[0].value.as_ref());
                assert_eq!(generation, format!("gen{}", collection.generation.unwrap()));
                let Some(opentelemetry_proto::tonic::metrics::v1::exemplar::Value::AsDouble(seconds)) = exemplar.value
                else {
                    panic!("{exemplar:?}")
                };
                let pauses = collection.pauses.iter().filter_map(|pause| pause.pause_ns);
                assert!(pauses.into_iter().any(|ns| ns as f64 / 1e9 == seconds));
            }
            if window == 60_000 {
                let longest = point.exemplars.iter().filter(|one| {
                    one.value
                        == point
                            .max
                            .map(opentelemetry_proto::tonic::metrics::v1::exemplar::Value::AsDouble)
                });
                assert_eq!(longest.count(), 1);
            }
        }
    }
    let silent = SpanOptions {
        enabled: false,
        ..all_spans()
    };
    let metrics = series(&process, MetricOptions::default(), silent).cumulative(end(&process));
    assert!(
        distributions(&metrics, "gcwatch.gc.pause.duration")
            .iter()
            .all(|point| point.exemplars.is_empty())
    );
    assert_eq!(sum(&metrics, "gcwatch.collections.unexported"), 70.0);
}

/// Scenario: a background collection is reported after foreground collections that ended after it.
/// Guarantee: the sizes of the newest collection remain.
#[test]
fn older_value_does_not_replace_newer_value() {
    let process = one("net10-steady");
    let (old, new) = (&process.collections[0], &process.collections[40]);
    let mut series = Series::new(MetricOptions::default(), BASE_NS);
    series.observe(new, base(), None);
    series.observe(old, base(), None);
    let size = sum(&series.cumulative(BASE_NS), "dotnet.gc.last_collection.heap.size");
    assert_eq!(size, new.heap_after().unwrap() as f64);
}

/// Scenario: one process exports the metrics of its runtime itself, another does not; the names of the conventions are
/// on, off, or decided automatically.
/// Guarantee: the convention's metrics are omitted if the process exports them or they are off; gcwatch's own metrics
/// always have exactly the same values.
#[test]
fn metric_is_not_exported_twice() {
    let process = one("net10-steady");
    for (runtime_metrics, exports, expected) in [
        (RuntimeMetrics::Auto, false, true),
        (RuntimeMetrics::Auto, true, false),
        (RuntimeMetrics::On, true, true),
        (RuntimeMetrics::Off, false, false),
    ] {
        let options = MetricOptions {
            runtime_metrics,
            ..MetricOptions::default()
        };
        let mut series = series(&process, options, all_spans());
        series.set_exports_runtime(exports);
        for metrics in [series.cumulative(end(&process)), series.delta(end(&process))] {
            let has = metrics.iter().any(|metric| metric.name.starts_with("dotnet.gc."));
            assert_eq!(has, expected, "{runtime_metrics:?} {exports}");
            for (theirs, ours) in metric::SAME {
                let points = numbers(named(&metrics, ours.name));
                assert!(!points.is_empty());
                if expected {
                    assert_eq!(numbers(named(&metrics, theirs.name)), points);
                }
            }
        }
    }
}

/// Scenario: the options set explicit bounds and switch off the metrics that the runtime can report itself.
/// Guarantee: the histograms have these bounds, and the names of the runtime's metrics are absent.
#[test]
fn metric_options_are_applied() {
    let process = one("net10-steady");
    let options = MetricOptions {
        buckets: HistogramBuckets::Explicit(vec![0.001, 0.01]),
        runtime_metrics: RuntimeMetrics::Off,
        ..MetricOptions::default()
    };
    let metrics = series(&process, options, all_spans()).cumulative(end(&process));
    let Some(Data::Histogram(pauses)) = &named(&metrics, "gcwatch.gc.pause.duration").data else {
        panic!("no explicit histogram")
    };
    for point in &pauses.data_points {
        assert_eq!(point.explicit_bounds, [0.001, 0.01]);
        assert_eq!(point.bucket_counts.iter().sum::<u64>(), point.count);
    }
    assert!(metrics.iter().all(|metric| metric.name != "dotnet.gc.collections"));
    assert!(
        metrics
            .iter()
            .all(|metric| !metric.name.starts_with("gcwatch.gc.last_collection."))
    );
}
