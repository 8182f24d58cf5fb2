//! When the next batch must be sent, or written to the disk, and what a flush waits for.

use std::time::Duration;

use tokio::time::Instant;

use super::{Queue, SPILL_BYTES};

/// How long an item waits in memory before it is written to the disk, once the receiver does not take it.
const SPILL_DELAY: Duration = Duration::from_secs(1);

/// So many bytes are sent without waiting for more: larger requests are not cheaper, and what waits costs memory.
const WORTH_SENDING: usize = 256 << 10;

/// What the sender must do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Due {
    /// Send a batch.
    Now,
    /// Send one then, or earlier if more comes.
    At(Instant),
    /// Wait: the queue is empty.
    Never,
    /// End: the queue is empty and closed.
    Done,
}

impl Queue {
    /// When the next batch must be sent.
    pub(crate) fn due(&self, now: Instant) -> Due {
        let Some(since) = self.waiting_since.filter(|_| !self.entries.is_empty()) else {
            return if self.closing { Due::Done } else { Due::Never };
        };
        let at = since + self.limits.batch_delay;
        let full = self.weight >= self.limits.batch_items || self.bytes >= self.batch_bytes().min(WORTH_SENDING);
        if full || self.closing || self.oldest() < self.flush_to || at <= now {
            Due::Now
        } else {
            Due::At(at)
        }
    }

    /// Half of the queue is full, or as much waits as is written to the disk at once: while the receiver is slow or
    /// down, that is the time to write.
    pub(crate) fn is_crowded(&self) -> bool {
        self.weight > self.limits.queue_items / 2 || self.bytes > self.limits.queue_bytes / 2
    }

    /// When what waits must be written to the disk, while the receiver does not take it.
    pub(crate) fn spill_due(&self, now: Instant) -> Due {
        let Some(since) = self.waiting_since.filter(|_| !self.entries.is_empty()) else {
            return Due::Never;
        };
        let much = self.bytes >= self.batch_bytes().min(SPILL_BYTES) || self.is_crowded();
        if much || self.closing || self.is_flushing() || since + SPILL_DELAY <= now {
            Due::Now
        } else {
            Due::At(since + SPILL_DELAY)
        }
    }

    /// Somebody waits until everything is sent.
    pub(crate) fn is_flushing(&self) -> bool {
        self.oldest() < self.flush_to
    }

    /// Makes everything in the queue due at once. Returns a mark for [`is_settled`](Self::is_settled).
    pub(crate) fn mark_flush(&mut self) -> u64 {
        self.flush_to = self.entered;
        self.entered
    }

    /// Whether everything that came before `mark` was sent or dropped.
    pub(crate) fn is_settled(&self, mark: u64) -> bool {
        self.oldest() >= mark && self.sending_from.is_none_or(|from| from >= mark)
    }
}
