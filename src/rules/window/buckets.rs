//! Windows over time: sub-intervals with aggregates, so that memory does not grow with the rate.

use std::collections::VecDeque;
use std::ops::Range;

use super::aggregate::{Aggregate, Sample};
use super::{BUCKETS, Moment, Worth};
use crate::rules::rule::Function;

#[derive(Debug, Clone, Copy)]
struct Bucket<A> {
    /// Its number, counted from the epoch.
    index: u64,
    /// Samples of known and of unknown worth.
    known: u32,
    unknown: u32,
    aggregate: A,
}

impl<A: Aggregate> Bucket<A> {
    fn new(index: u64) -> Self {
        Self {
            index,
            known: 0,
            unknown: 0,
            aggregate: A::default(),
        }
    }

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
}

/// The sub-intervals in which there are samples, the oldest first, and their total.
#[derive(Debug)]
pub(super) struct Buckets<A> {
    width: u64,
    kept: VecDeque<Bucket<A>>,
    total: Bucket<A>,
    /// The time of the first sample ever.
    origin: Option<u64>,
    /// The newest sub-interval, nanoseconds: most samples fall into it. Empty where there is none.
    newest: Range<u64>,
    /// When the oldest sub-interval leaves the window.
    expires: u64,
}

impl<A: Aggregate> Buckets<A> {
    /// A window of that many nanoseconds.
    pub(super) fn over(ns: u64) -> Self {
        Self {
            width: ns.div_ceil(BUCKETS).max(1),
            kept: VecDeque::new(),
            total: Bucket::new(0),
            origin: None,
            newest: 0..0,
            expires: u64::MAX,
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
        let expired = self.kept.iter().take_while(|bucket| bucket.index < oldest).count();
        self.kept.drain(..expired);
        // From the start again, not by subtraction: that has neither a smallest nor all digits.
        self.total = Bucket::new(0);
        for bucket in &self.kept {
            self.total.merge(bucket);
        }
        self.bounds();
    }

    fn bounds(&mut self) {
        let begin = |index: u64| index.saturating_mul(self.width);
        self.newest = self
            .kept
            .back()
            .map_or(0..0, |bucket| begin(bucket.index)..begin(bucket.index + 1));
        self.expires = self
            .kept
            .front()
            .map_or(u64::MAX, |bucket| begin(bucket.index + BUCKETS));
    }

    pub(super) fn add(&mut self, worth: Worth, time: u64, now: u64) {
        if !self.newest.contains(&time) && !self.open(time, now) {
            return;
        }
        let origin = *self.origin.get_or_insert(time);
        let value = match worth {
            Worth::Unknown => None,
            Worth::Counts(value) => Some(Some(value)),
            Worth::Not => Some(None),
        };
        let sample = value.map(|value| Sample { time, origin, value });
        let place = if self.newest.contains(&time) {
            self.kept.len().saturating_sub(1)
        } else {
            let index = time / self.width;
            self.kept.partition_point(|bucket| bucket.index < index)
        };
        if let Some(bucket) = self.kept.get_mut(place) {
            bucket.add(sample);
            self.total.add(sample);
        }
    }

    /// Makes sure that there is a sub-interval for that time; `false`: the window does not cover it.
    fn open(&mut self, time: u64, now: u64) -> bool {
        let index = time / self.width;
        if index < self.oldest(now) {
            return false;
        }
        let place = self.kept.partition_point(|bucket| bucket.index < index);
        if self.kept.get(place).is_none_or(|bucket| bucket.index != index) {
            self.kept.insert(place, Bucket::new(index));
            self.bounds();
        }
        true
    }

    /// How many samples of known and of unknown worth there are.
    pub(super) fn samples(&self) -> (u64, u64) {
        (self.total.known.into(), self.total.unknown.into())
    }

    pub(super) fn answer(&self, function: Function, at: Moment) -> Option<f64> {
        let length = || {
            let covered = at.now - self.oldest(at.now).saturating_mul(self.width).min(at.now);
            covered.min(at.watched)
        };
        self.total.aggregate.answer(self.total.known, function, &length)
    }

    pub(super) fn memory(&self) -> usize {
        self.kept.capacity() * size_of::<Bucket<A>>()
    }

    pub(super) fn most_memory(&self) -> usize {
        usize::try_from(BUCKETS).unwrap_or(usize::MAX) * size_of::<Bucket<A>>()
    }
}
