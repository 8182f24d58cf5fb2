//! What a process was stopped for: since the first attach, and in the last minutes.

use clr_gc::gc::{Collection, StoppedTime, Suspension};

/// Least length of the last minutes; they are at most twice as long, unless nothing stopped it for longer.
const STEP_NS: u64 = 150 * 1_000_000_000;

/// Sums of fixed size.
#[derive(Debug, Default)]
pub(super) struct Stopped {
    all: StoppedTime,
    /// All as it was at two earlier times, Unix nanoseconds, the older first; 0: not yet.
    earlier: [(u64, StoppedTime); 2],
}

impl Stopped {
    /// Takes a collection that ended then.
    pub(super) fn collection(&mut self, collection: &Collection, at_unix_ns: u64) {
        self.remember(at_unix_ns);
        self.all.add(collection);
    }

    /// Takes a suspension in which no collection ran.
    pub(super) fn suspension(&mut self, suspension: &Suspension, at_unix_ns: u64) {
        self.remember(at_unix_ns);
        self.all.add_suspension(suspension);
    }

    /// Since the first attach.
    pub(super) fn all(&self) -> &StoppedTime {
        &self.all
    }

    /// In the last minutes, and since when that is, Unix nanoseconds; `None`: nothing was seen.
    pub(super) fn recent(&self) -> Option<(u64, StoppedTime)> {
        let (at, earlier) = self.earlier.iter().find(|(at, _)| *at > 0)?;
        Some((*at, self.all.since(earlier)))
    }

    fn remember(&mut self, at_unix_ns: u64) {
        let [_, newer] = self.earlier;
        if newer.0 == 0 || at_unix_ns >= newer.0.saturating_add(STEP_NS) {
            self.earlier = [newer, (at_unix_ns, self.all)];
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
            let now = minute * 60 * SECOND;
            stopped.suspension(&stop(), now);
            let (since, recent) = stopped.recent().unwrap();
            let minutes = (now - since) / 60 / SECOND + 1;
            assert_eq!(recent.total(), 1_000 * i64::try_from(minutes).unwrap());
            assert!(minutes <= 6 && (minute < 4 || minutes >= 3), "{minutes}");
        }
        assert_eq!(stopped.all().total(), 20_000);
    }
}
