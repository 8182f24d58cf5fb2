//! Sessions of other tools while gcwatch reads a process: gcwatch heals their lasting effects.
//!
//! The process pins 60,000 objects. A Verbose session makes the collector report each of these objects, so the length
//! of the pauses shows whether the collector still does so. In these tests, the other tool is a client in the test
//! itself, except where a test starts a gcwatch command.

use std::process::Stdio;
use std::time::{Duration, Instant};

use clr_gc::event::RUNTIME_PROVIDER;
use dotnet_diagnostics::Session;
use dotnet_diagnostics::message::{Provider, SessionConfig};
use serde_json::Value;

use test_support::add_tests_on;
use test_support::daemon::{Daemon, await_that};
use test_support::harness::Tests;
use test_support::program;
use test_support::runtimes::{ALL, Host, Runtime};
use test_support::scene::Scene;
use test_support::target::{Start, TIMEOUT, Target};
use test_support::tool::Tool;

pub(crate) fn tests(tests: &mut Tests) {
    let known: Vec<Runtime> = ALL
        .into_iter()
        .filter(|runtime| runtime.host == Host::Run && !runtime.is_core_3())
        .collect();
    let (oldest, newest) = (known[0], known[known.len() - 1]);
    let some = if crate::is_full() { known } else { vec![oldest, newest] };
    add_tests_on!(tests, some.iter().copied(); unhealed_session_keeps_pauses_long, closed_session_is_healed);
    add_tests_on!(tests, [oldest, newest]; session_of_another_tool_is_accounted);
    add_tests_on!(tests, [oldest]; killed_burst_is_healed);
    let one = if crate::is_full() { some.clone() } else { vec![newest] };
    add_tests_on!(
        tests, one.iter().copied();
        session_of_dead_client_is_healed,
        probes_are_healed_together,
        recordings_are_healed,
    );
}

const PINNED: u32 = 60_000;
/// Timeout for pauses to become short again after a session has ended.
const HEAL_TIMEOUT: Duration = Duration::from_secs(10);

/// Returns the configuration of a session with the collector's events at the given level.
fn request_level(level: u32) -> SessionConfig {
    asks(Provider::new(RUNTIME_PROVIDER, 0x1, level))
}

fn asks(provider: Provider) -> SessionConfig {
    SessionConfig {
        buffer_mb: 64,
        providers: vec![provider],
        ..SessionConfig::default()
    }
}

/// A `gcwatch run` daemon and the process that it reads.
struct Reader {
    daemon: Daemon,
    pid: u32,
}

impl Reader {
    /// Starts a daemon and waits until it has read a collection of the process.
    fn start(target: &Target, scene: &Scene) -> Self {
        let reader = Self {
            daemon: scene.daemon(""),
            pid: target.pid(),
        };
        reader.await_that("the daemon knows the connections", |reader| {
            reader.collections().iter().any(|gc| gc["observed_by_others"] == false)
        });
        reader
    }

    fn await_that(&self, what: &str, is: impl Fn(&Self) -> bool) {
        await_that(what, || is(self));
    }

    /// Returns the newest collections, newest first.
    fn collections(&self) -> Vec<Value> {
        self.daemon.list(&format!("/api/v1/gcs?pid={}", self.pid), "gcs")
    }

    fn healings(&self) -> u64 {
        self.daemon.target(self.pid).unwrap()["healings"].as_u64().unwrap()
    }

    /// Returns the number of healings in the log.
    fn reported(&self) -> usize {
        self.daemon.said().matches("a trace session ended").count()
    }
}

/// Starts a process with many pinned objects in its own scene.
fn pins(runtime: Runtime) -> (Target, Scene) {
    let scene = Scene::begin();
    let mut target = scene.marked(Start::pins(runtime, PINNED)).spawn();
    target.await_socket();
    target.lines_from_now(5);
    (target, scene)
}

/// Waits until pauses are at most twice as long as before the other tool connected (`before`), and at most half as long
/// as with the tool (`beside`). Returns the elapsed time.
fn await_short_pauses(target: &mut Target, most: Duration, before: u64, beside: u64) -> Duration {
    let since = Instant::now();
    loop {
        let pause = target.shortest_pause(7);
        let took = since.elapsed();
        if pause <= beside / 2 && pause <= before * 2 {
            return took;
        }
        assert!(
            took < most,
            "pauses of {before} us, {beside} with the tool, are {pause} after {took:?}"
        );
    }
}

