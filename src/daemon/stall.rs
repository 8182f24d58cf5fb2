//! Detects stalls of the daemon itself: stopped (SIGSTOP, a frozen cgroup), without CPU, or swapped out.
//!
//! Uses the monotonic clock, which pauses while the machine is suspended: all processes pause, too, so a suspension is
//! not a stall. This module reads no clock.

use std::time::Duration;

use tokio::time::Instant;

use targets::Silence;

/// Minimum delay that counts as a stall.
pub(crate) const STALL: Duration = Duration::from_secs(5);

/// A detector of stalls, based on the times of ticks.
#[derive(Debug)]
pub(crate) struct Stalls {
    every: Duration,
    last: Instant,
    /// Time up to which stalls were reported. The loop and the reading thread can notice the same stall, which must be
    /// reported once.
    reported: Instant,
}

impl Stalls {
    /// Creates a detector for ticks at the interval `every`.
    pub(crate) fn new(every: Duration, now: Instant) -> Self {
        Self {
            every,
            last: now,
            reported: now,
        }
    }

    /// Records a tick. `silence` is the longest silence of the reading thread since the previous tick; the reading
    /// thread reports as often as there are ticks. Returns the duration for which the daemon or its reading thread has
    /// stalled since the previous tick, or `None` if there was no stall.
    pub(crate) fn tick(&mut self, now: Instant, silence: Option<Silence>) -> Option<Duration> {
        let since = now.saturating_duration_since(self.last);
        let mut stall = None;
        let of_loop = Silence {
            length: since,
            ended: now,
        };
        for silence in [Some(of_loop), silence].into_iter().flatten() {
            let late = silence.length.saturating_sub(self.every);
            let began = silence.ended.checked_sub(late);
            if late > STALL && began.is_none_or(|began| began >= self.reported) {
                self.reported = silence.ended;
                stall = Some(late);
            }
        }
        self.last = now;
        stall
    }

    /// Records that the loop was busy with slow work, such as a reload, which is not a stall.
    pub(crate) fn busy_until(&mut self, now: Instant) {
        self.last = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// A length and an end, in milliseconds.
    type SilenceMs = Option<(u64, u64)>;

    /// Runs ticks at the given milliseconds, each with the length and end of the reading thread's silence, and returns
    /// the stalls.
    fn ticks(steps: &[(u64, SilenceMs)]) -> Vec<Option<Duration>> {
        let began = Instant::now();
        let at = |ms: u64| began + Duration::from_millis(ms);
        let mut stalls = Stalls::new(SECOND, began);
        let tick = |(now, silence): &(u64, SilenceMs)| {
            let silence = silence.map(|(length, ended)| Silence {
                length: Duration::from_millis(length),
                ended: at(ended),
            });
            stalls.tick(at(*now), silence)
        };
        steps.iter().map(tick).collect()
    }

    /// Scenario: ticks arrive every second, some of them late. Then no tick arrives for 76 s, and later for 20 s; the
    /// reading thread reports the same stalls one tick later. In other runs, only the loop is late, or only the reading
    /// thread is silent.
    /// Guarantee: each stall is reported once, without the second between two ticks; a delay of less than 5 s is not a
    /// stall.
    #[test]
    fn stall_is_reported_once() {
        let noticed = ticks(&[
            (1000, None),
            (6900, Some((1000, 1000))),
            (82_900, Some((1100, 6000))),
            (83_900, Some((75_900, 82_950))),
            (84_900, Some((1000, 84_000))),
            (105_000, None),
            (106_000, Some((21_000, 105_900))),
        ]);
        assert_eq!(noticed[..2], [None, None]);
        assert_eq!(noticed[2], Some(75 * SECOND));
        assert_eq!(noticed[3..5], [None, None]);
        assert!(noticed[5].is_some() && noticed[6].is_none(), "{noticed:?}");
        let reading_alone = ticks(&[(1000, None), (2000, None), (30_000, None)]);
        assert!(reading_alone[2].is_some());
        let steady: Vec<_> = (1..=30).map(|second| (second * 1000, None)).collect();
        assert!(ticks(&steady).iter().all(Option::is_none));
        let mut hung = steady;
        hung[25].1 = Some((21_000, 25_900));
        assert_eq!(ticks(&hung)[25], Some(20 * SECOND));
    }

    /// Scenario: a reload takes eight seconds, then the loop continues.
    /// Guarantee: the reload is not a stall.
    #[test]
    fn reload_is_not_a_stall() {
        let began = Instant::now();
        let mut stalls = Stalls::new(SECOND, began);
        let later = began + 8 * SECOND;
        stalls.busy_until(later);
        assert_eq!(stalls.tick(later + SECOND, None), None);
    }
}
