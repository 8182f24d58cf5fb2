//! The effects of an answer on the counters of its signal and on the log.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use crate::otlp::answer::{Answer, RetryCause};
use crate::otlp::outgoing::Outgoing;
use crate::otlp::queue::Queue;
use crate::otlp::stats::{DroppedItems, Reason};
use crate::otlp::target::Target;
use crate::transport::limit::RateLimit;

/// Size below which "exhausted" means a quota, because every receiver accepts requests this small.
const SMALLEST_SPLIT: usize = 16 << 10;

/// The next step for a request after its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AfterAnswer {
    /// No further step: the items of the request are counted.
    Settled,
    /// Send the request again, not before the delay if the receiver requests one.
    Retry(RetryCause, Option<Duration>),
    /// Send the request in halves.
    Halve,
    /// The receiver is overloaded, or the request is too large: gRPC has one code for both.
    Exhausted,
    /// The receiver has refused the request. The items stay in flight, and the request is sent again when other
    /// requests are accepted.
    Refused,
    /// The receiver does not accept this signal, at least for now.
    Unsupported,
}

/// A counter of answers in the statistics of one signal, which also logs the answers that are relevant for operators,
/// each kind at most once per minute.
pub(crate) struct AnswerCounts {
    outgoing: Arc<Outgoing>,
    partial: RateLimit,
    retry: RateLimit,
    refused: RateLimit,
    overflow: RateLimit,
    /// Whether a failure was logged whose end was not logged yet.
    failing: bool,
    /// Drops that were already logged.
    logged: DroppedItems,
}

impl AnswerCounts {
    pub(crate) fn new(outgoing: Arc<Outgoing>) -> Self {
        Self {
            outgoing,
            partial: RateLimit::default(),
            retry: RateLimit::default(),
            refused: RateLimit::default(),
            overflow: RateLimit::default(),
            failing: false,
            logged: DroppedItems::default(),
        }
    }

    /// Counts the answer to a request of `items` items in `bytes` encoded bytes.
    pub(crate) fn judge(
        &mut self,
        items: u64,
        bytes: usize,
        target: &Target,
        answer: Answer,
        now: Instant,
    ) -> AfterAnswer {
        let verdict = self.count(items, bytes, target, answer, now);
        self.outgoing.settled.notify_waiters();
        verdict
    }

    fn count(&mut self, items: u64, bytes: usize, target: &Target, answer: Answer, now: Instant) -> AfterAnswer {
        match answer {
            Answer::Accepted { rejected, message } => {
                self.accepted(items, rejected, bytes, target, &message, now);
                AfterAnswer::Settled
            }
            Answer::Retry { cause, after, message } => {
                self.retried(cause, target, &message, now);
                AfterAnswer::Retry(cause, after)
            }
            Answer::TooLarge { certain: true, message } => {
                self.too_large(bytes, target, &message, now);
                AfterAnswer::Halve
            }
            Answer::TooLarge { message, .. } => {
                self.retried(RetryCause::Unavailable, target, &message, now);
                // Every receiver accepts requests this small.
                if bytes >= SMALLEST_SPLIT {
                    AfterAnswer::Exhausted
                } else {
                    AfterAnswer::Retry(RetryCause::Unavailable, None)
                }
            }
            Answer::Refused { message } | Answer::CannotDecompress { message } => {
                let keeps = self.outgoing.control.borrow().keeps_refused;
                self.refused(items, keeps, target, &message, now);
                if keeps {
                    AfterAnswer::Refused
                } else {
                    AfterAnswer::Settled
                }
            }
            Answer::Unsupported { message } => {
                self.unsupported(target, &message, now);
                AfterAnswer::Unsupported
            }
        }
    }

    fn accepted(&mut self, items: u64, rejected: u64, bytes: usize, target: &Target, message: &str, now: Instant) {
        let signal = self.outgoing.signal;
        let whole = rejected == 0 && message.is_empty();
        let text = format!("{rejected} {} rejected: {}", signal.items(), target.shown(message));
        {
            let mut queue = self.outgoing.queue();
            queue.accepted(items, rejected, bytes);
            if whole {
                queue.stats_mut().requests.accepted += 1;
            } else {
                queue.stats_mut().requests.partial += 1;
                queue.failed(&text, SystemTime::now());
            }
        }
        let address = target.address();
        if !whole && self.partial.allows(now) {
            tracing::warn!(target: "gcwatch::export", %signal,
                "the OTLP endpoint {address} accepted a request in part: {text}",
            );
        }
        if std::mem::take(&mut self.failing) {
            tracing::info!(target: "gcwatch::export", %signal,
                "the OTLP endpoint {address} accepts requests again",
            );
        }
    }

