//! When streams are read: in rounds.
//!
//! A runtime writes ten times a second, and a host has hundreds of them, each at its own time. To wake up for each of
//! them costs more than to read what it wrote: a thread that wakes up, a cache that others have used meanwhile. What a
//! runtime writes waits in the socket until it is read. So one thread reads all streams, one after the other, in
//! rounds, and sleeps in between whatever comes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use base::run_key::RunKey;
use nettrace::keep::Keeper;
use tokio::runtime::Handle;
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::alive::Alive;
use crate::black_box::BlackBoxes;
use crate::buffer::READ_BYTES;
use crate::guard::{BEAT_EVERY, Guard};

/// From one round to the next. With the runtime's own 100 ms, and what the reconstruction and the exporter wait for,
/// everything is exported well within a second.
pub(crate) const ROUND: Duration = Duration::from_millis(200);

/// The same while there is a stream that brings more than may wait for so long.
const SHORT_ROUND: Duration = Duration::from_millis(10);

/// So long before a round a stream is ready for it: timers are rounded to milliseconds, upwards.
const EARLY: Duration = Duration::from_millis(4);

/// How much may wait in a socket. One takes about 200 KB, after which the runtime's thread would wait in its write, and
/// in the end its events would be dropped: a stream that brings more than this in a [`ROUND`] is left alone for as long
/// as it takes to bring so much.
const WAITING_BYTES: u64 = 64 << 10;

/// Where sessions are read, and when.
#[derive(Debug, Clone)]
pub struct Readers {
    pub(crate) executor: Handle,
    pub(crate) rounds: Arc<Rounds>,
    guard: Option<Guard>,
    black_boxes: Option<Arc<BlackBoxes>>,
    alive: Arc<Alive>,
}

impl Readers {
    /// On that executor, whose thread calls [`Rounds::rest`] before it waits for anything.
    pub fn new(executor: Handle, rounds: Arc<Rounds>) -> Self {
        Self {
            executor,
            rounds,
            guard: None,
            black_boxes: None,
            alive: Arc::new(Alive::new(Instant::now())),
        }
    }

    /// With a guard that closes the sessions when they are not read any more. A task on the executor says that it is
    /// alive, for as long as that runs.
    #[must_use]
    pub fn guarded(mut self, guard: Guard) -> Self {
        let (beating, alive) = (guard.clone(), Arc::clone(&self.alive));
        self.executor.spawn(async move {
            let mut beats = interval(BEAT_EVERY);
            beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                // It says when it should have come, not when it came.
                let _scheduled = beats.tick().await;
                beating.beat();
                alive.reading(Instant::now());
            }
        });
        self.guard = Some(guard);
        self
    }

    /// The last seconds of each stream are kept there.
    #[must_use]
    pub fn keeping(mut self, black_boxes: Option<Arc<BlackBoxes>>) -> Self {
        self.black_boxes = black_boxes;
        self
    }

    /// Takes the blocks of a run's next stream, where they are kept.
    pub(crate) fn keeper(&self, run: RunKey) -> Option<Box<dyn Keeper>> {
        self.black_boxes.as_ref().map(|boxes| boxes.tap(run))
    }

    /// When the reading thread was alive last, and the supervisor that these readers are given to.
    pub fn alive(&self) -> Arc<Alive> {
        Arc::clone(&self.alive)
    }

    /// The guard, for the clients that begin sessions.
    pub fn guard(&self) -> Option<Arc<dyn dotnet_diagnostics::Guard>> {
        let guard = self.guard.clone()?;
        Some(Arc::new(guard))
    }

    /// On the executor that this is called on, which does not rest between rounds.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub fn here() -> Self {
        Self::new(Handle::current(), Arc::default())
    }
}

