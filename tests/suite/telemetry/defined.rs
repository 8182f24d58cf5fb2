//! Tests that compare emitted telemetry and the documentation with the table of definitions.

use clr_gc::gc::{RequestImpact, WorstRequest};
use gc_requests::payload::CompletedRequest;
use gc_requests::request::Request;
use gc_requests::route::{Route, Routes};
use gc_requests::stops::Stop;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;

use base::pattern::Pattern;
use gc_telemetry::aggregate::rule_name;
use gc_telemetry::definition::{
    Attribute, Instrument, MetricDefinition, Row, Stability, ValueKind, anomaly, change, container, metric, own,
    resource, settings, span,
};
use gc_telemetry::options::{GenerationKey, MetricOptions};
use gc_telemetry::series::Series;
use gc_telemetry::spans::{NotExported, Tracer};
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::metrics::v1::Metric;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;

use crate::telemetry::recordings::{BASE_NS, SEED, all_spans, base, end, names, read, series, spans_of, trace};
use crate::telemetry::render::kind;

fn kind_of(pair: &KeyValue) -> ValueKind {
    match pair.value.as_ref().unwrap().value.as_ref().unwrap() {
        Value::StringValue(_) => ValueKind::Text,
        Value::IntValue(_) => ValueKind::Int,
        Value::DoubleValue(_) => ValueKind::Double,
        Value::BoolValue(_) => ValueKind::Bool,
        Value::ArrayValue(_) => ValueKind::Texts,
        other => panic!("{} has a value of an undefined kind: {other:?}", pair.key),
    }
}

/// Names of emitted attributes, with the kinds of their values.
#[derive(Default)]
struct ObservedAttributes(BTreeMap<String, ValueKind>);

impl ObservedAttributes {
    fn take(&mut self, attributes: &[KeyValue]) {
        for pair in attributes {
            let kind = kind_of(pair);
            let before = self.0.insert(pair.key.clone(), kind);
            assert!(before.is_none_or(|before| before == kind), "{} has two kinds", pair.key);
        }
    }
}

fn table(rows: impl Iterator<Item = Row>) -> BTreeMap<String, ValueKind> {
    rows.map(|row| (row.attribute.name.to_owned(), row.attribute.kind))
        .collect()
}

/// Scenario: the spans of all recordings are created, and the spans of the same collections in a second runtime of a
/// live process.
/// Guarantee: the attributes of the spans and their links are exactly the rows of the table, each with its kind.
#[test]
fn span_attributes_match_table() {
    let mut seen = ObservedAttributes::default();
    for name in names() {
        for process in read(&name) {
            for (collection, traced) in trace(&process, all_spans()) {
                let mut second = collection;
                second.clr_instance = Some(1);
                second.observed_by_others = Some(false);
                second.requests = Some(impact());
                let second = Tracer::new(all_spans(), SEED).trace(&second, base(), &[], false);
                for span in spans_of(&traced).iter().chain(&spans_of(&second)) {
                    seen.take(&span.attributes);
                    span.links.iter().for_each(|link| seen.take(&link.attributes));
                }
            }
        }
    }
    assert_eq!(seen.0, table(span::rows()));
}

/// Returns the impact of a collection on one request.
fn impact() -> RequestImpact {
    let mut impact = RequestImpact::default();
    impact.add(WorstRequest {
        lost_ns: 20_000_000,
        trace_id: Some([1; 16]),
        span_id: Some([2; 8]),
    });
    impact
}

/// Returns a sampled request of 30 ms that collection 7 stopped.
fn request(stopped_ns: Option<i64>) -> Request {
    Request {
        ended: CompletedRequest {
            trace_id: Some([1; 16]),
            span_id: Some([2; 8]),
            sampled: Some(true),
            ..CompletedRequest::default()
        },
        start: Some(1_000_000_000),
        end: 1_030_000_000,
        stopped_ns,
        stops: 1,
        hits: vec![Stop {
            begin: 1_005_000_000,
            end: 1_025_000_000,
            collection: Some(7),
            generation: Some(2),
            background: false,
        }],
    }
}

