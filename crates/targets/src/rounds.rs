//! Schedules reads of streams, in rounds.
//!
//! A runtime writes ten times per second, and a host can have hundreds of runtimes, each with its own timing. Waking up
//! for each write costs more than reading the bytes: a thread has to wake up, and its cache contents have been
//! replaced. The bytes wait in the socket until they are read. One thread therefore reads all streams in rounds, and
//! sleeps between rounds even if bytes arrive.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use base::run_key::RunKey;
use nettrace::keep::Keeper;
use tokio::runtime::Handle;
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::alive::Heartbeats;
use crate::black_box::BlackBoxes;
use crate::buffer::READ_BYTES;
use crate::guard::{Guard, HEARTBEAT_INTERVAL};

/// Interval between rounds. Together with the runtime's 100 ms and the delays of reconstruction and exporter, a
/// collection is exported well within 1 s.
pub(crate) const ROUND: Duration = Duration::from_millis(200);

/// Interval between rounds while a stream delivers more bytes than can wait for a full round.
const SHORT_ROUND: Duration = Duration::from_millis(10);

/// Margin by which a stream is ready before a round, because timers are rounded up to milliseconds.
const EARLY: Duration = Duration::from_millis(4);

/// Maximum number of bytes that should wait in a socket. A socket holds about 200 KB. If the socket is full, the
/// runtime's thread blocks in its write, and finally events are dropped. A stream that delivers more bytes in a
/// [`ROUND`] is read again after the time in which it delivers this number of bytes.
const WAITING_BYTES: u64 = 64 << 10;

/// The executor that reads sessions, and its schedule.
#[derive(Debug, Clone)]
pub struct Readers {
    pub(crate) executor: Handle,
    pub(crate) rounds: Arc<Rounds>,
    guard: Option<Guard>,
    black_boxes: Option<Arc<BlackBoxes>>,
    alive: Arc<Heartbeats>,
}

impl Readers {
    /// Creates readers on an executor whose thread calls [`Rounds::rest`] before it blocks.
    pub fn new(executor: Handle, rounds: Arc<Rounds>) -> Self {
        Self {
            executor,
            rounds,
            guard: None,
            black_boxes: None,
            alive: Arc::new(Heartbeats::new(Instant::now())),
        }
    }

    /// Adds a guard that closes the sessions if the reading thread no longer reads. A task on the executor sends
    /// heartbeats to the guard for as long as the executor runs. All heartbeats count from this call.
    #[must_use]
    pub fn guarded(mut self, guard: Guard) -> Self {
        let beating = guard.clone();
        self.send_heartbeats(move || beating.beat());
        self.guard = Some(guard);
        self
    }

    /// Starts to send heartbeats. The heartbeats count from now, because the preparations since the creation of the
    /// readers, such as loading rules, can take long.
    fn send_heartbeats(&mut self, beat: impl Fn() + Send + 'static) {
        self.alive = Arc::new(Heartbeats::new(Instant::now()));
        let alive = Arc::clone(&self.alive);
        self.executor.spawn(async move {
            let mut beats = interval(HEARTBEAT_INTERVAL);
            beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                // The value is the scheduled time, not the current time.
                let _scheduled = beats.tick().await;
                beat();
                alive.reading(Instant::now());
            }
        });
    }

    /// Keeps the last seconds of each stream in `black_boxes`.
    #[must_use]
    pub fn keeping(mut self, black_boxes: Option<Arc<BlackBoxes>>) -> Self {
        self.black_boxes = black_boxes;
        self
    }

    /// Returns the keeper for the blocks of a run's next stream, or `None` if streams are not kept.
    pub(crate) fn keeper(&self, run: RunKey) -> Option<Box<dyn Keeper>> {
        self.black_boxes.as_ref().map(|boxes| boxes.tap(run))
    }

    /// Returns the heartbeats of the reading thread and of the supervisor that uses these readers.
    pub fn alive(&self) -> Arc<Heartbeats> {
        Arc::clone(&self.alive)
    }

    /// Returns the guard for the clients that start sessions, or `None` if the readers have no guard.
    pub fn guard(&self) -> Option<Arc<dyn dotnet_diagnostics::Guard>> {
        let guard = self.guard.clone()?;
        Some(Arc::new(guard))
    }

    /// Creates readers on the current executor, which does not sleep between rounds.
    ///
    /// # Panics
    ///
    /// Panics outside a tokio runtime.
    pub fn here() -> Self {
        Self::new(Handle::current(), Arc::default())
    }
}

/// The schedule of rounds shared by all streams.
#[derive(Debug)]
pub struct Rounds {
    /// Start of the schedule. Rounds start at multiples of [`ROUND`] after this time.
    first: Instant,
    /// Number of streams that cannot wait for the next round.
    impatient: AtomicUsize,
}

impl Default for Rounds {
    fn default() -> Self {
        Self {
            first: Instant::now(),
            impatient: AtomicUsize::new(0),
        }
    }
}

