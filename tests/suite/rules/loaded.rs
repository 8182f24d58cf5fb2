//! Tests of the loaded form of valid files.

use proptest::prelude::*;
use rule_engine::expression::Node;
use rule_engine::field::Root;
use rule_engine::rule::{ComparisonKey, EvaluationTrigger, Extent, Function, Rule, Severity, Status};
use rule_language::load::load;

use super::{example, file, fine, lines};

const MINUTE: u64 = 60_000_000_000;

/// Scenario: a file uses every key.
/// Guarantee: each value is in its field of the rule; keys that a rule does not set have their default values.
#[test]
fn keys_become_rules() {
    let loaded = fine(&[file("example.yaml", example())]);
    let rules = &loaded.rules;
    let rule = rules.rule("gc.pause.long").unwrap();
    assert_eq!(
        (rule.on, rule.severity, rule.status),
        (EvaluationTrigger::Gc, Severity::Warning, Status::Stable)
    );
    assert_eq!(
        (rule.hold_ns, rule.keep_firing_ns, rule.cooldown_ns),
        (0, MINUTE, 5 * MINUTE)
    );
    assert_eq!(&*rule.location, "example.yaml:21:5");
    assert_eq!(&*rules.groups[rule.group.unwrap()].name, "pause");
    assert_eq!(rule.exceptions[0].until_unix_ns, Some(1_803_945_600_000_000_000));
    assert!(rule.enabled);
    let windows: Vec<_> = rule
        .windows
        .iter()
        .map(|(name, place)| (&**name, &rules.windows[*place]))
        .collect();
    let [("share", share), ("usual", usual)] = windows.as_slice() else {
        panic!("{windows:?}");
    };
    assert_eq!((share.function, share.extent), (Function::Share, Extent::Over(MINUTE)));
    assert_eq!(
        (share.sampled, share.min_samples, share.by),
        (Root::Gc, 0, ComparisonKey::Nothing)
    );
    assert_eq!((usual.function, usual.extent), (Function::Median, Extent::Last(20)));
    assert_eq!((usual.min_samples, usual.by), (5, ComparisonKey::GenerationAndType));

    let rule = rules.rule("process.pause.share").unwrap();
    assert_eq!(
        (rule.on, rule.severity, rule.status),
        (EvaluationTrigger::Process, Severity::Error, Status::Experimental)
    );
    assert_eq!((rule.hold_ns, rule.keep_firing_ns), (30_000_000_000, 60_000_000_000));
    let labels: Vec<&str> = rule.labels.iter().map(|(name, _)| &**name).collect();
    assert_eq!(labels, ["area", "runtime"]);
}

/// Loads the example file and a second file with these overrides.
fn changed(change: &str) -> rule_language::load::LoadedRules {
    let change = format!("apiVersion: gcwatch/v1\noverrides:\n{change}");
    fine(&[file("example.yaml", example()), file("change.yaml", change)])
}

/// Scenario: a later file replaces keys, adds labels and exceptions, and disables rules, by id and by pattern.
/// Guarantee: only these keys change; labels of the rule and of the defaults stay unless they are replaced.
#[test]
fn later_files_change_rules() {
    let loaded = changed(
        "  - id: '*.pause.*'\n    replace: {severity: critical, cooldown: 1s}\n    add: {labels: {team: runtime}}\n\
         \x20 - id: gc.pause.long\n    add:\n      exceptions: [{name: second, when: gc.lossy}]\n\
         \x20 - id: process.pause.share\n    replace: {enabled: false, labels: {only: this}, when: 'share > 0.5'}\n",
    );
    let rule = loaded.rules.rule("gc.pause.long").unwrap();
    assert_eq!((rule.severity, rule.cooldown_ns), (Severity::Critical, 1_000_000_000));
    let names = |rule: &Rule| -> Vec<String> { rule.labels.iter().map(|(name, _)| name.to_string()).collect() };
    assert_eq!(names(rule), ["area", "team"]);
    let exceptions: Vec<&str> = rule.exceptions.iter().map(|exception| &*exception.name).collect();
    assert_eq!(exceptions, ["nightly report", "second"]);
    let rule = loaded.rules.rule("process.pause.share").unwrap();
    assert_eq!(names(rule), ["only"]);
    assert!(!rule.enabled && rule.windows.is_empty());
    assert_eq!(loaded.rules.windows.len(), 2, "a disabled rule needs no windows");
}

