//! The samples of all series of a process.
//!
//! Series of one class are stored contiguously. The memory of a process is not in the CPU cache at its next collection,
//! which changes most of its series. Separate allocations would be spread over many pages, each with its own cache
//! misses.

use base::time::Moment;

use super::aggregate::{Counts, Ends, Extremes, Sums, Trend};
use super::buckets::Buckets;
use super::few::{self, RecentSamples};
use super::latest::Latest;
use super::occasions::{Occasions, Uniform};
use super::samples::Samples;
use super::{Class, Key, MAX_LAST, MAX_SAMPLES, ReadContext, SampleValue, SeriesSample, SeriesState, nothing};
use crate::rule::{ComparisonKey, Extent, Window};

/// Number of series by which the capacity of a class grows.
const MORE: usize = 4;

/// Minimum number of bytes that a series counts for. This minimum ensures that loaded rules
/// (`rule_language::MAX_WINDOW_BYTES`) never have more series than a `u16` can number.
const MIN_SERIES_BYTES: usize = 64;

/// Location of the samples of a series: its class, and its position in the order in which the series of that class
/// started.
#[derive(Debug, Clone, Copy)]
pub(crate) enum SeriesAt {
    Counts(u16),
    Sums(u16),
    Extremes(u16),
    Ends(u16),
    Trend(u16),
    Latest(u16),
    Few(u16),
    Samples(u16),
    /// Six series, by [`Key`].
    Keyed(u16),
}

/// The samples of the series of one process.
#[derive(Debug, Default)]
pub(crate) struct SeriesSet {
    counts: Vec<Buckets<Counts>>,
    sums: Vec<Buckets<Sums>>,
    extremes: Vec<Buckets<Extremes>>,
    ends: Vec<Buckets<Ends>>,
    trend: Vec<Buckets<Trend>>,
    latest: Vec<Latest>,
    few: Vec<RecentSamples>,
    samples: Vec<Samples>,
    keyed: Vec<[Option<SeriesAt>; Key::COUNT]>,
}

/// Runs code on a series of any class. Returns `None` if the series is divided by key or does not exist.
macro_rules! at {
    ($set:expr, $at:expr, $get:ident, $one:ident => $run:expr) => {
        at!($set, $at, $get, $one => $run; Counts counts, Sums sums, Extremes extremes, Ends ends, Trend trend,
            Latest latest, Few few, Samples samples)
    };
    ($set:expr, $at:expr, $get:ident, $one:ident => $run:expr; $($class:ident $field:ident),*) => {
        match $at {
            $(SeriesAt::$class(place) => $set.$field.$get(usize::from(place)).map(|$one| $run),)*
            SeriesAt::Keyed(_) => None,
        }
    };
}

/// Runs code on all series.
macro_rules! each {
    ($set:expr, $iter:ident, $one:ident => $run:expr) => {
        each!($set, $iter, $one => $run; counts sums extremes ends trend latest few samples)
    };
    ($set:expr, $iter:ident, $one:ident => $run:expr; $($field:ident)*) => {
        $(for $one in $set.$field.$iter() {
            $run;
        })*
    };
}

impl SeriesSet {
    /// Starts the series of a window. Returns `None` if there are too many series, which cannot happen with loaded
    /// rules ([`MIN_SERIES_BYTES`]).
    fn begin(&mut self, window: &Window) -> Option<SeriesAt> {
        if window.by == ComparisonKey::GenerationAndType {
            return put(&mut self.keyed, [None; Key::COUNT]).map(SeriesAt::Keyed);
        }
        self.begin_whole(window)
    }

    fn begin_whole(&mut self, window: &Window) -> Option<SeriesAt> {
        let class = Class::for_window(window);
        let (over, most) = match window.extent {
            Extent::Last(n) => (None, usize::try_from(n).unwrap_or(MAX_LAST).min(MAX_LAST)),
            Extent::Over(ns) => (Some(ns), MAX_SAMPLES),
        };
        let length = over.unwrap_or(u64::MAX);
        match class {
            Class::Counts => put(&mut self.counts, Buckets::over(length)).map(SeriesAt::Counts),
            Class::Sums => put(&mut self.sums, Buckets::over(length)).map(SeriesAt::Sums),
            Class::Extremes => put(&mut self.extremes, Buckets::over(length)).map(SeriesAt::Extremes),
            Class::Ends => put(&mut self.ends, Buckets::over(length)).map(SeriesAt::Ends),
            Class::Trend => put(&mut self.trend, Buckets::over(length)).map(SeriesAt::Trend),
            Class::Latest => put(&mut self.latest, Latest::default()).map(SeriesAt::Latest),
            Class::Marks | Class::Samples | Class::Sorted if over.is_none() && most <= few::MAX_SAMPLES => {
                put(&mut self.few, RecentSamples::new(most)).map(SeriesAt::Few)
            }
            Class::Marks | Class::Samples | Class::Runs | Class::Sorted => {
                put(&mut self.samples, Samples::new(class, most, over)).map(SeriesAt::Samples)
            }
        }
    }

