//! Rules in the pipeline: their effects on spans, notices and metrics; open collections; changes of the rules.

use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

use base::run_key::RunKey;
use base::time::{Moment, TimeBase, Wall};
use clr_gc::gc::{OpenOperations, Outcome};
use delivery::alerts::{Notice, Notices};
use gc_telemetry::anomaly::log_record;
use gc_telemetry::options::SpanOptions;
use gc_telemetry::origin::Origin;
use gc_telemetry::spans::EncodedSpans;
use gcwatch::pipeline::{Clock, Feed, Outlet, Pipeline, PipelineSettings, ProcessReading, Records};
use incidents::IncidentChange;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::metrics::v1::Metric;
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use processes::{Identity, RunState};
use rule_engine::alert::{Ending, Transition};
use targets::clocks;
use targets::sink::{RunSink as _, Sink as _};
use web::Views as _;

use crate::pipeline::{OutputStore, count, points};
use test_support::notices::{self, rules};
use test_support::replay::outcomes;

/// Time base of the processes: 2026-01-02 03:04:05 UTC, in nanoseconds since 1970.
const BASE: u64 = 1_767_323_045_000_000_000;

const SECOND: u64 = 1_000_000_000;

const RULES: &str = "\
apiVersion: gcwatch/v1
rules:
  - id: test.background
    title: A background collection
    on: gc
    when: gc.type == 'background'
    severity: error
    keep_firing_for: 1m
    summary: Background collection {{ gc.number }}
    description: It ran beside the program.
    remedy: None is needed.
    source: a test
  - id: test.full
    title: A full collection
    on: gc
    when: gc.generation == 2
    severity: warning
    summary: Full collection {{ gc.number }}
    description: All generations.
    remedy: None is needed.
    source: a test
  - id: test.hangs
    title: A collection does not end
    on: process
    when: open.collection_s > 5.0
    severity: critical
    summary: A collection has been under way for {{ open.collection_s | round(0) }} s
    description: The program is paused.
    remedy: Take a dump.
    keep_firing_for: 0s
    source: a test
";

fn pipeline(clock: Clock, spans: SpanOptions) -> (Pipeline, Arc<OutputStore>) {
    let (pipeline, kept) = crate::pipeline::pipeline(PipelineSettings {
        clock,
        spans,
        ..PipelineSettings::default()
    });
    pipeline.set_rules(Arc::new(rules(RULES)), Moment::from_ns(BASE));
    (pipeline, kept)
}

fn feed(pipeline: &Pipeline) -> Feed {
    let identity = Identity {
        resource: vec![notices::attribute("service.name", "checkout")],
        ..Identity::new(RunKey { pid: 7, start_time: 1 }, "checkout")
    };
    let mut feed = pipeline.open(identity).unwrap();
    feed.time_base(TimeBase::at(BASE.into()));
    feed.state(RunState::Attached);
    feed
}

fn attribute<'a>(attributes: &'a [KeyValue], key: &str) -> Option<&'a Value> {
    let found = attributes.iter().find(|attribute| attribute.key == key)?;
    found.value.as_ref()?.value.as_ref()
}

fn text<'a>(attributes: &'a [KeyValue], key: &str) -> Option<&'a str> {
    match attribute(attributes, key)? {
        Value::StringValue(text) => Some(text),
        other => panic!("{key} is {other:?}"),
    }
}

fn texts(attributes: &[KeyValue], key: &str) -> Vec<String> {
    match attribute(attributes, key) {
        Some(Value::ArrayValue(array)) => {
            let text = |value: &AnyValue| match &value.value {
                Some(Value::StringValue(text)) => text.clone(),
                other => panic!("{other:?}"),
            };
            array.values.iter().map(text).collect()
        }
        None => Vec::new(),
        other => panic!("{key} is {other:?}"),
    }
}

fn number(attributes: &[KeyValue], key: &str) -> Option<i64> {
    match attribute(attributes, key)? {
        Value::IntValue(number) => Some(*number),
        other => panic!("{key} is {other:?}"),
    }
}

