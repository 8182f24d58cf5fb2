//! What the filters of windows are for collections of a kind: evaluated for the first one of it.

use crate::expression::{Expression, Truth};
use crate::field::{Kind, Scope};

/// Kinds that are remembered: the newest of each generation.
const KINDS: usize = 3;

/// What is known of the parts of the feeds' filters that depend on the kind of a collection alone
/// ([`SeriesFeed::of_kind`](crate::plan::SeriesFeed::of_kind)).
#[derive(Debug, Default)]
pub(super) struct Filters {
    /// `None`: there was no collection yet.
    kinds: Option<Box<[Option<OfKind>; KINDS]>>,
}

#[derive(Debug)]
struct OfKind {
    kind: Kind,
    /// Of each feed; `None`: not evaluated yet.
    truths: Box<[Option<Truth>]>,
}

impl Filters {
    /// Maximum memory for a rule set with that many feeds, bytes.
    pub(super) fn most_memory(feeds: usize) -> usize {
        KINDS * (size_of::<Option<OfKind>>() + feeds * size_of::<Option<Truth>>())
    }

    /// The truths of a rule set with that many feeds, for the kind of the current collection.
    pub(super) fn of_current(&mut self, scope: &Scope<'_>, feeds: usize) -> KindTruths<'_> {
        let truths = Kind::of(scope).and_then(|kind| {
            let place = kind.generation.map_or(0, |generation| generation as usize);
            let known = self.kinds.get_or_insert_default().get_mut(place)?;
            let known = known.get_or_insert_with(|| OfKind {
                kind,
                truths: vec![None; feeds].into_boxed_slice(),
            });
            if known.kind != kind {
                known.kind = kind;
                known.truths.fill(None);
            }
            Some(&mut *known.truths)
        });
        KindTruths(truths.unwrap_or_default())
    }
}

/// See [`Filters::of_current`].
pub(super) struct KindTruths<'f>(&'f mut [Option<Truth>]);

impl KindTruths<'_> {
    /// That of the part of a feed's filter that depends on the kind alone.
    pub(super) fn of(&mut self, feed: usize, part: &Expression, scope: &Scope<'_>) -> Truth {
        let evaluate = || part.holds(scope);
        match self.0.get_mut(feed) {
            Some(known) => *known.get_or_insert_with(evaluate),
            None => evaluate(),
        }
    }
}