/// Scenario: one sampled request lost much time. Other requests are unsampled, have no ids, are not evaluated, or lost
/// hardly any time. In one second, more requests lose much time than the rate of spans allows.
/// Guarantee: the first request has a span for the stop in its own trace. The span is a child of the span of the
/// request and has the times of the stop. The attributes of the span and of its link are in the table. The other
/// requests have no such span, and requests above the rate have the reason `OverRate`.
#[test]
fn stop_is_in_trace_of_stopped_request() {
    let mut tracer = Tracer::new(all_spans(), SEED);
    let victim = request(Some(20_000_000));
    let spans = tracer.trace_request(&victim, base()).unwrap().decode().unwrap();
    let [span] = &spans[..] else { panic!("{spans:?}") };
    assert_eq!(span.name, "GC pause gen2 blocking");
    assert_eq!(
        (&span.trace_id[..], &span.parent_span_id[..]),
        (&[1; 16][..], &[2; 8][..])
    );
    let times = (span.start_time_unix_nano, span.end_time_unix_nano);
    assert_eq!(times, (BASE_NS + 1_005_000_000, BASE_NS + 1_025_000_000));
    let rows = table(span::rows());
    let mut seen = ObservedAttributes::default();
    seen.take(&span.attributes);
    seen.take(&span.links[0].attributes);
    assert!(
        seen.0.iter().all(|(name, kind)| rows.get(name) == Some(kind)),
        "{:?}",
        seen.0
    );

    let mut unsampled = victim.clone();
    unsampled.ended.sampled = Some(false);
    let mut nameless = victim.clone();
    nameless.ended.span_id = None;
    let mut little = request(Some(100_000));
    little.hits[0].end = little.hits[0].begin + 100_000;
    for other in [unsampled, nameless, little, request(None)] {
        assert_eq!(
            tracer.trace_request(&other, base()),
            Err(NotExported::NotSelected),
            "{other:?}"
        );
    }
    let exported = (0..50)
        .filter(|_| tracer.trace_request(&victim, base()).is_ok())
        .count();
    assert_eq!(exported, 19, "19 more spans are within the rate");
    assert_eq!(tracer.trace_request(&victim, base()), Err(NotExported::OverRate));
}

fn point_attributes(metric: &Metric) -> Vec<&[KeyValue]> {
    match metric.data.as_ref().unwrap() {
        Data::Gauge(gauge) => gauge.data_points.iter().map(|point| &*point.attributes).collect(),
        Data::Sum(sum) => sum.data_points.iter().map(|point| &*point.attributes).collect(),
        Data::Histogram(histogram) => histogram.data_points.iter().map(|point| &*point.attributes).collect(),
        Data::ExponentialHistogram(histogram) => histogram.data_points.iter().map(|point| &*point.attributes).collect(),
        Data::Summary(_) => panic!("no metric is a summary"),
    }
}

/// Scenario: the metrics of all recordings are created, with both keys of the generation, a limit of series that is
/// reached, and collections that are not exported.
/// Guarantee: each metric is in the table with its unit, kind, description and attributes, and every metric of the
/// table is emitted.
#[test]
fn metrics_match_table() {
    let mut emitted: Vec<Metric> = Vec::new();
    let keys = [GenerationKey::Conventions, GenerationKey::Runtime];
    for name in names() {
        for process in read(&name) {
            for generation_key in keys {
                let options = MetricOptions {
                    generation_key,
                    ..MetricOptions::default()
                };
                emitted.extend(series(&process, options, all_spans()).cumulative(end(&process)));
            }
            let few = MetricOptions {
                max_series: 10,
                ..MetricOptions::default()
            };
            emitted.extend(series(&process, few, all_spans()).cumulative(end(&process)));
        }
    }
    let routes = Routes::new([Route {
        name: "orders".into(),
        path: Some(Pattern("/orders*".to_owned())),
    }]);
    let options = MetricOptions {
        routes,
        ..MetricOptions::default()
    };
    let mut unexported = Series::new(options, BASE_NS);
    unexported.observe_unexported(NotExported::NotSelected);
    unexported.observe_unexported(NotExported::OverRate);
    for stopped_ns in [Some(20_000_000), None] {
        unexported.observe_request(&request(stopped_ns), base());
    }
    let mut classed = request(Some(20_000_000));
    // Route 0 exists, and route 7 belongs to an earlier configuration.
    for route in [0, 7] {
        classed.ended.route = Some(route);
        unexported.observe_request(&classed, base());
    }
    unexported.observe_unexported_request();
    emitted.extend(unexported.cumulative(BASE_NS));

    let mut attributes = ObservedAttributes::default();
    for reported in &emitted {
        let row = metric::METRICS.iter().find(|row| row.name == reported.name);
        let row = row.unwrap_or_else(|| panic!("{} is not in the table", reported.name));
        assert_eq!(
            (&*reported.unit, kind(reported)),
            (row.unit, row.instrument.name()),
            "{}",
            row.name
        );
        assert_eq!(reported.description, row.description);
        for point in point_attributes(reported) {
            attributes.take(point);
            for pair in point {
                let allowed = row.attributes.iter().any(|attribute| attribute.name == pair.key);
                let instead = pair.key == metric::OVERFLOW.name
                    || pair.key == metric::RUNTIME_GENERATION.name
                        && row
                            .attributes
                            .iter()
                            .any(|attribute| attribute.name == span::GENERATION.name);
                assert!(allowed || instead, "{} has {}", row.name, pair.key);
            }
        }
    }
    for row in metric::METRICS {
        assert!(
            emitted.iter().any(|reported| reported.name == row.name),
            "{} is reported at least once",
            row.name
        );
        for attribute in row.attributes {
            assert_eq!(
                attributes.0.get(attribute.name),
                Some(&attribute.kind),
                "{}",
                attribute.name
            );
        }
    }
    for row in metric::ALL {
        assert_eq!(
            attributes.0.get(row.attribute.name),
            Some(&row.attribute.kind),
            "{}",
            row.attribute.name
        );
    }
}