/// Scenario: a recording has background collections; only pauses of an hour or more qualify for spans, so only
/// anomalies are selected.
/// Guarantee: each collection on which a rule holds is reported, and at most one other collection per second while an
/// incident is open. The root span of an anomaly names its rules and has an event for each rule. If the most severe
/// rule is an error, the root span has the error status with the title of this rule. Child spans have no such data.
#[test]
fn anomalies_are_reported_regardless_of_selection() {
    let spans = SpanOptions {
        min_pause: Duration::from_secs(3600),
        max_per_second: 1,
        ..SpanOptions::default()
    };
    let (pipeline, kept) = pipeline(Clock::Recorded, spans);
    let mut feed = feed(&pipeline);
    let mut expected = Vec::new();
    for outcome in outcomes("svc8-workstation") {
        if let Outcome::Collection(gc) = &outcome
            && gc.generation == Some(2)
        {
            let background = gc.gc_type == Some(clr_gc::event::GcType::BACKGROUND);
            expected.push((i64::from(gc.number), background));
        }
        feed.observe(outcome);
    }
    assert!(expected.iter().any(|(_, background)| *background));
    let reported = kept.spans.lock().unwrap();
    let (roots, children): (Vec<&Span>, Vec<&Span>) = reported.iter().partition(|span| span.parent_span_id.is_empty());
    let is_anomalous = |root: &&Span| root.attributes.iter().any(|pair| pair.key == "gcwatch.anomaly.rules");
    let (roots, others): (Vec<&Span>, Vec<&Span>) = roots.into_iter().partition(is_anomalous);
    // One other collection per second while an incident is open.
    let second = |root: &&Span| root.start_time_unix_nano / 1_000_000_000;
    let seconds: std::collections::BTreeSet<u64> = reported.iter().map(|span| second(&span)).collect();
    assert!(others.len() <= seconds.len(), "{}", others.len());
    let numbers: Vec<(i64, bool)> = roots
        .iter()
        .map(|root| {
            let rules = texts(&root.attributes, "gcwatch.anomaly.rules");
            (
                number(&root.attributes, "gcwatch.gc.number").unwrap(),
                rules == ["test.background", "test.full"],
            )
        })
        .collect();
    assert_eq!(numbers, expected);
    for (root, (number, background)) in roots.iter().zip(&expected) {
        let ids: Vec<&str> = root
            .events
            .iter()
            .map(|event| text(&event.attributes, "gcwatch.rule.id").unwrap())
            .collect();
        assert_eq!(ids, texts(&root.attributes, "gcwatch.anomaly.rules"));
        assert!(root.events.iter().all(|event| event.name == "gcwatch.anomaly"));
        let times = root.start_time_unix_nano..=root.end_time_unix_nano;
        assert!(root.events.iter().all(|event| times.contains(&event.time_unix_nano)));
        let status = root.status.as_ref().filter(|_| *background);
        assert_eq!(
            root.status.is_some(),
            *background,
            "{number}: a warning does not set the error status"
        );
        if let Some(status) = status {
            assert_eq!(
                (status.code, status.message.as_str()),
                (StatusCode::Error.into(), "A background collection")
            );
        }
    }
    assert!(
        children
            .iter()
            .all(|child| child.events.is_empty() && child.status.is_none())
    );
    // The event of a new alert contains the alert's summary.
    let first = roots.iter().find(|root| root.status.is_some()).unwrap();
    let number = number(&first.attributes, "gcwatch.gc.number").unwrap();
    let summary = text(&first.events[0].attributes, "gcwatch.anomaly.summary");
    assert_eq!(summary, Some(format!("Background collection {number}").as_str()));
}

