//! Inputs of the rules `on: watcher`: the stalls of gcwatch.

use std::collections::VecDeque;
use std::time::Duration;

use base::time::Moment;
use rule_engine::field::WatcherFacts;

/// Period over which stalls are counted.
const COUNTED_NS: u64 = 10 * 60 * 1_000_000_000;

/// Maximum number of stalls that are remembered.
const MAX_STALLS: usize = 128;

/// The recent stalls of gcwatch.
#[derive(Debug, Default)]
pub(crate) struct WatcherLog {
    stalls: VecDeque<(Moment, Duration)>,
}

impl WatcherLog {
    /// Records that gcwatch was stalled for `length` until now.
    pub(crate) fn stalled(&mut self, length: Duration, now: Moment) {
        if self.stalls.len() >= MAX_STALLS {
            self.stalls.pop_front();
        }
        self.stalls.push_back((now, length));
    }

    pub(super) fn facts(&mut self, now: Moment) -> WatcherFacts {
        self.stalls.retain(|(at, _)| now.since(*at) < COUNTED_NS);
        let newest = self.stalls.back().map(|(_, length)| length.as_nanos());
        WatcherFacts {
            stalls_10m: self.stalls.len() as u64,
            stall_ns: newest.map(|ns| u64::try_from(ns).unwrap_or(u64::MAX)),
        }
    }
}
