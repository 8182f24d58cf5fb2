//! The window of one sample.

use super::{Moment, Worth};
use crate::rule::Window;

/// The newest sample; of two of one time the one that came last.
#[derive(Debug, Default)]
pub(super) struct Latest {
    time: u64,
    /// `None`: of unknown worth.
    value: Option<f64>,
}

impl Latest {
    pub(super) fn add(&mut self, worth: Worth, time: u64, _now: u64) -> u64 {
        if time < self.time {
            return u64::MAX;
        }
        self.time = time;
        self.value = match worth {
            Worth::Counts(value) => Some(value),
            Worth::Not | Worth::Unknown => None,
        };
        u64::MAX
    }

    /// It stays until another one comes.
    #[expect(clippy::unused_self, reason = "one of the kinds of series, which all have it")]
    pub(super) fn expire(&mut self, _now: u64) -> u64 {
        u64::MAX
    }

    pub(super) fn samples(&self) -> (u64, u64) {
        let known = u64::from(self.value.is_some());
        (known, 1 - known)
    }

    pub(super) fn answer(&self, _window: &Window, _at: Moment) -> Option<f64> {
        self.value
    }

    #[expect(clippy::unused_self, reason = "one of the kinds of series, which all have it")]
    pub(super) fn memory(&self) -> usize {
        0
    }

    #[expect(clippy::unused_self, reason = "one of the kinds of series, which all have it")]
    pub(super) fn most_memory(&self) -> usize {
        0
    }
}
