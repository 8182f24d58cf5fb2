use opentelemetry_proto::tonic::metrics::v1::exponential_histogram_data_point::Buckets;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as Number;
use opentelemetry_proto::tonic::metrics::v1::{ExponentialHistogramDataPoint, NumberDataPoint};
use proptest::prelude::*;

use super::*;
use crate::aggregate::merge::Point as _;
use crate::definition::own::target;
use crate::histogram::ExponentialHistogram;

fn point(durations: &[u64], max_buckets: u16) -> ExponentialHistogramDataPoint {
    let mut histogram = ExponentialHistogram::new(max_buckets);
    durations.iter().for_each(|ns| histogram.record(*ns));
    let (offset, counts) = histogram.buckets();
    let summary = histogram.summary();
    ExponentialHistogramDataPoint {
        count: summary.count,
        sum: Some(summary.sum_ns as f64 / 1e9),
        scale: histogram.scale(),
        zero_count: histogram.zero_count(),
        positive: Some(Buckets {
            offset,
            bucket_counts: counts.to_vec(),
        }),
        min: summary.min_ns.map(|ns| ns as f64 / 1e9),
        max: summary.max_ns.map(|ns| ns as f64 / 1e9),
        ..ExponentialHistogramDataPoint::default()
    }
}

/// Returns the counts by bucket in a coarser scale.
fn counts(point: &ExponentialHistogramDataPoint, scale: i32) -> BTreeMap<i32, u64> {
    let buckets = point.positive.as_ref().unwrap();
    let mut counts = BTreeMap::new();
    for (index, count) in (buckets.offset..)
        .zip(&buckets.bucket_counts)
        .filter(|(_, count)| **count > 0)
    {
        *counts.entry(index >> (point.scale - scale)).or_insert(0) += count;
    }
    counts
}

proptest! {
    /// Scenario: two arbitrary distributions of durations have few or many buckets.
    /// Guarantee: their sum is the distribution of all durations, in at most the given number of buckets, and the sum
    /// minus the first distribution is the second distribution.
    #[test]
    fn distributions_add_up(
        one in prop::collection::vec(0u64..5_000_000_000, 0..40),
        other in prop::collection::vec(0u64..5_000_000_000, 0..40),
        max_buckets in 2u16..200,
    ) {
        let all: Vec<u64> = one.iter().chain(&other).copied().collect();
        let (first, second, whole) = (point(&one, max_buckets), point(&other, max_buckets), point(&all, max_buckets));
        let mut sum = first.clone();
        sum.add(&second, usize::from(max_buckets));
        prop_assert!(sum.positive.as_ref().unwrap().bucket_counts.len() <= usize::from(max_buckets));
        let scale = sum.scale.min(whole.scale);
        prop_assert_eq!(counts(&sum, scale), counts(&whole, scale));
        prop_assert_eq!((sum.count, sum.zero_count), (whole.count, whole.zero_count));
        prop_assert_eq!((sum.min, sum.max), (whole.min, whole.max));
        prop_assert!((sum.sum.unwrap() - whole.sum.unwrap()).abs() < 1e-6);
        let mut rest = sum.clone();
        rest.subtract(&first);
        let scale = rest.scale.min(second.scale);
        prop_assert_eq!(counts(&rest, scale), counts(&second, scale));
        prop_assert_eq!((rest.count, rest.zero_count), (second.count, second.zero_count));
    }
}

/// Scenario: all metrics of processes are listed.
/// Guarantee: each gauge has a rule, and no other metric has a rule.
#[test]
fn each_gauge_has_a_rule() {
    let all = [metric::METRICS, container::METRICS, target::METRICS];
    for definition in all.into_iter().flatten() {
        let is_gauge = definition.instrument == Instrument::Gauge;
        assert_eq!(gauge_rule(definition.name).is_some(), is_gauge, "{}", definition.name);
    }
}

fn resource(attributes: &[(&str, &str)]) -> Vec<KeyValue> {
    let text = |(key, value): &(&str, &str)| key_value(key, Value::StringValue((*value).to_owned()));
    attributes.iter().map(text).collect()
}

fn numbers(metrics: &[Metric], name: &str) -> Vec<i64> {
    let points = |metric: &Metric| match metric.data.clone() {
        Some(Data::Sum(sum)) => sum.data_points,
        Some(Data::Gauge(gauge)) => gauge.data_points,
        _ => Vec::new(),
    };
    let int = |point: NumberDataPoint| match point.value {
        Some(Number::AsInt(int)) => int,
        other => panic!("{other:?}"),
    };
    let metric = metrics.iter().find(|metric| metric.name == name);
    metric.map_or(Vec::new(), |metric| points(metric).into_iter().map(int).collect())
}

/// Returns a reading with the OOM kills and the memory usage of a container, and with the memory lines, the budget and
/// the memory load of a process.
fn reading(kills: u64, usage: u64, live: u64, load: u64) -> Vec<Metric> {
    let mut snapshot = MetricSnapshot::new(10, 100);
    snapshot.put_one(&container::OOM_KILLS, Some(whole(kills)));
    snapshot.put_one(&container::MEMORY_USAGE, Some(whole(usage)));
    snapshot.put_one(&target::MEMORY_LIMIT, Some(whole(1000)));
    let line = |name: &str, bytes| (vec![crate::snapshot::text(&target::LINE, name)], whole(bytes));
    snapshot.put(&target::MEMORY, [line("live", live), line("page_cache", 7)]);
    snapshot.put_one(&metric::BUDGET, Some(whole(3)));
    snapshot.put_one(&metric::MEMORY_LOAD, Some(whole(load)));
    snapshot.into_metrics()
}

