//! Bit sets.

use super::fields::{ToValue, Value};
use super::reader::{Cursor, Short, Wire};
use nettrace::PointerSize;

macro_rules! bits {
    ($($(#[$meta:meta])* $name:ident)+) => {$(
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub struct $name(pub u32);

        impl From<u32> for $name {
            #[inline]
            fn from(number: u32) -> Self {
                Self(number)
            }
        }

        impl ToValue for $name {
            fn to_value(&self) -> Value<'_> {
                Value::U64(self.0.into())
            }
        }

        impl Wire<'_> for $name {
            type Value = Self;
            #[inline]
            fn least(_: PointerSize) -> usize {
                4
            }
            #[inline]
            fn read(cursor: &mut Cursor<'_>, field: &'static str) -> Result<Self, Short> {
                u32::read(cursor, field).map(Self)
            }
        }
    )+};
}

bits! {
    /// What a collection did, for all heaps together.
    GlobalMechanisms
    /// Which generations were considered, in four fields of two bits (gcrecord.h).
    CondemnReasons0
    /// Why the condemned generation became what it was, one bit each (gcrecord.h).
    CondemnReasons1
    /// Whether a heap was compacted and why. Bit 31: it was; the reason is the highest other bit, from 0 on LowEphemeral,
    /// HighFragmentation, NoGaps, LOHForced, LastGC, InducedCompacting, FragmentedGen0, HighMemoryLoad,
    /// HighMemoryFragmentation, VeryHighMemoryFragmentation, NoGCMode.
    CompactMechanism
    /// Whether a heap was expanded and how. Bit 31: it was; the way is the highest other bit, from 0 on ReuseNormal,
    /// ReuseBestFit, NewSegmentPromoting, NewSegment, NoMemory, NextFullGC.
    ExpandMechanism
    /// What kind of root an edge of a heap dump is. Bits: 1 pinning, 2 a weak reference, 4 interior, 8 reference counted.
    RootFlags
}

/// The names of the bits that are set, lowest first; a bit without a name is left out.
fn set_names(bits: u32, names: &'static [&'static str]) -> impl Iterator<Item = &'static str> + Clone {
    names
        .iter()
        .enumerate()
        .filter(move |(bit, _)| bits >> bit & 1 != 0)
        .map(|(_, name)| *name)
}

impl GlobalMechanisms {
    /// Names by bit.
    pub const NAMES: &'static [&'static str] = &[
        "Concurrent",
        "Compaction",
        "Promotion",
        "Demotion",
        "CardBundles",
        "Elevation",
    ];

    /// It ran in the background. Clear in a collection that was announced as background and ran blocking.
    #[inline]
    pub const fn is_concurrent(self) -> bool {
        self.0 & 0x1 != 0
    }

    /// It compacted (else it swept).
    #[inline]
    pub const fn is_compaction(self) -> bool {
        self.0 & 0x2 != 0
    }

    /// A generation 2 collection was put off for a generation 1 collection ("elevation").
    #[inline]
    pub const fn is_elevation(self) -> bool {
        self.0 & 0x20 != 0
    }

    /// The names of what is set.
    pub fn names(self) -> impl Iterator<Item = &'static str> + Clone {
        set_names(self.0, Self::NAMES)
    }
}

impl CondemnReasons0 {
    /// The generation that was first asked for (bits 0 and 1).
    #[inline]
    pub const fn initial_generation(self) -> u32 {
        self.0 & 3
    }

    /// The generation that was collected, of this heap (bits 2 and 3).
    #[inline]
    pub const fn final_generation(self) -> u32 {
        self.0 >> 2 & 3
    }

    /// The oldest generation whose allocation budget was exceeded (bits 4 and 5).
    #[inline]
    pub const fn allocation_budget_generation(self) -> u32 {
        self.0 >> 4 & 3
    }

    /// The generation whose turn it was by time (bits 6 and 7).
    #[inline]
    pub const fn time_tuning_generation(self) -> u32 {
        self.0 >> 6 & 3
    }
}

impl CondemnReasons1 {
    /// Names by bit.
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

    /// The names of what is set.
    pub fn names(self) -> impl Iterator<Item = &'static str> + Clone {
        set_names(self.0, Self::NAMES)
    }
}