    /// Counts a request that was not accepted. Returns its message, safe to show.
    fn failed(&self, target: &Target, message: &str, count: impl FnOnce(&mut Queue)) -> String {
        let text = target.shown(message);
        let mut queue = self.outgoing.queue();
        count(&mut queue);
        queue.failed(&text, SystemTime::now());
        text
    }

    fn retried(&mut self, cause: RetryCause, target: &Target, message: &str, now: Instant) {
        let signal = self.outgoing.signal;
        let text = self.failed(target, message, |queue| {
            let requests = &mut queue.stats_mut().requests;
            match cause {
                RetryCause::Unavailable => requests.unavailable += 1,
                RetryCause::TimedOut => requests.timed_out += 1,
                RetryCause::Unreachable => requests.unreachable += 1,
            }
        });
        // Log once per outage: the end of the outage is logged, too, and metrics and the page count the retries.
        if !self.failing && self.retry.allows(now) {
            self.failing = true;
            let address = target.address();
            let what = match cause {
                RetryCause::Unavailable => format!("the OTLP endpoint {address} is not available"),
                RetryCause::TimedOut => format!("the OTLP endpoint {address} did not answer"),
                RetryCause::Unreachable => format!("cannot reach the OTLP endpoint {address}"),
            };
            tracing::warn!(target: "gcwatch::export", %signal, "{what}; retrying (only exports are affected): {text}");
        }
        self.log_drops(now);
    }

    fn too_large(&mut self, bytes: usize, target: &Target, message: &str, now: Instant) {
        let signal = self.outgoing.signal;
        let text = self.failed(target, message, |queue| {
            queue.stats_mut().requests.too_large += 1;
            queue.learn_limit(bytes);
        });
        if self.refused.allows(now) {
            let address = target.address();
            tracing::warn!(
                target: "gcwatch::export", %signal,
                "the OTLP endpoint {address} refused a request of {bytes} bytes as too large; sending smaller ones: {text}",
            );
        }
    }

    fn refused(&mut self, items: u64, keeps: bool, target: &Target, message: &str, now: Instant) {
        let signal = self.outgoing.signal;
        let text = self.failed(target, message, |queue| {
            queue.stats_mut().requests.refused += 1;
            if !keeps {
                queue.gave_up(items, Reason::Refused);
            }
        });
        if self.refused.allows(now) {
            let (address, kind) = (target.address(), signal.items());
            let done = if keeps { "keeping" } else { "dropped" };
            tracing::warn!(
                target: "gcwatch::export", %signal,
                "the OTLP endpoint {address} refused a request; {done} {items} {kind}: {text}",
            );
        }
    }

    fn unsupported(&mut self, target: &Target, message: &str, now: Instant) {
        let signal = self.outgoing.signal;
        let mut news = false;
        let text = self.failed(target, message, |queue| {
            queue.stats_mut().requests.unsupported += 1;
            news = queue.unsupported(now);
        });
        if news {
            self.failing = true;
            let address = target.address();
            tracing::warn!(
                target: "gcwatch::export", %signal,
                "the OTLP endpoint {address} rejects {signal} for now; retrying at least once a minute: {text}",
            );
        }
    }

    /// Logs the items dropped since the last message because of a full queue or the limit on retries.
    pub(crate) fn log_drops(&mut self, now: Instant) {
        let dropped = self.outgoing.queue().stats_mut().dropped;
        let full = dropped.queue_full - self.logged.queue_full + dropped.disk_full - self.logged.disk_full;
        let expired = dropped.expired - self.logged.expired;
        if full + expired > 0 && self.overflow.allows(now) {
            self.logged = dropped;
            let signal = self.outgoing.signal;
            let items = signal.items();
            tracing::warn!(
                target: "gcwatch::export", %signal,
                "dropped {full} {items} because the queue is full and {expired} after retrying for too long",
            );
        }
    }
}
