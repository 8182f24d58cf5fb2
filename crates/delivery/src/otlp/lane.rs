//! One signal's lane: its queue, and what the task that empties it must know.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use crate::otlp::batch::Entry;
use crate::otlp::queue::Queue;
use crate::otlp::signal::Signal;
use crate::otlp::target::Target;

/// What a lane's senders follow: changed by a reload and by the shutdown.
#[derive(Clone, Default)]
pub(crate) struct Control {
    /// Where to send; `None`: the signal is not exported.
    pub(crate) target: Option<Arc<Target>>,
    /// How long one batch is retried.
    pub(crate) retry_for: Duration,
    /// Send what is queued, then end.
    pub(crate) closing: bool,
}

impl Control {
    /// Whether `target` is still the one to send to.
    pub(crate) fn is_for(&self, target: &Arc<Target>) -> bool {
        self.target.as_ref().is_some_and(|now| Arc::ptr_eq(now, target))
    }
}

/// The queue between those who give items of one signal and the task that sends them.
pub(crate) struct Lane {
    pub(crate) signal: Signal,
    queue: Mutex<Queue>,
    /// Something is due earlier than the task knows.
    pub(crate) wake: Notify,
    /// Something was sent or dropped, or an attempt was counted.
    pub(crate) settled: Notify,
    pub(crate) control: watch::Sender<Control>,
    /// When the task that sends was alive last.
    alive: Mutex<Instant>,
}

impl fmt::Debug for Lane {
    /// Nothing of what waits, nor of the receiver: both can be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lane")
            .field("signal", &self.signal)
            .finish_non_exhaustive()
    }
}

impl Lane {
    pub(crate) fn new(signal: Signal, now: Instant) -> Self {
        Self {
            signal,
            queue: Mutex::new(Queue::new()),
            wake: Notify::new(),
            settled: Notify::new(),
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
        drop(pushed.dropped);
    }
}
