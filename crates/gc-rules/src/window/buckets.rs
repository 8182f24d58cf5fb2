//! Windows over time: sub-intervals with aggregates, so that memory does not grow with the rate.

use std::collections::VecDeque;

use super::aggregate::{Aggregate, Sample};
use super::{Asked, BUCKETS, Worth};
use crate::rule::Window;

/// Tallies of the sub-intervals before the newest, at most.
const PLACES: usize = BUCKETS as usize - 1;

/// Samples of a time, put together.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Tally<A> {
    /// Samples of known and of unknown worth.
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

/// The sub-intervals of a window. Nearly every sample falls into the newest, and values are those of the newest and of
/// all before it: both stand here, so that a host of processes does not go through the memory of all sub-intervals with
/// each collection.
///
/// In this order in memory: a sample needs what is in front.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Buckets<A> {
    /// When the newest sub-interval began that has samples, nanoseconds; 0 before the first.
    begin: u64,
    width: u64,
    /// The time of the first sample ever; 0 before it.
    origin: u64,
    /// When the oldest sub-interval with samples leaves the window.
    expires: u64,
    current: Tally<A>,
    /// All sub-intervals before it.
    before: Tally<A>,
    /// Those before the newest, one after the other: nothing until there is one, and no more than the window has seen.
    older: VecDeque<Tally<A>>,
    /// The number of the first of them, from the zero of the clock.
    first: u64,
}

impl<A: Aggregate> Buckets<A> {
    /// A window of that many nanoseconds.
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

    /// Reads the memory that most samples change. The result is of no use.
    #[inline]
    pub(super) fn touch(&self) -> u64 {
        self.begin ^ u64::from(self.current.known)
    }

    /// The number of the oldest sub-interval that the window covers.
    fn oldest(&self, now: u64) -> u64 {
        (now / self.width).saturating_sub(BUCKETS - 1)
    }

    /// What is too old now is forgotten; when something is next.
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
        // From the start again, not by subtraction: that has neither a smallest nor all digits.
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

    /// When a sub-interval leaves the window.
    fn leaves(&self, number: u64) -> u64 {
        number.saturating_add(BUCKETS).saturating_mul(self.width)
    }

    /// Adds a sample; what expired until `now` is forgotten already. When something is too old next.
    pub(super) fn add(&mut self, worth: Worth, time: u64, now: u64) -> u64 {
        if self.origin == 0 {
            self.origin = time;
        }
        let sample = Sample::of(worth, time, self.origin);
        let in_newest = time >= self.begin && time - self.begin < self.width;
        if in_newest && !self.current.is_empty() {
            self.current.add(sample);
        } else if time / self.width >= self.oldest(now) {
            self.add_elsewhere(sample, time);
        }
        self.expires
    }

    /// A sample that begins a new sub-interval, or comes late.
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

    /// Keeps a sub-interval that is after all that are kept.
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

    /// A sample of a sub-interval before the newest, which the window covers.
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

    /// The same sub-intervals, with what is made of their tallies. That of several is made of the sum of theirs.
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

    /// The time that is covered, nanoseconds.
    pub(super) fn length(&self, at: Asked) -> u64 {
        let now = at.now.ns();
        let covered = now - self.oldest(now).saturating_mul(self.width).min(now);
        covered.min(at.watched)
    }

    /// How many samples of known and of unknown worth there are.
    pub(super) fn samples(&self) -> (u64, u64) {
        (
            u64::from(self.before.known) + u64::from(self.current.known),
            u64::from(self.before.unknown) + u64::from(self.current.unknown),
        )
    }

    pub(super) fn answer(&self, window: &Window, at: Asked) -> Option<f64> {
        let total = self.total();
        total
            .aggregate
            .answer(total.known, window.function, &|| self.length(at))
    }

    pub(super) fn memory(&self) -> usize {
        self.older.capacity() * size_of::<Tally<A>>()
    }

    #[expect(clippy::unused_self, reason = "one of the kinds of series, which all have it")]
    pub(super) fn most_memory(&self) -> usize {
        // A queue doubles until it has enough.
        PLACES.next_power_of_two() * size_of::<Tally<A>>()
    }
}
