//! The pipeline from outcomes to output, fed with recordings of real processes.

use std::sync::{Arc, Mutex};

use base::run_key::RunKey;
use base::time::{Moment, TimeBase};
use delivery::alerts::{Notice, Notices};
use gc_telemetry::origin::Origin;
use gc_telemetry::spans::EncodedSpans;
use gcwatch::pipeline::{Clock, Outlet, Pipeline, PipelineSettings, ProcessReading, Records};
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;
use opentelemetry_proto::tonic::metrics::v1::{Metric, NumberDataPoint};
use opentelemetry_proto::tonic::trace::v1::Span;
use processes::container::{ContainerIdentity, Figures};
use processes::surroundings::Surroundings;
use processes::{Identity, Provenance, RunState, StreamProgress};
use recording::Recording;
use recording::source::Source;
use targets::sink::{RunSink as _, Sink as _};
use test_support::notices::attribute;
use test_support::recordings;
use test_support::replay::{outcomes, stage};
use web::Views as _;

/// An outlet that stores the output of a pipeline.
#[derive(Debug, Default)]
pub(crate) struct OutputStore {
    pub(crate) spans: Mutex<Vec<Span>>,
    metrics: Mutex<Vec<Vec<Metric>>>,
    notices: Mutex<Vec<Notice>>,
}

impl Outlet for OutputStore {
    fn spans(&self, _resource: &Arc<Origin>, spans: EncodedSpans) {
        self.spans.lock().unwrap().extend(spans.decode().unwrap());
    }

    fn metrics(&self, _resource: &Arc<Origin>, metrics: Vec<Metric>) {
        self.metrics.lock().unwrap().push(metrics);
    }

    fn alerts(&self, resource: &Arc<Origin>, notices: Notices) {
        assert!(resource.attributes.iter().any(|one| one.key == "service.name"));
        assert!(!notices.is_empty());
        self.notices.lock().unwrap().extend(notices.alerts);
    }
}

impl OutputStore {
    pub(crate) fn notices(&self) -> Vec<Notice> {
        std::mem::take(&mut *self.notices.lock().unwrap())
    }
}

fn settings() -> PipelineSettings {
    let mut settings = PipelineSettings {
        clock: Clock::Recorded,
        ..PipelineSettings::default()
    };
    settings.spans.max_per_second = u32::MAX;
    settings.spans.min_pause = std::time::Duration::ZERO;
    settings
}

pub(crate) fn pipeline(settings: PipelineSettings) -> (Pipeline, Arc<OutputStore>) {
    let kept = Arc::new(OutputStore::default());
    (Pipeline::new(settings, Arc::clone(&kept) as Arc<dyn Outlet>), kept)
}

fn identity(pid: u32) -> Identity {
    Identity::new(RunKey { pid, start_time: 7 }, format!("process-{pid}"))
}

/// Returns the points of a sum.
pub(crate) fn points<'m>(metrics: &'m [Metric], name: &str) -> &'m [NumberDataPoint] {
    let metric = metrics.iter().find(|metric| metric.name == name).unwrap();
    let Some(Data::Sum(sum)) = &metric.data else {
        panic!("{metric:?} is not a sum");
    };
    &sum.data_points
}

pub(crate) fn count(point: &NumberDataPoint) -> i64 {
    match point.value {
        Some(Value::AsInt(value)) => value,
        ref other => panic!("{other:?} is not a count"),
    }
}

/// Returns the sum over the points of `dotnet.gc.collections`.
fn collections(metrics: &[Metric]) -> i64 {
    points(metrics, "dotnet.gc.collections").iter().map(count).sum()
}

/// Scenario: each recording is replayed through the pipeline like a live process.
/// Guarantee: the numbers of root spans and collections match `analyze`, the metrics are exported a last time, and the
/// run is removed.
#[test]
fn recording_leaves_no_run_behind() {
    for name in [
        "net10-steady",
        "svc8-workstation",
        "net10-threads-server-datas",
        "net31-steady",
        "aot9-steady",
    ] {
        let (pipeline, kept) = pipeline(settings());
        let stage = stage(&pipeline, name, name);
        let views = Records::new(&pipeline).targets();
        stage.end();

        let whole = Recording::read(
            &mut Source::open(&recordings::path(name)).unwrap(),
            clr_gc::stream::Scope::Collections,
            |_| {},
        );
        let expected: u64 = whole.processes.iter().map(|(_, history)| history.totals.count).sum();
        let roots = kept
            .spans
            .lock()
            .unwrap()
            .iter()
            .filter(|span| span.parent_span_id.is_empty())
            .count();
        assert_eq!(roots as u64, expected, "{name}");
        assert_eq!(
            views.iter().map(|view| view.collections).sum::<u64>(),
            expected,
            "{name}"
        );
        assert_eq!(
            views.iter().map(|view| view.events).sum::<u64>(),
            whole.stream.events,
            "{name}"
        );
        let exported = kept.metrics.lock().unwrap();
        assert_eq!(exported.len(), whole.processes.len(), "{name}");
        let reported: i64 = exported.iter().map(|metrics| collections(metrics)).sum();
        assert_eq!(reported.cast_unsigned(), expected, "{name}");
        assert!(pipeline.runs().is_empty(), "{name}");
    }
}

