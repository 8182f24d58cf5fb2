//! Windows over the samples of one process.
//!
//! | Extent | Retained data | Exact values |
//! |---|---|---|
//! | [`Extent::Over`]: count, ratio, rate, sum, share, mean, min, max, change, newest, slope, r2 | [`BUCKETS`] sub-intervals of equal length with aggregates, regardless of the sample rate | the aggregates of all samples within the covered time |
//! | [`Extent::Over`]: median, turns | the newest [`MAX_SAMPLES`] samples within the time | of these samples |
//! | [`Extent::Last`] | that many samples, at most [`MAX_LAST`] | everything |
//!
//! # Time
//!
//! Time is the time of the observations. Sub-intervals are aligned to multiples of their length on the clock of
//! [`Moment`]s, so a window of 32 sub-intervals covers the time of 31 to 32 sub-intervals: the current sub-interval and
//! the 31 before it. [`Function::Rate`] and [`Function::Share`] divide by the covered time, at most the time for which
//! the process was observed. Samples can be out of order. A sample older than the window is dropped.
//!
//! # Samples that count
//!
//! * Functions that count (count, ratio, rate) use every sample, and whether the sample matches the filter. For all
//!   other functions, the window contains only samples that match; `Last(n)` contains the newest n of these samples.
//! * A sample is unknown if its filter or value is unknown. If the ratio of unknown samples exceeds `unknown_share`,
//!   the value is unknown; up to this ratio, functions ignore unknown samples.
//! * For turns, consecutive equal samples are merged into one sample with the time of the newest sample.
//! * A window with [`ComparisonKey::GenerationAndType`] consists of six windows, and its value is the value for the
//!   current collection's key. At a tick there is no current collection, and the value is unknown.
//!
//! # Memory
//!
//! A window takes no memory before the first sample. A window over time stores no sub-intervals as long as its value
//! follows from the number of samples over time, which is stored once for all series of one length (`occasions`). This
//! is possible if all samples are unknown, if all or none of the samples of a count match the filter, or if all values
//! of a sum are 0. The maximum for each key is `BUCKETS` x (12 to 48) bytes = 0.4 to 1.5 KiB for sub-intervals, 16 KiB
//! for `MAX_SAMPLES`, 16 n bytes for `Last(n)` (above 64, n is rounded up to a power of two), and half as much again
//! for the median of more than 64 samples. [`SeriesSet::most_memory`] computes the maximum for a window.

mod aggregate;
mod answer;
mod buckets;
mod few;
mod latest;
mod occasions;
mod samples;
mod series_set;

use base::time::Moment;
use clr_gc::event::GcType;
use clr_gc::gc::Collection;

use super::expression::{EvaluationError, Expression};
use super::field::Scope;
use super::rule::{ComparisonKey, Extent, Function, Window};

pub(crate) use occasions::{Occasions, Uniform};
pub(crate) use series_set::{SeriesAt, SeriesSet};

/// Number of sub-intervals of a window over time.
pub const BUCKETS: u64 = 32;

/// Maximum number of samples that a window over time stores individually.
pub const MAX_SAMPLES: usize = 1024;

/// Maximum number of samples of a window over samples.
pub const MAX_LAST: usize = 4096;

/// The value of one sample.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum SampleValue {
    /// The sample counts with this finite value, or with 1 if no value is measured.
    Counts(f64),
    /// The filter is false.
    Not,
    /// The filter or the value is unknown.
    Unknown,
}

/// Number of one of the six windows of [`ComparisonKey::GenerationAndType`]: twice the generation, plus one if
/// blocking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Key(usize);

impl Key {
    /// Number of keys.
    pub(crate) const COUNT: usize = 6;

    /// Returns the key of a collection, or `None` if its generation or its type is unknown, or if the generation is
    /// greater than 2.
    pub(crate) fn from_collection(collection: &Collection) -> Option<Self> {
        let generation = collection.generation.filter(|generation| *generation <= 2)?;
        let blocking = collection.gc_type? != GcType::BACKGROUND || collection.became_blocking;
        Some(Self(generation as usize * 2 + usize::from(blocking)))
    }
}

/// Time and options of a read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReadContext {
    /// Current time, not before any sample.
    pub(crate) now: Moment,
    /// Time for which the process has been observed, in nanoseconds.
    pub(crate) watched: u64,
    /// Whether windows have values even if the process was observed for less time than they require.
    pub(crate) so_far: bool,
}

