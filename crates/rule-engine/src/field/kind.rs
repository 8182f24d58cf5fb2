//! The kind of a collection, without its figures. Most collections of a process belong to a few kinds.

use clr_gc::event::{CondemnReasons1, GcReason, GcType, PauseMode};
use clr_gc::gc::MissingParts;

use super::{Field, Scope};

/// The fields that have the same value for all collections of a [`Kind`].
const FIELDS: [&str; 12] = [
    "gc.generation",
    "gc.type",
    "gc.blocking",
    "gc.became_blocking",
    "gc.reason",
    "gc.pause_mode",
    "gc.condemned_reasons",
    "gc.missing",
    "gc.complete",
    "gc.lossy",
    "gc.requested_by_tool",
    "gc.requested_by_gcwatch",
];

/// The properties that determine the values of [`FIELDS`]. A filter that uses only these fields has the same result for
/// all collections of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kind {
    pub(crate) generation: Option<u32>,
    gc_type: Option<GcType>,
    reason: Option<GcReason>,
    pause_mode: Option<PauseMode>,
    condemned: Option<CondemnReasons1>,
    missing: MissingParts,
    became_blocking: bool,
    lossy: bool,
    requested_by_tool: Option<bool>,
    requested_by_gcwatch: bool,
}

impl Kind {
    /// Returns the kind of the current collection, or `None` if there is no collection.
    pub(crate) fn for_scope(scope: &Scope<'_>) -> Option<Self> {
        let gc = scope.gc?.collection;
        Some(Self {
            generation: gc.generation,
            gc_type: gc.gc_type,
            reason: gc.reason,
            pause_mode: gc.global.map(|global| global.pause_mode),
            condemned: gc.global.and_then(|global| global.condemn_reasons1),
            missing: gc.missing,
            became_blocking: gc.became_blocking,
            lossy: gc.lossy,
            requested_by_tool: gc.requested_by_tool,
            requested_by_gcwatch: scope.stream.own_dump,
        })
    }

    /// Returns whether the value of `field` is the same for all collections of one kind.
    pub(crate) fn decides(field: &Field) -> bool {
        FIELDS.contains(&field.name)
    }
}

#[cfg(test)]
mod tests {
    use clr_gc::gc::{Collection, GenerationSizes, Missing};

    use super::*;
    use crate::field::{GcFacts, ProcessFacts, StreamFacts};
    use base::time::Moment;

    /// Returns a collection of one kind with the given figures.
    fn collection(number: u32, figure: i64) -> Collection {
        let sizes = GenerationSizes {
            after: Some(figure.unsigned_abs()),
            ..GenerationSizes::default()
        };
        Collection {
            generation: Some(1),
            gc_type: Some(GcType::BACKGROUND),
            reason: Some(GcReason::INDUCED),
            requested_by_tool: Some(true),
            start: Some(figure),
            end: Some(3 * figure),
            pause_ns: Some(figure),
            suspend_ns: Some(figure),
            heap: [sizes; 5],
            ..Collection::unknown(number)
        }
    }

    fn scope<'a>((process, stream): &'a (ProcessFacts, StreamFacts), collection: &'a Collection) -> Scope<'a> {
        let gc = GcFacts {
            collection,
            since_last_ns: None,
            foreground_within: None,
        };
        Scope {
            gc: Some(gc),
            ..Scope::new(process, stream, Moment::FIRST)
        }
    }

    /// Scenario: two collections have the same kind and nothing else in common; other collections differ in one part of
    /// the kind.
    /// Guarantee: each field of a kind has the same value for the first two collections, and a collection that differs
    /// in a part has another kind.
    #[test]
    fn fields_of_a_kind_have_one_value() {
        let facts = (ProcessFacts::default(), StreamFacts::default());
        let scope = |collection| scope(&facts, collection);
        let (one, other) = (collection(1, 5), collection(2, 7));
        let kind = Kind::for_scope(&scope(&one));
        assert_eq!(kind, Kind::for_scope(&scope(&other)));
        for name in FIELDS {
            let field = Field::find(name).unwrap();
            assert!(Kind::decides(field));
            assert_eq!(field.read(&scope(&one)), field.read(&scope(&other)), "{name}");
        }
        let change: [fn(&mut Collection); 7] = [
            |gc| gc.generation = None,
            |gc| gc.gc_type = Some(GcType::BLOCKING),
            |gc| gc.reason = Some(GcReason::LOW_MEMORY),
            |gc| gc.missing = [Missing::End].into_iter().collect(),
            |gc| gc.became_blocking = true,
            |gc| gc.lossy = true,
            |gc| gc.requested_by_tool = None,
        ];
        for (part, change) in change.iter().enumerate() {
            let mut changed = collection(3, 5);
            change(&mut changed);
            assert_ne!(Kind::for_scope(&self::scope(&facts, &changed)), kind, "{part}");
        }
    }
}
