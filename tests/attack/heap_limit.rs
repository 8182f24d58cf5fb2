//! A process whose memory stands at its limit is not attached to for the first time: that can end it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use processes::RunState;
use test_support::add_tests;
use test_support::harness::{Missing, Need, Tests};
use test_support::runtimes::NET_10;
use test_support::supervised::{Run, Supervised};
use test_support::target::{PATIENCE, Start, Target};

use crate::start_up::options;

pub(crate) fn tests(tests: &mut Tests) {
    add_tests!(tests, || NET_10.need(); a_full_heap_is_left_alone);
    add_tests!(tests, groups; what_has_memory_again_is_attached_to);
}

/// The limit of the heap: so large that what is left of it at 96 % is enough for a session.
const LIMIT: &str = "0x20000000";
/// What the process keeps, in MB of a million: 95.6 % of the limit live, which no collection can give back. A heap is
/// full at 95 %.
const KEPT: &str = "513";
const FULL_KIB: u64 = (0x2000_0000 / 1000 * 956) >> 10;

fn groups() -> Need {
    NET_10.need()?;
    let missing = || Missing::Ignored("no control groups of version 1 can be made here".to_owned());
    Group::new("probe").map(drop).ok_or_else(missing)
}

/// A memory group of version 1 that is named as Docker's are, removed at the end.
struct Group(PathBuf);

impl Group {
    /// `None`: this machine or this user cannot make it.
    fn new(name: &str) -> Option<Self> {
        let id = format!(
            "{:0>64}",
            format!("{name:x<8}{:x}", std::process::id()).replace(|c: char| !c.is_ascii_hexdigit(), "a")
        );
        let path = PathBuf::from(format!("/sys/fs/cgroup/memory/docker-{id}.scope"));
        std::fs::create_dir(&path).ok()?;
        Some(Self(path))
    }

    fn write(&self, file: &str, value: u64) {
        std::fs::write(self.0.join(file), value.to_string()).unwrap();
    }

    fn working_set(&self) -> u64 {
        let text = |file: &str| std::fs::read_to_string(self.0.join(file)).unwrap();
        let usage: u64 = text("memory.usage_in_bytes").trim().parse().unwrap();
        let stat = text("memory.stat");
        let idle = stat.lines().find_map(|line| line.strip_prefix("total_inactive_file "));
        usage - idle.unwrap().parse::<u64>().unwrap()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // A process that has just ended may still be in it.
        let until = Instant::now() + PATIENCE;
        while std::fs::remove_dir(&self.0).is_err() && self.0.exists() && Instant::now() < until {
            std::thread::yield_now();
        }
    }
}

fn waits(run: &Run) -> bool {
    matches!(run.state(), RunState::Unattachable { reason, .. } if reason == "at-heap-limit")
}

fn anonymous_kib(target: &Target) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", target.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.split_ascii_whitespace().next().unwrap().parse().unwrap()
}

/// What a command of ours says of a process.
fn said(command: &[&str], pid: u32) -> String {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_gcwatch"))
        .args(command)
        .args(["--format", "ndjson"])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let of_pid = format!("\"pid\":{pid},");
    let lines = text.lines().filter(|line| !line.contains("\"kind\":\"gcwatch\""));
    lines.filter(|line| line.contains(&of_pid)).collect()
}

/// Scenario: a process fills its heap to the hard limit; then gcwatch starts, looks at it several times, and is
/// configured to attach all the same.
/// Guarantee: it is not attached to, it works on, gcwatch, `doctor` and `ps` say why; by the option it is attached to.
fn a_full_heap_is_left_alone() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let leases = tempfile::tempdir().unwrap();
        let mark = leases.path().file_name().unwrap().to_str().unwrap().to_owned();
        // The budget of generation 0 comes from the machine's cache: without a size of its own it takes what is left.
        let knobs = [("GCHeapHardLimit", LIMIT), ("GCgen0size", "0x400000")];
        let start = Start::new(NET_10, "nearlimit").knobs(&knobs);
        let mut target = start.env("WKEEP", KEPT).env("GCWATCH_TEST_MARK", &mark).start();
        let since = Instant::now();
        while anonymous_kib(&target) < FULL_KIB {
            assert!(since.elapsed() < PATIENCE, "{} KiB", anonymous_kib(&target));
            target.await_ticks(1);
        }
        let options = options(&mark, leases.path());
        let supervised = Supervised::start(options.clone());
        let run = supervised.log.until(target.pid(), "waits", waits).await;
        let RunState::Unattachable { detail, .. } = run.state() else {
            unreachable!()
        };
        assert!(detail.contains("DOTNET_GCHeapHardLimit"), "{detail}");
        for command in [&["ps"][..], &["doctor", "--pid", &target.pid().to_string()]] {
            let text = said(command, target.pid());
            assert!(
                text.contains("at-heap-limit") && text.contains("first session"),
                "{command:?}: {text}"
            );
        }
        target.await_ticks(3);
        let run = supervised.log.run(target.pid()).unwrap();
        assert!(waits(&run) && run.opened == 0, "{:?}", run.states);
        let all_the_same = targets::options::TargetOptions {
            attach_at_heap_limit: true,
            ..options
        };
        supervised.options.send_replace(Arc::new(all_the_same));
        supervised.log.until(target.pid(), "attached", Run::is_attached).await;
        supervised.stop().await;
    });
}

/// Scenario: the memory of a process's container stands at the container's limit when gcwatch starts; then the limit
/// is raised.
/// Guarantee: it waits until then, and is attached to by itself.
fn what_has_memory_again_is_attached_to() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let leases = tempfile::tempdir().unwrap();
        let mark = leases.path().file_name().unwrap().to_str().unwrap().to_owned();
        let group = Group::new("heap").unwrap();
        group.write("memory.limit_in_bytes", 1 << 30);
        // It keeps so much that 4 % of it are enough for what it does meanwhile.
        let start = Start::new(NET_10, "nearlimit").knobs(&[("GCgen0size", "0x200000")]);
        let start = start.env("WKEEP", "300").env("GCWATCH_TEST_MARK", &mark);
        let mut target = start.spawn();
        group.write("cgroup.procs", u64::from(target.pid()));
        target.await_line("ready", |line| line.starts_with("ready "));
        let since = Instant::now();
        while anonymous_kib(&target) < 300_000 {
            assert!(since.elapsed() < PATIENCE, "{} KiB", anonymous_kib(&target));
            target.await_ticks(1);
        }
        target.await_ticks(5);
        group.write("memory.limit_in_bytes", group.working_set() / 100 * 104);
        let supervised = Supervised::start(options(&mark, leases.path()));
        let run = supervised.log.until(target.pid(), "waits", waits).await;
        let RunState::Unattachable { detail, .. } = run.state() else {
            unreachable!()
        };
        assert!(detail.contains("container"), "{detail}");
        group.write("memory.limit_in_bytes", 1 << 30);
        let attached = supervised
            .log
            .within(Duration::from_secs(60), target.pid(), Run::is_attached);
        assert!(attached.await, "{:?}", supervised.log.run(target.pid()));
        supervised.stop().await;
        drop(target);
    });
}
