//! The receiver of each signal, and the limits of the queues.

use std::path::PathBuf;
use std::time::Duration;

pub use crate::transport::receiver::{Compression, Protocol, Receiver};

/// Limits on what waits and on what is sent at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Spans, log records, or (for metrics) processes' sets of points that wait per signal; when full, the oldest are
    /// dropped.
    pub queue_items: usize,
    /// Their encoded bytes per signal.
    pub queue_bytes: usize,
    /// Spans, log records or processes' sets of points in one request.
    pub batch_items: usize,
    /// Encoded bytes of one request before compression (receivers refuse more than 4 MiB by default).
    pub batch_bytes: usize,
    /// How long an item waits for others, as long as less than 256 KiB wait.
    pub batch_delay: Duration,
    /// How long one batch is retried before it is dropped, where there is no queue on disk.
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

/// The queue on disk: what receivers did not take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskQueue {
    /// Where it is; it is made when it is missing. Nobody else may use it at the same time.
    pub directory: PathBuf,
    /// Most bytes of all signals, compressed; the oldest are dropped for what is new.
    pub max_bytes: u64,
    /// What is older is dropped.
    pub max_age: Duration,
}

/// The receiver of each signal; `None`: it is not exported.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OtlpSettings {
    /// Spans.
    pub traces: Option<Receiver>,
    pub metrics: Option<Receiver>,
    /// Log records.
    pub logs: Option<Receiver>,
    pub profiles: Option<Receiver>,
    /// Metrics are changes since the export before: what is refused is missing in every sum, and is sent again once
    /// other requests are accepted.
    pub delta_metrics: bool,
    /// Limits, the same for each signal.
    pub limits: Limits,
    /// The queue on disk; `None`: what waits is in memory only. A reload changes its bounds only.
    pub disk: Option<DiskQueue>,
}
