//! Tests of `gcwatch rules`.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Output;

use rule_language::document::schema;
use serde::Deserialize;
use serde_json::Value;
use test_support::program::{command, fed, records_of, stderr};

use super::{example, root};

fn run(args: &[&str], input: &str) -> Output {
    fed(command().arg("rules").args(args).current_dir(root()), input.as_bytes())
}

fn result(output: &Output) -> (Option<i32>, String) {
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    (output.status.code(), text)
}

fn check(paths: &[&Path]) -> (Option<i32>, String) {
    let mut args = vec!["check", "--format", "table"];
    args.extend(paths.iter().map(|path| path.to_str().unwrap()));
    result(&run(&args, ""))
}

fn write(folder: &Path, name: &str, text: &str) {
    fs::write(folder.join(name), text).unwrap();
}

/// Scenario: files are valid, invalid, suspicious, missing, or test files; the command line is invalid.
/// Guarantee: the exit code is 0, 1 or 2, and each message starts with file, line and column.
#[test]
fn exit_code_reflects_validity() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let path = |name: &str| folder.join(name);
    write(folder, "good.yaml", &example());
    write(folder, "wrong.yaml", "apiVersion: gcwatch/v1\nrulse: []\n");
    write(
        folder,
        "odd.yaml",
        &example().replace("remedy: Allocate", "source: Allocate"),
    );
    write(folder, "a.test.yaml", "tests: []\n");
    fs::write(path("latin.yaml"), b"apiVersion: gcwatch/v1\n# \xe4\n").unwrap();

    assert_eq!(
        check(&[&path("good.yaml")]),
        (Some(0), "2 rules in 1 file: valid\n".to_owned())
    );
    let (code, text) = check(&[
        &path("wrong.yaml"),
        &path("missing.yaml"),
        &path("latin.yaml"),
        &path("a.test.yaml"),
    ]);
    assert_eq!(code, Some(1));
    let name = folder.display();
    for line in [
        format!("{name}/missing.yaml:1:1: cannot read the file: "),
        format!("{name}/latin.yaml:2:3: the file is not valid UTF-8 at this position\n"),
        format!("{name}/a.test.yaml:1:1: this is a test file, not a rule file; "),
        format!("{name}/wrong.yaml:2:1: unknown key `rulse`; did you mean `rules`?\n"),
    ] {
        assert!(text.contains(&line), "{line}\n{text}");
    }
    let odd = path("odd.yaml");
    let odd = odd.to_str().unwrap();
    let (code, text) = result(&run(&["check", odd, "--format", "table"], ""));
    assert_eq!(code, Some(0));
    assert!(
        text.contains("warning: process.pause.share: `remedy` is missing"),
        "{text}"
    );
    assert!(text.ends_with("2 rules in 1 file, 1 warning\n"), "{text}");
    assert_eq!(run(&["check", odd, "--lint-fatal"], "").status.code(), Some(1));
    assert_eq!(run(&["check", "--nonsense"], "").status.code(), Some(2));
    assert_eq!(run(&[], "").status.code(), Some(2));
}

/// Scenario: a file has a valid rule and a rule with a removed word.
/// Guarantee: the check fails at the position of the word; `list` reports the error and lists the other rule.
#[test]
fn check_fails_on_removed_word() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write(folder, "old.yaml", &example().replace("fn: median", "fn: mad"));
    let file = folder.join("old.yaml");
    let (code, text) = check(&[&file]);
    assert_eq!(code, Some(1));
    assert!(
        text.contains("old.yaml:28:19: gc.pause.long: let.usual.fn: `mad` was removed"),
        "{text}"
    );
    let output = run(&["list", file.to_str().unwrap(), "--format", "ndjson"], "");
    assert_eq!(output.status.code(), Some(0));
    assert!(stderr(&output).contains("`mad` was removed"), "{}", stderr(&output));
    let listed = records_of(&output);
    assert_eq!(
        listed.iter().map(|rule| &rule["id"]).collect::<Vec<_>>(),
        ["process.pause.share"]
    );
}

