//! Origins of collections.

use crate::event::GcReason;
use crate::gc::collection::Collection;
use crate::gc::named::named;

named! {
    /// Origin of a collection: the party that requested it.
    pub enum Asker {
        /// Allocation of a small object exhausted the budget.
        SmallObjects = "allocation.small" "allocation of small objects",
        /// Allocation of a large object exhausted the budget.
        LargeObjects = "allocation.large" "allocation of large objects",
        /// The program requested the collection: `GC.Collect`, a no-GC region.
        Program = "program" "the program (GC.Collect)",
        /// Memory was short: an allocation found no space, or the memory load or a limit was near.
        Limit = "limit" "memory that runs short",
        /// Another tool requested a heap dump.
        Tool = "tool" "another tool's heap dump",
        /// The collector itself requested the collection.
        Collector = "collector" "the collector itself",
        /// The origin was not observed.
        Unknown = "unknown" "unknown",
    }
}

/// Bits of GCGlobalHeapHistory's CondemnReasons1 that indicate a shortage of memory: high and very high load (2 and 3;
/// 9 and 10 with fragmentation), before an out-of-memory error (12), a full collection after unproductive collections
/// (17), near a hard limit (21 to 23).
const SHORT: u32 = 1 << 2 | 1 << 3 | 1 << 9 | 1 << 10 | 1 << 12 | 1 << 17 | 1 << 21 | 1 << 22 | 1 << 23;

impl Collection {
    /// Returns the origin of the collection, which is [`Asker::Unknown`] if the reason is unknown. For any known
    /// reason, a collection that another tool requested has the origin [`Asker::Tool`]. If the reason is an allocation
    /// but generation 2 was condemned because memory was short, the origin is [`Asker::Limit`].
    pub fn asker(&self) -> Asker {
        let Some(reason) = self.reason else {
            return Asker::Unknown;
        };
        if self.requested_by_tool == Some(true) {
            return Asker::Tool;
        }
        let condemned = self.global.and_then(|global| global.condemn_reasons1);
        let is_short = self.generation == Some(2) && condemned.is_some_and(|reasons| reasons.0 & SHORT != 0);
        match reason {
            GcReason::ALLOC_SMALL | GcReason::ALLOC_LARGE if is_short => Asker::Limit,
            GcReason::ALLOC_SMALL => Asker::SmallObjects,
            GcReason::ALLOC_LARGE => Asker::LargeObjects,
            GcReason::INDUCED
            | GcReason::INDUCED_NOT_FORCED
            | GcReason::INDUCED_COMPACTING
            | GcReason::INDUCED_AGGRESSIVE => Asker::Program,
            GcReason::LOW_MEMORY
            | GcReason::OUT_OF_SPACE_SOH
            | GcReason::OUT_OF_SPACE_LOH
            | GcReason::LOW_MEMORY_BLOCKING
            | GcReason::LOW_MEMORY_HOST
            | GcReason::LOW_MEMORY_HOST_BLOCKING
            | GcReason::PM_FULL_GC => Asker::Limit,
            _ => Asker::Collector,
        }
    }
}
