//! The generations of a heap, and their sizes around a collection: sums over the heaps of the process.

use crate::event::PerHeapHistory;

/// The generations in events, in the order of their numbers in GCHeapStats and GCPerHeapHistory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HeapGeneration {
    /// Generation 0.
    Gen0,
    /// Generation 1.
    Gen1,
    /// Generation 2.
    Gen2,
    /// The large object heap, 3.
    Loh,
    /// The pinned object heap, 4 (.NET 5 and later).
    Poh,
}

impl HeapGeneration {
    /// All of them, in order.
    pub const ALL: [Self; 5] = [Self::Gen0, Self::Gen1, Self::Gen2, Self::Loh, Self::Poh];

    /// `gen0`, `gen1`, `gen2`, `loh`, `poh`.
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

/// Sizes of one generation around a collection, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GenerationSizes {
    /// Before the collection: the sum of SizeBefore over its heaps.
    pub before: Option<u64>,
    /// After it: GCHeapStats' GenerationSize.
    pub after: Option<u64>,
    /// GCHeapStats' TotalPromotedSize.
    pub promoted: Option<u64>,
    /// Free space inside the generation after it: FreeListSpaceAfter + FreeObjSpaceAfter over its heaps.
    pub fragmentation: Option<u64>,
    /// What may be allocated in it before the next collection: NewAllocation over its heaps.
    pub budget: Option<u64>,
    /// PinnedSurv + NonePinnedSurv over its heaps.
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
    /// Adds one heap's history to the sums of its generations; generations beyond POH are not known.
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
