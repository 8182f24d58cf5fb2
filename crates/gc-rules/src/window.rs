//! Windows over the samples of one process.
//!
//! | Extent | What is kept | What is exact |
//! |---|---|---|
//! | [`Extent::Over`]: count, ratio, rate, sum, share, mean, min, max, change, newest, slope, r2 | [`BUCKETS`] sub-intervals of equal length, each with its aggregates, whatever the rate of samples | the aggregates of all samples within the covered time |
//! | [`Extent::Over`]: median, mad, turns | the newest [`MAX_SAMPLES`] samples within the time | of those |
//! | [`Extent::Last`] | that many samples, at most [`MAX_LAST`] | everything |
//!
//! # Time
//!
//! Time is that of the observations. Sub-intervals are aligned to multiples of their length on the clock of
//! [`Moment`]s, so a window of 32 of them covers between 31 and 32: the current one, and the 31 before it.
//! [`Function::Rate`] and [`Function::Share`] divide by the covered time, at most the time that the process was
//! watched. Samples can be out of order; one older than the window is dropped.
//!
//! # What counts
//!
//! * Functions that count (count, ratio, rate) see every sample, and whether it matches the filter. For all
//!   others the window only contains samples that match; `Last(n)` are the newest n of those.
//! * A sample whose filter or value is unknown is unknown. With a higher ratio of them than `unknown_share`, the value
//!   is unknown; below that, turns ignores them.
//! * For turns, consecutive equal samples are one, with the time of the newest.
//! * With [`By::GenerationAndType`] there are six windows in one, and the value is that of the current collection's
//!   key. At a tick there is no current collection, and the value is unknown.
//!
//! # Memory
//!
//! None before the first sample, and none in sub-intervals as long as every sample is alike: when samples were taken is
//! kept once for all series of one length (`occasions`). At most, for each key: `BUCKETS` x (12 to 48) bytes = 0.4 to
//! 1.5 KiB for sub-intervals, 16 KiB for `MAX_SAMPLES`, 16 n bytes for `Last(n)` (above 64, n is rounded up to a power
//! of two), and half as much again for median and mad of more than 64. [`SeriesSet::most_memory`] computes it for a
//! window.

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
use super::rule::{By, Extent, Function, Window};

pub(crate) use occasions::{Occasions, Uniform};
pub(crate) use series_set::{SeriesAt, SeriesSet};

/// Sub-intervals of a window over time.
pub const BUCKETS: u64 = 32;

/// Samples kept one by one in a window over time.
pub const MAX_SAMPLES: usize = 1024;

/// Maximum number of samples of a window over samples.
pub const MAX_LAST: usize = 4096;

/// The value of one sample.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Worth {
    /// It counts, with this value; 1 where nothing is measured. Finite.
    Counts(f64),
    /// The filter is false.
    Not,
    /// The filter or the value is unknown.
    Unknown,
}

/// Which of the six windows of [`By::GenerationAndType`]: the generation twice, one more when blocking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Key(usize);

impl Key {
    /// How many there are.
    pub(crate) const COUNT: usize = 6;

    /// That of a collection; `None`: its generation or its type was never seen.
    pub(crate) fn of(collection: &Collection) -> Option<Self> {
        let generation = collection.generation.filter(|generation| *generation <= 2)?;
        let blocking = collection.gc_type? != GcType::BACKGROUND || collection.became_blocking;
        Some(Self(generation as usize * 2 + usize::from(blocking)))
    }
}

/// When a value is asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked {
    /// Not before any sample.
    pub(crate) now: Moment,
    /// How long the process has been watched, nanoseconds.
    pub(crate) watched: u64,
    /// Windows have values also where the process was not watched for as long as they require.
    pub(crate) so_far: bool,
}

/// What is kept of samples. Functions of one class can be computed from the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Class {
    /// How many, and for how many the filter holds, by sub-interval.
    Counts,
    /// Sums by sub-interval.
    Sums,
    /// The smallest and the largest by sub-interval.
    Extremes,
    /// The oldest and the newest by sub-interval.
    Ends,
    /// The line that fits best, by sub-interval.
    Trend,
    /// The newest sample.
    Latest,
    /// Samples: whether the filter holds for them.
    Marks,
    /// Samples in the order of their times.
    Samples,
    /// The same; equal ones in a row are one.
    Runs,
    /// Samples in the order of their times, and in that of their size.
    Sorted,
}

impl Class {
    /// The class of a window.
    pub(crate) fn of(window: &Window) -> Self {
        let over = matches!(window.extent, Extent::Over(_));
        match window.function {
            Function::Count | Function::Ratio | Function::Rate if over => Self::Counts,
            Function::Count | Function::Ratio | Function::Rate => Self::Marks,
            Function::Median | Function::Mad => Self::Sorted,
            Function::Sum | Function::Share | Function::Mean if over => Self::Sums,
            Function::Min | Function::Max if over => Self::Extremes,
            Function::Change | Function::RelativeChange | Function::Newest if over => Self::Ends,
            Function::Slope | Function::RelativeSlope | Function::R2 if over => Self::Trend,
            Function::Newest if window.extent == Extent::Last(1) => Self::Latest,
            Function::Turns => Self::Runs,
            _ => Self::Samples,
        }
    }

    /// Whether it includes samples that do not match the filter.
    pub(crate) fn counts(self) -> bool {
        matches!(self, Self::Counts | Self::Marks)
    }
}

/// A sample of a series.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Taken {
    pub(crate) key: Option<Key>,
    pub(crate) worth: Worth,
    pub(crate) time: Moment,
    /// Not before any sample.
    pub(crate) now: Moment,
}

/// What a process has of a series: of all windows of one [`Class`], extent, filter and value.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kept {
    /// No sample yet.
    Nothing,
    /// Every sample was alike.
    Uniform(Uniform),
    Samples(SeriesAt),
}

impl Kept {
    /// The value of one of the windows of the series, which began to be sampled at that time; `None`: unknown. Expired
    /// samples are already removed; the occasions are all that there were.
    pub(crate) fn value(
        self,
        set: &SeriesSet,
        window: &Window,
        key: Option<Key>,
        began: Moment,
        at: Asked,
        occasions: Option<&Occasions>,
    ) -> Option<f64> {
        let at = Asked {
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
        if window.by == By::GenerationAndType && key.is_none() {
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

/// The value without any sample: a count is 0, a measured value is unknown.
fn nothing(window: &Window, at: Asked) -> Option<f64> {
    match window.function {
        _ if window.min_samples > 0 => None,
        Function::Count | Function::Sum | Function::Turns => Some(0.0),
        Function::Rate | Function::Share => (at.watched > 0).then_some(0.0),
        _ => None,
    }
}

/// What a sample for which the filter holds is worth, by what is measured of it.
pub(crate) fn worth(of: Option<&Expression>, scope: &Scope<'_>) -> Result<Worth, EvaluationError> {
    let Some(of) = of else {
        return Ok(Worth::Counts(1.0));
    };
    let Some(value) = of.evaluate(scope)? else {
        return Ok(Worth::Unknown);
    };
    let number = value.as_number().ok_or(EvaluationError::Type)?;
    Ok(if number.is_finite() {
        Worth::Counts(number)
    } else {
        Worth::Unknown
    })
}

#[cfg(test)]
mod tests;
