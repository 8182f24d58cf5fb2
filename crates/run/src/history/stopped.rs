//! What a process was stopped for: since the first attach, and in the last minutes.

use base::time::Moment;
use clr_gc::gc::{Collection, StoppedTime, Suspension};

/// Least length of the last minutes; they are at most twice as long, unless nothing stopped it for longer.
const STEP_NS: u64 = 150 * 1_000_000_000;

/// Sums of fixed size.
#[derive(Debug, Default)]
pub struct Stopped {
    all: StoppedTime,
    /// All as it was at two earlier times, the older first; [`Moment::FIRST`]: not yet.
    earlier: [(Moment, StoppedTime); 2],
}

impl Stopped {
    /// Takes a collection that ended then.
    pub(crate) fn collection(&mut self, collection: &Collection, at: Moment) {
        self.remember(at);
        self.all.add(collection);
    }

    /// Takes a suspension in which no collection ran.
    pub(crate) fn suspension(&mut self, suspension: &Suspension, at: Moment) {
        self.remember(at);
        self.all.add_suspension(suspension);
    }

    /// Since the first attach.
    pub fn all(&self) -> &StoppedTime {
        &self.all
    }

    /// In the last minutes, and since when that is; `None`: nothing was seen.
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

    /// Scenario: a stop a minute for twenty minutes.
    /// Guarantee: the last minutes are between two and a half and five and a bit, and what they say is what came in them;
    /// the whole is the whole.
    #[test]
    fn the_last_minutes_are_the_last() {
        let mut stopped = Stopped::default();
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
