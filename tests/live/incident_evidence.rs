//! Bursts that the daemon runs for incidents of programs with known results.

use serde_json::Value;
use test_support::add_tests_on;
use test_support::daemon::Daemon;
use test_support::harness::Tests;
use test_support::runtimes::{ALL, Host, Runtime};
use test_support::scene::Scene;
use test_support::target::{Start, Target};

pub(crate) fn tests(tests: &mut Tests) {
    let of = |versions: &'static [&'static str]| {
        let is = move |runtime: &Runtime| runtime.host == Host::Run && versions.contains(&runtime.name);
        ALL.into_iter().filter(is)
    };
    add_tests_on!(
        tests, of(&["net8.0.33", "net10.0.14"]);
        induced_incident_names_site,
        automatic_burst_does_not_change_later_pauses,
    );
    add_tests_on!(tests, of(&["net10.0.14"]); incident_names_allocating_sites);
}

/// Starts a daemon for the processes of the scene, with a rule that holds immediately. The incident of this rule
/// requests the given evidence.
fn daemon(scene: &Scene, evidence: &str, more: &str) -> Daemon {
    let rule = scene.any(false, &format!("severity: info, evidence: [{evidence}]"));
    scene.daemon(&format!("{}{rule}{more}", scene.state()))
}

fn known(scene: &Scene, runtime: Runtime, program: &'static str) -> Target {
    let start = scene.marked(Start::known(runtime, program, &["50"]));
    start.env("KLOG", &scene.path("log")).start()
}

/// Waits for an incident of a process that contains the given kind of evidence.
fn incident(daemon: &Daemon, pid: u32, evidence: &str) -> Value {
    daemon.incident(pid, evidence, |one| !one[evidence].is_null())
}

fn bursts(daemon: &Daemon) -> Vec<String> {
    let metrics = daemon.get("/metrics").1;
    let is = |line: &&str| line.starts_with("gcwatch_evidence_bursts_total{");
    metrics.lines().filter(is).map(str::to_owned).collect()
}

/// Scenario: a program requests collections in a dozen ways; a rule requests the callers, and bursts are on.
/// Guarantee: the incident has three sites. Each site belongs to the program, and has requests and a stopped time. A
/// clause of the incident names the first site. The metric counts one burst.
fn induced_incident_names_site(runtime: Runtime) {
    let scene = Scene::begin();
    let target = known(&scene, runtime, "callers.dll");
    let daemon = daemon(&scene, "callers", "evidence: {bursts: on, burst_for: 3s}\n");
    let incident = incident(&daemon, target.pid(), "callers");
    let found = &incident["callers"];
    assert!(found["none_because"].is_null(), "{}: {found}", runtime.name);
    let callers = found["callers"].as_array().unwrap();
    assert_eq!(callers.len(), 3, "{}: {found}", runtime.name);
    for caller in callers {
        let site = caller["site"].as_str().unwrap();
        let is_own = ["Shop.", "ThirdParty.", "Compiled "]
            .iter()
            .any(|own| site.starts_with(own));
        assert!(is_own, "{}: {caller}", runtime.name);
        let answered = ["collections", "without_collection"].map(|count| caller[count].as_u64().unwrap());
        assert!(
            answered.iter().sum::<u64>() > 0 && caller["stopped_ns"].as_i64().unwrap() > 0,
            "{}: {caller}",
            runtime.name
        );
    }
    assert!(found["triggers"].as_u64() > Some(10), "{}: {found}", runtime.name);
    let evidence = incident["evidence"].as_array().unwrap();
    let clause = evidence.iter().find(|one| one["name"] == "callers").unwrap();
    let text = clause["text"].as_str().unwrap();
    assert!(text.contains(callers[0]["site"].as_str().unwrap()), "{text}");
    let counted = bursts(&daemon);
    let is_one = |line: &String| line.contains("callers") && line.contains("\"gathered\"") && line.ends_with(" 1");
    assert!(counted.iter().any(is_one), "{counted:?}");
}

/// Scenario: the sites of a program on .NET 10 allocate known bytes; a rule requests the allocating sites.
/// Guarantee: the incident has types and sites with their confidence intervals. The flame graph that the incident names
/// is served and contains the method of the first site. An unknown flame graph has status 404.
fn incident_names_allocating_sites(runtime: Runtime) {
    let scene = Scene::begin();
    let target = known(&scene, runtime, "allocations.dll");
    let daemon = daemon(&scene, "allocations", "evidence: {bursts: on, burst_for: 3s}\n");
    let incident = incident(&daemon, target.pid(), "allocations");
    let found = &incident["allocations"];
    assert!(found["none_because"].is_null(), "{found}");
    assert_eq!(found["method"], "sampled");
    for kind in ["types", "sites"] {
        let all = found[kind].as_array().unwrap();
        assert_eq!(all.len(), 3, "{found}");
        for one in all {
            let [low, estimate, high] = ["low", "estimate", "high"].map(|name| one[name].as_u64().unwrap());
            assert!(low < estimate && estimate < high, "{one}");
        }
    }
    assert!(found["sites"][0]["site"].is_string(), "{found}");
    assert!(found["total"]["samples"].as_u64() > Some(100), "{found}");
    let (status, svg) = daemon.bytes(found["flame"].as_str().unwrap());
    let svg = String::from_utf8(svg).unwrap();
    assert!(
        status == 200 && svg.starts_with("<?xml") && svg.ends_with("</svg>\n"),
        "{status}: {svg}"
    );
    let site = found["sites"][0]["site"].as_str().unwrap();
    let method = site.split(['(', '<']).next().unwrap();
    assert!(svg.contains(method), "{method}: {svg}");
    assert_eq!(daemon.get("/api/v1/evidence/flame-1-1-1.svg").0, 404);
}

/// Scenario: a process has 9,000 or 60,000 pinned objects, so that a Verbose session in addition to the session of the
/// daemon lengthens its collections. A rule requests the allocating sites.
/// Guarantee: with 60,000 pinned objects on .NET 8, no burst runs, and the incident names the pinned objects as the
/// reason. In the other cases, a burst runs. In all cases, pauses after the burst are at most three times as long as
/// before.
fn automatic_burst_does_not_change_later_pauses(runtime: Runtime) {
    let samples = runtime.name == "net10.0.14";
    for (pins, is_refused) in [(9_000, false), (60_000, !samples)] {
        let scene = Scene::begin();
        let mut target = scene.marked(Start::pins(runtime, pins)).spawn();
        target.await_socket();
        target.lines_from_now(5);
        let before = target.shortest_pause(9);
        let daemon = daemon(&scene, "allocations", "evidence: {bursts: on, burst_for: 2s}\n");
        let incident = incident(&daemon, target.pid(), "allocations");
        let why = incident["allocations"]["none_because"].as_str();
        let context = format!("{}, {pins} pins", runtime.name);
        assert_eq!(why.is_some(), is_refused, "{context}: {why:?}");
        if is_refused {
            assert!(why.unwrap().contains("pinned objects"), "{context}: {why:?}");
        }
        let after = target.shortest_pause(9);
        // A burst that leaves its effects makes the pauses at least seven times as long.
        assert!(after <= before * 3, "{context}: {before} us before, {after} after");
    }
}
