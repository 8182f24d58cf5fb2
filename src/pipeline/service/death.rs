//! How a process ended.

use std::sync::Arc;

use base::run_key::RunKey;
use base::time::Moment;
use processes::container::ContainerIdentity;
use processes::surroundings::Ended;

/// Shorter lives are not what a service is for.
pub(crate) const SHORT_LIFE_NS: u64 = 5 * 60 * 1_000_000_000;

/// How long the exit code of a pod's container is waited for.
const EXIT_CODE_WITHIN_NS: u64 = 5_000_000_000;

/// How a process ended, as far as it is known from outside. `None`: unknown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Death {
    pub(crate) run: RunKey,
    /// When it was noticed.
    pub(crate) at: Moment,
    /// How long the process had lived.
    pub(crate) uptime_ns: u64,
    /// The kernel killed it for memory.
    pub(crate) oom_killed: Option<bool>,
    /// A rule on memory of severity error or critical fired within its last minute.
    pub(crate) in_emergency: bool,
    /// Its runtime ended the event stream, as it does when a process exits by itself.
    pub(crate) in_order: Option<bool>,
    /// It failed, by its exit code.
    pub(crate) failed: Option<bool>,
    /// The version of its service.
    pub(crate) version: Option<Arc<str>>,
    /// Which process it was, for people: its pod and container, else its pid.
    pub(crate) place: Arc<str>,
    /// That it died of its memory was passed on.
    pub(crate) passed_on: bool,
    /// Where it ran.
    pub(crate) container: ContainerIdentity,
}

impl Death {
    /// It ended while its memory was out, and neither by itself nor because it was asked to. Where the exit code is not
    /// known, the stream decides: a program without a handler of SIGTERM ends as one that is killed (.NET 10 has none of
    /// its own).
    pub(crate) fn is_in_emergency(&self) -> bool {
        self.in_emergency && self.failed.unwrap_or(self.in_order != Some(true))
    }

    /// The kernel killed it for memory, and no incident of the process had said that this was near: one death is one
    /// incident.
    pub(crate) fn is_sudden_oom_kill(&self) -> bool {
        self.oom_killed == Some(true) && !self.in_emergency
    }

    /// One of a loop: a short life that failed. A program that ends in order because its memory is out does so in a
    /// loop, too; a rollout ends no process three times.
    pub(crate) fn is_short_and_failed(&self) -> bool {
        let failed = self.failed.unwrap_or(self.in_emergency) || self.oom_killed == Some(true);
        failed && self.uptime_ns < SHORT_LIFE_NS
    }

    /// It died of its memory.
    pub(crate) fn is_of_memory(&self) -> bool {
        self.oom_killed == Some(true) || self.is_in_emergency()
    }

    /// Whether enough is known of it, or nothing more will be: the exit code of a pod's container comes a moment later.
    pub(crate) fn is_known(&self, now: Moment) -> bool {
        let waits = self.container.pod_uid.is_some() && self.failed.is_none();
        !waits || now.since(self.at) >= EXIT_CODE_WITHIN_NS
    }

    /// More may become known of it.
    pub(crate) fn learn(&mut self, ended: Ended) {
        if ended.oom_killed {
            self.oom_killed = Some(true);
        }
        self.failed = Some(ended.failed);
    }
}
