//! Windows over time: sub-intervals with aggregates, so that memory does not grow with the rate.

use std::collections::VecDeque;
use std::ops::Range;

use super::aggregate::{Aggregate, Sample};
use super::{BUCKETS, Moment, Worth};
use crate::rules::rule::Function;

/// Samples of a time, put together.
#[derive(Debug, Clone, Copy, Default)]
struct Tally<A> {
    /// Samples of known and of unknown worth.
    known: u32,
    unknown: u32,
    aggregate: A,
}

/// A sub-interval that is over.
#[derive(Debug)]
struct Bucket<A> {
    /// Its number, counted from the epoch.
    index: u64,
    tally: Tally<A>,
}

impl<A: Aggregate> Tally<A> {
    fn add(&mut self, sample: Option<Sample>) {
        match sample {
            None => self.unknown = self.unknown.saturating_add(1),
            Some(sample) => {
                self.aggregate.add(self.known, sample);
                self.known = self.known.saturating_add(1);
            }
        }
    }

    fn merge(&mut self, other: &Self) {
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

/// The sub-intervals in which there are samples. Nearly every sample falls into the newest, and values are those of the newest and of all before
/// it: both stand here, so that a host of processes does not go through the memory of all sub-intervals with each collection.
#[derive(Debug)]
pub(super) struct Buckets<A> {
    /// The newest sub-interval, nanoseconds. Empty where there is none.
    newest: Range<u64>,
    current: Tally<A>,
    /// All sub-intervals before it.
    before: Tally<A>,
    /// When the oldest sub-interval leaves the window.
    expires: u64,
    width: u64,
    /// The time of the first sample ever.
    origin: Option<u64>,
    /// Those before the newest, the oldest first.
    older: VecDeque<Bucket<A>>,
}

impl<A: Aggregate> Buckets<A> {
    /// A window of that many nanoseconds.
    pub(super) fn over(ns: u64) -> Self {
        Self {
            newest: 0..0,
            current: Tally::default(),
            before: Tally::default(),
            expires: u64::MAX,
            width: ns.div_ceil(BUCKETS).max(1),
            origin: None,
            older: VecDeque::new(),
        }
    }

    /// The oldest sub-interval that the window covers.
    fn oldest(&self, now: u64) -> u64 {
        (now / self.width).saturating_sub(BUCKETS - 1)
    }

    pub(super) fn expire(&mut self, now: u64) {
        if now < self.expires {
            return;
        }
        let oldest = self.oldest(now);
        let expired = self.older.iter().take_while(|bucket| bucket.index < oldest).count();
        self.older.drain(..expired);
        // From the start again, not by subtraction: that has neither a smallest nor all digits.
        self.before = Tally::default();
        for bucket in &self.older {
            self.before.merge(&bucket.tally);
        }
        if self.newest.start / self.width < oldest {
            (self.newest, self.current) = (0..0, Tally::default());
        }
        self.expires_next();
    }

    fn expires_next(&mut self) {
        let newest = || (!self.newest.is_empty()).then(|| self.newest.start / self.width);
        let first = self.older.front().map(|bucket| bucket.index).or_else(newest);
        self.expires = first.map_or(u64::MAX, |first| {
            first.saturating_add(BUCKETS).saturating_mul(self.width)
        });
    }

    pub(super) fn add(&mut self, worth: Worth, time: u64, now: u64) {
        let origin = *self.origin.get_or_insert(time);
        let sample = match worth {
            Worth::Unknown => None,
            Worth::Counts(value) => Some(Sample {
                time,
                origin,
                value: Some(value),
            }),
            Worth::Not => Some(Sample {
                time,
                origin,
                value: None,
            }),
        };
        if self.newest.contains(&time) {
            self.current.add(sample);
        } else if time / self.width >= self.oldest(now) {
            self.add_elsewhere(sample, time);
        }
    }

    /// A sample that begins a new sub-interval, or comes late.
    fn add_elsewhere(&mut self, sample: Option<Sample>, time: u64) {
        let index = time / self.width;
        if time >= self.newest.end {
            if !self.current.is_empty() {
                self.before.merge(&self.current);
                self.older.push_back(Bucket {
                    index: self.newest.start / self.width,
                    tally: std::mem::take(&mut self.current),
                });
            }
            let begin = index.saturating_mul(self.width);
            self.newest = begin..begin.saturating_add(self.width);
            self.current.add(sample);
        } else {
            let place = self.older.partition_point(|bucket| bucket.index < index);
            if self.older.get(place).is_none_or(|bucket| bucket.index != index) {
                let tally = Tally::default();
                self.older.insert(place, Bucket { index, tally });
            }
            if let Some(bucket) = self.older.get_mut(place) {
                bucket.tally.add(sample);
            }
            self.before.add(sample);
        }
        self.expires_next();
    }

    fn total(&self) -> Tally<A> {
        let mut total = self.before;
        total.merge(&self.current);
        total
    }

    /// How many samples of known and of unknown worth there are.
    pub(super) fn samples(&self) -> (u64, u64) {
        (
            u64::from(self.before.known) + u64::from(self.current.known),
            u64::from(self.before.unknown) + u64::from(self.current.unknown),
        )
    }

    pub(super) fn answer(&self, function: Function, at: Moment) -> Option<f64> {
        let length = || {
            let covered = at.now - self.oldest(at.now).saturating_mul(self.width).min(at.now);
            covered.min(at.watched)
        };
        let total = self.total();
        total.aggregate.answer(total.known, function, &length)
    }

    pub(super) fn memory(&self) -> usize {
        self.older.capacity() * size_of::<Bucket<A>>()
    }

    pub(super) fn most_memory(&self) -> usize {
        usize::try_from(BUCKETS).unwrap_or(usize::MAX) * size_of::<Bucket<A>>()
    }
}