/// Scenario: a plain session is open, like the session of a resident monitor, and no process heals. A Verbose session
/// is opened and closed. Finally, the test heals the process.
/// Guarantee: pauses stay long until the healing. This test checks the runtime, not gcwatch: without long pauses, the
/// other tests of this module could not fail. If a runtime no longer needs the healing, this test fails.
fn unhealed_session_keeps_pauses_long(runtime: Runtime) {
    let (mut target, _) = pins(runtime);
    let tool = Tool::for_target(&target);
    let plain = tool.begin(&request_level(4));
    let before = target.shortest_pause(9);
    let mut verbose = tool.begin(&request_level(5));
    tool.read(&mut verbose, Duration::from_secs(2));
    tool.end(verbose);
    let after = target.shortest_pause(15);
    assert!(after >= before * 3, "{before} us before, {after} after");
    tool.executor.block_on(tool.client.recompute_levels(TIMEOUT)).unwrap();
    let took = await_short_pauses(&mut target, HEAL_TIMEOUT, before, after);
    println!(
        "{}: {before} us, {after} after a Verbose session, as before {took:?} after the healing",
        runtime.name
    );
    drop(plain);
}

/// Scenario: another tool repeatedly opens a Verbose session in a process with many pinned objects. The daemon knows
/// the usual pause only after two checks of the connections, which are two to eight seconds apart.
/// Guarantee: the account of at least one pause attributes more than half of its CPU time to the session.
fn session_of_another_tool_is_accounted(runtime: Runtime) {
    let (mut target, scene) = pins(runtime);
    let daemon = Reader::start(&target, &scene);
    let tool = Tool::for_target(&target);
    let is_most = |gc: &Value| {
        let of = |cause: &str| gc["account"][cause].as_i64();
        let had_cpu = gc["pause_ns"].as_i64()? - of("no-cpu").unwrap_or(0);
        Some(of("tool.session")? > had_cpu / 2)
    };
    let since = Instant::now();
    loop {
        target.lines_from_now(99);
        let mut verbose = tool.begin(&request_level(5));
        tool.read(&mut verbose, Duration::from_secs(3));
        let collections = daemon.collections();
        tool.end(verbose);
        if collections.iter().any(|gc| is_most(gc) == Some(true)) {
            return;
        }
        assert!(since.elapsed() < TIMEOUT, "{collections:#?}");
    }
}

/// Asserts that a process that the daemon reads is healed after another tool's Verbose session has ended by `end`.
fn is_healed(runtime: Runtime, end: impl FnOnce(&Tool, Session)) {
    let (mut target, scene) = pins(runtime);
    let daemon = Reader::start(&target, &scene);
    let before = target.shortest_pause(9);
    // A gcwatch instance of another test can already have healed the process.
    let healed_before = daemon.healings();
    let tool = Tool::for_target(&target);
    let mut verbose = tool.begin(&request_level(5));
    // The tool reads on a separate thread, so that the pauses are not lengthened by a tool that reads too slowly.
    tool.read(&mut verbose, Duration::from_secs(3));
    let beside = usual_pause_of(&daemon);
    daemon.await_that("the daemon sees the tool", |daemon| {
        daemon.collections()[0]["observed_by_others"] == true
    });
    end(&tool, verbose);
    let took = await_short_pauses(&mut target, HEAL_TIMEOUT, before, beside);
    println!(
        "{}: {before} us, {beside} with a Verbose session, as before after {took:?}",
        runtime.name
    );
    assert!(
        beside >= before * 3,
        "the tool makes pauses longer: {before} us, {beside} with it"
    );
    daemon.await_that("the daemon counts the healing", |daemon| {
        daemon.healings() > healed_before
    });
    daemon.await_that("the tool has disconnected", |daemon| {
        daemon.collections()[0]["observed_by_others"] == false
    });
    assert_eq!(
        (daemon.healings(), daemon.reported()),
        (1, 1),
        "{:#?}",
        daemon.daemon.said()
    );
}

/// Returns the median of the newest nine pauses in microseconds, as the daemon reports them.
fn usual_pause_of(daemon: &Reader) -> u64 {
    let newest = daemon.collections();
    let mut pauses: Vec<u64> = newest.iter().take(9).filter_map(|gc| gc["pause_ns"].as_u64()).collect();
    pauses.sort_unstable();
    pauses[pauses.len() / 2] / 1000
}