/// Scenario: the same recording is played to its end.
/// Guarantee: each alert starts and ends once. Both log records have the ids of the span of the collection that started
/// the alert, the number of this collection, and the summary of the alert. The last alert ends with the process. The
/// counter equals the number of alerts, and no alert fires after the end of the process.
#[test]
fn notices_have_ids_of_collection_span() {
    let (pipeline, kept) = pipeline(Clock::Recorded, SpanOptions::default());
    let mut feed = feed(&pipeline);
    for outcome in outcomes("svc8-workstation") {
        feed.observe(outcome);
    }
    let firing = Records::new(&pipeline).alerts();
    assert_eq!(
        (firing[0].alert.rule.as_str(), firing[0].pid),
        ("test.background", 7),
        "the most severe alert comes first"
    );
    assert_eq!(firing[0].trace_id.as_ref().map(String::len), Some(32));
    let (_, metrics) = Records::new(&pipeline).collect(BASE).pop().unwrap();
    let sum = |name: &str| -> Vec<(String, i64)> {
        let points = points(&metrics, name).iter();
        let of_rule = points.map(|point| (text(&point.attributes, "gcwatch.rule.id").unwrap(), count(point)));
        of_rule.map(|(rule, count)| (rule.to_owned(), count)).collect()
    };
    let (active, began) = (sum("gcwatch.alerts.active"), sum("gcwatch.anomalies"));
    assert!(active.contains(&("test.background".to_owned(), 1)), "{active:?}");
    feed.end();

    let notices = kept.notices();
    let spans = kept.spans.lock().unwrap();
    let mut open: Vec<&Notice> = Vec::new();
    let mut fired = std::collections::BTreeMap::new();
    for notice in &notices {
        let alert = notice.transition.alert();
        let record = log_record(&notice.transition, notice.group.as_deref(), notice.span, Wall::UNIX, 5);
        let root = spans.iter().find(|span| span.span_id == record.span_id).unwrap();
        assert_eq!(root.trace_id, record.trace_id);
        assert_eq!(
            number(&root.attributes, "gcwatch.gc.number"),
            alert.collection.map(i64::from)
        );
        assert_eq!(
            number(&record.attributes, "gcwatch.gc.number"),
            alert.collection.map(i64::from)
        );
        assert_eq!(record.event_name, "gcwatch.anomaly");
        let severity = match &notice.transition {
            Transition::Ended(..) => (9, "INFO"),
            Transition::Fired(_) if *alert.rule.id == *"test.background" => (17, "ERROR"),
            Transition::Fired(_) => (13, "WARN"),
        };
        assert_eq!((record.severity_number, record.severity_text.as_str()), severity);
        assert_eq!(
            record.body.unwrap().value,
            Some(Value::StringValue(alert.summary.to_string()))
        );
        let state = text(&record.attributes, "gcwatch.anomaly.state");
        match &notice.transition {
            Transition::Fired(_) => {
                assert_eq!((state, record.time_unix_nano), (Some("firing"), alert.started.ns()));
                assert!(text(&record.attributes, "gcwatch.rule.remedy").is_some());
                *fired.entry(alert.rule.id.to_string()).or_insert(0) += 1;
                open.push(notice);
            }
            Transition::Ended(_, ending) => {
                assert_eq!(
                    (state, Some(record.time_unix_nano)),
                    (Some("ended"), alert.ended.map(Moment::ns))
                );
                assert_eq!(text(&record.attributes, "gcwatch.anomaly.ending"), Some(ending.name()));
                let number = |notice: &&Notice| notice.transition.alert().number;
                let place = open.iter().position(|one| number(one) == alert.number).unwrap();
                assert_eq!(open.swap_remove(place).span, notice.span);
            }
        }
    }
    assert!(open.is_empty(), "every alert ends: {open:?}");
    let last = notices.last().unwrap();
    assert!(
        matches!(last.transition, Transition::Ended(_, Ending::ProcessEnded)),
        "{last:?}"
    );
    assert_eq!(began, fired.into_iter().collect::<Vec<_>>());
    assert!(Records::new(&pipeline).alerts().is_empty());
    let counts = pipeline.rule_counts();
    assert!(
        counts["test.full"].evaluations > 90 && counts["test.full"].failures == 0,
        "{counts:?}"
    );
}

