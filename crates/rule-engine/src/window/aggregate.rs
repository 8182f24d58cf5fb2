//! Aggregates of the samples of a sub-interval, one type per class of functions.

use super::SampleValue;
use crate::rule::Function;

const NS_PER_S: f64 = 1e9;
const NS_PER_HOUR: f64 = 3.6e12;

/// A sample whose value is known.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sample {
    /// Time of the sample, in nanoseconds of the clock of `Moment`s.
    pub(super) time: u64,
    /// Time of the first sample of the window.
    pub(super) origin: u64,
    /// Value of the sample; `None` if the sample does not match the filter.
    pub(super) value: Option<f64>,
}

impl Sample {
    /// Creates a sample, or returns `None` if its value is unknown.
    pub(super) fn new(worth: SampleValue, time: u64, origin: u64) -> Option<Self> {
        let value = match worth {
            SampleValue::Unknown => return None,
            SampleValue::Counts(value) => Some(value),
            SampleValue::Not => None,
        };
        Some(Self { time, origin, value })
    }

    /// Returns the hours since the first sample of the window, which are negative for an earlier sample.
    fn hours(self) -> f64 {
        if self.time >= self.origin {
            (self.time - self.origin) as f64 / NS_PER_HOUR
        } else {
            -((self.origin - self.time) as f64 / NS_PER_HOUR)
        }
    }
}

/// Aggregate of the samples of a sub-interval, apart from their number.
pub(super) trait Aggregate: Copy + Default {
    /// Adds a sample to an aggregate of `known` samples.
    fn add(&mut self, known: u32, sample: Sample);
    /// Adds the `others` samples of another sub-interval, which must not be empty, to an aggregate of `known` samples.
    fn merge(&mut self, known: u32, other: &Self, others: u32);
    /// Creates the aggregate of samples of which only the number is known, and which all match the filter. The default
    /// implementation returns an empty aggregate.
    fn fulfilled(_all: Counts) -> Self {
        Self::default()
    }
    /// Returns the result of `function`, or `None` if it is unknown or cannot be computed from this aggregate. `length`
    /// returns the time that the window covers, in nanoseconds.
    fn answer(&self, known: u32, function: Function, length: &dyn Fn() -> u64) -> Option<f64>;
}

/// Number of samples that match the filter.
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

/// Aggregate for sums, means and shares of time.
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

/// Returns `sum` as a share of `length`, or `None` if the length is 0. The share is limited to 1 because an operation
/// that started before the window can be longer than the window.
pub(super) fn share(sum: f64, length: u64) -> Option<f64> {
    (length > 0).then(|| (sum / length as f64).min(1.0))
}

/// Aggregate for the smallest and the largest sample.
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

/// Aggregate for the oldest and the newest sample.
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

    /// Among samples with the same time, the sample that was added first is the oldest, and the sample that was added
    /// last is the newest.
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

/// Returns the newest sample, or its difference from the oldest sample. Returns `None` for all other functions.
pub(super) fn change(function: Function, oldest: f64, newest: f64) -> Option<f64> {
    match function {
        Function::Newest => Some(newest),
        Function::Change => Some(newest - oldest),
        _ => None,
    }
}

/// Aggregate for the regression line: means, and sums of products of the distances from them, which can be extended and
/// merged without losing precision (Welford, Chan).
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Trend {
    mean_hours: f64,
    mean_value: f64,
    hours_hours: f64,
    hours_value: f64,
    value_value: f64,
}

impl Trend {
    /// Adds a point to the line through `known` points. Hours are relative to a nearby moment, because small numbers
    /// keep their precision when squared.
    pub(super) fn point(&mut self, known: u32, hours: f64, value: f64) {
        let point = Self {
            mean_hours: hours,
            mean_value: value,
            ..Self::default()
        };
        self.merge(known, &point, 1);
    }

    pub(super) fn line(&self, known: u32, function: Function) -> Option<f64> {
        // Points at a single moment have no slope.
        if known < 2 || self.hours_hours <= 0.0 {
            return None;
        }
        let slope = self.hours_value / self.hours_hours;
        match function {
            Function::Slope => Some(slope),
            // For a level line, r2 is unknown because there is no variation to explain.
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
