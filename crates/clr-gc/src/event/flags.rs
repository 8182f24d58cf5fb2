//! Bit sets in fields of events.

use super::number::number;

macro_rules! bits {
    ($($(#[$meta:meta])* $name:ident)+) => {$(
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub struct $name(pub u32);

        number!($name);
    )+};
}

bits! {
    /// Mechanisms that a collection used, for all heaps together.
    GlobalMechanisms
    /// Generations that were considered, in four fields of two bits (gcrecord.h).
    CondemnReasons0
    /// Reasons for the choice of the condemned generation, one bit each (gcrecord.h).
    CondemnReasons1
    /// Whether a heap was compacted, and the reason. Bit 31 is set if the heap was compacted. The highest other set bit
    /// states the reason, in this order from bit 0: LowEphemeral, HighFragmentation, NoGaps, LOHForced, LastGC,
    /// InducedCompacting, FragmentedGen0, HighMemoryLoad, HighMemoryFragmentation, VeryHighMemoryFragmentation,
    /// NoGCMode.
    CompactMechanism
    /// Whether a heap was expanded, and the method. Bit 31 is set if the heap was expanded. The highest other set bit
    /// states the method, in this order from bit 0: ReuseNormal, ReuseBestFit, NewSegmentPromoting, NewSegment,
    /// NoMemory, NextFullGC.
    ExpandMechanism
    /// Properties of a root in a heap dump. Bits: 1 pinning, 2 weak reference, 4 interior, 8 reference counted.
    RootFlags
}

/// Returns the names of the set bits, lowest bit first. Bits without a name are omitted.
fn set_names(bits: u32, names: &'static [&'static str]) -> impl Iterator<Item = &'static str> + Clone {
    names
        .iter()
        .enumerate()
        .filter(move |(bit, _)| bits >> bit & 1 != 0)
        .map(|(_, name)| *name)
}

impl GlobalMechanisms {
    /// Names, indexed by bit.
    pub const NAMES: &'static [&'static str] = &[
        "Concurrent",
        "Compaction",
        "Promotion",
        "Demotion",
        "CardBundles",
        "Elevation",
    ];

    /// Returns whether the collection ran in the background. The bit is clear if a collection was announced as
    /// background but ran blocking.
    #[inline]
    pub const fn is_concurrent(self) -> bool {
        self.0 & 0x1 != 0
    }

    /// Returns whether the collection compacted; otherwise it swept.
    #[inline]
    pub const fn is_compaction(self) -> bool {
        self.0 & 0x2 != 0
    }

    /// Returns whether a generation 2 collection was postponed in favour of a generation 1 collection ("elevation").
    #[inline]
    pub const fn is_elevation(self) -> bool {
        self.0 & 0x20 != 0
    }

    /// Returns the names of the set bits.
    pub fn names(self) -> impl Iterator<Item = &'static str> + Clone {
        set_names(self.0, Self::NAMES)
    }
}

impl CondemnReasons0 {
    /// Returns the generation that was initially requested (bits 0 and 1).
    #[inline]
    pub const fn initial_generation(self) -> u32 {
        self.0 & 3
    }

    /// Returns the generation of this heap that was collected (bits 2 and 3).
    #[inline]
    pub const fn final_generation(self) -> u32 {
        self.0 >> 2 & 3
    }

    /// Returns the oldest generation whose allocation budget was exceeded (bits 4 and 5).
    #[inline]
    pub const fn allocation_budget_generation(self) -> u32 {
        self.0 >> 4 & 3
    }

    /// Returns the generation whose collection was due because of the elapsed time (bits 6 and 7).
    #[inline]
    pub const fn time_tuning_generation(self) -> u32 {
        self.0 >> 6 & 3
    }
}

impl CondemnReasons1 {
    /// Names, indexed by bit.
    pub const NAMES: &'static [&'static str] = &[
        "InducedFullGC",
        "ExpandFullGC",
        "HighMemory",
        "VeryHighMemory",
        "LowEphemeral",
        "LowCard",
        "EphemeralHighFragmentation",
        "MaxGenHighFragmentation",
        "MaxHighFragmentationEarly",
        "MaxHighFragmentationMemoryLoad",
        "MaxHighFragmentationVeryHighMemoryLoad",
        "MaxGen1",
        "BeforeOOM",
        "Gen2TooSmall",
        "InducedNoForce",
        "BeforeBGC",
        "AlmostMaxAllocation",
        "AvoidUnproductive",
        "PMInducedFullGC",
        "PMAllocLOH",
        "Gen1InPM",
        "LimitBeforeOOM",
        "LimitLOHFragmentation",
        "LimitLOHReclaim",
        "ServoInitial",
        "ServoNGC",
        "ServoBGC",
        "ServoPostpone",
        "StressMix",
        "Stress",
    ];

    /// Returns the names of the set bits.
    pub fn names(self) -> impl Iterator<Item = &'static str> + Clone {
        set_names(self.0, Self::NAMES)
    }
}
