//! Streams made to exhaust memory: each costs its own process's telemetry, within a bound.
//!
//! Each test has a daemon of its own, with two processes: one that behaves well, and a hostile one
//! ([`test_support::hostile`]), which comes when the other one is read. By default a few modes, one after the other;
//! `tests/attack/run` goes through all.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use test_support::daemon::{Daemon, MARK, await_that, until};
use test_support::harness::Tests;
use test_support::hostile::{ARGUMENT, MODES};
use test_support::scene::Scene;
use test_support::target::Running;

use crate::is_full;

/// What one target may cost, bytes.
const ONE: u64 = 16_000_000;

/// What a stream without end brings before a mode counts as tried, bytes: twice what it may hold, many times what a
/// process in its right mind sends.
const ENOUGH: u64 = 32_000_000;

/// How long a mode that brings little is tried.
const TRIED_FOR: Duration = Duration::from_secs(2);

/// The modes that are tried by default: each fills another store, or ends in another way.
const QUICK: [&str; 6] = [
    "time-stands-still",
    "endless-metadata",
    "pending-never-sorted",
    "sequence-points",
    "ends-without-start",
    "never-stops",
];

pub(crate) fn tests(tests: &mut Tests) {
    let alone = concat!(module_path!(), "::many_at_once_cost_what_all_may");
    tests.add_alone(alone, || Ok(()), many_at_once_cost_what_all_may);
    for mode in MODES {
        if mode.name == "well-behaved" || !(is_full() || QUICK.contains(&mode.name)) {
            continue;
        }
        let path = format!(
            concat!(module_path!(), "::a_hostile_process_costs_itself::{}"),
            mode.name
        );
        tests.add(path, || Ok(()), || a_hostile_process_costs_itself(mode.name));
    }
}

/// A fake runtime: this program, started again. It ends with its standard input.
pub(crate) struct Runtime(Running);

impl Runtime {
    pub(crate) fn start(scene: &Scene, mode: &str) -> Self {
        Self::spawn(scene, mode, &mut Command::new(std::env::current_exe().unwrap()))
    }

    /// Starts a process of a service.
    pub(crate) fn start_as(scene: &Scene, mode: &str, service: &str) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        Self::spawn(scene, mode, command.env("OTEL_SERVICE_NAME", service))
    }

    fn spawn(scene: &Scene, mode: &str, command: &mut Command) -> Self {
        let mut child = command
            .args([ARGUMENT, "--with-stdin", mode])
            .env("TMPDIR", scene.folder())
            .env(MARK, scene.mark())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        assert!(line.starts_with("ready "), "{mode}: {line:?}");
        Self(Running(child))
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.0.id()
    }
}

/// A daemon for such processes.
pub(crate) fn daemon(scene: &Scene, more: &str) -> Daemon {
    let mut command = scene.command(more);
    command.env("TMPDIR", scene.folder());
    Daemon::start(command)
}

/// One that behaves well, of which collections were read.
pub(crate) fn neighbour(scene: &Scene, daemon: &Daemon) -> Runtime {
    let neighbour = Runtime::start(scene, "well-behaved");
    daemon.await_target(neighbour.pid(), "collections of the neighbour", |target| {
        number(target, "collections") > 20
    });
    neighbour
}

/// A process as it is known; null before.
pub(crate) fn target(daemon: &Daemon, pid: u32) -> Value {
    daemon.target(pid).unwrap_or_default()
}

pub(crate) fn number(target: &Value, name: &str) -> u64 {
    target[name].as_u64().unwrap_or_default()
}

/// The neighbour goes on being read, and nothing of it is lost: its collections are numbered without a gap.
pub(crate) fn assert_whole(daemon: &Daemon, neighbour: &Runtime) {
    let before = number(&target(daemon, neighbour.pid()), "collections");
    let target = daemon.await_target(neighbour.pid(), "collections of the neighbour", |target| {
        number(target, "collections") >= before + 20
    });
    assert_eq!(target["state"], "attached", "{target}");
    assert_eq!(number(&target, "sessions"), 1, "{target}");
    assert_eq!(number(&target, "lossy") + number(&target, "incomplete"), 0, "{target}");
    assert_eq!(target["lost_events"], 0, "{target}");
    assert_eq!(target["last_collection"], target["collections"], "{target}");
}

/// Scenario: a process that behaves well is read; then one comes that serves the diagnostics protocol and misbehaves by
/// this mode.
/// Guarantee: the daemon's memory grows by at most 16 MB; what is too much is a session that is ended, with a reason;
/// the neighbour loses nothing; SIGTERM ends the daemon in order while the process misbehaves.
fn a_hostile_process_costs_itself(mode: &str) {
    let scene = Scene::begin();
    let daemon = daemon(&scene, "");
    let neighbour = neighbour(&scene, &daemon);
    let before = daemon.most_memory();
    let hostile = Runtime::start(&scene, mode);
    let mut since = None;
    let tried = until(mode, || {
        let target = target(&daemon, hostile.pid());
        if target.is_null() || target["state"] == "found" {
            return None;
        }
        let since: &Instant = since.get_or_insert_with(Instant::now);
        let is_tried = target["reason"] == "over-memory"
            || number(&target, "bytes") > ENOUGH
            || since.elapsed() > if is_full() { 5 * TRIED_FOR } else { TRIED_FOR };
        is_tried.then_some(target)
    });
    assert_whole(&daemon, &neighbour);
    let grown = daemon.most_memory() - before;
    println!(
        "{mode}: the daemon's memory grew by {:.1} MB, {} {} {} bytes",
        grown as f64 / 1e6,
        tried["state"],
        tried["reason"],
        tried["bytes"]
    );
    assert!(grown <= ONE, "{mode}: {grown} bytes");
    if tried["reason"] == "over-memory" {
        assert_eq!(daemon.said().matches("attaches again later").count(), 1);
        assert!(
            daemon.get("/metrics").1.contains("gcwatch_targets_over_memory_total"),
            "{mode}"
        );
    }
    daemon.end();
}

/// Scenario: six or twelve hostile processes at once, of modes that fill different stores, beside one that behaves
/// well. Guarantee: the daemon's memory grows by at most 64 MB beyond what each costs without being counted, and the
/// neighbour loses nothing.
fn many_at_once_cost_what_all_may() {
    let scene = Scene::begin();
    let daemon = daemon(&scene, "");
    let neighbour = neighbour(&scene, &daemon);
    let before = daemon.most_memory();
    let modes = [
        "time-stands-still",
        "pending-never-sorted",
        "threads-without-end",
        "ends-without-start",
    ];
    let count = if is_full() { 12 } else { 6 };
    let hostile: Vec<Runtime> = (0..count)
        .map(|number| Runtime::start(&scene, modes[number % modes.len()]))
        .collect();
    await_that("all of them are tried", || {
        let tried = |runtime: &Runtime| {
            let target = target(&daemon, runtime.pid());
            target["reason"] == "over-memory" || number(&target, "bytes") > ENOUGH / 100
        };
        hostile.iter().all(tried)
    });
    assert_whole(&daemon, &neighbour);
    let grown = daemon.most_memory() - before;
    println!("{count}: the daemon's memory grew by {:.1} MB", grown as f64 / 1e6);
    assert!(grown <= 64_000_000, "{grown} bytes");
}
