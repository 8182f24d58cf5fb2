//! Plausibility bounds: a figure beyond its bound is unknown.
//!
//! Some runtimes send uninitialized memory as a figure: FinalizationPromotedSize is 0xBAADBAADBAADBAAD in the first
//! collections under server GC (.NET 9 and 10, CoreCLR and NativeAOT; 3 of 430 recordings). Each figure has a bound
//! that the same collection proves. A figure beyond its bound is unknown, and the collection lists it in
//! [`Collection::implausible`]. The bounds are in one table, [`FIGURES`], which docs/telemetry.md shows. Phases have a
//! separate bound, the length of the collection, in [`Phases`](crate::gc::Phases). .NET 8 exceeds this bound in every
//! compacting collection, so phases are not counted here.

use std::fmt;

use crate::gc::collection::Collection;

/// Maximum bytes of any process: the user half of a 48-bit address space.
const ADDRESSES: u64 = 1 << 47;

/// Size of the smallest object in a 32-bit process, in bytes; it is 24 in a 64-bit process.
const SMALLEST_OBJECT: u64 = 12;

/// A figure sent by the runtime that has a bound ([`FIGURES`]). A figure beyond its bound, for example uninitialized
/// memory, is unknown and is listed in [`Collection::implausible`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Figure {
    /// GCHeapStats FinalizationPromotedSize.
    FinalizationPromotedBytes,
    /// GCHeapStats FinalizationPromotedCount.
    FinalizationPromotedCount,
    /// GCHeapStats GCHandleCount.
    Handles,
    /// GCHeapStats SinkBlockCount.
    SyncBlocks,
    /// GCGlobalHeapHistory MemoryPressure.
    MemoryLoad,
    /// Sizes of generations before the collection.
    SizesBefore,
    /// Sizes of generations after the collection.
    SizesAfter,
    /// Survivors of generations, from either event.
    Survived,
    /// Free space in generations.
    Fragmentation,
    /// Budgets of generations.
    Budget,
    /// CommittedUsage.
    Committed,
    /// SizeAdaptationTuning MedianThroughputCostPercent.
    ThroughputCost,
}

/// All figures with their names in records and their bounds in words.
pub const FIGURES: [(Figure, &str, &str); 12] = [
    (
        Figure::FinalizationPromotedBytes,
        "finalization_promoted_bytes",
        "the heap before the collection or after it, whichever is larger",
    ),
    (
        Figure::FinalizationPromotedCount,
        "finalization_promoted_count",
        "the same, divided by the smallest object (12 bytes)",
    ),
    (Figure::Handles, "gc_handles", "2^31"),
    (Figure::SyncBlocks, "sync_blocks", "2^26, the runtime's own limit"),
    (Figure::MemoryLoad, "memory_load_percent", "100"),
    (Figure::SizesBefore, "heap_before", "2^47, the address space"),
    (Figure::SizesAfter, "heap_after", "2^47, the address space"),
    (
        Figure::Survived,
        "promoted",
        "the heap before the collection or after it, whichever is larger",
    ),
    (
        Figure::Fragmentation,
        "fragmentation",
        "the heap before the collection or after it, whichever is larger",
    ),
    (Figure::Budget, "budget", "2^47, the address space"),
    (Figure::Committed, "committed", "2^47, the address space"),
    (Figure::ThroughputCost, "throughput_cost_percent", "0 to 100"),
];

impl Figure {
    /// Returns the name in records.
    pub fn name(self) -> &'static str {
        let of = FIGURES.iter().find(|(figure, _, _)| *figure == self);
        of.map_or("", |(_, name, _)| name)
    }
}

/// The set of figures of a collection that exceed their bounds.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Implausible(u16);

impl Implausible {
    /// Returns whether no figure exceeds its bound.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns whether a figure exceeds its bound.
    pub fn contains(self, figure: Figure) -> bool {
        self.0 & (1 << figure as u8) != 0
    }

    /// Iterates over the figures that exceed their bounds, in table order.
    pub fn iter(self) -> impl Iterator<Item = Figure> {
        let all = FIGURES.iter().map(|(figure, _, _)| *figure);
        all.filter(move |figure| self.contains(*figure))
    }

    pub(crate) fn bits(self) -> u32 {
        self.0.into()
    }

