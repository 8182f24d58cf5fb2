//! The tasks that send, and their end: in what order everything stops, within a time, and what was lost with it.

use std::sync::PoisonError;
use std::time::Duration;

use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{Instant, timeout, timeout_at};

use crate::otlp::Exporter;
use crate::otlp::stats::Lost;

/// How long threads of the SDK may take to end once their receivers are gone.
const END_OF_THREADS: Duration = Duration::from_millis(500);

/// The tasks that send. Dropped without a [`shutdown`](Self::shutdown), nothing more is sent: what is given is dropped.
#[derive(Debug)]
#[must_use = "what waits is lost without a shutdown"]
pub struct Running {
    pub(super) exporter: Exporter,
    pub(super) tasks: Vec<JoinHandle<()>>,
}

impl Running {
    /// A task that sends has ended, though nobody shut it down: it panicked.
    pub fn has_failed(&self) -> bool {
        self.tasks.iter().any(JoinHandle::is_finished)
    }

    /// Accepts no more items, sends what waits for `within` at most, and returns what was lost. A batch whose answer
    /// did not come in time counts as lost, though the receiver may have it. With a queue on disk, what waits and what
    /// was not answered is stored instead, in the last quarter of the time.
    pub async fn shutdown(mut self, within: Duration) -> Lost {
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
        // Batch processors block until they have sent what they hold, and need this runtime for that.
        let own = std::mem::take(&mut *self.exporter.signals.own());
        let mut own: Vec<_> = own
            .into_iter()
            .map(|own| spawn_blocking(move || own.shutdown(within + END_OF_THREADS)))
            .collect();
        for mut task in std::mem::take(&mut self.tasks) {
            if timeout_at(deadline, &mut task).await.is_err() {
                task.abort();
                // Its end is awaited, so that it cannot account for anything after this.
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
        let mut lost = [0; 4];
        for ((outgoing, before), lost) in signals.into_iter().zip(before).zip(&mut lost) {
            let dropped = outgoing.queue().abandon();
            drop(dropped);
            outgoing.settled.notify_waiters();
            *lost = outgoing.queue().stats_mut().dropped.total() - before;
            // No connection outlives this through an exporter that is still held; the SDK's pending exports end.
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
        let [spans, points, records, profiles] = lost;
        Lost {
            spans,
            points,
            records,
            profiles,
        }
    }
}

impl Drop for Running {
    /// Ends exports of the SDK before the runtime, without which they cannot be polled.
    fn drop(&mut self) {
        for outgoing in self.exporter.signals.each() {
            outgoing.control.send_modify(|control| control.target = None);
        }
    }
}
