//! A queue of records packed into bytes, each as its difference from the previous record.
//!
//! The same traversal of a record's fields ([`Record::pass`]) writes and reads, so neither direction can omit a field.
//! Numbers are LEB128; an unknown number is a zero byte.

use std::collections::VecDeque;

/// A record that a queue can hold.
pub(crate) trait Record: Clone + Default {
    /// Maximum number of records in a queue, and maximum total size in bytes.
    const CAPACITY: (usize, usize);

    /// Writes or reads all fields. `before` is the previous record.
    fn pass(&mut self, before: &Self, pass: &mut impl Pass);
}

/// A pass that writes or reads numbers.
pub(crate) trait Pass {
    fn number(&mut self, value: &mut u128);

    fn unsigned(&mut self, value: &mut u64) {
        let mut number = u128::from(*value);
        self.number(&mut number);
        *value = low(number);
    }

    /// Writes or reads a small integer.
    fn small(&mut self, value: &mut u32) {
        let mut number = u128::from(*value);
        self.number(&mut number);
        *value = low(number) as u32;
    }

    /// Writes or reads an integer as its distance from `other`.
    fn near(&mut self, value: &mut u64, other: u64) {
        let mut number = zigzag(value.wrapping_sub(other));
        self.number(&mut number);
        *value = unzigzag(number).wrapping_add(other);
    }

    /// Writes or reads an integer that can be unknown.
    fn optional(&mut self, value: &mut Option<u64>) {
        let mut number = value.map_or(0, |value| u128::from(value) + 1);
        self.number(&mut number);
        *value = number.checked_sub(1).map(low);
    }

    /// Writes or reads an integer that can be unknown, as its distance from `other`, or from 0 if `other` is unknown.
    fn optional_near(&mut self, value: &mut Option<u64>, other: Option<u64>) {
        let other = other.unwrap_or(0);
        let mut number = value.map_or(0, |value| zigzag(value.wrapping_sub(other)) + 1);
        self.number(&mut number);
        *value = number.checked_sub(1).map(|number| unzigzag(number).wrapping_add(other));
    }

    /// Like [`optional_near`](Self::optional_near), for byte counts that are nearly always whole pages.
    fn pages_near(&mut self, value: &mut Option<u64>, other: Option<u64>) {
        let mut rest = rest_of_page(*value);
        let mut pages = value.map(|bytes| bytes >> PAGE_BITS);
        let other = other.map_or(0, |bytes| bytes >> PAGE_BITS);
        // The lowest bit states whether there is a remainder.
        let mut number = pages.map_or(0, |pages| {
            (zigzag(pages.wrapping_sub(other)) << 1) + u128::from(rest > 0) + 1
        });
        self.number(&mut number);
        let known = number.checked_sub(1);
        pages = known.map(|number| unzigzag(number >> 1).wrapping_add(other));
        if known.is_some_and(|number| number & 1 == 1) {
            self.unsigned(&mut rest);
        }
        *value = pages.map(|pages| (pages << PAGE_BITS) | rest);
    }
}

fn rest_of_page(bytes: Option<u64>) -> u64 {
    bytes.map_or(0, |bytes| bytes & ((1 << PAGE_BITS) - 1))
}

/// Number of bits of a page offset; pages have 4 KiB.
const PAGE_BITS: u32 = 12;

fn low(number: u128) -> u64 {
    number as u64
}

/// Maps a distance to a number; small distances in either direction become small numbers.
fn zigzag(distance: u64) -> u128 {
    let signed = distance.cast_signed();
    u128::from(((signed << 1) ^ (signed >> 63)).cast_unsigned())
}

fn unzigzag(number: u128) -> u64 {
    let number = low(number);
    (number >> 1) ^ (number & 1).wrapping_neg()
}

struct Writer(Vec<u8>);

impl Pass for Writer {
    fn number(&mut self, value: &mut u128) {
        let mut rest = *value;
        while rest >= 0x80 {
            self.0.push((rest as u8) | 0x80);
            rest >>= 7;
        }
        self.0.push(rest as u8);
    }
}

struct Reader<I> {
    bytes: I,
    read: usize,
}

impl<'a, I: Iterator<Item = &'a u8>> Pass for Reader<I> {
    fn number(&mut self, value: &mut u128) {
        *value = 0;
        // A `u128` takes at most 19 bytes. Damaged bytes cannot make a number longer.
        for shift in (0..19).map(|place| place * 7) {
            let byte = *self.bytes.next().unwrap_or(&0);
            self.read += 1;
            *value |= u128::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                break;
            }
        }
    }
}

/// Packs records. The predecessor of the first record is the default record.
pub(crate) fn packed<R: Record>(records: &[R]) -> Vec<u8> {
    let mut writer = Writer(Vec::new());
    let mut before = R::default();
    for record in records {
        let mut record = record.clone();
        record.pass(&before, &mut writer);
        before = record;
    }
    writer.0
}

