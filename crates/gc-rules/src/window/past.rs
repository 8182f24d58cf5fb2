//! A window over time that ended a while ago: `over: 10m, offset: 1h` is from 70 to 60 minutes ago.
//!
//! Sub-intervals are kept until they are older than both, and put together when time enters a new one: a value changes
//! once in a sub-interval, and covers exactly [`BUCKETS`] of them.

use super::aggregate::{Aggregate, Sample};
use super::buckets::Tally;
use super::{BUCKETS, Moment, Worth};
use crate::rule::Window;

/// What is kept of samples of one class; see [`super::Series`].
pub(super) trait Delayed: std::fmt::Debug + Send + Sync {
    /// Adds a sample. Returns when the value changes next.
    fn add(&mut self, worth: Worth, time: u64, now: u64) -> u64;
    /// Moves the window to `now`. Returns when the value changes next.
    fn expire(&mut self, now: u64) -> u64;
    /// How many samples of known and of unknown worth are in the window.
    fn samples(&self) -> (u64, u64);
    /// The value.
    fn answer(&self, window: &Window, at: Moment) -> Option<f64>;
    /// Bytes on the heap.
    fn memory(&self) -> usize;
    /// Most bytes on the heap.
    fn most_memory(&self) -> usize;
}

/// The sub-intervals of the window and of the time since.
#[derive(Debug)]
pub(super) struct Past<A> {
    width: u64,
    /// How many sub-intervals ago the window ended.
    ago: u64,
    /// By the number of the sub-interval from the epoch, modulo its length. Nothing before the first sample.
    kept: Box<[Tally<A>]>,
    /// The newest sub-interval that has a place.
    newest: u64,
    /// The sub-interval of the newest `expire`.
    now: u64,
    /// Those in the window.
    total: Tally<A>,
    /// The time of the first sample ever; 0 before it.
    origin: u64,
}

impl<A: Aggregate> Past<A> {
    /// A window of `over` that ended `offset` ago, nanoseconds.
    pub(super) fn new(over: u64, offset: u64) -> Self {
        let width = over.div_ceil(BUCKETS).max(1);
        Self {
            width,
            ago: offset.div_ceil(width).max(1),
            kept: Box::default(),
            newest: 0,
            now: 0,
            total: Tally::default(),
            origin: 0,
        }
    }

    /// How many sub-intervals are kept: those of the window, of the time since, and the current one.
    fn places(&self) -> u64 {
        BUCKETS + self.ago + 1
    }

    fn place(&self, number: u64) -> Option<usize> {
        let has_place = number <= self.newest && number.saturating_add(self.places()) > self.newest;
        usize::try_from(number % self.places()).ok().filter(|_| has_place)
    }

    /// The numbers of the sub-intervals in the window.
    fn covered(&self) -> std::ops::RangeInclusive<u64> {
        let last = self.now.saturating_sub(self.ago);
        last.saturating_sub(BUCKETS - 1)..=last
    }

    /// Puts the window together.
    fn sum(&mut self) {
        let mut total = Tally::default();
        for number in self.covered() {
            if let Some(tally) = self.place(number).and_then(|place| self.kept.get(place)) {
                total.merge(tally);
            }
        }
        self.total = total;
    }

    /// When the value changes next.
    fn changes(&self) -> u64 {
        if self.kept.is_empty() || *self.covered().start() > self.newest {
            return u64::MAX;
        }
        self.now.saturating_add(1).saturating_mul(self.width)
    }
}

impl<A: Aggregate + std::fmt::Debug + Send + Sync> Delayed for Past<A> {
    fn add(&mut self, worth: Worth, time: u64, now: u64) -> u64 {
        self.expire(now);
        if self.origin == 0 {
            self.origin = time;
        }
        if self.kept.is_empty() {
            let places = usize::try_from(self.places()).unwrap_or(usize::MAX);
            self.kept = vec![Tally::default(); places].into_boxed_slice();
            self.newest = time / self.width;
        }
        let number = time / self.width;
        // The places of sub-intervals without samples are those of older ones.
        let first = self
            .newest
            .saturating_add(1)
            .max(number.saturating_sub(self.places() - 1));
        for unused in first..=number {
            self.newest = unused;
            if let Some(tally) = self.place(unused).and_then(|place| self.kept.get_mut(place)) {
                *tally = Tally::default();
            }
        }
        let sample = Sample::of(worth, time, self.origin);
        if let Some(tally) = self.place(number).and_then(|place| self.kept.get_mut(place)) {
            tally.add(sample);
            // A late one.
            if self.covered().contains(&number) {
                self.sum();
            }
        }
        self.changes()
    }

    fn expire(&mut self, now: u64) -> u64 {
        let number = now / self.width;
        if number > self.now {
            self.now = number;
            self.sum();
        }
        self.changes()
    }

    fn samples(&self) -> (u64, u64) {
        (u64::from(self.total.known), u64::from(self.total.unknown))
    }

    fn answer(&self, window: &Window, _at: Moment) -> Option<f64> {
        let length = || BUCKETS.saturating_mul(self.width);
        self.total.aggregate.answer(self.total.known, window.function, &length)
    }

    fn memory(&self) -> usize {
        size_of_val(&*self.kept)
    }

    fn most_memory(&self) -> usize {
        usize::try_from(self.places())
            .unwrap_or(usize::MAX)
            .saturating_mul(size_of::<Tally<A>>())
    }
}
