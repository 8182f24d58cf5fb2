//! A daemon with a hanging thread, or in a frozen control group, does not block other processes.
//!
//! The tests freeze single threads with control groups of version 1, so that a thread hangs.

use std::time::{Duration, Instant};

use test_support::add_tests;
use test_support::daemon::await_within;
use test_support::groups::{self, Group};
use test_support::harness::{Need, Tests};
use test_support::runtimes::NET_10;
use test_support::scene::Scene;

use crate::frozen::{HELD_AT_MOST, ask_to_end, attached, fill};
use crate::serving;

pub(crate) fn tests(tests: &mut Tests) {
    add_tests!(tests, need; hung_reading_thread_does_not_block_processes, frozen_group_does_not_block_processes);
}

fn need() -> Need {
    NET_10.need()?;
    groups::need("freezer")
}

fn freeze(group: &Group) {
    group.write("freezer.state", "FROZEN");
}

fn thaw(group: &Group) {
    group.write("freezer.state", "THAWED");
}

/// Returns the id of the oldest thread of a process with the given name.
fn thread(pid: u32, name: &str) -> u32 {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let tasks = tasks.filter_map(|task| task.ok()?.file_name().to_str()?.parse().ok());
    let named = tasks.filter(|task: &u32| {
        std::fs::read_to_string(format!("/proc/{pid}/task/{task}/comm")).is_ok_and(|comm| comm.trim() == name)
    });
    named.min().unwrap_or_else(|| panic!("no thread {name}"))
}

/// Scenario: the thread that reads all streams hangs, and the socket of a process fills; the process gets SIGTERM; then
/// the thread continues.
/// Guarantee: the process exits within ten seconds, and /livez fails and names the hanging thread. Afterwards, the
/// daemon attaches to another process again, and /livez is ok.
fn hung_reading_thread_does_not_block_processes() {
    let scene = Scene::begin();
    let mut daemon = serving::start(&scene, "");
    let start = || scene.start(NET_10, "idle").start();
    let (mut ending, living) = (start(), start());
    for pid in [ending.pid(), living.pid()] {
        daemon.await_target(pid, "attached", attached);
    }
    daemon.await_guard(None);
    let group = Group::new("freezer", scene.mark()).unwrap();
    group.write("tasks", thread(daemon.pid(), "reading"));
    freeze(&group);
    fill(&daemon, &mut [&mut ending], true);
    let asked = Instant::now();
    ask_to_end(&mut ending, NET_10);
    assert!(
        ending.await_exit(HELD_AT_MOST).is_some(),
        "held for {:?}",
        asked.elapsed()
    );
    await_within(Duration::from_secs(30), "the thread is late", || {
        let (status, parts) = daemon.get("/livez");
        let is_it = |line: &str| line.starts_with("reading") && line.contains("late");
        status == 503 && parts.lines().any(is_it)
    });
    thaw(&group);
    drop(group);
    daemon.await_line("its guard closed");
    daemon.await_target(living.pid(), "attached again", |target| {
        attached(target) && target["sessions"].as_u64().is_none_or(|sessions| sessions > 1)
    });
    await_within(HELD_AT_MOST, "the daemon is alive", || daemon.get("/livez").0 == 200);
    daemon.end();
    drop(living);
}

/// Scenario: the control group of the daemon is frozen, as `pause` of a container runtime does. The guard is in another
/// group. Then the socket of a process fills, and the process gets SIGTERM; then the group is thawed.
/// Guarantee: the process exits within ten seconds, and the daemon continues.
fn frozen_group_does_not_block_processes() {
    let scene = Scene::begin();
    let mut daemon = serving::start(&scene, "");
    let mut ending = scene.start(NET_10, "idle").start();
    daemon.await_target(ending.pid(), "attached", attached);
    daemon.await_guard(None);
    let group = Group::new("freezer", scene.mark()).unwrap();
    group.take(daemon.pid());
    freeze(&group);
    fill(&daemon, &mut [&mut ending], true);
    let asked = Instant::now();
    ask_to_end(&mut ending, NET_10);
    assert!(
        ending.await_exit(HELD_AT_MOST).is_some(),
        "held for {:?}",
        asked.elapsed()
    );
    thaw(&group);
    daemon.await_line("its guard closed");
    daemon.end();
}
