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
//! of two), and half as much again for median and mad of more than 64. [`most_memory`] computes it for a window.

mod aggregate;
mod buckets;
mod few;
mod latest;
mod occasions;
mod samples;

use clr_gc::event::GcType;
use clr_gc::gc::Collection;

use super::expression::{EvaluationError, Expression};
use super::field::Scope;
use super::rule::{By, Extent, Function, Window};
use super::time::Moment;
use aggregate::{Counts, Ends, Extremes, Sums, Trend};
use buckets::Buckets;
use few::Few;
use latest::Latest;
use samples::Samples;

pub(crate) use occasions::{Occasions, Uniform};

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

/// What a process has of a series: of all windows of one [`Class`], extent, filter and value. `S`: its samples, or
/// where they are.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kept<S> {
    /// No sample yet.
    Nothing,
    /// Every sample was alike.
    Uniform(Uniform),
    Samples(S),
}

/// The samples of a series. When the next one expires stands beside them: most of the time none does, and they are not
/// looked at.
#[derive(Debug)]
pub(crate) struct Live {
    expires: Moment,
    of: Division,
}

#[derive(Debug)]
enum Division {
    Whole(Series),
    /// By [`Key`].
    Keyed(Box<[Option<Series>; Key::COUNT]>),
}

/// Boxed where it is large, so that the series of a process lie side by side.
#[derive(Debug)]
enum Series {
    Counts(Box<Buckets<Counts>>),
    Sums(Box<Buckets<Sums>>),
    Extremes(Box<Buckets<Extremes>>),
    Ends(Box<Buckets<Ends>>),
    Trend(Box<Buckets<Trend>>),
    Latest(Latest),
    Few(Few),
    Samples(Box<Samples>),
}

/// Runs the same on whichever it is.
macro_rules! each {
    ($series:expr, $one:ident => $run:expr) => {
        match $series {
            Series::Counts($one) => $run,
            Series::Sums($one) => $run,
            Series::Extremes($one) => $run,
            Series::Ends($one) => $run,
            Series::Trend($one) => $run,
            Series::Latest($one) => $run,
            Series::Few($one) => $run,
            Series::Samples($one) => $run,
        }
    };
}

impl Series {
    fn new(window: &Window) -> Self {
        let class = Class::of(window);
        let (over, most) = match window.extent {
            Extent::Last(n) => (None, usize::try_from(n).unwrap_or(MAX_LAST).min(MAX_LAST)),
            Extent::Over(ns) => (Some(ns), MAX_SAMPLES),
        };
        let length = over.unwrap_or(u64::MAX);
        match class {
            Class::Counts => Self::Counts(Box::new(Buckets::over(length))),
            Class::Sums => Self::Sums(Box::new(Buckets::over(length))),
            Class::Extremes => Self::Extremes(Box::new(Buckets::over(length))),
            Class::Ends => Self::Ends(Box::new(Buckets::over(length))),
            Class::Trend => Self::Trend(Box::new(Buckets::over(length))),
            Class::Latest => Self::Latest(Latest::default()),
            Class::Marks | Class::Samples | Class::Sorted if over.is_none() && most <= few::MOST => {
                Self::Few(Few::new(most))
            }
            Class::Marks | Class::Samples | Class::Runs | Class::Sorted => {
                Self::Samples(Box::new(Samples::new(class, most, over)))
            }
        }
    }

    #[expect(clippy::inline_always, reason = "measured: dozens of calls for each collection")]
    #[inline(always)]
    fn add(&mut self, worth: Worth, time: Moment, now: Moment) -> Moment {
        let (time, now) = (time.min(now).ns(), now.ns());
        Moment::from_ns(each!(self, series => series.add(worth, time, now)))
    }

    /// One of which every sample before was alike; it is by sub-interval.
    fn uniform(window: &Window, uniform: Uniform, before: &Occasions) -> Self {
        match Class::of(window) {
            Class::Counts => Self::Counts(uniform.series(before)),
            Class::Sums => Self::Sums(uniform.series(before)),
            Class::Extremes => Self::Extremes(uniform.series(before)),
            Class::Ends => Self::Ends(uniform.series(before)),
            Class::Trend => Self::Trend(uniform.series(before)),
            Class::Latest | Class::Marks | Class::Samples | Class::Runs | Class::Sorted => Self::new(window),
        }
    }
}

impl Live {
    fn new(window: &Window) -> Self {
        Self {
            expires: Moment::NEVER,
            of: match window.by {
                By::Nothing => Division::Whole(Series::new(window)),
                By::GenerationAndType => Division::Keyed(Box::default()),
            },
        }
    }

