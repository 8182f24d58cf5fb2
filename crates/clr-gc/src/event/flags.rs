//! Bit sets.

use std::fmt;

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
    /// Whether a heap was compacted and why. Bit 31: it was; the reason is the highest other bit.
    CompactMechanism
    /// Whether a heap was expanded and how. Bit 31: it was; the way is the highest other bit.
    ExpandMechanism
    /// What kind of root an edge of a heap dump is.
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

/// `A, B, 0x80000000`: the names of the bits that are set, and what has no name as a number.
fn write_set(f: &mut fmt::Formatter<'_>, bits: u32, names: &'static [&'static str]) -> fmt::Result {
    let mut separator = "";
    for name in set_names(bits, names) {
        write!(f, "{separator}{name}")?;
        separator = ", ";
    }
    let unnamed = bits
        .checked_shr(names.len() as u32)
        .unwrap_or(0)
        .checked_shl(names.len() as u32)
        .unwrap_or(0);
    if unnamed != 0 {
        write!(f, "{separator}{unnamed:#x}")?;
    }
    Ok(())
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

    /// Survivors moved to the next generation.
    #[inline]
    pub const fn is_promotion(self) -> bool {
        self.0 & 0x4 != 0
    }

    /// Pinned survivors were left in a younger generation.
    #[inline]
    pub const fn is_demotion(self) -> bool {
        self.0 & 0x8 != 0
    }

    /// Card bundles are in use.
    #[inline]
    pub const fn has_card_bundles(self) -> bool {
        self.0 & 0x10 != 0
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

impl fmt::Display for GlobalMechanisms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_set(f, self.0, Self::NAMES)
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

impl fmt::Display for CondemnReasons0 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (initial, last) = (self.initial_generation(), self.final_generation());
        let (budget, time) = (self.allocation_budget_generation(), self.time_tuning_generation());
        write!(f, "initial {initial}, final {last}, budget {budget}, time {time}")
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

    /// Nothing is set.
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl fmt::Display for CondemnReasons1 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_set(f, self.0, Self::NAMES)
    }
}

/// It happened (bit 31), and the number of the highest other bit.
const fn mechanism(bits: u32) -> Option<u32> {
    if bits >> 31 == 0 {
        None
    } else {
        (bits & 0x7FFF_FFFF).checked_ilog2()
    }
}

macro_rules! mechanisms {
    ($($name:ident, $happened:ident, $did:literal, [$($text:literal),+ $(,)?];)+) => {$(
        impl $name {
            /// Names by number.
            pub const NAMES: &'static [&'static str] = &[$($text),+];

            #[doc = $did]
            #[inline]
            pub const fn $happened(self) -> bool {
                self.0 >> 31 != 0
            }

            /// The number of the reason; `None` when it did not happen or has no reason.
            #[inline]
            pub const fn number(self) -> Option<u32> {
                mechanism(self.0)
            }

            /// The name of the reason; `None` also for one that is not known.
            pub fn name(self) -> Option<&'static str> {
                self.number().and_then(|number| Self::NAMES.get(number as usize).copied())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match (self.name(), self.number()) {
                    (Some(name), _) => f.write_str(name),
                    (None, Some(number)) => write!(f, "Unknown({number})"),
                    (None, None) => f.write_str(if self.$happened() { "Unspecified" } else { "None" }),
                }
            }
        }
    )+};
}

mechanisms! {
    CompactMechanism, is_compacting, "The heap was compacted (else swept).", [
        "LowEphemeral", "HighFragmentation", "NoGaps", "LOHForced", "LastGC", "InducedCompacting", "FragmentedGen0",
        "HighMemoryLoad", "HighMemoryFragmentation", "VeryHighMemoryFragmentation", "NoGCMode",
    ];
    ExpandMechanism, is_expanding, "The heap was expanded.", [
        "ReuseNormal", "ReuseBestFit", "NewSegmentPromoting", "NewSegment", "NoMemory", "NextFullGC",
    ];
}

impl RootFlags {
    /// Names by bit.
    pub const NAMES: &'static [&'static str] = &["Pinning", "WeakRef", "Interior", "RefCounted"];

    /// The names of what is set.
    pub fn names(self) -> impl Iterator<Item = &'static str> + Clone {
        set_names(self.0, Self::NAMES)
    }
}

impl fmt::Display for RootFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_set(f, self.0, Self::NAMES)
    }
}
