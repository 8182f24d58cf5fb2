//! Which rule of a group fires.

use std::cmp::Reverse;

use super::run::RuleRun;

/// The groups in which something changed.
#[derive(Debug, Default)]
pub(super) struct Groups {
    touched: Vec<usize>,
}

impl Groups {
    /// So many groups, all of which have to be settled.
    pub(super) fn new(count: usize) -> Self {
        Self {
            touched: (0..count).collect(),
        }
    }

    /// A rule of it began to hold or ended.
    pub(super) fn touch(&mut self, group: usize) {
        if !self.touched.contains(&group) {
            self.touched.push(group);
        }
    }

    pub(super) fn next_touched(&mut self) -> Option<usize> {
        let next = self.touched.pop();
        if next.is_none() {
            // Changes are rare: between them there is no memory for them.
            self.touched = Vec::new();
        }
        next
    }
}

/// The most severe one that holds; of equals the one that fires already, else the first.
pub(super) fn winner(members: &[u32], runs: &[RuleRun]) -> Option<usize> {
    let active = members.iter().filter_map(|&place| {
        let place = place as usize;
        let run = runs.get(place).filter(|run| run.status.is_active())?;
        Some((run.severity(), run.status.is_firing(), Reverse(place)))
    });
    active.max().map(|(_, _, Reverse(place))| place)
}
