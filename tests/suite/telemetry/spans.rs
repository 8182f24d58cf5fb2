//! Invariants of the spans of every collection, recorded or damaged.

use std::collections::HashSet;
use std::time::Duration;

use clr_gc::gc::{Collection, PauseKind};
use gc_telemetry::anomaly::Anomaly;
use gc_telemetry::options::SpanOptions;
use gc_telemetry::spans::Tracer;
use opentelemetry_proto::tonic::trace::v1::{ScopeSpans, Span};
use proptest::prelude::*;
use prost::Message as _;
use test_support::notices::rule;

use crate::telemetry::recordings::{SEED, all_spans, base, names, read, spans_of, trace};
use crate::telemetry::render::value;
use crate::telemetry::synthetic::{collections, damaged};

fn length(span: &Span) -> i64 {
    span.end_time_unix_nano as i64 - span.start_time_unix_nano as i64
}

fn is_pause(span: &Span) -> bool {
    span.name.starts_with("GC pause")
}

/// Asserts that every span except the root is within its parent, which precedes it; that no span ends before it starts;
/// that siblings do not overlap and are in chronological order; and that all spans belong to one trace.
fn well_formed(spans: &[Span]) {
    contained(spans);
    in_order(spans);
}

fn contained(spans: &[Span]) {
    let root = spans.first().unwrap();
    assert!(root.parent_span_id.is_empty());
    for (place, span) in spans.iter().enumerate() {
        assert!(length(span) >= 0, "{} has {} ns", span.name, length(span));
        assert_eq!((span.trace_id.len(), span.span_id.len(), span.kind), (16, 8, 1));
        assert_eq!(span.trace_id, root.trace_id);
        assert!(span.status.is_none() && span.events.is_empty());
        if place == 0 {
            continue;
        }
        let before = spans.get(..place).unwrap();
        let parent = before.iter().find(|other| other.span_id == span.parent_span_id);
        let parent = parent.unwrap_or_else(|| panic!("{} follows its parent", span.name));
        assert!(
            parent.start_time_unix_nano <= span.start_time_unix_nano
                && span.end_time_unix_nano <= parent.end_time_unix_nano,
            "{} is not within {}",
            span.name,
            parent.name
        );
    }
}

fn in_order(spans: &[Span]) {
    for (place, span) in spans.iter().enumerate().skip(1) {
        let before = spans.get(..place).unwrap();
        let brother = before
            .iter()
            .rev()
            .find(|other| other.parent_span_id == span.parent_span_id);
        if let Some(brother) = brother {
            assert!(
                brother.end_time_unix_nano <= span.start_time_unix_nano,
                "{} starts after the end of {}",
                span.name,
                brother.name
            );
        }
    }
}

/// Asserts that the pauses add up to the pause of the collection, and that every stop with a known length has a span.
fn pauses_add_up(collection: &Collection, spans: &[Span]) {
    let reported: i64 = spans.iter().filter(|span| is_pause(span)).map(length).sum();
    let known: i64 = collection.pauses.iter().filter_map(|pause| pause.pause_ns).sum();
    assert_eq!(reported, known, "#{}", collection.number);
    if let Some(pause) = collection.pause_ns {
        assert_eq!(reported, pause, "#{}", collection.number);
    }
}

/// Scenario: the spans of all recordings are created.
/// Guarantee: the trees are well formed, and their pauses add up to `pause_ns`. The concurrent parts and pauses of a
/// complete background collection, and the pauses of other collections in its stop, add up to its duration.
#[test]
fn trees_are_well_formed() {
    let (mut trees, mut backgrounds) = (0, 0);
    for name in names() {
        for process in read(&name) {
            for (collection, traced) in trace(&process, all_spans()) {
                let spans = spans_of(&traced);
                well_formed(&spans);
                pauses_add_up(&collection, &spans);
                trees += 1;
                let kinds = collection.pauses.iter().map(|pause| pause.kind);
                if collection.is_complete() && kinds.eq([PauseKind::Initial, PauseKind::Final]) {
                    let concurrent = |span: &&Span| span.name.starts_with("GC concurrent");
                    let beside: i64 = spans.iter().filter(concurrent).map(length).sum();
                    let stopped: i64 = collection.pauses.iter().map(|pause| pause.stopped_ns.unwrap()).sum();
                    assert_eq!(
                        beside + stopped,
                        length(spans.first().unwrap()),
                        "{} #{}",
                        process.name,
                        collection.number
                    );
                    backgrounds += 1;
                }
            }
        }
    }
    assert!(trees > 1000 && backgrounds > 20, "{trees} {backgrounds}");
}

/// Scenario: the spans of all recordings are encoded.
/// Guarantee: the bytes equal the encoding of the generated types, and the reported number of spans is right.
#[test]
fn spans_are_encoded_like_generated_types() {
    for process in names().iter().flat_map(|name| read(name)) {
        for (collection, traced) in trace(&process, all_spans()) {
            let (_, encoded) = traced.unwrap();
            let spans = encoded.decode().unwrap();
            assert_eq!(spans.len() as u64, encoded.count());
            let scope = ScopeSpans {
                spans,
                ..ScopeSpans::default()
            };
            assert_eq!(scope.encode_to_vec(), &*encoded.into_fields(), "#{}", collection.number);
        }
    }
}

