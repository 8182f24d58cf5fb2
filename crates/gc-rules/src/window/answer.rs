//! What functions make of samples that are kept one by one.

use super::aggregate::{Trend, change, share};
use super::{Asked, Worth};
use crate::rule::Function;

const NS_PER_HOUR: f64 = 3.6e12;

/// So many samples are put in order whenever their order is asked for.
pub(super) const ORDERED: usize = 64;

/// What is kept of a sample's worth.
pub(super) fn number(worth: Worth) -> f64 {
    match worth {
        Worth::Counts(value) => value,
        Worth::Not => 0.0,
        Worth::Unknown => f64::NAN,
    }
}

/// What `function` makes of samples: of those of known worth, the oldest first, and of the time of the oldest of all.
/// `sorted`: their values, the smallest first; `None`: they are put in order here, up to [`ORDERED`] of them.
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
    let mut space = [0; ORDERED];
    let mut count = 0;
    for (place, value) in space.iter_mut().zip(values) {
        *place = ordinal(value);
        count += 1;
    }
    let ordinals = space.get_mut(..count)?;
    ordinals.sort_unstable();
    let mut sorted = [0.0; ORDERED];
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
