//! The deadline of the shutdown, which all its steps share.
//!
//! A step that waits for a file system can take its whole time limit. The limits of the steps are therefore shortened
//! so that the shutdown ends in [`SHUTDOWN_TIMEOUT`], and so that receivers get their time even if the disk hangs.

use std::time::Duration;

use tokio::time::Instant;

/// Maximum duration of the shutdown, not counting up to 1.5 s for the threads of the OpenTelemetry SDK.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(12);

/// The steps of the shutdown, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Stop and drain the sessions, and stop the burst in progress.
    Sessions,
    /// Write the open incidents.
    Incidents,
    /// Write the history of processes. The profiles of services have the same limit.
    History,
    /// Complete the recordings of incidents.
    Recordings,
    /// Flush the queues of the receivers and of the store.
    Receivers,
    /// Write the changes of incidents that webhooks did not receive.
    Unsent,
    /// Finish open requests to the listener.
    Listener,
}

impl Step {
    /// Returns the time limit of the step, and the time that the step leaves to later steps.
    fn limits(self) -> (Duration, Duration) {
        let (limit, rest) = match self {
            Self::Sessions => (4, 6),
            Self::Incidents => (4, 6),
            Self::History => (2, 6),
            Self::Recordings => (1, 6),
            Self::Receivers => (4, 2),
            Self::Unsent => (4, 1),
            Self::Listener => (1, 0),
        };
        (Duration::from_secs(limit), Duration::from_secs(rest))
    }
}

/// A shutdown in progress.
#[derive(Debug, Clone, Copy)]
pub(super) struct Drain {
    deadline: Instant,
}

impl Drain {
    /// Starts a shutdown.
    pub(super) fn begin(now: Instant) -> Self {
        Self {
            deadline: now + SHUTDOWN_TIMEOUT,
        }
    }

    /// Returns the time limit of a step that starts now.
    pub(super) fn limit(self, step: Step, now: Instant) -> Duration {
        let (limit, rest) = step.limits();
        let left = self.deadline.saturating_duration_since(now);
        limit.min(left.saturating_sub(rest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEPS: [Step; 7] = [
        Step::Sessions,
        Step::Incidents,
        Step::History,
        Step::Recordings,
        Step::Receivers,
        Step::Unsent,
        Step::Listener,
    ];

    /// Scenario: the steps of the shutdown take their whole limit, or no time, in every combination.
    /// Guarantee: the shutdown takes at most 12 s. The receivers always get 4 s, the unsent changes 1 s and the listener
    /// 1 s.
    #[test]
    fn shutdown_ends_if_steps_hang() {
        for hanging in 0..1_u32 << STEPS.len() {
            let begun = Instant::now();
            let (drain, mut now) = (Drain::begin(begun), begun);
            for (place, step) in STEPS.into_iter().enumerate() {
                let limit = drain.limit(step, now);
                let least = match step {
                    Step::Receivers => 4,
                    Step::Unsent | Step::Listener => 1,
                    _ => 0,
                };
                assert!(limit >= Duration::from_secs(least), "{step:?} has {limit:?}");
                if hanging & (1 << place) != 0 {
                    now += limit;
                }
            }
            assert!(now - begun <= SHUTDOWN_TIMEOUT, "{:?}", now - begun);
        }
    }

    /// Scenario: no step waits.
    /// Guarantee: each step has its own limit.
    #[test]
    fn fast_steps_have_their_limits() {
        let now = Instant::now();
        for step in STEPS {
            assert_eq!(Drain::begin(now).limit(step, now), step.limits().0, "{step:?}");
        }
    }
}