/// Scenario: a recording has ten collections per second, all of which become spans; a rule on the process holds after
/// some young collections.
/// Guarantee: one alert of this rule starts at a full second. Each alert has the ids of the span of the collection that
/// it names.
#[test]
fn alert_between_collections_has_ids_of_newest_span() {
    const OFTEN: &str = "\
apiVersion: gcwatch/v1
rules:
  - id: test.often
    title: Young collections
    on: process
    let: {young: {fn: count, where: gc.generation < 2, over: 1m}}
    when: young > 12.0
    keep_firing_for: 0s
    cooldown: 0s
    severity: warning
    summary: Often
    description: Often.
    remedy: None is needed.
    source: a test
";
    let spans = SpanOptions {
        min_pause: Duration::ZERO,
        max_per_second: u32::MAX,
        ..SpanOptions::default()
    };
    let (pipeline, kept) = pipeline(Clock::Recorded, spans);
    pipeline.set_rules(Arc::new(rules(OFTEN)), Moment::from_ns(BASE));
    let mut feed = feed(&pipeline);
    for outcome in outcomes("net10-steady") {
        feed.observe(outcome);
    }
    let notices = kept.notices();
    let spans = kept.spans.lock().unwrap();
    let mut at_seconds = 0;
    for notice in &notices {
        let Transition::Fired(alert) = &notice.transition else {
            continue;
        };
        let Some(collection) = alert.collection else { continue };
        let ids = notice.span.unwrap_or_else(|| panic!("{alert:?}"));
        let root = spans.iter().find(|span| span.span_id == ids.span_id).unwrap();
        assert_eq!(number(&root.attributes, "gcwatch.gc.number"), Some(collection.into()));
        at_seconds += usize::from(alert.started.ns().is_multiple_of(SECOND));
    }
    assert_eq!(at_seconds, 1, "{notices:?}");
}

/// Scenario: a collection of a live process starts and does not finish; no further byte arrives, and only time passes.
/// Then the process is no longer read.
/// Guarantee: the rule fires after 5 s to 8 s, and its alert ends with the collection. While the process is not read,
/// no alert about it is reported.
#[test]
fn unfinished_collection_is_reported_when_time_passes() {
    let (pipeline, kept) = pipeline(Clock::Live, SpanOptions::default());
    let mut feed = feed(&pipeline);
    let now = clocks();
    feed.time_base(TimeBase::at(now.moment().ns().into()));
    feed.open(OpenOperations {
        stop: Some(0),
        collection: Some(1_000_000),
        ..OpenOperations::default()
    });
    for second in 0..=4 {
        pipeline.tick(now.after(second * SECOND), Duration::ZERO);
    }
    assert!(kept.notices().is_empty(), "a short collection does not fire");
    for second in 5..=8 {
        pipeline.tick(now.after(second * SECOND), Duration::ZERO);
    }
    let notices = kept.notices();
    let [notice] = notices.as_slice() else {
        panic!("{notices:?}")
    };
    assert_eq!(*notice.transition.alert().rule.id, *"test.hangs");
    assert!(
        notice
            .transition
            .alert()
            .summary
            .starts_with("A collection has been under way for ")
    );
    assert_eq!((notice.span, notice.run.pid), (None, 7));

    feed.open(OpenOperations::default());
    for second in 9..=12 {
        pipeline.tick(now.after(second * SECOND), Duration::ZERO);
    }
    let notices = kept.notices();
    assert!(
        matches!(
            &notices[..],
            [Notice {
                transition: Transition::Ended(_, Ending::Cleared),
                ..
            }]
        ),
        "{notices:?}"
    );

    feed.open(OpenOperations {
        collection: Some(10_000_000_000),
        ..OpenOperations::default()
    });
    feed.state(RunState::Detached {
        detail: "the session ended".to_owned(),
    });
    for second in 13..=60 {
        pipeline.tick(now.after(second * SECOND), Duration::ZERO);
    }
    assert!(kept.notices().is_empty(), "a process that is not read causes no alerts");
}

/// Scenario: three processes exit: the stream of the first breaks off, the runtime closed the stream of the second, and
/// it is unknown how the stream of the third ended.
/// Guarantee: a rule on `process.exit` holds for the first process only, in the evaluation after the exit.
#[test]
fn abrupt_exit_is_known_to_rules() {
    const EXIT: &str = "\
apiVersion: gcwatch/v1
rules:
  - id: test.exit
    title: The process ended abruptly
    on: process
    when: process.exit == 'abrupt'
    severity: critical
    summary: The process ended abruptly
    description: Its stream broke off.
    remedy: None is needed.
    source: a test
";
    for (closed, expected) in [(Some(false), 1), (Some(true), 0), (None, 0)] {
        let (pipeline, kept) = pipeline(Clock::Live, SpanOptions::default());
        let now = clocks();
        pipeline.set_rules(Arc::new(rules(EXIT)), now.moment());
        let mut feed = feed(&pipeline);
        pipeline.tick(now.after(SECOND), Duration::ZERO);
        assert!(kept.notices().is_empty(), "the process runs");
        if let Some(in_order) = closed {
            feed.closed(in_order);
        }
        feed.end();
        let fired = kept.notices();
        let fired = fired
            .iter()
            .filter(|notice| matches!(notice.transition, Transition::Fired(_)));
        assert_eq!(fired.count(), expected, "{closed:?}");
    }
}

