//! Windows over time: sub-intervals with aggregates, so that memory does not grow with the sample rate.

use std::collections::VecDeque;

use super::aggregate::{Aggregate, Sample};
use super::{BUCKETS, ReadContext, SampleValue};
use crate::rule::Window;

/// Maximum number of tallies before the newest sub-interval.
const PLACES: usize = BUCKETS as usize - 1;

/// The aggregated samples of a sub-interval.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Tally<A> {
    /// Number of samples with a known and with an unknown value.
    pub(super) known: u32,
    pub(super) unknown: u32,
    pub(super) aggregate: A,
}

impl<A: Aggregate> Tally<A> {
    pub(super) fn add(&mut self, sample: Option<Sample>) {
        match sample {
            None => self.unknown = self.unknown.saturating_add(1),
            Some(sample) => {
                self.aggregate.add(self.known, sample);
                self.known = self.known.saturating_add(1);
            }
        }
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.unknown = self.unknown.saturating_add(other.unknown);
        if other.known > 0 {
            self.aggregate.merge(self.known, &other.aggregate, other.known);
            self.known = self.known.saturating_add(other.known);
        }
    }

    fn is_empty(&self) -> bool {
        self.known == 0 && self.unknown == 0
    }
}

/// The sub-intervals of a window. Nearly every sample falls into the newest sub-interval, and values are computed from
/// the newest sub-interval and the sum of all earlier sub-intervals. These two aggregates are stored here, so that a
/// collection does not access the memory of all sub-intervals of all processes.
///
/// The order in memory is significant: a sample needs the first fields.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Buckets<A> {
    /// Start of the newest sub-interval with samples, in nanoseconds; 0 before the first sample.
    begin: u64,
    width: u64,
    /// Time of the first sample; 0 before it.
    origin: u64,
    /// Time at which the oldest sub-interval with samples leaves the window.
    expires: u64,
    current: Tally<A>,
    /// Sum of all earlier sub-intervals.
    before: Tally<A>,
    /// The consecutive earlier sub-intervals. Empty until an earlier sub-interval exists, and never longer than the
    /// observed part of the window.
    older: VecDeque<Tally<A>>,
    /// Number of the first of these sub-intervals, counted from the zero of the clock.
    first: u64,
}

impl<A: Aggregate> Buckets<A> {
    /// Creates a window of `ns` nanoseconds.
    pub(super) fn over(ns: u64) -> Self {
        Self {
            begin: 0,
            current: Tally::default(),
            before: Tally::default(),
            expires: u64::MAX,
            width: ns.div_ceil(BUCKETS).max(1),
            origin: 0,
            older: VecDeque::new(),
            first: 0,
        }
    }

    /// Reads the memory that most samples change. The result has no meaning.
    #[inline]
    pub(super) fn touch(&self) -> u64 {
        self.begin ^ u64::from(self.current.known)
    }

    /// Returns the number of the oldest sub-interval that the window covers.
    fn oldest(&self, now: u64) -> u64 {
        (now / self.width).saturating_sub(BUCKETS - 1)
    }

    /// Removes expired samples. Returns the time at which the next sample expires.
    pub(super) fn expire(&mut self, now: u64) -> u64 {
        if now < self.expires {
            return self.expires;
        }
        let oldest = self.oldest(now);
        let forgotten = usize::try_from(oldest.saturating_sub(self.first)).unwrap_or(usize::MAX);
        self.older.drain(..forgotten.min(self.older.len()));
        self.first = self.first.max(oldest);
        if self.older.is_empty() {
            self.older = VecDeque::new();
        }
        // Sums are computed from scratch, because a subtraction would lose precision and cannot restore a minimum.
        let mut before = Tally::default();
        let mut earliest = None;
        for (number, tally) in (self.first..).zip(&self.older) {
            if !tally.is_empty() {
                before.merge(tally);
                earliest = earliest.or(Some(number));
            }
        }
        self.before = before;
        let newest = self.begin / self.width;
        if newest < oldest {
            self.current = Tally::default();
        } else if !self.current.is_empty() {
            earliest = earliest.or(Some(newest));
        }
        self.expires = earliest.map_or(u64::MAX, |number| self.leaves(number));
        self.expires
    }

    /// Returns the time at which a sub-interval leaves the window.
    fn leaves(&self, number: u64) -> u64 {
        number.saturating_add(BUCKETS).saturating_mul(self.width)
    }

