//! The memory ledger of real processes in memory control groups: each has its memory in one known place.

use std::path::PathBuf;
use std::time::Instant;

use serde_json::Value;
use test_support::add_tests;
use test_support::harness::{Missing, Need, Tests};
use test_support::runtimes::{ALL, NET_10, Runtime};
use test_support::target::{PATIENCE, Start, Target};

use crate::daemon::Scene;

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

/// Everybody has an incident that gathers the ledger.
const RULES: &str = "apiVersion: gcwatch/v1\nrules:\n  - {id: test.memory, title: Memory, on: process, \
                     when: process.pid > 0, severity: warning, summary: It lives, evidence: [ledger]}\n";

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
        let scene = Scene::new();
        let mark = scene.mark();
        let targets: Vec<(&Case, Target, Group)> = CASES
            .iter()
            .map(|case| {
                let group = Group::new(&format!("{mark}{}", case.mode)).unwrap();
                let mut start = scene.marked(Start::new(runtime, case.mode)).knobs(case.knobs);
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
        let daemon = scene.daemon(Some(RULES));
        for (case, target, _) in &targets {
            let what = format!("{} {}", runtime.name, case.mode);
            let is = |ledger: &Value| {
                ledger["counted"] == true && bytes(ledger, case.line) >= case.least && !ledger["live"].is_null()
            };
            let record = daemon.process(target.pid(), &what, |record| is(&record["memory"]["ledger"]));
            let ledger = record["memory"]["ledger"].clone();
            println!("{what}: {ledger}");
            assert_eq!(ledger["verdict"], case.verdict, "{what}: {ledger}");
            assert_eq!(bytes(&ledger, "limit"), LIMIT, "{what}: {ledger}");
            let lines = [
                "live",
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
            let incidents = daemon.get("/api/v1/incidents");
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
