//! The daemon notices that it stalled itself: stopped (SIGSTOP, a frozen cgroup), without CPU, swapped out.
//!
//! By the monotonic clock, which is paused while the machine is suspended: processes are paused with it then, and
//! nobody waited. What the clock of the world went on meanwhile, or was set by, is noticed as well, as ages are counted
//! from times of it. Pure.

use std::time::Duration;

use tokio::time::Instant;

use crate::targets::Silence;

/// What came so much later than it should have is a stall.
pub(crate) const STALL: Duration = Duration::from_secs(5);

/// A difference between the two clocks from one tick to the next that is more than steering and scheduling.
const CLOCK_WAS_SET_NS: i64 = 2_000_000_000;

/// A time in which the daemon stalled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stall {
    /// Its length.
    pub(crate) length: Duration,
}

/// What is learned at a tick.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Noticed {
    /// The daemon stalled since the last tick, or its reading thread did.
    pub(crate) stall: Option<Stall>,
    /// So much more time passed by the clock of the world than by the monotonic one.
    pub(crate) clock_was_set_ns: Option<i64>,
}

/// When the last tick was, by both clocks.
#[derive(Debug)]
pub(crate) struct Stalls {
    every: Duration,
    last: Instant,
    last_unix_ns: u64,
    /// Until when stalls were reported: the loop and the reading thread notice the same one.
    reported: Instant,
}

impl Stalls {
    /// From now on there is a tick `every` so often.
    pub(crate) fn new(every: Duration, now: Instant, now_unix_ns: u64) -> Self {
        Self {
            every,
            last: now,
            last_unix_ns: now_unix_ns,
            reported: now,
        }
    }

    /// A tick. `silence`: the longest silence of the reading thread since the last one, which says something as often
    /// as there are ticks.
    pub(crate) fn tick(&mut self, now: Instant, now_unix_ns: u64, silence: Option<Silence>) -> Noticed {
        let since = now.saturating_duration_since(self.last);
        let mut noticed = Noticed {
            stall: None,
            clock_was_set_ns: self.clock_was_set(since, now_unix_ns),
        };
        let of_loop = Silence {
            length: since,
            ended: now,
        };
        for silence in [Some(of_loop), silence].into_iter().flatten() {
            let late = silence.length.saturating_sub(self.every);
            let began = silence.ended.checked_sub(late);
            if late > STALL && began.is_none_or(|began| began >= self.reported) {
                self.reported = silence.ended;
                noticed.stall = Some(Stall { length: late });
            }
        }
        (self.last, self.last_unix_ns) = (now, now_unix_ns);
        noticed
    }

    /// The loop did something that takes its time (a reload), which is no stall of it.
    pub(crate) fn busy_until(&mut self, now: Instant, now_unix_ns: u64) {
        (self.last, self.last_unix_ns) = (now, now_unix_ns);
    }

    fn clock_was_set(&self, since: Duration, now_unix_ns: u64) -> Option<i64> {
        let passed = i128::from(now_unix_ns) - i128::from(self.last_unix_ns);
        let more = passed.saturating_sub(i128::try_from(since.as_nanos()).unwrap_or(i128::MAX));
        let more = i64::try_from(more).ok()?;
        (more.saturating_abs() > CLOCK_WAS_SET_NS).then_some(more)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const BEGAN: u64 = 1_767_323_045_000_000_000;

    /// A length and an end in milliseconds.
    type SilenceMs = Option<(u64, u64)>;

    /// Ticks at such milliseconds of the monotonic clock and of that of the world, with the reading thread's silence:
    /// its length, and when it ended. What each noticed.
    fn ticks(steps: &[(u64, u64, SilenceMs)]) -> Vec<Noticed> {
        let began = Instant::now();
        let at = |ms: u64| began + Duration::from_millis(ms);
        let mut stalls = Stalls::new(SECOND, began, BEGAN);
        let steps = steps.iter();
        let tick = |(now, unix, silence): &(u64, u64, SilenceMs)| {
            let silence = silence.map(|(length, ended)| Silence {
                length: Duration::from_millis(length),
                ended: at(ended),
            });
            stalls.tick(at(*now), BEGAN + unix * 1_000_000, silence)
        };
        steps.map(tick).collect()
    }

    fn stall(seconds: u64) -> Noticed {
        Noticed {
            stall: Some(Stall {
                length: Duration::from_secs(seconds),
            }),
            clock_was_set_ns: None,
        }
    }

    /// Scenario: ticks every second, some of them late; then nothing for 76 s, which the reading thread says a tick
    /// later; then more ticks; then the reading thread alone is silent for 20 s.
    /// Guarantee: each stall is noticed once, without the second that is usual; what is late by less than 5 s is none.
    #[test]
    fn a_stall_is_noticed_once() {
        let noticed = ticks(&[
            (1000, 1000, None),
            (6900, 6900, Some((1000, 1000))),
            (82_900, 82_900, Some((1100, 6000))),
            (83_900, 83_900, Some((75_900, 82_950))),
            (84_900, 84_900, Some((1000, 84_000))),
            (105_000, 105_000, None),
            (106_000, 106_000, Some((21_000, 105_900))),
        ]);
        let none = Noticed::default();
        assert_eq!(noticed[..2], [none, none]);
        assert_eq!(noticed[2], stall(75));
        assert_eq!(noticed[3..5], [none, none]);
        assert!(noticed[5].stall.is_some() && noticed[6] == none, "{noticed:?}");
        let reading_alone = ticks(&[(1000, 1000, None), (2000, 2000, None), (30_000, 30_000, None)]);
        assert!(reading_alone[2].stall.is_some());
        let steady: Vec<_> = (1..=30).map(|second| (second * 1000, second * 1000, None)).collect();
        assert!(ticks(&steady).iter().all(|noticed| *noticed == none));
        let mut hung = steady;
        hung[25].2 = Some((21_000, 25_900));
        assert_eq!(ticks(&hung)[25], stall(20));
    }

    /// Scenario: the machine is suspended for an hour between two ticks; the clock of the world is set back by a minute;
    /// it is steered by 10 ms.
    /// Guarantee: none of it is a stall, and the first two are noticed with their size.
    #[test]
    fn a_suspended_machine_is_no_stall() {
        const HOUR: u64 = 3_600_000;
        let noticed = ticks(&[
            (1000, 1000, None),
            (2000, 2000 + HOUR, None),
            (3000, 3000 + HOUR - 60_000, None),
            (4000, 4010 + HOUR - 60_000, None),
        ]);
        let set: Vec<Option<i64>> = noticed.iter().map(|noticed| noticed.clock_was_set_ns).collect();
        assert_eq!(set, [None, Some(3_600_000_000_000), Some(-60_000_000_000), None]);
        assert!(noticed.iter().all(|noticed| noticed.stall.is_none()));
    }

    /// Scenario: a reload takes eight seconds, after which the loop goes on.
    /// Guarantee: that is no stall.
    #[test]
    fn a_reload_is_no_stall() {
        let began = Instant::now();
        let mut stalls = Stalls::new(SECOND, began, BEGAN);
        let later = began + 8 * SECOND;
        stalls.busy_until(later, BEGAN + 8_000_000_000);
        let noticed = stalls.tick(later + SECOND, BEGAN + 9_000_000_000, None);
        assert_eq!(noticed, Noticed::default());
    }
}
