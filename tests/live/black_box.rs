//! Recordings of incidents, of real processes: what the daemon writes is a recording as any other.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;
use test_support::add_tests;
use test_support::daemon::{ANY, Daemon, command, marked, until};
use test_support::harness::{Need, Tests};
use test_support::runtimes::{ALL, NET_10, Runtime};
use test_support::target::{Start, Target};

pub(crate) fn tests(tests: &mut Tests) {
    add_tests!(tests, need; an_incident_is_recorded, a_killed_process_leaves_a_recording);
}

fn need() -> Need {
    NET_10.need()
}

/// .NET 10 is always there; .NET 8 where it is.
fn runtimes() -> impl Iterator<Item = Runtime> {
    let others = ALL
        .into_iter()
        .filter(|runtime| runtime.name == "net8.0.33" && runtime.is_there());
    others.chain([NET_10])
}

/// The daemon with the shipped rules and a state directory in a folder, and more lines of configuration.
pub(crate) fn daemon(mark: &str, folder: &Path, more: &str) -> Daemon {
    let state = folder.join("state");
    let config = format!("{}state: {{directory: {}}}\n{more}", marked(mark), state.display());
    Daemon::start(command(
        Command::new(env!("CARGO_BIN_EXE_gcwatch")),
        folder,
        ANY,
        &config,
    ))
}

/// The first incident of a process that is recorded, as soon as there is one.
fn incident(daemon: &Daemon, pid: u32) -> Value {
    let is = |incident: &&Value| incident["pid"] == pid && place(incident).is_some();
    until("an incident with a recording", || {
        let incidents = daemon.json("/api/v1/incidents");
        incidents["incidents"].as_array().unwrap().iter().find(is).cloned()
    })
}

/// The recording at a path, as soon as it is written.
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

/// Where the recording of an incident is.
fn place(incident: &Value) -> Option<&str> {
    let mut evidence = incident["evidence"].as_array()?.iter();
    evidence.find(|one| one["name"] == "black-box")?["where"].as_str()
}

/// The records of `gcwatch analyze`.
fn analyzed(file: &Path) -> Vec<Value> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gcwatch"));
    let output = command
        .args(["analyze", "--format", "ndjson"])
        .arg(file)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = output
        .stdout
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty());
    lines.map(|line| serde_json::from_slice(line).unwrap()).collect()
}

/// The recording is whole, nothing is lost in it, and it has the collection of the incident. Returns the numbers of its
/// collections.
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
    // In the middle every collection is whole.
    let incomplete = collections.filter(|record| record["complete"] == false);
    assert!(incomplete.count() <= 3, "{what}");
    numbers
}

pub(crate) fn mark(folder: &Path) -> String {
    folder.file_name().unwrap().to_str().unwrap().to_owned()
}

/// A process that has no space for a large object after a moment, and goes on so.
fn out_of_space(runtime: Runtime, mark: &str) -> Target {
    Start::new(runtime, "lohoos")
        .knobs(&[("GCHeapHardLimit", "0x8000000")])
        .env("GCWATCH_TEST_MARK", mark)
        .start()
}

/// Scenario: a process that has no space for a large object, for which a shipped rule of severity critical fires.
/// Guarantee: the incident names a recording, which is served when it is written; it is a complete stream in which
/// nothing was lost, with the collections around the incident. The file is for its user alone, and listed with how much
/// is in it; its report is served as a page with the same collections.
fn an_incident_is_recorded() {
    for runtime in runtimes() {
        let folder = tempfile::Builder::new().prefix("gcwatch-black-box").tempdir().unwrap();
        let target = out_of_space(runtime, &mark(folder.path()));
        let daemon = daemon(&mark(folder.path()), folder.path(), "");
        let incident = incident(&daemon, target.pid());
        let place = place(&incident).unwrap();
        let numbers = check(
            runtime.name,
            &incident,
            &analyzed(&recording(&daemon, folder.path(), place)),
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
        let file = folder
            .path()
            .join("state/black-box")
            .join(record["file"].as_str().unwrap());
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

/// Scenario: the same process is killed as soon as it has the incident.
/// Guarantee: its recording is complete within moments, with all that was sent up to the kill.
fn a_killed_process_leaves_a_recording() {
    for runtime in runtimes() {
        let folder = tempfile::Builder::new().prefix("gcwatch-black-box").tempdir().unwrap();
        let mut target = out_of_space(runtime, &mark(folder.path()));
        let daemon = daemon(&mark(folder.path()), folder.path(), "");
        let incident = incident(&daemon, target.pid());
        let killed = Instant::now();
        target.kill();
        let recording = recording(&daemon, folder.path(), place(&incident).unwrap());
        assert!(
            killed.elapsed() < Duration::from_secs(9),
            "it did not wait for more to come"
        );
        check(runtime.name, &incident, &analyzed(&recording));
    }
}
