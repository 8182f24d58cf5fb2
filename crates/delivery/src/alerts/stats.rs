//! The counters of notifications, by receiver.

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
    /// Alerts that are due now.
    pub queued: u64,
    /// The newest error; it is kept after a recovery.
    pub last_error: Option<String>,
    failures: [u64; 4],
    dropped: [u64; 5],
}

impl ReceiverStats {
    /// Failed requests, by cause.
    pub fn failures(&self) -> [(&'static str, u64); 4] {
        let [unreachable, timed_out, unavailable, refused] = self.failures;
        [
            ("unreachable", unreachable),
            ("timed_out", timed_out),
            ("unavailable", unavailable),
            ("refused", refused),
        ]
    }

    /// Dropped changes, by reason.
    pub fn dropped(&self) -> [(&'static str, u64); 5] {
        let [queue_full, expired, refused, disabled, shutdown] = self.dropped;
        [
            ("queue_full", queue_full),
            ("expired", expired),
            ("refused", refused),
            ("disabled", disabled),
            ("shutdown", shutdown),
        ]
    }

    pub(crate) fn fail(&mut self, failure: Failure) {
        let [unreachable, timed_out, unavailable, refused] = &mut self.failures;
        *match failure {
            Failure::Unreachable => unreachable,
            Failure::TimedOut => timed_out,
            Failure::Unavailable => unavailable,
            Failure::Refused => refused,
        } += 1;
    }

    pub(crate) fn drop(&mut self, reason: Reason, alerts: u64) {
        let [queue_full, expired, refused, disabled, shutdown] = &mut self.dropped;
        *match reason {
            Reason::QueueFull => queue_full,
            Reason::Expired => expired,
            Reason::Refused => refused,
            Reason::Disabled => disabled,
            Reason::Shutdown => shutdown,
        } += alerts;
    }
}
