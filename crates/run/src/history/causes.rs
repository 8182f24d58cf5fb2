//! Why a run collected, since its first attach.

use clr_gc::event::{GcReason, GcType};
use clr_gc::gc::Collection;

use super::{length, type_of};

/// Limit of rows; services have five to ten. What comes on top is one row.
pub(crate) const MOST_CAUSES: usize = 16;

/// The collections of one reason, generation and type.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cause {
    /// Why they began; `None`: not seen.
    pub reason: Option<GcReason>,
    pub generation: Option<u32>,
    pub gc_type: Option<GcType>,
    /// A tool asked for them, for heap dumps.
    pub requested_by_tool: bool,
    /// This row is for all that have no row of their own.
    pub is_rest: bool,
    /// How many.
    pub count: u64,
    /// Of those, of how many the pause is unknown.
    pub unknown_pauses: u64,
    /// Sum of the known pauses.
    pub pause_ns: u64,
    /// The longest one.
    pub longest_ns: Option<u64>,
}

/// All of them.
#[derive(Debug, Default)]
pub struct Causes(Vec<Cause>);

impl Causes {
    /// Takes a collection.
    pub fn observe(&mut self, collection: &Collection) {
        let mut new = Cause {
            reason: collection.reason,
            generation: collection.generation,
            gc_type: type_of(collection),
            requested_by_tool: collection.requested_by_tool == Some(true),
            ..Cause::default()
        };
        let key = |cause: &Cause| {
            let kind = (cause.reason, cause.generation, cause.gc_type);
            (cause.is_rest, cause.requested_by_tool, kind)
        };
        if self.0.len() >= MOST_CAUSES && self.0.iter().all(|known| key(known) != key(&new)) {
            new = Cause {
                is_rest: true,
                ..Cause::default()
            };
        }
        let place = self.0.iter().position(|known| key(known) == key(&new));
        let place = place.unwrap_or_else(|| {
            self.0.reserve_exact(1);
            self.0.push(new);
            self.0.len() - 1
        });
        let Some(cause) = self.0.get_mut(place) else { return };
        cause.count += 1;
        match length(collection.pause_ns) {
            Some(ns) => {
                cause.pause_ns = cause.pause_ns.saturating_add(ns);
                cause.longest_ns = cause.longest_ns.max(Some(ns));
            }
            None => cause.unknown_pauses += 1,
        }
    }

    /// What stopped it longest first.
    pub fn all(&self) -> Vec<Cause> {
        let mut all = self.0.clone();
        all.sort_by_key(|cause| std::cmp::Reverse((cause.pause_ns, cause.count)));
        all
    }

    #[cfg(test)]
    pub(crate) fn memory_bytes(&self) -> usize {
        self.0.capacity() * size_of::<Cause>()
    }
}
