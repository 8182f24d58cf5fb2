//! The grammar, families and labels of `/metrics`.

use opentelemetry_proto::tonic::common::v1::KeyValue;

/// Returns attributes with text values.
pub(crate) fn resource(attributes: &[(&str, &str)]) -> Vec<KeyValue> {
    attributes.iter().map(|(key, value)| attribute(key, value)).collect()
}

/// A parser of both formats. It is as strict as the grammars about names, labels, values and the order of families.
mod grammar;

use std::collections::HashSet;

use gc_telemetry::options::{HistogramBuckets, MetricOptions, Temporality};
use gc_telemetry::prometheus::{Format, exposition};
use opentelemetry_proto::tonic::metrics::v1::Metric;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::resource::v1::Resource;
use proptest::prelude::*;
use test_support::notices::attribute;

use self::grammar::{Exposition, Sample};
use crate::telemetry::recordings::{BASE_NS, all_spans, base, end, names, read, series};

const FORMATS: [Format; 2] = [Format::Text, Format::OpenMetrics];

fn make_resource(attributes: &[(&str, &str)]) -> Resource {
    Resource {
        attributes: resource(attributes),
        ..Resource::default()
    }
}

fn reported(format: Format, processes: &[(&Resource, &[Metric])]) -> (Exposition, usize) {
    let mut text = String::new();
    let left_out = exposition(format, processes, &mut text);
    (Exposition::parse(&text, format == Format::OpenMetrics), left_out)
}

/// Scenario: all recordings are shown as processes of one host, in both formats.
/// Guarantee: the text is valid, each family is contiguous and appears once, no series is duplicated or omitted, and
/// the counters and histogram counts match the metrics.
#[test]
fn many_processes_are_exposed() {
    let mut processes = Vec::new();
    for name in names() {
        for (place, process) in read(&name).iter().enumerate() {
            let metrics = series(process, MetricOptions::default(), all_spans()).cumulative(end(process));
            let pid = format!("{}", 1000 + processes.len());
            let id = format!("{name}-{place}");
            processes.push((
                make_resource(&[
                    ("service.name", &name),
                    ("service.instance.id", &id),
                    ("process.pid", &pid),
                ]),
                metrics,
            ));
        }
    }
    let borrowed: Vec<(&Resource, &[Metric])> = processes
        .iter()
        .map(|(one, metrics)| (one, metrics.as_slice()))
        .collect();
    for format in FORMATS {
        let (exposition, left_out) = reported(format, &borrowed);
        assert_eq!(left_out, 0);
        let exemplars = exposition
            .samples
            .iter()
            .filter(|sample| sample.exemplar.is_some())
            .count();
        assert_eq!(exemplars > 0, format == Format::OpenMetrics);
        for (resource, metrics) in &borrowed {
            let pid = format!(
                "{:?}",
                resource.attributes[2].value.as_ref().unwrap().value.as_ref().unwrap()
            );
            let mine = |sample: &&Sample| pid.contains(&format!("\"{}\"", sample.labels["process_pid"]));
            for metric in *metrics {
                let Some(Data::ExponentialHistogram(data)) = &metric.data else {
                    continue;
                };
                let name = format!("{}_seconds_count", metric.name.replace('.', "_"));
                let counts = exposition
                    .samples
                    .iter()
                    .filter(mine)
                    .filter(|sample| sample.name == name);
                let count: f64 = counts.map(|sample| sample.value).sum();
                assert_eq!(
                    count,
                    data.data_points.iter().map(|point| point.count).sum::<u64>() as f64
                );
            }
        }
    }
}

/// Scenario: the same pauses are counted in exponential buckets, and in explicit buckets with the bounds of `/metrics`;
/// further pauses make the scale coarser.
/// Guarantee: the counts of both kinds of buckets are equal and therefore exact, and no count ever decreases.
#[test]
fn exponential_buckets_are_exact() {
    let bounds: Vec<f64> = (-13..=3).map(|exponent| f64::from(exponent).exp2()).collect();
    let explicit = MetricOptions {
        buckets: HistogramBuckets::Explicit(bounds),
        ..MetricOptions::default()
    };
    let buckets = |exposition: &Exposition| -> Vec<(String, f64)> {
        let buckets = exposition
            .samples
            .iter()
            .filter(|sample| sample.name.ends_with("_bucket"));
        buckets
            .map(|sample| (format!("{}{:?}", sample.name, sample.labels), sample.value))
            .collect()
    };
    let nobody = Resource::default();
    for name in ["net10-steady", "net10b-pmode", "net31-fin"] {
        let mut process = read(name).into_iter().next().unwrap();
        let all = std::mem::take(&mut process.collections);
        let mut before: std::collections::HashMap<String, f64> = std::collections::HashMap::new();
        for count in (1..=all.len()).step_by(7) {
            process.collections = all[..count].to_vec();
            let metrics = |options| series(&process, options, all_spans()).cumulative(end(&process));
            let (exponential, explicit) = (metrics(MetricOptions::default()), metrics(explicit.clone()));
            let (exponential, _) = reported(Format::Text, &[(&nobody, &exponential)]);
            let (explicit, _) = reported(Format::Text, &[(&nobody, &explicit)]);
            assert_eq!(buckets(&exponential), buckets(&explicit), "{name}");
            for (bucket, count) in buckets(&exponential) {
                assert!(before.insert(bucket, count).is_none_or(|before| before <= count));
            }
        }
    }
}

