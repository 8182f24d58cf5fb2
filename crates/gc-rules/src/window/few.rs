//! The window of a few samples.

use super::answer::{ORDERED, answer, number};
use super::{Asked, Worth};
use crate::rule::Window;

/// Windows of the last so many samples keep them in one piece of memory.
pub(super) const MOST: usize = ORDERED;

/// The newest samples by their times; of two of one time, the one that came last is the newer one.
///
/// Most windows over samples are of ten or twenty, and each collection changes them. Where the next one is written is
/// known without their memory, so that a sample waits for one access to it, not for one after the other.
#[derive(Debug)]
pub(super) struct Few {
    /// In order of time up to `next`; if it is full, the older ones from there to its end. Unknown worth is NaN.
    ring: Box<[(u64, f64)]>,
    next: u8,
    full: bool,
    unknown: u8,
}

impl Few {
    /// The newest `most`, up to [`MOST`].
    pub(super) fn new(most: usize) -> Self {
        Self {
            ring: vec![(0, 0.0); most.clamp(1, MOST)].into_boxed_slice(),
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

    /// The place of the sample before another one.
    fn before(&self, place: usize) -> usize {
        place.checked_sub(1).unwrap_or(self.ring.len() - 1)
    }

    fn set(&mut self, place: usize, sample: (u64, f64)) {
        if let Some(there) = self.ring.get_mut(place) {
            *there = sample;
        }
    }

    /// Adds a sample.
    pub(super) fn add(&mut self, worth: Worth, time: u64, _now: u64) -> u64 {
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
        // A late one goes before those that are newer.
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

    /// The oldest first.
    fn in_order(&self) -> impl DoubleEndedIterator<Item = (u64, f64)> + Clone {
        let (newer, older) = self.ring.split_at(usize::from(self.next).min(self.ring.len()));
        let older = if self.full { older } else { &[] };
        older.iter().chain(newer).copied()
    }

    /// None becomes too old by itself.
    #[expect(clippy::unused_self, reason = "one of the kinds of series, which all have it")]
    pub(super) fn expire(&mut self, _now: u64) -> u64 {
        u64::MAX
    }

    /// How many of known and of unknown worth there are.
    pub(super) fn samples(&self) -> (u64, u64) {
        let count = if self.full {
            self.ring.len()
        } else {
            usize::from(self.next)
        };
        (count as u64 - u64::from(self.unknown), u64::from(self.unknown))
    }

    pub(super) fn answer(&self, window: &Window, at: Asked) -> Option<f64> {
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
