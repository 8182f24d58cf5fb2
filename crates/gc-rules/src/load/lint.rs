//! Warnings on valid rules.

use std::collections::BTreeSet;

use super::compose::{Groups, Rough};
use super::draft::Draft;
use super::file::Words;
use super::report::{Placed, Report};
use crate::compile::Compiled;
use crate::field::{Field, Root};
use crate::rule::{On, Rule, Severity};
use crate::value::Type;

/// The interval of ticks, nanoseconds.
const TICK_NS: u64 = 1_000_000_000;
/// Numbers with few different values.
const FEW_VALUES: [&str; 4] = [
    "gc.generation",
    "gc.heap_count",
    "process.runtime_major",
    "process.runtime_minor",
];

/// A valid rule.
pub(super) fn rule(
    draft: &Draft<'_>,
    rule: &Rule,
    in_when: &[&'static Field],
    rough: &Rough<'_>,
    report: &mut Report<'_>,
) {
    let key = |key: &str| {
        let placed = draft.keys.get(key);
        placed.map_or((draft.file, draft.at), |placed| (placed.file, placed.node.at))
    };
    let mut warn = |(file, at), message: &str| report.warning(file, at, format!("{}: {message}", draft.id));
    for local in rough.windows.iter().filter(|local| !local.used) {
        warn(
            (local.file, local.at),
            &format!("let: the window `{}` is not used", local.name),
        );
    }
    if rule.description.is_empty() {
        warn(key("id"), "`description` is missing: what the alert means");
    }
    if rule.remedy.is_empty() {
        warn(key("id"), "`remedy` is missing: what to do");
    }
    if rule.severity == Severity::Critical && rule.group.is_none() {
        let message = "severity: a critical rule without a group; one incident may raise several alerts";
        warn(key("severity"), message);
    }
    if (1..TICK_NS).contains(&rule.hold_ns) {
        warn(key("for"), "for: less than a second; rules are evaluated once a second");
    }
    if let Some(clear) = &rule.clear
        && *clear == rule.when
    {
        warn(
            key("clear"),
            "clear: same as `when`: the alert would end as soon as it begins",
        );
    }
    let sees_collections = in_when.iter().any(|field| field.root == Root::Gc)
        || rough
            .windows
            .iter()
            .any(|local| local.used && local.window.as_ref().is_some_and(|window| window.sampled == Root::Gc));
    if rule.on == On::Gc && !sees_collections {
        warn(
            key("on"),
            "on: `when` uses no field of a collection; `on: process` also evaluates it between collections",
        );
    }
}

/// A label's template.
pub(super) fn label(placed: Placed<'_>, what: &str, values: &[Compiled], report: &mut Report<'_>) {
    let many = |field: &&&'static Field| {
        field.kind == Type::Double || (field.kind == Type::Int && !FEW_VALUES.contains(&field.name))
    };
    let field = values.iter().flat_map(|value| &value.fields).find(many);
    let name = field.map(|field| field.name);
    let windows = values.iter().any(|value| !value.windows.is_empty());
    if let Some(name) = name.or(windows.then_some("a window")) {
        let message = format!(
            "{what}: {name} has many values, and labels identify alerts; use it in the summary or an annotation"
        );
        report.warning(placed.file, placed.node.at, message);
    }
}

/// Macros and lists without a use.
pub(super) fn unused_words(words: &[Words], report: &mut Report<'_>) {
    for (file, words) in words.iter().enumerate() {
        for (name, at) in &words.places {
            if words.used.contains(name) || words.broken.contains(name) {
                continue;
            }
            let kind = if words.lists.contains_key(name) {
                "lists: the list"
            } else {
                "macros: the macro"
            };
            report.warning(file, *at, format!("{kind} `{name}` is not used"));
        }
    }
}

/// Groups without a rule.
pub(super) fn unused_groups(groups: &Groups, used: &BTreeSet<usize>, report: &mut Report<'_>) {
    for (place, (group, file, at)) in groups.all.iter().enumerate() {
        if !used.contains(&place) {
            report.warning(*file, *at, format!("groups: no rule uses the group `{}`", group.name));
        }
    }
}
