//! Sums of pauses over several buckets.

use super::bucket::{Bucket, KINDS, class_end_ns, count_of};

/// Sums over buckets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pauses {
    /// Time for which the managed threads were suspended, in nanoseconds.
    pub stopped_ns: u64,
    /// Duration of the longest pause, in nanoseconds; `None` if no pause is known.
    pub longest_ns: Option<u64>,
    /// Number of collections by generation and type, as in a bucket.
    pub collections: [u64; KINDS],
    /// Number of collections requested by code.
    pub induced: u64,
    /// Allocated bytes; `None` if no collection shows them.
    pub allocated: Option<u64>,
    /// Whether the true allocation is higher, because a part of it is unknown.
    pub allocated_lower_bound: bool,
    /// Pauses by class of length.
    classes: Vec<(u8, u64)>,
}

impl Pauses {
    pub fn add(&mut self, bucket: &Bucket) {
        self.stopped_ns = self.stopped_ns.saturating_add(bucket.stopped_ns);
        self.longest_ns = self.longest_ns.max(bucket.longest_ns);
        for (sum, count) in self.collections.iter_mut().zip(bucket.collections) {
            *sum += u64::from(count);
        }
        self.induced += u64::from(bucket.induced);
        self.allocated_lower_bound |= bucket.allocated_lower_bound;
        if let Some(bytes) = bucket.allocated {
            self.allocated = Some(self.allocated.unwrap_or(0).saturating_add(bytes));
        }
        for (class, count) in &bucket.pauses {
            *count_of(&mut self.classes, *class) += u64::from(*count);
        }
    }

    /// Returns a quantile of the pauses by nearest rank, in nanoseconds, or `None` if no pause is known. The quantile
    /// is rounded up to the end of its class (longer by at most half), but is never longer than the longest pause.
    pub fn quantile(&self, percent: u64) -> Option<u64> {
        let known: u64 = self.classes.iter().map(|(_, count)| count).sum();
        let rank = (known * percent).div_ceil(100).max(1);
        let mut seen = 0;
        for (class, count) in &self.classes {
            seen += count;
            if seen >= rank {
                return Some(class_end_ns(*class)).min(self.longest_ns);
            }
        }
        None
    }
}
