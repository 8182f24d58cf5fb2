//! Outgoing data of one signal: its queue, and the state of its sending task.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use crate::otlp::answer::RetryCause;
use crate::otlp::batch::{Batch, Entry};
use crate::otlp::queue::Queue;
use crate::otlp::signal::Signal;
use crate::otlp::store_handle::StoreHandle;
use crate::otlp::target::Target;

/// Settings followed by the sending task of a signal. Reloads and the shutdown change them.
#[derive(Clone, Default)]
pub(crate) struct Control {
    /// Receiver; `None` if the signal is not exported.
    pub(crate) target: Option<Arc<Target>>,
    /// Time for which one batch is retried. With a queue on disk, the maximum age of stored data.
    pub(crate) retry_for: Duration,
    /// Whether refused requests are sent again once other requests are accepted; see
    /// [`refused_queue`](crate::otlp::refused_queue).
    pub(crate) keeps_refused: bool,
    /// Whether to send the queued items and then stop.
    pub(crate) closing: bool,
}

/// Reason why only small requests are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DownCause {
    Retry(RetryCause),
    Unsupported,
}

/// Answer of a receiver that did not accept a request.
#[derive(Debug, Clone)]
pub(crate) struct Rejection {
    pub(crate) by: Arc<Target>,
    pub(crate) cause: DownCause,
    /// Delay that the receiver has requested; `None` if it has not requested a delay.
    pub(crate) after: Option<Duration>,
}

/// The queue between the producers of items of one signal and the sending task.
pub(crate) struct Outgoing {
    pub(crate) signal: Signal,
    queue: Mutex<Queue>,
    /// Notifies the task that an item is due earlier than expected.
    pub(crate) wake: Notify,
    /// Notifies the task that the queue is half full and there is a queue on disk.
    pub(crate) crowded: Notify,
    /// The queue on disk; `None` if there is no such queue.
    pub(crate) store_handle: Option<Arc<StoreHandle>>,
    /// Requests that are being sent from memory. These requests are stored if the daemon exits before they are
    /// answered.
    sending: Mutex<Vec<Arc<Batch>>>,
    /// The receiver's answer to gcwatch's own telemetry, for the sending task; `None` if there is no new answer.
    not_taken: Mutex<Option<Rejection>>,
    /// Notifies about sent or dropped items and counted attempts, of any signal.
    pub(crate) settled: Arc<Notify>,
    pub(crate) control: watch::Sender<Control>,
    /// Time of the last heartbeat of the sending task.
    alive: Mutex<Instant>,
}

impl fmt::Debug for Outgoing {
    /// Shows neither queued data nor the receiver, because both can be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lane")
            .field("signal", &self.signal)
            .finish_non_exhaustive()
    }
}

impl Outgoing {
    pub(crate) fn new(
        signal: Signal,
        now: Instant,
        store_handle: Option<Arc<StoreHandle>>,
        settled: Arc<Notify>,
    ) -> Self {
        Self {
            crowded: Notify::new(),
            store_handle,
            sending: Mutex::default(),
            not_taken: Mutex::default(),
            signal,
            queue: Mutex::default(),
            wake: Notify::new(),
            settled,
            control: watch::Sender::new(Control::default()),
            alive: Mutex::new(now),
        }
    }

    /// Records a heartbeat of the sending task.
    pub(crate) fn beat(&self, now: Instant) {
        *self.alive.lock().unwrap_or_else(PoisonError::into_inner) = now;
    }

    /// Returns the time since the last heartbeat.
    pub(crate) fn idle_for(&self, now: Instant) -> Duration {
        let alive = *self.alive.lock().unwrap_or_else(PoisonError::into_inner);
        now.saturating_duration_since(alive)
    }

    /// Locks the queue. The lock is held only to move memory.
    pub(crate) fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues `entries`, and wakes the task if that changes the time of its next action.
    pub(crate) fn push(&self, now: Instant, entries: Vec<Entry>) {
        let pushed = self.queue().push(now, entries);
        if pushed.wake {
            self.wake.notify_one();
        }
        if pushed.crowded && self.store_handle.is_some() {
            self.crowded.notify_one();
        }
        drop(pushed.dropped);
    }

    /// Queues items that were in flight elsewhere and not accepted, with the answer of the receiver.
    pub(crate) fn take_over(&self, entries: Vec<Entry>, not_taken: Option<Rejection>, now: Instant) {
        let dropped = self.queue().take_over(entries, now);
        if not_taken.is_some() {
            *self.not_taken.lock().unwrap_or_else(PoisonError::into_inner) = not_taken;
        }
        self.wake.notify_one();
        drop(dropped);
    }

    /// Returns the receiver's answer to gcwatch's own telemetry since the last call, or `None` if there was no answer.
    pub(crate) fn not_taken(&self) -> Option<Rejection> {
        self.not_taken.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Records the requests that are being sent from memory.
    pub(crate) fn set_sending(&self, batches: Vec<Arc<Batch>>) {
        *self.sending.lock().unwrap_or_else(PoisonError::into_inner) = batches;
    }

    /// Counts items that were dropped from the disk.
    pub(crate) fn count_drops(&self) {
        let Some(store_handle) = &self.store_handle else { return };
        let drops = store_handle.take_drops(self.signal);
        if !drops.is_empty() {
            let mut queue = self.queue();
            drops
                .into_iter()
                .for_each(|(reason, items)| queue.dropped_stored(items, reason));
        }
    }

    /// Writes queued items and items in flight to the disk, after the sending task has ended. Does nothing without a
    /// queue on disk.
    pub(crate) async fn store_rest(&self) {
        let Some(store_handle) = &self.store_handle else { return };
        let sending = std::mem::take(&mut *self.sending.lock().unwrap_or_else(PoisonError::into_inner));
        let mut rest: Vec<Arc<Batch>> = sending;
        loop {
            let Some(batch) = rest.pop() else {
                let entries = self.queue().take_to_store();
                if entries.is_empty() {
                    return;
                }
                rest.push(Arc::new(Batch::new(entries)));
                continue;
            };
            if !store_handle.append(self.signal, Arc::clone(&batch)).await {
                return;
            }
            self.queue().stored(batch.items());
        }
    }
}
