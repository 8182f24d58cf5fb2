//! Ten seconds of a run.

use api::gc::is_induced;
use base::time::{Moment, Wall};
use clr_gc::event::GcType;
use clr_gc::gc::Collection;

use super::packed::{Pass, Record};
use super::{BUCKETS, MAX_BUCKET_BYTES, committed, type_of};

/// Length of a bucket.
pub const BUCKET_NS: u64 = 10_000_000_000;

/// Returns the index of the bucket that contains an instant.
pub fn bucket_of(at: Moment) -> u64 {
    at.ns() / BUCKET_NS
}

/// Number of kinds of collections: three generations times three types, plus one kind for all other values.
pub(crate) const KINDS: usize = 10;

/// Unit of pause lengths, 4 µs, as a power of two of nanoseconds. Pauses of less than two units are one class. From two
/// units, each half of a power of two is one class.
const UNIT_BITS: u32 = 12;

/// Events of ten seconds. Sums are over the collections that ended in the bucket; the stopped time and the allocation
/// are the parts that fall into it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Bucket {
    /// Index of the bucket, in the clock of [`Moment`]s; in Unix time if the bucket is shown or stored.
    pub index: u64,
    /// Time for which the managed threads were suspended, in nanoseconds.
    pub stopped_ns: u64,
    /// Duration of the longest pause of a collection, in nanoseconds; `None` if no pause is known.
    pub longest_ns: Option<u64>,
    /// Pauses by class of length: class and count, in order.
    pub pauses: Vec<(u8, u32)>,
    /// Number of collections by [`kind_of`].
    pub collections: [u32; KINDS],
    /// Number of collections requested by code.
    pub induced: u32,
    /// Number of collections that overlap a loss of events.
    pub lossy: u32,
    /// Allocated bytes; `None` if no collection shows them.
    pub allocated: Option<u64>,
    /// Whether the allocation before a collection that ended in the bucket is unknown, so that the true value is
    /// higher.
    pub allocated_lower_bound: bool,
    /// Bytes in each generation after the last collection.
    pub heap: [Option<u64>; 5],
    /// Bytes committed by the heap.
    pub committed: Option<u64>,
    /// Bytes used by the container.
    pub container_memory: Option<u64>,
}

/// Returns the index in [`Bucket::collections`]: three indexes for each generation (blocking, background, foreground),
/// then one index for all other values.
pub(crate) fn kind_of(generation: Option<u32>, gc_type: Option<GcType>) -> usize {
    let type_place = match gc_type {
        Some(GcType::BLOCKING) => Some(0),
        Some(GcType::BACKGROUND) => Some(1),
        Some(GcType::FOREGROUND) => Some(2),
        _ => None,
    };
    let generation = generation
        .filter(|generation| *generation < 3)
        .map(|number| number as usize);
    match (generation, type_place) {
        (Some(generation), Some(place)) => generation * 3 + place,
        _ => KINDS - 1,
    }
}

/// Returns the class of a length in nanoseconds.
pub(crate) fn class_of(ns: u64) -> u8 {
    let units = ns >> UNIT_BITS;
    let Some(power) = units.checked_ilog2().and_then(|power| power.checked_sub(1)) else {
        return 0;
    };
    // There are at most 51 powers of two, so the class fits into a byte.
    (1 + power * 2 + ((units >> power) & 1) as u32) as u8
}

/// Returns the shortest length above a class, in nanoseconds.
pub(crate) fn class_end_ns(class: u8) -> u64 {
    let Some(place) = class.checked_sub(1) else {
        return 2 << UNIT_BITS;
    };
    let halves = u128::from(3 + place % 2) << (u32::from(place / 2) + UNIT_BITS);
    u64::try_from(halves).unwrap_or(u64::MAX)
}

/// Returns the count of a class. Inserts the class in order if it does not exist.
pub(crate) fn count_of<C: Copy + Default>(counts: &mut Vec<(u8, C)>, class: u8) -> &mut C {
    let place = counts.partition_point(|(known, _)| *known < class);
    if counts.get(place).is_none_or(|(known, _)| *known != class) {
        counts.insert(place, (class, C::default()));
    }
    &mut counts[place].1
}

impl Bucket {
    /// Returns the start of the bucket, in nanoseconds of its clock.
    pub fn start_ns(&self) -> u64 {
        self.index.saturating_mul(BUCKET_NS)
    }

