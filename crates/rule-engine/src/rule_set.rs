//! All checked rules, with data that is computed once for all processes: the plan of the windows, and the turns of the
//! rules.

use std::collections::HashMap;
use std::sync::Arc;

use super::alert::Alert;
use super::conditions::Conditions;
use super::plan::Plan;
use super::rule::{Group, Rule, Window};
use super::turns::RuleSchedule;

/// All checked rules.
#[derive(Debug, Clone, Default)]
pub struct RuleSet {
    /// Rules, in the order of the files.
    pub rules: Vec<Arc<Rule>>,
    /// Windows used by the rules.
    pub windows: Vec<Window>,
    /// Assignment of samples to windows.
    pub(crate) plan: Plan,
    /// Evaluation order of the rules.
    pub(crate) turns: RuleSchedule,
    /// Shared parts of the conditions.
    pub(crate) conditions: Conditions,
    pub groups: Vec<Group>,
}

impl RuleSet {
    /// Creates a rule set. Rules refer to windows and groups by index.
    pub fn new(rules: Vec<Arc<Rule>>, windows: Vec<Window>, groups: Vec<Group>) -> Self {
        Self {
            turns: RuleSchedule::from_rules(&rules, groups.len()),
            conditions: Conditions::from_rules(&rules),
            plan: Plan::new(&windows),
            rules,
            windows,
            groups,
        }
    }

    /// Returns the rule with this id, or `None` if the set has no such rule.
    pub fn rule(&self, id: &str) -> Option<&Arc<Rule>> {
        self.rules.iter().find(|rule| &*rule.id == id)
    }

    /// Returns the group of an alert's rule in this set, or `None` if the rule has no group or was removed. The rule is
    /// found by its id, because the alert still refers to the old rule after a reload.
    pub fn group_of(&self, alert: &Alert) -> Option<usize> {
        self.rule(&alert.rule.id)?.group
    }

    pub fn group_name(&self, group: Option<usize>) -> Option<Arc<str>> {
        Some(Arc::clone(&self.groups.get(group?)?.name))
    }

    pub fn group_place(&self, name: &str) -> Option<usize> {
        self.groups.iter().position(|group| *group.name == *name)
    }

    /// Returns whether the alerts of a group are consequences of the alerts of another group, directly or indirectly.
    pub fn follows(&self, group: usize, cause: usize) -> bool {
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

    /// Returns the name of a rule's group, or `None` if it has no group or if the rule is not part of this set, because
    /// groups are identified by index.
    pub fn group_name_of(&self, rule: &Arc<Rule>) -> Option<Arc<str>> {
        let known = self.rule(&rule.id).filter(|known| Arc::ptr_eq(known, rule))?;
        self.group_name(known.group)
    }

    /// Returns the rules by id.
    pub fn by_id(&self) -> HashMap<&str, &Arc<Rule>> {
        self.rules.iter().map(|rule| (&*rule.id, rule)).collect()
    }
}
