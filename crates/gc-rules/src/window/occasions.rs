//! When samples were taken, for all series of one time and one length; and series of which every sample is alike.
//!
//! Half of the series of a process never see anything: the field is unknown in its version, or the condition is of what
//! does not happen. What such a series would keep follows from how many samples were taken when, which is kept once.

use base::time::Moment;

use super::aggregate::{Aggregate, Counts, Sums};
use super::buckets::{Buckets, Tally};
use super::{Asked, Class, Worth};
use crate::rule::Window;

/// The number of samples that were taken in each sub-interval of a length.
#[derive(Debug)]
pub(crate) struct Occasions {
    buckets: Buckets<Counts>,
    /// None was taken yet.
    fresh: bool,
}

impl Occasions {
    /// Of that many nanoseconds, without a sample.
    pub(crate) fn over(ns: u64) -> Self {
        Self {
            buckets: Buckets::over(ns),
            fresh: true,
        }
    }

    /// Whether no sample was taken yet: a series that begins now can be [`Uniform`].
    pub(crate) fn is_fresh(&self) -> bool {
        self.fresh
    }

    /// Reads the memory that each sample changes. The result is of no use.
    pub(crate) fn touch(&self) -> u64 {
        self.buckets.touch()
    }

    /// A sample was taken, and was added to the series. Returns when the oldest expires.
    pub(crate) fn add(&mut self, time: Moment, now: Moment) -> Moment {
        self.fresh = false;
        let (time, now) = (time.min(now).ns(), now.ns());
        Moment::from_ns(self.buckets.add(Worth::Counts(1.0), time, now))
    }

    /// Removes expired samples. Returns when the next one expires.
    pub(crate) fn expire(&mut self, now: Moment) -> Moment {
        Moment::from_ns(self.buckets.expire(now.ns()))
    }

    /// Bytes on the heap.
    pub(crate) fn memory(&self) -> usize {
        self.buckets.memory()
    }

    /// The maximum of [`Self::memory`].
    pub(crate) fn most_memory(&self) -> usize {
        self.buckets.most_memory()
    }
}

/// What every sample of a series was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Uniform {
    Unknown,
    /// The filter is false. For series that count.
    Not,
    /// It counts. For series that count.
    Counts,
    /// It counts, and what is measured of it is 0. For series of sums.
    Zero,
}

impl Uniform {
    /// That of a series of which this is the first sample; `None`: it keeps its samples, or does not contain this one.
    pub(crate) fn of(class: Class, worth: Worth) -> Option<Self> {
        match (class, worth) {
            (Class::Counts, Worth::Counts(_)) => Some(Self::Counts),
            (Class::Counts, Worth::Not) => Some(Self::Not),
            (Class::Sums, Worth::Counts(0.0)) => Some(Self::Zero),
            (Class::Counts | Class::Sums | Class::Extremes | Class::Ends | Class::Trend, Worth::Unknown) => {
                Some(Self::Unknown)
            }
            _ => None,
        }
    }

    /// Whether another sample is like those before it.
    pub(crate) fn is(self, worth: Worth) -> bool {
        match self {
            Self::Unknown => worth == Worth::Unknown,
            Self::Not => worth == Worth::Not,
            Self::Counts => matches!(worth, Worth::Counts(_)),
            Self::Zero => worth == Worth::Counts(0.0),
        }
    }

    /// So many of them.
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

    /// The series that contains them.
    pub(super) fn series<A: Aggregate>(self, occasions: &Occasions) -> Buckets<A> {
        occasions.buckets.map(|taken| self.tally(taken))
    }

    /// How many of known and of unknown worth there are.
    pub(super) fn samples(self, occasions: &Occasions) -> (u64, u64) {
        match (self, occasions.buckets.samples()) {
            (Self::Unknown, (taken, _)) => (0, taken),
            (_, (taken, _)) => (taken, 0),
        }
    }

    pub(super) fn answer(self, window: &Window, at: Asked, occasions: &Occasions) -> Option<f64> {
        let length = || occasions.buckets.length(at);
        let taken = occasions.buckets.total();
        match Class::of(window) {
            Class::Counts => {
                let total: Tally<Counts> = self.tally(&taken);
                total.aggregate.answer(total.known, window.function, &length)
            }
            Class::Sums => {
                let total: Tally<Sums> = self.tally(&taken);
                total.aggregate.answer(total.known, window.function, &length)
            }
            // None of them is of nothing.
            _ => None,
        }
    }
}