/// Scenario: a session ends, and another session starts in the same run of a process.
/// Guarantee: the counters of collections, events and losses continue, and the totals keep their start time.
#[test]
fn totals_continue_in_new_session() {
    let (pipeline, _kept) = pipeline(settings());
    let outcomes = outcomes("net10-steady");
    let half = outcomes.len() / 2;
    let mut parts = outcomes.into_iter();
    let mut starts = Vec::new();
    for (part, lost) in [(half, 3), (usize::MAX, 5)] {
        let mut feed = pipeline.open(identity(1)).unwrap();
        feed.time_base(TimeBase::at(1_000_000_000));
        feed.state(RunState::Attaching);
        feed.state(RunState::Attached);
        for outcome in parts.by_ref().take(part) {
            feed.observe(outcome);
        }
        feed.progress(StreamProgress {
            bytes: 10,
            events: 100,
            lost_events: Some(lost),
            undecodable: 0,
        });
        let (_, metrics) = Records::new(&pipeline).collect(2_000_000_000).pop().unwrap();
        let points = points(&metrics, "dotnet.gc.collections");
        starts.extend(points.iter().map(|point| point.start_time_unix_nano));
    }
    let view = Records::new(&pipeline).targets().pop().unwrap();
    assert_eq!((view.sessions, view.events, view.lost_events), (2, 200, Some(8)));
    assert_eq!(view.state, "detached", "the feed is dropped");
    let (_, metrics) = Records::new(&pipeline).collect(2_000_000_000).pop().unwrap();
    assert_eq!(collections(&metrics).cast_unsigned(), view.collections);
    assert!(view.collections > half as u64);
    starts.dedup();
    assert_eq!(starts.len(), 1, "all points have one start time: {starts:?}");
}

/// Scenario: there are more processes than the limit; then one of them exits.
/// Guarantee: the excess process is refused and counted; after the exit, another process is accepted.
#[test]
fn runs_are_bounded() {
    let (pipeline, _kept) = pipeline(PipelineSettings {
        max_runs: 2,
        ..settings()
    });
    let first = pipeline.open(identity(1)).unwrap();
    let _second = pipeline.open(identity(2)).unwrap();
    assert!(pipeline.open(identity(3)).is_err());
    assert_eq!(pipeline.counts().over_limit, 1);
    first.end();
    assert!(pipeline.open(identity(3)).is_ok());
}

/// Scenario: gcwatch cannot attach to a process, then attaches to it; then the process exits.
/// Guarantee: the process is listed once with its newest state, and not listed after its exit.
#[test]
fn process_is_listed_with_its_newest_state() {
    let (pipeline, _kept) = pipeline(settings());
    let unattachable = RunState::Unattachable {
        reason: "silent".to_owned(),
        detail: "it does not answer".to_owned(),
    };
    pipeline.note(&identity(5), unattachable);
    let view = Records::new(&pipeline).targets().pop().unwrap();
    assert_eq!((view.state, view.reason.as_deref()), ("unattachable", Some("silent")));
    let mut feed = pipeline.open(identity(5)).unwrap();
    feed.state(RunState::Attached);
    let states: Vec<&str> = Records::new(&pipeline)
        .targets()
        .iter()
        .map(|view| view.state)
        .collect();
    assert_eq!(states, ["attached"]);
    drop(feed);
    pipeline.forget(identity(5).key);
    assert!(Records::new(&pipeline).targets().is_empty());
}

/// Surroundings that return the given attributes.
#[derive(Debug, Default)]
struct FixedSurroundings(Mutex<Vec<KeyValue>>);

impl Surroundings for FixedSurroundings {
    fn attributes(&self, container: &ContainerIdentity) -> Vec<KeyValue> {
        assert_eq!(
            container.container_id.as_deref(),
            Some("c1"),
            "the lookup uses the detected container"
        );
        self.0.lock().unwrap().clone()
    }
}

