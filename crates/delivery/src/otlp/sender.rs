//! The task of one signal: takes batches from the queue, sends and retries them; keeps them on disk, where there is
//! one, while the receiver does not take them.

mod attempt;
mod disk;
mod outage;

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use self::outage::Down;
use crate::otlp::answer_counts::{AfterAnswer, AnswerCounts};
use crate::otlp::batch::Batch;
use crate::otlp::outgoing::{Control, DownCause, Outgoing};
use crate::otlp::queue::Due;
use crate::otlp::refused_queue::{Refused, RefusedQueue};
use crate::otlp::stats::Reason;
use crate::otlp::target::Target;
use crate::transport::backoff::Backoff;

/// The longest delay between attempts of our own while the daemon shuts down.
const CLOSING_CAP: Duration = Duration::from_secs(1);

/// How often the task says that it is alive.
const BEAT_EVERY: Duration = Duration::from_secs(1);

/// Delays after a connection that was refused or an answer that the receiver is unavailable: its return is noticed
/// within two seconds.
const SHORT: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(2));

/// Delays after an answer that the signal is not accepted: exactly 1, 2, 4 ... 60 s.
const PROBES: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(60));

/// As [`run`], saying in between that the task is alive, whatever it waits for.
pub(crate) async fn run_beating(outgoing: Arc<Outgoing>) {
    let mut sending = pin!(run(Arc::clone(&outgoing)));
    let mut beats = interval(BEAT_EVERY);
    beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = &mut sending => return,
            now = beats.tick() => outgoing.beat(now),
        }
    }
}

/// Sends until the signal is closed and empty.
pub(crate) async fn run(outgoing: Arc<Outgoing>) {
    let control = outgoing.control.subscribe();
    let mut sender = Sender {
        counts: AnswerCounts::new(Arc::clone(&outgoing)),
        outgoing,
        control,
        target: None,
        not_before: None,
        down: None,
        exhausted: None,
        read_again: None,
        refused_queue: RefusedQueue::default(),
    };
    loop {
        sender.outgoing.count_drops();
        sender.follow_control();
        if let Some(not_taken) = sender.outgoing.not_taken() {
            sender.heed(&not_taken);
        }
        if sender.down.is_some() {
            if sender.wait_down().await {
                return sender.give_up_refused();
            }
            continue;
        }
        let closing = sender.control.borrow().closing;
        let due = sender.outgoing.queue().due(Instant::now());
        match due {
            Due::Now => {
                sender.send_batch().await;
                // What is new never waits for more than one stored request.
                if sender.down.is_none() && !closing {
                    sender.send_stored().await;
                }
            }
            Due::Done => return sender.give_up_refused(),
            Due::At(_) | Due::Never => {
                if !closing && sender.send_stored().await {
                    continue;
                }
                let until = match (due, sender.read_again) {
                    (Due::At(at), Some(again)) => Some(at.min(again)),
                    (Due::At(at), None) => Some(at),
                    (_, again) => again,
                };
                tokio::select! {
                    () = sleep_until_some(until) => {}
                    () = sender.outgoing.wake.notified() => {}
                }
            }
        }
    }
}

