//! A suspended or hanging daemon does not block a process, and an unread log does not block a daemon.

use std::os::fd::OwnedFd;
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, Signal, kill_process, pidfd_getfd, pidfd_open};
use test_support::add_tests;
use test_support::daemon::{Daemon, await_that, await_within};
use test_support::harness::Tests;
use test_support::runtimes::{ALL, FETCHED, Host, NET_10, Runtime, need};
use test_support::scene::Scene;
use test_support::target::{Target, await_end};

use crate::serving::{self, SILENT};

pub(crate) fn tests(tests: &mut Tests) {
    let more = ALL
        .into_iter()
        .filter(|runtime| crate::is_full() || runtime.name == "net8.0.33");
    for runtime in FETCHED
        .into_iter()
        .chain(more.filter(|runtime| !FETCHED.contains(runtime)))
    {
        let path = format!(
            "{}::stopped_daemon_does_not_block_processes::{}",
            module_path!(),
            runtime.name
        );
        tests.add(
            path,
            move || runtime.need(),
            move || stopped_daemon_does_not_block_processes(runtime),
        );
    }
    add_tests!(tests, need(&[NET_10]); killed_guard_is_restarted);
    add_tests!(tests, || Ok(()); unread_log_does_not_block_daemon, stopped_daemon_without_sessions_continues);
}

/// Number of collections per process that the API returns.
const COLLECTIONS_PER_PROCESS: u64 = 6;

/// Maximum time for which a suspended gcwatch process blocks another process.
pub(crate) const HELD_AT_MOST: Duration = Duration::from_secs(10);

/// Number of waiting bytes up to which a socket is not full. A full socket holds 90 KB (with .NET Core 3.1, which
/// writes small pieces) to 200 KB.
const MUCH: u64 = 50_000;

/// Returns the number of bytes that wait in each socket of a process. A session appears twice, because it has two
/// descriptors. The kernel permits the test to copy the descriptors, because the test is the parent of the process.
fn waiting(pid: u32) -> Vec<u64> {
    let process = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    let process = pidfd_open(process, PidfdFlags::empty()).unwrap();
    let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd"))
        .unwrap()
        .filter_map(Result::ok);
    let sockets = descriptors.filter(|entry| {
        std::fs::read_link(entry.path()).is_ok_and(|target| target.to_string_lossy().starts_with("socket:"))
    });
    let number = |entry: std::fs::DirEntry| entry.file_name().to_str()?.parse().ok();
    let copies = sockets
        .filter_map(number)
        .filter_map(|number: i32| -> Option<OwnedFd> { pidfd_getfd(&process, number, PidfdGetfdFlags::empty()).ok() });
    copies
        .filter_map(|copy| rustix::io::ioctl_fionread(copy).ok())
        .collect()
}

/// Number of consecutive checks without new bytes after which a socket counts as full.
const STANDS: usize = 4;

/// Triggers collections until the sockets of all sessions of the suspended daemon are full, so that further collections
/// add no bytes. NativeAOT processes collect by themselves.
pub(crate) fn fill(daemon: &Daemon, targets: &mut [&mut Target], reads_stdin: bool) {
    let since = Instant::now();
    let (mut before, mut stands) = (Vec::new(), 0);
    while stands < STANDS {
        for target in targets.iter_mut().filter(|_| reads_stdin) {
            for _ in 0..20 {
                target.write_line("collect 0");
            }
            target.await_line("a collection", |line| line.starts_with("did "));
        }
        std::thread::sleep(Duration::from_millis(100));
        let mut now = waiting(daemon.pid());
        now.retain(|bytes| *bytes > MUCH);
        let full = now.len() >= 2 * targets.len() && now == before;
        stands = if full { stands + 1 } else { 0 };
        before = now;
        // The sockets must fill before the guard closes them.
        assert!(
            since.elapsed() < Duration::from_secs(5),
            "the sockets fill in time: {:?}",
            waiting(daemon.pid())
        );
    }
}

/// Requests the exit of a process with SIGTERM. If the workload runs as a startup hook of another program, SIGTERM
/// would kill the process at once. Such a workload gets the order to stop instead, which also ends the sessions.
pub(crate) fn ask_to_end(target: &mut Target, runtime: Runtime) {
    if runtime.host == Host::StartupHook {
        target.write_line("stop");
    } else {
        target.signal(Signal::TERM);
    }
}

pub(crate) fn attached(target: &serde_json::Value) -> bool {
    target["state"] == "attached"
}

/// Returns the number of the newest reported collection of a process, or `None` if no collection is reported.
fn newest(daemon: &Daemon, pid: u32) -> Option<u64> {
    let gcs = daemon.json(&format!("/api/v1/gcs?pid={pid}&limit=1"));
    gcs["gcs"][0]["number"].as_u64()
}

