//! Windows over what is sampled of one process.
//!
//! | Extent | What is kept | What is exact |
//! |---|---|---|
//! | [`Extent::Over`]: count, ratio, rate, sum, share, mean, min, max, change, newest, slope, r2 | [`BUCKETS`] sub-intervals of equal length, each with its aggregates, whatever the rate of samples | the aggregates of all samples within the covered time |
//! | [`Extent::Over`]: quantile, median, mad, streak, rises, turns | the newest [`MAX_SAMPLES`] samples within the time | of those |
//! | [`Extent::Last`] | that many samples, at most [`MAX_LAST`] | everything |
//!
//! # Time
//!
//! Time is that of what was observed, in Unix nanoseconds. Sub-intervals lie on multiples of their length from the epoch, so a window of 64
//! of them covers between 63 and 64: the one that is going on, and the 63 before it. The time that is covered, never longer than the process
//! was watched, is what [`Function::Rate`] and [`Function::Share`] divide by. Samples may come out of order: each goes where its time
//! says; one older than the window counts nothing.
//!
//! # What counts
//!
//! * Functions that count (count, ratio, rate, streak) know every sample: the filter says whether it fulfils or not. For all others the
//!   filter says what is in the window at all; `Last(n)` are the newest n of those.
//! * A sample whose filter or value is unknown is of unknown worth. It is counted; where more than `unknown_share` of the samples are, the value
//!   is unknown. Below that a streak, a rise and a turn pass over it.
//! * With [`By::GenerationAndType`] there are six windows in one, and the value is that of the key of the collection at hand. At a tick there is
//!   none, and the value is unknown.
//!
//! # Memory
//!
//! Nothing is taken before the first sample. At most, for each key: `BUCKETS` x (16 to 72) bytes = 1.0 to 4.5 KiB for sub-intervals, 16 KiB for
//! `MAX_SAMPLES`, 16 n bytes (n rounded up to a power of two) for `Last(n)`, and half as much again for quantile, median and mad. [`most_memory`] says it for a window.

mod buckets;
mod samples;

use clr_gc::event::GcType;
use clr_gc::gc::Collection;

use super::expression::EvaluationError;
use super::field::Scope;
use super::rule::{By, Extent, Function, Window};
use buckets::{Buckets, Counts, Ends, Extremes, Sums, Trend};
use samples::Samples;

/// Sub-intervals of a window over time.
pub const BUCKETS: u64 = 64;

/// Samples kept one by one in a window over time.
pub const MAX_SAMPLES: usize = 1024;

/// Most samples of a window over samples; a larger number counts as this.
pub const MAX_LAST: usize = 4096;

/// What one sample is worth.
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
pub(crate) struct Moment {
    /// Unix nanoseconds, not before any sample.
    pub(crate) now: u64,
    /// How long the process has been watched, nanoseconds.
    pub(crate) watched: u64,
}

/// How many samples there are, and what the function makes of them.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Measure {
    /// Samples of known worth.
    known: u64,
    /// Samples of unknown worth.
    unknown: u64,
    value: Option<f64>,
}

/// The samples of one window of one process.
#[derive(Debug)]
pub(crate) struct Live {
    one: Option<Series>,
    keyed: [Option<Box<Series>>; Key::COUNT],
    /// When sampling began, Unix nanoseconds; 0: with the process.
    began: u64,
    /// Samples that could not be evaluated.
    pub(crate) failures: u64,
    /// Why, the newest time, and when.
    pub(crate) last_failure: Option<(EvaluationError, u64)>,
}

#[derive(Debug)]
enum Series {
    Counts(Buckets<Counts>),
    Sums(Buckets<Sums>),
    Extremes(Buckets<Extremes>),
    Ends(Buckets<Ends>),
    Trend(Buckets<Trend>),
    Samples(Samples),
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
            Series::Samples($one) => $run,
        }
    };
}

/// Functions that know samples that do not fulfil the filter.
fn counts(function: Function) -> bool {
    matches!(
        function,
        Function::Count | Function::Ratio | Function::Rate | Function::Streak
    )
}

impl Series {
    fn new(window: &Window) -> Self {
        let over = match window.extent {
            Extent::Last(n) => {
                let most = usize::try_from(n).unwrap_or(MAX_LAST).min(MAX_LAST);
                return Self::Samples(Samples::new(window.function, most, None));
            }
            Extent::Over(ns) => ns,
        };
        match window.function {
            Function::Count | Function::Ratio | Function::Rate => Self::Counts(Buckets::over(over)),
            Function::Sum | Function::Share | Function::Mean => Self::Sums(Buckets::over(over)),
            Function::Min | Function::Max => Self::Extremes(Buckets::over(over)),
            Function::Change | Function::RelativeChange | Function::Newest => Self::Ends(Buckets::over(over)),
            Function::Slope | Function::RelativeSlope | Function::R2 => Self::Trend(Buckets::over(over)),
            Function::Quantile(_)
            | Function::Median
            | Function::Mad
            | Function::Streak
            | Function::Rises
            | Function::Turns => Self::Samples(Samples::new(window.function, MAX_SAMPLES, Some(over))),
        }
    }
}

