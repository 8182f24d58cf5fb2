//! The task of one signal: takes batches from the queue, sends and retries them.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use crate::otlp::account::{Account, Verdict};
use crate::otlp::batch::Batch;
use crate::otlp::lane::{Control, Lane};
use crate::otlp::queue::Due;
use crate::otlp::stats::Reason;
use crate::otlp::target::Target;
use crate::transport::retry;

/// The longest delay between attempts of our own while the daemon shuts down.
pub(crate) const CLOSING_CAP: Duration = Duration::from_secs(1);

/// How often the task says that it is alive.
const BEAT_EVERY: Duration = Duration::from_secs(1);

/// As [`run`], saying in between that the task is alive, whatever it waits for.
pub(crate) async fn run_beating(lane: Arc<Lane>) {
    let mut sending = pin!(run(Arc::clone(&lane)));
    let mut beats = interval(BEAT_EVERY);
    beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = &mut sending => return,
            now = beats.tick() => lane.beat(now),
        }
    }
}

/// Sends until the lane is closed and empty.
pub(crate) async fn run(lane: Arc<Lane>) {
    let control = lane.control.subscribe();
    let mut sender = Sender {
        account: Account::new(Arc::clone(&lane)),
        lane,
        control,
        target: None,
        not_before: None,
    };
    loop {
        let due = sender.lane.queue().due(Instant::now());
        match due {
            Due::Now => sender.send_batch().await,
            Due::At(at) => {
                tokio::select! {
                    () = sleep_until(at) => {}
                    () = sender.lane.wake.notified() => {}
                }
            }
            Due::Never => sender.lane.wake.notified().await,
            Due::Done => return,
        }
    }
}

struct Sender {
    lane: Arc<Lane>,
    control: watch::Receiver<Control>,
    account: Account,
    /// Where the last attempt went.
    target: Option<Arc<Target>>,
    /// The receiver asked for no request before.
    not_before: Option<Instant>,
}

impl Sender {
    async fn send_batch(&mut self) {
        let entries = self.lane.queue().take();
        if entries.is_empty() {
            // A reload has just emptied the queue.
            return;
        }
        let deadline = Instant::now() + self.control.borrow().retry_for;
        let mut rest = vec![Arc::new(Batch::new(entries))];
        while let Some(batch) = rest.pop() {
            match self.deliver(&batch, deadline).await {
                // `deliver` retries by itself.
                Verdict::Settled | Verdict::Retry(_) => {}
                // The attempt is over: nothing else holds the batch. If something did, its items would be counted as
                // dropped.
                Verdict::Halve => match Arc::try_unwrap(batch).map(Batch::halve) {
                    Ok(Ok((first, second))) => rest.extend([Arc::new(second), Arc::new(first)]),
                    Ok(Err(whole)) => self.give_up(whole.items(), Reason::TooLarge),
                    Err(shared) => self.give_up(shared.items(), Reason::TooLarge),
                },
                Verdict::Unsupported => {
                    let others: u64 = rest.drain(..).map(|batch| batch.items()).sum();
                    self.give_up(batch.items() + others, Reason::Unsupported);
                }
            }
        }
        self.lane.queue().finish();
        self.lane.settled.notify_waiters();
        self.account.log_drops(Instant::now());
    }

    /// Sends until the batch is accepted, refused or expired.
    async fn deliver(&mut self, batch: &Arc<Batch>, deadline: Instant) -> Verdict {
        let mut backoff = retry::BACKOFF;
        let mut first = true;
        loop {
            self.follow_control();
            let Some(target) = self.target.clone() else {
                self.give_up(batch.items(), Reason::Disabled);
                return Verdict::Settled;
            };
            // The receiver may have asked for a pause, for this batch or the one before.
            if let Some(at) = self.not_before {
                if self.wait(at.min(deadline), true).await {
                    continue;
                }
                if at > deadline {
                    self.give_up(batch.items(), Reason::Expired);
                    return Verdict::Settled;
                }
                self.not_before = None;
            }
            if !first {
                self.lane.queue().stats_mut().retries += 1;
            }
            first = false;
            let answer = target.send(batch).await;
            let now = Instant::now();
            let after = match self.account.judge(batch.items(), batch.len(), &target, answer, now) {
                Verdict::Retry(after) => after,
                verdict => return verdict,
            };
            if now >= deadline {
                self.give_up(batch.items(), Reason::Expired);
                return Verdict::Settled;
            }
            if let Some(after) = after {
                self.not_before = Some(now + after);
                continue;
            }
            let mut delay = backoff.full_jitter(fastrand::f64());
            if self.control.borrow().closing {
                delay = delay.min(CLOSING_CAP);
            }
            // Another receiver, or the shutdown, is a reason to send at once, as if for the first time.
            if self.wait((now + delay).min(deadline), false).await {
                backoff.reset();
            }
        }
    }

    /// Takes the current receiver. True when it is another one; a pause that the old one asked for is void then.
    fn follow_control(&mut self) -> bool {
        let target = self.control.borrow_and_update().target.clone();
        let changed = target.as_ref().map(Arc::as_ptr) != self.target.as_ref().map(Arc::as_ptr);
        if changed {
            self.not_before = None;
            self.target = target;
        }
        changed
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

    fn give_up(&self, items: u64, reason: Reason) {
        self.lane.queue().gave_up(items, reason);
    }
}

#[cfg(test)]
mod tests;