/// Scenario: the daemon is attached to two processes. The daemon is suspended, and collections fill the sockets of both
/// processes. One process is requested to exit; then the daemon continues.
/// Guarantee: this process exits within ten seconds. The daemon attaches to the other process again, logs the closed
/// sessions and counts them. The guard continues, and /livez is ok. After the first collection of the new session,
/// every collection is reported (not checked for NativeAOT).
fn stopped_daemon_does_not_block_processes(runtime: Runtime) {
    let scene = Scene::begin();
    let mut daemon = serving::start(&scene, "");
    let start = || {
        // The NativeAOT program does not read its input and collects by itself.
        let mode = if runtime.is_native_aot() { "pressure" } else { "idle" };
        let mut start = scene.start(runtime, mode);
        start.seconds = 120;
        start.start()
    };
    let (mut ending, mut living) = (start(), start());
    for pid in [ending.pid(), living.pid()] {
        daemon.await_target(pid, "attached", attached);
    }
    let guard = daemon.await_guard(None);
    daemon.signal(Signal::STOP);
    fill(&daemon, &mut [&mut ending, &mut living], !runtime.is_native_aot());

    let asked = Instant::now();
    ask_to_end(&mut ending, runtime);
    let held = ending.await_exit(Duration::from_secs(60)).map(|_| asked.elapsed());
    assert!(
        held.is_some_and(|held| held < HELD_AT_MOST),
        "{}: exited {held:?} after SIGTERM",
        runtime.name
    );
    println!("{}: exited {:?} after the request", runtime.name, held.unwrap());

    // The guard also closes the session of the other process, which the daemon can report only after it continues.
    let stopped_for = Duration::from_secs(7).saturating_sub(asked.elapsed());
    std::thread::sleep(stopped_for);
    daemon.signal(Signal::CONT);
    let said = daemon.await_line("its guard closed");
    assert!(said.contains("session"), "{said}");
    let again = daemon.await_target(living.pid(), "attached again", |target| {
        attached(target) && target["sessions"].as_u64().is_none_or(|sessions| sessions > 1)
    });
    assert!(attached(&again));
    assert_eq!(daemon.guard(), Some(guard), "the guard continues");
    let (status, parts) = daemon.get("/livez");
    assert_eq!((status, parts.lines().next()), (200, Some("ok")), "{parts}");
    assert!(daemon.metric("gcwatch_guard_releases_total") >= Some(1.0));
    assert!(
        daemon.said().matches("the session failed").count() == 0,
        "no failed session is reported:\n{}",
        daemon.said()
    );

    if !runtime.is_native_aot() {
        // The numbers of the following collections have no gap.
        let first = collect_until_reported(&daemon, &mut living);
        for _ in 1..COLLECTIONS_PER_PROCESS {
            living.write_line("collect 0");
            living.await_line("a collection", |line| line.starts_with("did "));
        }
        let last = first + COLLECTIONS_PER_PROCESS - 1;
        await_that("the last collection is reported", || {
            newest(&daemon, living.pid()) >= Some(last)
        });
        let gcs = daemon.list(
            &format!("/api/v1/gcs?pid={}&limit={COLLECTIONS_PER_PROCESS}", living.pid()),
            "gcs",
        );
        let numbers: Vec<u64> = gcs.iter().map(|gc| gc["number"].as_u64().unwrap()).collect();
        assert_eq!(numbers, (first..=last).rev().collect::<Vec<_>>());
    }
    daemon.end();
    living.stop();
}

