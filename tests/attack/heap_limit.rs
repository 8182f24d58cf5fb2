//! gcwatch opens no first session with a process whose memory is at its limit, because a first session can make this
//! process run out of memory.

use std::sync::Arc;
use std::time::{Duration, Instant};

use processes::RunState;
use test_support::add_tests;
use test_support::groups::{self, Group};
use test_support::harness::{Need, Tests};
use test_support::program::{gcwatch, records_of};
use test_support::runtimes::NET_10;
use test_support::scene::Scene;
use test_support::supervised::{Run, TestSupervisor};
use test_support::target::{TIMEOUT, Target};

use crate::start_up::options;

pub(crate) fn tests(tests: &mut Tests) {
    add_tests!(tests, || NET_10.need(); full_heap_is_not_attached);
    add_tests!(tests, groups; process_with_free_memory_again_is_attached);
}

/// Limit of the heap, 512 MiB. The remaining memory at 96 % is enough for a session.
const LIMIT: &str = "0x20000000";
/// Live memory of the process in MB (10^6 bytes): 95.6 % of the limit. No collection can release this memory. A heap
/// counts as full at 95 %.
const LIVE_MEGABYTES: &str = "513";
const FULL_KIB: u64 = (0x2000_0000 / 1000 * 956) >> 10;

fn groups() -> Need {
    NET_10.need()?;
    groups::need("memory")
}

fn working_set(group: &Group) -> u64 {
    let usage: u64 = group.read("memory.usage_in_bytes").trim().parse().unwrap();
    let stat = group.read("memory.stat");
    let idle = stat.lines().find_map(|line| line.strip_prefix("total_inactive_file "));
    usage - idle.unwrap().parse::<u64>().unwrap()
}

fn waits(run: &Run) -> bool {
    matches!(run.state(), RunState::Unattachable { reason, .. } if reason == "at-heap-limit")
}

fn anonymous_kib(target: &Target) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", target.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.split_ascii_whitespace().next().unwrap().parse().unwrap()
}

/// Returns the records about a process in the output of a command.
fn said(command: &[&str], pid: u32) -> String {
    let records = records_of(&gcwatch([command, &["--format", "ndjson"]].concat()));
    let of_process = records
        .iter()
        .filter(|one| one["kind"] != "gcwatch" && one["pid"] == pid);
    of_process.map(ToString::to_string).collect()
}

/// Waits until the process has at least the given amount of anonymous memory.
fn await_memory(target: &mut Target, kib: u64) {
    let since = Instant::now();
    while anonymous_kib(target) < kib {
        assert!(since.elapsed() < TIMEOUT, "{} KiB", anonymous_kib(target));
        target.await_ticks(1);
    }
}

/// Scenario: a process fills its heap almost to the hard limit. Then gcwatch starts and checks the process several
/// times. Later, gcwatch is configured to attach anyway.
/// Guarantee: gcwatch does not attach, the process continues to work, and the daemon, `doctor` and `ps` state the
/// reason; with the option, gcwatch attaches.
#[tokio::main(flavor = "multi_thread")]
async fn full_heap_is_not_attached() {
    let scene = Scene::begin();
    // The budget of generation 0 depends on the machine's cache; without an explicit size, generation 0 would use the
    // remaining memory.
    let knobs = [("GCHeapHardLimit", LIMIT), ("GCgen0size", "0x400000")];
    let start = scene.start(NET_10, "nearlimit").knobs(&knobs);
    let mut target = start.env("WKEEP", LIVE_MEGABYTES).start();
    await_memory(&mut target, FULL_KIB);
    let options = options(&scene);
    let supervised = TestSupervisor::start(options.clone());
    let run = supervised.until(target.pid(), "waits", waits).await;
    let RunState::Unattachable { detail, .. } = run.state() else {
        unreachable!()
    };
    assert!(detail.contains("DOTNET_GCHeapHardLimit"), "{detail}");
    for command in [&["ps"][..], &["doctor", "--pid", &target.pid().to_string()]] {
        let text = said(command, target.pid());
        assert!(
            text.contains("at-heap-limit") && text.contains("first session"),
            "{command:?}: {text}"
        );
    }
    target.await_ticks(3);
    let run = supervised.run(target.pid()).unwrap();
    assert!(waits(&run) && run.opened == 0, "{:?}", run.states);
    let all_the_same = targets::options::TargetOptions {
        attach_at_heap_limit: true,
        ..options
    };
    supervised.options.send_replace(Arc::new(all_the_same));
    supervised.until(target.pid(), "attached", Run::is_attached).await;
    supervised.stop().await;
}

/// Scenario: the memory of a container is at its limit when gcwatch starts; then the limit is raised.
/// Guarantee: gcwatch does not attach before the limit is raised, and attaches afterwards without further action.
#[tokio::main(flavor = "multi_thread")]
async fn process_with_free_memory_again_is_attached() {
    let scene = Scene::begin();
    let group = Group::new("memory", scene.mark()).unwrap();
    group.write("memory.limit_in_bytes", 1 << 30);
    // The limit leaves 4 % of the working set free, which suffices for the work of the process during the test.
    let start = scene.start(NET_10, "nearlimit").knobs(&[("GCgen0size", "0x200000")]);
    let mut target = start.env("WKEEP", "300").spawn();
    group.take(target.pid());
    target.await_line("ready", |line| line.starts_with("ready "));
    await_memory(&mut target, 300_000);
    target.await_ticks(5);
    group.write("memory.limit_in_bytes", working_set(&group) / 100 * 104);
    let supervised = TestSupervisor::start(options(&scene));
    let run = supervised.until(target.pid(), "waits", waits).await;
    let RunState::Unattachable { detail, .. } = run.state() else {
        unreachable!()
    };
    assert!(detail.contains("container"), "{detail}");
    group.write("memory.limit_in_bytes", 1 << 30);
    let attached = supervised.within(Duration::from_secs(60), target.pid(), Run::is_attached);
    assert!(attached.await, "{:?}", supervised.run(target.pid()));
    supervised.stop().await;
    drop(target);
}