    pub(crate) fn from_bits(bits: u32) -> Self {
        Self(bits as u16)
    }

    fn add(&mut self, figure: Figure, is_beyond: bool) {
        self.0 |= u16::from(is_beyond) << figure as u8;
    }
}

impl fmt::Debug for Implausible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter().map(Figure::name)).finish()
    }
}

/// Lists each figure beyond its bound in [`Collection::implausible`]. An optional figure becomes `None`; the accessors
/// of the collection hide the other listed figures.
pub(crate) fn judge(collection: &mut Collection) {
    let mut beyond = Implausible::default();
    let mut forget = |value: &mut Option<u64>, bound: u64, figure: Figure| {
        if value.is_some_and(|bytes| bytes > bound) {
            *value = None;
            beyond.add(figure, true);
        }
    };
    for sizes in &mut collection.heap {
        forget(&mut sizes.before, ADDRESSES, Figure::SizesBefore);
        forget(&mut sizes.after, ADDRESSES, Figure::SizesAfter);
        forget(&mut sizes.budget, ADDRESSES, Figure::Budget);
    }
    let committed = &mut collection.committed;
    for bytes in [
        &mut committed.before,
        &mut committed.after,
        &mut committed.bookkeeping,
        &mut committed.kept,
        &mut committed.kept_before,
    ] {
        forget(bytes, ADDRESSES, Figure::Committed);
    }
    let heap = collection
        .heap_before()
        .max(collection.heap_after())
        .unwrap_or(ADDRESSES);
    for sizes in &mut collection.heap {
        forget(&mut sizes.promoted, heap, Figure::Survived);
        forget(&mut sizes.survived, heap, Figure::Survived);
        forget(&mut sizes.fragmentation, heap, Figure::Fragmentation);
    }
    if let Some(stats) = &collection.heap_stats {
        let objects = heap / SMALLEST_OBJECT;
        beyond.add(
            Figure::FinalizationPromotedBytes,
            stats.finalization_promoted_size > heap,
        );
        beyond.add(
            Figure::FinalizationPromotedCount,
            stats.finalization_promoted_count > objects,
        );
        beyond.add(Figure::Handles, stats.gc_handle_count > 1 << 31);
        beyond.add(Figure::SyncBlocks, stats.sink_block_count > 1 << 26);
    }
    if let Some(global) = &collection.global {
        beyond.add(Figure::MemoryLoad, global.memory_load_percent > 100);
    }
    if let Some(cost) = collection.throughput_cost_percent
        && !(0.0..=100.0).contains(&cost)
    {
        collection.throughput_cost_percent = None;
        beyond.add(Figure::ThroughputCost, true);
    }
    collection.implausible = beyond;
}

impl Collection {
    fn plausible<T>(&self, figure: Figure, value: Option<T>) -> Option<T> {
        value.filter(|_| !self.implausible.contains(figure))
    }

    /// Returns the bytes kept alive for finalizers, or `None` if GCHeapStats was not observed or the figure is
    /// implausible.
    pub fn finalization_promoted_bytes(&self) -> Option<u64> {
        let stats = self.heap_stats.as_ref();
        self.plausible(
            Figure::FinalizationPromotedBytes,
            stats.map(|stats| stats.finalization_promoted_size),
        )
    }

    /// Returns the number of objects kept alive for finalizers, or `None` if GCHeapStats was not observed or the figure
    /// is implausible.
    pub fn finalization_promoted_count(&self) -> Option<u64> {
        let stats = self.heap_stats.as_ref();
        self.plausible(
            Figure::FinalizationPromotedCount,
            stats.map(|stats| stats.finalization_promoted_count),
        )
    }

    /// Returns the number of GC handles in use, or `None` if GCHeapStats was not observed or the figure is implausible.
    pub fn handles(&self) -> Option<u32> {
        let stats = self.heap_stats.as_ref();
        self.plausible(Figure::Handles, stats.map(|stats| stats.gc_handle_count))
    }

    /// Returns the number of sync blocks in use, or `None` if GCHeapStats was not observed or the figure is
    /// implausible.
    pub fn sync_blocks(&self) -> Option<u32> {
        let stats = self.heap_stats.as_ref();
        self.plausible(Figure::SyncBlocks, stats.map(|stats| stats.sink_block_count))
    }