/// Scenario: the table of attributes and metrics is checked.
/// Guarantee: the table contains no attribute and no metric twice, names are lower case with dots, descriptions end
/// with a period, and sources are not empty.
#[test]
fn names_are_unique_and_well_formed() {
    let others = resource::ALL
        .iter()
        .chain(settings::ALL)
        .chain(metric::ALL)
        .chain(anomaly::ALL)
        .chain(change::ALL)
        .copied();
    let rows: Vec<Row> = span::rows().chain(others).collect();
    let attributes: Vec<&str> = rows.iter().map(|row| row.attribute.name).collect();
    let metrics: Vec<&str> = metric::METRICS.iter().map(|metric| metric.name).collect();
    let well = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || "._".contains(letter);
    // An attribute and a metric can have the same name.
    for mut names in [attributes, metrics] {
        let reported = names.len();
        assert!(names.iter().all(|name| name.chars().all(well)), "{names:?}");
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), reported);
    }
    for row in &rows {
        let Attribute {
            name,
            description,
            source,
            ..
        } = row.attribute;
        assert!(description.ends_with('.') && !source.is_empty(), "{name}");
        assert!(!description.contains('|') && !source.contains('|'), "{name}");
    }
}

/// Scenario: the names of all attributes and metrics in all tables are checked.
/// Guarantee: names outside the semantic conventions start with `gcwatch.`, except for the key that the meter of the
/// runtime uses; names of the conventions do not start with `gcwatch.`; no name contains a unit.
#[test]
fn own_names_start_with_gcwatch() {
    let attributes = [
        resource::ALL,
        settings::ALL,
        metric::ALL,
        anomaly::ALL,
        change::ALL,
        own::ALL,
        own::target::ALL,
    ];
    let rows = attributes.into_iter().flatten().copied().chain(span::rows());
    let attributes = rows.map(|row| (row.attribute.name, row.stability));
    let metrics = [
        metric::METRICS,
        container::METRICS,
        own::METRICS,
        own::target::METRICS,
        own::service::METRICS,
    ];
    let metrics = metrics
        .into_iter()
        .flatten()
        .map(|metric| (metric.name, metric.stability));
    let runtime = metric::RUNTIME_GENERATION.name;
    for (name, stability) in attributes.chain(metrics).filter(|(name, _)| *name != runtime) {
        assert_eq!(name.starts_with("gcwatch."), stability == Stability::Own, "{name}");
        let is_unit = |word: &str| ["ms", "ns", "seconds", "bytes", "ratio"].contains(&word);
        assert!(!name.split(['.', '_']).any(is_unit), "{name}");
    }
}

/// Scenario: a tracer is switched off.
/// Guarantee: the tracer creates no span.
#[test]
fn disabled_tracer_creates_no_spans() {
    let process = read("net10-steady").into_iter().next().unwrap();
    let off = gc_telemetry::options::SpanOptions {
        enabled: false,
        ..all_spans()
    };
    assert!(
        trace(&process, off)
            .iter()
            .all(|(_, traced)| *traced == Err(NotExported::NotSelected))
    );
}

