//! Many short-lived processes. All together have a limited cost, and none of them leaves a lease.

use std::fs;

use test_support::daemon::await_that;
use test_support::harness::Tests;
use test_support::scene::Scene;

use crate::flooded::{Runtime, assert_whole, daemon, neighbour};
use crate::is_full;

/// Returns the number of processes. A full run takes five minutes, at seventeen processes per second.
fn lives() -> usize {
    if is_full() { 5000 } else { 100 }
}

/// Number of processes that run at the same time.
const CONCURRENT_PROCESSES: usize = 20;

/// Maximum memory growth of the daemon, in bytes.
const COST: u64 = 64_000_000;

/// Maximum number of history files: 1,024, plus twice the number of processes per minute, because the history is pruned
/// only about once per minute.
const FILES: usize = 1024 + 17 * 60 * 2;

pub(crate) fn tests(tests: &mut Tests) {
    let path = concat!(module_path!(), "::short_lived_processes_leave_no_state");
    tests.add(path, || Ok(()), short_lived_processes_leave_no_state);
}

/// Scenario: 5,000 processes (100 in a normal run) start one after the other, twenty at a time, serve the protocol
/// briefly and are killed. The daemon keeps history and incidents on disk.
/// Guarantee: the memory of the daemon grows by at most 64 MB, the history has a bounded number of files, only the
/// lease of a neighbour remains, the neighbour loses no data, and SIGTERM ends the daemon gracefully.
fn short_lived_processes_leave_no_state() {
    let scene = Scene::begin();
    let rule = scene.any(false, "severity: error");
    let daemon = daemon(&scene, &format!("{rule}{}", scene.state()));
    let neighbour = neighbour(&scene, &daemon);
    let before = daemon.most_memory();
    let mut living = std::collections::VecDeque::new();
    for _ in 0..lives() {
        living.push_back(Runtime::start(&scene, "well-behaved"));
        if living.len() > CONCURRENT_PROCESSES {
            living.pop_front();
        }
    }
    let cost = daemon.most_memory().saturating_sub(before);
    println!("{} lives cost {:.1} MB", lives(), cost as f64 / 1e6);
    assert!(cost <= COST, "{cost} bytes");
    assert_whole(&daemon, &neighbour);
    drop(living);
    let folder = scene.folder().join("state/history-1");
    let files = || fs::read_dir(&folder).map_or(0, Iterator::count);
    assert!(files() <= FILES, "{} files", files());
    let leases = scene.folder().join("leases");
    let held = || fs::read_dir(&leases).map_or(0, Iterator::count);
    await_that("only the neighbour's lease remains", || held() <= 1);
    daemon.end();
}