/// Scenario: a collection does not finish, and one second after its start the wall clock is set forward or back by an
/// hour, by NTP or because the machine was suspended.
/// Guarantee: the rule fires as if the clock had not been set, and reports the elapsed time as the duration of the
/// collection; the alert ends with the collection.
#[test]
fn wall_clock_change_does_not_count_as_elapsed_time() {
    const HOUR: i64 = 3_600_000_000_000;
    for by_ns in [HOUR, -HOUR] {
        let (pipeline, kept) = pipeline(Clock::Live, SpanOptions::default());
        let mut feed = feed(&pipeline);
        let now = clocks();
        feed.time_base(TimeBase::at(now.moment().ns().into()));
        let open = OpenOperations {
            stop: Some(0),
            collection: Some(1_000_000),
            ..OpenOperations::default()
        };
        feed.open(open);
        pipeline.tick(now.after(SECOND), Duration::ZERO);
        let now = now.set_by(by_ns);
        for second in 2..=4 {
            pipeline.tick(now.after(second * SECOND), Duration::ZERO);
        }
        assert!(kept.notices().is_empty(), "set by {by_ns}");
        for second in 5..=8 {
            pipeline.tick(now.after(second * SECOND), Duration::ZERO);
        }
        let notices = kept.notices();
        let [notice] = notices.as_slice() else {
            panic!("set by {by_ns}: {notices:?}")
        };
        let alert = notice.transition.alert();
        assert_eq!(*alert.rule.id, *"test.hangs");
        assert!(
            ["for 5 s", "for 6 s"].iter().any(|text| alert.summary.ends_with(text)),
            "{}",
            alert.summary
        );
        // The start time is displayed by the clock as it is set now.
        let began = i128::from(pipeline.wall().unix_ns(alert.started)) - now.unix_ns;
        assert!((4..8).contains(&(began / i128::from(SECOND))), "{began}");
        let shown = Records::new(&pipeline).alerts()[0].since.clone();
        assert_eq!(shown, now.wall().rfc3339(alert.started), "set by {by_ns}");
        feed.open(OpenOperations::default());
        for second in 9..=12 {
            pipeline.tick(now.after(second * SECOND), Duration::ZERO);
        }
        let notices = kept.notices();
        assert!(
            matches!(&notices[..], [notice] if matches!(notice.transition, Transition::Ended(_, Ending::Cleared))),
            "set by {by_ns}: {notices:?}"
        );
    }
}

/// Scenario: the rules change while an alert fires: first a rule is added, then the rule of the alert is removed.
/// Guarantee: the alert survives the first change and ends with the second, each rule is listed with its state, and
/// evaluations stay counted.
#[test]
fn rule_change_keeps_unchanged_rules() {
    let (pipeline, kept) = pipeline(Clock::Recorded, SpanOptions::default());
    let mut feed = feed(&pipeline);
    for outcome in outcomes("svc8-workstation") {
        feed.observe(outcome);
    }
    kept.notices();
    let before = pipeline.rule_counts()["test.background"].evaluations;
    let more = RULES
        .replace("  - id: test.full\n", "  - id: test.more\n")
        .replace("A full collection", "Another name");
    pipeline.set_rules(Arc::new(rules(&more)), Moment::from_ns(BASE));
    let ends: Vec<String> = kept
        .notices()
        .iter()
        .map(|notice| notice.transition.alert().rule.id.to_string())
        .collect();
    assert!(!ends.contains(&"test.background".to_owned()), "{ends:?}");
    assert_eq!(Records::new(&pipeline).alerts()[0].alert.rule, "test.background");
    assert_eq!(pipeline.rule_counts()["test.background"].evaluations, before);
    let views = Records::new(&pipeline).rule_views(None);
    let ids: Vec<&str> = views.iter().map(|view| view.id.as_str()).collect();
    assert_eq!(ids, ["test.background", "test.more", "test.hangs"]);
    assert_eq!(
        (views[0].states["firing"], views[0].firing[0].pid, views[0].health),
        (1, 7, "ok")
    );
    let firing = |pid| {
        Records::new(&pipeline).rule_views(Some(pid))[0]
            .states
            .get("firing")
            .copied()
    };
    assert_eq!(
        (firing(7), firing(8)),
        (Some(1), None),
        "one process fires the first rule, none the second"
    );
    assert!(views[0].location.starts_with("test.yaml:3:"), "{}", views[0].location);

    pipeline.set_rules(Arc::default(), Moment::from_ns(BASE));
    let notices = kept.notices();
    assert!(
        notices.iter().any(|notice| matches!(&notice.transition, Transition::Ended(alert, Ending::RuleChanged) if *alert.rule.id == *"test.background")),
        "{notices:?}"
    );
    assert!(
        Records::new(&pipeline).alerts().is_empty()
            && Records::new(&pipeline).rule_views(None).is_empty()
            && pipeline.rule_counts().is_empty()
    );
}