/// Scenario: one folder is mounted like a ConfigMap and contains other files; another folder is empty.
/// Guarantee: the rule files are read in the order of their names, each once; a folder without rule files is an error.
#[test]
fn folders_are_read_in_name_order() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    assert_eq!(check(&[folder]).0, Some(1));
    let mounted = folder.join("..2026_01_01");
    fs::create_dir(&mounted).unwrap();
    write(&mounted, "b.yaml", &example());
    write(
        &mounted,
        "c.yml",
        "apiVersion: gcwatch/v1\noverrides: [{id: gc.pause.long, replace: {severity: info}}]\n",
    );
    std::os::unix::fs::symlink("..2026_01_01", folder.join("..data")).unwrap();
    for name in ["b.yaml", "c.yml"] {
        std::os::unix::fs::symlink(format!("..data/{name}"), folder.join(name)).unwrap();
    }
    write(folder, ".hidden.yaml", "nonsense");
    write(folder, "notes.txt", "nonsense");
    write(folder, "b.test.yaml", "nonsense");
    fs::create_dir(folder.join("d.yaml")).unwrap();
    assert_eq!(check(&[folder]), (Some(0), "2 rules in 2 files: valid\n".to_owned()));

    let (code, text) = result(&run(&["list", folder.to_str().unwrap(), "--format", "table"], ""));
    assert_eq!(code, Some(0));
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines.len(), 3, "{text}");
    assert_eq!(lines[0], ["id", "severity", "on", "title", "file"]);
    assert_eq!(lines[1][..3], ["gc.pause.long", "info", "gc"]);
    assert!(lines[1][6].ends_with("/b.yaml"), "{text}");
}

/// Scenario: a file is read from standard input, with records as output.
/// Guarantee: there is one record per mistake, then a summary record; `list` prints one record per rule, with null for
/// absent values.
#[test]
fn output_for_programs_is_records() {
    let output = run(
        &["check", "-"],
        &example().replace("gc.pause_ms > 200.0", "gc.pause_msec > 200.0"),
    );
    assert_eq!(output.status.code(), Some(1));
    let records = records_of(&output);
    let problem = records
        .iter()
        .find(|record| record["severity"] == "error")
        .expect("an error");
    assert_eq!(problem["kind"], "problem");
    assert_eq!(
        (&problem["file"], &problem["line"], &problem["column"]),
        (&"-".into(), &31.into(), &10.into())
    );
    let last = records.last().unwrap();
    assert_eq!(
        (&last["kind"], &last["errors"], &last["ok"]),
        (&"rules_check".into(), &1.into(), &false.into())
    );

    let records = records_of(&run(
        &["list", "-"],
        &example()
            .replace("  group: pause\n", "")
            .replace("groups:\n  pause: Pauses of one process\n", ""),
    ));
    assert_eq!(records.len(), 2);
    assert_eq!(records[0]["kind"], "rule");
    assert_eq!(records[0]["group"], Value::Null);
    assert_eq!(records[0]["location"], "-:18:5");
    assert_eq!(records[0]["cooldown_ns"], 300_000_000_000_u64);
    assert_eq!(run(&["list", "-"], "nonsense").status.code(), Some(1));
}

/// Scenario: `rules schema`, `rules catalogue`, and `rules check` and `list` without a file are run.
/// Guarantee: the schema matches the types; the catalogue has a heading for a rule; the shipped rules are valid.
#[test]
fn schema_and_shipped_rules_are_printed() {
    let (code, text) = result(&run(&["schema"], ""));
    assert_eq!(code, Some(0));
    assert!(text == schema::text(), "{text}");
    let (code, text) = result(&run(&["catalogue"], ""));
    assert_eq!(code, Some(0));
    assert!(text.contains("\n### time.pause\n"), "{text}");
    assert_eq!(run(&["check", "--lint-fatal"], "").status.code(), Some(0));
    assert_eq!(run(&["list"], "").status.code(), Some(0));
}

/// Scenario: the command runs the tests of the shipped rules, and the tests on recordings of real processes.
/// Guarantee: all tests pass.
#[test]
fn shipped_rules_pass_their_tests() {
    let (code, text) = result(&run(&["test", "--format", "table", "rules", "tests/rules"], ""));
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains(" passed, 0 failed\n"), "{text}");
}

/// The part of a test file that names the rules that fire.
#[derive(Deserialize)]
struct FiresOnly {
    tests: Vec<TestFires>,
}

#[derive(Deserialize)]
struct TestFires {
    #[serde(default)]
    fires: Vec<String>,
}

