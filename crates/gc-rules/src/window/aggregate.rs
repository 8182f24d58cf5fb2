//! What is kept of the samples of a sub-interval, by what a window's function needs.

use super::Worth;
use crate::rule::Function;

const NS_PER_S: f64 = 1e9;
const NS_PER_HOUR: f64 = 3.6e12;

/// One sample of known worth.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sample {
    /// Unix nanoseconds.
    pub(super) time: u64,
    /// The time of the first sample of the window.
    pub(super) origin: u64,
    /// `None`: it does not fulfil the filter.
    pub(super) value: Option<f64>,
}

impl Sample {
    /// A sample of that worth; `None`: it is unknown.
    pub(super) fn of(worth: Worth, time: u64, origin: u64) -> Option<Self> {
        let value = match worth {
            Worth::Unknown => return None,
            Worth::Counts(value) => Some(value),
            Worth::Not => None,
        };
        Some(Self { time, origin, value })
    }

    /// Hours since the first sample of the window.
    fn hours(self) -> f64 {
        if self.time >= self.origin {
            (self.time - self.origin) as f64 / NS_PER_HOUR
        } else {
            -((self.origin - self.time) as f64 / NS_PER_HOUR)
        }
    }
}

/// What is kept of the samples of a sub-interval, besides how many they are.
pub(super) trait Aggregate: Copy + Default {
    /// One more sample, after `known` others.
    fn add(&mut self, known: u32, sample: Sample);
    /// The samples of another sub-interval too; there are some.
    fn merge(&mut self, known: u32, other: &Self, others: u32);
    /// Of so many samples that all fulfil the filter, where nothing else is kept of them.
    fn fulfilled(_all: Counts) -> Self {
        Self::default()
    }
    /// What `function` makes of them; `length` is the time that the window covers, nanoseconds.
    fn answer(&self, known: u32, function: Function, length: &dyn Fn() -> u64) -> Option<f64>;
}

/// How many fulfil the filter.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counts(u32);

impl Aggregate for Counts {
    fn add(&mut self, _known: u32, sample: Sample) {
        self.0 = self.0.saturating_add(u32::from(sample.value.is_some()));
    }

    fn merge(&mut self, _known: u32, other: &Self, _others: u32) {
        self.0 = self.0.saturating_add(other.0);
    }

    fn fulfilled(all: Counts) -> Self {
        all
    }

    fn answer(&self, known: u32, function: Function, length: &dyn Fn() -> u64) -> Option<f64> {
        let fulfilled = f64::from(self.0);
        match function {
            Function::Count => Some(fulfilled),
            Function::Ratio => (known > 0).then(|| fulfilled / f64::from(known)),
            Function::Rate => Some(length())
                .filter(|ns| *ns > 0)
                .map(|ns| fulfilled / (ns as f64 / NS_PER_S)),
            _ => None,
        }
    }
}

/// For sums and means.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sums(f64);

impl Aggregate for Sums {
    fn add(&mut self, _known: u32, sample: Sample) {
        self.0 += sample.value.unwrap_or_default();
    }

    fn merge(&mut self, _known: u32, other: &Self, _others: u32) {
        self.0 += other.0;
    }

    fn answer(&self, known: u32, function: Function, length: &dyn Fn() -> u64) -> Option<f64> {
        match function {
            Function::Sum => Some(self.0),
            Function::Mean => (known > 0).then(|| self.0 / f64::from(known)),
            Function::Share => share(self.0, length()),
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
    least: f64,
    most: f64,
}

impl Aggregate for Extremes {
    fn add(&mut self, known: u32, sample: Sample) {
        let value = sample.value.unwrap_or_default();
        let only = Self {
            least: value,
            most: value,
        };
        self.merge(known, &only, 1);
    }

    fn merge(&mut self, known: u32, other: &Self, _others: u32) {
        if known == 0 {
            *self = *other;
            return;
        }
        self.least = self.least.min(other.least);
        self.most = self.most.max(other.most);
    }

    fn answer(&self, known: u32, function: Function, _length: &dyn Fn() -> u64) -> Option<f64> {
        match function {
            Function::Min => (known > 0).then_some(self.least),
            Function::Max => (known > 0).then_some(self.most),
            _ => None,
        }
    }
}

/// For the oldest and the newest.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Ends {
    oldest: (u64, f64),
    newest: (u64, f64),
}

impl Aggregate for Ends {
    fn add(&mut self, known: u32, sample: Sample) {
        let one = (sample.time, sample.value.unwrap_or_default());
        self.merge(
            known,
            &Self {
                oldest: one,
                newest: one,
            },
            1,
        );
    }

    /// Of samples of one time the first that came is the oldest, the last the newest.
    fn merge(&mut self, known: u32, other: &Self, _others: u32) {
        if known == 0 {
            *self = *other;
            return;
        }
        if other.oldest.0 < self.oldest.0 {
            self.oldest = other.oldest;
        }
        if other.newest.0 >= self.newest.0 {
            self.newest = other.newest;
        }
    }

    fn answer(&self, known: u32, function: Function, _length: &dyn Fn() -> u64) -> Option<f64> {
        (known > 0).then(|| change(function, self.oldest.1, self.newest.1))?
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

/// For the line that fits best: means and the sums of products of the distances from them, which can be added to and
/// merged without losing digits (Welford, Chan).
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Trend {
    mean_hours: f64,
    mean_value: f64,
    hours_hours: f64,
    hours_value: f64,
    value_value: f64,
}

impl Trend {
    /// One more point, after `known` others. Hours count from any moment near them: small numbers keep their digits
    /// when squared.
    pub(super) fn point(&mut self, known: u32, hours: f64, value: f64) {
        let point = Self {
            mean_hours: hours,
            mean_value: value,
            ..Self::default()
        };
        self.merge(known, &point, 1);
    }

    pub(super) fn line(&self, known: u32, function: Function) -> Option<f64> {
        // One moment has no slope.
        if known < 2 || self.hours_hours <= 0.0 {
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
    fn add(&mut self, known: u32, sample: Sample) {
        self.point(known, sample.hours(), sample.value.unwrap_or_default());
    }

    fn merge(&mut self, known: u32, other: &Self, others: u32) {
        if known == 0 {
            *self = *other;
            return;
        }
        let count = known.saturating_add(others);
        let weight = f64::from(others) / f64::from(count);
        let (hours, value) = (other.mean_hours - self.mean_hours, other.mean_value - self.mean_value);
        let between = f64::from(known) * weight;
        self.hours_hours += other.hours_hours + hours * hours * between;
        self.hours_value += other.hours_value + hours * value * between;
        self.value_value += other.value_value + value * value * between;
        self.mean_hours += hours * weight;
        self.mean_value += value * weight;
    }

    fn answer(&self, known: u32, function: Function, _length: &dyn Fn() -> u64) -> Option<f64> {
        self.line(known, function)
    }
}