/// Scenario: the environment of a process sets a heap limit; its collections leave more or less committed memory than
/// the limit; then the limit is read again.
/// Guarantee: the rules ignore a limit that is not in force, starting with the first collection that exceeds it.
#[test]
fn limit_that_heap_exceeds_is_ignored() {
    const LIMITED: &str = "\
apiVersion: gcwatch/v1
rules:
  - id: test.limited
    title: A full collection under a limit
    on: gc
    select: has(process.heap_limit)
    when: gc.generation == 2
    severity: warning
    summary: The limit is {{ process.heap_limit }}
    description: All generations.
    remedy: None is needed.
    source: a test
";
    let fired = |heap_limit| {
        let (pipeline, kept) = pipeline(Clock::Recorded, SpanOptions::default());
        pipeline.set_rules(Arc::new(rules(LIMITED)), Moment::from_ns(BASE));
        let mut feed = feed(&pipeline);
        let measured = ProcessReading {
            heap_limit: Some(heap_limit),
            ..ProcessReading::default()
        };
        pipeline.measured(feed.run(), measured, Moment::from_ns(BASE));
        for (at, outcome) in outcomes("svc8-workstation").into_iter().enumerate() {
            feed.observe(outcome);
            if at == 20 {
                pipeline.measured(feed.run(), measured, Moment::from_ns(BASE));
            }
        }
        kept.notices().len()
    };
    assert_eq!(fired(1 << 20), 0);
    assert_ne!(fired(1 << 40), 0);
}

/// Scenario: the control group of a process has a limit of 450 MiB, so that three quarters of it seem to be the heap
/// limit. The runtime sends its settings, with or without a limit; one process is configured to assume a memory size.
/// Guarantee: rules and views use the settings that the runtime reports. If the runtime does not see the container's
/// limit, a note contains the remedy for its version, and three quarters of the limit do not count as heap limit.
#[test]
fn container_limit_unseen_by_runtime_is_ignored() {
    const LIMIT: u64 = 450 << 20;
    let seen = |runtime: &str, settings: &[(&str, Value)]| {
        let (pipeline, _kept) = pipeline(Clock::Recorded, SpanOptions::default());
        let mut feed = feed(&pipeline);
        let figures = processes::container::Figures {
            memory_limit: Some(LIMIT),
            ..Default::default()
        };
        let measured = ProcessReading {
            figures: Some(figures),
            heap_limit: Some(LIMIT / 4 * 3),
            machine: Some(64 << 30),
            ..ProcessReading::default()
        };
        pipeline.measured(feed.run(), measured, Moment::from_ns(BASE));
        let settings = settings
            .iter()
            .map(|(name, value)| gc_telemetry::value::key_value(name, value.clone()));
        feed.learned(Some(runtime.to_owned()), settings.collect());
        let memory = Records::new(&pipeline).process(7).unwrap().memory;
        (memory.heap_limit, memory.heap_limit_note)
    };
    let sent = ("gcwatch.gc.settings.large_pages", Value::BoolValue(false));
    let limit = ("gcwatch.gc.settings.hard_limit", Value::IntValue(96 << 20));
    let assumed = ("gcwatch.gc.settings.physical_memory", Value::IntValue(1 << 30));
    assert_eq!(
        seen("10.0.10", &[]),
        (Some(LIMIT / 4 * 3), None),
        "the runtime has not sent its settings"
    );
    assert_eq!(seen("10.0.10", &[sent.clone(), limit]), (Some(96 << 20), None));
    assert_eq!(seen("10.0.10", &[sent.clone(), assumed]), (None, None));
    let note = "the runtime does not see the container's limit of 450 MiB: ";
    for (runtime, remedy) in [
        ("9.0.22", "10.0.11 or later does, or set DOTNET_GCHeapHardLimit"),
        ("10.0.10", "10.0.11 or later does, or set DOTNET_GCHeapHardLimit"),
        (
            "10.0.11",
            "if it came after the start, restart the process; or set DOTNET_GCHeapHardLimit",
        ),
        (
            "11.0.0",
            "if it came after the start, restart the process; or set DOTNET_GCHeapHardLimit",
        ),
    ] {
        let (limit, text) = seen(runtime, std::slice::from_ref(&sent));
        assert_eq!((limit, text), (None, Some(format!("{note}{remedy}"))), "{runtime}");
    }
}

