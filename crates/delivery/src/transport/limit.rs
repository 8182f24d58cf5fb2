//! A limit on how often the same thing is logged. Pure: time is an argument.

use std::time::Duration;

use tokio::time::Instant;

/// The same kind of message is logged once in this time.
const EVERY: Duration = Duration::from_secs(60);

/// Allows something once a minute at most.
#[derive(Debug, Default)]
pub(crate) struct RateLimit(Option<Instant>);

impl RateLimit {
    /// Whether it is allowed at `now`; then it is not for the next minute.
    pub(crate) fn allows(&mut self, now: Instant) -> bool {
        let allowed = self.0.is_none_or(|last| now >= last + EVERY);
        if allowed {
            self.0 = Some(now);
        }
        allowed
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test begins at some time")]
mod tests {
    use super::*;

    /// Scenario: something happens every ten seconds for five minutes.
    /// Guarantee: it is allowed at once and then once a minute.
    #[test]
    fn once_a_minute() {
        let (mut limit, begin) = (RateLimit::default(), Instant::now());
        let times = (0..30).map(|round| begin + Duration::from_secs(10 * round));
        assert_eq!(times.filter(|now| limit.allows(*now)).count(), 5);
    }
}
