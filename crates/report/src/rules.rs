//! Rules and the problems of rule files, as records and as tables.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::Arc;

use serde::Serialize;

use crate::table::{self, BAD, FAINT, GAP, MARK, head, left, row};
use gc_rules::rule::{Group, Rule, Severity};
use rule_language::load::{Level, Problem};
use rule_language::page::catalogue;
use strict_yaml::reference::paragraph as wrapped;

/// `kind: "problem"`: an error or a warning in a rule file.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "kind", rename = "problem")]
pub struct ProblemRecord<'a> {
    /// The file.
    pub file: &'a str,
    /// The line, from 1.
    pub line: usize,
    /// The column, from 1, in characters.
    pub column: usize,
    /// `error` or `warning`.
    pub severity: &'static str,
    /// The problem and its remedy.
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

/// `kind: "rules_check"`: the result, last.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "kind", rename = "rules_check")]
pub struct CheckRecord {
    /// Files that were read.
    pub files: usize,
    /// Rules in them; 0 where there are errors.
    pub rules: usize,
    /// Number of errors.
    pub errors: usize,
    /// Number of warnings.
    pub warnings: usize,
    /// Whether the exit code is 0.
    pub ok: bool,
}

/// `kind: "rule"`: one rule.
#[derive(Debug, Clone, Serialize)]
pub struct RuleRecord<'a> {
    /// Always `rule`.
    pub kind: &'static str,
    /// Its id.
    pub id: &'a str,
    /// What it detects, in a few words.
    pub title: &'a str,
    /// `info`, `warning`, `error`, `critical`.
    pub severity: &'static str,
    /// `stable`, `test`, `experimental`, `deprecated`.
    pub status: &'static str,
    /// `gc`, `process`.
    pub on: &'static str,
    /// The group that it belongs to.
    pub group: Option<&'a str>,
    /// Whether it is evaluated.
    pub enabled: bool,
    /// How long the condition must hold before it fires.
    pub for_ns: u64,
    /// How long the alert fires after the condition held last.
    pub keep_firing_for_ns: u64,
    /// How long it cannot fire again after an alert ended.
    pub cooldown_ns: u64,
    /// What the anomaly means and what causes it.
    pub description: &'a str,
    /// What to do about it.
    pub remedy: &'a str,
    /// Source of its threshold.
    pub source: &'a str,
    /// File, line and column.
    pub location: &'a str,
}

impl<'a> RuleRecord<'a> {
    /// The record of a rule; `groups` are those of its set.
    pub fn new(rule: &'a Rule, groups: &'a [Group]) -> Self {
        Self {
            kind: "rule",
            id: &rule.id,
            title: &rule.title,
            severity: rule.severity.name(),
            status: rule.status.name(),
            on: rule.on.name(),
            group: rule.group.and_then(|place| groups.get(place)).map(|group| &*group.name),
            enabled: rule.enabled,
            for_ns: rule.hold_ns,
            keep_firing_for_ns: rule.keep_firing_ns,
            cooldown_ns: rule.cooldown_ns,
            description: &rule.description,
            remedy: &rule.remedy,
            source: &rule.source,
            location: &rule.location,
        }
    }

    /// The file of its location.
    fn file(&self) -> &'a str {
        let mut parts = self.location.rsplitn(3, ':');
        parts.nth(2).unwrap_or(self.location)
    }
}

/// `kind: "rule_page"`: one rule whole.
#[derive(Debug, Clone, Serialize)]
pub struct ShowRecord<'a> {
    /// The same as in a list, with another `kind`.
    #[serde(flatten)]
    pub rule: RuleRecord<'a>,
    /// The condition under which the processes are selected; `None`: all.
    pub select: Option<&'a str>,
    /// The condition.
    pub when: &'a str,
    /// The condition under which the alert ends; `None`: `when` is false.
    pub clear: Option<&'a str>,
    /// Windows by name: keys and values.
    #[serde(rename = "let")]
    pub windows: BTreeMap<&'a str, &'a str>,
    /// Parameters by name.
    pub params: BTreeMap<&'a str, &'a str>,
    /// Names of its exceptions.
    pub exceptions: Vec<&'a str>,
    /// Its page: `runbook_url`, or for a shipped rule its place in the catalogue of a release.
    pub runbook: Option<String>,
    /// Tests that name it.
    pub tests: Vec<String>,
    #[serde(skip)]
    condition: String,
}