fn only(mut all: Vec<(Arc<Origin>, Vec<Metric>)>) -> (Arc<Origin>, Vec<Metric>) {
    assert_eq!(all.len(), 1, "one service");
    all.remove(0)
}

/// Scenario: a service has two processes in one container and a third process in another container; the first process
/// exits.
/// Guarantee: figures of a container count once, even if another process of the container continues to report these
/// figures. Gauges follow their rules, and the number of processes is reported. The counter of kills neither falls nor
/// jumps.
#[test]
fn container_counts_once() {
    let options = MetricOptions::default();
    let mut services = Services::default();
    let of = |container| resource(&[("service.name", "shop"), ("container.id", container)]);
    let all = (0, 1);
    let cumulative = Temporality::Cumulative;
    for (pid, container, kills, live, load) in [(1, "a", 5, 100, 10), (2, "a", 4, 200, 90), (3, "b", 1, 300, 20)] {
        services.observe((pid, 1), &of(container), &[], reading(kills, 50, live, load), &options);
    }
    let (_, metrics) = only(services.metrics(all, 200, cumulative, &options));
    assert_eq!(numbers(&metrics, "gcwatch.container.memory.oom_kills"), [6]);
    assert_eq!(numbers(&metrics, "container.memory.usage"), [100]);
    assert_eq!(numbers(&metrics, "gcwatch.memory.limit"), [2000]);
    assert_eq!(numbers(&metrics, "gcwatch.memory.usage"), [600, 14]);
    assert_eq!(numbers(&metrics, "gcwatch.gc.heap.budget"), [9]);
    assert_eq!(numbers(&metrics, "gcwatch.gc.memory.load"), [90]);
    assert_eq!(numbers(&metrics, "gcwatch.service.processes"), [3]);
    assert!(services.remove((1, 1), 210, cumulative, &options).is_none());
    services.observe((2, 1), &of("a"), &[], reading(6, 60, 200, 1), &options);
    let (_, metrics) = only(services.metrics(all, 220, cumulative, &options));
    assert_eq!(numbers(&metrics, "gcwatch.container.memory.oom_kills"), [8]);
    assert_eq!(numbers(&metrics, "container.memory.usage"), [110]);
    assert_eq!(numbers(&metrics, "gcwatch.gc.memory.load"), [20]);
}

/// Scenario: processes of two services run on two hosts, in different pods, with different start times; one process
/// learns its namespace late.
/// Guarantee: the id of a service on a host never changes, and other services and hosts have other ids; the resource
/// contains configured attributes, but not the pod; the counts of a process stay in its old service when the process
/// changes its service.
#[test]
fn service_on_host_has_one_id() {
    let options = MetricOptions::default();
    let of = |name, host, pod| resource(&[("host.name", host), ("service.name", name), ("k8s.pod.name", pod)]);
    let id = |resource: Vec<KeyValue>, key: ProcessKey| {
        let mut services = Services::default();
        services.observe(key, &resource, &[], reading(1, 1, 1, 1), &options);
        let (origin, _) = only(services.metrics((0, 1), 200, Temporality::Cumulative, &options));
        assert_eq!(text(&origin.attributes, "k8s.pod.name"), None);
        text(&origin.attributes, "service.instance.id").unwrap()
    };
    let shop = id(of("shop", "one", "shop-1"), (1, 1));
    assert_eq!(shop, id(of("shop", "one", "shop-2"), (2, 9)));
    assert_ne!(shop, id(of("shop", "two", "shop-1"), (1, 1)));
    assert_ne!(shop, id(of("cart", "one", "shop-1"), (1, 1)));

    let mut services = Services::default();
    let configured = resource(&[("team", "blue")]);
    let mut early = of("shop", "one", "shop-1");
    early.extend(configured.clone());
    let mut late = early.clone();
    late.extend(resource(&[("k8s.namespace.name", "ns")]));
    services.observe((1, 1), &early, &configured, reading(4, 1, 1, 1), &options);
    services.observe((1, 1), &late, &configured, reading(5, 1, 1, 1), &options);
    let (origin, metrics) = only(services.metrics((0, 1), 200, Temporality::Cumulative, &options));
    assert_eq!(text(&origin.attributes, "team").as_deref(), Some("blue"));
    assert_eq!(numbers(&metrics, "gcwatch.container.memory.oom_kills"), [1]);
}

/// Scenario: more services end than are remembered.
/// Guarantee: the services that ended first are forgotten; a service that ended later and returns continues its totals.
#[test]
fn ended_services_are_bounded() {
    let options = MetricOptions::default();
    let mut services = Services::default();
    let of = |number: usize| resource(&[("service.name", &format!("job-{number}"))]);
    let kills = |services: &mut Services, number: usize| {
        services.observe((1, 1), &of(number), &[], reading(1, 1, 1, 1), &options);
        let (_, metrics) = services.remove((1, 1), 200, Temporality::Cumulative, &options).unwrap();
        numbers(&metrics, "gcwatch.container.memory.oom_kills")
    };
    for number in 0..MAX_ENDED + 10 {
        assert_eq!(kills(&mut services, number), [1]);
    }
    assert!(services.services.len() <= MAX_ENDED + 1);
    assert_eq!(kills(&mut services, MAX_ENDED + 5), [2], "the totals are remembered");
    assert_eq!(kills(&mut services, 0), [1], "the totals are forgotten");
    assert!(
        services
            .metrics((0, 1), 300, Temporality::Cumulative, &options)
            .is_empty()
    );
}
