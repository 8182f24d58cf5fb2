//! Who asked for collections.

use crate::event::GcReason;
use crate::gc::collection::Collection;

/// Who asked for a collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Asker {
    /// A small object was allocated, and the budget was used up.
    SmallObjects,
    /// A large object was allocated, and the budget was used up.
    LargeObjects,
    /// The program: `GC.Collect`, a no-GC region.
    Program,
    /// Memory ran short: an allocation found no space, the load or a limit was near.
    Limit,
    /// Another tool, for a heap dump.
    Tool,
    /// The collector itself.
    Collector,
    /// That was not seen.
    Unknown,
}

impl Asker {
    /// How many there are.
    pub const COUNT: usize = 7;

    /// Each.
    pub const ALL: [Self; Self::COUNT] = [
        Self::SmallObjects,
        Self::LargeObjects,
        Self::Program,
        Self::Limit,
        Self::Tool,
        Self::Collector,
        Self::Unknown,
    ];

    /// The name in records, metrics and rules, which never changes: `allocation.small`.
    pub const fn id(self) -> &'static str {
        self.names().0
    }

    /// The name for people.
    pub const fn title(self) -> &'static str {
        self.names().1
    }

    const fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::SmallObjects => ("allocation.small", "allocation of small objects"),
            Self::LargeObjects => ("allocation.large", "allocation of large objects"),
            Self::Program => ("program", "the program (GC.Collect)"),
            Self::Limit => ("limit", "memory that runs short"),
            Self::Tool => ("tool", "another tool's heap dump"),
            Self::Collector => ("collector", "the collector itself"),
            Self::Unknown => ("unknown", "unknown"),
        }
    }
}

/// Bits of GCGlobalHeapHistory's CondemnReasons1 that say that memory was short: high and very high load (2, 3, with
/// fragmentation 9, 10), before an out-of-memory (12), a full collection that the last ones made pointless (17), near a
/// hard limit (21 to 23).
const SHORT: u32 = 1 << 2 | 1 << 3 | 1 << 9 | 1 << 10 | 1 << 12 | 1 << 17 | 1 << 21 | 1 << 22 | 1 << 23;

impl Collection {
    /// Who asked for it. Where the reason is an allocation, but generation 2 was condemned because memory was short, it
    /// is memory that asked.
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
