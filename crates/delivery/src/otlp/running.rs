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
        let has_disk = self.exporter.lanes.traces.store_handle.is_some();
        let deadline = begin + if has_disk { within * 3 / 4 } else { within };
        let lanes = self.exporter.lanes.each();
        let before = lanes.map(|lane| {
            let mut queue = lane.queue();
            queue.close();
            queue.stats_mut().dropped.total()
        });
        for lane in lanes {
            lane.control.send_modify(|control| control.closing = true);
            lane.wake.notify_one();
        }
        // Batch processors block until they have sent what they hold, and need this runtime for that.
        let own = std::mem::take(&mut *self.exporter.lanes.own());
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
        for lane in lanes {
            let _in_time = timeout_at(end, lane.store_rest()).await;
            lane.count_drops();
        }
        let mut lost = [0; 4];
        for ((lane, before), lost) in lanes.into_iter().zip(before).zip(&mut lost) {
            let dropped = lane.queue().abandon();
            drop(dropped);
            lane.settled.notify_waiters();
            *lost = lane.queue().stats_mut().dropped.total() - before;
            // No connection outlives this through an exporter that is still held; the SDK's pending exports end.
            lane.control.send_modify(|control| control.target = None);
        }
        for ended in own.into_iter().filter(|ended| !ended.is_finished()) {
            let _in_time = timeout(END_OF_THREADS, ended).await;
        }
        self.exporter
            .lanes
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
        for lane in self.exporter.lanes.each() {
            lane.control.send_modify(|control| control.target = None);
        }
    }
}