impl<'a> ShowRecord<'a> {
    /// The record of a rule; `groups` are those of its set, `tests` those that name it; `ships`: it is a shipped one.
    pub fn new(rule: &'a Rule, groups: &'a [Group], tests: Vec<String>, ships: bool) -> Self {
        let text = |text: &'a str| Some(text).filter(|text| !text.is_empty());
        let pairs = |pairs: &'a [(Arc<str>, Arc<str>)]| pairs.iter().map(|(name, value)| (&**name, &**value)).collect();
        let page = || ships.then(|| catalogue::place(&rule.id));
        Self {
            rule: RuleRecord {
                kind: "rule_page",
                ..RuleRecord::new(rule, groups)
            },
            select: text(&rule.texts.select),
            when: &rule.texts.when,
            clear: text(&rule.texts.clear),
            windows: pairs(&rule.texts.windows),
            params: rule.params.iter().map(|param| (&*param.name, &*param.value)).collect(),
            exceptions: rule.exceptions.iter().map(|exception| &*exception.name).collect(),
            runbook: rule.runbook_url.as_deref().map(str::to_owned).or_else(page),
            tests,
            condition: catalogue::condition(rule),
        }
    }
}

/// Writes one rule.
pub fn write_rule(out: &mut dyn Write, record: &ShowRecord<'_>) -> io::Result<()> {
    let rule = &record.rule;
    writeln!(out, "{}: {}", rule.id, rule.title)?;
    let group = rule.group.map_or_else(String::new, |group| format!(", group {group}"));
    let enabled = if rule.enabled { "" } else { ", not enabled" };
    writeln!(out, "{} on {}, {}{group}{enabled}", rule.severity, rule.on, rule.status)?;
    let mut paragraph = |heading: &str, text: &str| -> io::Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        writeln!(out, "\n{heading}")?;
        text.lines().try_for_each(|line| writeln!(out, "  {line}"))
    };
    paragraph("What it means", &folded(rule.description))?;
    paragraph("Condition", &record.condition)?;
    paragraph("Exceptions", &record.exceptions.join("\n"))?;
    paragraph("What to do", &folded(rule.remedy))?;
    paragraph("Source of the thresholds", &folded(rule.source))?;
    paragraph("Tests", &record.tests.join("\n"))?;
    paragraph("Where", rule.location)?;
    paragraph("Page", record.runbook.as_deref().unwrap_or_default())
}

/// A paragraph in lines that fit the terminal, beside the indentation; without one as wide as prose is.
fn folded(text: &str) -> String {
    match table::columns() {
        Some(columns) => table::folded(text, columns.saturating_sub(2).min(118)),
        None => wrapped(text),
    }
}

/// Writes a line per problem, and the number of rules.
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

/// Writes the headings and a line per rule.
pub fn write_list(out: &mut dyn Write, rules: &[RuleRecord<'_>]) -> io::Result<()> {
    if rules.is_empty() {
        return writeln!(out, "no rules");
    }
    let widest = |text: fn(&RuleRecord<'_>) -> usize| rules.iter().map(text).max().unwrap_or_default();
    let (id, words) = (
        widest(|rule| rule.id.chars().count()),
        widest(|rule| title(rule).chars().count()),
    );
    let file = widest(|rule| rule.file().chars().count());
    let all = [
        left("id", id),
        left("severity", 8),
        left("on", 7),
        left("title", words),
        left("file", 0),
    ];
    // Where not all fit, the title is the last column, and broken between words.
    let narrow = table::columns().is_some_and(|most| id + 8 + 7 + words + file + 4 * GAP > most);
    let columns = if narrow {
        vec![left("id", id), left("severity", 8), left("title", 0)]
    } else {
        all.to_vec()
    };
    head(out, &columns)?;
    for rule in rules {
        let bad = rule.severity == Severity::Error.name() || rule.severity == Severity::Critical.name();
        let severity = match (bad, rule.enabled) {
            // Padded here: the column counts the style's characters too.
            (true, true) if rule.severity == Severity::Critical.name() => format!("{BAD}{:<8}{BAD:#}", rule.severity),
            (true, true) => format!("{MARK}{:<8}{MARK:#}", rule.severity),
            _ => rule.severity.to_owned(),
        };
        let mut texts = vec![rule.id.to_owned(), severity];
        if narrow {
            texts.push(title(rule));
        } else {
            texts.extend([rule.on.to_owned(), title(rule), rule.file().to_owned()]);
        }
        row(out, &columns, &texts)?;
    }
    if narrow {
        writeln!(out, "{FAINT}not shown, the terminal is too narrow: on, file{FAINT:#}")?;
    }
    Ok(())
}

fn title(rule: &RuleRecord<'_>) -> String {
    if rule.enabled {
        rule.title.to_owned()
    } else {
        format!("{} (not enabled)", rule.title)
    }
}