    /// Converts the index to the nearest ten seconds of Unix time, for display and storage.
    pub fn on(mut self, wall: Wall) -> Self {
        let middle = Moment::from_ns(self.start_ns()).after(BUCKET_NS / 2);
        self.index = wall.unix_ns(middle) / BUCKET_NS;
        self
    }

    /// Adds a later bucket.
    pub(crate) fn add(&mut self, later: &Self) {
        self.stopped_ns = self.stopped_ns.saturating_add(later.stopped_ns);
        self.longest_ns = self.longest_ns.max(later.longest_ns);
        for (class, count) in &later.pauses {
            let known = count_of(&mut self.pauses, *class);
            *known = known.saturating_add(*count);
        }
        for (count, more) in self.collections.iter_mut().zip(later.collections) {
            *count = count.saturating_add(more);
        }
        self.induced = self.induced.saturating_add(later.induced);
        self.lossy = self.lossy.saturating_add(later.lossy);
        if let Some(bytes) = later.allocated {
            self.allocated(bytes);
        }
        self.allocated_lower_bound |= later.allocated_lower_bound;
        if later.heap.iter().any(Option::is_some) {
            self.heap = later.heap;
        }
        self.committed = later.committed.or(self.committed);
        self.container_memory = later.container_memory.or(self.container_memory);
    }

    /// Returns the bytes in all generations after the last collection, or `None` if no generation is known.
    pub fn heap_after(&self) -> Option<u64> {
        self.heap.iter().flatten().copied().reduce(u64::saturating_add)
    }

    /// Adds bytes that were allocated in the bucket.
    pub fn allocated(&mut self, bytes: u64) {
        self.allocated = Some(self.allocated.unwrap_or(0).saturating_add(bytes));
    }

    /// Adds a collection that ended in the bucket. The allocation is added separately, because it can belong to several
    /// buckets.
    pub fn collection(&mut self, collection: &Collection, pause_ns: Option<u64>) {
        let kind = kind_of(collection.generation, type_of(collection));
        if let Some(count) = self.collections.get_mut(kind) {
            *count = count.saturating_add(1);
        }
        self.induced += u32::from(is_induced(collection));
        self.lossy += u32::from(collection.lossy);
        self.allocated_lower_bound |= collection.hides_allocation();
        if let Some(ns) = pause_ns {
            self.longest_ns = self.longest_ns.max(Some(ns));
            let count = count_of(&mut self.pauses, class_of(ns));
            *count = count.saturating_add(1);
        }
        if collection.heap_stats.is_some() {
            self.heap = collection.heap.each_ref().map(|sizes| sizes.after);
        }
        self.committed = committed(collection).or(self.committed);
    }
}

/// Bits of one number for fields that are often absent.
const HAS_COLLECTIONS: u32 = 1;
const HAS_STOPPED: u32 = 2;
const HAS_CONTAINER: u32 = 4;
const HAS_RARE: u32 = 8;
const HAS_COMMITTED: u32 = 16;
const IS_LOWER_BOUND: u32 = 32;

impl Record for Bucket {
    const CAPACITY: (usize, usize) = (BUCKETS as usize - 1, MAX_BUCKET_BYTES);

    fn pass(&mut self, before: &Self, pass: &mut impl Pass) {
        pass.near(&mut self.index, before.index.wrapping_add(1));
        let bit = |is: bool, bit: u32| if is { bit } else { 0 };
        let mut has = bit(
            self.collections.iter().any(|count| *count > 0) || self.allocated.is_some(),
            HAS_COLLECTIONS,
        ) | bit(self.stopped_ns > 0, HAS_STOPPED)
            | bit(self.container_memory.is_some(), HAS_CONTAINER)
            | bit(self.induced > 0 || self.lossy > 0, HAS_RARE)
            | bit(self.committed.is_some(), HAS_COMMITTED)
            | bit(self.allocated_lower_bound, IS_LOWER_BOUND);
        pass.small(&mut has);
        self.allocated_lower_bound = has & IS_LOWER_BOUND != 0;
        if has & HAS_STOPPED != 0 {
            pass.unsigned(&mut self.stopped_ns);
        }
        if has & HAS_COLLECTIONS != 0 {
            pass.optional(&mut self.longest_ns);
            self.pass_counts(pass);
            self.pass_pauses(pass);
            pass.optional(&mut self.allocated);
            for (bytes, before) in self.heap.iter_mut().zip(before.heap) {
                pass.optional_near(bytes, before);
            }
        }
        if has & HAS_COMMITTED != 0 {
            pass.pages_near(&mut self.committed, before.committed);
        }
        if has & HAS_CONTAINER != 0 {
            pass.pages_near(&mut self.container_memory, before.container_memory);
        }
        if has & HAS_RARE != 0 {
            pass.small(&mut self.induced);
            pass.small(&mut self.lossy);
        }
    }
}