/// Scenario: one override names a macro of another file. Another override matches two rules, and has a text with an
/// unknown field and an invalid severity.
/// Guarantee: each error has its position in the file of the override. An invalid severity is reported once, other
/// errors once per rule.
#[test]
fn errors_of_overrides_are_reported_in_their_file() {
    let change = "apiVersion: gcwatch/v1\noverrides:\n  - id: gc.*\n    replace: {when: full_blocking}\n  - id: '*'\n    replace:\n      \
                  summary: \"{{ process.nam }}\"\n      severity: bad\n";
    let problems = load(&[file("example.yaml", example()), file("change.yaml", change)]).unwrap_err();
    let errors: Vec<_> = problems
        .iter()
        .filter(|problem| &*problem.file == "change.yaml")
        .cloned()
        .collect();
    assert_eq!(
        lines(&errors),
        "change.yaml:4:21: gc.pause.long: when: unknown name `full_blocking`: no window, parameter or macro has this name, and fields have a dot \
         (`gc.pause_ms`)\n\
         change.yaml:7:20: gc.pause.long: summary: unknown name `process.nam`; did you mean `process.name`?\n\
         change.yaml:7:20: process.pause.share: summary: unknown name `process.nam`; did you mean `process.name`?\n\
         change.yaml:8:17: overrides[1].replace.severity: `bad` is not one of info, warning, error, critical\n"
    );
}

/// Scenario: two files have the same rule id, and different descriptions for one group.
/// Guarantee: the second definition is rejected with the position of the first.
#[test]
fn duplicate_definition_names_first() {
    let one = example();
    let two = example().replace("Pauses of one process", "Other pauses");
    let problems = load(&[file("one.yaml", one), file("two.yaml", two)]).unwrap_err();
    let errors = lines(&problems);
    assert!(
        errors.contains(
            "two.yaml:21:9: gc.pause.long: duplicate id; first in one.yaml:21:9; to change that rule, use `overrides`\n"
        ),
        "{errors}"
    );
    assert!(
        errors.contains("two.yaml:19:3: groups.pause: the group has another description in one.yaml:19:3\n"),
        "{errors}"
    );
}

/// Scenario: rules are changed in their texts, in their meaning, and in the rules around them.
/// Guarantee: the digest, which decides whether state survives a reload, changes only with the meaning; windows with
/// the same meaning are shared.
#[test]
fn digest_depends_on_meaning_only() {
    let meaning = |text: String| {
        fine(&[file("a.yaml", text)])
            .rules
            .rule("process.pause.share")
            .unwrap()
            .meaning
    };
    let before = meaning(example());
    for (from, to) in [
        ("severity: error", "severity: info"),
        ("Much of the time is spent in pauses", "Other title"),
        ("of the last minute", "of a minute"),
        ("when: share > 0.15", "when: |\n      share\n        > 0.15"),
        (
            "share: {fn: share, of: gc.pause_ns, over: 1m}\n",
            "share: {fn: share, of: gc.pause_ns, over: 2m}\n",
        ),
        ("over: 1m, min_watched: 1m", "over: 60s, min_watched: 60s"),
    ] {
        assert!(example().contains(from), "{from}");
        assert_eq!(meaning(example().replace(from, to)), before, "{from}");
    }
    for (from, to) in [
        ("when: share > 0.15", "when: share > 0.16"),
        ("clear: share < 0.1", "clear: share < 0.09"),
        ("over: 1m, min_watched: 1m", "over: 2m, min_watched: 1m"),
        ("for: 30s", "for: 31s"),
    ] {
        assert!(example().contains(from), "{from}");
        assert_ne!(meaning(example().replace(from, to)), before, "{from}");
    }
    let rules = fine(&[file("a.yaml", example())]).rules;
    assert_eq!(rules.windows.len(), 3);
    let same = example().replace(", min_watched: 1m", "");
    let rules = fine(&[file("a.yaml", same)]).rules;
    assert_eq!(rules.windows.len(), 2, "both rules have the window `share`");
    let place = |id: &str| rules.rule(id).unwrap().windows[0].1;
    assert_eq!(place("gc.pause.long"), place("process.pause.share"));
    let Node::Compare(_, sides) = &rules.rule("process.pause.share").unwrap().when.node else {
        panic!("a comparison");
    };
    assert!(matches!(sides.0, Node::Window(at) if at == place("gc.pause.long")));
}

