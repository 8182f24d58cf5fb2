//! Causes of a process's stopped time: since the first attach, and in the last minutes.

use base::time::Moment;
use clr_gc::gc::{Collection, StoppedTime, Suspension};

/// Minimum length of the last minutes, in nanoseconds, except shortly after the first stop. The length is at most about
/// twice this value, unless there was no stop for longer.
const STEP_NS: u64 = 150 * 1_000_000_000;

/// Stopped time as sums of fixed size.
#[derive(Debug, Default)]
pub struct StoppedSums {
    all: StoppedTime,
    /// Total at two earlier times, the older first; [`Moment::FIRST`] if there is no such time yet.
    earlier: [(Moment, StoppedTime); 2],
}

impl StoppedSums {
    /// Adds a collection that ended at `at`.
    pub(crate) fn collection(&mut self, collection: &Collection, at: Moment) {
        self.remember(at);
        self.all.add(collection);
    }

    /// Adds a suspension without a collection.
    pub(crate) fn suspension(&mut self, suspension: &Suspension, at: Moment) {
        self.remember(at);
        self.all.add_suspension(suspension);
    }

    /// Returns the stopped time since the first attach.
    pub fn all(&self) -> &StoppedTime {
        &self.all
    }

    /// Returns the stopped time of the last minutes, and the start of these minutes, or `None` if no stop was observed.
    pub fn recent(&self) -> Option<(Moment, StoppedTime)> {
        let (at, earlier) = self.earlier.iter().find(|(at, _)| *at > Moment::FIRST)?;
        Some((*at, self.all.since(earlier)))
    }

    fn remember(&mut self, at: Moment) {
        let [_, newer] = self.earlier;
        if newer.0 == Moment::FIRST || at >= newer.0.after(STEP_NS) {
            self.earlier = [newer, (at, self.all)];
        }
    }
}

#[cfg(test)]
mod tests {
    use clr_gc::gc::{StopEdges, Suspension};

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn stop() -> Suspension {
        Suspension {
            reason: None,
            clr_instance: None,
            edges: StopEdges {
                suspend_begin: Some(0),
                suspend_end: Some(200),
                restart_begin: Some(900),
                restart_end: Some(1_000),
                thread: 1,
            },
            suspend_ns: Some(200),
            stopped_ns: Some(1_000),
            triggered: false,
        }
    }

    /// Scenario: a stop occurs every minute for 20 minutes.
    /// Guarantee: from the fourth minute, the last minutes contain three to six stops; their sum is exact, and the
    /// total contains all stops.
    #[test]
    fn last_minutes_contain_recent_stops() {
        let mut stopped = StoppedSums::default();
        assert!(stopped.recent().is_none());
        for minute in 1..=20_u64 {
            let now = Moment::from_ns(minute * 60 * SECOND);
            stopped.suspension(&stop(), now);
            let (since, recent) = stopped.recent().unwrap();
            let minutes = now.since(since) / 60 / SECOND + 1;
            assert_eq!(recent.total(), 1_000 * i64::try_from(minutes).unwrap());
            assert!(minutes <= 6 && (minute < 4 || minutes >= 3), "{minutes}");
        }
        assert_eq!(stopped.all().total(), 20_000);
    }
}