/// The rounds that all streams have in common.
#[derive(Debug)]
pub struct Rounds {
    /// They are multiples of [`ROUND`] from then on.
    first: Instant,
    /// How many streams cannot wait for the next.
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
    /// How long the thread that reads is to sleep before it looks for what has come.
    pub fn rest(&self) -> Duration {
        if self.impatient.load(Ordering::Relaxed) > 0 {
            return SHORT_ROUND;
        }
        self.next_in(Instant::now())
    }

    /// The time from `now` to the next round.
    fn next_in(&self, now: Instant) -> Duration {
        let since = now.saturating_duration_since(self.first).as_nanos() % ROUND.as_nanos();
        ROUND - u64::try_from(since).map_or(Duration::ZERO, Duration::from_nanos)
    }
}

/// How fast bytes of a stream come, and until when they may wait.
#[derive(Debug)]
pub(crate) struct Pace {
    /// Nothing is read before; `None`: it is read as soon as there is something.
    pub(crate) until: Option<Instant>,
    rounds: Arc<Rounds>,
    /// Until then it is among those that cannot wait for the next round: for one round after it brought that much,
    /// whatever comes.
    impatient_until: Option<Instant>,
    /// It does not rest any more.
    hurries: bool,
    /// When the newest rest began, and what came since.
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

    /// It is read to its end now, as fast as it comes.
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

    /// When [`Self::pass`] has something to do next.
    pub(crate) fn next(&self) -> Option<Instant> {
        let calm = self.impatient_until.filter(|_| !self.hurries);
        [self.until, calm].into_iter().flatten().min()
    }

    /// Time passes: a rest is over, or the stream brings no more what made it impatient.
    pub(crate) fn pass(&mut self, now: Instant) {
        self.until = self.until.filter(|until| now < *until);
        if !self.hurries && self.impatient_until.is_some_and(|until| until <= now) {
            self.set_impatient(None);
        }
    }

    /// So many bytes were read at once.
    pub(crate) fn take(&mut self, count: usize, now: Instant) {
        self.bytes = self.bytes.saturating_add(count as u64);
        // There is more.
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

/// How long a stream is left alone that brought so many bytes in that time.
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

    /// A stream that brings so many bytes a second, for ten seconds: how often it is read, and the most that was read
    /// at once.
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

    /// Scenario: streams of a quiet, of a busy and of a process in an out-of-memory loop.
    /// Guarantee: the quiet one is read once a round, and however much comes little more than may wait does.
    #[test]
    fn what_brings_more_is_read_more_often() {
        let (quiet, most) = reads(20_000);
        assert!((49..=52).contains(&quiet), "{quiet}");
        assert!(most <= 4_200, "{most}");
        for per_second in [200_000, 2_000_000, 20_000_000] {
            let (reads, most) = reads(per_second);
            assert!(u64::from(reads) * WAITING_BYTES * 2 > per_second * 10, "{reads}");
            assert!(most <= WAITING_BYTES * 2, "{most} of {per_second}");
        }
    }

    /// Scenario: an hour without a byte, then a process that begins to collect without end, and ends.
    /// Guarantee: it waits for one round as any other, then is read as it needs, for which the thread rests shortly;
    /// afterwards it rests as before.
    #[test]
    fn a_burst_after_silence_is_met() {
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

    /// Scenario: a session begins with its header at once, and its process never collects.
    /// Guarantee: after one round it is no reason for short ones any more, and nothing is due.
    #[test]
    fn an_idle_process_does_not_keep_the_thread_awake() {
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

    /// Scenario: streams that bring something at different times.
    /// Guarantee: from then on they are read at the same moments, when the thread has rested.
    #[test]
    fn rounds_are_common() {
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

    /// Scenario: a session that is being ended.
    /// Guarantee: nothing of it waits, nor does the thread.
    #[test]
    fn an_end_is_not_waited_for() {
        let now = Instant::now();
        let (rounds, mut pace) = pace(now);
        pace.hurry(now);
        pace.take(100, now + ROUND);
        pace.pass(now + 2 * ROUND);
        assert_eq!(pace.until, None);
        assert_eq!(rounds.rest(), SHORT_ROUND);
    }
}
