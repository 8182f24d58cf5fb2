//! Windows over time: sub-intervals with aggregates, so that memory does not grow with the rate.

use std::collections::VecDeque;

use super::{BUCKETS, Measure, Moment, Worth};
use crate::rules::rule::Function;

const NS_PER_S: f64 = 1e9;
const NS_PER_HOUR: f64 = 3.6e12;

/// One sample of known worth.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sample {
    /// Unix nanoseconds.
    pub(super) time: u64,
    /// Hours since the first sample of the window; a small number, so that sums of squares keep their digits.
    pub(super) hours: f64,
    /// `None`: it does not fulfil the filter.
    pub(super) value: Option<f64>,
}

/// What is kept of the samples of a sub-interval.
pub(super) trait Aggregate: Default {
    /// One more sample.
    fn add(&mut self, sample: Sample);
    /// The samples of another sub-interval too.
    fn merge(&mut self, other: &Self);
    /// Samples of known worth.
    fn known(&self) -> u64;
    /// What `function` makes of them; `length` is that of the window, nanoseconds.
    fn answer(&self, function: Function, length: u64) -> Option<f64>;
}

#[derive(Debug)]
struct Bucket<A> {
    /// Its number, counted from the epoch.
    index: u64,
    unknown: u32,
    aggregate: A,
}

/// The sub-intervals in which there are samples, the oldest first, and their total.
#[derive(Debug)]
pub(super) struct Buckets<A> {
    width: u64,
    kept: VecDeque<Bucket<A>>,
    total: A,
    unknown: u64,
    /// The time of the first sample ever.
    origin: Option<u64>,
}

impl<A: Aggregate> Buckets<A> {
    /// A window of that many nanoseconds.
    pub(super) fn over(ns: u64) -> Self {
        Self {
            width: ns.div_ceil(BUCKETS).max(1),
            kept: VecDeque::new(),
            total: A::default(),
            unknown: 0,
            origin: None,
        }
    }

    /// The oldest sub-interval that the window covers.
    fn oldest(&self, now: u64) -> u64 {
        (now / self.width).saturating_sub(BUCKETS - 1)
    }

    fn expire(&mut self, now: u64) {
        let oldest = self.oldest(now);
        let expired = self.kept.iter().take_while(|bucket| bucket.index < oldest).count();
        if expired == 0 {
            return;
        }
        self.kept.drain(..expired);
        // From the start again, not by subtraction: that has neither a smallest nor all digits.
        self.total = A::default();
        self.unknown = 0;
        for bucket in &self.kept {
            self.total.merge(&bucket.aggregate);
            self.unknown += u64::from(bucket.unknown);
        }
    }

    pub(super) fn add(&mut self, worth: Worth, time: u64, now: u64) {
        self.expire(now);
        let index = time / self.width;
        if index < self.oldest(now) {
            return;
        }
        let origin = *self.origin.get_or_insert(time);
        let place = self.kept.partition_point(|bucket| bucket.index < index);
        if self.kept.get(place).is_none_or(|bucket| bucket.index != index) {
            self.kept.insert(
                place,
                Bucket {
                    index,
                    unknown: 0,
                    aggregate: A::default(),
                },
            );
        }
        let Some(bucket) = self.kept.get_mut(place) else {
            return;
        };
        let value = match worth {
            Worth::Unknown => {
                bucket.unknown = bucket.unknown.saturating_add(1);
                self.unknown += 1;
                return;
            }
            Worth::Counts(value) => Some(value),
            Worth::Not => None,
        };
        let hours = if time >= origin {
            (time - origin) as f64 / NS_PER_HOUR
        } else {
            -((origin - time) as f64 / NS_PER_HOUR)
        };
        let sample = Sample { time, hours, value };
        bucket.aggregate.add(sample);
        self.total.add(sample);
    }

    pub(super) fn measure(&mut self, function: Function, at: Moment) -> Measure {
        self.expire(at.now);
        let covered = at.now - self.oldest(at.now).saturating_mul(self.width).min(at.now);
        Measure {
            known: self.total.known(),
            unknown: self.unknown,
            value: self.total.answer(function, covered.min(at.watched)),
        }
    }

    pub(super) fn memory(&self) -> usize {
        self.kept.capacity() * size_of::<Bucket<A>>()
    }

    pub(super) fn most_memory(&self) -> usize {
        usize::try_from(BUCKETS).unwrap_or(usize::MAX) * size_of::<Bucket<A>>()
    }
}

/// For functions that only count.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counts {
    all: u32,
    fulfilled: u32,
}

impl Aggregate for Counts {
    fn add(&mut self, sample: Sample) {
        self.all = self.all.saturating_add(1);
        self.fulfilled = self.fulfilled.saturating_add(u32::from(sample.value.is_some()));
    }

    fn merge(&mut self, other: &Self) {
        self.all = self.all.saturating_add(other.all);
        self.fulfilled = self.fulfilled.saturating_add(other.fulfilled);
    }

    fn known(&self) -> u64 {
        self.all.into()
    }

    fn answer(&self, function: Function, length: u64) -> Option<f64> {
        let fulfilled = f64::from(self.fulfilled);
        match function {
            Function::Count => Some(fulfilled),
            Function::Ratio => (self.all > 0).then(|| fulfilled / f64::from(self.all)),
            Function::Rate => (length > 0).then(|| fulfilled / (length as f64 / NS_PER_S)),
            _ => None,
        }
    }
}

/// For sums and means.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sums {
    count: u32,
    sum: f64,
}

