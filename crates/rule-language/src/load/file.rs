//! Reads one file: checks it against the schema and parses its macros.

use std::collections::{BTreeMap, BTreeSet};

use base::quote::quoted;
use rule_engine::field::{self, Field};
use serde::de::DeserializeOwned;
use strict_yaml::check::{Finding, MAX_FINDINGS, did_you_mean};
use strict_yaml::path::{KeyPath, PathStep};
use strict_yaml::yaml::{Bounds, Kind, Node, Position, parse};

use super::Level;
use super::report::{Part, Place, PlacedValue, Report};
use super::text::{condition_trap, entries_of, entry, items, items_of, scalar};
use crate::compile::{Macro, Mistake, parse_macro};
use crate::document::schema::schema;
use crate::document::{Version, is_name};

/// Limits of a file. A thousand rules have about 60,000 values.
const BOUNDS: Bounds = Bounds {
    bytes: 1 << 20,
    depth: 32,
    nodes: 200_000,
    faults: 100,
};

/// Macros of one file.
#[derive(Debug, Default)]
pub(super) struct FileDefinitions {
    pub(super) macros: BTreeMap<String, Macro>,
    /// Names of the removed section `lists`.
    pub(super) lists: BTreeSet<String>,
    /// Positions of the macros.
    pub(super) places: BTreeMap<String, Position>,
    /// Names of invalid macros.
    pub(super) broken: Vec<String>,
    /// Names of used macros.
    pub(super) used: BTreeSet<String>,
}

/// Parses a file. Returns `None` if the file is empty or invalid, which is reported.
pub(super) fn tree(file: usize, text: &str, report: &mut Report<'_>) -> Option<Node> {
    match parse(text, BOUNDS) {
        Ok(Some(root)) => Some(root),
        Ok(None) => {
            let message = "the file is empty; a rule file starts with `apiVersion: gcwatch/v1`";
            let at = Position::START;
            report.error(Place { file, at }, message);
            None
        }
        Err(faults) => {
            for fault in faults {
                report.error(Place { file, at: fault.at }, fault.message);
            }
            None
        }
    }
}

/// Returns whether this version of gcwatch supports the version and the required fields of the file.
pub(super) fn is_readable(root: PlacedValue<'_>, report: &mut Report<'_>) -> bool {
    if let Some(entry) = entry(root.node, "apiVersion")
        && let Some(scalar) = scalar(&entry.value)
        && let Err(message) = scalar.text.parse::<Version>()
    {
        report.error(root.at(entry.value.at), format!("apiVersion: {message}"));
        return false;
    }
    let requires = entry(root.node, "requires").map(|requires| &requires.value);
    let mut known = true;
    for node in requires
        .map(|requires| items_of(requires, "fields"))
        .unwrap_or_default()
    {
        let Some(name) = scalar(node).map(|scalar| scalar.text.as_str()) else {
            continue;
        };
        if Field::find(name).is_none() {
            let hint = did_you_mean(name, field::ALL.iter().map(|field| field.name));
            let hint = hint.unwrap_or_else(|| "use a newer version".to_owned());
            let message = format!(
                "requires.fields: this version does not have the required field {}; {hint}",
                quoted(name)
            );
            report.error(root.at(node.at), message);
            known = false;
        }
    }
    known
}

/// Checks the file against the schema, and leaves out the rules and overrides that use removed words.
pub(super) fn check(root: PlacedValue<'_>, report: &mut Report<'_>) {
    let (_, findings) = schema().check(root.node, &KeyPath::default());
    // The check stops at this number of findings and can then miss further removed words, so no rule is left out.
    let is_complete = findings.len() < MAX_FINDINGS;
    if is_complete {
        let removed = findings.iter().filter(|finding| finding.is_removed);
        removed.for_each(|finding| leave_out(finding, root, report));
    }
    for finding in findings {
        let part = part(&finding.path, root.file);
        let is_left_out = part.is_some_and(|part| report.left_out.parts.contains(&part));
        let what = subject(&finding.path, root.node);
        let message = if what.is_empty() {
            finding.fault.message
        } else {
            format!("{what}: {}", finding.fault.message)
        };
        let place = root.at(finding.fault.at);
        if is_complete && (finding.is_removed || is_left_out) {
            report.excused(place, message);
        } else {
            report.error(place, message);
        }
    }
    let lists = ["rules", "overrides"].map(|key| entry(root.node, key).map(|entry| &entry.value.kind));
    // A value that is not a list has been reported.
    let empty =
        |kind: &Option<&Kind>| kind.is_none_or(|kind| matches!(kind, Kind::Sequence(items) if items.is_empty()));
    if matches!(root.node.kind, Kind::Mapping(_)) && lists.iter().all(empty) && entry(root.node, "follows").is_none() {
        let message = "the file has neither `rules` nor `overrides`";
        report.error(root.place(), message);
    }
}

