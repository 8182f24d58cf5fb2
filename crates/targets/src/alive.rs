//! Heartbeats of the two parts that run independently of everything else: the reading thread and the supervisor.
//!
//! Each part sends a heartbeat every second, even if it is idle.
//!
//! # How far streams were read
//!
//! Bytes written by a runtime wait in a socket until the reading thread reads them. Between two heartbeats, the thread
//! has checked every socket, and a stream pauses for less than that time. The bytes that were waiting at one heartbeat
//! were therefore read by the next heartbeat, so all streams are read up to the second to last heartbeat. If that is
//! long ago, the present state of the streams is unknown, and `pipeline` does not advance the time of the rules. A
//! stream with more bytes than can be read at once is reported separately
//! ([`RunSink::undrained`](crate::sink::RunSink::undrained)).
//!
//! The clock is monotonic and stops while the machine is suspended, like all processes.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Interval between heartbeats.
pub(crate) const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(1);

/// Times of the last heartbeat of each part.
#[derive(Debug)]
pub struct Heartbeats {
    began: Instant,
    reading_ms: AtomicU64,
    /// Time of the second to last heartbeat of the reading thread.
    read_ms: AtomicU64,
    /// The longest silence of the reading thread since the last call of [`take_silence`](Self::take_silence).
    silence: Mutex<Option<Silence>>,
    supervisor_ms: AtomicU64,
}

/// A period without a heartbeat of the reading thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Silence {
    pub length: Duration,
    /// End of the silence.
    pub ended: Instant,
}

impl Heartbeats {
    /// Creates heartbeats that count from now, so that a part that never starts becomes late like any other.
    pub fn new(now: Instant) -> Self {
        Self {
            began: now,
            reading_ms: AtomicU64::new(0),
            read_ms: AtomicU64::new(0),
            silence: Mutex::default(),
            supervisor_ms: AtomicU64::new(0),
        }
    }

    /// Records a heartbeat of the reading thread. Only that thread calls this method.
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

    /// Returns the time since the second to last heartbeat of the reading thread. All bytes that were written before
    /// this heartbeat have been read.
    pub fn behind(&self, now: Instant) -> Duration {
        let read = Duration::from_millis(self.read_ms.load(Ordering::Relaxed));
        self.since_began(now).saturating_sub(read)
    }

    /// Returns the longest silence of the reading thread since the last call, or `None` if there was no heartbeat since
    /// then.
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

    /// Returns each part with the time since its last heartbeat.
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

    /// Scenario: one part sends a heartbeat, and the other part never does.
    /// Guarantee: each age counts from the part's own last heartbeat, or from the start of a part without heartbeats.
    #[test]
    fn ages_count_from_last_heartbeat() {
        let began = Instant::now();
        let at = |ms: u64| began + Duration::from_millis(ms);
        let alive = Heartbeats::new(began);
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

    /// Scenario: heartbeats come every second, then not for 75 s, then every second again.
    /// Guarantee: streams count as read up to the second to last heartbeat. The first heartbeat after the silence does
    /// not count, because it can precede any read. The silence is returned once, with its length.
    #[test]
    fn streams_are_read_up_to_second_to_last_heartbeat() {
        let began = Instant::now();
        let at = |ms: u64| began + Duration::from_millis(ms);
        let alive = Heartbeats::new(began);
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
