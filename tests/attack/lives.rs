//! Processes that live for a moment, without end: each costs what it has, and nothing stays of it.

use std::fs;

use test_support::daemon::await_that;
use test_support::harness::Tests;
use test_support::scene::Scene;

use crate::flooded::{Runtime, assert_whole, daemon, neighbour};
use crate::is_full;

/// Lives: of all, five minutes of seventeen a second.
fn lives() -> usize {
    if is_full() { 5000 } else { 100 }
}

/// Processes that live at the same time.
const CONCURRENT_PROCESSES: usize = 20;

/// What they may cost the daemon, bytes.
const COST: u64 = 64_000_000;

/// Files of the history that may be on the disk: 1,024, and those of a minute, after which they are pruned.
const FILES: usize = 1024 + 17 * 60 * 2;

pub(crate) fn tests(tests: &mut Tests) {
    let path = concat!(module_path!(), "::short_lives_leave_nothing_behind");
    tests.add(path, || Ok(()), short_lives_leave_nothing_behind);
}

/// Scenario: 5,000 processes (by default 100) begin one after the other, twenty at a time, serve the protocol for a
/// moment and are killed; the daemon keeps history and incidents on disk.
/// Guarantee: the daemon's memory grows by at most 64 MB, the history has a bounded number of files, no lease stays, a
/// neighbour loses nothing, and SIGTERM ends the daemon in order.
fn short_lives_leave_nothing_behind() {
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
    await_that("the end of all leases but the neighbour's", || held() <= 1);
    daemon.end();
}