/// Scenario: each recording is traced as one process.
/// Guarantee: ids are unique. Each link refers to a reported collection with the linked number, which started earlier.
/// A link to a background collection refers to a collection that was still running.
#[test]
fn ids_are_unique_and_links_are_valid() {
    let mut links = 0;
    for name in names() {
        for process in read(&name) {
            let decoded = |(collection, traced)| (collection, spans_of(&traced));
            let traced: Vec<_> = trace(&process, all_spans()).into_iter().map(decoded).collect();
            let mut ids = HashSet::new();
            for (_, spans) in &traced {
                assert!(
                    spans.iter().all(|span| ids.insert(span.span_id.clone())),
                    "{}",
                    process.name
                );
            }
            for (collection, reported) in &traced {
                for link in &reported.first().unwrap().links {
                    let root = |span: &&Span| span.span_id == link.span_id && span.trace_id == link.trace_id;
                    let found = traced.iter().find(|(_, reported)| reported.first().iter().any(root));
                    let (other, _) = found.unwrap_or_else(|| panic!("a link of #{} has a target", collection.number));
                    assert_eq!(value(link.attributes[1].value.as_ref()), other.number.to_string());
                    assert!(other.start < collection.start);
                    links += 1;
                    if value(link.attributes[0].value.as_ref()) == "background" {
                        assert!(other.is_concurrent() || other.became_blocking);
                        assert!(other.end.is_none_or(|end| Some(end) > collection.start));
                    }
                }
            }
        }
    }
    assert!(links > 100, "{links}");
}

/// Scenario: a foreground collection runs during a background collection whose start was not observed.
/// Guarantee: the foreground collection has no link, because the number of the background collection is unknown.
#[test]
fn unobserved_collection_is_not_linked() {
    let process = read("net10b-attach-in-bgc").into_iter().next().unwrap();
    let traced = trace(&process, all_spans());
    let (_, reported) = traced.iter().find(|(collection, _)| collection.number == 17).unwrap();
    assert!(spans_of(reported).first().unwrap().links.is_empty());
}

/// Scenario: a collection that was cut by the end of a session is reported twice.
/// Guarantee: the two reports have different ids.
#[test]
fn collection_reported_twice_has_two_ids() {
    let process = read("net10-steady").into_iter().next().unwrap();
    let collection = process.collections.first().unwrap();
    let mut tracer = Tracer::new(all_spans(), SEED);
    let mut ids = || tracer.trace(collection, base(), &[], false).unwrap().0;
    assert_ne!(ids(), ids());
}

/// Scenario: options exclude collections by generation, pause and share; anomalous collections get the same options.
/// Guarantee: the options are applied, except that a full blocking collection is not excluded by its pause, and
/// anomalous collections are always reported.
#[test]
fn options_select_collections() {
    let process = read("net10-steady").into_iter().next().unwrap();
    let count = |options: SpanOptions| {
        let reported = trace(&process, options);
        reported
            .iter()
            .filter(|(_, traced)| !spans_of(traced).is_empty())
            .count()
    };
    let old = SpanOptions {
        min_generation: 1,
        ..all_spans()
    };
    assert_eq!(count(old), 14);
    let long = SpanOptions {
        min_pause: Duration::from_millis(1),
        ..all_spans()
    };
    let is_full = |one: &&Collection| one.generation == Some(2) && !one.is_concurrent();
    let longer = process
        .collections
        .iter()
        .filter(|one| one.pause_ns.unwrap() >= 1_000_000 || is_full(one))
        .count();
    assert_eq!(count(long), longer);
    assert!(longer < process.collections.len());
    let none = SpanOptions {
        ratio: 0.0,
        ..all_spans()
    };
    assert_eq!(count(none.clone()), 0);
    let some = SpanOptions {
        ratio: 0.5,
        ..all_spans()
    };
    assert!((20..50).contains(&count(some.clone())));
    for (_, traced) in trace(&process, some) {
        assert!(spans_of(&traced).iter().all(|span| span.trace_state == "ot=th:8"));
    }
    let mut tracer = Tracer::new(
        SpanOptions {
            max_per_second: 0,
            ..none
        },
        SEED,
    );
    let rule = rule();
    let anomaly = Anomaly {
        rule: &rule,
        severity: rule.severity,
        summary: None,
        at_unix_ns: 0,
    };
    for collection in &process.collections {
        let traced = tracer.trace(collection, base(), &[anomaly], false);
        assert!(spans_of(&traced).iter().all(|span| span.trace_state.is_empty()));
        assert!(!spans_of(&traced).is_empty());
    }
}

