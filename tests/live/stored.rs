//! Evidence that is stored outside the host: recordings, records of incidents, graphs and heap dumps on a volume.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use test_support::add_tests_on;
use test_support::daemon::{await_that, until};
use test_support::harness::Tests;
use test_support::program::gcwatch;
use test_support::runtimes::{ALL, Host, Runtime};
use test_support::scene::Scene;
use test_support::target::Start;

pub(crate) fn tests(tests: &mut Tests) {
    let runtimes = || {
        let is = |runtime: &Runtime| runtime.host == Host::Run && runtime.name.starts_with("net10.0.14");
        ALL.into_iter().filter(is)
    };
    add_tests_on!(tests, runtimes(); evidence_is_stored_after_outage_of_volume);
}

/// Returns the only entry of a folder, or `None` if the folder has no entry or several entries.
fn only(folder: &Path) -> Option<PathBuf> {
    let mut all = fs::read_dir(folder).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    all.next().filter(|_| all.next().is_none())
}

/// Returns the files of a folder whose names have the given start and end.
fn files(folder: &Path, start: &str, end: &str) -> Vec<PathBuf> {
    let all = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path());
    let is = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        name.starts_with(start) && name.ends_with(end)
    };
    all.filter(is).collect()
}

/// Scenario: a program leaks, and the incident of a rule requests a recording, a burst and a census. The volume is
/// unavailable until all evidence has been gathered.
/// Guarantee: during the outage, at least five files wait on disk, and the incident already names the addresses on the
/// volume. Afterwards, the volume has the same bytes of the recording as the daemon serves, the record of the incident
/// with its findings, and the graph of allocations. The volume also has both heap dumps, which `gcwatch heap diff`
/// compares. No file waits on disk.
fn evidence_is_stored_after_outage_of_volume(runtime: Runtime) {
    let scene = Scene::begin();
    let start = scene.marked(Start::known(runtime, "heap.dll", &["300"]));
    let start = start.env("HLIST", "1000").env("HLEAK", "20000");
    let target = start.env("HTRUTH", &scene.path("truth")).start();
    let volume = PathBuf::from(scene.path("volume"));
    // The file in place of the folder makes the volume unavailable.
    fs::write(&volume, "").unwrap();
    let rule = scene.any(
        false,
        "severity: error, evidence: [black-box, allocations, ledger, census]",
    );
    let evidence = format!(
        "evidence: {{bursts: on, burst_for: 1s, burst_every: 1m, census: on, census_apart: 3s, census_max_stop: 1m, \
         census_room: 1, store: {{url: 'file://{}'}}}}\n",
        volume.display()
    );
    let daemon = scene.daemon(&format!("{}{rule}{evidence}", scene.state()));
    let pid = target.pid();
    let has = |incident: &Value, name: &str| !incident[name].is_null();
    let incident = daemon.incident(pid, "all evidence", |incident| {
        ["allocations", "census"].iter().all(|name| has(incident, name)) && has(&incident["census"], "apart_s")
    });
    let id = incident["id"].as_str().unwrap();
    let of = |name: &str| {
        incident["evidence"]
            .as_array()
            .unwrap()
            .iter()
            .find(|one| one["name"] == name)
            .unwrap()
    };
    let place = of("black-box")["where"].as_str().unwrap();
    let served = until("the recording", || {
        let (status, body) = daemon.bytes(place);
        (status == 200).then_some(body)
    });
    let waiting = || daemon.metric("gcwatch_evidence_store_files");
    await_that("five files wait", || waiting() >= Some(5.0));
    let metrics = daemon.get("/metrics").1;
    let is_stored =
        |line: &&str| line.starts_with("gcwatch_evidence_store_objects_total") && line.contains("\"stored\"");
    let stored = metrics.lines().find(is_stored).unwrap();
    assert!(stored.ends_with(" 0"), "{stored}");

    fs::remove_file(&volume).unwrap();
    fs::create_dir(&volume).unwrap();
    await_that("nothing waits", || waiting() == Some(0.0));
    let host = only(&volume).unwrap();
    let base = format!("file://{}", host.display());
    let (recording, record) = (
        of("black-box")["stored"].as_str().unwrap(),
        of("census")["stored"].as_str().unwrap(),
    );
    assert_eq!(recording, format!("{base}/{}", place.rsplit('/').next().unwrap()));
    assert_eq!(record, format!("{base}/{id}/incident.json"));
    assert!(
        fs::read(recording.strip_prefix("file://").unwrap()).unwrap() == served,
        "the recording is the same"
    );
    let stored: Value = serde_json::from_slice(&fs::read(record.strip_prefix("file://").unwrap()).unwrap()).unwrap();
    for name in ["id", "symptom", "allocations", "census"] {
        assert_eq!(stored[name], incident[name], "{name}");
    }
    let folder = host.join(id);
    let graph = fs::read_to_string(folder.join("allocations.svg")).unwrap();
    assert!(graph.starts_with("<svg") || graph.starts_with("<?xml"), "{:.80}", graph);
    let mut dumps = files(&folder, "census-", ".ndjson");
    dumps.sort();
    let [before, after] = dumps.as_slice() else {
        panic!("{dumps:?}")
    };
    let difference = gcwatch(["heap", "diff", &before.to_string_lossy(), &after.to_string_lossy()]);
    let text = String::from_utf8(difference.stdout).unwrap();
    assert!(difference.status.success() && text.contains("Leaked"), "{text}");
    assert!(files(&host, "", "partial").is_empty() && files(&folder, "", "partial").is_empty());
    let outgoing = PathBuf::from(scene.path("state")).join("outgoing");
    assert_eq!(fs::read_dir(outgoing).unwrap().count(), 0);
    let waits = daemon.json("/api/v1/self");
    let receivers = waits["receivers"].as_array().unwrap();
    let store = receivers.iter().find(|one| one["signal"] == "evidence").unwrap();
    assert_eq!(
        (&store["name"], &store["state"], &store["waiting"]),
        (&base.into(), &"ok".into(), &0.into())
    );
}
