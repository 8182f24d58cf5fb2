//! Windows of a few samples.

use super::answer::{ORDERED, answer, number};
use super::{ReadContext, SampleValue};
use crate::rule::Window;

/// Maximum number of samples of a window that stores them in one block of memory.
pub(super) const MAX_SAMPLES: usize = ORDERED;

/// The newest samples by time. If two samples have the same time, the last one added is newer.
///
/// Most windows over samples contain ten or twenty samples, and each collection changes them. The position of the next
/// sample is known without reading the stored samples, so that adding a sample waits for one memory access instead of
/// several in sequence.
#[derive(Debug)]
pub(super) struct RecentSamples {
    /// Samples in order of time up to `next`; if the window is full, the older samples follow from `next` to the end.
    /// An unknown value is NaN.
    ring: Box<[(u64, f64)]>,
    next: u8,
    full: bool,
    unknown: u8,
}

impl RecentSamples {
    /// Creates a window of the newest `most` samples, up to [`MAX_SAMPLES`].
    pub(super) fn new(most: usize) -> Self {
        Self {
            ring: vec![(0, 0.0); most.clamp(1, MAX_SAMPLES)].into_boxed_slice(),
            next: 0,
            full: false,
            unknown: 0,
        }
    }

    #[inline]
    pub(super) fn touch(&self) -> u64 {
        let next = usize::from(self.next);
        let time = |place: usize| self.ring.get(place).map_or(0, |(time, _)| *time);
        time(next) ^ time(self.before(next))
    }

    /// Returns the index before another index.
    fn before(&self, place: usize) -> usize {
        place.checked_sub(1).unwrap_or(self.ring.len() - 1)
    }

    fn set(&mut self, place: usize, sample: (u64, f64)) {
        if let Some(there) = self.ring.get_mut(place) {
            *there = sample;
        }
    }

    /// Adds a sample.
    pub(super) fn add(&mut self, worth: SampleValue, time: u64, _now: u64) -> u64 {
        let mut place = usize::from(self.next);
        let mut others = place;
        if self.full {
            let Some((_, value)) = self.ring.get(place).filter(|(oldest, _)| *oldest <= time) else {
                return u64::MAX;
            };
            self.unknown -= u8::from(value.is_nan());
            others = self.ring.len() - 1;
        }
        let value = number(worth);
        self.unknown += u8::from(value.is_nan());
        // A late sample is inserted before newer ones.
        for _ in 0..others {
            let before = self.before(place);
            let Some(newer) = self.ring.get(before).copied().filter(|(other, _)| *other > time) else {
                break;
            };
            self.set(place, newer);
            place = before;
        }
        self.set(place, (time, value));
        self.next += 1;
        if usize::from(self.next) == self.ring.len() {
            (self.next, self.full) = (0, true);
        }
        u64::MAX
    }

    /// Returns the samples, oldest first.
    fn in_order(&self) -> impl DoubleEndedIterator<Item = (u64, f64)> + Clone {
        let (newer, older) = self.ring.split_at(usize::from(self.next).min(self.ring.len()));
        let older = if self.full { older } else { &[] };
        older.iter().chain(newer).copied()
    }

    /// Samples do not expire.
    #[expect(clippy::unused_self, reason = "all kinds of series have the same method")]
    pub(super) fn expire(&mut self, _now: u64) -> u64 {
        u64::MAX
    }

    /// Returns the number of samples with a known and with an unknown value.
    pub(super) fn samples(&self) -> (u64, u64) {
        let count = if self.full {
            self.ring.len()
        } else {
            usize::from(self.next)
        };
        (count as u64 - u64::from(self.unknown), u64::from(self.unknown))
    }

    pub(super) fn answer(&self, window: &Window, at: ReadContext) -> Option<f64> {
        let oldest = self.in_order().next().map(|(time, _)| time);
        let known = self.in_order().filter(|(_, value)| !value.is_nan());
        answer(window.function, at, oldest, known, None)
    }

    pub(super) fn memory(&self) -> usize {
        size_of_val(&*self.ring)
    }

    pub(super) fn most_memory(&self) -> usize {
        self.memory()
    }
}
