//! What the rules `on: watcher` are evaluated on: when gcwatch stalled.

use std::collections::VecDeque;
use std::time::Duration;

use gc_rules::field::WatcherFacts;
use gc_rules::time::moved;

/// The time over which stalls are counted.
const COUNTED_NS: u64 = 10 * 60 * 1_000_000_000;

/// Limit of stalls that are remembered.
const MAX_STALLS: usize = 128;

/// When gcwatch stalled.
#[derive(Debug, Default)]
pub(crate) struct WatcherLog {
    stalls: VecDeque<(u64, Duration)>,
}

impl WatcherLog {
    /// It stalled for so long until now.
    pub(crate) fn stalled(&mut self, length: Duration, now_unix_ns: u64) {
        if self.stalls.len() >= MAX_STALLS {
            self.stalls.pop_front();
        }
        self.stalls.push_back((now_unix_ns, length));
    }

    /// The wall clock was set by so much.
    pub(crate) fn clock_was_set(&mut self, by_ns: i64) {
        for (at, _) in &mut self.stalls {
            *at = moved(*at, by_ns);
        }
    }

    pub(super) fn facts(&mut self, now_unix_ns: u64) -> WatcherFacts {
        self.stalls
            .retain(|(at, _)| now_unix_ns.saturating_sub(*at) < COUNTED_NS);
        let newest = self.stalls.back().map(|(_, length)| length.as_nanos());
        WatcherFacts {
            stalls_10m: self.stalls.len() as u64,
            stall_ns: newest.map(|ns| u64::try_from(ns).unwrap_or(u64::MAX)),
        }
    }
}
