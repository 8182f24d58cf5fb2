//! Counters of the source of pod metadata.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Counters of one source.
#[derive(Debug, Default)]
pub struct Stats(Mutex<StatsNow>);

/// A snapshot of [`Stats`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StatsNow {
    /// Whether the last request succeeded, so that the metadata of pods is current.
    pub current: bool,
    /// Number of lists that were read completely.
    pub lists: u64,
    /// Number of received changes of pods.
    pub events: u64,
    /// Number of failed requests and broken watches.
    pub failures: u64,
    /// Number of pods that were not kept because they were beyond the limit, or unreadable.
    pub left_out: u64,
}

impl Stats {
    /// Returns all counters.
    pub fn now(&self) -> StatsNow {
        *self.counts()
    }

    pub(crate) fn counts(&self) -> MutexGuard<'_, StatsNow> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets whether the metadata is current, and returns whether the value has changed.
    pub(crate) fn set_current(&self, current: bool) -> bool {
        std::mem::replace(&mut self.counts().current, current) != current
    }
}
