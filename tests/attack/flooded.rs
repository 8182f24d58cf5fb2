//! Streams that try to exhaust memory. Each stream can affect only the telemetry of the process that sends it, and has
//! a bounded cost.
//!
//! Each test has its own daemon and two processes: a well-behaved process, and a hostile process
//! ([`test_support::hostile`]) that starts once the daemon reads the well-behaved process. A normal run covers a few
//! modes, one after the other; `tests/attack/run` covers all modes.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use test_support::daemon::{Daemon, MARK, await_that, until};
use test_support::harness::Tests;
use test_support::hostile::{ARGUMENT, MODES};
use test_support::scene::Scene;
use test_support::target::RunningProcess;

use crate::is_full;

/// Maximum memory that one target can cost, in bytes.
const ONE: u64 = 16_000_000;

/// Number of bytes of an endless stream after which a mode counts as tried: twice the memory limit, and far more than a
/// normal process sends.
const ENOUGH: u64 = 32_000_000;

/// Time after which a mode that sends little counts as tried.
const TRIED_FOR: Duration = Duration::from_secs(2);

/// Modes of a normal run. Each fills a different buffer, or ends in a different way.
const QUICK: [&str; 6] = [
    "time-stands-still",
    "endless-metadata",
    "pending-never-sorted",
    "sequence-points",
    "ends-without-start",
    "never-stops",
];

pub(crate) fn tests(tests: &mut Tests) {
    let alone = concat!(module_path!(), "::concurrent_hostile_processes_stay_within_budget");
    tests.add_alone(alone, || Ok(()), concurrent_hostile_processes_stay_within_budget);
    for mode in MODES {
        if mode.name == "well-behaved" || !(is_full() || QUICK.contains(&mode.name)) {
            continue;
        }
        let path = format!(
            concat!(module_path!(), "::hostile_process_stays_within_budget::{}"),
            mode.name
        );
        tests.add(path, || Ok(()), || hostile_process_stays_within_budget(mode.name));
    }
}

/// A fake runtime: a second process of this program, which exits when its standard input ends.
pub(crate) struct Runtime(RunningProcess);

impl Runtime {
    pub(crate) fn start(scene: &Scene, mode: &str) -> Self {
        Self::spawn(scene, mode, &mut Command::new(std::env::current_exe().unwrap()))
    }

    /// Starts a process with the given service name.
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
        Self(RunningProcess(child))
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.0.id()
    }
}

/// Starts a daemon for the processes of a scene, with additional configuration.
pub(crate) fn daemon(scene: &Scene, more: &str) -> Daemon {
    let mut command = scene.command(more);
    command.env("TMPDIR", scene.folder());
    Daemon::start(command)
}

/// Starts a well-behaved process and waits until the daemon has read more than 20 of its collections.
pub(crate) fn neighbour(scene: &Scene, daemon: &Daemon) -> Runtime {
    let neighbour = Runtime::start(scene, "well-behaved");
    daemon.await_target(neighbour.pid(), "collections of the neighbour", |target| {
        number(target, "collections") > 20
    });
    neighbour
}

/// Returns the record of a process, or null if the daemon does not know it yet.
pub(crate) fn target(daemon: &Daemon, pid: u32) -> Value {
    daemon.target(pid).unwrap_or_default()
}

pub(crate) fn number(target: &Value, name: &str) -> u64 {
    target[name].as_u64().unwrap_or_default()
}

/// Asserts that the daemon still reads the neighbour in its first session and without loss: the numbers of the
/// neighbour's collections have no gap.
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

/// Scenario: a well-behaved process is read; then a hostile process starts, which serves the diagnostics protocol and
/// misbehaves in the given mode.
/// Guarantee: the memory of the daemon grows by at most 16 MB. If a session needs more, the daemon ends the session,
/// logs this once and counts it. The neighbour loses no data, and SIGTERM ends the daemon gracefully while the hostile
/// process misbehaves.
fn hostile_process_stays_within_budget(mode: &str) {
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

/// Scenario: 6 hostile processes (12 in a full run) run at the same time, in modes that fill different buffers, next to
/// a well-behaved process.
/// Guarantee: the memory of the daemon grows by at most 64 MB in total, and the neighbour loses no data.
fn concurrent_hostile_processes_stay_within_budget() {
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
    await_that("all processes are tried", || {
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
