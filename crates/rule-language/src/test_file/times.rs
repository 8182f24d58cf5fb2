//! Start, pauses and end of a collection in a test.

use clr_gc::gc::{Pause, PauseKind};

/// The times of a collection; `at` is its end.
pub(super) struct Times {
    pub(super) at: i64,
    pub(super) duration: Option<i64>,
    pub(super) pause: Option<i64>,
    pub(super) suspend: Option<i64>,
    pub(super) restart: Option<i64>,
    pub(super) initial: Option<i64>,
    pub(super) last: Option<i64>,
}

impl Times {
    /// For a background collection: its last pause is in it, the first one begins before it.
    pub(super) fn start(&self, concurrent: bool) -> i64 {
        let of_pause = || {
            self.pause
                .map(|pause| pause - self.suspend.unwrap_or(0) - self.restart.unwrap_or(0))
        };
        let duration = if concurrent {
            self.duration
        } else {
            self.duration.or_else(of_pause)
        };
        self.end(concurrent) - duration.unwrap_or(0).max(0)
    }

    pub(super) fn end(&self, concurrent: bool) -> i64 {
        if concurrent {
            self.at
        } else {
            self.at - self.restart.unwrap_or(0)
        }
    }

    pub(super) fn pause_sum(&self, concurrent: bool) -> Option<i64> {
        match (self.pause, self.initial, self.last) {
            (None, Some(initial), Some(last)) if concurrent => Some(initial + last),
            (pause, _, _) => pause,
        }
    }

    pub(super) fn blocking(&self) -> Vec<Pause> {
        let Some(pause) = self.pause else { return Vec::new() };
        vec![Pause::alone(self.at - pause, pause, self.suspend, PauseKind::Blocking)]
    }

    pub(super) fn background(&self) -> Vec<Pause> {
        let start = self.start(true);
        let initial = self.initial.or(self.pause.map(|pause| pause - self.last.unwrap_or(0)));
        let first =
            initial.map(|ns| Pause::alone(start - self.suspend.unwrap_or(0), ns, self.suspend, PauseKind::Initial));
        let last = self
            .last
            .map(|ns| Pause::alone(self.at - ns, ns, Some(0), PauseKind::Final));
        first.into_iter().chain(last).collect()
    }
}
