//! `record` with each profile, on the oldest and a new runtime.

use test_support::add_tests_on;
use test_support::harness::Tests;
use test_support::program::{gcwatch, stderr};
use test_support::runtimes::{FETCHED, Runtime};
use test_support::target::{Start, Target};

use crate::analyzed::{Analyzed, analyze};

/// Records a running target with additional arguments. Returns the analyzed recording and the standard error of the
/// command.
pub(crate) fn record(target: &mut Target, args: &[&str]) -> (Analyzed, String) {
    let file = target.tmp().join("r.nettrace");
    let pid = target.pid().to_string();
    let mut all = vec!["record", "--pid", &pid, "-o", file.to_str().unwrap(), "--force"];
    all.extend_from_slice(args);
    let output = gcwatch(&all);
    assert!(output.status.success(), "{all:?}: {}", stderr(&output));
    (analyze(&file), stderr(&output))
}

fn recorded(runtime: Runtime, mode: &'static str, profile: &str) -> (Analyzed, String) {
    let mut target = Start::new(runtime, mode).start();
    let (analyzed, _) = record(&mut target, &["--profile", profile, "--duration", "3s"]);
    target.await_ticks(1);
    let context = format!("{} {mode} {profile}", runtime.name);
    assert_eq!(analyzed.stream["clean_end"], true, "{context}");
    analyzed.assert_whole(&context);
    analyzed.assert_agrees_with(target.ticks(), &context);
    target.stop();
    (analyzed, context)
}

pub(crate) fn tests(tests: &mut Tests) {
    for runtime in FETCHED {
        // The test runs alone because it compares counters of the process at times of the process's clock. If the
        // process lost the CPU between reading the clock and the counters, the two would be from different times.
        let path = format!("{}::gc::{}", module_path!(), runtime.name);
        tests.add_alone(path, move || runtime.need(), move || gc(runtime));
    }
    add_tests_on!(tests, FETCHED; gc_verbose, gc_handles, private);
}

/// Scenario: an allocating process is recorded with the default profile.
/// Guarantee: the collections match the process's own counters, and all collections except those at the ends are
/// complete. The recording contains the events of collections, but no allocation ticks.
fn gc(runtime: Runtime) {
    let (analyzed, context) = recorded(runtime, "threads", "gc");
    assert!(analyzed.gcs.len() > 20, "{context}: {}", analyzed.gcs.len());
    for name in [
        "GCStart",
        "GCEnd",
        "GCHeapStats",
        "GCMarkWithType",
        "GCPerHeapHistory",
        "GCGlobalHeapHistory",
        "GCTriggered",
    ] {
        assert!(analyzed.has_event(name), "{context}: no {name}");
    }
    assert!(!analyzed.has_event("GCAllocationTick"), "{context}");
}

/// Scenario: processes that pin, finalize, add memory pressure, or use server GC are recorded with the Verbose profile.
/// Guarantee: the recordings contain allocation ticks and pins, finalized objects with their type, memory pressure, and
/// joins, respectively.
fn gc_verbose(runtime: Runtime) {
    let (pin, context) = recorded(runtime, "pin", "gc-verbose");
    assert!(
        pin.has_event("GCAllocationTick") && pin.has_event("PinObjectAtGCTime"),
        "{context}"
    );
    let tick = pin
        .events
        .iter()
        .find(|event| event["name"] == "GCAllocationTick")
        .unwrap();
    assert!(
        tick["fields"]["TypeName"].as_str().unwrap().starts_with("System."),
        "{context}: {tick}"
    );
    let (fin, context) = recorded(runtime, "fin", "gc-verbose");
    assert!(
        fin.has_event("FinalizeObject") && fin.has_event("GCFinalizersBegin"),
        "{context}"
    );
    let named = |event: &serde_json::Value| {
        let types = event["fields"]["Values"].as_array().cloned().unwrap_or_default();
        event["name"] == "BulkType"
            && types
                .iter()
                .any(|named| named["Name"] == "Slow" || named["Name"] == "Workload+Slow")
    };
    assert!(fin.events.iter().any(named), "{context}: the finalized type has a name");
    let (pressure, context) = recorded(runtime, "pressure", "gc-verbose");
    assert!(
        pressure.has_event("IncreaseMemoryPressure") && pressure.has_event("DecreaseMemoryPressure"),
        "{context}"
    );
    assert!(pressure.has_reason("InducedNotForced"), "{context}");
    let mut target = Start::new(runtime, "threads")
        .knobs(&[("gcServer", "1"), ("GCgen0size", "0x1000000")])
        .start();
    let (server, _) = record(&mut target, &["--profile", "gc-verbose", "--duration", "3s"]);
    assert!(server.has_event("GCJoin"), "{}: the recording has GCJoin", runtime.name);
    target.stop();
}

/// Scenario: a process that creates and frees handles is recorded with the handle profile.
/// Guarantee: the recording contains events about created and freed handles.
fn gc_handles(runtime: Runtime) {
    let (analyzed, context) = recorded(runtime, "handles", "gc-handles");
    assert!(
        analyzed.has_event("SetGCHandle") && analyzed.has_event("DestroyGCHandle"),
        "{context}"
    );
}

/// Scenario: a process with background collections is recorded with the private profile.
/// Guarantee: the recording contains the phases of the background collections.
fn private(runtime: Runtime) {
    let (analyzed, context) = recorded(runtime, "bgc", "private");
    assert!(
        analyzed.has_type("background"),
        "{context}: {} collections",
        analyzed.gcs.len()
    );
    for name in ["BGCBegin", "BGC1stNonConEnd", "BGC2ndNonConBegin", "BGCDrainMark"] {
        assert!(analyzed.has_event(name), "{context}: no {name}");
    }
}
