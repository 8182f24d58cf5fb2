//! How many requests a process has a second: one with more than it may have for some seconds is asked no more, because
//! each costs it something. Pure.

use std::time::Duration;

use tokio::time::Instant;

/// After so many seconds above the limit of requests, the process is asked no more.
pub(super) const SECONDS_ABOVE: u32 = 10;

/// How many requests there are a second.
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

    /// Whether there were too many for too long.
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

    /// Scenario: 3,000 requests in each of twelve seconds with a limit of 2,000, and a second of none among them.
    /// Guarantee: ten seconds in a row above the limit end it, not before.
    #[test]
    fn a_rate_above_the_limit_ends_it() {
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
