//! What is counted of the asking.

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

/// The same at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StatsNow {
    /// What is known is as it is: the source answered last.
    pub current: bool,
    /// Lists that were read to the end.
    pub lists: u64,
    /// Changes of pods that were told.
    pub events: u64,
    /// Requests that failed, and watches that broke.
    pub failures: u64,
    /// Pods that were not kept because there were too many, or that could not be read.
    pub left_out: u64,
}

impl Stats {
    /// As they are.
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

    /// Whether it was otherwise before.
    pub(crate) fn set_current(&self, current: bool) -> bool {
        self.current.swap(current, Ordering::Relaxed) != current
    }

    pub(crate) fn list(&self) {
        self.lists.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn event(&self) {
        self.events.fetch_add(1, Ordering::Relaxed);
    }

    /// How many there were before.
    pub(crate) fn failure(&self) -> u64 {
        self.failures.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn left_out(&self, pods: u64) {
        self.left_out.fetch_add(pods, Ordering::Relaxed);
    }
}
