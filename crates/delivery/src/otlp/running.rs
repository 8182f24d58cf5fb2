//! The sending tasks and their shutdown: the order in which all parts stop, the time limit, and the lost items.

use std::sync::PoisonError;
use std::time::Duration;

use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{Instant, timeout, timeout_at};

use crate::otlp::Exporter;
use crate::otlp::stats::LostItems;

/// Maximum time for the SDK's threads to end once their receivers are removed.
const END_OF_THREADS: Duration = Duration::from_millis(500);

/// The sending tasks. If this value is dropped without a [`shutdown`](Self::shutdown), sending stops and further items
/// are dropped.
#[derive(Debug)]
#[must_use = "queued items are lost without a shutdown"]
pub struct RunningExport {
    pub(super) exporter: Exporter,
    pub(super) tasks: Vec<JoinHandle<()>>,
}

impl RunningExport {
    /// Returns whether a sending task has ended without a shutdown because it panicked.
    pub fn has_failed(&self) -> bool {
        self.tasks.iter().any(JoinHandle::is_finished)
    }

    /// Stops accepting items, sends queued items for at most `within`, and returns the lost items. A batch without an
    /// answer in time counts as lost, although the receiver can have accepted it. With a queue on disk, queued and
    /// unanswered items are stored instead, in the last quarter of the time.
    pub async fn shutdown(mut self, within: Duration) -> LostItems {
        let begin = Instant::now();
        let end = begin + within;
        let has_disk = self.exporter.signals.traces.store_handle.is_some();
        let deadline = begin + if has_disk { within * 3 / 4 } else { within };
        let signals = self.exporter.signals.each();
        let before = signals.map(|outgoing| {
            let mut queue = outgoing.queue();
            queue.close();
            queue.stats_mut().dropped.total()
        });
        for outgoing in signals {
            outgoing.control.send_modify(|control| control.closing = true);
            outgoing.wake.notify_one();
        }
        // Batch processors block until they have sent their items. Sending needs this runtime, so blocking threads stop
        // the processors.
        let own = std::mem::take(&mut *self.exporter.signals.own());
        let mut own: Vec<_> = own
            .into_iter()
            .map(|own| spawn_blocking(move || own.shutdown(within + END_OF_THREADS)))
            .collect();
        for mut task in std::mem::take(&mut self.tasks) {
            if timeout_at(deadline, &mut task).await.is_err() {
                task.abort();
                // Wait for the end of the task, so that it cannot count anything afterwards.
                let _aborted = task.await;
            }
        }
        for ended in &mut own {
            let _in_time = timeout_at(deadline, ended).await;
        }
        for outgoing in signals {
            let _in_time = timeout_at(end, outgoing.store_rest()).await;
            outgoing.count_drops();
        }
        let mut lost = [0; 3];
        for ((outgoing, before), lost) in signals.into_iter().zip(before).zip(&mut lost) {
            let dropped = outgoing.queue().abandon();
            drop(dropped);
            outgoing.settled.notify_waiters();
            *lost = outgoing.queue().stats_mut().dropped.total() - before;
            // Remove the target, so that no connection lives on through another exporter handle, and pending exports of
            // the SDK end.
            outgoing.control.send_modify(|control| control.target = None);
        }
        for ended in own.into_iter().filter(|ended| !ended.is_finished()) {
            let _in_time = timeout(END_OF_THREADS, ended).await;
        }
        self.exporter
            .signals
            .connections
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
        let [spans, points, records] = lost;
        LostItems { spans, points, records }
    }
}

impl Drop for RunningExport {
    /// Stops exports of the SDK before the runtime ends, because they cannot be polled without the runtime.
    fn drop(&mut self) {
        for outgoing in self.exporter.signals.each() {
            outgoing.control.send_modify(|control| control.target = None);
        }
    }
}
