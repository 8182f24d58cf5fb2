//! Reasons of a run's collections, since its first attach.

use clr_gc::event::{GcReason, GcType};
use clr_gc::gc::Collection;

use super::{length, type_of};

/// Maximum number of rows; services have five to ten. All further reasons share one row.
pub(crate) const MAX_CAUSES: usize = 16;

/// The collections with the same reason, generation and type.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cause {
    /// Reason for the collections; `None` if it was not observed.
    pub reason: Option<GcReason>,
    pub generation: Option<u32>,
    pub gc_type: Option<GcType>,
    /// Whether a tool requested the collections for heap dumps.
    pub requested_by_tool: bool,
    /// Whether this is the row for all collections without a separate row.
    pub is_rest: bool,
    /// Number of collections.
    pub count: u64,
    /// Number of collections with unknown pause.
    pub unknown_pauses: u64,
    /// Sum of the known pauses, in nanoseconds.
    pub pause_ns: u64,
    /// Duration of the longest pause, in nanoseconds; `None` if no pause is known.
    pub longest_ns: Option<u64>,
}

/// Reasons of all collections.
#[derive(Debug, Default)]
pub struct Causes(Vec<Cause>);

impl Causes {
    /// Adds a collection.
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
        if self.0.len() >= MAX_CAUSES && self.0.iter().all(|known| key(known) != key(&new)) {
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

    /// Returns all rows, by descending sum of pauses.
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
