//! Counters of the source of pod metadata.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Counters of one source.
#[derive(Debug, Default)]
pub struct Stats(Mutex<StatsNow>);

/// [`Stats`] at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StatsNow {
    /// The last request succeeded: what is known of pods is current.
    pub current: bool,
    /// Lists that were read completely.
    pub lists: u64,
    /// Changes of pods received.
    pub events: u64,
    /// Failed requests and broken watches.
    pub failures: u64,
    /// Pods that were not kept: beyond the limit, or unreadable.
    pub left_out: u64,
}

impl Stats {
    /// Reads all counters.
    pub fn now(&self) -> StatsNow {
        *self.counts()
    }

    pub(crate) fn counts(&self) -> MutexGuard<'_, StatsNow> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this is a change.
    pub(crate) fn set_current(&self, current: bool) -> bool {
        std::mem::replace(&mut self.counts().current, current) != current
    }
}
