//! A daemon of which one thread hangs, and one whose control group is frozen, hold nobody.
//!
//! Control groups of version 1 freeze single threads: that is how a thread hangs here that cannot be asked to.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use test_support::add_tests;
use test_support::daemon::MARK;
use test_support::harness::{Missing, Need, Tests};
use test_support::runtimes::NET_10;
use test_support::target::Start;

use crate::frozen::{HELD_AT_MOST, ask_to_end, attached, fill, mark};
use crate::serving;

pub(crate) fn tests(tests: &mut Tests) {
    add_tests!(tests, need; a_hung_reading_thread_holds_nobody, a_frozen_group_holds_nobody);
}

fn need() -> Need {
    NET_10.need()?;
    let missing = || Missing::Ignored("no freezer of control groups of version 1 is here".to_owned());
    Freezer::new("probe").map(drop).ok_or_else(missing)
}

/// A control group that can be frozen, thawed and removed at the end.
struct Freezer(PathBuf);

impl Freezer {
    /// `None`: this machine or this user cannot make it.
    fn new(name: &str) -> Option<Self> {
        let path = PathBuf::from(format!("/sys/fs/cgroup/freezer/gcwatch-{}-{name}", std::process::id()));
        std::fs::create_dir(&path).ok()?;
        let freezer = Self(path);
        freezer.0.join("freezer.state").exists().then_some(freezer)
    }

    fn write(&self, file: &str, value: &str) {
        std::fs::write(self.0.join(file), value).unwrap();
    }

    fn freeze(&self) {
        self.write("freezer.state", "FROZEN");
    }

    fn thaw(&self) {
        self.write("freezer.state", "THAWED");
    }
}

impl Drop for Freezer {
    fn drop(&mut self) {
        let _thawed = std::fs::write(self.0.join("freezer.state"), "THAWED");
        let until = Instant::now() + Duration::from_secs(10);
        // A thread that has just ended may still be in it; one that lives goes back to the root.
        while std::fs::remove_dir(&self.0).is_err() && self.0.exists() && Instant::now() < until {
            let tasks = std::fs::read_to_string(self.0.join("tasks")).unwrap_or_default();
            for task in tasks.lines() {
                let _moved = std::fs::write("/sys/fs/cgroup/freezer/tasks", task);
            }
            std::thread::yield_now();
        }
    }
}

/// The thread of a process with this name that was started first.
fn thread(pid: u32, name: &str) -> u32 {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let tasks = tasks.filter_map(|task| task.ok()?.file_name().to_str()?.parse().ok());
    let named = tasks.filter(|task: &u32| {
        std::fs::read_to_string(format!("/proc/{pid}/task/{task}/comm")).is_ok_and(|comm| comm.trim() == name)
    });
    named.min().unwrap_or_else(|| panic!("no thread {name}"))
}

/// Scenario: the thread that reads all streams hangs; the socket of a process fills; it is asked to end; then the
/// thread goes on.
/// Guarantee: the process has exited within ten seconds; meanwhile /livez names the thread; afterwards it is ok again,
/// and another process is attached to as before.
fn a_hung_reading_thread_holds_nobody() {
    let mark = mark();
    let mut daemon = serving::start(&mark, "");
    let start = || Start::new(NET_10, "idle").env(MARK, &mark).start();
    let (mut ending, living) = (start(), start());
    for pid in [ending.pid(), living.pid()] {
        daemon.await_target(pid, "attached", attached);
    }
    daemon.await_guard(None);
    let freezer = Freezer::new("thread").unwrap();
    freezer.write("tasks", &thread(daemon.pid(), "reading").to_string());
    freezer.freeze();
    fill(&daemon, &mut [&mut ending], true);
    let asked = Instant::now();
    ask_to_end(&mut ending, NET_10);
    assert!(
        ending.await_exit(HELD_AT_MOST).is_some(),
        "held for {:?}",
        asked.elapsed()
    );
    let since = Instant::now();
    loop {
        let (status, parts) = daemon.get("/livez");
        if status == 503
            && parts
                .lines()
                .any(|line| line.starts_with("reading") && line.contains("late"))
        {
            break;
        }
        assert!(since.elapsed() < Duration::from_secs(30), "{status}: {parts}");
        std::thread::yield_now();
    }
    freezer.thaw();
    drop(freezer);
    daemon.await_line("its guard closed");
    daemon.await_target(living.pid(), "attached again", |target| {
        attached(target) && target["sessions"].as_u64().is_none_or(|sessions| sessions > 1)
    });
    let since = Instant::now();
    while daemon.get("/livez").0 != 200 {
        assert!(since.elapsed() < HELD_AT_MOST, "{}", daemon.get("/livez").1);
    }
    daemon.signal(Signal::TERM);
    assert!(daemon.await_end().success());
    drop(living);
}

/// Scenario: the control group of the daemon is frozen, as a container runtime does, with the guard in another group;
/// the socket of a process fills; it is asked to end; then the group is thawed.
/// Guarantee: the process has exited within ten seconds, and the daemon goes on.
fn a_frozen_group_holds_nobody() {
    let mark = mark();
    let mut daemon = serving::start(&mark, "");
    let mut ending = Start::new(NET_10, "idle").env(MARK, &mark).start();
    daemon.await_target(ending.pid(), "attached", attached);
    daemon.await_guard(None);
    let freezer = Freezer::new("group").unwrap();
    freezer.write("cgroup.procs", &daemon.pid().to_string());
    freezer.freeze();
    fill(&daemon, &mut [&mut ending], true);
    let asked = Instant::now();
    ask_to_end(&mut ending, NET_10);
    assert!(
        ending.await_exit(HELD_AT_MOST).is_some(),
        "held for {:?}",
        asked.elapsed()
    );
    freezer.thaw();
    daemon.await_line("its guard closed");
    daemon.signal(Signal::TERM);
    assert!(daemon.await_end().success());
}
