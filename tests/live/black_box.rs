//! Recordings that the daemon writes for incidents of real processes.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::Value;
use test_support::add_tests;
use test_support::daemon::{Daemon, until};
use test_support::harness::{Need, Tests};
use test_support::program::records;
use test_support::runtimes::{ALL, NET_10, Runtime};
use test_support::scene::Scene;
use test_support::target::Target;

pub(crate) fn tests(tests: &mut Tests) {
    add_tests!(tests, need; incident_is_recorded, killed_process_leaves_recording);
}

fn need() -> Need {
    NET_10.need()
}

/// Returns .NET 10, which is always available, and .NET 8 if it is available.
fn runtimes() -> impl Iterator<Item = Runtime> {
    let others = ALL
        .into_iter()
        .filter(|runtime| runtime.name == "net8.0.33" && runtime.is_there());
    others.chain([NET_10])
}

/// Waits for the first incident of a process that has a recording.
fn incident(daemon: &Daemon, pid: u32) -> Value {
    daemon.incident(pid, "a recording", |incident| place(incident).is_some())
}

/// Waits until the daemon serves the recording at a URL path. Returns the file with the fetched recording.
fn recording(daemon: &Daemon, folder: &Path, place: &str) -> PathBuf {
    let bytes = until("a recording", || {
        let (status, body) = daemon.bytes(place);
        assert!([200, 503].contains(&status), "{}", String::from_utf8_lossy(&body));
        (status == 200).then_some(body)
    });
    let path = folder.join("fetched.nettrace");
    fs::write(&path, bytes).unwrap();
    path
}

/// Returns the URL path of the recording of an incident, or `None` if the incident has no recording.
fn place(incident: &Value) -> Option<&str> {
    let mut evidence = incident["evidence"].as_array()?.iter();
    evidence.find(|one| one["name"] == "black-box")?["where"].as_str()
}

/// Returns the records of `gcwatch analyze` for a recording.
fn analyzed(file: &Path) -> Vec<Value> {
    records(["analyze", "--format", "ndjson", file.to_str().unwrap()])
}

/// Asserts that a recording is complete, lost no events, and contains the collection of the incident. Returns the
/// numbers of the collections in the recording.
fn check(what: &str, incident: &Value, records: &[Value]) -> Vec<u64> {
    let stream = records.last().unwrap();
    assert_eq!(
        (&stream["kind"], &stream["clean_end"]),
        (&Value::from("stream"), &Value::from(true)),
        "{what}"
    );
    assert_eq!(stream["lost_events"], 0, "{what}");
    let collections = records.iter().filter(|record| record["kind"] == "gc");
    let numbers: Vec<u64> = collections
        .clone()
        .filter_map(|record| record["number"].as_u64())
        .collect();
    let number = incident["gc_number"].as_u64().unwrap();
    assert!(numbers.contains(&number), "{what}: {number} is not in {numbers:?}");
    for record in collections.clone().skip(1) {
        assert_eq!(record["lossy"], false, "{what}: {record}");
    }
    // Only collections at the ends may be incomplete.
    let incomplete = collections.filter(|record| record["complete"] == false);
    assert!(incomplete.count() <= 3, "{what}");
    numbers
}

/// Starts a process that soon has no space for a large object, and keeps running in this state.
fn out_of_space(scene: &Scene, runtime: Runtime) -> Target {
    scene
        .start(runtime, "lohoos")
        .knobs(&[("GCHeapHardLimit", "0x8000000")])
        .start()
}

/// Scenario: a process has no space for a large object, so that a shipped rule of severity critical fires.
/// Guarantee: the incident names a recording, which is served as soon as it is written. The recording is a complete
/// stream without lost events and contains the collections around the incident. The file of the recording is readable
/// only by its owner, and is listed with its extent. The report of the recording is a page with the same last
/// collection.
fn incident_is_recorded() {
    for runtime in runtimes() {
        let scene = Scene::begin();
        let target = out_of_space(&scene, runtime);
        let daemon = scene.daemon(&scene.state());
        let incident = incident(&daemon, target.pid());
        let place = place(&incident).unwrap();
        let numbers = check(
            runtime.name,
            &incident,
            &analyzed(&recording(&daemon, scene.folder(), place)),
        );
        let number = incident["gc_number"].as_u64().unwrap();
        assert!(numbers.last().is_some_and(|last| *last > number + 5), "{numbers:?}");
        let list = daemon.json("/api/v1/evidence/");
        let record = &list["evidence"][0];
        assert_eq!(
            (record["url"].as_str(), &record["incident"]),
            (Some(place), &incident["id"])
        );
        assert_eq!(record["pid"], target.pid());
        assert!(
            (8..=12).contains(&record["seconds_after"].as_u64().unwrap()),
            "{record}"
        );
        let file = format!(
            "{}/state/black-box/{}",
            scene.folder().display(),
            record["file"].as_str().unwrap()
        );
        assert_eq!(fs::metadata(file).unwrap().permissions().mode() & 0o7777, 0o600);
        assert_eq!(daemon.get("/api/v1/evidence/..%2Flock").0, 404);
        assert_eq!(daemon.get("/api/v1/evidence/other.nettrace").0, 404);
        assert_eq!(daemon.get("/api/v1/evidence/other.html").0, 404);
        let (status, page) = daemon.get(&place.replace(".nettrace", ".html"));
        assert_eq!(status, 200, "{page}");
        let (_, report) = page.split_once("id=\"record\">").unwrap();
        let report: Value = serde_json::from_str(report.split_once("</script>").unwrap().0).unwrap();
        let shown = report["recordings"][0]["processes"][0]["pauses"]["number"]
            .as_array()
            .unwrap();
        let shown: Vec<u64> = shown.iter().filter_map(Value::as_u64).collect();
        assert_eq!(shown.last(), numbers.last());
    }
}

/// Scenario: a process without space for a large object is killed as soon as it has an incident.
/// Guarantee: the recording of the incident is complete within 9 s after the kill, so the daemon does not wait for
/// further data. The recording contains the collection of the incident.
fn killed_process_leaves_recording() {
    for runtime in runtimes() {
        let scene = Scene::begin();
        let mut target = out_of_space(&scene, runtime);
        let daemon = scene.daemon(&scene.state());
        let incident = incident(&daemon, target.pid());
        let killed = Instant::now();
        target.kill();
        let recording = recording(&daemon, scene.folder(), place(&incident).unwrap());
        assert!(
            killed.elapsed() < Duration::from_secs(9),
            "the recording does not wait for further data"
        );
        check(runtime.name, &incident, &analyzed(&recording));
    }
}
