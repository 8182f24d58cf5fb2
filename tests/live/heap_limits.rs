//! Heap limits of real processes in the records of the daemon. NativeAOT reads its limit from the environment; other
//! runtimes derive their limit from their control group, if they see the limit of the group.

use serde_json::Value;
use test_support::add_tests_on;
use test_support::groups::{self, Group};
use test_support::harness::{Need, Tests};
use test_support::runtimes::{ALL, Runtime};
use test_support::scene::Scene;

pub(crate) fn tests(tests: &mut Tests) {
    let native: Vec<Runtime> = ALL.into_iter().filter(|runtime| runtime.is_native_aot()).collect();
    add_tests_on!(tests, native.iter().copied(); native_aot_before_11_ignores_hexadecimal_prefix);
    for runtime in ALL {
        if ["net9.0.22", "net10.0.14", "net11.0.0"].contains(&runtime.name) {
            let name = format!("{}::{}::limit_is_seen_only_at_start", module_path!(), runtime.name);
            tests.add(
                name,
                move || need(runtime),
                move || limit_is_seen_only_at_start(runtime),
            );
        }
        // .NET 8 does not report its limit.
        if ["net8.0.33", "net10.0.14"].contains(&runtime.name) {
            let name = format!("{}::{}::limit_changed_in_place_is_noted", module_path!(), runtime.name);
            tests.add(
                name,
                move || need(runtime),
                move || limit_changed_in_place_is_noted(runtime),
            );
        }
    }
}

fn need(runtime: Runtime) -> Need {
    runtime.need()?;
    groups::need("memory")
}

const MIB: u64 = 1 << 20;
const LIMIT: u64 = 450 * MIB;
const NOT_SEEN: &str = "the runtime does not see the container's limit of 450 MiB: ";

fn unseen(record: &Value) -> String {
    let lines = record["unseen"].as_array().unwrap().iter();
    lines
        .map(|line| format!("{}: {}\n", line["what"], line["why"]))
        .collect()
}

/// Scenario: two programs run on NativeAOT with a heap limit of 96 MiB in their environment. One limit is written with
/// `0x`, the other without.
/// Guarantee: the daemon shows the limit without `0x` for every version, and the limit with `0x` only for version 11.
/// The records state that the runtime does not report its limit, and does not send its GC settings.
fn native_aot_before_11_ignores_hexadecimal_prefix(runtime: Runtime) {
    let scene = Scene::begin();
    let limited = |value: &str| scene.start(runtime, "steady").env("DOTNET_GCHeapHardLimit", value);
    let (plain, prefixed) = (limited("6000000").start(), limited("0x6000000").start());
    let daemon = scene.daemon("");
    let is_known =
        |record: &Value| record["stream"]["events"].as_u64() > Some(0) && !record["memory"]["private"].is_null();
    let plain = daemon.await_process(plain.pid(), runtime.name, is_known);
    assert_eq!(plain["memory"]["heap_limit"], 96 * MIB, "{}", plain["memory"]);
    let note = plain["memory"]["heap_limit_note"].as_str().unwrap();
    assert!(note.starts_with("this runtime does not report it"), "{note}");
    let record = daemon.await_process(prefixed.pid(), runtime.name, is_known);
    let limit = &record["memory"]["heap_limit"];
    if runtime.version.is_some_and(|version| version.starts_with("11.")) {
        assert_eq!(*limit, 96 * MIB, "{}", record["memory"]);
    } else {
        assert!(limit.is_null(), "{}", record["memory"]);
        assert!(
            unseen(&record).contains("a limit of its heap\": \"this runtime does not report one"),
            "{}",
            unseen(&record)
        );
    }
    if record["process"]["collector"].is_null() {
        assert!(
            unseen(&record).contains("settings\": \"NativeAOT does not send them"),
            "{}",
            unseen(&record)
        );
    }
}

