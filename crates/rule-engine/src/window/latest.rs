//! Windows of one sample.

use super::{ReadContext, SampleValue};
use crate::rule::Window;

/// The newest sample. If two samples have the same time, the last one added is newer.
#[derive(Debug)]
pub(super) struct Latest {
    time: u64,
    /// NaN if the value is unknown.
    value: f64,
}

impl Default for Latest {
    fn default() -> Self {
        Self {
            time: 0,
            value: f64::NAN,
        }
    }
}

impl Latest {
    pub(super) fn add(&mut self, worth: SampleValue, time: u64, _now: u64) -> u64 {
        if time < self.time {
            return u64::MAX;
        }
        self.time = time;
        self.value = match worth {
            SampleValue::Counts(value) => value,
            SampleValue::Not | SampleValue::Unknown => f64::NAN,
        };
        u64::MAX
    }

    pub(super) fn touch(&self) -> u64 {
        self.time
    }

    /// The sample stays until another sample is added.
    #[expect(clippy::unused_self, reason = "all kinds of series have the same method")]
    pub(super) fn expire(&mut self, _now: u64) -> u64 {
        u64::MAX
    }

    pub(super) fn samples(&self) -> (u64, u64) {
        let known = u64::from(!self.value.is_nan());
        (known, 1 - known)
    }

    pub(super) fn answer(&self, _window: &Window, _at: ReadContext) -> Option<f64> {
        Some(self.value).filter(|value| !value.is_nan())
    }

    #[expect(clippy::unused_self, reason = "all kinds of series have the same method")]
    pub(super) fn memory(&self) -> usize {
        0
    }

    #[expect(clippy::unused_self, reason = "all kinds of series have the same method")]
    pub(super) fn most_memory(&self) -> usize {
        0
    }
}
