//! What a rule is for: the keys that go with a role, and what they name in other rules.

use std::sync::Arc;

use gc_rules::expression::Expression;
use gc_rules::field::Root;
use gc_rules::rule::{HarmUnit, Role, Rule};
use strict_yaml::check::nearest;
use strict_yaml::yaml::Position;

use super::RuleBuilder;
use crate::compile::{Unit, Wanted};
use crate::document;
use crate::load::draft::Draft;
use crate::load::partial_rule::PartialRule;
use crate::load::report::Report;

/// The expressions that go with a role.
#[derive(Debug, Default)]
pub(super) struct RoleKeys {
    pub(super) amount: Option<Expression>,
    pub(super) unit: Option<HarmUnit>,
    pub(super) lasting: Option<Expression>,
}

/// Each key with the role that it goes with.
const KEYS: [(&str, Role); 5] = [
    ("harm", Role::Symptom),
    ("lasting", Role::Symptom),
    ("of", Role::Cause),
    ("explains", Role::Cause),
    ("consequence_of", Role::Cause),
];

impl RuleBuilder<'_, '_> {
    pub(super) fn role(
        &mut self,
        draft: &Draft<'_>,
        partial: &mut PartialRule<'_>,
        keys: &document::Rule,
        roots: &[Root],
    ) -> RoleKeys {
        for (key, role) in KEYS {
            if let Some(placed) = draft.keys.get(key).filter(|_| keys.role != Some(role)) {
                let message = format!("{}: {key}: only rules `role: {}` have it", draft.id, role.name());
                self.report.error(placed.file, placed.node.at, message);
            }
        }
        match keys.role {
            Some(Role::Cause | Role::Note) => {
                for key in ["severity", "worse"] {
                    if let Some(placed) = draft.keys.get(key) {
                        let message = format!("{}: {key}: a cause or a note is information; remove it", draft.id);
                        self.report.error(placed.file, placed.node.at, message);
                    }
                }
            }
            _ if keys.severity.is_none() && !draft.keys.contains_key("severity") => {
                let message = format!("{}: severity is missing; only causes and notes have none", draft.id);
                self.report.error(draft.file, draft.at, message);
            }
            _ => {}
        }
        if keys.role == Some(Role::Cause) {
            for key in ["of", "explains"] {
                if !draft.keys.contains_key(key) {
                    let message = format!("{}: {key} is missing: a cause explains symptoms", draft.id);
                    self.report.error(draft.file, draft.at, message);
                }
            }
        }
        let (amount, unit) = match keys.role {
            Some(Role::Symptom) => self.amount(draft, partial, "harm", roots),
            Some(Role::Cause) => self.amount(draft, partial, "explains", roots),
            _ => (None, None),
        };
        let lasting = draft.keys.get("lasting").copied();
        let lasting = lasting.and_then(|placed| self.expression(placed, partial, "lasting", roots, Wanted::Number));
        RoleKeys {
            amount,
            unit,
            lasting: lasting.map(|compiled| compiled.expression),
        }
    }

    /// The expression under `harm` or `explains`, and its unit.
    fn amount(
        &mut self,
        draft: &Draft<'_>,
        partial: &mut PartialRule<'_>,
        key: &str,
        roots: &[Root],
    ) -> (Option<Expression>, Option<HarmUnit>) {
        let Some(placed) = draft.keys.get(key).copied() else {
            return (None, None);
        };
        let Some(compiled) = self.expression(placed, partial, key, roots, Wanted::Number) else {
            return (None, None);
        };
        let unit = match compiled.measure.unit {
            Unit::Named("ns") => HarmUnit::Nanoseconds,
            Unit::Named("bytes") => HarmUnit::Bytes,
            Unit::Named("bytes per hour") => HarmUnit::BytesPerMinute,
            other => {
                let message = format!(
                    "{}: {key}: it is {}; a harm is measured in ns, bytes, or bytes per hour (a slope)",
                    draft.id,
                    other.phrase()
                );
                self.report.error(placed.file, placed.node.at, message);
                return (None, None);
            }
        };
        (Some(compiled.expression), Some(unit))
    }
}

/// Checks what causes name: that it is a symptom, and is measured in the same unit. `complete`: no file was refused.
pub(in crate::load) fn check(drafts: &[Draft<'_>], rules: &[Arc<Rule>], complete: bool, report: &mut Report<'_>) {
    let symptoms = || rules.iter().filter(|rule| rule.role == Some(Role::Symptom));
    for rule in rules.iter().filter(|rule| rule.role == Some(Role::Cause)) {
        let Some(draft) = drafts.iter().find(|draft| *draft.id == *rule.id) else {
            continue;
        };
        let place = |key: &str| -> (usize, Position) {
            let placed = draft.keys.get(key);
            placed.map_or((draft.file, draft.at), |placed| (placed.file, placed.node.at))
        };
        let named = rule.of.iter().map(|id| ("of", id));
        for (key, id) in named.chain(rule.consequence_of.iter().map(|id| ("consequence_of", id))) {
            let (file, at) = place(key);
            let Some(symptom) = symptoms().find(|symptom| symptom.id == *id) else {
                if complete {
                    let near = nearest(id, symptoms().map(|symptom| &*symptom.id));
                    let hint = near.map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
                    report.error(
                        file,
                        at,
                        format!("{}: {key}: there is no symptom `{id}`{hint}", rule.id),
                    );
                }
                continue;
            };
            if key == "of" && symptom.on.subject() != rule.on.subject() {
                let message = format!("{}: of: `{id}` is about something else than this cause", rule.id);
                report.error(file, at, message);
            }
            if key == "of"
                && let (Some(unit), Some(wanted)) = (rule.unit, symptom.unit)
                && unit != wanted
            {
                let (file, at) = place("explains");
                let message = format!(
                    "{}: explains: it is in {}, and the harm of `{id}` in {}",
                    rule.id,
                    unit.name(),
                    wanted.name()
                );
                report.error(file, at, message);
            }
        }
    }
}