/// Scenario: one process starts in a memory group of 450 MiB; another is moved into such a group after its start.
/// Guarantee: the heap limit of the first process is three quarters of the group's limit, as its runtime reports. The
/// runtime of the second process does not see the limit. A note of the limit and a fired rule state this. The daemon
/// assumes no heap limit, and there is no incident.
fn limit_is_seen_only_at_start(runtime: Runtime) {
    let scene = Scene::begin();
    let [inside, later] = ["inside", "later"].map(|name| {
        let group = Group::new("memory", &format!("{}{name}", scene.mark())).unwrap();
        group.write("memory.limit_in_bytes", LIMIT);
        group
    });
    let start = scene.start(runtime, "steady");
    let seeing = inside.inside(|| start.start());
    let blind = start.start();
    later.take(blind.pid());
    let daemon = scene.daemon("");
    let is_known = |record: &Value| {
        !record["memory"]["container_limit"].is_null()
            && record["settings"].as_array().is_some_and(|all| !all.is_empty())
    };
    let record = daemon.await_process(seeing.pid(), runtime.name, is_known);
    let memory = &record["memory"];
    assert_eq!(
        (&memory["container_limit"], &memory["heap_limit"]),
        (&Value::from(LIMIT), &Value::from(LIMIT / 4 * 3))
    );
    assert!(memory["heap_limit_note"].is_null(), "{memory}");
    let said = record["settings"].as_array().unwrap().iter();
    let mut said = said.filter(|setting| setting["name"] == "gcwatch.gc.settings.hard_limit");
    assert_eq!(said.next().unwrap()["value"], LIMIT / 4 * 3);

    let fires = |record: &Value| {
        let mut notes = record["notes"].as_array().unwrap().iter();
        is_known(record) && notes.any(|note| note["rule"] == "limits.not-seen")
    };
    let record = daemon.await_process(blind.pid(), runtime.name, fires);
    let memory = &record["memory"];
    assert_eq!(memory["container_limit"], LIMIT, "{memory}");
    assert!(memory["heap_limit"].is_null(), "{memory}");
    assert!(
        memory["heap_limit_note"].as_str().unwrap().starts_with(NOT_SEEN),
        "{memory}"
    );
    // The rule is a note, so it causes no incident.
    assert_eq!(record["incidents"].as_array().unwrap().len(), 0, "{record}");
    // The processes exit before their groups are removed.
    drop((seeing, blind));
}

/// Scenario: two processes run in memory groups of 450 MiB; the limits are raised to 900 MiB and lowered to 300 MiB
/// while they run. One program continuously calls GC.RefreshMemoryLimit.
/// Guarantee: the first process keeps its heap limit. After each change, a rule fires, and a note states the kept limit
/// and the limit that the runtime would have after a restart. The heap limit of the second process is three quarters of
/// each limit, without a note.
fn limit_changed_in_place_is_noted(runtime: Runtime) {
    let scene = Scene::begin();
    let groups = ["keeps", "refreshes"].map(|name| {
        let group = Group::new("memory", &format!("{}{name}", scene.mark())).unwrap();
        group.write("memory.limit_in_bytes", LIMIT);
        group
    });
    let [keeps, refreshes] = &groups;
    let keeping = keeps.inside(|| scene.start(runtime, "steady").start());
    let refreshing = refreshes.inside(|| scene.start(runtime, "refresh").start());
    let daemon = scene.daemon("");
    let quarters = |limit: u64| limit / 4 * 3;
    let has_limit = |limit: u64| move |record: &Value| record["memory"]["heap_limit"] == quarters(limit);
    for process in [&keeping, &refreshing] {
        let record = daemon.await_process(process.pid(), runtime.name, has_limit(LIMIT));
        assert!(record["memory"]["heap_limit_note"].is_null(), "{}", record["memory"]);
    }
    for (limit, rule) in [
        (900 * MIB, "limits.raised-in-place"),
        (300 * MIB, "limits.lowered-in-place"),
    ] {
        groups
            .iter()
            .for_each(|group| group.write("memory.limit_in_bytes", limit));
        let fires = |record: &Value| {
            let mut notes = record["notes"].as_array().unwrap().iter();
            notes.any(|note| note["rule"] == rule)
        };
        let record = daemon.await_process(keeping.pid(), runtime.name, fires);
        let memory = &record["memory"];
        assert_eq!(memory["container_limit"], limit, "{memory}");
        assert_eq!(memory["heap_limit"], quarters(LIMIT), "{memory}");
        let expected = format!(
            "the container's limit has changed: the runtime keeps {} MiB, and would have {} MiB",
            quarters(LIMIT) / MIB,
            quarters(limit) / MIB
        );
        assert!(
            memory["heap_limit_note"].as_str().unwrap().starts_with(&expected),
            "{memory}"
        );
        let is_refreshed = |record: &Value| has_limit(limit)(record) && record["memory"]["heap_limit_note"].is_null();
        daemon.await_process(refreshing.pid(), runtime.name, is_refreshed);
    }
    drop((keeping, refreshing));
}
