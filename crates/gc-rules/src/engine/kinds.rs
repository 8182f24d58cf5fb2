//! What conditions are for collections of a kind: evaluated for the first one of it.

use crate::expression::{Expression, Truth};
use crate::field::{Kind, Scope};
use crate::rule_set::RuleSet;

/// Kinds that are remembered: the newest of each generation.
const KINDS: usize = 3;

/// What is known of the parts of conditions that depend on the kind of a collection alone: of windows
/// ([`SeriesFeed::of_kind`](crate::plan::SeriesFeed::of_kind)), and of rules `on: gc`.
#[derive(Debug, Default)]
pub(super) struct Kinds {
    /// `None`: there was no collection yet.
    newest: Option<Box<[Option<OfKind>; KINDS]>>,
}

#[derive(Debug)]
struct OfKind {
    kind: Kind,
    /// Of each feed, then of each turn `on: gc`; `None`: not evaluated yet.
    truths: Box<[Option<Truth>]>,
}

/// How many conditions a rule set has of which a part may depend on the kind alone.
fn conditions(rules: &RuleSet) -> usize {
    rules.plan.feeds() + rules.turns.of_kind().len()
}

impl Kinds {
    /// Maximum memory for a rule set, bytes.
    pub(super) fn most_memory(rules: &RuleSet) -> usize {
        KINDS * (size_of::<Option<OfKind>>() + conditions(rules) * size_of::<Option<Truth>>())
    }

    /// The truths of a rule set, for the kind of the current collection.
    pub(super) fn of_current(&mut self, scope: &Scope<'_>, rules: &RuleSet) -> KindTruths<'_> {
        let truths = Kind::of(scope).and_then(|kind| {
            let place = kind.generation.map_or(0, |generation| generation as usize);
            let known = self.newest.get_or_insert_default().get_mut(place)?;
            let known = known.get_or_insert_with(|| OfKind {
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

/// See [`Kinds::of_current`]. Without any, each is evaluated whenever it is asked for.
#[derive(Default)]
pub(super) struct KindTruths<'k> {
    feeds: &'k mut [Option<Truth>],
    rules: &'k mut [Option<Truth>],
}

impl KindTruths<'_> {
    /// That of a part of a feed's condition.
    pub(super) fn of_feed(&mut self, feed: usize, part: &Expression, scope: &Scope<'_>) -> Truth {
        known(self.feeds.get_mut(feed), part, scope)
    }

    /// That of a part of the condition of a rule `on: gc`, by its turn.
    pub(super) fn of_rule(&mut self, turn: usize, part: &Expression, scope: &Scope<'_>) -> Truth {
        known(self.rules.get_mut(turn), part, scope)
    }
}

fn known(known: Option<&mut Option<Truth>>, part: &Expression, scope: &Scope<'_>) -> Truth {
    match known {
        Some(known) => *known.get_or_insert_with(|| part.holds(scope)),
        None => part.holds(scope),
    }
}
