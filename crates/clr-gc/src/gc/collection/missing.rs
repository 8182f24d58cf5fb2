//! Parts of a collection that were never observed, as a set with stable names for records.

use std::fmt;

/// A part of a collection that was never observed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Missing {
    /// GCStart.
    Start,
    /// GCEnd.
    End,
    /// GCHeapStats.
    HeapStats,
    /// An edge of a stop, or a whole stop.
    Suspension,
    /// GCGlobalHeapHistory.
    GlobalHistory,
    /// GCPerHeapHistory of at least one heap.
    PerHeapHistory,
}

impl Missing {
    /// All parts, in a fixed order.
    pub const ALL: [Self; 6] = [
        Self::Start,
        Self::End,
        Self::HeapStats,
        Self::Suspension,
        Self::GlobalHistory,
        Self::PerHeapHistory,
    ];

    /// Returns the part with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|part| part.name() == name)
    }

    /// Returns the name in records.
    pub fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::End => "end",
            Self::HeapStats => "heap_stats",
            Self::Suspension => "suspension",
            Self::GlobalHistory => "global_history",
            Self::PerHeapHistory => "per_heap_history",
        }
    }
}

/// The set of parts of a collection that were never observed.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct MissingParts(u8);

impl MissingParts {
    /// Returns whether no part is missing.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns whether a part is missing.
    pub fn contains(self, part: Missing) -> bool {
        self.0 & (1 << part as u8) != 0
    }

    /// Iterates over the missing parts, in a fixed order.
    pub fn iter(self) -> impl Iterator<Item = Missing> {
        Missing::ALL.into_iter().filter(move |&part| self.contains(part))
    }

    pub(crate) fn add(&mut self, part: Missing, missing: bool) {
        self.0 |= u8::from(missing) << part as u8;
    }
}

impl FromIterator<Missing> for MissingParts {
    fn from_iter<I: IntoIterator<Item = Missing>>(parts: I) -> Self {
        let mut missing = Self::default();
        parts.into_iter().for_each(|part| missing.add(part, true));
        missing
    }
}

impl fmt::Debug for MissingParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter().map(Missing::name)).finish()
    }
}
