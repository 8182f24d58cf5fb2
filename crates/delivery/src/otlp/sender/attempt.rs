//! One batch: attempts until it is accepted, refused, expired or stored.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep_until};

use super::disk::{store_crowd, store_due};
use super::{CLOSING_CAP, SHORT, Sender};
use crate::otlp::answer::RetryCause;
use crate::otlp::answer_counts::AfterAnswer;
use crate::otlp::batch::Batch;
use crate::otlp::outgoing::DownCause;
use crate::otlp::stats::Reason;
use crate::otlp::target::Target;
use crate::transport::backoff::Backoff;
use crate::transport::retry;

/// An answer that takes longer is late: what waits goes to the disk.
const LATE_AFTER: Duration = Duration::from_secs(1);
/// How often that is looked at until the answer comes.
const LATE_EVERY: Duration = Duration::from_millis(500);

impl Sender {
    /// Sends until the batch is accepted, refused, expired or stored.
    pub(super) async fn deliver(&mut self, batch: &Arc<Batch>, deadline: Instant) -> AfterAnswer {
        let mut backoff: Option<(RetryCause, Backoff)> = None;
        let mut first = true;
        loop {
            self.follow_control();
            let Some(target) = self.target.clone() else {
                self.give_up(batch.items(), Reason::Disabled);
                return AfterAnswer::Settled;
            };
            // The receiver may have asked for a pause, for this batch or the one before.
            if let Some(at) = self.not_before {
                if self.wait(at.min(deadline), true).await {
                    continue;
                }
                if at > deadline {
                    self.give_up(batch.items(), Reason::Expired);
                    return AfterAnswer::Settled;
                }
                self.not_before = None;
            }
            if !first {
                self.outgoing.queue().stats_mut().retries += 1;
            }
            first = false;
            let (cause, after) = match self.attempt(&target, batch).await {
                AfterAnswer::Retry(cause, after) => (cause, after),
                verdict => return verdict,
            };
            let now = Instant::now();
            if self.may_store() && self.store(batch).await {
                self.go_down(DownCause::Retry(cause), after);
                return AfterAnswer::Settled;
            }
            if now >= deadline {
                self.give_up(batch.items(), Reason::Expired);
                return AfterAnswer::Settled;
            }
            if let Some(after) = after {
                self.not_before = Some(now + after);
                continue;
            }
            if backoff.as_ref().is_none_or(|(of, _)| *of != cause) {
                backoff = Some((cause, backoff_of(cause)));
            }
            let mut delay = match &mut backoff {
                Some((_, backoff)) => backoff.next(fastrand::f64()),
                None => SHORT.bound(),
            };
            if self.control.borrow().closing {
                delay = delay.min(CLOSING_CAP);
            }
            // Another receiver, or the shutdown, is a reason to send at once, as if for the first time.
            if self.wait((now + delay).min(deadline), false).await {
                backoff = None;
            }
        }
    }

    /// One request, and what its answer means. What comes meanwhile goes to the disk when there is too much of it, or
    /// when the answer is late: a receiver that takes requests and does not answer is not seen to be down before the
    /// request times out.
    pub(super) async fn attempt(&mut self, target: &Arc<Target>, batch: &Arc<Batch>) -> AfterAnswer {
        let (items, len) = (batch.items(), batch.len());
        let answer = {
            let outgoing = Arc::clone(&self.outgoing);
            let mut sending = pin!(target.send(batch));
            let mut late = interval_at(Instant::now() + LATE_AFTER, LATE_EVERY);
            late.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                tokio::select! {
                    answer = &mut sending => break answer,
                    () = outgoing.crowded.notified(), if outgoing.store_handle.is_some() => {
                        if !outgoing.queue().is_foreign() {
                            store_crowd(&outgoing).await;
                        }
                    }
                    now = late.tick(), if outgoing.store_handle.is_some() => {
                        if !outgoing.queue().is_foreign() {
                            store_due(&outgoing, now).await;
                        }
                    }
                }
            }
        };
        let now = Instant::now();
        let verdict = self.counts.judge(items, len, target, answer, now);
        match verdict {
            AfterAnswer::Settled if self.exhausted.is_some_and(|smallest| len >= smallest) => self.exhausted = None,
            AfterAnswer::Exhausted => {
                let again = self.exhausted.is_some();
                self.exhausted = Some(self.exhausted.map_or(len, |smallest| smallest.min(len)));
                if !again {
                    // It may only have too much to do: the same request, later.
                    return AfterAnswer::Retry(RetryCause::Unavailable, None);
                }
                // It is too large, or there is still too much to do: halves, later.
                let mut backoff = SHORT;
                self.not_before = Some(now + backoff.next(fastrand::f64()));
            }
            _ => {}
        }
        verdict
    }

    /// Waits until `until`. True when it ended early: for another receiver always, for the shutdown unless the receiver
    /// `requested` the delay.
    async fn wait(&mut self, until: Instant, requested: bool) -> bool {
        loop {
            tokio::select! {
                () = sleep_until(until) => return false,
                Ok(()) = self.control.changed() => {}
            }
            if self.follow_control() {
                return true;
            }
            if self.control.borrow().closing && !requested {
                return true;
            }
        }
    }
}

pub(super) fn backoff_of(cause: RetryCause) -> Backoff {
    match cause {
        RetryCause::Unavailable | RetryCause::Unreachable => SHORT,
        // Each attempt costs the receiver's timeout.
        RetryCause::TimedOut => retry::BACKOFF,
    }
}
