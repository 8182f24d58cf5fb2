//! Bursts of a process that makes up what is in them: of the daemon and of commands, within one budget.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use test_support::add_tests;
use test_support::daemon::{Daemon, await_end, await_that, most_memory, until};
use test_support::harness::{Missing, Need, Tests};
use test_support::program;
use test_support::scene::Scene;
use test_support::target::PATIENCE;

use crate::flooded::{self, Runtime, assert_whole, neighbour};
use crate::frozen::attached;

pub(crate) fn tests(tests: &mut Tests) {
    add_tests!(
        tests, || Ok(());
        a_hostile_burst_costs_the_daemon_its_share,
        a_hostile_burst_costs_a_command_its_share,
        who_died_in_a_burst_begins_none_again,
        bursts_that_do_not_end_take_nobodys_turn,
        a_stopped_command_holds_nobody,
    );
    add_tests!(tests, need_root; a_lock_of_another_user_is_none);
}

/// What a burst may take, with the session that stands, and what is made of it, bytes.
const ONE: u64 = 32_000_000;

/// A daemon whose incidents ask who allocates, for the processes of one scene.
fn start(scene: &Scene) -> Daemon {
    let rule = scene.any(false, "severity: info, evidence: [allocations]");
    let bursts = "evidence: {bursts: on, burst_for: 2s}\n";
    flooded::daemon(scene, &format!("{rule}{bursts}{}", scene.state()))
}

/// What the incident of a process has of a burst, as soon as it has it.
fn found(daemon: &Daemon, pid: u32) -> Value {
    daemon.incident(pid, "what a burst found", |one| !one["allocations"].is_null())["allocations"].take()
}

/// Scenario: beside one that behaves well, a process whose burst has 1,500 stacks of 100 frames that no other has, of
/// methods with names of 6 KB, and nine times as much after it was asked to stop.
/// Guarantee: the daemon's memory grows by what one process may cost; the incident has what was counted in time; the
/// neighbour loses nothing.
fn a_hostile_burst_costs_the_daemon_its_share() {
    let scene = Scene::begin();
    let daemon = start(&scene);
    let neighbour = neighbour(&scene, &daemon);
    let before = daemon.most_memory();
    let hostile = Runtime::start(&scene, "burst");
    let found = found(&daemon, hostile.pid());
    let grown = daemon.most_memory() - before;
    println!(
        "the daemon's memory grew by {:.1} MB: {}",
        grown as f64 / 1e6,
        found["total"]
    );
    assert!(found["none_because"].is_null(), "{found}");
    let samples = found["total"]["samples"].as_u64().unwrap();
    assert!((1..=2_000).contains(&samples), "{found}");
    assert!(grown <= ONE, "{grown} bytes");
    assert_whole(&daemon, &neighbour);
}

fn gcwatch(scene: &Scene, arguments: &[&str], pid: u32) -> Child {
    let mut command = program::command();
    command.args(arguments).arg(pid.to_string());
    command.args(["--lease-folder", &scene.path("leases")]);
    command
        .env("TMPDIR", scene.folder())
        .stderr(Stdio::piped())
        .stdout(Stdio::piped());
    command.spawn().unwrap()
}

/// Scenario: commands ask the same process who allocates, and make tables, records, pictures, folded stacks, profiles.
/// Guarantee: none takes more than a burst may, and each output has at most some megabytes.
fn a_hostile_burst_costs_a_command_its_share() {
    let scene = Scene::begin();
    let hostile = Runtime::start(&scene, "burst");
    for format in ["table", "ndjson", "svg", "folded", "pprof"] {
        let out = scene.path(format);
        let arguments = ["allocations", "--duration", "1s", "--format", format, "-o", &out];
        let mut child = gcwatch(&scene, &arguments, hostile.pid());
        let (since, mut most) = (Instant::now(), 0);
        while child.try_wait().unwrap().is_none() {
            most = most.max(most_memory(child.id()).unwrap_or(0));
            assert!(since.elapsed() < PATIENCE, "{format}");
            std::thread::sleep(Duration::from_millis(2));
        }
        let ended = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert!(ended.status.success(), "{format}: {said}");
        let written = fs::metadata(&out).unwrap().len();
        println!("{format}: {:.1} MB, {written} bytes", most as f64 / 1e6);
        // With what the program itself takes.
        assert!(most <= ONE + 24_000_000, "{format}: {most} bytes");
        assert!(format != "svg" || written < 2 << 20, "{written} bytes");
    }
}

/// Scenario: the daemon is killed in the middle of a burst; another one is started with the same state directory.
/// Guarantee: it begins none of this process, and says why; of another process it does.
fn who_died_in_a_burst_begins_none_again() {
    let scene = Scene::begin();
    let daemon = start(&scene);
    let first = Runtime::start(&scene, "burst");
    let marks = scene.folder().join("state/bursts.json");
    await_that("a burst", || {
        fs::read_to_string(&marks).is_ok_and(|marks| marks.contains(&first.pid().to_string()))
    });
    drop(daemon);
    let daemon = start(&scene);
    let found_first = found(&daemon, first.pid());
    let why = found_first["none_because"].as_str().unwrap_or_default();
    assert!(why.contains("gcwatch was killed during a burst"), "{found_first}");
    let second = Runtime::start(&scene, "burst");
    let found_second = found(&daemon, second.pid());
    assert!(found_second["none_because"].is_null(), "{found_second}");
}