/// Scenario: a file has the maximum number of rules, each with its own window; another file has one rule more.
/// Guarantee: all rules of the first file are loaded, each with its own thresholds; the second file is rejected with
/// one error.
#[test]
fn thousand_rules_load() {
    let text = |count: u32| {
        let rule = |n: u32| {
            format!(
                "  - id: rule.n{n}\n    title: Rule {n}\n    on: gc\n    severity: info\n    description: d\n    remedy: r\n    let:\n      \
                 usual: {{fn: median, of: gc.pause_ms, last: 20, by: generation_and_type}}\n      share: {{fn: share, of: gc.pause_ns, over: \
                 {over}s}}\n    when: |\n      gc.pause_ms > {n}.5 * usual\n      && share > 0.05\n    summary: \"{{{{ gc.number }}}} paused \
                 {{{{ gc.pause_ms | ms }}}}\"\n",
                over = 60 + n
            )
        };
        format!(
            "apiVersion: gcwatch/v1\nrules:\n{}",
            (0..count).map(rule).collect::<String>()
        )
    };
    let loaded = fine(&[file("a.yaml", text(1000))]);
    assert_eq!(loaded.rules.rules.len(), 1000);
    assert_eq!(loaded.rules.windows.len(), 1001);
    let rule = loaded.rules.rule("rule.n999").unwrap();
    assert_eq!(
        loaded.rules.windows[rule.windows[1].1].extent,
        Extent::Over(1_059_000_000_000)
    );
    let problems = load(&[file("a.yaml", text(1001))]).unwrap_err();
    assert_eq!(
        lines(&problems),
        "a.yaml:3:3: rules: the list has 1001 elements; at most 1000\n"
    );
}

/// Scenario: there are no files, or files with Windows line ends or a byte order mark.
/// Guarantee: no files result in no rules; the other files result in the same rules.
#[test]
fn file_encoding_does_not_matter() {
    assert!(load(&[]).unwrap().rules.rules.is_empty());
    let plain = fine(&[file("a.yaml", example())]).rules;
    for text in [example().replace('\n', "\r\n"), format!("\u{feff}{}", example())] {
        let other = fine(&[file("a.yaml", text)]).rules;
        let meanings = |rules: &rule_engine::rule_set::RuleSet| -> Vec<u64> {
            rules.rules.iter().map(|rule| rule.meaning).collect()
        };
        assert_eq!(meanings(&other), meanings(&plain));
    }
}

/// A change to a text.
#[derive(Debug, Clone)]
enum Change {
    Insert(prop::sample::Index, String),
    Remove(prop::sample::Index, usize),
    Swap(prop::sample::Index, prop::sample::Index),
}

fn change() -> impl Strategy<Value = Change> {
    let at = any::<prop::sample::Index>;
    prop_oneof![
        (
            at(),
            "[ -~\n\u{e4}]{1,4}|: |\n  |\\{\\{|\\}\\}|!|&a|\\*a|'|\"|\\||>|<<: |gc\\.|#"
        )
            .prop_map(|(at, text)| Change::Insert(at, text)),
        (at(), 1..20_usize).prop_map(|(at, length)| Change::Remove(at, length)),
        (at(), at()).prop_map(|(one, other)| Change::Swap(one, other)),
    ]
}

fn apply(text: &str, change: &Change) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let mut letters: Vec<char> = text.chars().collect();
    if letters.is_empty() {
        return String::new();
    }
    match change {
        Change::Insert(at, text) => {
            let at = at.index(letters.len());
            letters.splice(at..at, text.chars());
            letters.into_iter().collect()
        }
        Change::Remove(at, length) => {
            let at = at.index(letters.len());
            letters.drain(at..(at + length).min(letters.len()));
            letters.into_iter().collect()
        }
        Change::Swap(one, other) => {
            let (one, other) = (one.index(lines.len()), other.index(lines.len()));
            lines.swap(one, other);
            lines.join("\n")
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Scenario: characters are inserted into a valid file or removed, and lines are swapped.
    /// Guarantee: the file is loaded or rejected without a panic; every problem has a line that exists in the file.
    #[test]
    fn damaged_files_are_loaded_or_rejected(changes in prop::collection::vec(change(), 1..6)) {
        let text = changes.iter().fold(example(), |text, change| apply(&text, change));
        let count = text.lines().count().max(1);
        let problems = match load(&[file("a.yaml", text.clone())]) {
            Ok(loaded) => [loaded.left_out, loaded.warnings].concat(),
            Err(problems) => {
                prop_assert!(!problems.is_empty());
                problems
            }
        };
        for problem in problems {
            prop_assert!(problem.line >= 1 && problem.line <= count + 1, "{problem}\n{text}");
            prop_assert!(problem.column >= 1 && !problem.message.is_empty(), "{problem}\n{text}");
        }
    }
}