async fn sleep_until_some(until: Option<Instant>) {
    match until {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

struct Sender {
    outgoing: Arc<Outgoing>,
    control: watch::Receiver<Control>,
    counts: AnswerCounts,
    /// Where the last attempt went.
    target: Option<Arc<Target>>,
    /// The receiver asked for no request before.
    not_before: Option<Instant>,
    /// The last request was not taken, and is kept elsewhere.
    down: Option<Down>,
    /// The smallest request to which the receiver said that it has too much to do, since it accepted one of that size.
    exhausted: Option<usize>,
    /// When the disk is read again, after it could not be.
    read_again: Option<Instant>,
    /// What was refused, where that is kept.
    refused_queue: RefusedQueue,
}

impl Sender {
    async fn send_batch(&mut self) {
        let accepted = self.accepted();
        let entries = self.outgoing.queue().take();
        if entries.is_empty() {
            // A reload has just emptied the queue.
            return;
        }
        let deadline = Instant::now() + self.control.borrow().retry_for;
        let mut rest = vec![Arc::new(Batch::new(entries))];
        while let Some(batch) = rest.pop() {
            self.note_sending(&rest, Some(&batch));
            let verdict = self.deliver(&batch, deadline).await;
            self.note_sending(&rest, None);
            match verdict {
                // `deliver` retries by itself.
                AfterAnswer::Settled | AfterAnswer::Retry(..) => {}
                // The attempt is over: nothing else holds the batch. If something did, its items would be counted as
                // dropped.
                AfterAnswer::Halve | AfterAnswer::Exhausted => match Arc::try_unwrap(batch).map(Batch::halve) {
                    Ok(Ok((first, second))) => rest.extend([Arc::new(second), Arc::new(first)]),
                    // It has too much to do: later, as long as it may be retried.
                    Ok(Err(whole)) if verdict == AfterAnswer::Exhausted && Instant::now() < deadline => {
                        rest.push(Arc::new(whole));
                    }
                    Ok(Err(whole)) => self.give_up(whole.items(), Reason::TooLarge),
                    Err(shared) => self.give_up(shared.items(), Reason::TooLarge),
                },
                AfterAnswer::Refused => self.shelve(batch, 0),
                AfterAnswer::Unsupported => {
                    rest.push(batch);
                    self.keep(std::mem::take(&mut rest)).await;
                    self.go_down(DownCause::Unsupported, None);
                }
            }
        }
        self.note_sending(&[], None);
        if self.accepted() > accepted {
            self.send_refused().await;
        }
        self.outgoing.queue().finish();
        self.outgoing.settled.notify_waiters();
        self.counts.log_drops(Instant::now());
    }

    fn accepted(&self) -> u64 {
        self.outgoing.queue().stats().requests.accepted
    }

    /// Keeps a request that was refused, and has been sent again so often.
    fn shelve(&mut self, batch: Arc<Batch>, tries: u32) {
        let given_up = self.refused_queue.put(Refused { batch, tries }, Instant::now());
        if given_up > 0 {
            self.give_up(given_up, Reason::Refused);
        }
    }

    /// Sends the oldest request again that was refused: others are accepted now.
    async fn send_refused(&mut self) {
        let Some(target) = self.target.clone() else { return };
        let Some(Refused { batch, tries }) = self.refused_queue.take(Instant::now()) else {
            return;
        };
        self.outgoing.queue().stats_mut().retries += 1;
        self.note_sending(&[], Some(&batch));
        match self.attempt(&target, &batch).await {
            AfterAnswer::Settled => {}
            AfterAnswer::Halve => self.give_up(batch.items(), Reason::TooLarge),
            // It says nothing of this request.
            AfterAnswer::Retry(..) | AfterAnswer::Exhausted | AfterAnswer::Unsupported => self.shelve(batch, tries),
            AfterAnswer::Refused => self.shelve(batch, tries + 1),
        }
        self.note_sending(&[], None);
    }

    /// Nothing is sent any more.
    fn give_up_refused(&mut self) {
        let items = self.refused_queue.clear();
        if items > 0 {
            self.give_up(items, Reason::Refused);
        }
    }

    /// What is lost when the task is ended now, unless it is stored.
    fn note_sending(&self, rest: &[Arc<Batch>], batch: Option<&Arc<Batch>>) {
        if self.outgoing.store_handle.is_some() {
            self.outgoing.set_sending(rest.iter().chain(batch).cloned().collect());
        }
    }

    /// Takes the current receiver. True when it is another one; a pause that the old one asked for is void then.
    fn follow_control(&mut self) -> bool {
        let target = self.control.borrow_and_update().target.clone();
        let changed = target.as_ref().map(Arc::as_ptr) != self.target.as_ref().map(Arc::as_ptr);
        if changed {
            self.not_before = None;
            self.down = None;
            self.exhausted = None;
            self.read_again = None;
            self.target = target;
        }
        changed
    }

    fn give_up(&self, items: u64, reason: Reason) {
        self.outgoing.queue().gave_up(items, reason);
    }
}

#[cfg(test)]
mod tests;
