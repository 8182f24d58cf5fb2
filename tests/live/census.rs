//! Heap dumps that the daemon takes for incidents, of a program that leaks one type.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;
use test_support::add_tests_on;
use test_support::daemon::Daemon;
use test_support::harness::Tests;
use test_support::runtimes::{ALL, Host, Runtime};
use test_support::target::{PATIENCE, Start, Target};

use crate::black_box::{self, mark};

pub(crate) fn tests(tests: &mut Tests) {
    let of = |starts: &'static [&'static str]| {
        let is = move |runtime: &Runtime| {
            runtime.host == Host::Run && starts.iter().any(|start| runtime.name.starts_with(start))
        };
        ALL.into_iter().filter(is)
    };
    add_tests_on!(tests, of(&["net8.", "net9.", "net10.0.14", "net11"]); a_leak_is_named_with_its_holder);
    add_tests_on!(tests, of(&["net10.0.14"]); what_is_dangerous_is_not_done, a_finalizer_that_waits_is_named);
}

/// A rule that holds at once, of which the incident asks for this, and no other one but those that ship.
fn rule(folder: &Path, evidence: &str) -> String {
    let file = folder.join("rules.yaml");
    let text = format!(
        "apiVersion: gcwatch/v1\nrules:\n  - {{id: test.any, title: Any, on: gc, when: gc.number > 0, severity: info, \
         evidence: [{evidence}], summary: A collection, description: A collection., remedy: None., source: none, \
         keep_firing_for: 10m}}\n"
    );
    fs::write(&file, text).unwrap();
    format!("rules: {{files: [{}]}}\n", file.display())
}

/// The program: it leaks so many objects a second into a static list.
fn leaks(runtime: Runtime, folder: &Path, knobs: &[(&'static str, &'static str)], leak: u32) -> Target {
    let mut start = Start::new(runtime, "known")
        .knobs(knobs)
        .env("HLIST", "1000")
        .env("HLEAK", &leak.to_string())
        .env("HTRUTH", folder.join("truth").to_str().unwrap())
        .env("GCWATCH_TEST_MARK", &mark(folder));
    start.program = Some(("heap.dll", vec!["300".to_owned()]));
    let mut target = start.spawn();
    target.await_line("heap.dll", |line| line == "ready");
    target.await_socket();
    target
}

fn folder() -> TempDir {
    tempfile::Builder::new().prefix("gcwatch-census").tempdir().unwrap()
}

/// What the incident of the test's rule has, as soon as it is as it must be.
fn found(daemon: &Daemon, pid: u32, evidence: &str, is: impl Fn(&Value) -> bool) -> Value {
    let of_rule = |one: &&Value| one["pid"] == pid && one["symptom"] == "test.any";
    // How memory grows is known after two readings, which are 15 s apart.
    let until = Instant::now() + 4 * PATIENCE;
    loop {
        let incidents = daemon.json("/api/v1/incidents");
        let mut incidents = incidents["incidents"].as_array().unwrap().iter();
        let newest = incidents.find(of_rule).map(|incident| incident[evidence].clone());
        if let Some(found) = newest.filter(|found| !found.is_null() && is(found)) {
            return found;
        }
        assert!(Instant::now() < until, "no {evidence}: {}", daemon.said());
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The incidents and notes of a process.
fn rules(record: &Value) -> Vec<&str> {
    let of = |kind: &str| record[kind].as_array().into_iter().flatten();
    let members = of("incidents").flat_map(|incident| incident["members"].as_array().into_iter().flatten());
    let notes = of("notes").filter_map(|note| note["rule"].as_str());
    members
        .filter_map(|member| member["rule"].as_str())
        .chain(notes)
        .collect()
}

/// Scenario: a program leaks one type into a static list, in a daemon with the census on and two dumps some seconds
/// apart.
/// Guarantee: the incident names the type, how many more there are and the field that holds them, in its record and as
/// a clause, and the stops. The collections are a tool's, of no rule, and not the program's; the counter has both.
fn a_leak_is_named_with_its_holder(runtime: Runtime) {
    let folder = folder();
    let mut target = leaks(runtime, folder.path(), &[], 20_000);
    let more = rule(folder.path(), "ledger, census")
        + "evidence: {census: on, census_apart: 3s, census_max_stop: 1m, census_room: 1}\n";
    let daemon = black_box::daemon(&mark(folder.path()), folder.path(), &more);
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

/// Scenario: the same program, whose forecast is above the bound; and one whose heap is near its limit.
/// Guarantee: neither has a dump, and the incident says why.
fn what_is_dangerous_is_not_done(runtime: Runtime) {
    for (knobs, bounds, why) in [
        (&[][..], "census_max_stop: 1ms", "might stop the process for"),
        (
            &[("GCHeapHardLimit", "0xC800000")][..],
            "census_headroom_percent: 90",
            "the heap is within 90 % of its limit",
        ),
    ] {
        let folder = folder();
        let target = leaks(runtime, folder.path(), knobs, 5_000);
        let more = rule(folder.path(), "ledger, census") + &format!("evidence: {{census: on, {bounds}}}\n");
        let daemon = black_box::daemon(&mark(folder.path()), folder.path(), &more);
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

/// Scenario: the finalizer thread of the same program waits in a finalizer, and an incident asks what threads do.
/// Guarantee: the incident has its stack first, with the finalizer, in its record and as a clause.
fn a_finalizer_that_waits_is_named(runtime: Runtime) {
    let folder = folder();
    let target = leaks(runtime, folder.path(), &[], 20_000);
    let more = rule(folder.path(), "stacks") + "evidence: {bursts: on}\n";
    let daemon = black_box::daemon(&mark(folder.path()), folder.path(), &more);
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
