//! Evaluation order of the rules of a set, and the members of its groups, computed once and used for every process.
//!
//! An engine has a state for each enabled rule, in the order of the files. `run` is the place of a rule among these
//! states.

use std::sync::Arc;

use super::expression::Expression;
use super::plan::divided;
use super::rule::{EvaluationTrigger, Rule};

/// The turn of a rule in an evaluation round.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ScheduledRule {
    /// Place among the enabled rules.
    pub(crate) run: u32,
    /// Place in the set.
    pub(crate) rule: u32,
}

/// The turns of the enabled rules of a set.
#[derive(Debug, Clone, Default)]
pub(crate) struct RuleSchedule {
    on_gc: Box<[ScheduledRule]>,
    of_kind: Box<[Option<Expression>]>,
    others: Box<[ScheduledRule]>,
    members: Box<[Box<[u32]>]>,
}

impl RuleSchedule {
    /// Creates the turns of `rules`, which refer to `groups` groups.
    pub(crate) fn from_rules(rules: &[Arc<Rule>], groups: usize) -> Self {
        let enabled = || {
            let enabled = (0..).zip(rules).filter(|(_, rule)| rule.enabled);
            (0..)
                .zip(enabled)
                .map(|(run, (rule, enabled))| (ScheduledRule { run, rule }, enabled))
        };
        let turns = |on_gc: bool| {
            let evaluated = enabled().filter(|(_, rule)| (rule.on == EvaluationTrigger::Gc) == on_gc);
            evaluated.map(|(turn, _)| turn).collect()
        };
        let members = |group: usize| {
            let members = enabled().filter(|(_, rule)| rule.group == Some(group));
            members.map(|(turn, _)| turn.run).collect()
        };
        let on_gc = enabled().filter(|(_, rule)| rule.on == EvaluationTrigger::Gc);
        Self {
            of_kind: on_gc.map(|(_, rule)| divided(&rule.when).0).collect(),
            on_gc: turns(true),
            others: turns(false),
            members: (0..groups).map(members).collect(),
        }
    }

    /// Returns the turns of the rules `on: gc`, or of all other rules.
    pub(crate) fn round(&self, on_gc: bool) -> &[ScheduledRule] {
        if on_gc { &self.on_gc } else { &self.others }
    }

    /// Returns, for each turn `on: gc`, the part of the condition that is the same for all collections of one kind
    /// (`field::Kind`).
    pub(crate) fn kind_conditions(&self) -> &[Option<Expression>] {
        &self.of_kind
    }

    /// Returns the runs of the rules of a group.
    pub(crate) fn members(&self, group: usize) -> &[u32] {
        self.members.get(group).map_or(&[], |members| members)
    }

    /// Returns the number of groups.
    pub(crate) fn groups(&self) -> usize {
        self.members.len()
    }
}
