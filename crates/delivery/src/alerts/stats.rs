//! What became of notifications, by receiver.

/// Why a request failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// No connection, or one that broke. Tried again.
    Unreachable,
    /// No answer in time. Tried again.
    TimedOut,
    /// The receiver said: not now. Tried again.
    Unavailable,
    /// The receiver refused it. Not tried again as it is.
    Refused,
}

/// Why a receiver was not told of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// As many waited as may be.
    QueueFull,
    /// It was tried again for as long as may be.
    Expired,
    /// The receiver refused it.
    Refused,
    /// A reload took the receiver away while it waited.
    Disabled,
    /// The daemon ended before.
    Shutdown,
}

/// What became of the notifications to one receiver.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReceiverStats {
    /// Alerts that it took, each time that it was told.
    pub sent: u64,
    /// Alerts of which it has to be told now.
    pub queued: u64,
    /// The newest thing that went wrong; it stays when things are well again.
    pub last_error: Option<String>,
    failures: [u64; 4],
    dropped: [u64; 5],
}

impl ReceiverStats {
    /// Requests that failed, by why.
    pub fn failures(&self) -> [(&'static str, u64); 4] {
        let [unreachable, timed_out, unavailable, refused] = self.failures;
        [
            ("unreachable", unreachable),
            ("timed_out", timed_out),
            ("unavailable", unavailable),
            ("refused", refused),
        ]
    }

    /// Changes that it was not told of, by why.
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
