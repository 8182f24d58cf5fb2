//! The wall clock was set: pure.
//!
//! The monotonic clock passes evenly, and not while the machine is suspended. The wall clock is steered, which both
//! follow, and set (by NTP, by a person), which only it follows; after a suspension it is ahead by the time of that.

use crate::clock::Clocks;

/// Steering moves the clocks against each other by at most 500 ppm, which is 30 ms in a minute.
const SET_NS: i128 = 100_000_000;

/// How far the two clocks are apart, as it was seen last.
#[derive(Debug, Clone, Copy, Default)]
pub struct WallClock {
    apart_ns: Option<i128>,
}

impl WallClock {
    /// What the clocks show now. `Some`: by how much the wall clock was set since the last call.
    pub fn observe(&mut self, clocks: Clocks) -> Option<i64> {
        let apart_ns = clocks.unix_ns - clocks.monotonic_ns;
        let before = self.apart_ns.replace(apart_ns)?;
        let by_ns = apart_ns - before;
        (by_ns.abs() >= SET_NS).then(|| i64::try_from(by_ns).ok()).flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i128 = 1_000_000;

    /// Scenario: the clocks are looked at every second or less often; the wall clock is steered by 0.4 ms each time; it
    /// is set forward by an hour, back by a minute; the machine is suspended for eight hours.
    /// Guarantee: steering is never a set clock, however long it lasts; each step is seen once, with its size.
    #[test]
    fn steps_are_seen_and_steering_is_not() {
        let mut clock = WallClock::default();
        let mut clocks = Clocks {
            monotonic_ns: 5000 * MS,
            unix_ns: 1_767_323_045_000 * MS,
        };
        assert_eq!(clock.observe(clocks), None);
        for _ in 0..10_000 {
            clocks.monotonic_ns += 1000 * MS;
            clocks.unix_ns += 1000 * MS + 4 * MS / 10;
            assert_eq!(clock.observe(clocks), None);
        }
        for (steps, by) in [(1, 3_600_000), (10, -60_000), (2, 8 * 3_600_000), (1, 150)] {
            clocks.unix_ns += by * MS;
            for step in 0..steps {
                clocks.monotonic_ns += 1000 * MS;
                clocks.unix_ns += 1000 * MS;
                let seen = (step == 0).then(|| i64::try_from(by * MS).unwrap());
                assert_eq!(clock.observe(clocks), seen, "{by} ms");
            }
        }
    }
}
