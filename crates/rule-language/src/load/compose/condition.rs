//! The conditions of a rule, compiled; their faults are reported where they are written.

use gc_rules::expression::Expression;
use gc_rules::field::{EXPECTED, Root};
use gc_rules::rule::{On, Severity};
use strict_yaml::quote::quoted;

use super::RuleBuilder;
use crate::compile::{Compiled, Names, Wanted, compile};
use crate::document;
use crate::load::Level;
use crate::load::draft::Draft;
use crate::load::file::Words;
use crate::load::partial_rule::PartialRule;
use crate::load::report::Placed;
use crate::load::text::{condition_trap, entry, scalar};

impl RuleBuilder<'_, '_> {
    /// The condition under which a rule with `expect` is for a service; `None`: it has none, or it is invalid.
    pub(super) fn expected(
        &mut self,
        draft: &Draft<'_>,
        partial: &PartialRule<'_>,
        keys: &document::Rule,
    ) -> Option<Compiled> {
        let placed = draft.keys.get("expect").filter(|_| !keys.expect.is_empty())?;
        let bad = |name: &&String| name.trim().is_empty() || name.contains(['\'', '\\']) || name.len() > 200;
        let fault = if keys.on != Some(On::Service) {
            Some("only rules `on: service` expect services".to_owned())
        } else if draft.keys.contains_key("select") {
            Some("it is for the services that it names; remove `select`".to_owned())
        } else {
            let bad = keys.expect.iter().find(bad);
            bad.map(|name| format!("{} cannot be the name of a service", quoted(name)))
        };
        if let Some(fault) = fault {
            let message = format!("{}: expect: {fault}", draft.id);
            self.report.error(placed.file, placed.node.at, message);
            return None;
        }
        let names: Vec<String> = keys.expect.iter().map(|name| format!("'{}'", name.trim())).collect();
        let text = format!(
            "has(process.attributes['{EXPECTED}']) && process.service in [{}]",
            names.join(", ")
        );
        let words = self.words.get(placed.file)?;
        compile(&text, &words.names(partial, &[Root::Process]), Wanted::Bool).ok()
    }

    /// The condition under a key of the rule.
    pub(super) fn of_key(
        &mut self,
        draft: &Draft<'_>,
        partial: &mut PartialRule<'_>,
        key: &str,
        roots: &[Root],
    ) -> Option<Compiled> {
        let placed = draft.keys.get(key)?;
        self.expression(*placed, partial, key, roots, Wanted::Bool)
    }

    /// Compiles an expression; its faults are reported.
    pub(super) fn expression(
        &mut self,
        placed: Placed<'_>,
        partial: &mut PartialRule<'_>,
        key: &str,
        roots: &[Root],
        wanted: Wanted,
    ) -> Option<Compiled> {
        let scalar = scalar(placed.node)?;
        let text = scalar.text.as_str();
        if text.is_empty() {
            // Reported by the check.
            return None;
        }
        let what = format!("{}: {key}", partial.id);
        if let Some(trap) = condition_trap(self.report.lines(placed.file), placed, scalar) {
            self.report
                .error(placed.file, placed.node.at, format!("{what}: {trap}"));
            return None;
        }
        let words = self.words.get_mut(placed.file)?;
        match compile(text, &words.names(partial, roots), wanted) {
            Ok(compiled) => {
                let warnings = &compiled.warnings;
                self.report.mistakes(placed, text, &what, warnings, Level::Warning);
                words.used.extend(compiled.used.iter().cloned());
                partial.named.extend(compiled.used.iter().cloned());
                partial.use_windows(&compiled);
                Some(compiled)
            }
            Err(mut mistakes) => {
                mistakes.retain(|mistake| !words.is_reported(text, mistake));
                self.report.mistakes(placed, text, &what, &mistakes, Level::Error);
                None
            }
        }
    }

    /// Conditions of higher severities, in their order.
    pub(super) fn worse(
        &mut self,
        draft: &Draft<'_>,
        partial: &mut PartialRule<'_>,
        keys: &document::Rule,
        roots: &[Root],
    ) -> Vec<(Severity, Expression)> {
        let mut all = Vec::new();
        let Some(placed) = draft.keys.get("worse") else {
            return all;
        };
        for severity in Severity::ALL.iter().copied() {
            let Some(own) = entry(placed.node, severity.name()) else {
                continue;
            };
            let key = format!("worse.{}", severity.name());
            if keys.severity.is_some_and(|least| severity <= least) {
                let message = format!(
                    "{}: {key}: the alert is at least that by `severity`; set a higher one",
                    draft.id
                );
                self.report.error(placed.file, own.at, message);
            }
            let node = &own.value;
            let condition = self.expression(Placed { node, ..*placed }, partial, &key, roots, Wanted::Bool);
            all.extend(condition.map(|condition| (severity, condition.expression)));
        }
        all
    }
}

impl Words {
    pub(super) fn names<'n>(&'n self, partial: &'n PartialRule<'_>, roots: &'n [Root]) -> Names<'n> {
        Names {
            macros: &self.macros,
            lists: &self.lists,
            windows: &partial.places,
            measures: &partial.measures,
            params: &partial.params,
            roots,
        }
    }
}
