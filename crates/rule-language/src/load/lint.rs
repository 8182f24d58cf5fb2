//! Warnings about valid rules, and errors in references to other rules.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;

use rule_engine::expression::{Expression, Node};
use rule_engine::field::{Field, Root};
use rule_engine::rule::{EvaluationTrigger, Rule, Severity};
use rule_engine::value::Type;
use strict_yaml::check::did_you_mean;

use super::draft::Draft;
use super::file::FileDefinitions;
use super::groups::Groups;
use super::partial_rule::PartialRule;
use super::report::{Place, PlacedValue, Report};
use super::text::scalar;
use crate::compile::{CompiledExpression, attribute_of_label};

/// Interval between ticks, in nanoseconds.
const TICK_NS: u64 = 1_000_000_000;
/// Number fields that have few different values, so that labels can contain them.
const FEW_VALUES: [&str; 4] = [
    "gc.generation",
    "gc.heap_count",
    "process.runtime_major",
    "process.runtime_minor",
];

/// Warns about parts of a valid rule that are probably mistakes.
pub(super) fn rule(rule: &Rule, in_when: &[&'static Field], partial: &PartialRule<'_>, report: &mut Report<'_>) {
    let draft = partial.draft;
    let key = |key: &str| draft.place(key);
    let mut warn = |place: Place, message: &str| report.warning(place, format!("{}: {message}", draft.id));
    for local in partial.windows.iter().filter(|local| !local.used) {
        warn(local.place, &format!("let: the window `{}` is not used", local.name));
    }
    let unused = |(name, _): &(&String, &Place)| !partial.named.contains(*name);
    for (name, place) in partial.params_at.iter().filter(unused) {
        warn(*place, &format!("params: the parameter `{name}` is not used"));
    }
    if rule.description.is_empty() {
        warn(key("id"), "`description` is missing: state what the alert means");
    }
    if rule.remedy.is_empty() {
        warn(key("id"), "`remedy` is missing: state what to do");
    }
    if rule.severity == Severity::Critical && rule.group.is_none() {
        let message = "severity: a critical rule without a group; one incident can raise several alerts";
        warn(key("severity"), message);
    }
    if (1..TICK_NS).contains(&rule.hold_ns) {
        warn(
            key("for"),
            "for: less than one second; rules are evaluated once per second",
        );
    }
    for text in ["title", "description", "remedy", "source"] {
        let text_of = draft.keys.get(text).and_then(|placed| scalar(placed.node));
        if text_of.is_some_and(|scalar| scalar.text.contains("{{")) {
            let message =
                format!("{text}: it is not a template, so `{{{{` is not replaced; use the summary or an annotation");
            warn(key(text), &message);
        }
    }
    let has_hysteresis = rule.clear.as_ref().is_some_and(|clear| *clear != rule.when);
    if rule.clear.is_some() && !has_hysteresis {
        let message = "clear: same as `when`: the alert would end as soon as it starts";
        warn(key("clear"), message);
    }
    if rule.on == EvaluationTrigger::Process && rule.keep_firing_ns == 0 && !has_hysteresis && can_change(&rule.when) {
        let message = "keep_firing_for: with 0s the alert can start and end each second; set a time, or a `clear` with \
            another threshold than `when`";
        warn(key("keep_firing_for"), message);
    }
    let sees_collections = in_when.iter().any(|field| field.root == Root::Gc)
        || partial
            .windows
            .iter()
            .any(|local| local.used && local.window.as_ref().is_some_and(|window| window.sampled == Root::Gc));
    if rule.on == EvaluationTrigger::Gc && !sees_collections {
        warn(
            key("on"),
            "on: `when` uses no field of a collection; `on: process` also evaluates it between collections",
        );
    }
}

/// Returns whether a condition can change while the process runs.
fn can_change(when: &Expression) -> bool {
    when.node.any(&|node| match node {
        Node::Window(_) => true,
        Node::Field(field) => field.root != Root::Process || field.name.starts_with("container.") || field.unit == "s",
        _ => false,
    })
}

/// Reports an error for each `service.firing[...]` with the id of a rule that does not exist or is not about processes.
/// If the rule with this id is left out, the rule that counts its firings is left out, too.
pub(super) fn unknown_rules(drafts: &[Draft<'_>], rules: &[Arc<Rule>], report: &mut Report<'_>) {
    let about_processes = || {
        rules
            .iter()
            .filter(|rule| rule.on.subject() == EvaluationTrigger::Process)
    };
    for (draft, rule) in drafts.iter().zip(rules) {
        let named = RefCell::new(BTreeSet::new());
        let conditions = std::iter::once(&rule.when).chain(&rule.clear);
        for condition in conditions.chain(rule.worse.iter().map(|(_, condition)| condition)) {
            condition.node.any(&|node| {
                if let Node::Firing(id) = node {
                    named.borrow_mut().insert(id.clone());
                }
                false
            });
        }
        for id in named.into_inner() {
            if about_processes().any(|known| *known.id == *id) {
                continue;
            }
            if report.left_out.ids.contains(&*id) {
                let message = format!("{}: service.firing: the rule `{id}` is left out", draft.id);
                report.excused(draft.place("when"), message);
                report.left_out.parts.insert(draft.part);
                continue;
            }
            let hint = did_you_mean(&id, about_processes().map(|known| &*known.id));
            let message = format!(
                "{}: service.firing: there is no rule `{id}` about processes{}",
                draft.id,
                hint.map(|hint| format!("; {hint}")).unwrap_or_default()
            );
            report.error(draft.place("when"), message);
        }
    }
}

/// Warns about a parameter or a window whose name is also the name of a group of fields. The names of all other groups
/// are reserved. These two groups are newer than the promise that an accepted rule stays accepted.
pub(super) fn name_of_fields(place: Place, what: &str, name: &str, report: &mut Report<'_>) {
    if ["service", "watcher"].contains(&name) {
        let message = format!("{what}: `{name}` is also the name of a group of fields, `{name}.*`; use another name");
        report.warning(place, message);
    }
}

/// Warns about a label whose name alerts already use for a resource attribute of the process.
pub(super) fn label_name(place: Place, id: &str, name: &str, report: &mut Report<'_>) {
    if let Some(attribute) = attribute_of_label(name) {
        let message = format!(
            "{id}: labels: alerts have the label `{name}` from the attribute {attribute}, which would be renamed to \
             `{name}_2`; use another name"
        );
        report.warning(place, message);
    }
}

pub(super) fn label(placed: PlacedValue<'_>, what: &str, values: &[CompiledExpression], report: &mut Report<'_>) {
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
        report.warning(placed.place(), message);
    }
}

/// Warns about unused macros.
pub(super) fn unused_words(words: &[FileDefinitions], report: &mut Report<'_>) {
    for (file, words) in words.iter().enumerate() {
        for (name, at) in &words.places {
            if words.used.contains(name) || words.broken.contains(name) {
                continue;
            }
            report.warning(
                Place { file, at: *at },
                format!("macros: the macro `{name}` is not used"),
            );
        }
    }
}

pub(super) fn unused_groups(groups: &Groups, used: &BTreeSet<usize>, report: &mut Report<'_>) {
    for (index, (group, place)) in groups.all.iter().enumerate() {
        if !used.contains(&index) {
            report.warning(*place, format!("groups: no rule uses the group `{}`", group.name));
        }
    }
}
