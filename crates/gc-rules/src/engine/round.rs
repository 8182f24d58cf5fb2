//! The rules that are evaluated together, and which of them are quiet.

use super::run::Run;
use crate::field::Scope;
use crate::rule::{On, Rule, RuleSet};

/// The rules `on: gc`, or all others, of one process. Of a quiet rule (selected, and its condition false or unknown)
/// only the condition is read, which all processes share: its state is elsewhere in memory, and nearly all rules are
/// quiet nearly always.
#[derive(Debug, Default)]
pub(super) struct Round {
    entries: Box<[Entry]>,
    /// How often they were evaluated.
    pub(super) number: u64,
}

#[derive(Debug)]
struct Entry {
    /// Its place in the runs, and that of its rule in the set.
    run: u32,
    rule: u32,
    quiet: Option<Quiet>,
}

/// The value of a quiet rule's condition: while it is the same, nothing changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Quiet {
    False,
    Unknown,
}

impl Round {
    pub(super) fn of(runs: &[Run], on: On, rules: &RuleSet) -> Self {
        let enabled = rules.rules.iter().enumerate().filter(|(_, rule)| rule.enabled);
        let places = enabled
            .zip(0u32..)
            .filter(|((_, rule), _)| (rule.on == On::Gc) == (on == On::Gc));
        let entry = |((rule, _), run): ((usize, _), u32)| Entry {
            run,
            rule: u32::try_from(rule).unwrap_or(u32::MAX),
            quiet: None,
        };
        debug_assert_eq!(runs.len(), rules.rules.iter().filter(|rule| rule.enabled).count());
        Self {
            entries: places.map(entry).collect(),
            number: 0,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Places in the runs of those that are not quiet.
    pub(super) fn awake(&self) -> impl Iterator<Item = usize> {
        let awake = self.entries.iter().filter(|entry| entry.quiet.is_none());
        awake.map(|entry| entry.run as usize)
    }

    /// The rules changed: none is quiet until it is evaluated again.
    pub(super) fn wake(&mut self, runs: &mut [Run]) {
        for entry in &mut self.entries {
            if entry.quiet.take().is_some()
                && let Some(run) = runs.get_mut(entry.run as usize)
            {
                run.status.woken(self.number);
            }
        }
    }

    /// The alert of a rule begins, by its place in the runs.
    pub(super) fn wake_one(&mut self, place: usize, run: &mut Run) {
        let mut entries = self.entries.iter_mut();
        if let Some(entry) = entries.find(|entry| entry.run as usize == place)
            && entry.quiet.take().is_some()
        {
            run.status.woken(self.number);
        }
    }

    /// Evaluates each selected rule that may change.
    pub(super) fn evaluate(
        &mut self,
        rules: &RuleSet,
        runs: &mut [Run],
        scope: &Scope<'_>,
        mut evaluate: impl FnMut(usize, &mut Run),
    ) {
        self.number += 1;
        let comes_to = |rule: &Rule| match rule.when.holds(scope) {
            Ok(Some(false)) => Some(Quiet::False),
            Ok(None) => Some(Quiet::Unknown),
            Ok(Some(true)) | Err(_) => None,
        };
        for entry in &mut self.entries {
            if let Some(quiet) = entry.quiet
                && let Some(rule) = rules.rules.get(entry.rule as usize)
                && comes_to(rule) == Some(quiet)
            {
                continue;
            }
            let place = entry.run as usize;
            let Some(run) = runs.get_mut(place).filter(|run| run.status.is_selected()) else {
                continue;
            };
            if entry.quiet.is_some() {
                // Not this round, which is counted as every evaluation is.
                run.status.woken(self.number - 1);
            }
            evaluate(place, run);
            entry.quiet = run.status.quiet();
            if entry.quiet.is_some() {
                run.status.quiet_since(self.number);
            }
        }
    }
}