    /// Starts a series whose earlier samples were all alike. The window must use sub-intervals.
    fn begin_uniform(&mut self, window: &Window, uniform: Uniform, before: &Occasions) -> Option<SeriesAt> {
        match Class::for_window(window) {
            Class::Counts => put(&mut self.counts, uniform.series(before)).map(SeriesAt::Counts),
            Class::Sums => put(&mut self.sums, uniform.series(before)).map(SeriesAt::Sums),
            Class::Extremes => put(&mut self.extremes, uniform.series(before)).map(SeriesAt::Extremes),
            Class::Ends => put(&mut self.ends, uniform.series(before)).map(SeriesAt::Ends),
            Class::Trend => put(&mut self.trend, uniform.series(before)).map(SeriesAt::Trend),
            Class::Latest | Class::Marks | Class::Samples | Class::Runs | Class::Sorted => self.begin(window),
        }
    }

    /// Returns the state of a series that stores no samples, after a sample, and the time at which it expires.
    /// `occasions` contains the times of earlier samples and expires separately.
    pub(crate) fn take(
        &mut self,
        kept: SeriesState,
        sample: &SeriesSample,
        window: &Window,
        occasions: Option<&Occasions>,
    ) -> (Option<SeriesState>, Moment) {
        let class = Class::for_window(window);
        let contains = sample.worth != SampleValue::Not || class.counts();
        let began = match kept {
            SeriesState::Uniform(uniform) if uniform.is(sample.worth) => return (Some(kept), Moment::NEVER),
            SeriesState::Uniform(uniform) => match occasions {
                Some(before) => self.begin_uniform(window, uniform, before),
                None => self.begin(window),
            },
            _ if !contains => return (Some(SeriesState::Nothing), Moment::NEVER),
            _ => {
                let uniform = Uniform::from_first(class, sample.worth);
                match uniform.filter(|_| occasions.is_some_and(Occasions::is_fresh)) {
                    Some(uniform) => return (Some(SeriesState::Uniform(uniform)), Moment::NEVER),
                    None => self.begin(window),
                }
            }
        };
        let expires = match began {
            Some(at) if contains => self.add(at, sample, || Some(window)),
            _ => Moment::NEVER,
        };
        (began.map(SeriesState::Samples), expires)
    }

