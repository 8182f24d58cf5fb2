//! To the disk and back: what the receiver does not take, and what was stored.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::Sender;
use crate::otlp::answer::RetryCause;
use crate::otlp::answer_counts::AfterAnswer;
use crate::otlp::batch::Batch;
use crate::otlp::outgoing::{DownCause, Outgoing};
use crate::otlp::queue::Due;
use crate::otlp::stats::Reason;

/// How long a disk that could not be read is not read again.
const READ_AGAIN: Duration = Duration::from_secs(10);

impl Sender {
    /// Keeps batches that the receiver does not take, the first of them last: on disk, or else in the queue.
    pub(super) async fn keep(&mut self, mut batches: Vec<Arc<Batch>>) {
        let mut entries = Vec::new();
        while let Some(batch) = batches.pop() {
            if entries.is_empty() && self.may_store() && self.store(&batch).await {
                continue;
            }
            entries.extend(Batch::into_entries(batch));
        }
        let dropped = self.outgoing.queue().put_back(entries, Instant::now());
        drop(dropped);
    }

    /// Whether what the receiver does not take may go to the disk now. A signal that it has never accepted and says
    /// that it does not accept stays in memory.
    pub(super) fn may_store(&self) -> bool {
        let Some(store_handle) = &self.outgoing.store_handle else {
            return false;
        };
        let now = Instant::now();
        let usable = store_handle.usable_at(now).is_some_and(|at| at <= now);
        usable && !self.outgoing.queue().is_foreign()
    }

    /// Writes a batch in flight to the disk; false: it is still in flight.
    pub(super) async fn store(&self, batch: &Arc<Batch>) -> bool {
        let Some(store_handle) = &self.outgoing.store_handle else {
            return false;
        };
        let stored = store_handle.append(self.outgoing.signal, Arc::clone(batch)).await;
        if stored {
            self.outgoing.queue().stored(batch.items());
            self.outgoing.count_drops();
        }
        stored
    }

    /// Writes the oldest that waits in memory to the disk.
    pub(super) async fn store_waiting(&mut self) {
        store_oldest(&self.outgoing).await;
        self.outgoing.settled.notify_waiters();
        self.counts.log_drops(Instant::now());
    }

    /// Sends the oldest stored request, if there is one. False: there is none, or it cannot be read now.
    pub(super) async fn send_stored(&mut self) -> bool {
        let (Some(store_handle), Some(target)) = (self.outgoing.store_handle.clone(), self.target.clone()) else {
            return false;
        };
        let now = Instant::now();
        if self.outgoing.queue().on_disk() == 0 || self.read_again.is_some_and(|again| now < again) {
            return false;
        }
        if let Some(at) = self.not_before
            && at > now
        {
            self.read_again = Some(at);
            return false;
        }
        self.read_again = None;
        let signal = self.outgoing.signal;
        let Some(stored) = store_handle.oldest(signal).await else {
            self.outgoing.count_drops();
            if self.outgoing.queue().on_disk() > 0 {
                self.read_again = Some(Instant::now() + READ_AGAIN);
            }
            return false;
        };
        self.outgoing.count_drops();
        let items = self.outgoing.queue().take_stored(stored.items);
        let batch = Arc::new(Batch::stored(stored.request, items));
        if self.down.is_some() {
            self.outgoing.queue().stats_mut().retries += 1;
        }
        let verdict = self.attempt(&target, &batch).await;
        match verdict {
            AfterAnswer::Settled => {
                store_handle.remove(signal, stored.number).await;
                self.down = None;
            }
            AfterAnswer::Refused => {
                store_handle.remove(signal, stored.number).await;
                self.shelve(batch, 0);
                self.down = None;
            }
            AfterAnswer::Halve | AfterAnswer::Exhausted => {
                self.store_halves(batch).await;
                store_handle.remove(signal, stored.number).await;
                if verdict == AfterAnswer::Exhausted {
                    self.go_down(DownCause::Retry(RetryCause::Unavailable), None);
                } else {
                    self.down = None;
                }
            }
            AfterAnswer::Retry(cause, after) => {
                self.leave_stored(stored.number, items).await;
                self.go_down(DownCause::Retry(cause), after);
            }
            AfterAnswer::Unsupported => {
                self.leave_stored(stored.number, items).await;
                self.go_down(DownCause::Unsupported, None);
            }
        }
        self.outgoing.count_drops();
        self.outgoing.settled.notify_waiters();
        true
    }

    /// A stored request stays where it is, unless it was dropped while it was sent.
    async fn leave_stored(&self, number: u64, items: u64) {
        let Some(store_handle) = &self.outgoing.store_handle else {
            return;
        };
        // Dropped or not, the counts of the disk say so.
        let _is_there = store_handle.has(self.outgoing.signal, number).await;
        self.outgoing.queue().stored(items);
        self.outgoing.count_drops();
    }

    /// Stores the halves of a stored request, which is removed after that.
    async fn store_halves(&self, batch: Arc<Batch>) {
        let items = batch.items();
        let (first, second) = match Arc::try_unwrap(batch).map(Batch::halve) {
            Ok(Ok(halves)) => halves,
            _ => return self.give_up(items, Reason::TooLarge),
        };
        for half in [first, second] {
            let half = Arc::new(half);
            if !self.store(&half).await {
                self.give_up(half.items(), Reason::DiskFull);
            }
        }
    }
}

/// Writes what waits to the disk until the queue is not crowded any more.
pub(super) async fn store_crowd(outgoing: &Outgoing) {
    while outgoing.queue().is_crowded() {
        if !store_oldest(outgoing).await {
            return;
        }
    }
}

/// Writes to the disk what has waited in memory for as long as it may while the receiver does not take it.
pub(super) async fn store_due(outgoing: &Outgoing, now: Instant) {
    while outgoing.queue().spill_due(now) == Due::Now {
        if !store_oldest(outgoing).await {
            return;
        }
    }
}

/// Writes the oldest that waits in memory to the disk. False: that was not possible, and it waits as before.
async fn store_oldest(outgoing: &Outgoing) -> bool {
    let Some(store_handle) = &outgoing.store_handle else {
        return false;
    };
    let now = Instant::now();
    if store_handle.usable_at(now).is_none_or(|at| at > now) {
        return false;
    }
    let entries = outgoing.queue().take_to_store();
    if entries.is_empty() {
        return false;
    }
    let batch = Arc::new(Batch::new(entries));
    let items = batch.items();
    let stored = store_handle.append(outgoing.signal, Arc::clone(&batch)).await;
    if stored {
        outgoing.queue().stored(items);
    } else {
        let dropped = outgoing.queue().put_back(Batch::into_entries(batch), now);
        drop(dropped);
    }
    outgoing.count_drops();
    stored
}
