//! What one signal has to send: its queue, and what the task that empties it must know.

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

/// What a signal's senders follow: changed by a reload and by the shutdown.
#[derive(Clone, Default)]
pub(crate) struct Control {
    /// Where to send; `None`: the signal is not exported.
    pub(crate) target: Option<Arc<Target>>,
    /// How long one batch is retried: the age of what is on disk where there is one.
    pub(crate) retry_for: Duration,
    /// What is refused is sent again once other requests are accepted: see
    /// [`refused_queue`](crate::otlp::refused_queue).
    pub(crate) keeps_refused: bool,
    /// Send what is queued, then end.
    pub(crate) closing: bool,
}

/// Why nothing but small requests is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DownCause {
    Retry(RetryCause),
    Unsupported,
}

/// What a receiver said when it did not take a request.
#[derive(Debug, Clone)]
pub(crate) struct NotTaken {
    pub(crate) by: Arc<Target>,
    pub(crate) cause: DownCause,
    /// The delay that it asked for.
    pub(crate) after: Option<Duration>,
}

/// The queue between those who give items of one signal and the task that sends them.
pub(crate) struct Outgoing {
    pub(crate) signal: Signal,
    queue: Mutex<Queue>,
    /// Something is due earlier than the task knows.
    pub(crate) wake: Notify,
    /// The queue is half full, and there is a disk.
    pub(crate) crowded: Notify,
    /// The queue on disk.
    pub(crate) store_handle: Option<Arc<StoreHandle>>,
    /// The requests that are being sent from memory: they are stored when the daemon ends meanwhile.
    sending: Mutex<Vec<Arc<Batch>>>,
    /// What the receiver said to gcwatch's own telemetry, for the task that sends.
    not_taken: Mutex<Option<NotTaken>>,
    /// Something was sent or dropped, or an attempt was counted, of any signal.
    pub(crate) settled: Arc<Notify>,
    pub(crate) control: watch::Sender<Control>,
    /// When the task that sends was alive last.
    alive: Mutex<Instant>,
}

impl fmt::Debug for Outgoing {
    /// Nothing of what waits, nor of the receiver: both can be secret.
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

    /// The task that sends is alive.
    pub(crate) fn beat(&self, now: Instant) {
        *self.alive.lock().unwrap_or_else(PoisonError::into_inner) = now;
    }

    /// How long ago that was.
    pub(crate) fn idle_for(&self, now: Instant) -> Duration {
        let alive = *self.alive.lock().unwrap_or_else(PoisonError::into_inner);
        now.saturating_duration_since(alive)
    }

    /// The queue; held only to move memory.
    pub(crate) fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues `entries` and wakes the task when that changes when it must act.
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

    /// Queues what is in flight elsewhere and was not taken, as the receiver said.
    pub(crate) fn take_over(&self, entries: Vec<Entry>, not_taken: Option<NotTaken>, now: Instant) {
        let dropped = self.queue().take_over(entries, now);
        if not_taken.is_some() {
            *self.not_taken.lock().unwrap_or_else(PoisonError::into_inner) = not_taken;
        }
        self.wake.notify_one();
        drop(dropped);
    }

    /// What the receiver said to gcwatch's own telemetry since the last call.
    pub(crate) fn not_taken(&self) -> Option<NotTaken> {
        self.not_taken.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Notes the requests that are being sent from memory.
    pub(crate) fn set_sending(&self, batches: Vec<Arc<Batch>>) {
        *self.sending.lock().unwrap_or_else(PoisonError::into_inner) = batches;
    }

    /// Counts what was dropped from the disk.
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

    /// Writes to the disk what waits and what was being sent, after the task that sends has ended.
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
