//! The counters of notifications, by receiver.

use std::array::from_fn;

/// Reason why a request failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// There is no connection, or it was interrupted. The request is retried.
    Unreachable,
    /// There was no answer in time. The request is retried.
    TimedOut,
    /// The receiver is overloaded or unavailable. The request is retried.
    Unavailable,
    /// The receiver refused the request. A request whose content was refused is not retried unchanged.
    Refused,
}

/// Reason why a change was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// The queue was full.
    QueueFull,
    /// The change was retried for too long.
    Expired,
    /// The receiver refused the change.
    Refused,
    /// A reload removed the receiver while the change waited.
    Disabled,
    /// The daemon exited before the change was sent.
    Shutdown,
}

/// Counters of the notifications to one receiver.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReceiverStats {
    /// Number of accepted alerts. Repetitions count.
    pub sent: u64,
    /// Number of messages beyond the share of a tenant, which a summary replaces.
    pub summed_up: u64,
    /// Number of alerts that are due now, or of changes or lines that wait.
    pub queued: u64,
    /// The last error, which is kept after a recovery; `None` if there was no error.
    pub last_error: Option<String>,
    failures: [u64; 4],
    dropped: [u64; 5],
}

/// The causes, in the order of [`Failure`].
const FAILURES: [&str; 4] = ["unreachable", "timed_out", "unavailable", "refused"];

/// The reasons, in the order of [`Reason`].
const DROPPED: [&str; 5] = ["queue_full", "expired", "refused", "disabled", "shutdown"];

impl ReceiverStats {
    /// Returns the number of failed requests, by cause.
    pub fn failures(&self) -> [(&'static str, u64); 4] {
        from_fn(|place| (FAILURES[place], self.failures[place]))
    }

    /// Returns the number of dropped changes, by reason.
    pub fn dropped(&self) -> [(&'static str, u64); 5] {
        from_fn(|place| (DROPPED[place], self.dropped[place]))
    }

    pub(crate) fn fail(&mut self, failure: Failure) {
        self.failures[failure as usize] += 1;
    }

    pub(crate) fn lose(&mut self, reason: Reason, alerts: u64) {
        self.dropped[reason as usize] += alerts;
    }
}