/// Scenario: the shipped rules are compared with all their tests.
/// Guarantee: for each rule, at least one test expects the rule to fire.
#[test]
fn shipped_rule_fires_in_test() {
    let mut fires: BTreeSet<String> = BTreeSet::new();
    for folder in ["rules", "tests/rules"] {
        for entry in fs::read_dir(root().join(folder)).unwrap() {
            let path = entry.unwrap().path();
            if path.to_string_lossy().ends_with(".test.yaml") {
                let text = fs::read_to_string(path).unwrap();
                let file: FiresOnly = serde_yaml::from_str(&text).unwrap();
                fires.extend(file.tests.into_iter().flat_map(|test| test.fires));
            }
        }
    }
    let rules = super::fine(&rule_language::load::shipped()).rules;
    let unseen: Vec<&str> = rules
        .rules
        .iter()
        .map(|rule| &*rule.id)
        .filter(|id| !fires.contains(*id))
        .collect();
    assert_eq!(unseen, Vec::<&str>::new());
}

/// Scenario: a test has an expectation that fails, another test names an unknown rule, and a folder has no tests.
/// Guarantee: the exit code is 1, and each difference starts with file, line and column and states the actual and the
/// expected value.
#[test]
fn failed_test_reports_position_and_reason() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write(folder, "rules.yaml", &example());
    let rule = super::fine(&[super::file("rules.yaml", example())]).rules.rules[0]
        .id
        .to_string();
    let text = format!(
        "apiVersion: gcwatch/v1\nrule_files: [rules.yaml]\ntests:\n  - name: nothing comes\n    until: 1m\n    expect:\n      \
         - {{at: 10s, rule: {rule}, state: firing}}\n      - {{at: 10s, rule: no.such, state: firing}}\n    fires: [{rule}]\n"
    );
    write(folder, "a.test.yaml", &text);
    let file = folder.join("a.test.yaml");
    let (code, text) = result(&run(&["test", "--format", "table", file.to_str().unwrap()], ""));
    assert_eq!(code, Some(1));
    let name = file.display();
    for line in [
        format!("{name}:7:9: nothing comes: at 10s `{rule}` is "),
        format!("{name}:8:9: nothing comes: there is no rule `no.such`\n"),
        format!("{name}:4:5: nothing comes: fires: never fired: `{rule}`\n"),
        "1 test in 1 file: 0 passed, 1 failed\n".to_owned(),
    ] {
        assert!(text.contains(&line), "{line}\n{text}");
    }
    let empty = tempfile::tempdir().unwrap();
    let empty = run(&["test", empty.path().to_str().unwrap()], "");
    assert_eq!(empty.status.code(), Some(1));
    assert!(stderr(&empty).contains("no tests found"));
}

/// Scenario: `rules show` prints a shipped rule and a rule from a file with a test file, and gets an id with a typing
/// error.
/// Guarantee: a rule is printed completely, with its condition, tests, page and position; for an unknown id, the
/// nearest id is suggested.
#[test]
fn rule_is_shown_completely() {
    let (code, text) = result(&run(&["show", "--format", "table", "time.pause"], ""));
    assert_eq!(code, Some(0), "{text}");
    for part in [
        "time.pause: A long pause\n",
        "when: ",
        "What to do\n",
        "rules/notes.test.yaml: ",
        "rules-catalogue.md#timepause",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("example.yaml");
    write(folder.path(), "example.yaml", &example());
    write(
        folder.path(),
        "a.test.yaml",
        "apiVersion: gcwatch/v1\nrule_files: [example.yaml]\ntests:\n  - {name: Silence, events: [{at: 1s, gc: {generation: 0, pause_ms: 1}}], fires: [gc.pause.long]}\n",
    );
    let (code, text) = result(&run(
        &["show", "--format", "ndjson", "gc.pause.long", path.to_str().unwrap()],
        "",
    ));
    assert_eq!(code, Some(0), "{text}");
    let record: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(record["kind"], "rule_page");
    assert!(
        record["tests"][0].as_str().unwrap().ends_with("a.test.yaml: Silence"),
        "{record}"
    );
    assert!(
        record["let"]["usual"].as_str().unwrap().starts_with("fn: median"),
        "{record}"
    );
    assert_eq!(record["runbook"], Value::Null);
    let output = run(&["show", "time.puase"], "");
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("did you mean time.pause?"));
}