/// The data that a series retains of its samples. All functions of one class can be computed from the same data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Class {
    /// Number of samples, and number of samples for which the filter is true, per sub-interval.
    Counts,
    /// Sums per sub-interval.
    Sums,
    /// The smallest and the largest sample per sub-interval.
    Extremes,
    /// The oldest and the newest sample per sub-interval.
    Ends,
    /// The regression line per sub-interval.
    Trend,
    /// The newest sample.
    Latest,
    /// Samples in the order of time, each with the result of the filter.
    Marks,
    /// Samples in the order of time.
    Samples,
    /// Samples in the order of time, with consecutive equal samples merged.
    Runs,
    /// Samples in the order of time, and in the order of size.
    Sorted,
}

impl Class {
    /// Returns the class of a window.
    pub(crate) fn for_window(window: &Window) -> Self {
        let over = matches!(window.extent, Extent::Over(_));
        match window.function {
            Function::Count | Function::Ratio | Function::Rate if over => Self::Counts,
            Function::Count | Function::Ratio | Function::Rate => Self::Marks,
            Function::Median => Self::Sorted,
            Function::Sum | Function::Share | Function::Mean if over => Self::Sums,
            Function::Min | Function::Max if over => Self::Extremes,
            Function::Change | Function::Newest if over => Self::Ends,
            Function::Slope | Function::R2 if over => Self::Trend,
            Function::Newest if window.extent == Extent::Last(1) => Self::Latest,
            Function::Turns => Self::Runs,
            _ => Self::Samples,
        }
    }

    /// Returns whether samples that do not match the filter are included.
    pub(crate) fn counts(self) -> bool {
        matches!(self, Self::Counts | Self::Marks)
    }
}

/// A sample of a series.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SeriesSample {
    pub(crate) key: Option<Key>,
    pub(crate) worth: SampleValue,
    pub(crate) time: Moment,
    /// Current time, not before any sample.
    pub(crate) now: Moment,
}

/// State of a series in one process, shared by all windows with the same [`Class`], extent, filter and value.
#[derive(Debug, Clone, Copy)]
pub(crate) enum SeriesState {
    /// No sample yet.
    Nothing,
    /// All samples so far were alike, as [`Uniform`] states.
    Uniform(Uniform),
    Samples(SeriesAt),
}

impl SeriesState {
    /// Returns the value of one of the windows of the series, or `None` if it is unknown. `began` is the start of
    /// sampling. Expired samples must already be removed, and `occasions` must contain the times of all samples.
    pub(crate) fn value(
        self,
        set: &SeriesSet,
        window: &Window,
        key: Option<Key>,
        began: Moment,
        at: ReadContext,
        occasions: Option<&Occasions>,
    ) -> Option<f64> {
        let at = ReadContext {
            watched: at.watched.min(at.now.since(began)),
            ..at
        };
        if at.watched < window.min_watched_ns && !at.so_far {
            return None;
        }
        let is_enough = |(known, unknown): (u64, u64)| {
            let too_many = unknown > 0 && unknown as f64 > window.unknown_share.0 * (known + unknown) as f64;
            known >= u64::from(window.min_samples) && !too_many
        };
        if window.by == ComparisonKey::GenerationAndType && key.is_none() {
            return None;
        }
        match self {
            Self::Samples(series) => set.value(series, window, key, at, is_enough),
            Self::Uniform(uniform) => {
                let occasions = occasions?;
                let value = || uniform.answer(window, at, occasions);
                is_enough(uniform.samples(occasions)).then(value)?
            }
            Self::Nothing => nothing(window, at),
        }
    }
}

/// Returns the value of a window without samples, or `None` if it is unknown. Counts, sums and turns are 0, rates and
/// shares are 0 once the process has been observed for some time, and all other values are unknown. The value of a
/// window that requires samples is always unknown.
fn nothing(window: &Window, at: ReadContext) -> Option<f64> {
    match window.function {
        _ if window.min_samples > 0 => None,
        Function::Count | Function::Sum | Function::Turns => Some(0.0),
        Function::Rate | Function::Share => (at.watched > 0).then_some(0.0),
        _ => None,
    }
}

/// Returns the value of a sample for which the filter is true.
pub(crate) fn worth(of: Option<&Expression>, scope: &Scope<'_>) -> Result<SampleValue, EvaluationError> {
    let Some(of) = of else {
        return Ok(SampleValue::Counts(1.0));
    };
    let Some(value) = of.evaluate(scope)? else {
        return Ok(SampleValue::Unknown);
    };
    let number = value.as_number().ok_or(EvaluationError::Type)?;
    Ok(if number.is_finite() {
        SampleValue::Counts(number)
    } else {
        SampleValue::Unknown
    })
}

#[cfg(test)]
mod tests;
