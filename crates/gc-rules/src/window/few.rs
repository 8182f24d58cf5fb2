//! The window of a few samples.

use super::samples::{answer, number};
use super::{Asked, Worth};
use crate::rule::Window;

/// Windows of the last so many samples keep them in one piece of memory.
pub(super) const MOST: usize = 64;

/// The newest samples by their times; of two of one time, the one that came last is the newer one.
///
/// Most windows over samples are of ten or twenty, and each collection changes them. Where the next one is written stands
/// beside the place of their memory, so that a sample waits for one access to it, and not for one that says where the
/// other is.
#[derive(Debug)]
pub(super) struct Few {
    /// The oldest is at `oldest`, and the others follow, around the end. Unknown worth is NaN.
    ring: Box<[(u64, f64)]>,
    oldest: u8,
    count: u8,
    unknown: u8,
}

impl Few {
    /// The newest `most`, up to [`MOST`].
    pub(super) fn new(most: usize) -> Self {
        Self {
            ring: vec![(0, 0.0); most.clamp(1, MOST)].into_boxed_slice(),
            oldest: 0,
            count: 0,
            unknown: 0,
        }
    }

    #[inline]
    pub(super) fn touch(&self) -> u64 {
        self.ring.get(usize::from(self.oldest)).map_or(0, |(time, _)| *time)
    }

    /// The place of a sample by its age: 0 is the oldest.
    fn place(&self, age: usize) -> usize {
        let place = usize::from(self.oldest) + age;
        if place < self.ring.len() {
            place
        } else {
            place - self.ring.len()
        }
    }

    fn get(&self, age: usize) -> Option<(u64, f64)> {
        self.ring.get(self.place(age)).copied()
    }

    fn set(&mut self, age: usize, sample: (u64, f64)) {
        let place = self.place(age);
        if let Some(there) = self.ring.get_mut(place) {
            *there = sample;
        }
    }

    /// Adds a sample.
    pub(super) fn add(&mut self, worth: Worth, time: u64, _now: u64) -> u64 {
        if usize::from(self.count) == self.ring.len() {
            let Some((_, value)) = self.get(0).filter(|(oldest, _)| *oldest <= time) else {
                return u64::MAX;
            };
            self.unknown -= u8::from(value.is_nan());
            self.oldest = u8::try_from(self.place(1)).unwrap_or_default();
            self.count -= 1;
        }
        let value = number(worth);
        self.unknown += u8::from(value.is_nan());
        // Late ones go before those that are newer.
        let mut age = usize::from(self.count);
        while let Some(newer) = age
            .checked_sub(1)
            .and_then(|before| self.get(before))
            .filter(|(other, _)| *other > time)
        {
            self.set(age, newer);
            age -= 1;
        }
        self.set(age, (time, value));
        self.count += 1;
        u64::MAX
    }

    /// None becomes too old by itself.
    #[expect(clippy::unused_self, reason = "one of the kinds of series, which all have it")]
    pub(super) fn expire(&mut self, _now: u64) -> u64 {
        u64::MAX
    }

    /// How many of known and of unknown worth there are.
    pub(super) fn samples(&self) -> (u64, u64) {
        (u64::from(self.count - self.unknown), u64::from(self.unknown))
    }

    pub(super) fn answer(&self, window: &Window, at: Asked) -> Option<f64> {
        let known = (0..usize::from(self.count)).filter_map(|age| self.get(age).filter(|(_, value)| !value.is_nan()));
        let oldest = self.get(0).filter(|_| self.count > 0).map(|(time, _)| time);
        answer(window.function, at, oldest, known, None)
    }

    pub(super) fn memory(&self) -> usize {
        size_of_val(&*self.ring)
    }

    pub(super) fn most_memory(&self) -> usize {
        self.memory()
    }
}
