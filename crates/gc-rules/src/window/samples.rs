//! Windows that keep their samples one by one.

use std::cell::Cell;
use std::collections::VecDeque;

use super::aggregate::{Trend, change, share};
use super::few::MOST as FEW;
use super::{Asked, Class, Worth};
use crate::rule::{Function, Window};

const NS_PER_HOUR: f64 = 3.6e12;

/// Samples of a time, many samples, or those that differ from the ones before them. Unknown worth is NaN, which no
/// value is; for functions that count, 1 fulfils and 0 does not.
#[derive(Debug)]
pub(super) struct Samples {
    kept: VecDeque<(u64, f64)>,
    /// Older ones are forgotten; `u64::MAX`: none is too old.
    over: u64,
    /// How many there are at most, and how many are of unknown worth: [`MAX_LAST`](super::MAX_LAST) at most.
    most: u16,
    unknown: u16,
    /// One that equals the newest is one with it: only what changes is looked at.
    runs: bool,
    /// Those of known worth, the smallest first, for functions of their order: a sample more costs a search and a move,
    /// not a sort.
    sorted: Option<Vec<f64>>,
    /// The last computed value, until a sample is added or removed.
    made: Cell<Option<Made>>,
}

/// The value of a function of the samples as they are; NaN where it has none.
#[derive(Debug, Clone, Copy)]
struct Made {
    function: Function,
    value: f64,
}

impl Samples {
    /// The newest `most`, of that many nanoseconds if a time is given.
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

    /// When the oldest one is too old.
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

    /// What is too old now is forgotten; when something is next.
    pub(super) fn expire(&mut self, now: u64) -> u64 {
        while self.kept.front().is_some_and(|(time, _)| self.is_old(*time, now)) {
            self.forget_oldest();
        }
        self.expires()
    }

