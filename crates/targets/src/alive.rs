//! When the two parts that run beside everything else were alive last: the thread that reads, and the supervisor.
//!
//! Each says so itself, every second, also when it has nothing to do.
//!
//! # How far streams were read
//!
//! What a runtime wrote waits in a socket until the reading thread comes to it. Between two words of that thread it
//! looked at every socket, and a stream rests for less than that, so what waited at one word was read by the next: all
//! streams are read up to the last word but one. While that is long ago, what they say of the present is not known, and
//! `pipeline` does not let the time of the rules pass. A stream that has more than can be read at once says so itself
//! ([`RunSink::undrained`](crate::sink::RunSink::undrained)).
//!
//! The clock is the monotonic one: it is paused while the machine is suspended, as all processes are.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// How often a part says that it is alive.
pub(crate) const SAYS_EVERY: Duration = Duration::from_secs(1);

/// When each part was alive last.
#[derive(Debug)]
pub struct Alive {
    began: Instant,
    reading_ms: AtomicU64,
    /// The last word of the reading thread but one.
    read_ms: AtomicU64,
    /// The longest silence of the reading thread since it was taken, and when it ended.
    silence: Mutex<Option<Silence>>,
    supervisor_ms: AtomicU64,
}

/// A time without a word of the reading thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Silence {
    pub length: Duration,
    /// When it was over.
    pub ended: Instant,
}

impl Alive {
    /// Both are alive now: one that never begins is late as any other.
    pub fn new(now: Instant) -> Self {
        Self {
            began: now,
            reading_ms: AtomicU64::new(0),
            read_ms: AtomicU64::new(0),
            silence: Mutex::default(),
            supervisor_ms: AtomicU64::new(0),
        }
    }

    /// The thread that reads is alive; called by it alone.
    pub(crate) fn reading(&self, now: Instant) {
        let before = self.reading_ms.load(Ordering::Relaxed);
        self.read_ms.store(before, Ordering::Relaxed);
        self.note(&self.reading_ms, now);
        let length = self.since_began(now).saturating_sub(Duration::from_millis(before));
        let mut silence = self.silence.lock().unwrap_or_else(PoisonError::into_inner);
        if silence.is_none_or(|longest| longest.length < length) {
            *silence = Some(Silence { length, ended: now });
        }
    }

    /// How long ago it was that all which had been written was read.
    pub fn behind(&self, now: Instant) -> Duration {
        let read = Duration::from_millis(self.read_ms.load(Ordering::Relaxed));
        self.since_began(now).saturating_sub(read)
    }

    /// The longest silence of the reading thread since the last call.
    pub fn take_silence(&self) -> Option<Silence> {
        self.silence.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn since_began(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.began)
    }

    pub(crate) fn supervisor(&self, now: Instant) {
        self.note(&self.supervisor_ms, now);
    }

    fn note(&self, part: &AtomicU64, now: Instant) {
        let since = self.since_began(now).as_millis();
        part.store(u64::try_from(since).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Each part, and how long ago it was alive.
    pub fn ages(&self, now: Instant) -> [(&'static str, Duration); 2] {
        let since = self.since_began(now);
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

    /// Scenario: a word every second, then none for 75 s, then one every second again.
    /// Guarantee: streams count as read up to the last word but one, so that the first word after the silence, which
    /// may come before any stream was read, does not count; the silence is given once, with its length.
    #[test]
    fn what_waited_at_a_word_is_read_by_the_next() {
        let began = Instant::now();
        let at = |ms: u64| began + Duration::from_millis(ms);
        let alive = Alive::new(began);
        for second in 1..=5 {
            alive.reading(at(second * 1000));
        }
        assert_eq!(alive.behind(at(5900)), Duration::from_millis(1900));
        assert_eq!(
            alive.take_silence().map(|silence| silence.length),
            Some(Duration::from_secs(1))
        );
        alive.reading(at(80_000));
        assert_eq!(alive.behind(at(80_010)), Duration::from_millis(75_010));
        alive.reading(at(81_000));
        assert_eq!(alive.behind(at(81_000)), Duration::from_secs(1));
        let silence = Silence {
            length: Duration::from_secs(75),
            ended: at(80_000),
        };
        assert_eq!((alive.take_silence(), alive.take_silence()), (Some(silence), None));
    }
}
