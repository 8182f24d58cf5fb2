//! What is allowed, and odd.

use std::collections::BTreeSet;

use super::compose::{Groups, Rough};
use super::draft::Draft;
use super::file::Words;
use super::report::{Placed, Report};
use crate::compile::Compiled;
use crate::field::{Field, Root};
use crate::rule::{On, Rule, Severity};
use crate::value::Type;

/// How often the time is looked at, nanoseconds.
const TICK_NS: u64 = 1_000_000_000;
/// Numbers that have few values.
const FEW_VALUES: [&str; 4] = [
    "gc.generation",
    "gc.heap_count",
    "process.runtime_major",
    "process.runtime_minor",
];

/// A rule that is right otherwise.
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
    let mut odd = |(file, at), message: &str| report.warning(file, at, format!("{}: {message}", draft.id));
    for local in rough.windows.iter().filter(|local| !local.used) {
        odd(
            (local.file, local.at),
            &format!("let: the window `{}` is not used", local.name),
        );
    }
    if rule.description.is_empty() {
        odd(key("id"), "there is no `description`: what the alert means");
    }
    if rule.remedy.is_empty() {
        odd(key("id"), "there is no `remedy`: what is to be done");
    }
    if rule.severity == Severity::Critical && rule.group.is_none() {
        let message = "severity: a critical rule without a group; of one emergency there may be several alerts";
        odd(key("severity"), message);
    }
    if (1..TICK_NS).contains(&rule.hold_ns) {
        odd(key("for"), "for: the time is looked at once a second");
    }
    if let Some(clear) = &rule.clear
        && *clear == rule.when
    {
        odd(
            key("clear"),
            "clear: this is the same as `when`: the alert would end as soon as it begins",
        );
    }
    let sees_collections = in_when.iter().any(|field| field.root == Root::Gc)
        || rough
            .windows
            .iter()
            .any(|local| local.used && local.window.as_ref().is_some_and(|window| window.sampled == Root::Gc));
    if rule.on == On::Gc && !sees_collections {
        odd(
            key("on"),
            "on: nothing in `when` is of a collection; `on: process` looks when no collection comes, too",
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
            "{what}: {name} has many values, and labels tell alerts apart; put it into the summary or an annotation"
        );
        report.warning(placed.file, placed.node.at, message);
    }
}

/// Macros and lists that no expression names.
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

/// Groups that no rule belongs to.
pub(super) fn unused_groups(groups: &Groups, used: &BTreeSet<usize>, report: &mut Report<'_>) {
    for (place, (group, file, at)) in groups.all.iter().enumerate() {
        if !used.contains(&place) {
            report.warning(
                *file,
                *at,
                format!("groups: no rule belongs to the group `{}`", group.name),
            );
        }
    }
}
