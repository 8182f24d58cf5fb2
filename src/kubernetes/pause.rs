//! How long to wait after a failure.

use std::time::Duration;

/// The pause after the first failure, and the longest.
pub(crate) const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// Pauses that double, each shortened by chance to at least a half, so that the agents of all nodes do not come back
/// together.
#[derive(Debug)]
pub(crate) struct Pause {
    first: Duration,
    longest: Duration,
    failures: u32,
}

impl Pause {
    pub(crate) const fn new((first, longest): (Duration, Duration)) -> Self {
        Self {
            first,
            longest,
            failures: 0,
        }
    }

    /// It worked: the next pause is the first again.
    pub(crate) const fn reset(&mut self) {
        self.failures = 0;
    }

    /// The next pause, for a random number from 0 to 1.
    pub(crate) fn next(&mut self, random: f64) -> Duration {
        let bound = self.first.saturating_mul(1 << self.failures.min(10)).min(self.longest);
        self.failures = self.failures.saturating_add(1);
        bound.mul_f64(0.5 + 0.5 * random)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: failures one after the other, then a success.
    /// Guarantee: each pause is longer, up to a minute, and after a success the first is used again.
    #[test]
    fn pauses_grow_to_a_minute() {
        let mut pause = Pause::new(PAUSES);
        assert_eq!(pause.next(1.0), PAUSES.0);
        assert_eq!(pause.next(0.0), PAUSES.0);
        assert_eq!(pause.next(1.0), PAUSES.0 * 4);
        let waits: Vec<_> = (0..50).map(|_| pause.next(1.0)).collect();
        assert!(
            waits.iter().all(|wait| *wait <= PAUSES.1) && waits.last() == Some(&PAUSES.1),
            "{waits:?}"
        );
        pause.reset();
        assert_eq!(pause.next(1.0), PAUSES.0);
    }
}
