//! The memory ledger of real processes in memory control groups: each has its memory in one known place.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;
use test_support::add_tests;
use test_support::daemon::{ANY, Daemon, command, marked};
use test_support::harness::{Missing, Need, Tests};
use test_support::runtimes::{ALL, NET_10, Runtime};
use test_support::target::{PATIENCE, Start, Target};

pub(crate) fn tests(tests: &mut Tests) {
    add_tests!(tests, need; verdicts_are_right);
}

fn need() -> Need {
    NET_10.need()?;
    let group = Group::new("need");
    let missing = || Missing::Ignored("no memory control groups of version 1 can be made here".to_owned());
    group.map(drop).ok_or_else(missing)
}

const MIB: u64 = 1 << 20;
const LIMIT: u64 = 512 * MIB;

/// A memory group of version 1 that is named as Docker's are, removed at the end.
struct Group(PathBuf);

impl Group {
    /// `None`: this machine or this user cannot make one.
    fn new(name: &str) -> Option<Self> {
        let digits = name.bytes().fold(u64::from(std::process::id()), |hash, byte| {
            hash.wrapping_mul(31).wrapping_add(byte.into())
        });
        let parent = PathBuf::from("/sys/fs/cgroup/memory/gcwatch-ledger");
        std::fs::create_dir_all(&parent).ok()?;
        let group = Self(parent.join(format!("docker-{digits:064x}.scope")));
        std::fs::create_dir(&group.0).ok()?;
        std::fs::write(group.0.join("memory.limit_in_bytes"), LIMIT.to_string()).ok()?;
        Some(group)
    }

    fn take(&self, pid: u32) {
        std::fs::write(self.0.join("cgroup.procs"), pid.to_string()).unwrap();
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // A process that has just ended may still be in it.
        let until = Instant::now() + PATIENCE;
        while std::fs::remove_dir(&self.0).is_err() && self.0.exists() && Instant::now() < until {
            std::thread::yield_now();
        }
        // The last one that is in it removes it.
        let _others = self.0.parent().map(std::fs::remove_dir);
    }
}

/// A daemon with a rule whose incidents have the ledger.
fn start(mark: &str, folder: &Path) -> Daemon {
    let rules = folder.join("rules.yaml");
    let rule = "apiVersion: gcwatch/v1\nrules:\n  - {id: test.memory, title: Memory, on: process, \
                when: process.pid > 0, severity: warning, summary: It lives, evidence: [ledger]}\n";
    std::fs::write(&rules, rule).unwrap();
    let config = format!("{}rules: {{files: [{}]}}\n", marked(mark), rules.display());
    Daemon::start(command(
        Command::new(env!("CARGO_BIN_EXE_gcwatch")),
        folder,
        ANY,
        &config,
    ))
}

/// The ledger of a process as soon as it is so.
fn ledger(daemon: &Daemon, pid: u32, what: &str, is: impl Fn(&Value) -> bool) -> Value {
    let until = Instant::now() + PATIENCE;
    loop {
        // Nothing is known of it at first.
        let (_, record) = daemon.get(&format!("/api/v1/processes/{pid}"));
        let record: Value = serde_json::from_str(&record).unwrap_or_default();
        let ledger = &record["memory"]["ledger"];
        if is(ledger) {
            return ledger.clone();
        }
        assert!(Instant::now() < until, "{what}: {ledger}");
        std::thread::sleep(Duration::from_millis(500));
    }
}

/// A program with its memory in one place.
struct Case {
    /// The verdict, and the line that has it.
    verdict: &'static str,
    line: &'static str,
    /// The line has so much, from when on the verdict must be right.
    least: u64,
    /// How it grows by then: the mode and its environment.
    mode: &'static str,
    env: &'static [(&'static str, &'static str)],
    knobs: &'static [(&'static str, &'static str)],
}

const CASES: [Case; 5] = [
    Case {
        verdict: "live-heap",
        line: "live",
        least: 120 * MIB,
        mode: "fastleak",
        env: &[("WKEEP", "180"), ("WRATE", "40")],
        knobs: &[],
    },
    Case {
        verdict: "native",
        line: "native",
        least: 120 * MIB,
        mode: "nativeleak",
        env: &[("WKEEP", "180"), ("WRATE", "40")],
        knobs: &[],
    },
    Case {
        verdict: "fragmentation",
        line: "free",
        least: 100 * MIB,
        mode: "pinholes",
        env: &[],
        knobs: &[],
    },
    // The collector gives most of it back.
    Case {
        verdict: "committed-unused",
        line: "committed_unused",
        least: 12 * MIB,
        mode: "afterpeak",
        env: &[],
        knobs: &[("GCRetainVM", "1")],
    },
    // Room for the youngest objects that is far larger than what lives.
    Case {
        verdict: "committed-unused",
        line: "committed_unused",
        least: 100 * MIB,
        mode: "steady",
        env: &[],
        knobs: &[("GCgen0size", "0x8000000")],
    },
];

