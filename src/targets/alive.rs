//! When the two parts that run beside everything else were alive last: the thread that reads, and the supervisor.
//!
//! Each says so itself, every second, also when it has nothing to do.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// How often a part says that it is alive.
pub(crate) const SAYS_EVERY: Duration = Duration::from_secs(1);

/// When each part was alive last.
#[derive(Debug)]
pub struct Alive {
    began: Instant,
    reading_ms: AtomicU64,
    supervisor_ms: AtomicU64,
}

impl Alive {
    /// Both are alive now: one that never begins is late as any other.
    pub fn new(now: Instant) -> Self {
        Self {
            began: now,
            reading_ms: AtomicU64::new(0),
            supervisor_ms: AtomicU64::new(0),
        }
    }

    pub(crate) fn reading(&self, now: Instant) {
        self.note(&self.reading_ms, now);
    }

    pub(crate) fn supervisor(&self, now: Instant) {
        self.note(&self.supervisor_ms, now);
    }

    fn note(&self, part: &AtomicU64, now: Instant) {
        let since = now.saturating_duration_since(self.began).as_millis();
        part.store(u64::try_from(since).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Each part, and how long ago it was alive.
    pub fn ages(&self, now: Instant) -> [(&'static str, Duration); 2] {
        let since = now.saturating_duration_since(self.began);
        let age = |part: &AtomicU64| since.saturating_sub(Duration::from_millis(part.load(Ordering::Relaxed)));
        [
            ("reading", age(&self.reading_ms)),
            ("supervisor", age(&self.supervisor_ms)),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: one part says that it is alive, the other one never does.
    /// Guarantee: the age of each is from its own last word, at first from the beginning.
    #[test]
    fn ages_are_from_the_last_word() {
        let began = Instant::now();
        let at = |ms: u64| began + Duration::from_millis(ms);
        let alive = Alive::new(began);
        alive.reading(at(2500));
        let ages = alive.ages(at(4000));
        assert_eq!(
            ages,
            [
                ("reading", Duration::from_millis(1500)),
                ("supervisor", Duration::from_secs(4))
            ]
        );
    }
}