const PAGE: &str = "docs/telemetry.md";

fn attribute_table<'a>(rows: impl Iterator<Item = (&'a Attribute, &'a str)>) -> String {
    let mut out = String::from("| Name | Type | Meaning | From | Name is |\n|---|---|---|---|---|\n");
    for (attribute, stability) in rows {
        let Attribute {
            name,
            kind,
            description,
            source,
        } = attribute;
        writeln!(
            out,
            "| `{name}` | {} | {description} | {source} | {stability} |",
            kind.name()
        )
        .unwrap();
    }
    out
}

fn rows(rows: &'static [Row]) -> String {
    attribute_table(rows.iter().map(|row| (row.attribute, row.stability.name())))
}

fn metric_table(metrics: &[&MetricDefinition]) -> String {
    let mut out =
        String::from("| Name | Kind | Unit | Meaning | Attributes | From | Name is |\n|---|---|---|---|---|---|---|\n");
    for row in metrics {
        let attributes: Vec<String> = row.attributes.iter().map(|one| format!("`{}`", one.name)).collect();
        writeln!(
            out,
            "| `{}` | {} | `{}` | {} | {} | {} | {} |",
            row.name,
            row.instrument.name(),
            row.unit,
            row.description,
            attributes.join(", "),
            row.source,
            row.stability.name()
        )
        .unwrap();
    }
    out
}

fn service_table() -> String {
    let mut out = String::from("| Rule | Metrics |\n|---|---|\n");
    let all = || {
        [metric::METRICS, own::target::METRICS, container::METRICS]
            .into_iter()
            .flatten()
    };
    for rule in ["sum", "merged", "maximum", "absent"] {
        let of_rule = all().filter(|row| rule_name(row) == rule);
        // Counters and up-down counters are always sums.
        let named = of_rule.filter(|row| rule != "sum" || row.instrument == Instrument::Gauge);
        let names: Vec<String> = named.map(|row| format!("`{}`", row.name)).collect();
        let before = if rule == "sum" {
            "counters, up-down counters, "
        } else {
            ""
        };
        writeln!(out, "| {rule} | {before}{} |", names.join(", ")).unwrap();
    }
    out
}

fn figure_table() -> String {
    let mut out = String::from("| Figure | At most |\n|---|---|\n");
    for (_, name, bound) in clr_gc::gc::FIGURES {
        writeln!(out, "| `{name}` | {bound} |").unwrap();
    }
    out
}

/// Scenario: the tables in `docs/telemetry.md` are generated.
/// Guarantee: the committed tables match the definitions. Run with `GCWATCH_UPDATE_GOLDEN=1` after a change.
#[test]
fn documentation_is_current() {
    let own = |attribute: &'static Attribute| (attribute, "gcwatch");
    let tables = [
        ("resource", rows(resource::ALL)),
        ("settings", rows(settings::ALL)),
        ("spans", rows(span::ALL)),
        (
            "generations",
            attribute_table(span::PER_GENERATION.iter().map(|measure| own(&measure.pattern))),
        ),
        ("phases", attribute_table(span::PHASES.iter().map(own))),
        ("anomalies", rows(anomaly::ALL)),
        ("changes", rows(change::ALL)),
        ("metrics", metric_table(metric::METRICS)),
        ("points", rows(metric::ALL)),
        ("service", metric_table(own::service::METRICS)),
        ("service rules", service_table()),
        ("target", metric_table(own::target::METRICS)),
        ("target points", rows(own::target::ALL)),
        ("container", metric_table(container::METRICS)),
        ("own", metric_table(own::METRICS)),
        ("own points", rows(own::ALL)),
        ("figures", figure_table()),
    ];
    let mut current = fs::read_to_string(test_support::repository(PAGE)).unwrap();
    for (name, table) in tables {
        let (begin, end) = (format!("<!-- begin {name} -->\n"), format!("<!-- end {name} -->"));
        let (before, rest) = current
            .split_once(&begin)
            .unwrap_or_else(|| panic!("{PAGE} has no {begin}"));
        let (_, after) = rest.split_once(&end).unwrap_or_else(|| panic!("{PAGE} has no {end}"));
        current = format!("{before}{begin}\n{table}\n{end}{after}");
    }
    test_support::golden::compare(PAGE, &current);
}