/// Unpacks at most `most` records from bytes that [`packed`] created. Arbitrary bytes unpack to arbitrary records.
pub(crate) fn unpacked<R: Record>(bytes: &[u8], most: usize) -> Vec<R> {
    let mut reader = Reader {
        bytes: bytes.iter(),
        read: 0,
    };
    let (mut records, mut before) = (Vec::new(), R::default());
    while reader.read < bytes.len() && records.len() < most {
        let mut record = R::default();
        record.pass(&before, &mut reader);
        records.push(record.clone());
        before = record;
    }
    records
}

#[derive(Debug)]
pub(crate) struct Queue<R> {
    bytes: VecDeque<u8>,
    count: usize,
    most: usize,
    most_bytes: usize,
    /// The record before the first record.
    origin: R,
    /// The last record.
    last: R,
}

/// Growth step of the buffer in bytes. Doubling would exceed the bound.
const STEP: usize = 128;

impl<R: Record> Default for Queue<R> {
    fn default() -> Self {
        let (most, most_bytes) = R::CAPACITY;
        Self {
            bytes: VecDeque::new(),
            count: 0,
            most,
            most_bytes,
            origin: R::default(),
            last: R::default(),
        }
    }
}

impl<R: Record> Queue<R> {
    /// Adds a record. Drops the oldest records if the bounds require this.
    pub(crate) fn push(&mut self, mut record: R) {
        let mut writer = Writer(Vec::with_capacity(64));
        record.pass(&self.last, &mut writer);
        let Writer(bytes) = writer;
        while self.count > 0 && (self.count >= self.most || self.bytes.len() + bytes.len() > self.most_bytes) {
            self.pop();
        }
        let free = self.bytes.capacity() - self.bytes.len();
        if free < bytes.len() {
            let whole = (self.bytes.len() + bytes.len()).next_multiple_of(STEP);
            self.bytes.reserve_exact(whole - self.bytes.len());
        }
        self.bytes.extend(bytes);
        self.count += 1;
        self.last = record;
    }

    /// Removes the oldest record.
    pub(crate) fn pop(&mut self) {
        let mut reader = Reader {
            bytes: self.bytes.iter(),
            read: 0,
        };
        let mut first = R::default();
        first.pass(&self.origin, &mut reader);
        let read = reader.read.min(self.bytes.len());
        self.bytes.drain(..read);
        self.origin = first;
        self.count = self.count.saturating_sub(1);
    }

    pub(crate) fn first(&self) -> Option<R> {
        self.iter().next()
    }

    pub(crate) fn clear(&mut self) {
        *self = Self {
            bytes: std::mem::take(&mut self.bytes),
            ..Self::default()
        };
        self.bytes.clear();
    }

    /// Iterates over all records, the oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = R> + '_ {
        let mut reader = Reader {
            bytes: self.bytes.iter(),
            read: 0,
        };
        let mut before = self.origin.clone();
        (0..self.count).map(move |_| {
            let mut record = R::default();
            record.pass(&before, &mut reader);
            before = record.clone();
            record
        })
    }

    /// Returns the number of bytes in addition to the struct itself.
    #[cfg(test)]
    pub(crate) fn memory_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// Returns the number of records and their bytes.
    #[cfg(test)]
    pub(crate) fn size(&self) -> (usize, usize) {
        (self.count, self.bytes.len())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    struct Three(u64, Option<u64>, Option<u64>);

    impl Record for Three {
        const CAPACITY: (usize, usize) = (0, 0);

        fn pass(&mut self, before: &Self, pass: &mut impl Pass) {
            pass.near(&mut self.0, before.0);
            pass.optional_near(&mut self.1, before.1);
            pass.optional(&mut self.2);
        }
    }

    fn any_number() -> impl Strategy<Value = u64> {
        prop_oneof![0u64..300, any::<u64>(), Just(u64::MAX)]
    }

    proptest! {
        /// Scenario: arbitrary records are pushed into a queue with arbitrary bounds.
        /// Guarantee: the newest records round-trip unchanged, and the bounds on their number and their bytes hold.
        #[test]
        fn newest_records_round_trip(
            records in prop::collection::vec((any_number(), prop::option::of(any_number()), prop::option::of(any_number())), 0..60),
            most in 1usize..20,
            most_bytes in 40usize..200,
        ) {
            let mut queue = Queue { most, most_bytes, ..Queue::default() };
            let records: Vec<Three> = records.into_iter().map(|(a, b, c)| Three(a, b, c)).collect();
            for record in &records {
                queue.push(record.clone());
                let (count, bytes) = queue.size();
                prop_assert!(count >= 1 && count <= most && bytes <= most_bytes);
            }
            let kept: Vec<Three> = queue.iter().collect();
            prop_assert_eq!(kept.as_slice(), &records[records.len() - kept.len()..]);
            if records.len() >= most {
                prop_assert!(kept.len() == most || most_bytes - queue.size().1 < 40);
            }
            prop_assert!(queue.memory_bytes() <= most_bytes.next_multiple_of(STEP));
        }
    }
}