    /// Adds a sample; windows by key ignore one without a key. Expired samples are already removed. `window` gives one
    /// of its windows. Returns when the next sample expires.
    #[inline]
    pub(crate) fn add<'w>(&mut self, sample: &Taken, window: impl FnOnce() -> Option<&'w Window>) -> Moment {
        let series = match &mut self.of {
            Division::Whole(series) => series,
            Division::Keyed(keyed) => {
                let series = sample.key.and_then(|key| keyed.get_mut(key.0));
                let (Some(series), Some(window)) = (series, window()) else {
                    return self.expires;
                };
                series.get_or_insert_with(|| Series::new(window))
            }
        };
        let expires = series.add(sample.worth, sample.time, sample.now);
        self.expires = self.expires.min(expires);
        self.expires
    }

    /// Reads the memory that most samples change. The result is of no use.
    #[inline]
    pub(crate) fn touch(&self) -> u64 {
        match &self.of {
            Division::Whole(series) => each!(series, series => series.touch()),
            Division::Keyed(_) => 0,
        }
    }

    /// Removes expired samples. Returns when the next one expires.
    pub(crate) fn expire(&mut self, now: Moment) -> Moment {
        if now >= self.expires {
            let now = now.ns();
            let next = match &mut self.of {
                Division::Whole(series) => each!(series, series => series.expire(now)),
                Division::Keyed(keyed) => {
                    let series = keyed.iter_mut().flatten();
                    let next = series.map(|series| each!(series, series => series.expire(now)));
                    next.min().unwrap_or(u64::MAX)
                }
            };
            self.expires = Moment::from_ns(next);
        }
        self.expires
    }

    /// Bytes on the heap.
    pub(crate) fn memory(&self) -> usize {
        let memory = |series: &Series| each!(series, series => series.memory());
        match &self.of {
            Division::Whole(series) => memory(series),
            Division::Keyed(keyed) => {
                Key::COUNT * size_of::<Option<Series>>() + keyed.iter().flatten().map(memory).sum::<usize>()
            }
        }
    }
}

impl<S> Kept<S> {
    /// The same with other samples; `None`: there are none to be had.
    pub(crate) fn map<T>(self, samples: impl FnOnce(S) -> Option<T>) -> Option<Kept<T>> {
        Some(match self {
            Self::Nothing => Kept::Nothing,
            Self::Uniform(uniform) => Kept::Uniform(uniform),
            Self::Samples(kept) => Kept::Samples(samples(kept)?),
        })
    }

    /// What a process has of the series after a sample, as long as it keeps none, and when that expires. `occasions` are
    /// those before this sample, and expire by themselves.
    pub(crate) fn with(&self, sample: &Taken, window: &Window, occasions: Option<&Occasions>) -> (Kept<Live>, Moment) {
        let class = Class::of(window);
        let contains = sample.worth != Worth::Not || class.counts();
        let mut live = match self {
            Self::Uniform(uniform) if uniform.is(sample.worth) => return (Kept::Uniform(*uniform), Moment::NEVER),
            Self::Uniform(uniform) => occasions.map_or_else(
                || Live::new(window),
                |before| Live {
                    expires: before.expires(),
                    of: Division::Whole(Series::uniform(window, *uniform, before)),
                },
            ),
            _ if !contains => return (Kept::Nothing, Moment::NEVER),
            _ => {
                let uniform = Uniform::of(class, sample.worth);
                match uniform.filter(|_| occasions.is_some_and(Occasions::is_fresh)) {
                    Some(uniform) => return (Kept::Uniform(uniform), Moment::NEVER),
                    None => Live::new(window),
                }
            }
        };
        let expires = if contains {
            live.add(sample, || Some(window))
        } else {
            Moment::NEVER
        };
        (Kept::Samples(live), expires)
    }
}

impl Kept<&Live> {
    /// The value of one of the windows of the series, which began to be sampled at that time; `None`: unknown. Expired
    /// samples are already removed; the occasions are all that there were.
    pub(crate) fn value(
        self,
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
        let series = match (window.by, self) {
            (
                By::Nothing,
                Self::Samples(Live {
                    of: Division::Whole(series),
                    ..
                }),
            ) => Some(series),
            (By::Nothing, Self::Uniform(uniform)) => {
                let occasions = occasions?;
                let value = || uniform.answer(window, at, occasions);
                return is_enough(uniform.samples(occasions)).then(value)?;
            }
            (
                By::GenerationAndType,
                Self::Samples(Live {
                    of: Division::Keyed(keyed),
                    ..
                }),
            ) => keyed.get(key?.0)?.as_ref(),
            (By::GenerationAndType, _) if key.is_none() => return None,
            _ => None,
        };
        let Some(series) = series else {
            return nothing(window.function, at).filter(|_| window.min_samples == 0);
        };
        if !is_enough(each!(series, series => series.samples())) {
            return None;
        }
        each!(series, series => series.answer(window, at)).filter(|value| value.is_finite())
    }
}

/// The value without any sample: a count is 0, a measured value is unknown.
fn nothing(function: Function, at: Asked) -> Option<f64> {
    match function {
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

/// Maximum memory of the samples of `window` for one process, bytes.
pub(crate) fn most_memory(window: &Window) -> usize {
    let one = each!(&Series::new(window), series => series.most_memory());
    match window.by {
        By::Nothing => one,
        By::GenerationAndType => Key::COUNT * (size_of::<Option<Series>>() + one),
    }
}

#[cfg(test)]
mod tests;