impl Rounds {
    /// Returns the duration for which the reading thread sleeps before it checks for bytes.
    pub fn rest(&self) -> Duration {
        if self.impatient.load(Ordering::Relaxed) > 0 {
            return SHORT_ROUND;
        }
        self.next_in(Instant::now())
    }

    /// Returns the time from `now` to the next round.
    fn next_in(&self, now: Instant) -> Duration {
        let since = now.saturating_duration_since(self.first).as_nanos() % ROUND.as_nanos();
        ROUND - u64::try_from(since).map_or(Duration::ZERO, Duration::from_nanos)
    }
}

/// The data rate of a stream, and the time until which its bytes can wait.
#[derive(Debug)]
pub(crate) struct Pace {
    /// Time before which the stream is not read; `None` if the stream is read as soon as bytes arrive.
    pub(crate) until: Option<Instant>,
    rounds: Arc<Rounds>,
    /// Time until which the stream counts as unable to wait for the next round: one round after the read that showed
    /// its high rate, even if no more bytes arrive. `None` if the stream can wait.
    impatient_until: Option<Instant>,
    /// Whether the stream is read without pauses.
    hurries: bool,
    /// Start of the last pause. `bytes` counts the bytes that were read since this time.
    since: Instant,
    bytes: u64,
}

impl Pace {
    pub(crate) fn new(rounds: Arc<Rounds>, now: Instant) -> Self {
        Self {
            until: None,
            rounds,
            impatient_until: None,
            hurries: false,
            since: now,
            bytes: 0,
        }
    }

    /// Removes the pauses, so that the stream is read to its end as fast as possible.
    pub(crate) fn hurry(&mut self, now: Instant) {
        self.hurries = true;
        self.until = None;
        self.set_impatient(Some(now + ROUND));
    }

    fn set_impatient(&mut self, until: Option<Instant>) {
        let was = std::mem::replace(&mut self.impatient_until, until);
        match (was, until) {
            (None, Some(_)) => _ = self.rounds.impatient.fetch_add(1, Ordering::Relaxed),
            (Some(_), None) => _ = self.rounds.impatient.fetch_sub(1, Ordering::Relaxed),
            _ => {}
        }
    }

    /// Returns the next time at which [`Self::pass`] has work, or `None` if only new bytes cause work.
    pub(crate) fn next(&self) -> Option<Instant> {
        let calm = self.impatient_until.filter(|_| !self.hurries);
        [self.until, calm].into_iter().flatten().min()
    }

    /// Updates the state at time `now`: ends a pause, or ends the impatience of a stream that has become slow enough.
    pub(crate) fn pass(&mut self, now: Instant) {
        self.until = self.until.filter(|until| now < *until);
        if !self.hurries && self.impatient_until.is_some_and(|until| until <= now) {
            self.set_impatient(None);
        }
    }

    /// Records that one read returned `count` bytes.
    pub(crate) fn take(&mut self, count: usize, now: Instant) {
        self.bytes = self.bytes.saturating_add(count as u64);
        // More bytes are waiting, or the stream is read without pauses.
        if count >= READ_BYTES || self.hurries {
            return;
        }
        let rest = rest(self.bytes, now.saturating_duration_since(self.since));
        self.set_impatient((rest < ROUND).then(|| now + ROUND));
        let rest = match rest {
            ROUND => self.rounds.next_in(now + EARLY),
            shorter => shorter,
        };
        self.until = now.checked_add(rest);
        self.since = now;
        self.bytes = 0;
    }
}

impl Drop for Pace {
    fn drop(&mut self) {
        self.set_impatient(None);
    }
}