/// Scenario: two processes have the same attributes, and a third process has no attributes. A fourth process has
/// attributes with the names of gcwatch's labels, and attributes that map to the same label name.
/// Guarantee: no series is duplicated; gcwatch's labels keep their values; values with the same label name are joined.
#[test]
fn labels_of_processes_are_distinct() {
    let process = read("net10-idle").into_iter().next().unwrap();
    let metrics = series(&process, MetricOptions::default(), all_spans()).cumulative(BASE_NS);
    let same = make_resource(&[("service.name", "a"), ("service.instance.id", "1")]);
    let nobody = Resource::default();
    let sly = make_resource(&[
        ("service.name", "b"),
        ("job", "stolen"),
        ("process_pid", "1"),
        ("team.name", "x"),
        ("team_name", "y"),
        ("empty", ""),
    ]);
    for format in FORMATS {
        let all = [&same, &same, &nobody, &sly].map(|resource| (resource, metrics.as_slice()));
        let (exposition, _) = reported(format, &all);
        let targets: Vec<&Sample> = exposition
            .samples
            .iter()
            .filter(|sample| sample.name == "target_info")
            .collect();
        assert_eq!(targets.len(), 4);
        assert_eq!(targets[1].labels["duplicate"], "2");
        assert!(targets[2].labels.is_empty());
        let sly = &targets[3].labels;
        assert_eq!((&*sly["job"], &*sly["exported_job"]), ("b", "stolen"));
        assert_eq!((&*sly["exported_process_pid"], &*sly["team_name"]), ("1", "x;y"));
        assert!(!sly.contains_key("empty"));
    }
}

/// Scenario: metrics have delta temporality.
/// Guarantee: the metrics are omitted and counted, because Prometheus only has cumulative values.
#[test]
fn delta_metrics_are_omitted() {
    let process = read("net10-steady").into_iter().next().unwrap();
    let options = MetricOptions {
        temporality: Temporality::Delta,
        ..MetricOptions::default()
    };
    let mut series = series(&process, options, all_spans());
    series.observe(&process.collections[0], base(), None);
    let metrics = series.delta(end(&process));
    let nobody = Resource::default();
    let (exposition, left_out) = reported(Format::Text, &[(&nobody, &metrics)]);
    assert!(left_out > 10);
    assert!(exposition.samples.iter().all(|sample| !sample.name.ends_with("_total")));
}

proptest! {
    /// Scenario: a process chooses arbitrary names and values for its resource attributes.
    /// Guarantee: the text stays valid and has the same number of series as for any other process.
    #[test]
    fn hostile_resources(
        attributes in prop::collection::vec((".{0,12}|service[.]name|instance|job|le|__name__|process.pid", "\\PC{0,8}|[\"\\\\\n\r\0{},= #]{0,12}"), 0..8),
    ) {
        let process = read("net10-idle").into_iter().next().unwrap();
        let metrics = series(&process, MetricOptions::default(), all_spans()).cumulative(BASE_NS);
        let pairs: Vec<(&str, &str)> = attributes.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        let hostile = make_resource(&pairs);
        let nobody = Resource::default();
        for format in FORMATS {
            let (plain, _) = reported(format, &[(&nobody, &metrics)]);
            let (exposition, _) = reported(format, &[(&hostile, &metrics), (&nobody, &metrics)]);
            prop_assert_eq!(exposition.samples.len(), 2 * plain.samples.len());
            let names: HashSet<&str> = exposition.samples.iter().map(|sample| sample.name.as_str()).collect();
            let plain: HashSet<&str> = plain.samples.iter().map(|sample| sample.name.as_str()).collect();
            prop_assert_eq!(names, plain);
        }
    }
}
