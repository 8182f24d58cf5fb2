//! Tests of the messages about mistakes in rules.

mod language;

use std::fmt::Write as _;
use std::fs;

use super::{Level, SourceFile, load, shipped};

/// 2026-11-01 in Unix nanoseconds.
const NOW: u64 = 1_793_491_200_000_000_000;

/// Valid values of keys that a case does not set.
const VALID_VALUES: [(&str, &str); 5] = [
    ("title", "A title"),
    ("severity", "info"),
    ("summary", "What happened"),
    ("description", "What it means."),
    ("remedy", "What to do."),
];

/// Returns a file with one rule with these keys. The keys start in the fourth line, indented by four spaces.
fn file(keys: &str) -> SourceFile {
    let mut text = "apiVersion: gcwatch/v1\nrules:\n  - id: a\n".to_owned();
    for line in keys.lines() {
        writeln!(text, "    {line}").unwrap();
    }
    for (key, value) in VALID_VALUES {
        if !keys.lines().any(|line| line.starts_with(&format!("{key}:"))) {
            writeln!(text, "    {key}: {value}").unwrap();
        }
    }
    SourceFile::new("a.yaml", text)
}

/// Returns the messages about a rule, with lines and columns relative to these keys.
fn reported(keys: &str) -> String {
    let mut out = String::new();
    let problems = match load(&[file(keys)]) {
        Ok(loaded) => {
            let late: Vec<_> = loaded.expired(NOW).cloned().collect();
            let of_files = loaded.left_out.into_iter().chain(loaded.warnings);
            of_files.chain(late).collect()
        }
        Err(problems) => problems,
    };
    for problem in problems {
        let (line, column) = (problem.line.saturating_sub(3), problem.column.saturating_sub(4));
        let level = if problem.severity == Level::Error {
            ""
        } else {
            "warning: "
        };
        writeln!(out, "{line}:{column}: {level}{}", problem.message).unwrap();
    }
    out
}

/// Scenario: each rule has one typical mistake: a wrong unit, an alert that ends as soon as it starts, a value in the
/// wrong braces, a misspelled name.
/// Guarantee: each rule has at least one message, and all positions and messages equal the committed text.
#[test]
fn each_mistake_is_reported() {
    let name = "tests/rules/mistakes.txt";
    let committed = fs::read_to_string(test_support::repository(name)).unwrap();
    let (introduction, cases) = committed.split_once("=== ").unwrap();
    let mut page = introduction.to_owned();
    let mut silent = Vec::new();
    let mut count = 0;
    for case in cases.split("\n=== ") {
        let (title, rest) = case.split_once('\n').unwrap();
        let keys = rest.split("--- reports").next().unwrap().trim_end();
        let said = reported(keys);
        if said.is_empty() {
            silent.push(title);
        }
        count += 1;
        write!(page, "=== {title}\n{keys}\n--- reports\n{said}\n").unwrap();
    }
    assert!(count >= 39, "cases are missing: {count}");
    assert_eq!(silent, Vec::<&str>::new(), "these cases have no message");
    test_support::golden::compare(name, &format!("{}\n", page.trim_end()));
}

/// Scenario: rules resemble typical mistakes, but are correct.
/// Guarantee: no problem is reported.
#[test]
fn correct_rules_are_not_reported() {
    let right = [
        "on: gc\nwhen: gc.pause_ms > double(gc.suspend_ns) / 1e6",
        "on: gc\nwhen: gc.pause_ms > 10.0 * gc.suspend_ms",
        "on: gc\nwhen: double(gc.promoted) > 0.9 * double(gc.heap_after)",
        "on: gc\nwhen: double(gc.promoted) / double(gc.heap_after) > 0.9",
        "on: gc\nwhen: 100.0 * gc.finalization_share > double(gc.memory_load_percent)",
        "on: gc\nwhen: gc.memory_load_percent > 90",
        "on: gc\nwhen: gc.initial_pause_ms > 20.0 || gc.restart_ms > 20.0",
        "on: gc\nwhen: has(gc.initial_pause_ms) || gc.restart_ms > 20.0",
        "on: gc\nwhen: gc.type == 'background' && gc.initial_pause_ms + gc.final_pause_ms > 20.0",
        "on: process\nlet:\n  p: {fn: count, over: 5m}\n  q: {fn: count, where: gc.blocking, over: 5m}\nwhen: p > 3.0 && q / p > 0.5",
        "on: process\nlet:\n  p: {fn: count, over: 5m}\nwhen: p > 3.0\nclear: p < 1.0\nkeep_firing_for: 0s",
        "on: process\nlet:\n  c: {fn: change, of: gc.promoted, over: 5m}\n  n: {fn: newest, of: gc.promoted, over: 5m}\nwhen: c / (n - c) > 3.0\nsummary: '{{ c / n | percent }}'",
        "on: process\nlet:\n  p: {fn: slope, of: gc.promoted, over: 5m}\nwhen: p > 3000.0\nsummary: '{{ p | bytes }} an hour'",
        "on: process\nselect: settings.server\nwhen: process.runtime_major < 8\nkeep_firing_for: 0s",
        "on: process\nselect: process.attributes['k8s.pod.label.team'] == 'a' && process.attributes['team'] == 'b'\nwhen: stream.silent_s > 60.0",
        "on: gc\nwhen: gc.pause_ms > 200.0\nsummary: 'a { b } in JSON: {\"a\": 1}'\nlabels: {team: shop}",
        "on: gc\nwhen: gc.pause_ms > 200.0\nevidence: [ledger, black-box]",
        "on: gc\nwhen: gc.pause_ms > 200.0\nevidence: []",
        "on: service\nby: service.version\nlet:\n  most: {fn: max, of: service.processes, over: 10m}\nwhen: double(service.processes) < 0.5 * most",
        "on: gc\nwhen: gc.pause_ms > 200.0\nexceptions:\n  - {name: n, when: gc.generation == 2, until: 2026-10-20}",
    ];
    for keys in right {
        assert_eq!(reported(keys), "", "{keys}");
    }
}

/// Scenario: the shipped rules are loaded.
/// Guarantee: no problem is reported, even after every exception has expired.
#[test]
fn shipped_rules_have_no_problems() {
    let loaded = load(&shipped()).unwrap();
    let said: Vec<String> = loaded
        .left_out
        .iter()
        .chain(&loaded.warnings)
        .chain(loaded.expired(u64::MAX))
        .map(ToString::to_string)
        .collect();
    assert_eq!(said, Vec::<String>::new());
}