/// Returns the pause after a stream has delivered `bytes` within a duration, which is at most [`ROUND`].
fn rest(bytes: u64, within: Duration) -> Duration {
    let nanos = within.as_nanos() * u128::from(WAITING_BYTES) / u128::from(bytes.max(1));
    u64::try_from(nanos).map_or(ROUND, |nanos| ROUND.min(Duration::from_nanos(nanos)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pace(began: Instant) -> (Arc<Rounds>, Pace) {
        let rounds = Arc::new(Rounds {
            first: began,
            impatient: AtomicUsize::new(0),
        });
        (Arc::clone(&rounds), Pace::new(rounds, began))
    }

    /// Simulates a stream with a data rate for 10 s. Returns the number of reads and the maximum number of bytes per
    /// read.
    fn reads(bytes_per_second: u64) -> (u32, u64) {
        let began = Instant::now();
        let (_, mut pace) = pace(began);
        let mut now = began;
        let (mut reads, mut most, mut taken) = (0, 0, 0);
        while now < began + Duration::from_secs(10) {
            now = pace.until.take().unwrap_or(now).max(now + Duration::from_millis(1));
            let come = (now - began).as_nanos() * u128::from(bytes_per_second) / 1_000_000_000;
            let waiting = u64::try_from(come).unwrap() - taken;
            if waiting == 0 {
                continue;
            }
            let count = waiting.min(READ_BYTES as u64);
            taken += count;
            (reads, most) = (reads + 1, most.max(waiting));
            pace.take(usize::try_from(count).unwrap(), now);
        }
        (reads, most)
    }

    /// Scenario: a quiet process, a busy process and a process in an out-of-memory loop write their streams.
    /// Guarantee: the quiet stream is read once per round; at any data rate, at most twice [`WAITING_BYTES`] wait.
    #[test]
    fn busier_stream_is_read_more_often() {
        let (quiet, most) = reads(20_000);
        assert!((49..=52).contains(&quiet), "{quiet}");
        assert!(most <= 4_200, "{most}");
        for per_second in [200_000, 2_000_000, 20_000_000] {
            let (reads, most) = reads(per_second);
            assert!(u64::from(reads) * WAITING_BYTES * 2 > per_second * 10, "{reads}");
            assert!(most <= WAITING_BYTES * 2, "{most} of {per_second}");
        }
    }

    /// Scenario: a process does not write for an hour, then collects continuously, then exits.
    /// Guarantee: the first bytes wait for one round. Then the stream is read at the rate that it needs, with short
    /// sleeps of the thread. After the exit, the stream no longer causes short sleeps.
    #[test]
    fn burst_after_silence_shortens_rounds() {
        let began = Instant::now();
        let (rounds, mut pace) = pace(began);
        let burst = began + Duration::from_secs(3600);
        pace.take(2000, burst);
        assert_eq!(pace.until, Some(burst + ROUND - EARLY));
        assert!(rounds.rest() > SHORT_ROUND || rounds.next_in(Instant::now()) <= SHORT_ROUND);
        let next = burst + ROUND;
        pace.until = None;
        for _ in 0..2 {
            pace.take(READ_BYTES, next);
            assert_eq!(pace.until, None);
        }
        pace.take(10_000, next);
        assert!(pace.until.unwrap() - next < ROUND / 2);
        assert_eq!(rounds.impatient.load(Ordering::Relaxed), 1);
        assert_eq!(rounds.rest(), SHORT_ROUND);
        drop(pace);
        assert_eq!(rounds.impatient.load(Ordering::Relaxed), 0);
    }

    /// Scenario: a session delivers its header immediately, and its process never collects.
    /// Guarantee: after one round, the stream no longer causes short rounds, and no timer is due.
    #[test]
    fn idle_process_lets_thread_sleep() {
        let began = Instant::now();
        let (rounds, mut pace) = pace(began);
        pace.take(3000, began + Duration::from_millis(1));
        assert_eq!(rounds.impatient.load(Ordering::Relaxed), 1);
        while let Some(next) = pace.next() {
            assert!(next <= began + 2 * ROUND);
            pace.pass(next);
        }
        assert_eq!(rounds.impatient.load(Ordering::Relaxed), 0);
    }

    /// Scenario: streams deliver bytes at different times.
    /// Guarantee: all streams are read at the same times, at the end of the thread's sleep.
    #[test]
    fn streams_share_rounds() {
        let first = Instant::now();
        let (rounds, _) = pace(first);
        let at = |ms: u64| first + Duration::from_millis(ms);
        let next = |now: Instant| {
            let mut pace = Pace::new(Arc::clone(&rounds), first);
            pace.take(2000, now);
            pace.until.unwrap()
        };
        assert_eq!(next(at(1510)), at(1600) - EARLY);
        assert_eq!(next(at(1510)), next(at(1590)));
        assert_eq!(next(at(1600)), at(1800) - EARLY);
        assert_eq!(rounds.next_in(at(1510)), Duration::from_millis(90));
        assert_eq!(rounds.next_in(at(1600)), ROUND);
    }

    /// Scenario: loading the rules takes a minute between the creation of the readers and their first heartbeat.
    /// Guarantee: no part is late, no silence is reported, and the streams count as read.
    #[tokio::test(start_paused = true)]
    async fn preparations_are_no_silence() {
        let mut readers = Readers::here();
        tokio::time::sleep(Duration::from_secs(60)).await;
        readers.send_heartbeats(|| ());
        tokio::time::sleep(HEARTBEAT_INTERVAL / 2).await;
        let (alive, now) = (readers.alive(), Instant::now());
        assert!(alive.ages(now).iter().all(|(_, age)| *age < HEARTBEAT_INTERVAL));
        assert!(alive.behind(now) < HEARTBEAT_INTERVAL);
        assert!(
            alive
                .take_silence()
                .is_some_and(|silence| silence.length < HEARTBEAT_INTERVAL)
        );
    }

    /// Scenario: a session is being stopped.
    /// Guarantee: neither its stream nor the thread pauses.
    #[test]
    fn stopping_session_is_read_without_pause() {
        let now = Instant::now();
        let (rounds, mut pace) = pace(now);
        pace.hurry(now);
        pace.take(100, now + ROUND);
        pace.pass(now + 2 * ROUND);
        assert_eq!(pace.until, None);
        assert_eq!(rounds.rest(), SHORT_ROUND);
    }
}