/// Scenario: another tool has a Verbose session for three seconds while the daemon reads the process, and closes it.
/// Guarantee: the daemon detects the session and marks the collections as observed by others. Within ten seconds after
/// the close, pauses are short again. The daemon counts and logs exactly one healing, and then no longer marks
/// collections.
fn closed_session_is_healed(runtime: Runtime) {
    is_healed(runtime, |tool, session| {
        tool.end(session);
    });
}

/// Scenario: another tool with a Verbose session dies: its connection is closed, but the tool has never requested to
/// stop the session.
/// Guarantee: the process is healed as after a closed session.
fn session_of_dead_client_is_healed(runtime: Runtime) {
    is_healed(runtime, |_, session| {
        // Outside an executor, dropping the session only closes the connection, because no task can request the stop.
        drop(session);
    });
}

/// Scenario: `gcwatch allocations --tick` is killed (SIGKILL) while the daemon reads the process, as soon as the burst
/// has an effect, which can be between two checks of the daemon.
/// Guarantee: within 20 s, pauses are short again, and the burst lock is free. The timeout is 20 s because the daemon
/// repeats a healing after 10 s if the runtime had not yet noticed the dead client.
fn killed_burst_is_healed(runtime: Runtime) {
    let (mut target, scene) = pins(runtime);
    let daemon = Reader::start(&target, &scene);
    let before = target.shortest_pause(9);
    let leases = scene.folder().join("leases");
    for _ in 0..3 {
        let mut burst = program::command()
            .args(["allocations", "--tick", "--force", "--for", "60s", "--lease-folder"])
            .arg(&leases)
            .arg(target.pid().to_string())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let since = Instant::now();
        while target.shortest_pause(1) < before * 3 {
            assert!(since.elapsed() < TIMEOUT, "the burst makes pauses longer");
        }
        burst.kill().unwrap();
        burst.wait().unwrap();
        let took = await_short_pauses(&mut target, HEAL_TIMEOUT * 2, before, u64::MAX);
        println!("{}: {before} us, as before {took:?} after the kill", runtime.name);
        daemon.await_that("the lock is free", |_| !leases.join("burst.lease").exists());
    }
}

/// Scenario: while the daemon reads the process, another tool requests the process information ten times and opens ten
/// short sessions of a provider that does not exist, one after the other.
/// Guarantee: at most two healings cover all requests and sessions.
fn probes_are_healed_together(runtime: Runtime) {
    let (target, scene) = pins(runtime);
    let daemon = Reader::start(&target, &scene);
    let tool = Tool::for_target(&target);
    for _ in 0..10 {
        tool.executor.block_on(tool.client.process_info()).unwrap();
    }
    for _ in 0..10 {
        let mut session = tool.begin(&asks(Provider::new("Gcwatch-Test-Nobody", 1, 4)));
        tool.read(&mut session, Duration::from_millis(400));
        tool.end(session);
    }
    daemon.await_that("the healing", |daemon| daemon.healings() > 0);
    daemon.await_that("the tool has disconnected", |daemon| {
        daemon.collections()[0]["observed_by_others"] == false
    });
    assert!(daemon.healings() <= 2, "{}", daemon.daemon.said());
}

/// Scenario: a plain session is open. `gcwatch record --profile gc-verbose` records for two seconds; a second recording
/// is interrupted.
/// Guarantee: pauses are at most twice as long as before within ten seconds after the command has exited.
fn recordings_are_healed(runtime: Runtime) {
    let (mut target, scene) = pins(runtime);
    let tool = Tool::for_target(&target);
    let plain = tool.begin(&request_level(4));
    let before = target.shortest_pause(9);
    for interrupted in [false, true] {
        let mut record = program::command();
        record
            .args(["record", "--profile", "gc-verbose", "--pid"])
            .arg(target.pid().to_string())
            .arg("-o")
            .arg(scene.path(&format!("{interrupted}.nettrace")))
            .stderr(Stdio::null());
        if !interrupted {
            record.args(["--duration", "2s"]);
        }
        let mut record = record.spawn().unwrap();
        if interrupted {
            // Longer pauses show that the recording has started.
            let since = Instant::now();
            while target.shortest_pause(3) < before * 3 {
                assert!(since.elapsed() < TIMEOUT, "the recording makes pauses longer");
            }
            let pid = rustix::process::Pid::from_child(&record);
            rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
        }
        assert!(record.wait().unwrap().success());
        let took = await_short_pauses(&mut target, HEAL_TIMEOUT, before, u64::MAX);
        println!(
            "{}: {before} us, as before {took:?} after a recording (interrupted: {interrupted})",
            runtime.name
        );
    }
    drop(plain);
}
