//! The rules that are evaluated together, and the quiet rules among them.

use super::kinds::KindTruths;
use super::run::{Quiet, RuleRun};
use crate::field::Scope;
use crate::rule_set::RuleSet;

/// The rules `on: gc`, or all other rules, of one process. A rule is quiet if its condition is false or unknown, or if
/// it is not selected. For a quiet rule, an evaluation reads at most the condition, which all processes share, like the
/// order of the rules. The evaluation does not read the state of the rule, which is elsewhere in memory. Nearly all
/// rules are quiet nearly all the time.
#[derive(Debug)]
pub(super) struct Round {
    on_gc: bool,
    /// One entry for each of the set's [turns](crate::turns).
    quiet: Box<[Option<Quiet>]>,
    /// Number of evaluations.
    pub(super) number: u64,
}

impl Round {
    /// Creates the first round of the rules `on: gc`, or of all other rules. No rule is quiet.
    pub(super) fn new(rules: &RuleSet, on_gc: bool) -> Self {
        Self {
            on_gc,
            quiet: vec![None; rules.turns.round(on_gc).len()].into_boxed_slice(),
            number: 0,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.quiet.is_empty()
    }

    /// Returns the indexes of the runs that are not quiet.
    pub(super) fn awake(&self, rules: &RuleSet) -> impl Iterator<Item = usize> {
        let turns = rules.turns.round(self.on_gc).iter().zip(&self.quiet);
        turns
            .filter(|(_, quiet)| quiet.is_none())
            .map(|(turn, _)| turn.run as usize)
    }

    /// Wakes all rules after a change of facts: no rule is quiet until it is evaluated again.
    pub(super) fn wake(&mut self, rules: &RuleSet, runs: &mut [RuleRun]) {
        for (turn, quiet) in rules.turns.round(self.on_gc).iter().zip(&mut self.quiet) {
            if quiet.take().is_some()
                && let Some(run) = runs.get_mut(turn.run as usize)
            {
                run.status.woken(self.number);
            }
        }
    }

    /// Wakes the rule at index `place` in the runs because its alert starts.
    pub(super) fn wake_one(&mut self, rules: &RuleSet, place: usize, run: &mut RuleRun) {
        let mut turns = rules.turns.round(self.on_gc).iter().zip(&mut self.quiet);
        if let Some((_, quiet)) = turns.find(|(turn, _)| turn.run as usize == place)
            && quiet.take().is_some()
        {
            run.status.woken(self.number);
        }
    }

    /// Evaluates each selected rule that can change. `truths` are the results for the kind of the collection, used by
    /// rules `on: gc`.
    pub(super) fn evaluate(
        &mut self,
        rules: &RuleSet,
        runs: &mut [RuleRun],
        scope: &Scope<'_>,
        truths: &mut KindTruths<'_>,
        mut evaluate: impl FnMut(usize, &mut RuleRun),
    ) {
        self.number += 1;
        let mut conditions = rules.conditions.round();
        let of_kind = if self.on_gc { rules.turns.kind_conditions() } else { &[] };
        for (place, (turn, quiet)) in rules.turns.round(self.on_gc).iter().zip(&mut self.quiet).enumerate() {
            let mut condition = || {
                let part = of_kind.get(place).and_then(Option::as_ref);
                match part.map(|part| truths.evaluate_rule(place, part, scope)) {
                    Some(Ok(Some(false))) => Ok(Some(false)),
                    _ => conditions.evaluate(turn.rule as usize, scope),
                }
            };
            let still = match *quiet {
                Some(Quiet::False) => condition() == Ok(Some(false)),
                Some(Quiet::Unknown) => condition() == Ok(None),
                Some(Quiet::NotSelected) => true,
                None => false,
            };
            if still {
                continue;
            }
            let place = turn.run as usize;
            let Some(run) = runs.get_mut(place) else { continue };
            if quiet.is_some() {
                // The current round is excluded because every evaluation counts itself.
                run.status.woken(self.number - 1);
            }
            if run.status.is_selected() {
                evaluate(place, run);
            }
            *quiet = run.status.quiet();
            if matches!(quiet, Some(Quiet::False | Quiet::Unknown)) {
                run.status.quiet_since(self.number);
            }
        }
    }
}