impl Aggregate for Sums {
    fn add(&mut self, sample: Sample) {
        let Some(value) = sample.value else { return };
        self.count = self.count.saturating_add(1);
        self.sum += value;
    }

    fn merge(&mut self, other: &Self) {
        self.count = self.count.saturating_add(other.count);
        self.sum += other.sum;
    }

    fn known(&self) -> u64 {
        self.count.into()
    }

    fn answer(&self, function: Function, length: u64) -> Option<f64> {
        match function {
            Function::Sum => Some(self.sum),
            Function::Mean => (self.count > 0).then(|| self.sum / f64::from(self.count)),
            Function::Share => share(self.sum, length),
            _ => None,
        }
    }
}

/// A time of a length; what began before the window can be longer than it.
pub(super) fn share(sum: f64, length: u64) -> Option<f64> {
    (length > 0).then(|| (sum / length as f64).min(1.0))
}

/// For the smallest and the largest.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Extremes {
    count: u32,
    ends: Option<(f64, f64)>,
}

impl Extremes {
    fn widen(&mut self, least: f64, most: f64) {
        self.ends = Some(match self.ends {
            None => (least, most),
            Some((from, to)) => (from.min(least), to.max(most)),
        });
    }
}

impl Aggregate for Extremes {
    fn add(&mut self, sample: Sample) {
        let Some(value) = sample.value else { return };
        self.count = self.count.saturating_add(1);
        self.widen(value, value);
    }

    fn merge(&mut self, other: &Self) {
        self.count = self.count.saturating_add(other.count);
        if let Some((least, most)) = other.ends {
            self.widen(least, most);
        }
    }

    fn known(&self) -> u64 {
        self.count.into()
    }

    fn answer(&self, function: Function, _length: u64) -> Option<f64> {
        match function {
            Function::Min => self.ends.map(|(least, _)| least),
            Function::Max => self.ends.map(|(_, most)| most),
            _ => None,
        }
    }
}

/// For the oldest and the newest.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Ends {
    count: u32,
    ends: Option<((u64, f64), (u64, f64))>,
}

impl Ends {
    /// Of samples of one time the first that came is the oldest, the last the newest.
    fn widen(&mut self, oldest: (u64, f64), newest: (u64, f64)) {
        self.ends = Some(match self.ends {
            None => (oldest, newest),
            Some((old, new)) => (
                if oldest.0 < old.0 { oldest } else { old },
                if newest.0 >= new.0 { newest } else { new },
            ),
        });
    }
}

impl Aggregate for Ends {
    fn add(&mut self, sample: Sample) {
        let Some(value) = sample.value else { return };
        self.count = self.count.saturating_add(1);
        self.widen((sample.time, value), (sample.time, value));
    }

    fn merge(&mut self, other: &Self) {
        self.count = self.count.saturating_add(other.count);
        if let Some((oldest, newest)) = other.ends {
            self.widen(oldest, newest);
        }
    }

    fn known(&self) -> u64 {
        self.count.into()
    }

    fn answer(&self, function: Function, _length: u64) -> Option<f64> {
        let ((_, oldest), (_, newest)) = self.ends?;
        change(function, oldest, newest)
    }
}

/// The newest, and by how much it differs from the oldest.
pub(super) fn change(function: Function, oldest: f64, newest: f64) -> Option<f64> {
    match function {
        Function::Newest => Some(newest),
        Function::Change => Some(newest - oldest),
        Function::RelativeChange => (oldest != 0.0).then(|| (newest - oldest) / oldest.abs()),
        _ => None,
    }
}

/// For the line that fits best: means and the sums of products of the distances from them, which can be added to and merged without losing
/// digits (Welford, Chan).
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Trend {
    count: u32,
    mean_hours: f64,
    mean_value: f64,
    hours_hours: f64,
    hours_value: f64,
    value_value: f64,
}

impl Trend {
    /// One more point.
    pub(super) fn point(&mut self, hours: f64, value: f64) {
        self.merge(&Self {
            count: 1,
            mean_hours: hours,
            mean_value: value,
            ..Self::default()
        });
    }

    pub(super) fn line(&self, function: Function) -> Option<f64> {
        // One moment has no slope.
        if self.count < 2 || self.hours_hours <= 0.0 {
            return None;
        }
        let slope = self.hours_value / self.hours_hours;
        match function {
            Function::Slope => Some(slope),
            Function::RelativeSlope => (self.mean_value != 0.0).then(|| slope / self.mean_value.abs()),
            // A level line explains nothing, since there is nothing to explain.
            Function::R2 => (self.value_value > 0.0)
                .then(|| (self.hours_value / self.hours_hours * (self.hours_value / self.value_value)).clamp(0.0, 1.0)),
            _ => None,
        }
    }
}

impl Aggregate for Trend {
    fn add(&mut self, sample: Sample) {
        if let Some(value) = sample.value {
            self.point(sample.hours, value);
        }
    }

    fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        if self.count == 0 {
            *self = *other;
            return;
        }
        let count = self.count.saturating_add(other.count);
        let weight = f64::from(other.count) / f64::from(count);
        let (hours, value) = (other.mean_hours - self.mean_hours, other.mean_value - self.mean_value);
        let between = f64::from(self.count) * weight;
        self.hours_hours += other.hours_hours + hours * hours * between;
        self.hours_value += other.hours_value + hours * value * between;
        self.value_value += other.value_value + value * value * between;
        self.mean_hours += hours * weight;
        self.mean_value += value * weight;
        self.count = count;
    }

    fn known(&self) -> u64 {
        self.count.into()
    }

    fn answer(&self, function: Function, _length: u64) -> Option<f64> {
        self.line(function)
    }
}
