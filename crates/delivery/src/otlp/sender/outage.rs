//! While the receiver does not take requests: small ones ask whether it does again.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::attempt::backoff_of;
use super::{PROBES, Sender};
use crate::otlp::answer::RetryCause;
use crate::otlp::answer_counts::AfterAnswer;
use crate::otlp::batch::Batch;
use crate::otlp::outgoing::{DownCause, NotTaken};
use crate::otlp::queue::Due;
use crate::otlp::stats::Reason;
use crate::transport::backoff::Backoff;

/// Why nothing but small requests is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Down {
    cause: DownCause,
    backoff: Backoff,
    /// When the next small request is sent.
    retry_at: Instant,
}

fn backoff_while(down: DownCause) -> Backoff {
    match down {
        DownCause::Retry(cause) => backoff_of(cause),
        DownCause::Unsupported => PROBES,
    }
}

impl Sender {
    /// The receiver did not take gcwatch's own telemetry, which waits in the queue now.
    pub(super) fn heed(&mut self, not_taken: &NotTaken) {
        if self.down.is_some()
            || self
                .target
                .as_ref()
                .is_none_or(|target| !Arc::ptr_eq(target, &not_taken.by))
        {
            return;
        }
        if not_taken.cause == DownCause::Unsupported || self.may_store() {
            self.go_down(not_taken.cause, not_taken.after);
        } else if let Some(after) = not_taken.after {
            self.not_before = Some(Instant::now() + after);
        }
    }

    /// From now on only small requests are sent, until one is taken.
    pub(super) fn go_down(&mut self, cause: DownCause, after: Option<Duration>) {
        let known = self.down.take().filter(|down| down.cause == cause);
        let mut backoff = known.map_or_else(|| backoff_while(cause), |down| down.backoff);
        let chance = if cause == DownCause::Unsupported {
            1.0
        } else {
            fastrand::f64()
        };
        let delay = backoff.next(chance);
        let retry_at = Instant::now() + after.unwrap_or(delay);
        let retry_at = self.not_before.take().map_or(retry_at, |at| at.max(retry_at));
        self.down = Some(Down {
            cause,
            backoff,
            retry_at,
        });
    }

    /// Waits while the receiver does not take requests: writes what comes to the disk, and asks again when it is time.
    /// True: the signal is closed, and nothing is left to do.
    pub(super) async fn wait_down(&mut self) -> bool {
        let Some(Down { cause, retry_at, .. }) = self.down.clone() else {
            return false;
        };
        let now = Instant::now();
        let closing = self.control.borrow().closing;
        let foreign = cause == DownCause::Unsupported && self.outgoing.queue().is_foreign();
        if foreign && (closing || self.outgoing.queue().is_flushing()) {
            // Nobody waits for what was never accepted.
            let dropped = self.outgoing.queue().drop_unsupported();
            drop(dropped);
            self.outgoing.settled.notify_waiters();
        }
        let store_handle = self.outgoing.store_handle.as_ref();
        let usable_at = store_handle.and_then(|store_handle| store_handle.usable_at(now));
        let usable_at = usable_at.filter(|_| !foreign);
        let spill_at = match (usable_at, self.outgoing.queue().spill_due(now)) {
            (Some(usable), Due::Now) => Some(usable.max(now)),
            (Some(usable), Due::At(at)) => Some(usable.max(at)),
            _ => None,
        };
        if spill_at.is_some_and(|at| at <= now) {
            self.store_waiting().await;
            return false;
        }
        if closing {
            // What is in memory cannot be written: it is sent as long as there is time.
            self.down = None;
            return self.outgoing.queue().due(now) == Due::Done;
        }
        if retry_at <= now {
            self.probe().await;
            return false;
        }
        tokio::select! {
            () = sleep_until(spill_at.map_or(retry_at, |at| at.min(retry_at))) => {}
            () = self.outgoing.wake.notified() => {}
            () = self.outgoing.crowded.notified(), if usable_at.is_some() => {}
            Ok(()) = self.control.changed() => {}
        }
        false
    }

    /// Asks with the smallest request that there is.
    async fn probe(&mut self) {
        let Some(target) = self.target.clone() else {
            self.down = None;
            return;
        };
        let entries = self.outgoing.queue().take_one();
        if entries.is_empty() {
            // Nothing is new: the oldest that is stored asks. Without any, the next batch does.
            if self.outgoing.queue().on_disk() == 0 || !self.send_stored().await {
                self.down = None;
            }
            return;
        }
        self.outgoing.queue().stats_mut().retries += 1;
        let batch = Arc::new(Batch::new(entries));
        self.note_sending(&[], Some(&batch));
        let verdict = self.attempt(&target, &batch).await;
        self.note_sending(&[], None);
        let kept = match verdict {
            AfterAnswer::Settled => None,
            AfterAnswer::Halve => {
                self.give_up(batch.items(), Reason::TooLarge);
                None
            }
            AfterAnswer::Refused => {
                self.shelve(batch, 0);
                self.down = None;
                self.outgoing.queue().finish();
                self.outgoing.settled.notify_waiters();
                return;
            }
            // So little is never too large.
            AfterAnswer::Exhausted => Some((DownCause::Retry(RetryCause::Unavailable), None)),
            AfterAnswer::Retry(cause, after) => Some((DownCause::Retry(cause), after)),
            AfterAnswer::Unsupported => Some((DownCause::Unsupported, None)),
        };
        match kept {
            Some((cause, after)) => {
                let dropped = self
                    .outgoing
                    .queue()
                    .put_back(Batch::into_entries(batch), Instant::now());
                drop(dropped);
                self.go_down(cause, after);
            }
            None => self.down = None,
        }
        self.outgoing.queue().finish();
        self.outgoing.settled.notify_waiters();
    }
}
