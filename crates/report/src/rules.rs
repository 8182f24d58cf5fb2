//! Rules and the problems of rule files, as records and as tables.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

use crate::table::{self, BAD, FAINT, GAP, MARK, head, left, row};
use rule_engine::rule::{Group, Rule, Severity};
use rule_language::load::{Level, Problem};
use rule_language::page::catalogue;
use strict_yaml::reference::paragraph as wrapped;

/// `kind: "problem"`: an error or a warning in a rule file.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "kind", rename = "problem")]
pub struct ProblemRecord<'a> {
    pub file: &'a str,
    /// Line number, from 1.
    pub line: usize,
    /// Column number, from 1, in characters.
    pub column: usize,
    /// `error` or `warning`.
    pub severity: &'static str,
    /// Problem and remedy.
    pub message: &'a str,
}

impl<'a> From<&'a Problem> for ProblemRecord<'a> {
    fn from(problem: &'a Problem) -> Self {
        Self {
            file: &problem.file,
            line: problem.line,
            column: problem.column,
            severity: problem.severity.name(),
            message: &problem.message,
        }
    }
}

/// `kind: "rules_check"`: the result of a check, which is the last record of the output.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "kind", rename = "rules_check")]
pub struct CheckRecord {
    /// Number of files read.
    pub files: usize,
    /// Number of rules in the files; 0 if there are errors.
    pub rules: usize,
    pub errors: usize,
    pub warnings: usize,
    /// Whether the exit code is 0.
    pub ok: bool,
}

/// `kind: "rule"`: a rule.
#[derive(Debug, Clone, Copy)]
pub struct RuleRecord<'a> {
    rule: &'a Rule,
    group: Option<&'a str>,
}

impl<'a> RuleRecord<'a> {
    /// Creates the record of a rule. `groups` are the groups of its rule set.
    pub fn new(rule: &'a Rule, groups: &'a [Group]) -> Self {
        let group = rule.group.and_then(|place| groups.get(place));
        Self {
            rule,
            group: group.map(|group| &*group.name),
        }
    }

    /// Returns the file of the rule's location.
    fn file(&self) -> &'a str {
        let mut parts = self.rule.location.rsplitn(3, ':');
        parts.nth(2).unwrap_or(&self.rule.location)
    }

    fn title(&self) -> String {
        let Rule { title, enabled, .. } = self.rule;
        format!("{title}{}", if *enabled { "" } else { " (not enabled)" })
    }

    fn entries<M: SerializeMap>(&self, map: &mut M, kind: &str) -> Result<(), M::Error> {
        let rule = self.rule;
        map.serialize_entry("kind", kind)?;
        map.serialize_entry("id", &*rule.id)?;
        map.serialize_entry("title", &*rule.title)?;
        map.serialize_entry("severity", rule.severity.name())?;
        map.serialize_entry("status", rule.status.name())?;
        map.serialize_entry("on", rule.on.name())?;
        map.serialize_entry("group", &self.group)?;
        map.serialize_entry("enabled", &rule.enabled)?;
        // Time for which the condition must hold before the rule fires.
        map.serialize_entry("for_ns", &rule.hold_ns)?;
        // Time for which the alert keeps firing after the condition last held.
        map.serialize_entry("keep_firing_for_ns", &rule.keep_firing_ns)?;
        // Time for which the rule cannot fire again after an alert ended.
        map.serialize_entry("cooldown_ns", &rule.cooldown_ns)?;
        map.serialize_entry("description", &*rule.description)?;
        map.serialize_entry("remedy", &*rule.remedy)?;
        map.serialize_entry("source", &*rule.source)?;
        // File, line and column.
        map.serialize_entry("location", &*rule.location)
    }
}

impl Serialize for RuleRecord<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        self.entries(&mut map, "rule")?;
        map.end()
    }
}

/// `kind: "rule_page"`: a rule with all its texts.
#[derive(Debug, Clone)]
pub struct ShowRecord<'a> {
    rule: RuleRecord<'a>,
    tests: Vec<String>,
    /// Page of the rule: `runbook_url`, or for a shipped rule its entry in the catalogue of a release; otherwise
    /// `None`.
    runbook: Option<String>,
}

impl<'a> ShowRecord<'a> {
    /// Creates the record of a rule. `groups` are the groups of its rule set, `tests` are the tests that name the rule,
    /// and `ships` states whether gcwatch ships the rule.
    pub fn new(rule: &'a Rule, groups: &'a [Group], tests: Vec<String>, ships: bool) -> Self {
        let page = || ships.then(|| catalogue::place(&rule.id));
        Self {
            rule: RuleRecord::new(rule, groups),
            tests,
            runbook: rule.runbook_url.as_deref().map(str::to_owned).or_else(page),
        }
    }

    fn exceptions(&self) -> Vec<&'a str> {
        let exceptions = self.rule.rule.exceptions.iter();
        exceptions.map(|exception| &*exception.name).collect()
    }
}