    /// Adds a sample. Samples that expired until `now` must already be removed. Returns the time at which the next
    /// sample expires.
    pub(super) fn add(&mut self, worth: SampleValue, time: u64, now: u64) -> u64 {
        if self.origin == 0 {
            self.origin = time;
        }
        let sample = Sample::new(worth, time, self.origin);
        let in_newest = time >= self.begin && time - self.begin < self.width;
        if in_newest && !self.current.is_empty() {
            self.current.add(sample);
        } else if time / self.width >= self.oldest(now) {
            self.add_elsewhere(sample, time);
        }
        self.expires
    }

    /// Adds a sample that starts a new sub-interval or is late.
    fn add_elsewhere(&mut self, sample: Option<Sample>, time: u64) {
        let (number, newest) = (time / self.width, self.begin / self.width);
        if number >= newest {
            if number > newest && !self.current.is_empty() {
                let ended = std::mem::take(&mut self.current);
                self.before.merge(&ended);
                self.keep(newest, ended);
            }
            self.begin = number.saturating_mul(self.width);
            self.current.add(sample);
        } else {
            self.late(number, newest, sample);
            self.before.add(sample);
        }
        self.expires = self.expires.min(self.leaves(number));
    }

    /// Appends a sub-interval that is newer than all stored ones.
    fn keep(&mut self, number: u64, ended: Tally<A>) {
        let next = self.first.saturating_add(self.older.len() as u64);
        let gap = number.saturating_sub(next);
        if self.older.is_empty() || gap >= PLACES as u64 {
            self.older.clear();
            self.first = number;
        } else {
            for _ in 0..gap {
                self.older.push_back(Tally::default());
            }
        }
        self.older.push_back(ended);
        while self.older.len() > PLACES {
            self.older.pop_front();
            self.first += 1;
        }
    }

    /// Adds a sample to an earlier sub-interval that the window covers.
    fn late(&mut self, number: u64, newest: u64, sample: Option<Sample>) {
        if newest - number > PLACES as u64 {
            return;
        }
        if self.older.is_empty() {
            self.first = newest;
        }
        while self.first > number {
            self.older.push_front(Tally::default());
            self.first -= 1;
        }
        while self.first.saturating_add(self.older.len() as u64) <= number {
            self.older.push_back(Tally::default());
        }
        let place = usize::try_from(number - self.first).unwrap_or(usize::MAX);
        if let Some(tally) = self.older.get_mut(place) {
            tally.add(sample);
        }
    }

    /// Converts the sub-intervals by converting their tallies. The tally of several sub-intervals is converted from
    /// their sum.
    pub(super) fn map<B: Aggregate>(&self, make: impl Fn(&Tally<A>) -> Tally<B>) -> Buckets<B> {
        let mut older = VecDeque::with_capacity(self.older.capacity());
        older.extend(self.older.iter().map(&make));
        Buckets {
            begin: self.begin,
            current: make(&self.current),
            before: make(&self.before),
            expires: self.expires,
            width: self.width,
            origin: self.origin,
            older,
            first: self.first,
        }
    }

    pub(super) fn total(&self) -> Tally<A> {
        let mut total = self.before;
        total.merge(&self.current);
        total
    }

    /// Returns the covered time, in nanoseconds.
    pub(super) fn length(&self, at: ReadContext) -> u64 {
        let now = at.now.ns();
        let covered = now - self.oldest(now).saturating_mul(self.width).min(now);
        covered.min(at.watched)
    }

    /// Returns the number of samples with a known and with an unknown value.
    pub(super) fn samples(&self) -> (u64, u64) {
        (
            u64::from(self.before.known) + u64::from(self.current.known),
            u64::from(self.before.unknown) + u64::from(self.current.unknown),
        )
    }

    pub(super) fn answer(&self, window: &Window, at: ReadContext) -> Option<f64> {
        let total = self.total();
        total
            .aggregate
            .answer(total.known, window.function, &|| self.length(at))
    }

    pub(super) fn memory(&self) -> usize {
        self.older.capacity() * size_of::<Tally<A>>()
    }

    #[expect(clippy::unused_self, reason = "all kinds of series have the same method")]
    pub(super) fn most_memory(&self) -> usize {
        // The capacity of a queue doubles until it suffices.
        PLACES.next_power_of_two() * size_of::<Tally<A>>()
    }
}
