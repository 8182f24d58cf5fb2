//! The generations of a heap and their sizes around a collection, summed over the heaps of the process.

use crate::event::PerHeapHistory;

/// Generations in events, in the order of their numbers in GCHeapStats and GCPerHeapHistory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HeapGeneration {
    /// Generation 0.
    Gen0,
    /// Generation 1.
    Gen1,
    /// Generation 2.
    Gen2,
    /// The large object heap, number 3.
    Loh,
    /// The pinned object heap, number 4 (.NET 5 and later).
    Poh,
}

impl HeapGeneration {
    /// All generations, in order.
    pub const ALL: [Self; 5] = [Self::Gen0, Self::Gen1, Self::Gen2, Self::Loh, Self::Poh];

    /// Returns `gen0`, `gen1`, `gen2`, `loh` or `poh`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gen0 => "gen0",
            Self::Gen1 => "gen1",
            Self::Gen2 => "gen2",
            Self::Loh => "loh",
            Self::Poh => "poh",
        }
    }
}

/// Sizes of one generation around a collection, in bytes. Values are `None` if they were never observed or are
/// implausible.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GenerationSizes {
    /// Size before the collection: sum of SizeBefore over the heaps.
    pub before: Option<u64>,
    /// Size after the collection: GenerationSize of GCHeapStats.
    pub after: Option<u64>,
    /// TotalPromotedSize of GCHeapStats.
    pub promoted: Option<u64>,
    /// Free space inside the generation after the collection: FreeListSpaceAfter + FreeObjSpaceAfter, summed over the
    /// heaps.
    pub fragmentation: Option<u64>,
    /// Bytes that can be allocated in the generation before the next collection: NewAllocation, summed over the heaps.
    pub budget: Option<u64>,
    /// PinnedSurv + NonePinnedSurv, summed over the heaps.
    pub survived: Option<u64>,
}

/// Sums over the per-heap histories of one collection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct PerHeapSums {
    pub(crate) before: u64,
    pub(crate) fragmentation: u64,
    pub(crate) budget: u64,
    pub(crate) survived: u64,
}

impl PerHeapSums {
    /// Adds the history of one heap to the sums of its generations. Generations beyond POH are ignored.
    pub(crate) fn add(sums: &mut [Option<Self>; 5], event: &PerHeapHistory<'_>) {
        for (sum, generation) in sums.iter_mut().zip(event.values.iter()) {
            let sum = sum.get_or_insert_default();
            sum.before = sum.before.saturating_add(generation.size_before);
            sum.fragmentation = sum.fragmentation.saturating_add(generation.fragmentation());
            sum.budget = sum.budget.saturating_add(generation.new_allocation);
            sum.survived = sum.survived.saturating_add(generation.survived());
        }
    }
}