impl Live {
    /// Nothing was sampled yet. A window that was added while the process is watched knows nothing of the time before.
    pub(crate) fn new(began: u64) -> Self {
        Self {
            one: None,
            keyed: Default::default(),
            began,
            failures: 0,
            last_failure: None,
        }
    }

    /// Evaluates the sample of `window` on `scope` and adds it.
    pub(crate) fn sample(&mut self, window: &Window, key: Option<Key>, scope: &Scope<'_>, time: u64) {
        let worth = worth(window, scope).unwrap_or_else(|error| {
            self.failures = self.failures.saturating_add(1);
            self.last_failure = Some((error, time));
            Worth::Unknown
        });
        self.add(window, key, worth, time, scope.now_unix_ns);
    }

    /// Adds a sample; of a window by key, one without a key belongs nowhere.
    pub(crate) fn add(&mut self, window: &Window, key: Option<Key>, worth: Worth, time: u64, now: u64) {
        if worth == Worth::Not && !counts(window.function) {
            return;
        }
        let series = match (window.by, key) {
            (By::Nothing, _) => self.one.get_or_insert_with(|| Series::new(window)),
            (By::GenerationAndType, Some(key)) => match self.keyed.get_mut(key.0) {
                Some(series) => series.get_or_insert_with(|| Box::new(Series::new(window))),
                None => return,
            },
            (By::GenerationAndType, None) => return,
        };
        each!(series, series => series.add(worth, time.min(now), now));
    }

    /// The value of the window; `None`: unknown.
    pub(crate) fn value(&mut self, window: &Window, key: Option<Key>, at: Moment) -> Option<f64> {
        let at = Moment {
            watched: at.watched.min(at.now.saturating_sub(self.began)),
            ..at
        };
        if at.watched < window.min_watched_ns {
            return None;
        }
        let series = match window.by {
            By::Nothing => self.one.as_mut(),
            By::GenerationAndType => self.keyed.get_mut(key?.0)?.as_deref_mut(),
        };
        let measure = match series {
            Some(series) => each!(series, series => series.measure(window.function, at)),
            None => Measure {
                known: 0,
                unknown: 0,
                value: nothing(window.function, at),
            },
        };
        let samples = measure.known + measure.unknown;
        if measure.known < u64::from(window.min_samples)
            || (measure.unknown > 0 && measure.unknown as f64 > window.unknown_share * samples as f64)
        {
            return None;
        }
        measure.value.filter(|value| value.is_finite())
    }

    /// Bytes on the heap.
    pub(crate) fn memory(&self) -> usize {
        let keyed = self.keyed.iter().flatten().map(|series| &**series);
        let boxes = self.keyed.iter().flatten().count() * size_of::<Series>();
        let series = self.one.iter().chain(keyed);
        boxes
            + series
                .map(|series| each!(series, series => series.memory()))
                .sum::<usize>()
    }
}

/// What functions make of no sample at all: nothing happened is 0, and nothing measured is unknown.
fn nothing(function: Function, at: Moment) -> Option<f64> {
    match function {
        Function::Count | Function::Sum | Function::Streak | Function::Rises | Function::Turns => Some(0.0),
        Function::Rate | Function::Share => (at.watched > 0).then_some(0.0),
        _ => None,
    }
}

fn worth(window: &Window, scope: &Scope<'_>) -> Result<Worth, EvaluationError> {
    if let Some(filter) = &window.filter {
        match filter.holds(scope)? {
            Some(true) => {}
            Some(false) => return Ok(Worth::Not),
            None => return Ok(Worth::Unknown),
        }
    }
    let Some(of) = &window.of else {
        return Ok(Worth::Counts(1.0));
    };
    let Some(value) = of.evaluate(scope)? else {
        return Ok(Worth::Unknown);
    };
    let number = value.as_number().ok_or(EvaluationError::Type)?;
    Ok(if !number.is_finite() {
        Worth::Unknown
    } else if counts(window.function) {
        Worth::Counts(1.0)
    } else {
        Worth::Counts(number)
    })
}

/// The most bytes that the samples of `window` take for one process.
pub fn most_memory(window: &Window) -> usize {
    let one = each!(&Series::new(window), series => series.most_memory());
    match window.by {
        By::Nothing => one,
        By::GenerationAndType => Key::COUNT * (size_of::<Series>() + one),
    }
}

#[cfg(test)]
mod tests;