impl Serialize for ShowRecord<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let rule = self.rule.rule;
        let some = |text: &'_ str| (!text.is_empty()).then(|| text.to_owned());
        let windows: BTreeMap<_, _> = rule
            .texts
            .windows
            .iter()
            .map(|(name, value)| (&**name, &**value))
            .collect();
        let params = rule.params.iter().map(|param| (&*param.name, &*param.value));
        let mut map = serializer.serialize_map(None)?;
        self.rule.entries(&mut map, "rule_page")?;
        // The condition under which processes are selected; null for all.
        map.serialize_entry("select", &some(&rule.texts.select))?;
        map.serialize_entry("when", &*rule.texts.when)?;
        // The condition under which the alert ends; null if the alert ends when `when` is false.
        map.serialize_entry("clear", &some(&rule.texts.clear))?;
        map.serialize_entry("let", &windows)?;
        map.serialize_entry("params", &params.collect::<BTreeMap<_, _>>())?;
        map.serialize_entry("exceptions", &self.exceptions())?;
        map.serialize_entry("runbook", &self.runbook)?;
        map.serialize_entry("tests", &self.tests)?;
        map.end()
    }
}

pub fn write_rule(out: &mut dyn Write, record: &ShowRecord<'_>) -> io::Result<()> {
    let RuleRecord { rule, group } = record.rule;
    writeln!(out, "{}: {}", rule.id, rule.title)?;
    let group = group.map_or_else(String::new, |group| format!(", group {group}"));
    let enabled = if rule.enabled { "" } else { ", not enabled" };
    let (severity, on, status) = (rule.severity.name(), rule.on.name(), rule.status.name());
    writeln!(out, "{severity} on {on}, {status}{group}{enabled}")?;
    let mut paragraph = |heading: &str, text: &str| -> io::Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        writeln!(out, "\n{heading}")?;
        text.lines().try_for_each(|line| writeln!(out, "  {line}"))
    };
    paragraph("What it means", &folded(&rule.description))?;
    paragraph("Condition", &catalogue::condition(rule))?;
    paragraph("Exceptions", &record.exceptions().join("\n"))?;
    paragraph("What to do", &folded(&rule.remedy))?;
    paragraph("Source of the thresholds", &folded(&rule.source))?;
    paragraph("Tests", &record.tests.join("\n"))?;
    paragraph("Where", &rule.location)?;
    paragraph("Page", record.runbook.as_deref().unwrap_or_default())
}

/// Breaks a paragraph into lines that fit the terminal, minus the indentation. Without a terminal, the lines have the
/// width of prose.
fn folded(text: &str) -> String {
    match table::columns() {
        Some(columns) => table::folded(text, columns.saturating_sub(2).min(118)),
        None => wrapped(text),
    }
}

/// Writes one line per problem, then one line with the numbers of files, errors and warnings, and of rules if there are
/// no errors.
pub fn write_check(out: &mut dyn Write, problems: &[Problem], check: &CheckRecord) -> io::Result<()> {
    for problem in problems {
        match problem.severity {
            Level::Error => writeln!(out, "{problem}")?,
            Level::Warning => writeln!(out, "{FAINT}{problem}{FAINT:#}")?,
        }
    }
    let files = plural(check.files, "file");
    let rules = plural(check.rules, "rule");
    match (check.errors, check.warnings) {
        (0, 0) => writeln!(out, "{rules} in {files}: valid"),
        (0, warnings) => writeln!(out, "{rules} in {files}, {}", plural(warnings, "warning")),
        (errors, 0) => writeln!(out, "{files}: {MARK}{}{MARK:#}", plural(errors, "error")),
        (errors, warnings) => writeln!(
            out,
            "{files}: {MARK}{}{MARK:#}, {}",
            plural(errors, "error"),
            plural(warnings, "warning")
        ),
    }
}

fn plural(count: usize, what: &str) -> String {
    match count {
        1 => format!("1 {what}"),
        count => format!("{count} {what}s"),
    }
}

/// Writes the headings and one line per rule.
pub fn write_list(out: &mut dyn Write, rules: &[RuleRecord<'_>]) -> io::Result<()> {
    if rules.is_empty() {
        return writeln!(out, "no rules");
    }
    let widest = |text: fn(&RuleRecord<'_>) -> usize| rules.iter().map(text).max().unwrap_or_default();
    let (id, words) = (
        widest(|record| record.rule.id.chars().count()),
        widest(|record| record.title().chars().count()),
    );
    let file = widest(|record| record.file().chars().count());
    let all = [
        left("id", id),
        left("severity", 8),
        left("on", 7),
        left("title", words),
        left("file", 0),
    ];
    // If not all columns fit, the title is the last column and is broken between words.
    let narrow = table::columns().is_some_and(|most| id + 8 + 7 + words + file + 4 * GAP > most);
    let columns = if narrow {
        vec![left("id", id), left("severity", 8), left("title", 0)]
    } else {
        all.to_vec()
    };
    head(out, &columns)?;
    for record in rules {
        let rule = record.rule;
        let name = rule.severity.name();
        // The severity is padded here, because the column would also count the characters of the style.
        let severity = match rule.severity {
            Severity::Critical if rule.enabled => format!("{BAD}{name:<8}{BAD:#}"),
            Severity::Error if rule.enabled => format!("{MARK}{name:<8}{MARK:#}"),
            _ => name.to_owned(),
        };
        let mut texts = vec![rule.id.to_string(), severity, record.title()];
        if !narrow {
            texts.insert(2, rule.on.name().to_owned());
            texts.push(record.file().to_owned());
        }
        row(out, &columns, &texts)?;
    }
    if narrow {
        writeln!(out, "{FAINT}not shown, the terminal is too narrow: on, file{FAINT:#}")?;
    }
    Ok(())
}
