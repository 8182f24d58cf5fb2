//! Sums over the events of a collection, by type and by heap.

use std::collections::BTreeMap;

use serde::Serialize;

/// Maximum number of types in each list.
const TOP_TYPES: usize = 15;

/// Maximum number of types that are counted separately. Further types are counted as `other`.
pub(super) const MAX_TYPES: usize = 10_000;

/// Number and size of the objects of a type.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(super) struct TypeSum {
    pub(super) count: u64,
    /// Total size in bytes; `None` if the events do not contain it.
    pub(super) bytes: Option<u64>,
}

/// Sums by type name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct TypeSums {
    sums: BTreeMap<String, TypeSum>,
}

impl TypeSums {
    pub(super) fn add(&mut self, name: String, bytes: Option<u64>) {
        let name = if self.sums.len() < MAX_TYPES || self.sums.contains_key(&name) {
            name
        } else {
            "other".to_owned()
        };
        let sum = self.sums.entry(name).or_default();
        sum.count += 1;
        if let Some(bytes) = bytes {
            sum.bytes = Some(sum.bytes.unwrap_or(0).saturating_add(bytes));
        }
    }

    /// Returns the largest types, by bytes and then by count.
    pub(super) fn top(&self) -> Vec<(&str, TypeSum)> {
        let mut sums: Vec<(&str, TypeSum)> = self.sums.iter().map(|(name, sum)| (name.as_str(), *sum)).collect();
        sums.sort_by_key(|(name, sum)| (std::cmp::Reverse((sum.bytes, sum.count)), *name));
        sums.truncate(TOP_TYPES);
        sums
    }

    /// Returns whether no event was observed.
    pub(super) fn is_empty(&self) -> bool {
        self.sums.is_empty()
    }
}

/// Waits of one heap's GC threads for other threads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(super) struct JoinSum {
    /// Number of waits observed from start to end.
    pub(super) waits: u64,
    /// Total time of the waits, in ns.
    pub(super) wait_ns: i64,
    /// Duration of the longest wait, in ns.
    pub(super) longest_ns: i64,
}

/// Compaction of the large object heap in one heap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) struct LohCompaction {
    /// Planning time in microseconds.
    pub(super) plan_us: u32,
    /// Time to move objects, in microseconds.
    pub(super) compact_us: u32,
    /// Time to update references, in microseconds.
    pub(super) relocate_us: u32,
    /// Number of references visited.
    pub(super) total_refs: u64,
    /// Number of these references that are null.
    pub(super) zero_refs: u64,
}
