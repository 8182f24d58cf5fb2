//! The stacks of every thread of a program with known threads.

use serde_json::Value;

use test_support::add_tests_on;
use test_support::harness::Tests;
use test_support::program::{records, select_kind};
use test_support::runtimes::{ALL, Host, MUSL, Runtime};
use test_support::scene::Scene;
use test_support::target::Start;

pub(crate) fn tests(tests: &mut Tests) {
    let known = ALL.into_iter().filter(|runtime| runtime.host == Host::Run);
    add_tests_on!(tests, known.chain([MUSL[1]]); every_thread_is_described);
}

/// Scenario: a program has a thread that holds objects on its stack and sleeps, eight threads that sleep in two places,
/// a finalizer thread that waits in a finalizer, and `Main`.
/// Guarantee: each named method is on the stack of exactly one thread, and equal stacks share a group. The finalizer is
/// on one stack, and gcwatch identifies its thread as the finalizer thread (not on .NET Core 3.1).
fn every_thread_is_described(runtime: Runtime) {
    let scene = Scene::begin();
    let start = Start::known(runtime, "heap.dll", &["300"]).env("HLIST", "100");
    let target = start.env("HTRUTH", &scene.path("truth")).start();
    let (pid, leases) = (target.pid().to_string(), scene.path("leases"));
    let found = records(["stacks", &pid, "--lease-folder", &leases, "--format", "ndjson"]);
    assert_eq!(found[0]["kind"], "stacks");
    let groups = select_kind(&found, "stack");
    let with = |method: &str| {
        let has = |group: &&&Value| {
            let mut frames = group["frames"].as_array().unwrap().iter();
            frames.any(|frame| frame.as_str().unwrap().contains(method))
        };
        let found: Vec<&Value> = groups.iter().filter(has).copied().collect();
        found
    };
    let threads = |groups: &[&Value]| -> usize {
        groups
            .iter()
            .map(|group| group["threads"].as_array().unwrap().len())
            .sum()
    };
    assert_eq!(threads(&with("Program.HoldOnStack")), 1, "{found:#?}");
    assert_eq!(threads(&with("Program.Main")), 1, "{found:#?}");
    let finalizing = with("Finalizing.Finalize");
    assert_eq!(threads(&finalizing), 1, "{found:#?}");
    // .NET Core 3.1 neither lists its managed threads nor names its system threads.
    if !runtime.is_core_3() {
        assert_eq!(finalizing[0]["finalizer"], true, "{found:#?}");
        assert_eq!(found[0]["finalizer"], finalizing[0]["threads"][0]);
    }
    let sleeping = groups
        .iter()
        .map(|group| group["threads"].as_array().unwrap().len())
        .max();
    assert!(sleeping >= Some(4), "{found:#?}");
}