impl Bucket {
    /// Writes or reads a bit mask of the counts that are not zero, and then these counts.
    fn pass_counts(&mut self, pass: &mut impl Pass) {
        let mut present = 0u32;
        for (place, count) in self.collections.iter().enumerate() {
            present |= u32::from(*count > 0) << place;
        }
        pass.small(&mut present);
        for (place, count) in self.collections.iter_mut().enumerate() {
            if present & (1 << place) != 0 {
                pass.small(count);
            }
        }
    }

    /// Writes or reads the number of classes, and each class as its difference from the previous class. The difference
    /// and the count of a class are combined into one number, which usually takes one byte.
    fn pass_pauses(&mut self, pass: &mut impl Pass) {
        let mut length = self.pauses.len() as u64;
        pass.unsigned(&mut length);
        // Limit the number of classes, whatever a file contains.
        self.pauses
            .resize(usize::try_from(length).unwrap_or(0).min(CLASSES), (0, 0));
        // The first class is usually far from zero.
        let mut last = 0;
        for (place, (class, count)) in self.pauses.iter_mut().enumerate() {
            let distance = u64::from(class.wrapping_sub(last));
            let near = if place == 0 {
                0
            } else {
                distance.min(MIN_SEPARATE_DIFFERENCE)
            };
            let mut both = u64::from(*count) * (MIN_SEPARATE_DIFFERENCE + 1) + (near % MIN_SEPARATE_DIFFERENCE);
            pass.unsigned(&mut both);
            let mut distance = if both.is_multiple_of(MIN_SEPARATE_DIFFERENCE + 1) {
                distance
            } else {
                both % (MIN_SEPARATE_DIFFERENCE + 1)
            };
            if both.is_multiple_of(MIN_SEPARATE_DIFFERENCE + 1) {
                pass.unsigned(&mut distance);
            }
            *count = u32::try_from(both / (MIN_SEPARATE_DIFFERENCE + 1)).unwrap_or(u32::MAX);
            *class = last.wrapping_add(distance as u8);
            last = *class;
        }
    }
}

/// Number of classes of pauses, which one byte identifies.
const CLASSES: usize = 256;

/// Differences of at least this value, and the first class, are written separately.
const MIN_SEPARATE_DIFFERENCE: u64 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: lengths range from zero to the longest that fits into a number.
    /// Guarantee: classes increase with the length, each length is within its class, and no class except the first is
    /// wider than half its end.
    #[test]
    fn pause_classes_are_half_a_power_wide() {
        let mut last = 0;
        let mut ns = 1u64;
        while ns < 1 << 62 {
            let class = class_of(ns);
            assert!(class >= last, "{ns}");
            assert!(ns < class_end_ns(class), "{ns}: {class}");
            if class > 0 {
                assert!(ns >= class_end_ns(class - 1), "{ns}: {class}");
                assert!(class_end_ns(class) - class_end_ns(class - 1) <= class_end_ns(class) / 2);
            }
            last = class;
            ns += ns / 7 + 1;
        }
        assert_eq!(class_of(0), 0);
        assert!(class_end_ns(class_of(u64::MAX)) > 1 << 60);
    }

    /// Scenario: collections have every generation and type, and some have unknown values.
    /// Guarantee: each kind has its own index, including unknown values.
    #[test]
    fn kinds_of_collections_are_distinct() {
        assert_eq!(kind_of(Some(0), Some(GcType::BLOCKING)), 0);
        assert_eq!(kind_of(Some(2), Some(GcType::BACKGROUND)), 7);
        assert_eq!(kind_of(Some(1), Some(GcType::FOREGROUND)), 5);
        assert_eq!(kind_of(Some(7), Some(GcType::BLOCKING)), 9);
        assert_eq!(kind_of(None, None), 9);
    }
}