/// Scenario: the pod of a process becomes known late, then in more detail; the process is attached to again, and the
/// pod is forgotten.
/// Guarantee: the attributes of the pod enter the resource when they become known; they override detected attributes
/// and are overridden by the attributes that the process sets. A new session removes no attribute, and the last known
/// attributes of the pod stay.
#[test]
fn late_metadata_is_reported() {
    let live = PipelineSettings {
        clock: Clock::Live,
        ..settings()
    };
    let (pipeline, _kept) = pipeline(live);
    let says = Arc::new(FixedSurroundings::default());
    pipeline.set_surroundings(Some(Arc::clone(&says) as Arc<dyn Surroundings>));
    let found = vec![
        attribute("service.name", "Found"),
        attribute("team", "own"),
        attribute("container.id", "lie"),
    ];
    let mut feed = pipeline
        .open(Identity {
            resource: found.clone(),
            provenance: Provenance {
                own_names: vec!["team".to_owned()],
                container: ContainerIdentity {
                    container_id: Some("c1".to_owned()),
                    pod_uid: None,
                },
                ..Provenance::default()
            },
            ..identity(1)
        })
        .unwrap();
    let shown = |key: &str| {
        let target = Records::new(&pipeline).targets().remove(0);
        target
            .resource
            .get(key)
            .and_then(|value| value.as_str().map(str::to_owned))
    };
    assert_eq!(shown("service.name").as_deref(), Some("Found"));
    *says.0.lock().unwrap() = vec![
        attribute("service.name", "web"),
        attribute("team", "theirs"),
        attribute("k8s.pod.name", "web-1"),
    ];
    assert_eq!(pipeline.surroundings_changed(Moment::from_ns(1)), 1);
    assert_eq!(
        pipeline.surroundings_changed(Moment::from_ns(2)),
        0,
        "unchanged attributes are not a change"
    );
    let is_known = || {
        assert_eq!(shown("service.name").as_deref(), Some("web"));
        assert_eq!(shown("team").as_deref(), Some("own"));
        assert_eq!(shown("k8s.pod.name").as_deref(), Some("web-1"));
    };
    is_known();
    // A second session detects the same attributes.
    feed.learned(Some("10.0.0".to_owned()), found);
    is_known();
    assert_eq!(shown("k8s.node.name"), None);
    says.0.lock().unwrap().push(attribute("k8s.node.name", "node-1"));
    assert_eq!(pipeline.surroundings_changed(Moment::from_ns(3)), 1);
    assert_eq!(shown("k8s.node.name").as_deref(), Some("node-1"));
    says.0.lock().unwrap().clear();
    assert_eq!(pipeline.surroundings_changed(Moment::from_ns(4)), 0);
    is_known();
}

/// Scenario: the figures of a container are read, then a reading fails; figures of a process without a container are
/// read.
/// Guarantee: the figures become metrics of the process, whose counters start with the first reading. Unknown values
/// have no points. After the failed reading, the process has no points of these metrics. The process without a
/// container does not have these metrics.
#[test]
fn container_figures_are_metrics() {
    let (pipeline, _kept) = pipeline(settings());
    let contained = Identity {
        resource: vec![attribute("container.id", "c")],
        ..identity(1)
    };
    let mut feed = pipeline.open(contained).unwrap();
    feed.state(RunState::Attached);
    let run = Arc::clone(feed.run());
    let mut outside = pipeline.open(identity(2)).unwrap();
    outside.state(RunState::Attached);
    let reported = || {
        let collected = Records::new(&pipeline).collect(5);
        let metrics = collected.iter().flat_map(|(_, metrics)| metrics);
        let of_container = metrics.filter(|metric| metric.name.contains("container."));
        let point = |metric: &Metric| match metric.data.as_ref().unwrap() {
            Data::Sum(sum) => match sum.data_points[0].value.unwrap() {
                Value::AsInt(number) => number.to_string(),
                Value::AsDouble(number) => number.to_string(),
            },
            other => panic!("{other:?}"),
        };
        let mut reported: Vec<_> = of_container
            .map(|metric| format!("{} {}", metric.name, point(metric)))
            .collect();
        reported.sort();
        reported
    };
    assert!(reported().is_empty());
    let mut figures = Figures {
        memory_limit: Some(1000),
        cpu_limit: Some(0.5),
        ..Figures::default()
    };
    figures.memory.oom_kills = Some(7);
    let measured = |figures| ProcessReading {
        figures,
        ..ProcessReading::default()
    };
    pipeline.measured(&run, measured(Some(figures)), Moment::from_ns(1));
    figures.memory.oom_kills = Some(9);
    pipeline.measured(&run, measured(Some(figures)), Moment::from_ns(2));
    pipeline.measured(&Arc::clone(outside.run()), measured(Some(figures)), Moment::from_ns(2));
    assert_eq!(
        reported(),
        [
            "gcwatch.container.cpu.limit 0.5",
            "gcwatch.container.memory.limit 1000",
            "gcwatch.container.memory.oom_kills 2"
        ]
    );
    pipeline.measured(&run, ProcessReading::default(), Moment::from_ns(3));
    assert!(reported().is_empty());
}
