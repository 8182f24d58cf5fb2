//! How long to wait before something is tried again.

use std::time::Duration;

/// The first pause.
pub(crate) const FIRST: Duration = Duration::from_millis(500);
/// The longest pause.
pub(crate) const LONGEST: Duration = Duration::from_secs(60);
/// A session that lived as long was a good one: what comes after it is no repetition.
pub(crate) const GOOD_LIFE: Duration = Duration::from_secs(30);

/// Pauses that double from [`FIRST`] to [`LONGEST`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Backoff {
    pause: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { pause: FIRST }
    }
}

impl Backoff {
    /// The next pause. `jitter`, 0 to 1, moves it by up to a quarter either way, so that what failed together is not tried together.
    pub(crate) fn next(&mut self, jitter: f64) -> Duration {
        let pause = self.pause;
        self.pause = pause.saturating_mul(2).min(LONGEST);
        pause.mul_f64(0.75 + 0.5 * jitter.clamp(0.0, 1.0))
    }

    /// It worked: the next pause is the first again.
    pub(crate) fn reset(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: failures in a row, then a success.
    /// Guarantee: pauses double from 0.5 s to 60 s and stay there, a quarter either way by jitter, and begin anew after a success.
    #[test]
    fn pauses_double_up_to_a_minute() {
        let mut backoff = Backoff::default();
        let pauses: Vec<_> = (0..10).map(|_| backoff.next(0.5).as_millis()).collect();
        assert_eq!(
            pauses,
            [500, 1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000, 60_000]
        );
        assert_eq!(backoff.next(0.0), Duration::from_secs(45));
        assert_eq!(backoff.next(1.0), Duration::from_secs(75));
        backoff.reset();
        assert_eq!(backoff.next(0.5), FIRST);
    }
}
