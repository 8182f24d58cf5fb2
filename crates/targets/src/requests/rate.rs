//! Measures the number of requests per second. A process that exceeds its limit for several seconds is no longer
//! observed, because each request has a cost for the process. Pure.

use std::time::Duration;

use tokio::time::Instant;

/// Number of seconds above the limit after which requests are no longer read.
pub(super) const SECONDS_ABOVE: u32 = 10;

/// The number of requests per second.
pub(super) struct Rate {
    most: u32,
    since: Instant,
    seen: u64,
    above: u32,
}

impl Rate {
    pub(super) fn new(most: u32, now: Instant) -> Self {
        Self {
            most,
            since: now,
            seen: 0,
            above: 0,
        }
    }

    /// Returns whether the rate was above the limit for too long. `seen` is the total number of requests so far.
    pub(super) fn is_above(&mut self, seen: u64, now: Instant) -> bool {
        let passed = now.saturating_duration_since(self.since);
        if passed < Duration::from_secs(1) {
            return false;
        }
        let rate = seen.saturating_sub(self.seen) as f64 / passed.as_secs_f64();
        (self.since, self.seen) = (now, seen);
        self.above = if rate > f64::from(self.most) { self.above + 1 } else { 0 };
        self.above >= SECONDS_ABOVE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: a process has 3,000 requests in each of 14 seconds, except in the third second, which has no requests.
    /// The limit is 2,000.
    /// Guarantee: the rate counts as too high after 10 consecutive seconds above the limit, and not earlier.
    #[test]
    fn rate_above_limit_is_detected() {
        let begin = Instant::now();
        let mut rate = Rate::new(2000, begin);
        let mut ended = None;
        let mut seen = 0;
        for second in 1..=14_u64 {
            seen += if second == 3 { 0 } else { 3000 };
            if rate.is_above(seen, begin + Duration::from_secs(second)) {
                ended.get_or_insert(second);
            }
        }
        assert_eq!(ended, Some(13));
    }
}
