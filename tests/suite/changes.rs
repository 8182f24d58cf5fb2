//! Changes of the configuration of a service, from the collections of processes to the records and their file.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex};

use base::run_key::RunKey;
use base::time::TimeBase;
use clr_gc::gc::{Collection, Outcome};
use config::options::Options;
use delivery::alerts::Notices;
use gc_advice::change::{ChangeRecord, Measure, Outcome as Verdict};
use gc_telemetry::origin::Origin;
use gc_telemetry::spans::EncodedSpans;
use gc_telemetry::value::key_value;
use gcwatch::daemon::Services;
use gcwatch::pipeline::{Clock, Outlet, Pipeline, PipelineSettings, Records};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::metrics::v1::Metric;
use processes::{Identity, Provenance, RunState};
use targets::clocks;
use targets::sink::{RunSink as _, Sink as _};
use test_support::replay::outcomes;
use web::Views as _;

pub(crate) const MINUTE_NS: i128 = 60_000_000_000;
/// Start of the first version: 2026-11-29T08:00:00Z.
pub(crate) const START_NS: i128 = 1_795_939_200_000_000_000;
/// Minutes of a version: five blocks, and one more minute, which completes the last block.
pub(crate) const MINUTES: i128 = 27;

/// An outlet that keeps changes.
#[derive(Debug, Default)]
pub(crate) struct KeptChanges(Mutex<Vec<ChangeRecord>>);

impl Outlet for KeptChanges {
    fn spans(&self, _: &Arc<Origin>, _: EncodedSpans) {}

    fn metrics(&self, _: &Arc<Origin>, _: Vec<Metric>) {}

    fn alerts(&self, _: &Arc<Origin>, _: Notices) {}

    fn change(&self, resource: &Arc<Origin>, change: &ChangeRecord) {
        assert!(resource.attributes.iter().any(|one| one.key == "service.version"));
        self.0.lock().unwrap().push(change.clone());
    }
}

pub(crate) fn pipeline() -> (Pipeline, Arc<KeptChanges>) {
    let settings = PipelineSettings {
        clock: Clock::Recorded,
        ..PipelineSettings::default()
    };
    let kept = Arc::new(KeptChanges::default());
    (Pipeline::new(settings, Arc::clone(&kept) as Arc<dyn Outlet>), kept)
}

/// Returns the collections of a real process whose figures are all known.
fn collections() -> Vec<Collection> {
    let known = |outcome| match outcome {
        Outcome::Collection(collection) if !collection.hides_allocation() && collection.pause_ns.is_some() => {
            Some(*collection)
        }
        _ => None,
    };
    outcomes("net10-steady").into_iter().filter_map(known).collect()
}

/// Plays the collections of a real process repeatedly for some minutes, as a process of a version of the service
/// `shop`. Each pause is multiplied by `slower`.
pub(crate) fn play(pipeline: &Pipeline, (pid, version): (u32, &str), start: i128, minutes: i128, slower: i64) {
    let text = |value: &str| Value::StringValue(value.to_owned());
    let identity = Identity {
        resource: vec![
            key_value("service.name", text("shop")),
            key_value("service.version", text(version)),
        ],
        provenance: Provenance {
            own_names: vec!["service.name".to_owned()],
            ..Provenance::default()
        },
        ..Identity::new(RunKey { pid, start_time: 1 }, "Shop.dll")
    };
    let collections = collections();
    let last = collections
        .iter()
        .map(|collection| collection.last_event)
        .max()
        .unwrap();
    let length = i128::from(last) + 100_000_000;
    let mut feed = pipeline.open(identity).unwrap();
    let end = start + minutes * MINUTE_NS;
    feed.time_base(TimeBase::at(start));
    feed.state(RunState::Attached);
    for base in (start..end).step_by(usize::try_from(length).unwrap()) {
        feed.time_base(TimeBase::at(base));
        for collection in &collections {
            let mut collection = collection.clone();
            collection.pause_ns = collection.pause_ns.map(|ns| ns * slower);
            feed.observe(Outcome::Collection(Box::new(collection)));
        }
    }
    feed.end();
}

