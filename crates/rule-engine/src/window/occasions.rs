//! The times of samples, stored once for all series of one trigger and one length; and series whose samples are all
//! alike.
//!
//! Half of the series of a process never receive a meaningful sample: the field is unknown in its version, or the
//! condition describes an event that does not occur. The contents of such a series follow from the number of samples
//! over time, which is stored once.

use base::time::Moment;

use super::aggregate::{Aggregate, Counts, Sums};
use super::buckets::{Buckets, Tally};
use super::{Class, ReadContext, SampleValue};
use crate::rule::Window;

/// Number of samples in each sub-interval of a length.
#[derive(Debug)]
pub(crate) struct Occasions {
    buckets: Buckets<Counts>,
    /// Whether there has been no sample yet.
    fresh: bool,
}

impl Occasions {
    /// Creates the counts for a length of `ns` nanoseconds, without samples.
    pub(crate) fn over(ns: u64) -> Self {
        Self {
            buckets: Buckets::over(ns),
            fresh: true,
        }
    }

    /// Returns whether there has been no sample yet. A series that starts now can be [`Uniform`].
    pub(crate) fn is_fresh(&self) -> bool {
        self.fresh
    }

    /// Reads the memory that each sample changes. The result has no meaning.
    pub(crate) fn touch(&self) -> u64 {
        self.buckets.touch()
    }

    /// Records a sample that was added to the series. Returns the time at which the oldest sample expires.
    pub(crate) fn add(&mut self, time: Moment, now: Moment) -> Moment {
        self.fresh = false;
        let (time, now) = (time.min(now).ns(), now.ns());
        Moment::from_ns(self.buckets.add(SampleValue::Counts(1.0), time, now))
    }

    /// Removes expired samples. Returns the time at which the next sample expires.
    pub(crate) fn expire(&mut self, now: Moment) -> Moment {
        Moment::from_ns(self.buckets.expire(now.ns()))
    }

    /// Returns the memory on the heap, in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.buckets.memory()
    }

    /// Returns the maximum of [`Self::memory`].
    pub(crate) fn most_memory(&self) -> usize {
        self.buckets.most_memory()
    }
}

/// The common property of all samples of a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Uniform {
    Unknown,
    /// The filter is false. Only for series that count.
    Not,
    /// The sample counts. Only for series that count.
    Counts,
    /// The sample counts and its value is 0. Only for series of sums.
    Zero,
}

impl Uniform {
    /// Returns the property of a series with this first sample, or `None` if the series stores its samples or ignores
    /// this sample.
    pub(crate) fn from_first(class: Class, worth: SampleValue) -> Option<Self> {
        match (class, worth) {
            (Class::Counts, SampleValue::Counts(_)) => Some(Self::Counts),
            (Class::Counts, SampleValue::Not) => Some(Self::Not),
            (Class::Sums, SampleValue::Counts(0.0)) => Some(Self::Zero),
            (Class::Counts | Class::Sums | Class::Extremes | Class::Ends | Class::Trend, SampleValue::Unknown) => {
                Some(Self::Unknown)
            }
            _ => None,
        }
    }

    /// Returns whether another sample is like the earlier samples.
    pub(crate) fn is(self, worth: SampleValue) -> bool {
        match self {
            Self::Unknown => worth == SampleValue::Unknown,
            Self::Not => worth == SampleValue::Not,
            Self::Counts => matches!(worth, SampleValue::Counts(_)),
            Self::Zero => worth == SampleValue::Counts(0.0),
        }
    }

    /// Returns the tally of the samples counted in `taken`.
    fn tally<A: Aggregate>(self, taken: &Tally<Counts>) -> Tally<A> {
        let (known, unknown) = if self == Self::Unknown {
            (0, taken.known)
        } else {
            (taken.known, 0)
        };
        let aggregate = if self == Self::Counts {
            A::fulfilled(taken.aggregate)
        } else {
            A::default()
        };
        Tally {
            known,
            unknown,
            aggregate,
        }
    }

    /// Returns the series that contains these samples.
    pub(super) fn series<A: Aggregate>(self, occasions: &Occasions) -> Buckets<A> {
        occasions.buckets.map(|taken| self.tally(taken))
    }

    /// Returns the number of samples with a known and with an unknown value.
    pub(super) fn samples(self, occasions: &Occasions) -> (u64, u64) {
        match (self, occasions.buckets.samples()) {
            (Self::Unknown, (taken, _)) => (0, taken),
            (_, (taken, _)) => (taken, 0),
        }
    }

    pub(super) fn answer(self, window: &Window, at: ReadContext, occasions: &Occasions) -> Option<f64> {
        let length = || occasions.buckets.length(at);
        let taken = occasions.buckets.total();
        match Class::for_window(window) {
            Class::Counts => {
                let total: Tally<Counts> = self.tally(&taken);
                total.aggregate.answer(total.known, window.function, &length)
            }
            Class::Sums => {
                let total: Tally<Sums> = self.tally(&taken);
                total.aggregate.answer(total.known, window.function, &length)
            }
            // Series of other classes are uniform only if all values are unknown.
            _ => None,
        }
    }
}
