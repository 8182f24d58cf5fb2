//! Heap dumps that the daemon takes for incidents of a program that leaks objects of one type.

use std::time::Duration;

use serde_json::Value;
use test_support::add_tests_on;
use test_support::daemon::Daemon;
use test_support::harness::Tests;
use test_support::runtimes::{ALL, Host, Runtime};
use test_support::scene::Scene;
use test_support::target::{Start, Target};

pub(crate) fn tests(tests: &mut Tests) {
    let of = |starts: &'static [&'static str]| {
        let is = move |runtime: &Runtime| {
            runtime.host == Host::Run && starts.iter().any(|start| runtime.name.starts_with(start))
        };
        ALL.into_iter().filter(is)
    };
    add_tests_on!(tests, of(&["net8.", "net9.", "net10.0.14", "net11"]); leak_is_named_with_its_holder);
    add_tests_on!(tests, of(&["net10.0.14"]); risky_dump_is_not_taken, waiting_finalizer_is_named);
}

/// Starts a program that leaks `leak` objects per second into a static list.
fn leaks(scene: &Scene, runtime: Runtime, knobs: &[(&'static str, &'static str)], leak: u32) -> Target {
    let start = scene.marked(Start::known(runtime, "heap.dll", &["300"])).knobs(knobs);
    let start = start.env("HLIST", "1000").env("HLEAK", &leak.to_string());
    start.env("HTRUTH", &scene.path("truth")).start()
}

/// Starts a daemon for the processes of the scene, with the shipped rules and a rule that holds at once. The incident
/// of this rule requests the given evidence.
fn daemon(scene: &Scene, evidence: &str, more: &str) -> Daemon {
    let rule = scene.any(true, &format!("severity: info, evidence: [{evidence}]"));
    scene.daemon(&format!("{}{rule}{more}", scene.state()))
}

/// Waits until the given evidence in the incident of the test's rule satisfies `is`. Returns this evidence.
fn found(daemon: &Daemon, pid: u32, evidence: &str, is: impl Fn(&Value) -> bool) -> Value {
    let has = |one: &Value| one["symptom"] == "test.any" && !one[evidence].is_null() && is(&one[evidence]);
    daemon.incident(pid, evidence, has)[evidence].take()
}

/// Returns the rules of the incidents and notes of a process.
fn rules(record: &Value) -> Vec<&str> {
    let of = |kind: &str| record[kind].as_array().into_iter().flatten();
    let members = of("incidents").flat_map(|incident| incident["members"].as_array().into_iter().flatten());
    let notes = of("notes").filter_map(|note| note["rule"].as_str());
    members
        .filter_map(|member| member["rule"].as_str())
        .chain(notes)
        .collect()
}

