//! Windows that store their samples individually.

use std::cell::Cell;
use std::collections::VecDeque;

use super::answer::{answer, number};
use super::{Class, ReadContext, SampleValue};
use crate::rule::{Function, Window};

/// Samples of a time span, a large number of samples, or samples that differ from their predecessor. An unknown value
/// is NaN, which no known value is. For functions that count, 1 matches the filter and 0 does not.
#[derive(Debug)]
pub(super) struct Samples {
    kept: VecDeque<(u64, f64)>,
    /// Maximum age; older samples are removed. `u64::MAX` if samples do not expire.
    over: u64,
    /// Maximum number of samples, and number of samples with an unknown value, at most [`MAX_LAST`](super::MAX_LAST).
    most: u16,
    unknown: u16,
    /// Whether a sample that equals the newest sample is merged with it because only changes matter.
    runs: bool,
    /// The known values in ascending order, for functions that need the order. A new sample costs a search and a move
    /// instead of a sort.
    sorted: Option<Vec<f64>>,
    /// The last computed value, until a sample is added or removed.
    made: Cell<Option<ComputedValue>>,
}

/// The value of a function of the current samples; NaN if there is no value.
#[derive(Debug, Clone, Copy)]
struct ComputedValue {
    function: Function,
    value: f64,
}

impl Samples {
    /// Creates a window of the newest `most` samples, limited to `over` nanoseconds if set.
    pub(super) fn new(class: Class, most: usize, over: Option<u64>) -> Self {
        Self {
            kept: VecDeque::new(),
            over: over.unwrap_or(u64::MAX),
            most: u16::try_from(most.max(1)).unwrap_or(u16::MAX),
            unknown: 0,
            runs: class == Class::Runs,
            sorted: (class == Class::Sorted).then(Vec::new),
            made: Cell::new(None),
        }
    }

    #[inline]
    pub(super) fn touch(&self) -> u64 {
        self.over ^ self.kept.len() as u64
    }

    /// Returns the time at which the oldest sample expires.
    fn expires(&self) -> u64 {
        let oldest = self.kept.front();
        oldest.map_or(u64::MAX, |(time, _)| time.saturating_add(self.over))
    }

    fn is_old(&self, time: u64, now: u64) -> bool {
        self.over != u64::MAX && time.saturating_add(self.over) <= now
    }

    fn forget_oldest(&mut self) {
        let Some((_, value)) = self.kept.pop_front() else {
            return;
        };
        self.made.set(None);
        if value.is_nan() {
            self.unknown -= 1;
        } else if let Some(sorted) = &mut self.sorted {
            let place = sorted.partition_point(|other| other.total_cmp(&value).is_lt());
            if place < sorted.len() {
                sorted.remove(place);
            }
        }
    }

    /// Removes expired samples. Returns the time at which the next sample expires.
    pub(super) fn expire(&mut self, now: u64) -> u64 {
        while self.kept.front().is_some_and(|(time, _)| self.is_old(*time, now)) {
            self.forget_oldest();
        }
        self.expires()
    }

    /// Adds a sample. Returns the time at which the next sample expires.
    pub(super) fn add(&mut self, worth: SampleValue, time: u64, now: u64) -> u64 {
        self.put(number(worth), time, now);
        self.expires()
    }

    fn put(&mut self, value: f64, time: u64, now: u64) {
        if self.is_old(time, now) {
            return;
        }
        if self.runs
            && let Some((newest, last)) = self.kept.back_mut()
            && *newest <= time
            && last.total_cmp(&value).is_eq()
        {
            *newest = time;
            return;
        }
        if self.kept.len() >= usize::from(self.most) {
            if self.kept.front().is_some_and(|(oldest, _)| time < *oldest) {
                return;
            }
            self.forget_oldest();
        }
        self.made.set(None);
        if value.is_nan() {
            self.unknown += 1;
        } else if let Some(sorted) = &mut self.sorted {
            let place = sorted.partition_point(|other| other.total_cmp(&value).is_lt());
            sorted.insert(place, value);
        }
        if self.kept.back().is_none_or(|(newest, _)| *newest <= time) {
            self.kept.push_back((time, value));
        } else {
            let place = self.kept.partition_point(|(other, _)| *other <= time);
            self.kept.insert(place, (time, value));
        }
    }

    /// Returns the number of samples with a known and with an unknown value.
    pub(super) fn samples(&self) -> (u64, u64) {
        let unknown = self.unknown;
        ((self.kept.len() - usize::from(unknown)) as u64, u64::from(unknown))
    }

    pub(super) fn answer(&self, window: &Window, at: ReadContext) -> Option<f64> {
        let function = window.function;
        // The values of these functions change over time even without new samples.
        let changes = matches!(function, Function::Rate | Function::Share);
        if let Some(made) = self.made.get().filter(|made| made.function == function && !changes) {
            return Some(made.value).filter(|value| !value.is_nan());
        }
        let oldest = self.kept.front().map(|(time, _)| *time);
        let known = self.kept.iter().copied().filter(|(_, value)| !value.is_nan());
        let value = answer(function, at, oldest, known, self.sorted.as_deref());
        self.made.set(Some(ComputedValue {
            function,
            value: value.unwrap_or(f64::NAN),
        }));
        value
    }

    pub(super) fn memory(&self) -> usize {
        let sorted = self.sorted.as_ref().map_or(0, Vec::capacity);
        self.kept.capacity() * size_of::<(u64, f64)>() + sorted * size_of::<f64>()
    }

    pub(super) fn most_memory(&self) -> usize {
        let sorted = self.sorted.as_ref().map_or(0, |_| size_of::<f64>());
        usize::from(self.most).next_power_of_two().max(4) * (size_of::<(u64, f64)>() + sorted)
    }
}
