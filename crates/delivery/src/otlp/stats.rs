//! Counters of all items that were passed to the exporter.

use std::time::SystemTime;

use crate::otlp::signal::Signal;

/// Reason why an item was dropped before delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// Newer items needed the space in the queue.
    QueueFull,
    /// The item was retried for too long.
    Expired,
    /// The receiver refused the item permanently.
    Refused,
    /// The item is larger than the receiver accepts, or than the whole queue.
    TooLarge,
    /// The receiver does not accept this signal.
    Unsupported,
    /// A reload disabled the signal while the item was queued.
    Disabled,
    /// The daemon exited before the item was sent.
    Shutdown,
    /// Newer items needed the space in the queue on disk.
    DiskFull,
    /// The item was damaged in the queue on disk.
    Damaged,
}

/// Numbers of dropped items, by reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DroppedItems {
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

impl DroppedItems {
    /// Returns the numbers with the names of the reasons in attributes and labels.
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

    /// Returns the total.
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

/// Numbers of requests, by outcome.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Requests {
    /// Requests that were accepted as a whole.
    pub accepted: u64,
    /// Requests that were accepted in part, or with a warning.
    pub partial: u64,
    /// Requests to a throttled, overloaded or unavailable receiver.
    pub unavailable: u64,
    /// Requests without an answer in time.
    pub timed_out: u64,
    /// Requests without a connection, or whose connection broke.
    pub unreachable: u64,
    /// Requests that were refused permanently.
    pub refused: u64,
    /// Requests that were refused as too large.
    pub too_large: u64,
    /// Requests of a signal that the receiver does not accept.
    pub unsupported: u64,
}

impl Requests {
    /// Returns the numbers with the names of the outcomes in attributes and labels.
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

/// The last error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastError {
    /// Text from the receiver or the connection: bounded, on one line, without the values of headers.
    pub text: String,
    /// Time of the error, on the host's clock.
    pub at: SystemTime,
}

/// Counters of one signal. `given` = `exported` + `rejected` + `dropped` + `queued` + `in_flight` + `stored`, always.
///
/// An item is a span, a log record, or a data point of a metric.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SignalStats {
    /// Whether a receiver is configured.
    pub configured: bool,
    /// Number of items passed to the exporter while a receiver was configured, including the items that were on disk at
    /// the start.
    pub given: u64,
    /// Number of items queued in memory.
    pub queued: u64,
    /// Number of encoded bytes queued in memory.
    pub queued_bytes: u64,
    /// Number of items that are being sent or wait for a retry.
    pub in_flight: u64,
    /// Number of items on disk.
    pub stored: u64,
    /// Number of compressed bytes on disk.
    pub stored_bytes: u64,
    /// Number of items that a receiver accepted.
    pub exported: u64,
    /// Number of items that a receiver rejected while it accepted other items of the same request (OTLP's partial
    /// success).
    pub rejected: u64,
    /// Numbers of items dropped before delivery.
    pub dropped: DroppedItems,
    /// Number of requests that were retries.
    pub retries: u64,
    /// Numbers of requests, by outcome.
    pub requests: Requests,
    /// Number of encoded bytes in accepted requests, before compression.
    pub exported_bytes: u64,
    /// Whether the receiver does not accept this signal. Small requests probe the receiver, finally one per minute.
    pub unsupported: bool,
    /// The last error, which is kept after a recovery; `None` if there was no error.
    pub last_error: Option<LastError>,
}

/// The counters of all signals.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stats {
    /// Counters of spans.
    pub traces: SignalStats,
    pub metrics: SignalStats,
    /// Counters of log records.
    pub logs: SignalStats,
    /// Whether the queue on disk is writable; `None` if there is no such queue.
    pub disk_works: Option<bool>,
}

impl Stats {
    /// Returns the counters of one signal.
    pub fn get(&self, signal: Signal) -> &SignalStats {
        match signal {
            Signal::Traces => &self.traces,
            Signal::Metrics => &self.metrics,
            Signal::Logs => &self.logs,
        }
    }
}

/// Numbers of items that were lost, by signal.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LostItems {
    /// Number of lost spans.
    pub spans: u64,
    /// Number of lost data points of metrics.
    pub points: u64,
    /// Number of lost log records.
    pub records: u64,
}

impl LostItems {
    /// Returns whether no item was lost.
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}