/// Scenario: six processes whose bursts do not end when they are asked to, then one whose bursts do; incidents of all
/// ask who allocates.
/// Guarantee: one burst that is late costs their service the turn; the last one has its burst.
fn bursts_that_do_not_end_take_nobodys_turn() {
    let scene = Scene::begin();
    let daemon = start(&scene);
    let hostile: Vec<Runtime> = (0..6).map(|_| Runtime::start(&scene, "holds-bursts")).collect();
    await_that("a burst of one that holds it", || {
        daemon.list("/api/v1/incidents", "incidents").len() >= hostile.len()
    });
    let honest = Runtime::start(&scene, "well-behaved");
    let of_honest = found(&daemon, honest.pid());
    assert!(of_honest["none_because"].is_null(), "{of_honest}");
    let late = hostile.iter().filter(|runtime| {
        let found = found(&daemon, runtime.pid());
        let why = found["none_because"].as_str().unwrap_or_default();
        println!("{}: {why}", runtime.pid());
        why.contains("did not finish in time and delayed other bursts")
    });
    assert_eq!(late.count(), hostile.len() - 1);
}

/// How many sockets the guard of a command has: the one to the command, then the streams that it holds.
fn guard_sockets(pid: u32) -> Option<usize> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).ok()?.filter_map(Result::ok);
    let children = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    let guard = children.flat_map(|text| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
    let files = fs::read_dir(format!("/proc/{}/fd", guard.last()?)).ok()?;
    let links = files.filter_map(|file| fs::read_link(file.ok()?.path()).ok());
    Some(
        links
            .filter(|link| link.to_string_lossy().starts_with("socket:"))
            .count(),
    )
}

/// Scenario: `gcwatch callers` is stopped (Ctrl-Z) while it reads a process.
/// Guarantee: within ten seconds its stream is closed, so that the process's writes do not wait; it says so when it
/// goes on, and ends.
fn a_stopped_command_holds_nobody() {
    let scene = Scene::begin();
    let runtime = Runtime::start(&scene, "well-behaved");
    let mut child = gcwatch(&scene, &["callers", "--duration", "10m"], runtime.pid());
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    let connections = || {
        let table = fs::read_to_string("/proc/net/unix").unwrap();
        let socket = format!("dotnet-diagnostic-{}-", runtime.pid());
        // The listening socket is one of them.
        table.lines().filter(|line| line.contains(&socket)).count() - 1
    };
    await_that("a session", || connections() > 0);
    until("its guard has the stream", || {
        guard_sockets(child.id()).filter(|sockets| *sockets > 1)
    });
    kill_process(pid, Signal::STOP).unwrap();
    let since = Instant::now();
    // The runtime's end is gone when it has noticed at its next write.
    await_that("the stream is closed", || connections() == 0);
    assert!(since.elapsed() < Duration::from_secs(15), "{:?}", since.elapsed());
    kill_process(pid, Signal::CONT).unwrap();
    assert!(await_end(&mut child, PATIENCE).is_some());
}

pub(crate) fn need_root() -> Need {
    if rustix::process::geteuid().is_root() {
        Ok(())
    } else {
        Err(Missing::Ignored("it needs root, which becomes another user".to_owned()))
    }
}

/// Scenario: another user has the leases of a daemon of root open and locked, as far as that user may, when it is
/// killed; the next one starts.
/// Guarantee: that user can open none of them; even of one that it can, left by an older gcwatch, the lock does not
/// count: the process is read.
fn a_lock_of_another_user_is_none() {
    let scene = Scene::begin();
    fs::set_permissions(scene.folder(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let daemon = start(&scene);
    let runtime = Runtime::start(&scene, "well-behaved");
    daemon.await_target(runtime.pid(), "it is read", attached);
    let leases = scene.folder().join("leases");
    let lease = || {
        let files = fs::read_dir(&leases)
            .unwrap()
            .filter_map(Result::ok)
            .map(|entry| entry.path());
        let of = format!("{}-", runtime.pid());
        files
            .into_iter()
            .find(|path| path.file_name().unwrap().to_str().unwrap().starts_with(&of))
    };
    let lease = lease().unwrap();
    let locks = || {
        let mut command = Command::new("flock");
        command
            .args(["--no-fork", "-s", "-w", "60"])
            .arg(&lease)
            .args(["sleep", "600"]);
        command.uid(65_534).gid(65_534).stderr(Stdio::null());
        command
    };
    let ended = locks().status().unwrap();
    assert!(!ended.success(), "{lease:?} can be opened by others");
    fs::set_permissions(&lease, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    let mut other = locks().spawn().unwrap();
    let inode = std::os::unix::fs::MetadataExt::ino(&fs::metadata(&lease).unwrap());
    let has_line = |waits: bool| {
        let locks = fs::read_to_string("/proc/locks").unwrap();
        let of_lease = format!(":{inode} ");
        let mut lines = locks.lines().filter(|line| line.contains(&of_lease));
        lines.any(|line| line.contains("->") == waits)
    };
    await_that("the other user waits for the lock", || has_line(true));
    drop(daemon);
    // Now it has the lock: the kernel gave it on.
    await_that("the lock of the other user", || has_line(false));
    let daemon = start(&scene);
    daemon.await_target(runtime.pid(), "it is read again", attached);
    assert!(
        daemon.said().contains("which is not a valid lease holder"),
        "{}",
        daemon.said()
    );
    other.kill().unwrap();
    other.wait().unwrap();
}
