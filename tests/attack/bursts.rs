//! Bursts of hostile processes. Bursts of the daemon and of commands stay within a memory budget, and do not block
//! other processes.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use test_support::add_tests;
use test_support::daemon::{Daemon, await_that, most_memory, until};
use test_support::harness::Tests;
use test_support::program;
use test_support::scene::Scene;
use test_support::target::{TIMEOUT, await_end};

use crate::flooded::{self, Runtime, assert_whole, neighbour};
use crate::frozen::attached;

pub(crate) fn tests(tests: &mut Tests) {
    add_tests!(
        tests, || Ok(());
        hostile_burst_stays_within_budget_of_daemon,
        hostile_burst_stays_within_budget_of_command,
        daemon_killed_in_burst_does_not_repeat_it,
        unending_bursts_do_not_block_other_processes,
        stopped_command_does_not_block_process,
    );
    add_tests!(tests, crate::need_root; lock_of_another_user_is_ignored);
}

/// Memory limit of a burst, its results and the daemon's session, in bytes.
const ONE: u64 = 32_000_000;

/// Starts a daemon for the processes of a scene. Each process has an incident that requests the allocating sites.
fn start(scene: &Scene) -> Daemon {
    let rule = scene.any(false, "severity: info, evidence: [allocations]");
    let bursts = "evidence: {bursts: on, burst_for: 2s}\n";
    flooded::daemon(scene, &format!("{rule}{bursts}{}", scene.state()))
}

/// Waits for the result of a burst in the incident of a process.
fn found(daemon: &Daemon, pid: u32) -> Value {
    daemon.incident(pid, "what a burst found", |one| !one["allocations"].is_null())["allocations"].take()
}

/// Scenario: next to a well-behaved process, the burst of another process has 1,500 distinct stacks of 100 frames, of
/// methods with names of 6 KB, and sends nine times as much after the request to stop.
/// Guarantee: the daemon's memory grows by at most 32 MB. The incident contains 1 to 2,000 samples, so late samples are
/// left out. The well-behaved process loses no events.
fn hostile_burst_stays_within_budget_of_daemon() {
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

/// Scenario: commands request the allocating sites of a process with such a burst and print tables, records, pictures,
/// folded stacks and profiles.
/// Guarantee: no command uses more than the memory limit of a burst plus 24 MB for the program, and the SVG picture is
/// smaller than 2 MiB.
fn hostile_burst_stays_within_budget_of_command() {
    let scene = Scene::begin();
    let hostile = Runtime::start(&scene, "burst");
    for format in ["table", "ndjson", "svg", "folded", "pprof"] {
        let out = scene.path(format);
        let arguments = ["allocations", "--duration", "1s", "--format", format, "-o", &out];
        let mut child = gcwatch(&scene, &arguments, hostile.pid());
        let (since, mut most) = (Instant::now(), 0);
        while child.try_wait().unwrap().is_none() {
            most = most.max(most_memory(child.id()).unwrap_or(0));
            assert!(since.elapsed() < TIMEOUT, "{format}");
            std::thread::sleep(Duration::from_millis(2));
        }
        let ended = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert!(ended.status.success(), "{format}: {said}");
        let written = fs::metadata(&out).unwrap().len();
        println!("{format}: {:.1} MB, {written} bytes", most as f64 / 1e6);
        // The additional 24 MB are the memory of the program itself.
        assert!(most <= ONE + 24_000_000, "{format}: {most} bytes");
        assert!(format != "svg" || written < 2 << 20, "{written} bytes");
    }
}

/// Scenario: the daemon is killed in the middle of a burst; another daemon starts with the same state directory.
/// Guarantee: the new daemon starts no burst of the same process and states the reason, but starts a burst of another
/// process.
fn daemon_killed_in_burst_does_not_repeat_it() {
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

/// Scenario: the bursts of six processes of one service do not end on request, but the bursts of another process do.
/// Incidents of all processes request the allocating sites.
/// Guarantee: after one late burst, the service of the six processes gets no further burst; the other process gets its
/// burst.
fn unending_bursts_do_not_block_other_processes() {
    let scene = Scene::begin();
    let daemon = start(&scene);
    let hostile: Vec<Runtime> = (0..6).map(|_| Runtime::start(&scene, "holds-bursts")).collect();
    await_that("a burst of a process that holds the lock", || {
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

/// Returns the number of sockets of a command's guard: one to the command, and one for each stream that the guard
/// holds.
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

/// Scenario: `gcwatch callers` is suspended (Ctrl-Z) while it reads a process.
/// Guarantee: the stream of the command is closed within 15 s, so that writes of the process do not block. The command
/// exits after it continues.
fn stopped_command_does_not_block_process() {
    let scene = Scene::begin();
    let runtime = Runtime::start(&scene, "well-behaved");
    let mut child = gcwatch(&scene, &["callers", "--duration", "10m"], runtime.pid());
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    let connections = || {
        let table = fs::read_to_string("/proc/net/unix").unwrap();
        let socket = format!("dotnet-diagnostic-{}-", runtime.pid());
        // One of the lines is the listening socket.
        table.lines().filter(|line| line.contains(&socket)).count() - 1
    };
    await_that("a session", || connections() > 0);
    until("its guard has the stream", || {
        guard_sockets(child.id()).filter(|sockets| *sockets > 1)
    });
    kill_process(pid, Signal::STOP).unwrap();
    let since = Instant::now();
    // The runtime closes its end at its next write.
    await_that("the stream is closed", || connections() == 0);
    assert!(since.elapsed() < Duration::from_secs(15), "{:?}", since.elapsed());
    kill_process(pid, Signal::CONT).unwrap();
    assert!(await_end(&mut child, TIMEOUT).is_some());
}

/// Scenario: another user tries to lock a lease of a root daemon. Then the lease becomes readable, like the leases of
/// older versions of gcwatch, and the user waits for its lock. The daemon is killed, and the next daemon starts.
/// Guarantee: the other user cannot open the original lease. The user's lock on the readable lease does not count,
/// which the log states, and the new daemon attaches to the process.
fn lock_of_another_user_is_ignored() {
    let scene = Scene::begin();
    fs::set_permissions(scene.folder(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let daemon = start(&scene);
    let runtime = Runtime::start(&scene, "well-behaved");
    daemon.await_target(runtime.pid(), "the process is read", attached);
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
    assert!(!ended.success(), "{lease:?} is not readable by other users");
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
    // The kernel passes the lock to the other user when the daemon has exited.
    await_that("the lock of the other user", || has_line(false));
    let daemon = start(&scene);
    daemon.await_target(runtime.pid(), "the process is read again", attached);
    assert!(
        daemon.said().contains("which is not a valid lease holder"),
        "{}",
        daemon.said()
    );
    other.kill().unwrap();
    other.wait().unwrap();
}
