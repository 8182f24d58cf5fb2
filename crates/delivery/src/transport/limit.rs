//! Limits the rate at which the same message is logged. Pure: time is an argument.

use std::time::Duration;

use tokio::time::Instant;

/// Minimum interval between messages of the same kind.
const MESSAGE_INTERVAL: Duration = Duration::from_secs(60);

/// A limit that allows an action at most once per minute.
#[derive(Debug, Default)]
pub(crate) struct RateLimit(Option<Instant>);

impl RateLimit {
    /// Returns whether the action is allowed at `now`. If so, the action is not allowed again for a minute.
    pub(crate) fn allows(&mut self, now: Instant) -> bool {
        let allowed = self.0.is_none_or(|last| now >= last + MESSAGE_INTERVAL);
        if allowed {
            self.0 = Some(now);
        }
        allowed
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the test needs a start time")]
mod tests {
    use super::*;

    /// Scenario: an action is requested every ten seconds for five minutes.
    /// Guarantee: the action is allowed at once and then once per minute.
    #[test]
    fn action_is_allowed_once_per_minute() {
        let (mut limit, begin) = (RateLimit::default(), Instant::now());
        let times = (0..30).map(|round| begin + Duration::from_secs(10 * round));
        assert_eq!(times.filter(|now| limit.allows(*now)).count(), 5);
    }
}
