//! The memory ledger of real processes in memory control groups. Each process has most of its memory in one known line
//! of the ledger.

use serde_json::Value;
use test_support::add_tests;
use test_support::groups::{self, Group};
use test_support::harness::{Need, Tests};
use test_support::runtimes::{ALL, NET_10, Runtime};
use test_support::scene::Scene;
use test_support::target::Target;

pub(crate) fn tests(tests: &mut Tests) {
    add_tests!(tests, need; verdicts_are_right);
}

fn need() -> Need {
    NET_10.need()?;
    groups::need("memory")
}

const MIB: u64 = 1 << 20;
const LIMIT: u64 = 512 * MIB;

/// A program with most of its memory in one line of the ledger.
struct Case {
    /// Expected verdict.
    verdict: &'static str,
    /// Ledger line that causes the verdict.
    line: &'static str,
    /// Size of the line at which the verdict must be right, in bytes.
    least: u64,
    /// Mode of the workload. With the mode, `env` and `knobs`, the line grows to this size.
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
    // The collector releases most of this memory.
    Case {
        verdict: "committed-unused",
        line: "committed_unused",
        least: 12 * MIB,
        mode: "afterpeak",
        env: &[],
        knobs: &[("GCRetainVM", "1")],
    },
    // The budget for the youngest objects is far larger than the live objects.
    Case {
        verdict: "committed-unused",
        line: "committed_unused",
        least: 100 * MIB,
        mode: "steady",
        env: &[],
        knobs: &[("GCgen0size", "0x8000000")],
    },
];

/// Returns .NET 10, which is always available. In a full run, the iterator also contains the other runtimes that are
/// available.
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

/// Scenario: each process runs in a memory group with a limit of 512 MiB. The processes have a managed leak, a native
/// leak, a heap with pinned objects between holes, a heap that keeps the memory of a peak, or a heap with a large
/// budget for the youngest objects.
/// Guarantee: each verdict is right as soon as its line is large enough. The lines add up to the usage, and usage and
/// headroom add up to the limit. The incident of a rule that requests the ledger contains the ledger as a record and as
/// a clause.
fn verdicts_are_right() {
    for runtime in runtimes() {
        let scene = Scene::begin();
        let targets: Vec<(&Case, Target, Group)> = CASES
            .iter()
            .map(|case| {
                let group = Group::new("memory", &format!("{}{}", scene.mark(), case.mode)).unwrap();
                group.write("memory.limit_in_bytes", LIMIT);
                let mut start = scene.start(runtime, case.mode).knobs(case.knobs);
                start.seconds = 120;
                for (name, value) in case.env {
                    start = start.env(name, value);
                }
                let target = start.spawn();
                group.take(target.pid());
                // The tuple drops the process before the group that contains the process.
                (case, target, group)
            })
            .collect();
        let rule = "id: test.memory, title: Memory, on: process, when: process.pid > 0, severity: warning, \
                    summary: It lives, evidence: [ledger]";
        let daemon = scene.daemon(&scene.rule(true, rule));
        for (case, target, _) in &targets {
            let what = format!("{} {}", runtime.name, case.mode);
            // Some of the live objects became old after the newest full collection.
            let is_kept = case.line == "live";
            let of_case = |ledger: &Value| {
                let later = if is_kept { bytes(ledger, "not_looked_at") } else { 0 };
                bytes(ledger, case.line) + later
            };
            let is = |record: &Value| {
                let ledger = &record["memory"]["ledger"];
                ledger["counted"] == true && of_case(ledger) >= case.least && !ledger["live"].is_null()
            };
            let ledger = daemon.await_process(target.pid(), &what, is)["memory"]["ledger"].take();
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
                "files_in_memory",
                "page_cache",
                "kernel",
                "kernel_reclaimable",
                "unknown",
            ];
            let sum: u64 = lines.iter().map(|line| bytes(&ledger, line)).sum();
            assert_eq!(sum, bytes(&ledger, "usage"), "{what}: {ledger}");
            assert_eq!(sum + bytes(&ledger, "headroom"), LIMIT, "{what}: {ledger}");
            // The kernel counts in batches per CPU, and counts memory from before the process joined its group in
            // another group.
            assert!(bytes(&ledger, "unknown") < 16 * MIB, "{what}: {ledger}");
            let incident = daemon.incident(target.pid(), &what, |one| one["rule"] == "test.memory");
            assert_eq!(incident["evidence"][0]["name"], "ledger", "{incident}");
            let text = incident["evidence"][0]["text"].as_str().unwrap();
            assert!(text.starts_with("limit 512 MiB: "), "{text}");
            assert_eq!(bytes(&incident["ledger"], "limit"), LIMIT, "{incident}");
        }
    }
}
