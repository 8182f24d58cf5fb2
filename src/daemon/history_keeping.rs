//! Writes the history of processes: once per minute, and at shutdown.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use targets::host;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout};

use crate::pipeline::Pipeline;

/// Interval between writes of the history.
const WRITE_INTERVAL: Duration = Duration::from_secs(60);

/// The task that writes the history. At most one write runs at a time.
#[derive(Debug, Default)]
pub(super) struct HistoryKeeping {
    last: Mutex<Option<Instant>>,
    writing: AtomicBool,
}

impl HistoryKeeping {
    /// Writes in the background if a write is due. Called once per second.
    pub(super) fn tick(self: &Arc<Self>, pipeline: &Pipeline, now: Instant) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let is_time = now.saturating_duration_since(*last.get_or_insert(now)) >= WRITE_INTERVAL;
        // A disk can hang, so the tick does not wait for it.
        if !is_time || self.writing.swap(true, Ordering::Acquire) {
            return;
        }
        *last = Some(now);
        let (keeping, pipeline) = (Arc::clone(self), pipeline.clone());
        spawn_blocking(move || {
            pipeline.keep_history(host::now(), false);
            keeping.writing.store(false, Ordering::Release);
        });
    }

    /// Writes the rest of the history, unless an earlier write is still running. Waits for at most `within`.
    pub(super) async fn close(&self, pipeline: &Pipeline, within: Duration) {
        if self.writing.swap(true, Ordering::Acquire) {
            return;
        }
        let pipeline = pipeline.clone();
        let writing = spawn_blocking(move || pipeline.keep_history(host::now(), true));
        let _late = timeout(within, writing).await;
    }
}