/// Scenario: two versions of a service run one after the other, for 27 minutes each; the pauses of the second version
/// are ten times as long. Their collections come from a recording of a real process.
/// Guarantee: after the second version starts, the record is `unknown` with the minutes left. In the end, the stopped
/// share and the median pause are worse, and the allocation and the live size are the same. The record is sent once.
/// The record is found by the pid of each version and without a pid, but not by an unknown pid.
#[test]
fn slower_version_is_reported_once() {
    let (pipeline, kept) = pipeline();
    let records = Records::new(&pipeline);
    let after = |minutes: i128| START_NS + minutes * MINUTE_NS;
    play(&pipeline, (1, "1"), after(0), MINUTES, 1);
    assert!(records.changes(None).is_empty());
    play(&pipeline, (2, "2"), after(MINUTES), 4, 10);
    pipeline.compare_changes();
    let early = records.changes(None);
    let [change] = early.as_slice() else {
        panic!("{early:?}")
    };
    assert_eq!(change.at.as_deref(), Some("2026-11-29T08:27:00Z"));
    assert!(
        change.minutes_left.is_some_and(|left| (20..=25).contains(&left)),
        "{change:?}"
    );
    assert!(!change.has_verdict() && kept.0.lock().unwrap().is_empty());

    play(&pipeline, (3, "2"), after(MINUTES + 4), MINUTES, 10);
    assert!(pipeline.has_comparisons());
    pipeline.compare_changes();
    assert!(!pipeline.has_comparisons());
    let changes = records.changes(None);
    assert_eq!(*kept.0.lock().unwrap(), changes);
    let change = &changes[0];
    let verdict = |measure| change.measure(measure).unwrap().verdict.unwrap();
    for (measure, expected) in [
        (Measure::StoppedShare, Verdict::Worse),
        (Measure::MedianPause, Verdict::Worse),
        (Measure::Live, Verdict::Same),
        (Measure::FullCollections, Verdict::Same),
        (Measure::Allocated, Verdict::Same),
    ] {
        assert_eq!(verdict(measure), expected, "{measure}: {:?}", change.measure(measure));
    }
    assert_eq!((change.minutes_left, &change.id), (None, &early[0].id));
    for pid in [1, 3] {
        assert_eq!(records.changes(Some(pid)), changes, "{pid}");
        assert_eq!(records.process(pid).unwrap().changes, changes, "{pid}");
    }
    assert!(records.changes(Some(99)).is_empty());
    let counts = pipeline.profile_counts();
    assert_eq!(
        (counts.changes, counts.refused_minutes, counts.evicted_services),
        (1, 0, 0)
    );
}

/// Opens the parts of a daemon with a state directory.
async fn daemon(state: &Path) -> Services {
    let options = Options {
        pipeline: PipelineSettings {
            clock: Clock::Recorded,
            ..PipelineSettings::default()
        },
        state_directory: Some(state.to_owned()),
        ..Options::default()
    };
    Services::open(&options).await.unwrap()
}

/// Scenario: a daemon observes the first version of a service and exits; the next daemon observes the second version
/// and exits; a third daemon starts and exits; the file is damaged, and a fourth daemon starts.
/// Guarantee: only the user of the daemon can read the file. The second daemon compares the second version with the
/// first. The third daemon has the same record, and the fourth daemon starts without the damaged service.
#[tokio::test]
async fn profiles_outlive_the_daemon() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let now = i128::from(clocks().moment().ns());
    let start = (now / MINUTE_NS - 3 * 60) * MINUTE_NS;
    let first = daemon(&state).await;
    play(&first.pipeline, (1, "1"), start, MINUTES, 1);
    first.close().await;
    let file = state.join("profiles.jsonl");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);

    let second = daemon(&state).await;
    play(&second.pipeline, (2, "2"), start + MINUTES * MINUTE_NS, MINUTES, 10);
    second.pipeline.compare_changes();
    let changes = second.pipeline.change_records();
    let change = &changes[0];
    assert_eq!((change.before_side.blocks, change.after_side.blocks), (5, 5));
    assert_eq!(
        change.measure(Measure::MedianPause).unwrap().verdict,
        Some(Verdict::Worse)
    );
    second.close().await;

    let third = daemon(&state).await;
    let kept = third.pipeline.change_records();
    assert_eq!(
        kept.iter().map(ChangeRecord::summary).collect::<Vec<_>>(),
        [change.summary()]
    );
    assert_eq!((&kept[0].id, &kept[0].at), (&change.id, &change.at));
    third.close().await;
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, &text[..text.len() - 40]).unwrap();
    let fourth = daemon(&state).await;
    assert!(fourth.pipeline.change_records().is_empty());
    fourth.close().await;
}
