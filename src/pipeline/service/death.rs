//! The death of a process and its cause.

use std::sync::Arc;

use base::run_key::RunKey;
use base::time::Moment;
use processes::container::ContainerIdentity;
use processes::surroundings::ContainerEnd;

/// Lifetime below which a process counts as short-lived.
pub(crate) const SHORT_LIFE_NS: u64 = 5 * 60 * 1_000_000_000;

/// Time for which the exit code of a pod's container is awaited.
const EXIT_CODE_TIMEOUT_NS: u64 = 5_000_000_000;

/// How a process ended, as observed from outside. `None` means unknown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Death {
    pub(crate) run: RunKey,
    /// Time at which the end was noticed.
    pub(crate) at: Moment,
    /// Lifetime of the process.
    pub(crate) uptime_ns: u64,
    /// Whether the kernel killed the process for memory.
    pub(crate) oom_killed: Option<bool>,
    /// Whether a memory rule of severity error or critical fired in the last minute of the process.
    pub(crate) in_emergency: bool,
    /// Whether the runtime ended the event stream, as it does when a process exits by itself.
    pub(crate) in_order: Option<bool>,
    /// Whether the process failed, according to its exit code.
    pub(crate) failed: Option<bool>,
    /// Version of the service.
    pub(crate) version: Option<Arc<str>>,
    /// Human-readable name of the process: its pod and container, or its pid if it has no pod.
    pub(crate) place: Arc<str>,
    /// Whether this death was reported as a death because of memory.
    pub(crate) passed_on: bool,
    /// Container of the process.
    pub(crate) container: ContainerIdentity,
}

impl Death {
    /// Returns whether the process ended while its memory was exhausted, and neither by itself nor on request. If the
    /// exit code is unknown, the stream decides: a program without a SIGTERM handler ends like a killed program (.NET
    /// 10 has no default handler).
    pub(crate) fn is_in_emergency(&self) -> bool {
        self.in_emergency && self.failed.unwrap_or(self.in_order != Some(true))
    }

    /// Returns whether the kernel killed the process for memory although no severe memory rule had announced the kill.
    /// An announced kill is reported by the incident of the process, because one death is one incident.
    pub(crate) fn is_sudden_oom_kill(&self) -> bool {
        self.oom_killed == Some(true) && !self.in_emergency
    }

    /// Returns whether this death can be part of a restart loop: the process was short-lived and failed. A program that
    /// exits cleanly because its memory is exhausted is part of a loop, too. A rollout is not a loop, because it does
    /// not end a process three times.
    pub(crate) fn is_short_and_failed(&self) -> bool {
        let failed = self.failed.unwrap_or(self.in_emergency) || self.oom_killed == Some(true);
        failed && self.uptime_ns < SHORT_LIFE_NS
    }

    /// Returns whether the process died because of its memory.
    pub(crate) fn is_of_memory(&self) -> bool {
        self.oom_killed == Some(true) || self.is_in_emergency()
    }

    /// Returns whether enough is known about the death, or no more will be: the exit code of a pod's container arrives
    /// slightly later.
    pub(crate) fn is_known(&self, now: Moment) -> bool {
        let waits = self.container.pod_uid.is_some() && self.failed.is_none();
        !waits || now.since(self.at) >= EXIT_CODE_TIMEOUT_NS
    }

    /// Records information from an orchestrator.
    pub(crate) fn learn(&mut self, ended: ContainerEnd) {
        if ended.oom_killed {
            self.oom_killed = Some(true);
        }
        self.failed = Some(ended.failed);
    }
}