/// An outlet that lets another thread end all incidents while it delivers the first start.
#[derive(Debug, Default)]
struct Overtaking {
    pipeline: OnceLock<Pipeline>,
    ending: Mutex<Option<JoinHandle<()>>>,
    ended: Event,
    changes: Mutex<Vec<&'static str>>,
}

/// An event that happens once.
#[derive(Debug, Default)]
struct Event(Mutex<bool>, Condvar);

impl Event {
    fn happens(&self) {
        *self.0.lock().unwrap() = true;
        self.1.notify_all();
    }

    fn wait(&self, most: Duration) {
        let waited = self
            .1
            .wait_timeout_while(self.0.lock().unwrap(), most, |happened| !*happened);
        drop(waited.unwrap());
    }
}

impl Outlet for Overtaking {
    fn spans(&self, _resource: &Arc<Origin>, _spans: EncodedSpans) {}

    fn metrics(&self, _resource: &Arc<Origin>, _metrics: Vec<Metric>) {}

    fn alerts(&self, _resource: &Arc<Origin>, notices: Notices) {
        for notice in notices.incidents {
            match notice.change {
                IncidentChange::Began(_) => {
                    let mut ending = self.ending.lock().unwrap();
                    if ending.is_none() {
                        let pipeline = self.pipeline.get().unwrap().clone();
                        *ending = Some(std::thread::spawn(move || pipeline.unwatch_all(clocks().moment())));
                        drop(ending);
                        // The other thread must not finish now, so no event can be awaited: wait for a fixed time.
                        self.ended.wait(Duration::from_millis(300));
                    }
                    self.changes.lock().unwrap().push("began");
                }
                IncidentChange::Ended(_) => {
                    self.changes.lock().unwrap().push("ended");
                    self.ended.happens();
                }
                _ => {}
            }
        }
    }
}

/// Scenario: while the start of an incident is being delivered to the receivers, another thread ends all incidents.
/// Guarantee: receivers get the start first.
#[test]
fn end_does_not_overtake_start() {
    let outlet = Arc::new(Overtaking::default());
    let settings = PipelineSettings {
        clock: Clock::Live,
        ..PipelineSettings::default()
    };
    let pipeline = Pipeline::new(settings, Arc::clone(&outlet) as Arc<dyn Outlet>);
    outlet.pipeline.set(pipeline.clone()).unwrap();
    pipeline.set_rules(Arc::new(rules(RULES)), clocks().moment());
    let mut feed = feed(&pipeline);
    feed.time_base(TimeBase::at(clocks().moment().before(30 * SECOND).ns().into()));
    for outcome in outcomes("svc8-workstation") {
        feed.observe(outcome);
        if outlet.ending.lock().unwrap().is_some() {
            break;
        }
    }
    outlet.ending.lock().unwrap().take().unwrap().join().unwrap();
    assert_eq!(*outlet.changes.lock().unwrap(), ["began", "ended"]);
}