    /// Adds a sample to a series. A series by key ignores a sample without a key. Expired samples must already be
    /// removed. `window` returns a window of the series. Returns the time at which the next sample expires.
    #[inline]
    pub(crate) fn add<'w>(
        &mut self,
        series: SeriesAt,
        sample: &SeriesSample,
        window: impl FnOnce() -> Option<&'w Window>,
    ) -> Moment {
        let series = match series {
            SeriesAt::Keyed(place) => match self.get_or_begin(place, sample.key, window) {
                Some(series) => series,
                None => return Moment::NEVER,
            },
            whole => whole,
        };
        let (worth, time, now) = (sample.worth, sample.time.min(sample.now).ns(), sample.now.ns());
        let expires = at!(self, series, get_mut, series => series.add(worth, time, now));
        expires.map_or(Moment::NEVER, Moment::from_ns)
    }

    fn get_or_begin<'w>(
        &mut self,
        place: u16,
        key: Option<Key>,
        window: impl FnOnce() -> Option<&'w Window>,
    ) -> Option<SeriesAt> {
        let known = *self.keyed.get(usize::from(place))?.get(key?.0)?;
        if known.is_none() {
            let began = self.begin_whole(window()?);
            *self.keyed.get_mut(usize::from(place))?.get_mut(key?.0)? = began;
            return began;
        }
        known
    }

    /// Reads the memory that most samples change. The result has no meaning.
    pub(crate) fn touch(&self) -> u64 {
        let mut read = 0;
        each!(self, iter, series => read ^= series.touch());
        read
    }

    /// Removes expired samples. Returns the time at which the next sample expires.
    pub(crate) fn expire(&mut self, now: Moment) -> Moment {
        let (now, mut next) = (now.ns(), u64::MAX);
        each!(self, iter_mut, series => next = next.min(series.expire(now)));
        Moment::from_ns(next)
    }

    /// Takes a series from another set.
    pub(crate) fn take_from(&mut self, other: &mut Self, series: SeriesAt) -> Option<SeriesAt> {
        fn moved<T>(from: &mut [T], place: u16, to: &mut Vec<T>, nothing: T) -> Option<u16> {
            put(to, std::mem::replace(from.get_mut(usize::from(place))?, nothing))
        }
        match series {
            SeriesAt::Counts(place) => {
                moved(&mut other.counts, place, &mut self.counts, Buckets::over(0)).map(SeriesAt::Counts)
            }
            SeriesAt::Sums(place) => {
                moved(&mut other.sums, place, &mut self.sums, Buckets::over(0)).map(SeriesAt::Sums)
            }
            SeriesAt::Extremes(place) => {
                moved(&mut other.extremes, place, &mut self.extremes, Buckets::over(0)).map(SeriesAt::Extremes)
            }
            SeriesAt::Ends(place) => {
                moved(&mut other.ends, place, &mut self.ends, Buckets::over(0)).map(SeriesAt::Ends)
            }
            SeriesAt::Trend(place) => {
                moved(&mut other.trend, place, &mut self.trend, Buckets::over(0)).map(SeriesAt::Trend)
            }
            SeriesAt::Latest(place) => {
                moved(&mut other.latest, place, &mut self.latest, Latest::default()).map(SeriesAt::Latest)
            }
            SeriesAt::Few(place) => {
                moved(&mut other.few, place, &mut self.few, RecentSamples::new(0)).map(SeriesAt::Few)
            }
            SeriesAt::Samples(place) => {
                let nothing = Samples::new(Class::Samples, 0, None);
                moved(&mut other.samples, place, &mut self.samples, nothing).map(SeriesAt::Samples)
            }
            SeriesAt::Keyed(place) => {
                let keyed = *other.keyed.get(usize::from(place))?;
                let keyed = keyed.map(|series| self.take_from(other, series?));
                put(&mut self.keyed, keyed).map(SeriesAt::Keyed)
            }
        }
    }

    /// Returns the value of a window on a series, or `None` if it is unknown. `is_enough` decides whether the numbers
    /// of known and unknown samples suffice.
    pub(super) fn value(
        &self,
        series: SeriesAt,
        window: &Window,
        key: Option<Key>,
        at: ReadContext,
        is_enough: impl Fn((u64, u64)) -> bool,
    ) -> Option<f64> {
        let series = match series {
            SeriesAt::Keyed(place) => match *self.keyed.get(usize::from(place))?.get(key?.0)? {
                Some(series) => series,
                None => return nothing(window, at),
            },
            whole => whole,
        };
        if !at!(self, series, get, series => is_enough(series.samples()))? {
            return None;
        }
        at!(self, series, get, series => series.answer(window, at))?.filter(|value| value.is_finite())
    }

    /// Returns the memory on the heap, in bytes.
    pub(crate) fn memory(&self) -> usize {
        let mut memory = self.keyed.capacity() * size_of::<[Option<SeriesAt>; Key::COUNT]>();
        each!(self, iter, series => memory += size_of_val(series) + series.memory());
        memory
    }

    /// Returns the maximum memory of the samples of `window` for one process, in bytes.
    pub(crate) fn most_memory(window: &Window) -> usize {
        let mut alone = Self::default();
        let one = alone.begin_whole(window).and_then(|series| {
            // While the vector of a class grows, the memory of each series is allocated twice.
            let memory = at!(alone, series, get, series => 2 * size_of_val(series) + series.most_memory());
            memory.map(|memory| memory.max(MIN_SERIES_BYTES))
        });
        match window.by {
            ComparisonKey::Nothing => one.unwrap_or_default(),
            ComparisonKey::GenerationAndType => Key::COUNT * (size_of::<Option<SeriesAt>>() + one.unwrap_or_default()),
        }
    }
}

/// Appends a series to its class.
fn put<T>(class: &mut Vec<T>, series: T) -> Option<u16> {
    let place = u16::try_from(class.len()).ok()?;
    if class.len() == class.capacity() {
        class.reserve_exact(MORE);
    }
    class.push(series);
    Some(place)
}
