//! Heap dumps by other tools while the daemon reads a process: the attribution of the induced collections, and the
//! reported cause of a stop if a tool does not read its dump. In these tests, the tool is a client in the test itself.

use std::time::{Duration, Instant};

use clr_gc::event::RUNTIME_PROVIDER;
use dotnet_diagnostics::message::{Provider, SessionConfig, WhenFull};
use serde_json::Value;
use test_support::add_tests_on;
use test_support::daemon::Daemon;
use test_support::harness::Tests;
use test_support::program::{gcwatch, records_of, select_kind};
use test_support::runtimes::{ALL, Host, NET_10, Runtime};
use test_support::scene::Scene;
use test_support::target::Target;
use test_support::tool::Tool;

pub(crate) fn tests(tests: &mut Tests) {
    let packs: Vec<Runtime> = ALL
        .into_iter()
        .filter(|runtime| runtime.host == Host::Run && !runtime.is_core_3())
        .collect();
    add_tests_on!(tests, [NET_10].into_iter().chain(packs.iter().copied()); dump_is_attributed_to_tool);
    let waits = packs
        .into_iter()
        .filter(|runtime| runtime.version.is_some_and(|version| version.starts_with("11.")));
    add_tests_on!(tests, waits; unread_dump_is_not_reported_as_debugger);
}

/// Keywords that dotnet-gcdump requests.
const DUMP: u64 = 0x198_0001;
const VERBOSE: u32 = 5;
/// Time for which the tool does not read the stalled dump. This time exceeds the waiting time of the rules for
/// unfinished collections.
const RESTS: Duration = Duration::from_secs(14);

/// Returns the configuration of a Verbose session with the given keywords of the runtime's provider.
fn asks(keywords: u64, buffer_mb: u32, when_full: WhenFull) -> SessionConfig {
    SessionConfig {
        buffer_mb,
        when_full,
        providers: vec![Provider::new(RUNTIME_PROVIDER, keywords, VERBOSE)],
        allow_inducing_keywords: true,
        ..SessionConfig::default()
    }
}

fn rules(record: &Value) -> Vec<String> {
    let incidents = record["incidents"].as_array().unwrap().iter();
    let incidents = incidents.chain(record["notes"].as_array().unwrap());
    let names = incidents.flat_map(|incident| {
        let alerts = incident["alerts"].as_array().into_iter().flatten();
        let of_alerts = alerts.filter_map(|alert| alert["rule"].as_str());
        of_alerts.chain(incident["rule"].as_str()).collect::<Vec<_>>()
    });
    names.map(str::to_owned).collect()
}

/// Starts a daemon and waits until it has read collections of the process.
fn reads(scene: &Scene, target: &Target) -> Daemon {
    let daemon = scene.daemon("");
    daemon.await_process(target.pid(), "read", |record| {
        record["process"]["collections"].as_u64() > Some(3)
    });
    daemon
}

/// Scenario: a process never requests a collection; another tool takes a heap dump of the process.
/// Guarantee: the record and the rules attribute the collection of the dump to the tool. No rule reports that the
/// program called GC.Collect.
fn dump_is_attributed_to_tool(runtime: Runtime) {
    let scene = Scene::begin();
    let target = scene.start(runtime, "steady").start();
    let daemon = reads(&scene, &target);
    let tool = Tool::for_target(&target);
    let length = tool.end(tool.begin(&asks(DUMP, 64, WhenFull::Drop)));
    assert!(length > 100_000, "the tool gets a dump: {length} bytes");
    let by_tool = |record: &Value| {
        let mut causes = record["causes"].as_array().into_iter().flatten();
        causes.any(|cause| cause["requested_by_tool"] == true)
            && rules(record).iter().any(|rule| rule.starts_with("induced."))
    };
    let record = daemon.await_process(target.pid(), runtime.name, by_tool);
    let causes = record["causes"].as_array().unwrap();
    for cause in causes.iter().filter(|cause| cause["reason"] == "Induced") {
        assert_eq!(cause["requested_by_tool"], true, "{}: {cause}", runtime.name);
    }
    assert_eq!(record["process"]["minute"]["induced"], 0, "{}", runtime.name);
    let induced: Vec<String> = rules(&record)
        .into_iter()
        .filter(|rule| rule.starts_with("induced."))
        .collect();
    assert!(!induced.is_empty(), "{:?}", rules(&record));
    assert!(
        induced.iter().all(|rule| rule.starts_with("induced.by-tool")),
        "{induced:?}"
    );
}

/// Scenario: a Verbose session of another tool ends, and leaves a process that needs healing. Immediately afterwards, a
/// heap dump starts. Its reader pauses for 14 s while the runtime waits for the reader, and then reads the dump to its
/// end.
/// Guarantee: while all threads are suspended, `doctor` reports that a tool does not read its events, and no stop by a
/// signal or a debugger. The daemon does not heal the process during this time. No rule reports long pauses or that the
/// program called GC.Collect; a rule attributes the collection to the tool. Afterwards, the daemon heals the process
/// without a failure.
fn unread_dump_is_not_reported_as_debugger(runtime: Runtime) {
    let scene = Scene::begin();
    // The program has 60,000 objects after one second, and few collections.
    let mut start = scene.start(runtime, "plateau").env("WRATE", "60");
    start.seconds = 200;
    let target = start.start();
    let daemon = reads(&scene, &target);
    let tool = Tool::for_target(&target);
    let verbose = tool.begin(&asks(0x1, 64, WhenFull::Drop));
    std::thread::sleep(Duration::from_secs(5));
    tool.end(verbose);
    let dump = tool.begin(&asks(DUMP, 1, WhenFull::Block));
    let began = Instant::now();
    std::thread::sleep(RESTS / 2);
    let pid = target.pid().to_string();
    let said = records_of(&gcwatch(["doctor", "--pid", &pid, "--format", "ndjson"]));
    let verdict = select_kind(&said, "diagnosis")[0].to_string();
    assert!(verdict.contains("\"verdict\":\"silent\""), "{verdict}");
    assert!(
        verdict.contains("a tool does not read the events it requested"),
        "{verdict}"
    );
    assert!(!verdict.contains("the process is stopped by"), "{verdict}");
    std::thread::sleep(RESTS.saturating_sub(began.elapsed()));
    let record = daemon.process(target.pid());
    assert_eq!(record["stream"]["healings"], 0, "{}", record["stream"]);
    println!("while it is suspended: {:?}", rules(&record));
    let length = tool.end(dump);
    assert!(length > 1 << 20, "the tool gets a dump: {length} bytes");

    // The longest pause can be a collection that the program's allocations triggered, because every thread that writes
    // an event waits. The test therefore checks only the length of the pause.
    let waited = |line: &Value| line["pause_ns"].as_i64() > Some(5_000_000_000);
    let is_read = |record: &Value| {
        record["longest"].as_array().into_iter().flatten().any(waited)
            && record["stream"]["healings"].as_u64() >= Some(1)
    };
    let record = daemon.await_process(target.pid(), runtime.name, is_read);
    println!("longest: {}", record["longest"]);
    let rules = rules(&record);
    println!("afterwards: {rules:?}");
    assert!(rules.iter().any(|rule| rule == "induced.by-tool"), "{rules:?}");
    let of_program = [
        "induced.blocking",
        "induced.collect",
        "time.stopped",
        "time.long-pauses",
    ];
    let blames = |rule: &String| of_program.iter().any(|start| rule.starts_with(start));
    assert!(!rules.iter().any(blames), "{rules:?}");
    let said = daemon.said();
    assert!(!said.contains("that failed"), "{said}");
}
