//! Counters of the source of pod metadata.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Counters of one source.
#[derive(Debug, Default)]
pub struct Stats {
    current: AtomicBool,
    lists: AtomicU64,
    events: AtomicU64,
    failures: AtomicU64,
    left_out: AtomicU64,
}

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
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        StatsNow {
            current: self.current.load(Ordering::Relaxed),
            lists: get(&self.lists),
            events: get(&self.events),
            failures: get(&self.failures),
            left_out: get(&self.left_out),
        }
    }

    /// Whether this is a change.
    pub(crate) fn set_current(&self, current: bool) -> bool {
        self.current.swap(current, Ordering::Relaxed) != current
    }

    pub(crate) fn list(&self) {
        self.lists.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn event(&self) {
        self.events.fetch_add(1, Ordering::Relaxed);
    }

    /// The number of earlier failures.
    pub(crate) fn failure(&self) -> u64 {
        self.failures.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn left_out(&self, pods: u64) {
        self.left_out.fetch_add(pods, Ordering::Relaxed);
    }
}
