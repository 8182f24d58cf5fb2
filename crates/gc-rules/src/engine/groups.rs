//! Which rule of a group fires.

use std::cmp::Reverse;

use super::run::Run;

/// The rules of each group, and the groups in which something changed.
#[derive(Debug)]
pub(super) struct Groups {
    members: Vec<Vec<usize>>,
    touched: Vec<usize>,
}

impl Groups {
    pub(super) fn new(count: usize) -> Self {
        Self {
            members: vec![Vec::new(); count],
            touched: Vec::new(),
        }
    }

    /// The rule at `place` belongs to `group`.
    pub(super) fn add(&mut self, group: Option<usize>, place: usize) {
        if let Some(group) = group
            && let Some(members) = self.members.get_mut(group)
        {
            members.push(place);
            self.touch(group);
        }
    }

    /// A rule of it began to hold or ended.
    pub(super) fn touch(&mut self, group: usize) {
        if !self.touched.contains(&group) {
            self.touched.push(group);
        }
    }

    pub(super) fn next_touched(&mut self) -> Option<usize> {
        self.touched.pop()
    }

    pub(super) fn members(&self, group: usize) -> &[usize] {
        self.members.get(group).map_or(&[], Vec::as_slice)
    }
}

/// The most severe one that holds; of equals the one that fires already, else the first.
pub(super) fn winner(members: &[usize], runs: &[Run]) -> Option<usize> {
    let active = members.iter().filter_map(|&place| {
        let run = runs.get(place).filter(|run| run.status.is_active())?;
        Some((run.severity(), run.status.is_firing(), Reverse(place)))
    });
    active.max().map(|(_, _, Reverse(place))| place)
}
