//! Computes functions of samples that are stored individually.

use super::aggregate::{Trend, change, share};
use super::{ReadContext, SampleValue};
use crate::rule::Function;

const NS_PER_HOUR: f64 = 3.6e12;

/// Maximum number of samples that are sorted on demand.
pub(super) const ORDERED: usize = 64;

/// Returns the number that is stored for a sample: 0 if the filter is false, and NaN if the sample is unknown.
pub(super) fn number(worth: SampleValue) -> f64 {
    match worth {
        SampleValue::Counts(value) => value,
        SampleValue::Not => 0.0,
        SampleValue::Unknown => f64::NAN,
    }
}

/// Computes `function` from samples, or returns `None` if the value is unknown. `known` are the samples with known
/// values, oldest first; `oldest` is the time of the oldest of all samples, or `None` without samples. `sorted` are the
/// values in ascending order; if `None`, the function sorts up to [`ORDERED`] values.
pub(super) fn answer(
    function: Function,
    at: ReadContext,
    oldest: Option<u64>,
    known: impl DoubleEndedIterator<Item = (u64, f64)> + Clone,
    sorted: Option<&[f64]>,
) -> Option<f64> {
    let sum = || known.clone().map(|(_, value)| value).sum::<f64>();
    let mut values = known.clone().map(|(_, value)| value);
    // The length starts at the oldest sample or at the start of observation, whichever is later, and ends now.
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
        Function::Median => sorted.map_or_else(|| unsorted_median(values), median),
        Function::Slope | Function::R2 => {
            let mut trend = Trend::default();
            let (origin, _) = known.clone().next()?;
            let mut count = 0;
            for (time, value) in known {
                trend.point(count, time.saturating_sub(origin) as f64 / NS_PER_HOUR, value);
                count += 1;
            }
            trend.line(count, function)
        }
        Function::Change | Function::Newest => {
            let newest = values.next_back()?;
            change(function, values.next().unwrap_or(newest), newest)
        }
        Function::Turns => Some(turns(values)),
    }
}

/// Returns the median of up to [`ORDERED`] values, or `None` if there are no values.
fn unsorted_median(values: impl Iterator<Item = f64>) -> Option<f64> {
    // Integers with the same order are sorted faster.
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
        *place = from_ordinal(*number);
    }
    median(sorted.get(..count)?)
}

/// Returns an integer with the order of `value` by [`f64::total_cmp`].
fn ordinal(value: f64) -> i64 {
    reorder_bits(value.to_bits().cast_signed())
}

/// Returns the value of an [`ordinal`].
fn from_ordinal(number: i64) -> f64 {
    f64::from_bits(reorder_bits(number).cast_unsigned())
}

/// Reverses the order of negative numbers. The function is its own inverse.
fn reorder_bits(bits: i64) -> i64 {
    bits ^ ((bits >> 63).cast_unsigned() >> 1).cast_signed()
}

/// Returns the value in the middle, or the mean of the two values in the middle; `None` if there are no values.
fn median(sorted: &[f64]) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let lower = *sorted.get(last / 2)?;
    let upper = *sorted.get(last.div_ceil(2))?;
    Some(lower + (upper - lower) * if last % 2 == 0 { 0.0 } else { 0.5 })
}

/// Returns the number of changes from rising to falling or back. Equal values do not count.
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
