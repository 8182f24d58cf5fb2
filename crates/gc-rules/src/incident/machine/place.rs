//! Where an alert belongs: its rule and group in the set, and which groups follow which.

use std::sync::Arc;

use crate::alert::Alert;
use crate::rule_set::RuleSet;

/// Where an alert belongs.
pub(super) struct AlertGroup {
    pub(super) rank: usize,
    pub(super) group: Option<usize>,
}

/// Where the rule of an alert is now; after a reload its alert still has the old one.
pub(super) fn place(rules: &RuleSet, alert: &Alert) -> AlertGroup {
    let found = rules
        .rules
        .iter()
        .enumerate()
        .find(|(_, rule)| rule.id == alert.rule.id);
    AlertGroup {
        rank: found.map_or(usize::MAX, |(rank, _)| rank),
        group: found.and_then(|(_, rule)| rule.group),
    }
}

pub(super) fn group_name(rules: &RuleSet, group: Option<usize>) -> Option<Arc<str>> {
    let group = rules.groups.get(group?)?;
    Some(Arc::clone(&group.name))
}

pub(super) fn group_place(rules: &RuleSet, name: &str) -> Option<usize> {
    rules.groups.iter().position(|group| *group.name == *name)
}

/// Whether the alerts of a group are consequences of those of another one, directly or over others.
pub(crate) fn follows(rules: &RuleSet, group: usize, cause: usize) -> bool {
    let mut seen = vec![group];
    let mut next = 0;
    while let Some(&at) = seen.get(next) {
        next += 1;
        for &followed in rules.groups.get(at).map_or(&[][..], |group| &group.follows) {
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
