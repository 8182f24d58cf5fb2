//! Results of conditions that depend only on the kind of a collection. Each result is computed for the first collection
//! of a kind, and is reused until the generation has a collection of another kind.

use crate::expression::{Expression, Truth};
use crate::field::{Kind, Scope};
use crate::rule_set::RuleSet;

/// Number of kinds that are remembered: the newest of each generation.
const KINDS: usize = 3;

/// Results of the parts of conditions that depend only on the kind of a collection: parts of windows
/// ([`SeriesFeed::of_kind`](crate::plan::SeriesFeed::of_kind)) and of rules `on: gc`.
#[derive(Debug, Default)]
pub(super) struct Kinds {
    /// Results of the newest kind of each generation; `None` before the first collection.
    newest: Option<Box<[Option<KindResults>; KINDS]>>,
}

#[derive(Debug)]
struct KindResults {
    kind: Kind,
    /// Results for each feed, then for each rule `on: gc` in the order of the turns; `None` if not evaluated yet.
    truths: Box<[Option<Truth>]>,
}

/// Returns the number of conditions of a rule set that can have a part that depends only on the kind.
fn conditions(rules: &RuleSet) -> usize {
    rules.plan.feeds() + rules.turns.kind_conditions().len()
}

impl Kinds {
    /// Returns the maximum memory for a rule set, in bytes.
    pub(super) fn most_memory(rules: &RuleSet) -> usize {
        KINDS * (size_of::<Option<KindResults>>() + conditions(rules) * size_of::<Option<Truth>>())
    }

    /// Returns the results for a rule set and the kind of the current collection.
    pub(super) fn for_current(&mut self, scope: &Scope<'_>, rules: &RuleSet) -> KindTruths<'_> {
        let truths = Kind::for_scope(scope).and_then(|kind| {
            let place = kind.generation.map_or(0, |generation| generation as usize);
            let known = self.newest.get_or_insert_default().get_mut(place)?;
            let known = known.get_or_insert_with(|| KindResults {
                kind,
                truths: vec![None; conditions(rules)].into_boxed_slice(),
            });
            if known.kind != kind {
                known.kind = kind;
                known.truths.fill(None);
            }
            Some(known.truths.split_at_mut(rules.plan.feeds()))
        });
        let (feeds, rules) = truths.unwrap_or_default();
        KindTruths { feeds, rules }
    }
}

/// Results of one kind, see [`Kinds::for_current`]. Without results, each part is evaluated on every call.
#[derive(Default)]
pub(super) struct KindTruths<'k> {
    feeds: &'k mut [Option<Truth>],
    rules: &'k mut [Option<Truth>],
}

impl KindTruths<'_> {
    /// Evaluates the part of a feed's condition.
    pub(super) fn evaluate_feed(&mut self, feed: usize, part: &Expression, scope: &Scope<'_>) -> Truth {
        known(self.feeds.get_mut(feed), part, scope)
    }

    /// Evaluates the part of the condition of a rule `on: gc`, given its turn.
    pub(super) fn evaluate_rule(&mut self, turn: usize, part: &Expression, scope: &Scope<'_>) -> Truth {
        known(self.rules.get_mut(turn), part, scope)
    }
}

fn known(known: Option<&mut Option<Truth>>, part: &Expression, scope: &Scope<'_>) -> Truth {
    match known {
        Some(known) => *known.get_or_insert_with(|| part.holds(scope)),
        None => part.holds(scope),
    }
}
