//! Generates the catalogue of the shipped rules from the files in `rules/`, for `gcwatch rules catalogue` and `cargo
//! xtask dist`.

use std::fmt::Write as _;

use rule_engine::rule::Rule;
use rule_engine::rule_set::RuleSet;
use strict_yaml::reference::paragraph;
use strict_yaml::yaml::{Bounds, parse};

use crate::load::{SourceFile, entry, load, scalar, shipped, shipped_tests};
use crate::test_file::TestFile;

/// Published name of the page.
const PAGE: &str = "rules-catalogue.md";

/// Returns the position of a shipped rule in the catalogue: file and heading.
pub fn place(id: &str) -> String {
    let anchor: String = id.chars().filter(|c| *c != '.').collect();
    format!("{PAGE}#{anchor}")
}

/// Returns the tests that name a rule, because they expect the rule to fire or to be in a state. Invalid files are
/// skipped.
pub fn tests_of(id: &str, files: &[SourceFile]) -> Vec<String> {
    let mut names = Vec::new();
    for file in files {
        let Ok(read) = TestFile::read(&file.name, &file.text) else {
            continue;
        };
        for test in &read.document.tests {
            let fires = test.fires.iter().flatten().any(|fired| fired == id);
            if fires || test.expect.iter().any(|expected| expected.rule == id) {
                names.push(format!("{}: {}", file.name, test.name));
            }
        }
    }
    names
}

/// Returns the text of the page. The text is empty if the shipped rules are invalid, which their tests rule out.
pub fn text() -> String {
    let mut out = String::from(INTRODUCTION);
    let (files, tests) = (shipped(), shipped_tests());
    let Ok(loaded) = load(&files) else {
        return String::new();
    };
    for file in &files {
        let (title, description) = family(&file.text);
        let _ = write!(out, "\n## {title}\n\n{}\n", paragraph(&description));
        let here = |rule: &&Rule| rule.location.starts_with(&format!("{}:", file.name));
        for rule in loaded.rules.rules.iter().map(|rule| &**rule).filter(here) {
            describe(&mut out, rule, &loaded.rules, &tests);
        }
    }
    out
}

const INTRODUCTION: &str = "\
# Rules: catalogue

The shipped rules, with their meaning and advice. `gcwatch rules show ID` prints one of them.
";

fn describe(out: &mut String, rule: &Rule, rules: &RuleSet, tests: &[SourceFile]) {
    let group = rule.group.and_then(|place| rules.groups.get(place));
    let group = group.map_or_else(String::new, |group| format!(", group `{}`", group.name));
    let role = rule.role.map_or_else(String::new, |role| format!("{}, ", role.name()));
    let head = format!(
        "**{}** ({role}{}, `on: {}`, {}{group})",
        rule.title,
        rule.severity.name(),
        rule.on.name(),
        rule.status.name()
    );
    let _ = write!(out, "\n### {}\n\n{}\n\n", rule.id, paragraph(&head));
    let _ = write!(
        out,
        "{}\n\n```yaml\n{}```\n",
        paragraph(&rule.description),
        condition(rule)
    );
    if !rule.remedy.is_empty() {
        let _ = write!(out, "\n{}\n", paragraph(&format!("What to do: {}", rule.remedy)));
    }
    if !rule.source.is_empty() {
        let _ = write!(out, "\n{}\n", paragraph(&format!("Source: {}", rule.source)));
    }
    let names = tests_of(&rule.id, tests);
    if !names.is_empty() {
        out.push_str("\nTests:\n\n");
        for name in names {
            let _ = writeln!(out, "{}", item(&name));
        }
    }
}

/// Formats a list item.
fn item(text: &str) -> String {
    const COLUMNS: usize = 120;
    let (mut out, mut column) = (String::from("*"), 1);
    for word in text.split(' ') {
        let width = word.chars().count();
        if column + 1 + width > COLUMNS {
            out.push_str("\n ");
            column = 1;
        }
        out.push(' ');
        out.push_str(word);
        column += 1 + width;
    }
    out
}

/// Returns the conditions of a rule as written: its processes, windows, parameters, condition and times.
pub fn condition(rule: &Rule) -> String {
    let mut out = String::new();
    let mut key = |key: &str, text: &str| {
        if text.contains('\n') {
            let _ = writeln!(out, "{key}: |\n  {}", text.replace('\n', "\n  "));
        } else if !text.is_empty() {
            let _ = writeln!(out, "{key}: {text}");
        }
    };
    key("select", &rule.texts.select);
    for param in &rule.params {
        key(&format!("params.{}", param.name), &param.value);
        for (select, value) in &param.others {
            key(&format!("params.{} for {select}", param.name), value);
        }
    }
    for (name, window) in &rule.texts.windows {
        key(&format!("let.{name}"), window);
    }
    key("when", &rule.texts.when);
    key("clear", &rule.texts.clear);
    key("of", &rule.of.iter().map(|id| &**id).collect::<Vec<_>>().join(", "));
    key("harm", &rule.texts.harm);
    key("explains", &rule.texts.explains);
    key("lasting", &rule.texts.lasting);
    key("consequence_of", &rule.consequence_of.join(", "));
    for (severity, condition) in &rule.texts.worse {
        key(&format!("worse.{severity}"), condition);
    }
    for (name, ns) in [
        ("for", rule.hold_ns),
        ("keep_firing_for", rule.keep_firing_ns),
        ("cooldown", rule.cooldown_ns),
    ] {
        if ns > 0 {
            key(name, &duration(ns));
        }
    }
    out
}

/// Formats a duration, such as `5m`.
fn duration(ns: u64) -> String {
    const UNITS: [(&str, u64); 4] = [("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)];
    let ms = ns / 1_000_000;
    let whole = UNITS.iter().find(|(_, unit)| ms.is_multiple_of(*unit));
    whole.map_or_else(String::new, |(name, unit)| format!("{}{name}", ms / unit))
}

/// Returns title and description of the family in a file.
fn family(text: &str) -> (String, String) {
    let root = parse(text, Bounds::default()).ok().flatten();
    let family = root.as_ref().and_then(|root| entry(root, "family"));
    let text = |key: &str| {
        let scalar = family.and_then(|family| scalar(&entry(&family.value, key)?.value));
        scalar.map_or("", |scalar| scalar.text.trim()).to_owned()
    };
    (text("title"), text("description"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: the page is generated.
    /// Guarantee: each shipped rule has a heading and a condition, each family has its title, and the position of a
    /// rule refers to its heading.
    #[test]
    fn every_rule_is_in_the_catalogue() {
        let page = text();
        let loaded = load(&shipped()).unwrap();
        assert!(loaded.rules.rules.len() > 20);
        for rule in &loaded.rules.rules {
            assert!(page.contains(&format!("\n### {}\n", rule.id)), "{}", rule.id);
            assert!(condition(rule).contains("when: "), "{}", rule.id);
        }
        assert!(!page.contains("## \n"));
        assert_eq!(place("time.pause"), "rules-catalogue.md#timepause");
    }
}