/// Returns the rule or the override that contains a path, or `None` if the path is in another section.
fn part(path: &KeyPath, file: usize) -> Option<Part> {
    let [PathStep::Key(list), PathStep::Index(index), ..] = path.steps() else {
        return None;
    };
    let index = *index;
    match list.as_str() {
        "rules" => Some(Part::Rule { file, index }),
        "overrides" => Some(Part::Override { file, index }),
        _ => None,
    }
}

/// Leaves out the rule or the override with a removed word. A removed word in `defaults` leaves out all rules of the
/// file, because defaults apply to each of these rules.
fn leave_out(finding: &Finding, root: PlacedValue<'_>, report: &mut Report<'_>) {
    let file = root.file;
    if let Some(part) = part(&finding.path, file) {
        report.left_out.parts.insert(part);
        return;
    }
    if !matches!(finding.path.steps(), [PathStep::Key(key), ..] if key == "defaults") {
        return;
    }
    for (index, rule) in items_of(root.node, "rules").iter().enumerate() {
        report.left_out.parts.insert(Part::Rule { file, index });
        if let Some(id) = entry(rule, "id").and_then(|id| scalar(&id.value)) {
            let message = format!("{}: it inherits the removed key or word of `defaults`", short(&id.text));
            report.excused(root.at(rule.at), message);
        }
    }
}

/// Returns a path for messages, in which rules are identified by their ids.
fn subject(path: &KeyPath, root: &Node) -> String {
    if let [PathStep::Key(list), PathStep::Index(index), rest @ ..] = path.steps()
        && list == "rules"
        && let Some(rule) = entry(root, "rules").and_then(|rules| items(&rules.value).get(*index))
        && let Some(id) = entry(rule, "id").and_then(|id| scalar(&id.value))
    {
        let id = short(&id.text);
        return match rest {
            [] => id.to_owned(),
            rest => format!("{id}: {}", KeyPath::from(rest)),
        };
    }
    path.to_string()
}

/// Returns a truncated id for messages.
fn short(id: &str) -> &str {
    let line = id.lines().next().unwrap_or_default();
    let end = line.char_indices().nth(100).map_or(line.len(), |(end, _)| end);
    line.get(..end).unwrap_or_default()
}

/// Returns the value in the type of the schema at `path`, or `None` if the value is invalid, which [`check`] reports.
pub(super) fn typed<T: DeserializeOwned>(node: &Node, path: &KeyPath) -> Option<T> {
    let (value, _) = schema().check(node, path);
    serde_json::from_value(value?).ok()
}

pub(super) fn words(root: PlacedValue<'_>, report: &mut Report<'_>) -> FileDefinitions {
    let mut words = FileDefinitions {
        lists: entries_of(root.node, "lists")
            .iter()
            .map(|list| list.key.clone())
            .collect(),
        ..FileDefinitions::default()
    };
    for entry in entries_of(root.node, "macros") {
        let name = &entry.key;
        let what = format!("macros.{}", short(name));
        if let Err(message) = is_name(name) {
            report.error(root.at(entry.at), format!("macros: {message}"));
            continue;
        }
        words.places.insert(name.clone(), entry.at);
        match read_macro(root.with(&entry.value), &what, report) {
            Some(read) => {
                words.macros.insert(name.clone(), read);
            }
            None => words.broken.push(name.clone()),
        }
    }
    words
}

/// Reads a macro. Returns `None` if the macro is invalid, which is reported here or by the check.
fn read_macro(placed: PlacedValue<'_>, what: &str, report: &mut Report<'_>) -> Option<Macro> {
    let scalar = scalar(placed.node)?;
    if let Some(trap) = condition_trap(report.lines(placed), placed, scalar) {
        report.error(placed.place(), format!("{what}: {trap}"));
        return None;
    }
    let read = parse_macro(&scalar.text);
    read.map_err(|mistakes| report.mistakes(placed, &scalar.text, what, &mistakes, Level::Error))
        .ok()
}

impl FileDefinitions {
    /// Returns whether the mistake is at the name of an invalid macro, which has already been reported.
    pub(super) fn is_reported(&self, text: &str, mistake: &Mistake) -> bool {
        if self.broken.is_empty() {
            return false;
        }
        let line = text.lines().nth(mistake.line.saturating_sub(1)).unwrap_or_default();
        let part = |c: &char| c.is_alphanumeric() || *c == '_';
        let rest = line.chars().skip(mistake.column.saturating_sub(1));
        let word: String = rest.take_while(part).collect();
        self.broken.contains(&word)
    }
}