/// .NET 10 is always there; the others where they are.
fn runtimes() -> impl Iterator<Item = Runtime> {
    let others = ["net8.0.33", "net9.0.22", "net10.0.14"];
    let wanted = move |runtime: &Runtime| {
        *runtime == NET_10 || (crate::is_full() && others.contains(&runtime.name) && runtime.is_there())
    };
    ALL.into_iter().filter(wanted)
}

fn bytes(ledger: &Value, line: &str) -> u64 {
    ledger[line].as_u64().unwrap_or(0)
}

/// Scenario: a managed leak, a native leak, a heap with pinned objects between holes, one that keeps what a peak left,
/// and one with much room for the youngest objects, each in a memory group with a limit of 512 MiB.
/// Guarantee: each verdict is right once its line is large; the lines add up to the usage, within the limit; an
/// incident of a rule that gathers the ledger has it, as a record and as a clause.
fn verdicts_are_right() {
    for runtime in runtimes() {
        let folder = tempfile::Builder::new().prefix("gcwatch-ledger").tempdir().unwrap();
        let mark = folder.path().file_name().unwrap().to_str().unwrap().to_owned();
        let targets: Vec<(&Case, Target, Group)> = CASES
            .iter()
            .map(|case| {
                let group = Group::new(&format!("{mark}{}", case.mode)).unwrap();
                let mut start = Start::new(runtime, case.mode)
                    .env("GCWATCH_TEST_MARK", &mark)
                    .knobs(case.knobs);
                start.seconds = 120;
                for (name, value) in case.env {
                    start = start.env(name, value);
                }
                let target = start.spawn();
                group.take(target.pid());
                // The group goes after the process that is in it.
                (case, target, group)
            })
            .collect();
        let daemon = start(&mark, folder.path());
        for (case, target, _) in &targets {
            let what = format!("{} {}", runtime.name, case.mode);
            // Of what is kept, a part became old after the newest full collection.
            let is_kept = case.line == "live";
            let of_case = |ledger: &Value| {
                let later = if is_kept { bytes(ledger, "not_looked_at") } else { 0 };
                bytes(ledger, case.line) + later
            };
            let is = |ledger: &Value| {
                ledger["counted"] == true && of_case(ledger) >= case.least && !ledger["live"].is_null()
            };
            let ledger = ledger(&daemon, target.pid(), &what, is);
            println!("{what}: {ledger}");
            let is_right = ledger["verdict"] == case.verdict || is_kept && ledger["verdict"] == "not-looked-at";
            assert!(is_right, "{what}: {ledger}");
            assert_eq!(bytes(&ledger, "limit"), LIMIT, "{what}: {ledger}");
            let lines = [
                "live",
                "not_looked_at",
                "free",
                "committed_unused",
                "bookkeeping",
                "native",
                "other_processes",
                "page_cache",
                "kernel",
                "unknown",
            ];
            let sum: u64 = lines.iter().map(|line| bytes(&ledger, line)).sum();
            assert_eq!(sum, bytes(&ledger, "usage"), "{what}: {ledger}");
            assert_eq!(sum + bytes(&ledger, "headroom"), LIMIT, "{what}: {ledger}");
            // The kernel counts in batches for each CPU, and what ran before the process was in its group is elsewhere.
            assert!(bytes(&ledger, "unknown") < 16 * MIB, "{what}: {ledger}");
            let incidents = daemon.json("/api/v1/incidents");
            let incidents = incidents["incidents"].as_array().unwrap();
            let of_target = |incident: &&Value| incident["pid"] == target.pid() && incident["rule"] == "test.memory";
            let incident = incidents.iter().find(of_target).unwrap();
            assert_eq!(incident["evidence"][0]["name"], "ledger", "{incident}");
            let text = incident["evidence"][0]["text"].as_str().unwrap();
            assert!(text.starts_with("limit 512 MiB: "), "{text}");
            assert_eq!(bytes(&incident["ledger"], "limit"), LIMIT, "{incident}");
        }
        drop(daemon);
    }
}