/// Scenario: short collections of generation 0 run before, during and after an incident; some of them stopped a
/// request.
/// Guarantee: collections that stopped a request are reported. Of the other collections, one per second is reported
/// while the incident is open, and none otherwise.
#[test]
fn short_collections_are_reported_during_incidents() {
    let process = read("net10-steady").into_iter().next().unwrap();
    let short = process
        .collections
        .iter()
        .find(|one| one.generation == Some(0))
        .unwrap();
    assert!(short.pause_ns.unwrap() < 10_000_000);
    let mut tracer = Tracer::new(SpanOptions::default(), SEED);
    let mut reported = |second: f64, hit: bool, in_incident: bool| {
        let mut one = short.clone();
        one.last_event += (second * 1e9) as i64;
        one.requests = hit.then(|| {
            let mut impact = clr_gc::gc::RequestImpact::default();
            impact.add(clr_gc::gc::WorstRequest {
                lost_ns: 1,
                trace_id: None,
                span_id: None,
            });
            impact
        });
        let traced = tracer.trace(&one, base(), &[], in_incident);
        !spans_of(&traced).is_empty()
    };
    assert!(!reported(0.0, false, false));
    assert!(reported(0.1, true, false));
    let in_ten_seconds = (10..110).filter(|tenth| reported(f64::from(*tenth) / 10.0, false, true));
    let in_ten_seconds = in_ten_seconds.count();
    assert!((10..=11).contains(&in_ten_seconds), "{in_ten_seconds}");
    assert!(!reported(30.0, false, false));
}

/// Scenario: the spans of all recordings are created.
/// Guarantee: a suspension or restart is a span if it takes 1 ms or more; otherwise it is an attribute of its pause.
#[test]
fn short_suspensions_are_attributes() {
    let (mut as_spans, mut as_attributes) = (0, 0);
    for process in names().iter().flat_map(|name| read(name)) {
        for (_, traced) in trace(&process, all_spans()) {
            let spans = spans_of(&traced);
            for span in spans.iter().filter(|span| is_pause(span)) {
                let child = |name: &str| {
                    let mut children = spans.iter().filter(|other| other.parent_span_id == span.span_id);
                    children.find(|child| child.name == name)
                };
                for (name, key) in [
                    ("GC suspend", "gcwatch.gc.pause.suspend_time"),
                    ("GC restart", "gcwatch.gc.pause.restart_time"),
                ] {
                    let attribute = span.attributes.iter().find(|pair| pair.key == key);
                    let seconds = attribute.map(|pair| value(pair.value.as_ref()).parse::<f64>().unwrap());
                    assert!(
                        seconds.is_none_or(|seconds| (0.0..0.001).contains(&seconds)),
                        "{seconds:?}"
                    );
                    assert!(child(name).is_none_or(|child| length(child) >= 1_000_000));
                    assert!(child(name).is_none() || attribute.is_none());
                    as_spans += usize::from(child(name).is_some());
                    as_attributes += usize::from(attribute.is_some());
                }
            }
        }
    }
    assert!(as_spans > 100 && as_attributes > 1000, "{as_spans} {as_attributes}");
}

/// Scenario: children and phases are switched off.
/// Guarantee: each collection has one span without the times of phases.
#[test]
fn children_and_phases_are_options() {
    let process = read("net10-steady").into_iter().next().unwrap();
    let options = SpanOptions {
        children: false,
        phases: false,
        ..all_spans()
    };
    for (_, traced) in trace(&process, options) {
        let spans = spans_of(&traced);
        assert_eq!(spans.len(), 1);
        assert!(
            spans
                .iter()
                .flat_map(|span| &span.attributes)
                .all(|pair| !pair.key.starts_with("gcwatch.gc.phase."))
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Scenario: a recorded collection loses arbitrary edges and facts, or gets arbitrary times, as a hostile stream
    /// can cause.
    /// Guarantee: spans are within their parents, attributes of unknown facts are absent, and nothing panics. Without
    /// arbitrary times, siblings do not overlap.
    #[test]
    fn damage_invents_no_times(
        place in 0..collections().len(),
        seed in any::<u64>(),
        wild in any::<bool>(),
    ) {
        let damaged = damaged(&collections()[place], seed, wild);
        let traced = Tracer::new(all_spans(), SEED).trace(&damaged, base(), &[], false);
        let spans = spans_of(&traced);
        prop_assert!(!spans.is_empty());
        contained(&spans);
        if !wild {
            in_order(&spans);
        }
        let keys: Vec<&str> = spans[0].attributes.iter().map(|pair| pair.key.as_str()).collect();
        let has = |key: &str| keys.contains(&key);
        prop_assert_eq!(has("gcwatch.gc.pause_time"), damaged.pause_ns.is_some());
        prop_assert_eq!(has("gcwatch.gc.reason"), damaged.reason.is_some());
        prop_assert_eq!(has("gcwatch.gc.handles"), damaged.heap_stats.is_some());
        prop_assert_eq!(has("gcwatch.gc.heap_count"), damaged.global.is_some());
        prop_assert_eq!(has("gcwatch.gc.heap.size_before"), damaged.heap_before().is_some());
        prop_assert_eq!(has("gcwatch.gc.heap.poh.size_after"), damaged.heap[4].after.is_some());
    }
}
