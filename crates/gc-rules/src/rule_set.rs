//! All checked rules, with what is computed once for all processes: how windows are fed, and which rules have a turn.

use std::collections::HashMap;
use std::sync::Arc;

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
    /// Groups.
    pub groups: Vec<Group>,
}

impl RuleSet {
    /// That of these rules, with the windows and the groups that they name by place.
    pub fn new(rules: Vec<Arc<Rule>>, windows: Vec<Window>, groups: Vec<Group>) -> Self {
        Self {
            turns: Turns::of(&rules, groups.len()),
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

    /// Rules by id.
    pub fn by_id(&self) -> HashMap<&str, &Arc<Rule>> {
        self.rules.iter().map(|rule| (&*rule.id, rule)).collect()
    }
}