    /// Returns the load of the physical memory or of the container's limit, in percent, or `None` if
    /// GCGlobalHeapHistory was not observed or the figure is implausible.
    pub fn memory_load_percent(&self) -> Option<u32> {
        let global = self.global.as_ref();
        self.plausible(Figure::MemoryLoad, global.map(|global| global.memory_load_percent))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::event::HeapStats;
    use crate::gc::account::MarkingCost;
    use crate::gc::compact::{CompactCollection, NO_HEAP_STATS};
    use crate::gc::forming::FormingCollection;
    use crate::gc::loss::LossIntervals;

    /// Creates a collection of which only these statistics were observed.
    fn with(stats: HeapStats) -> Collection {
        let mut forming = FormingCollection::new(1, 0);
        forming.heap_stats = Some(stats);
        forming.into_collection(&[], &LossIntervals::default(), &mut MarkingCost::default())
    }

    fn stats() -> HeapStats {
        HeapStats {
            generation_size0: 1 << 20,
            total_promoted_size0: 1 << 10,
            generation_size2: 4 << 20,
            total_promoted_size2: 1 << 20,
            finalization_promoted_size: 100,
            finalization_promoted_count: 2,
            pinned_object_count: 1,
            sink_block_count: 7,
            gc_handle_count: 90,
            clr_instance: Some(1),
            generation_size4: Some(0),
            total_promoted_size4: Some(0),
            ..NO_HEAP_STATS
        }
    }

    /// Scenario: one collection has healthy statistics; another has the same statistics with one figure from
    /// uninitialized memory.
    /// Guarantee: the figure is unknown and listed, the other figures are unchanged, and packing preserves the
    /// collection.
    #[test]
    fn uninitialized_figure_is_unknown() {
        let healthy = with(stats());
        assert!(healthy.implausible.is_empty());
        assert_eq!(healthy.finalization_promoted_bytes(), Some(100));
        let garbage = with(HeapStats {
            finalization_promoted_size: 0xBAAD_BAAD_BAAD_BAAD,
            ..stats()
        });
        let names: Vec<&str> = garbage.implausible.iter().map(Figure::name).collect();
        assert_eq!(names, ["finalization_promoted_bytes"]);
        assert_eq!(garbage.finalization_promoted_bytes(), None);
        assert_eq!(garbage.finalization_promoted_count(), Some(2));
        assert_eq!(CompactCollection::new(garbage.clone()).unpack(), garbage);
    }

    proptest! {
        /// Scenario: one bit of one figure is flipped.
        /// Guarantee: every known figure is within its bound: finalizers keep no more than the heap holds, and no
        /// generation exceeds the address space. Unknown sizes after the collection are listed.
        #[test]
        fn flipped_bit_stays_in_bounds_or_is_unknown(place in 0usize..11, bit in 0u32..64) {
            let mut changed = stats();
            let figures: [&mut u64; 11] = [
                &mut changed.generation_size0,
                &mut changed.total_promoted_size0,
                &mut changed.generation_size1,
                &mut changed.total_promoted_size1,
                &mut changed.generation_size2,
                &mut changed.total_promoted_size2,
                &mut changed.generation_size3,
                &mut changed.total_promoted_size3,
                &mut changed.finalization_promoted_size,
                &mut changed.finalization_promoted_count,
                changed.generation_size4.as_mut().unwrap(),
            ];
            if let Some(figure) = figures.into_iter().nth(place) {
                *figure ^= 1 << bit;
            }
            let collection = with(changed);
            let heap = collection.heap_after().unwrap_or(0);
            prop_assert!(collection.heap.iter().all(|sizes| sizes.after.is_none_or(|bytes| bytes <= ADDRESSES)));
            prop_assert!(collection.heap.iter().all(|sizes| sizes.promoted.is_none_or(|bytes| bytes <= heap)));
            prop_assert!(collection.finalization_promoted_bytes().is_none_or(|bytes| bytes <= heap));
            let unknown = collection.heap.iter().filter(|sizes| sizes.after.is_none()).count();
            prop_assert_eq!(unknown > 0, collection.implausible.contains(Figure::SizesAfter));
        }
    }
}
