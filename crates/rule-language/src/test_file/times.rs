//! Start, pauses and end of a collection in a test.

use clr_gc::gc::{Pause, PauseKind};

/// The times of a collection, in nanoseconds. `at` is the end of the last pause. A background collection ends at `at`.
/// A blocking collection ends before `at`, earlier by the time to restart the threads.
pub(super) struct Times {
    /// Whether the collection is a background collection that did not become blocking. The last pause of such a
    /// collection is inside the collection. The first pause starts before the collection, earlier by the time to
    /// suspend the threads.
    pub(super) concurrent: bool,
    pub(super) at: i64,
    pub(super) duration: Option<i64>,
    pub(super) pause: Option<i64>,
    pub(super) suspend: Option<i64>,
    pub(super) restart: Option<i64>,
    pub(super) initial: Option<i64>,
    pub(super) last: Option<i64>,
}

impl Times {
    pub(super) fn start(&self) -> i64 {
        let of_pause = || {
            let pause = self.pause.filter(|_| !self.concurrent)?;
            Some(pause - self.suspend.unwrap_or(0) - self.restart.unwrap_or(0))
        };
        self.end() - self.duration.or_else(of_pause).unwrap_or(0).max(0)
    }

    pub(super) fn end(&self) -> i64 {
        let restart = self.restart.filter(|_| !self.concurrent);
        self.at - restart.unwrap_or(0)
    }

    pub(super) fn pause_sum(&self) -> Option<i64> {
        let parts = self.initial.zip(self.last).filter(|_| self.concurrent);
        self.pause.or(parts.map(|(initial, last)| initial + last))
    }

    pub(super) fn pauses(&self) -> Vec<Pause> {
        if !self.concurrent {
            let alone = |pause| Pause::alone(self.at - pause, pause, self.suspend, PauseKind::Blocking);
            return self.pause.map(alone).into_iter().collect();
        }
        let begin = self.start() - self.suspend.unwrap_or(0);
        let initial = self.initial.or(self.pause.map(|pause| pause - self.last.unwrap_or(0)));
        let first = initial.map(|ns| Pause::alone(begin, ns, self.suspend, PauseKind::Initial));
        let last = self
            .last
            .map(|ns| Pause::alone(self.at - ns, ns, Some(0), PauseKind::Final));
        first.into_iter().chain(last).collect()
    }
}
