//! The counters of everything that was given to the exporter.

use std::time::SystemTime;

use crate::otlp::signal::Signal;

/// Why an item was dropped before delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// Newer items needed its place in the queue.
    QueueFull,
    /// It was retried for too long.
    Expired,
    /// The receiver refused it for good.
    Refused,
    /// It is larger than the receiver accepts, or than the whole queue.
    TooLarge,
    /// The receiver does not accept this signal.
    Unsupported,
    /// A reload switched the signal off while it waited.
    Disabled,
    /// The daemon ended before it was sent.
    Shutdown,
    /// Newer items needed its place in the queue on disk.
    DiskFull,
    /// It could not be read from the queue on disk: it was damaged.
    Damaged,
}

/// Items dropped, by reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Dropped {
    /// See [`Reason::QueueFull`].
    pub queue_full: u64,
    /// See [`Reason::Expired`].
    pub expired: u64,
    /// See [`Reason::Refused`].
    pub refused: u64,
    /// See [`Reason::TooLarge`].
    pub too_large: u64,
    /// See [`Reason::Unsupported`].
    pub unsupported: u64,
    /// See [`Reason::Disabled`].
    pub disabled: u64,
    /// See [`Reason::Shutdown`].
    pub shutdown: u64,
    /// See [`Reason::DiskFull`].
    pub disk_full: u64,
    /// See [`Reason::Damaged`].
    pub damaged: u64,
}

impl Dropped {
    /// Each reason with its name in attributes and labels.
    pub fn by_reason(&self) -> [(&'static str, u64); 9] {
        [
            ("queue_full", self.queue_full),
            ("expired", self.expired),
            ("refused", self.refused),
            ("too_large", self.too_large),
            ("unsupported", self.unsupported),
            ("disabled", self.disabled),
            ("shutdown", self.shutdown),
            ("disk_full", self.disk_full),
            ("damaged", self.damaged),
        ]
    }

    /// All of them.
    pub fn total(&self) -> u64 {
        self.by_reason().iter().map(|(_, items)| items).sum()
    }

    pub(crate) fn add(&mut self, reason: Reason, items: u64) {
        let counter = match reason {
            Reason::QueueFull => &mut self.queue_full,
            Reason::Expired => &mut self.expired,
            Reason::Refused => &mut self.refused,
            Reason::TooLarge => &mut self.too_large,
            Reason::Unsupported => &mut self.unsupported,
            Reason::Disabled => &mut self.disabled,
            Reason::Shutdown => &mut self.shutdown,
            Reason::DiskFull => &mut self.disk_full,
            Reason::Damaged => &mut self.damaged,
        };
        *counter += items;
    }
}

/// Requests, by outcome.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Requests {
    /// Accepted as a whole.
    pub accepted: u64,
    /// Accepted in part, or with a warning.
    pub partial: u64,
    /// Answered as throttled, overloaded or unavailable.
    pub unavailable: u64,
    /// No answer in time.
    pub timed_out: u64,
    /// No connection, or one that broke.
    pub unreachable: u64,
    /// Refused for good.
    pub refused: u64,
    /// Refused as too large.
    pub too_large: u64,
    /// The receiver does not accept this signal.
    pub unsupported: u64,
}

impl Requests {
    /// Each outcome with its name in attributes and labels.
    pub fn by_outcome(&self) -> [(&'static str, u64); 8] {
        [
            ("accepted", self.accepted),
            ("partial", self.partial),
            ("unavailable", self.unavailable),
            ("timed_out", self.timed_out),
            ("unreachable", self.unreachable),
            ("refused", self.refused),
            ("too_large", self.too_large),
            ("unsupported", self.unsupported),
        ]
    }
}

/// The newest error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastError {
    /// The text of the receiver or the connection: bounded, on one line, without the values of headers.
    pub text: String,
    /// When, by the host's clock.
    pub at: SystemTime,
}

/// The items of one signal. `given` = `exported` + `rejected` + `dropped` + `queued` + `in_flight` + `stored`, always.
///
/// An item is a span, a log record, a metric's data point, or a profile.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SignalStats {
    /// A receiver is configured.
    pub configured: bool,
    /// Items given to the exporter while a receiver was configured, and those that were on disk when it started.
    pub given: u64,
    /// Items that wait in memory.
    pub queued: u64,
    /// Encoded bytes that wait.
    pub queued_bytes: u64,
    /// Items that are being sent or wait for a retry.
    pub in_flight: u64,
    /// Items that wait on disk.
    pub stored: u64,
    /// Bytes of them on disk, compressed.
    pub stored_bytes: u64,
    /// Items that a receiver accepted.
    pub exported: u64,
    /// Items that a receiver rejected while it accepted others of the same request (OTLP's partial success).
    pub rejected: u64,
    /// Items dropped before delivery.
    pub dropped: Dropped,
    /// Requests that were retries.
    pub retries: u64,
    /// Requests, by outcome.
    pub requests: Requests,
    /// Encoded bytes of the requests that were accepted, before compression.
    pub exported_bytes: u64,
    /// The receiver does not accept this signal; one small request a minute asks again.
    pub unsupported: bool,
    /// The newest error; it is kept after a recovery.
    pub last_error: Option<LastError>,
}

/// The counters of each signal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stats {
    /// Spans.
    pub traces: SignalStats,
    pub metrics: SignalStats,
    /// Log records.
    pub logs: SignalStats,
    pub profiles: SignalStats,
    /// The queue on disk can be written; `None`: there is none.
    pub disk_works: Option<bool>,
}

impl Stats {
    /// Those of one signal.
    pub fn of(&self, signal: Signal) -> &SignalStats {
        match signal {
            Signal::Traces => &self.traces,
            Signal::Metrics => &self.metrics,
            Signal::Logs => &self.logs,
            Signal::Profiles => &self.profiles,
        }
    }
}

/// Items that were lost because of a shutdown, or during it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lost {
    /// Spans.
    pub spans: u64,
    /// Metrics' data points.
    pub points: u64,
    /// Log records.
    pub records: u64,
    pub profiles: u64,
}

impl Lost {
    /// Nothing was lost.
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}