/// Triggers collections until the current session has reported a collection. Returns the number of this collection.
fn collect_until_reported(daemon: &Daemon, target: &mut Target) -> u64 {
    let before = newest(daemon, target.pid());
    let since = Instant::now();
    loop {
        target.write_line("collect 0");
        target.await_line("a collection", |line| line.starts_with("did "));
        let asked = Instant::now();
        while asked.elapsed() < Duration::from_secs(3) {
            let now = newest(daemon, target.pid());
            if now > before {
                return now.unwrap();
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        assert!(since.elapsed() < Duration::from_secs(60), "a collection is reported");
    }
}

/// Scenario: the guard is killed; then the daemon is suspended, the socket fills, and the process gets SIGTERM.
/// Guarantee: the daemon starts a new guard, which takes over the existing session. The process exits within ten
/// seconds.
fn killed_guard_is_restarted() {
    let scene = Scene::begin();
    let mut daemon = serving::start(&scene, "");
    let mut target = scene.start(NET_10, "idle").start();
    daemon.await_target(target.pid(), "attached", attached);
    let first = daemon.await_guard(None);
    kill_process(first, Signal::KILL).unwrap();
    daemon.await_line("the guard of sessions ended");
    let second = daemon.await_guard(Some(first));
    // The guard holds the session if it has a second socket in addition to its own.
    let holds = || {
        let descriptors = std::fs::read_dir(format!("/proc/{}/fd", second.as_raw_nonzero()));
        let sockets = descriptors
            .into_iter()
            .flatten()
            .filter_map(Result::ok)
            .filter(|entry| {
                std::fs::read_link(entry.path()).is_ok_and(|target| target.to_string_lossy().starts_with("socket:"))
            });
        sockets.count() >= 2
    };
    await_within(HELD_AT_MOST, "the new guard holds the session", holds);
    daemon.signal(Signal::STOP);
    fill(&daemon, &mut [&mut target], true);
    let asked = Instant::now();
    ask_to_end(&mut target, NET_10);
    assert!(
        target.await_exit(HELD_AT_MOST).is_some(),
        "held for {:?}",
        asked.elapsed()
    );
    daemon.signal(Signal::CONT);
    daemon.await_line("its guard closed");
    daemon.end();
}

/// Scenario: a daemon without sessions is suspended for longer than the guard's timeout and continues.
/// Guarantee: the guard closes no stream and keeps running, the log does not mention the guard, and the daemon is
/// alive.
fn stopped_daemon_without_sessions_continues() {
    let daemon = serving::alone("");
    daemon.await_guard(None);
    daemon.signal(Signal::STOP);
    std::thread::sleep(Duration::from_secs(7));
    daemon.signal(Signal::CONT);
    await_within(HELD_AT_MOST, "the daemon is alive", || daemon.get("/livez").0 == 200);
    assert_eq!(daemon.metric("gcwatch_guard_releases_total"), Some(0.0));
    assert_eq!(daemon.metric("gcwatch_guard_running"), Some(1.0));
    let said = daemon.end();
    assert!(!said.contains("guard"), "{said}");
}

/// Scenario: the daemon logs at the most detailed level, and no process reads the pipe of its standard error, which is
/// full; then the configuration changes with a SIGHUP, and SIGTERM arrives.
/// Guarantee: the daemon keeps answering and applies the change. The daemon counts the lines that did not fit, and
/// exits within ten seconds.
fn unread_log_does_not_block_daemon() {
    let scene = Scene::begin();
    // The test chooses a port that was free a moment ago, because the test does not read the log line with an assigned
    // port.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    let (reader, writer) = std::io::pipe().unwrap();
    let mut command = scene.command_at(&address.to_string(), &format!("{SILENT}log: {{level: trace}}\n"));
    let mut child = command.stderr(Stdio::from(OwnedFd::from(writer))).spawn().unwrap();
    drop(command);
    let answers = |path: &str| crate::listener::get(address, path, "localhost", Duration::from_secs(5));
    let until = |what: &str, is: &dyn Fn(&str) -> bool| {
        let since = Instant::now();
        while !answers("/metrics").is_some_and(|(_, text)| is(&text)) {
            assert!(
                since.elapsed() < Duration::from_secs(60),
                "{what}: {:?}",
                answers("/metrics")
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    let value = |text: &str, name: &str| -> f64 {
        let line = text.lines().find(|line| line.starts_with(name));
        line.and_then(|line| line.rsplit(' ').next()?.parse().ok())
            .unwrap_or(0.0)
    };
    until("the daemon listens", &|_| true);
    // Each mistake causes a log line at each reload.
    let file = scene.path("gcwatch.yaml");
    let config = std::fs::read_to_string(&file).unwrap();
    let mistakes: String = (0..100).map(|number| format!("mistake{number}: 1\n")).collect();
    std::fs::write(&file, format!("{config}{mistakes}")).unwrap();
    let pid = Pid::from_child(&child);
    until("a line is dropped", &|text| {
        kill_process(pid, Signal::HUP).unwrap();
        value(text, "gcwatch_log_dropped_total") > 0.0
    });
    std::fs::write(&file, format!("{config}metrics: {{interval: 7s}}\n")).unwrap();
    kill_process(pid, Signal::HUP).unwrap();
    until("SIGHUP is handled", &|text| {
        let mut reloads = text
            .lines()
            .filter(|line| line.starts_with("gcwatch_config_reloads_total"));
        reloads.any(|line| line.contains("accepted") && !line.ends_with(" 0"))
    });
    let asked = Instant::now();
    kill_process(pid, Signal::TERM).unwrap();
    let status = await_end(&mut child, HELD_AT_MOST);
    if status.is_none() {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    assert!(
        status.is_some_and(|status| status.success()),
        "{status:?} after {:?}",
        asked.elapsed()
    );
    drop(reader);
}
