//! The counters of notifications, by receiver.

use std::array::from_fn;

/// Why a request failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// No connection, or one that broke. Retried.
    Unreachable,
    /// No answer in time. Retried.
    TimedOut,
    /// The receiver is overloaded or unavailable. Retried.
    Unavailable,
    /// The receiver refused it. Not retried as it is.
    Refused,
}

/// Why a change was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// The queue was full.
    QueueFull,
    /// It was retried for too long.
    Expired,
    /// The receiver refused it.
    Refused,
    /// A reload removed the receiver while it waited.
    Disabled,
    /// The daemon ended before it was sent.
    Shutdown,
}

/// The notifications to one receiver.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReceiverStats {
    /// Alerts that it accepted, counted each time.
    pub sent: u64,
    /// Messages of tenants beyond their share, which are counted in one message instead.
    pub summed_up: u64,
    /// Alerts that are due now.
    pub queued: u64,
    /// The newest error; it is kept after a recovery.
    pub last_error: Option<String>,
    failures: [u64; 4],
    dropped: [u64; 5],
}

/// The causes, in the order of [`Failure`].
const FAILURES: [&str; 4] = ["unreachable", "timed_out", "unavailable", "refused"];

/// The reasons, in the order of [`Reason`].
const DROPPED: [&str; 5] = ["queue_full", "expired", "refused", "disabled", "shutdown"];

impl ReceiverStats {
    /// Failed requests, by cause.
    pub fn failures(&self) -> [(&'static str, u64); 4] {
        from_fn(|place| (FAILURES[place], self.failures[place]))
    }

    /// Dropped changes, by reason.
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
