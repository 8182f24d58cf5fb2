//! Pauses between retries. Pure: randomness is an argument.

use std::time::Duration;

/// Pauses that grow with each failure, with jitter, so that clients that failed together do not retry together.
///
/// After `n` failures the bound is `min(first * 2^n, most)`. With `chance` uniform in 0..1, a pause is uniform in
/// `[bound / 2, bound]` ([`next`](Self::next)), or in `[0, bound]` for many clients of one server
/// ([`full_jitter`](Self::full_jitter)).
///
/// ```
/// use std::time::Duration;
///
/// use base::backoff::Backoff;
///
/// let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(30));
/// assert_eq!(backoff.next(1.0), Duration::from_secs(1));
/// assert_eq!(backoff.next(0.5), Duration::from_millis(1500));
/// backoff.reset();
/// assert_eq!(backoff.next(0.0), Duration::from_millis(500));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backoff {
    first: Duration,
    most: Duration,
    failures: u32,
}

impl Backoff {
    /// Creates a backoff without failures.
    pub const fn new(first: Duration, most: Duration) -> Self {
        Self {
            first,
            most,
            failures: 0,
        }
    }

    /// Returns the backoff after the given number of failures, for a caller that counts failures itself.
    #[must_use]
    pub const fn after(mut self, failures: u32) -> Self {
        self.failures = failures;
        self
    }

    /// Returns the maximum duration of the next pause.
    pub fn bound(&self) -> Duration {
        let factor = 1_u32.checked_shl(self.failures).unwrap_or(u32::MAX);
        self.first.saturating_mul(factor).min(self.most)
    }

    /// Records a failure and returns the pause, uniform in `[bound / 2, bound]`.
    pub fn next(&mut self, chance: f64) -> Duration {
        let half = self.bound() / 2;
        half + self.full_jitter(chance).div_f64(2.0).min(half)
    }

    /// Records a failure and returns the pause, uniform in `[0, bound]`.
    pub fn full_jitter(&mut self, chance: f64) -> Duration {
        // `clamp` would pass NaN on.
        let chance = if chance >= 0.0 { chance.min(1.0) } else { 0.0 };
        let bound = self.bound();
        self.failures = self.failures.saturating_add(1);
        bound.mul_f64(chance).min(bound)
    }

    /// Records a success. The next pause is the first pause again.
    pub fn reset(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const FIRST: Duration = Duration::from_millis(500);
    const MAX_DELAY: Duration = Duration::from_secs(60);

    /// Scenario: several failures in a row with the highest chance are followed by a success.
    /// Guarantee: pauses double from the first to the longest, stay there, and start again after the success.
    #[test]
    fn pauses_double_up_to_the_maximum() {
        let mut backoff = Backoff::new(FIRST, MAX_DELAY);
        let pauses: Vec<_> = (0..9).map(|_| backoff.next(1.0).as_millis()).collect();
        assert_eq!(pauses, [500, 1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000]);
        backoff.reset();
        assert_eq!(backoff, Backoff::new(FIRST, MAX_DELAY));
        assert_eq!(backoff.clone().after(3).next(0.0), Duration::from_secs(2));
        assert_eq!(backoff.after(u32::MAX).full_jitter(1.0), MAX_DELAY);
    }

    proptest! {
        /// Scenario: pauses are computed for any first and longest pause, any number of failures, and any chance,
        /// including NaN and infinities.
        /// Guarantee: no call panics; a pause is between half the bound (with full jitter, 0) and the bound, and a
        /// failure does not lower the bound.
        #[test]
        fn pauses_are_within_bounds(
            first in 0_u64..10_000_000_000_000,
            most in 0_u64..10_000_000_000_000,
            failures in prop_oneof![0_u32..80, Just(u32::MAX)],
            chance in prop_oneof![0.0..=1.0_f64, any::<f64>()],
        ) {
            let backoff = Backoff::new(Duration::from_nanos(first), Duration::from_nanos(most)).after(failures);
            let bound = backoff.bound();
            prop_assert!(bound <= Duration::from_nanos(most));
            let mut equal = backoff.clone();
            let pause = equal.next(chance);
            prop_assert!(bound / 2 <= pause && pause <= bound);
            prop_assert!(equal.bound() >= bound);
            prop_assert!(backoff.clone().full_jitter(chance) <= bound);
        }
    }
}
