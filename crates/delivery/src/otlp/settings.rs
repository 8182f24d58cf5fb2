//! Receivers of the signals, and limits of the queues.

use std::path::PathBuf;
use std::time::Duration;

pub use crate::transport::receiver::{Compression, Protocol, Receiver};

/// Limits of queues and requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of spans, log records, or (for metrics) per-process sets of points in the queue of a signal. If
    /// the queue is full, the oldest items are dropped.
    pub queue_items: usize,
    /// Maximum number of encoded bytes in the queue of a signal.
    pub queue_bytes: usize,
    /// Maximum number of spans, log records or per-process sets of points in one request.
    pub batch_items: usize,
    /// Maximum number of encoded bytes in one request before compression (receivers refuse more than 4 MiB by default).
    pub batch_bytes: usize,
    /// Time for which an item waits for further items while less than 256 KiB are queued.
    pub batch_delay: Duration,
    /// Time for which a batch is retried before it is dropped, if there is no queue on disk.
    pub retry_for: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            queue_items: 65_536,
            queue_bytes: 16 << 20,
            batch_items: 8192,
            batch_bytes: 3 << 20,
            batch_delay: Duration::from_millis(200),
            retry_for: Duration::from_secs(300),
        }
    }
}

/// The queue on disk for data that receivers have not accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskQueue {
    /// Path of the queue, created if it does not exist. No other process may use the directory at the same time.
    pub directory: PathBuf,
    /// Maximum number of compressed bytes of all signals. The oldest items are dropped to free space for new items.
    pub max_bytes: u64,
    /// Maximum age of stored items. Older items are dropped.
    pub max_age: Duration,
}

/// The receiver of each signal; `None` if the signal is not exported.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OtlpSettings {
    /// Receiver of spans.
    pub traces: Option<Receiver>,
    pub metrics: Option<Receiver>,
    /// Receiver of log records.
    pub logs: Option<Receiver>,
    /// Whether metrics are changes since the previous export. A refused change would be missing in every sum, so it is
    /// sent again once other requests are accepted.
    pub delta_metrics: bool,
    /// Limits of each signal.
    pub limits: Limits,
    /// The queue on disk; `None` to queue only in memory. A reload changes only its limits.
    pub disk: Option<DiskQueue>,
}
