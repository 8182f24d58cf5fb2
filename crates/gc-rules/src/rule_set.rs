//! All checked rules, with what is computed once for all processes: how windows are fed, and which rules have a turn.

use std::collections::HashMap;
use std::sync::Arc;

use super::alert::Alert;
use super::conditions::Conditions;
use super::plan::Plan;
use super::rule::{Group, Rule, Window};
use super::turns::Turns;

/// All checked rules.
#[derive(Debug, Clone, Default)]
pub struct RuleSet {
    /// Rules, in the order of the files.
    pub rules: Vec<Arc<Rule>>,
    /// The windows that they use.
    pub windows: Vec<Window>,
    /// How the windows are fed.
    pub(crate) plan: Plan,
    /// Which rules are evaluated when.
    pub(crate) turns: Turns,
    /// What their conditions have in common.
    pub(crate) conditions: Conditions,
    pub groups: Vec<Group>,
}

impl RuleSet {
    /// That of these rules, with the windows and the groups that they name by place.
    pub fn new(rules: Vec<Arc<Rule>>, windows: Vec<Window>, groups: Vec<Group>) -> Self {
        Self {
            turns: Turns::of(&rules, groups.len()),
            conditions: Conditions::of(&rules),
            plan: Plan::new(&windows),
            rules,
            windows,
            groups,
        }
    }

    /// The rule of that id.
    pub fn rule(&self, id: &str) -> Option<&Arc<Rule>> {
        self.rules.iter().find(|rule| &*rule.id == id)
    }

    /// The group of the rule of an alert now; after a reload the alert still has the old rule.
    pub(crate) fn group_of(&self, alert: &Alert) -> Option<usize> {
        self.rule(&alert.rule.id)?.group
    }

    pub(crate) fn group_name(&self, group: Option<usize>) -> Option<Arc<str>> {
        Some(Arc::clone(&self.groups.get(group?)?.name))
    }

    pub(crate) fn group_place(&self, name: &str) -> Option<usize> {
        self.groups.iter().position(|group| *group.name == *name)
    }

    /// Whether the alerts of a group are consequences of those of another one, directly or over others.
    pub(crate) fn follows(&self, group: usize, cause: usize) -> bool {
        let mut seen = vec![group];
        let mut next = 0;
        while let Some(&at) = seen.get(next) {
            next += 1;
            for &followed in self.groups.get(at).map_or(&[][..], |group| &group.follows) {
                if followed == cause && cause != group {
                    return true;
                }
                if !seen.contains(&followed) {
                    seen.push(followed);
                }
            }
        }
        false
    }

    /// The name of a rule's group; `None`: it has none, or is not of this set, by whose places groups go.
    pub fn group_name_of(&self, rule: &Arc<Rule>) -> Option<Arc<str>> {
        let known = self.rule(&rule.id).filter(|known| Arc::ptr_eq(known, rule))?;
        self.group_name(known.group)
    }

    /// Rules by id.
    pub fn by_id(&self) -> HashMap<&str, &Arc<Rule>> {
        self.rules.iter().map(|rule| (&*rule.id, rule)).collect()
    }
}