    /// Adds a sample; when something is too old next.
    pub(super) fn add(&mut self, worth: Worth, time: u64, now: u64) -> u64 {
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

    /// How many of known and of unknown worth there are.
    pub(super) fn samples(&self) -> (u64, u64) {
        let unknown = self.unknown;
        ((self.kept.len() - usize::from(unknown)) as u64, u64::from(unknown))
    }

    pub(super) fn answer(&self, window: &Window, at: Asked) -> Option<f64> {
        let function = window.function;
        // These change with the time alone.
        let changes = matches!(function, Function::Rate | Function::Share);
        if let Some(made) = self.made.get().filter(|made| made.function == function && !changes) {
            return Some(made.value).filter(|value| !value.is_nan());
        }
        let oldest = self.kept.front().map(|(time, _)| *time);
        let known = self.kept.iter().copied().filter(|(_, value)| !value.is_nan());
        let value = answer(function, at, oldest, known, self.sorted.as_deref());
        self.made.set(Some(Made {
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

/// What is kept of a sample's worth.
pub(super) fn number(worth: Worth) -> f64 {
    match worth {
        Worth::Counts(value) => value,
        Worth::Not => 0.0,
        Worth::Unknown => f64::NAN,
    }
}

/// What `function` makes of samples: of those of known worth, the oldest first, and of the time of the oldest of all.
/// `sorted`: their values, the smallest first; `None`: they are put in order here, up to [`FEW`] of them.
pub(super) fn answer(
    function: Function,
    at: Asked,
    oldest: Option<u64>,
    known: impl DoubleEndedIterator<Item = (u64, f64)> + Clone,
    sorted: Option<&[f64]>,
) -> Option<f64> {
    let sum = || known.clone().map(|(_, value)| value).sum::<f64>();
    let mut values = known.clone().map(|(_, value)| value);
    // From the oldest sample, or the time before that was not watched, to now.
    let length = oldest
        .map(|oldest| at.now.ns().saturating_sub(oldest).min(at.watched))
        .filter(|ns| *ns > 0);
    match function {
        Function::Count | Function::Sum => Some(sum()),
        Function::Ratio | Function::Mean => {
            let count = values.count();
            (count > 0).then(|| sum() / count as f64)
        }
        Function::Rate => length.map(|ns| sum() / (ns as f64 / 1e9)),
        Function::Share => length.and_then(|ns| share(sum(), ns)),
        Function::Min => values.reduce(f64::min),
        Function::Max => values.reduce(f64::max),
        Function::Median => ordered(values, sorted, median),
        Function::Mad => ordered(values, sorted, deviation),
        Function::Slope | Function::RelativeSlope | Function::R2 => {
            let mut trend = Trend::default();
            let (origin, _) = known.clone().next()?;
            let mut count = 0;
            for (time, value) in known {
                trend.point(count, time.saturating_sub(origin) as f64 / NS_PER_HOUR, value);
                count += 1;
            }
            trend.line(count, function)
        }
        Function::Change | Function::RelativeChange | Function::Newest => {
            let newest = values.next_back()?;
            change(function, values.next().unwrap_or(newest), newest)
        }
        Function::Turns => Some(turns(values)),
    }
}

/// What is made of values, the smallest first.
fn ordered(
    values: impl Iterator<Item = f64>,
    sorted: Option<&[f64]>,
    make: impl Fn(&[f64]) -> Option<f64>,
) -> Option<f64> {
    if let Some(sorted) = sorted {
        return make(sorted);
    }
    // Integers of the same order are sorted faster.
    let mut space = [0; FEW];
    let mut count = 0;
    for (place, value) in space.iter_mut().zip(values) {
        *place = ordinal(value);
        count += 1;
    }
    let ordinals = space.get_mut(..count)?;
    ordinals.sort_unstable();
    let mut sorted = [0.0; FEW];
    for (place, number) in sorted.iter_mut().zip(&*ordinals) {
        *place = of_ordinal(*number);
    }
    make(sorted.get(..count)?)
}

/// An integer with the order of `value` by [`f64::total_cmp`].
fn ordinal(value: f64) -> i64 {
    of_bits(value.to_bits().cast_signed())
}

/// The value of an [`ordinal`].
fn of_ordinal(number: i64) -> f64 {
    f64::from_bits(of_bits(number).cast_unsigned())
}

/// Negative numbers have the other order; its own inverse.
fn of_bits(bits: i64) -> i64 {
    bits ^ ((bits >> 63).cast_unsigned() >> 1).cast_signed()
}

/// Where the median lies among so many: the last place that is not above it, and how far it is to the next.
fn middle(count: usize) -> Option<(usize, f64)> {
    let last = count.checked_sub(1)?;
    Some((last / 2, if last % 2 == 0 { 0.0 } else { 0.5 }))
}

/// The one in the middle, or the mean of the two there.
fn median(sorted: &[f64]) -> Option<f64> {
    let (below, part) = middle(sorted.len())?;
    let lower = *sorted.get(below)?;
    let upper = sorted.get(below + 1).copied().unwrap_or(lower);
    Some(lower + (upper - lower) * part)
}

/// The median of the distances from the median: those nearest to it lie around it, and are taken outwards from there.
fn deviation(sorted: &[f64]) -> Option<f64> {
    let median = median(sorted)?;
    let (below, part) = middle(sorted.len())?;
    let (left, right) = sorted.split_at_checked(sorted.partition_point(|value| *value < median))?;
    let mut left = left.iter().rev().map(|value| median - value).peekable();
    let mut right = right.iter().map(|value| value - median).peekable();
    let distances = std::iter::from_fn(|| match (left.peek(), right.peek()) {
        (Some(a), Some(b)) if a < b => left.next(),
        (Some(_), None) => left.next(),
        _ => right.next(),
    });
    let mut distances = distances.skip(below);
    let lower = distances.next()?;
    let upper = distances.next().unwrap_or(lower);
    Some(lower + (upper - lower) * part)
}

/// How often rising became falling or back; what stays equal does neither.
fn turns(values: impl Iterator<Item = f64>) -> f64 {
    let (mut before, mut rising, mut turns) = (None, None, 0u32);
    for value in values {
        if let Some(before) = before
            && value != before
        {
            let now = value > before;
            turns += u32::from(rising.is_some_and(|rising: bool| rising != now));
            rising = Some(now);
        }
        before = Some(value);
    }
    f64::from(turns)
}