/// Scenario: a program leaks objects of one type into a static list; the daemon has the census on, with two dumps some
/// seconds apart.
/// Guarantee: the incident names the type, the growth of its count, the field that holds the objects, and the stops, in
/// its record and as a clause. The induced collections are attributed to a tool and not to the program, and no rule
/// about induced collections or time fires. The counter includes both dumps, and the process still runs.
fn leak_is_named_with_its_holder(runtime: Runtime) {
    let scene = Scene::begin();
    let mut target = leaks(&scene, runtime, &[], 20_000);
    let more = "evidence: {census: on, census_apart: 3s, census_max_stop: 1m, census_room: 1}\n";
    let daemon = daemon(&scene, "ledger, census", more);
    let pid = target.pid();
    let is_final = |found: &Value| {
        let is_some = |name: &str| !found[name].is_null();
        is_some("apart_s") || is_some("none_because") || is_some("alone_because")
    };
    let census = found(&daemon, pid, "census", is_final);
    let name = runtime.name;
    assert!(
        census["none_because"].is_null() && census["alone_because"].is_null(),
        "{name}: {census}"
    );
    let types = census["types"].as_array().unwrap();
    let leaked = types.iter().find(|one| one["type"] == "Leaked");
    let leaked = leaked.unwrap_or_else(|| panic!("{name}: {census:#}"));
    assert!(leaked["grown_objects"].as_i64() > Some(5_000), "{name}: {leaked}");
    assert_eq!(leaked["root"], "static Cache.entries", "{name}: {leaked}");
    let roots = census["roots"].as_array().unwrap();
    assert!(
        roots.iter().any(|root| root["root"] == "static Cache.entries"),
        "{name}: {census:#}"
    );
    let stops = census["stopped_ns"].as_array().unwrap();
    assert!(
        stops.len() >= 2 && stops.iter().all(|ns| ns.as_i64() > Some(0)),
        "{name}: {census}"
    );
    assert!(census["grown_bytes"].as_i64() > Some(0), "{name}: {census}");

    let record = daemon.json(&format!("/api/v1/processes/{pid}"));
    let incidents = record["incidents"].as_array().unwrap().iter();
    let clauses = incidents.flat_map(|incident| incident["evidence"].as_array().unwrap());
    let clause = clauses.clone().find(|one| one["name"] == "census").unwrap();
    let text = clause["text"].as_str().unwrap();
    assert!(
        text.contains("Leaked +") && text.contains("held by static Cache.entries"),
        "{name}: {text}"
    );
    let by_tool = record["causes"].as_array().unwrap().iter();
    let by_tool: Vec<&Value> = by_tool.filter(|cause| cause["reason"] == "Induced").collect();
    assert!(!by_tool.is_empty(), "{name}: {}", record["causes"]);
    for cause in by_tool {
        assert_eq!(cause["requested_by_tool"], true, "{name}: {cause}");
    }
    let fired = rules(&record);
    let blames = |rule: &&&str| rule.starts_with("induced.") || rule.starts_with("time.");
    assert_eq!(fired.iter().filter(blames).count(), 0, "{name}: {fired:?}");
    let metrics = daemon.get("/metrics").1;
    let is_two = |line: &str| line.contains("gathered") && line.ends_with(" 2");
    assert!(
        metrics.lines().any(|line| line.contains("\"census\"") && is_two(line)),
        "{name}: {metrics}"
    );
    assert!(target.await_exit(Duration::ZERO).is_none(), "{name}");
}

/// Scenario: the predicted stop for a dump of a leaking program exceeds the configured maximum, or the heap of the
/// program is near its limit.
/// Guarantee: the daemon dumps neither process, and the incident states the reason.
fn risky_dump_is_not_taken(runtime: Runtime) {
    for (knobs, bounds, why) in [
        (&[][..], "census_max_stop: 1ms", "might stop the process for"),
        (
            &[("GCHeapHardLimit", "0xC800000")][..],
            "census_headroom_percent: 90",
            "the heap is within 90 % of its limit",
        ),
    ] {
        let scene = Scene::begin();
        let target = leaks(&scene, runtime, knobs, 5_000);
        let more = format!("evidence: {{census: on, {bounds}}}\n");
        let daemon = daemon(&scene, "ledger, census", &more);
        let census = found(&daemon, target.pid(), "census", |_| true);
        let because = census["none_because"].as_str().unwrap_or_default();
        assert!(because.contains(why), "{census}");
        let record = daemon.json(&format!("/api/v1/processes/{}", target.pid()));
        let mut causes = record["causes"].as_array().unwrap().iter();
        assert!(
            !causes.any(|cause| cause["reason"] == "Induced"),
            "{}",
            record["causes"]
        );
    }
}

/// Scenario: the finalizer thread of a program is blocked in a finalizer, and an incident requests the stacks of
/// threads.
/// Guarantee: the first stack in the incident is the stack of the finalizer thread and contains the finalizer. A clause
/// of the incident names the finalizer, too.
fn waiting_finalizer_is_named(runtime: Runtime) {
    let scene = Scene::begin();
    let target = leaks(&scene, runtime, &[], 20_000);
    let daemon = daemon(&scene, "stacks", "evidence: {bursts: on}\n");
    let stacks = found(&daemon, target.pid(), "stacks", |_| true);
    assert!(stacks["none_because"].is_null(), "{stacks}");
    let first = &stacks["stacks"][0];
    assert_eq!(
        (&first["finalizer"], &stacks["knows_finalizer"]),
        (&Value::Bool(true), &Value::Bool(true)),
        "{stacks:#}"
    );
    let mut frames = first["frames"].as_array().unwrap().iter();
    assert!(
        frames.any(|frame| frame.as_str().unwrap().contains("Finalizing.Finalize")),
        "{first}"
    );
    let incidents = daemon.json("/api/v1/incidents");
    let text = incidents.to_string();
    assert!(text.contains("finalizer thread: Held.Finalizing.Finalize"), "{text}");
}
