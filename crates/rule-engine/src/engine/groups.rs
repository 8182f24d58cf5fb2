//! Selects the rule of a group that fires.

use std::cmp::Reverse;

use super::run::RuleRun;

/// The groups with changes that have not been settled.
#[derive(Debug, Default)]
pub(super) struct Groups {
    touched: Vec<usize>,
}

impl Groups {
    /// Creates `count` groups, all of which must be settled.
    pub(super) fn new(count: usize) -> Self {
        Self {
            touched: (0..count).collect(),
        }
    }

    /// Records that a rule of a group became active or ended.
    pub(super) fn touch(&mut self, group: usize) {
        if !self.touched.contains(&group) {
            self.touched.push(group);
        }
    }

    pub(super) fn next_touched(&mut self) -> Option<usize> {
        let next = self.touched.pop();
        if next.is_none() {
            // Changes are rare, so no memory is kept between them.
            self.touched = Vec::new();
        }
        next
    }
}

/// Returns the most severe active rule. Among equally severe rules, the rule that already fires wins or, if none fires,
/// the first rule. Returns `None` if no rule is active.
pub(super) fn winner(members: &[u32], runs: &[RuleRun]) -> Option<usize> {
    let active = members.iter().filter_map(|&place| {
        let place = place as usize;
        let run = runs.get(place).filter(|run| run.status.is_active())?;
        Some((run.severity(), run.status.is_firing(), Reverse(place)))
    });
    active.max().map(|(_, _, Reverse(place))| place)
}
