//! The task of one signal: takes batches from the queue, sends them, and tries again.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until};

use crate::otlp::answer::{Answer, Trouble};
use crate::otlp::batch::{Batch, Entry};
use crate::otlp::queue::{Due, Queue, UNSUPPORTED_FOR};
use crate::otlp::signal::Signal;
use crate::otlp::stats::{Dropped, Reason};
use crate::otlp::target::Target;
use crate::transport::retry;

/// The same kind of trouble of one signal is told of so often at most.
const SAY_EVERY: Duration = Duration::from_secs(60);

/// Below this size "exhausted" means a quota: no receiver takes so little.
const SMALLEST_SPLIT: usize = 16 << 10;

/// While the daemon ends, no delay of our own is longer.
const CLOSING_CAP: Duration = Duration::from_secs(1);

/// What a task is told from outside.
#[derive(Clone, Default)]
pub(crate) struct Orders {
    /// Where to send; `None`: nowhere.
    pub(crate) target: Option<Arc<Target>>,
    /// How long one batch is tried.
    pub(crate) retry_for: Duration,
    /// Send what there is, then end.
    pub(crate) closing: bool,
}

/// One signal's line: the queue between those who give and the task that sends.
pub(crate) struct Line {
    pub(crate) signal: Signal,
    queue: Mutex<Queue>,
    /// Something is due earlier than the task knows.
    pub(crate) wake: Notify,
    /// Something was settled.
    pub(crate) settled: Notify,
    pub(crate) orders: watch::Sender<Orders>,
}

impl Line {
    pub(crate) fn new(signal: Signal) -> Self {
        Self {
            signal,
            queue: Mutex::new(Queue::new()),
            wake: Notify::new(),
            settled: Notify::new(),
            orders: watch::Sender::new(Orders::default()),
        }
    }

    /// The queue; held for moves of memory only.
    pub(crate) fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts `entries` into the queue and wakes the task when that changes what it waits for.
    pub(crate) fn push(&self, now: Instant, entries: Vec<Entry>) {
        let pushed = self.queue().push(now, entries);
        if pushed.wake {
            self.wake.notify_one();
        }
        drop(pushed.gone);
    }
}

/// Sends until the line is closed and empty.
pub(crate) async fn run(line: Arc<Line>) {
    let orders = line.orders.subscribe();
    let mut sender = Sender {
        line,
        orders,
        target: None,
        not_before: None,
        said: Said::default(),
    };
    loop {
        let due = sender.line.queue().due(Instant::now());
        match due {
            Due::Now => sender.send_batch().await,
            Due::At(at) => {
                tokio::select! {
                    () = sleep_until(at) => {}
                    () = sender.line.wake.notified() => {}
                }
            }
            Due::Never => sender.line.wake.notified().await,
            Due::Done => return,
        }
    }
}

struct Sender {
    line: Arc<Line>,
    orders: watch::Receiver<Orders>,
    /// Where the last attempt went.
    target: Option<Arc<Target>>,
    /// The receiver asked not to be asked before.
    not_before: Option<Instant>,
    said: Said,
}

/// What came of a batch.
enum Verdict {
    /// It is accounted for.
    Settled,
    /// It is to be sent in halves.
    Halve,
    /// The receiver takes nothing of this signal.
    Unsupported,
}

impl Sender {
    async fn send_batch(&mut self) {
        let entries = self.line.queue().take();
        if entries.is_empty() {
            // A reload emptied the queue a moment ago.
            return;
        }
        let deadline = Instant::now() + self.orders.borrow().retry_for;
        let mut rest = vec![Arc::new(Batch::new(entries))];
        while let Some(batch) = rest.pop() {
            match self.deliver(&batch, deadline).await {
                Verdict::Settled => {}
                // The attempt is over: nobody else holds the batch. Were it otherwise, it would be given up, not lost from sight.
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
        self.line.queue().finish();
        self.line.settled.notify_waiters();
        self.tell_of_overflow();
    }

    /// Tries until the batch is accepted, refused or too old.
    async fn deliver(&mut self, batch: &Arc<Batch>, deadline: Instant) -> Verdict {
        let mut attempt = 0;
        let mut first = true;
        loop {
            self.look_at_orders();
            let Some(target) = self.target.clone() else {
                self.give_up(batch.items(), Reason::Disabled);
                return Verdict::Settled;
            };
            // The receiver may have asked, for this batch or the one before, not to be asked for a while.
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
                self.line.queue().stats_mut().retries += 1;
            }
            first = false;
            let answer = target.send(batch).await;
            let after = match self.judge(batch, &target, answer) {
                Ok(verdict) => return verdict,
                Err(after) => after,
            };
            let now = Instant::now();
            if now >= deadline {
                self.give_up(batch.items(), Reason::Expired);
                return Verdict::Settled;
            }
            if let Some(after) = after {
                self.not_before = Some(now + after);
                continue;
            }
            let mut delay = retry::backoff(attempt, fastrand::f64());
            if self.orders.borrow().closing {
                delay = delay.min(CLOSING_CAP);
            }
            // New orders (another receiver, the end) are a reason to try at once, as if for the first time.
            attempt = if self.wait((now + delay).min(deadline), false).await {
                0
            } else {
                attempt.saturating_add(1)
            };
        }
    }

    /// Whether the receiver is another than before; what the old one demanded is void then.
    fn look_at_orders(&mut self) -> bool {
        let target = self.orders.borrow_and_update().target.clone();
        let changed = target.as_ref().map(Arc::as_ptr) != self.target.as_ref().map(Arc::as_ptr);
        if changed {
            self.not_before = None;
            self.target = target;
        }
        changed
    }

    /// Waits until `until`, or until orders come that change what to do: another receiver always, the end when the receiver
    /// did not demand the delay. True when such orders came.
    async fn wait(&mut self, until: Instant, demanded: bool) -> bool {
        loop {
            tokio::select! {
                () = sleep_until(until) => return false,
                Ok(()) = self.orders.changed() => {}
            }
            if self.look_at_orders() {
                return true;
            }
            if self.orders.borrow().closing && !demanded {
                return true;
            }
        }
    }

    /// Accounts for an answer. `Err`: to be tried again, not before so long where the receiver says so.
    fn judge(&mut self, batch: &Batch, target: &Target, answer: Answer) -> Result<Verdict, Option<Duration>> {
        let signal = self.line.signal;
        let items = batch.items();
        let now = Instant::now();
        match answer {
            Answer::Accepted { rejected, message } => {
                let whole = rejected == 0 && message.is_empty();
                let text = format!("{rejected} {} rejected: {}", signal.items(), target.shown(&message));
                {
                    let mut queue = self.line.queue();
                    queue.accepted(items, rejected, batch.len());
                    if whole {
                        queue.stats_mut().requests.accepted += 1;
                    } else {
                        queue.stats_mut().requests.partial += 1;
                        queue.failed(&text, SystemTime::now());
                    }
                }
                if !whole && self.said.partial.may(now) {
                    tracing::warn!(target: "gcwatch::export", %signal, "the receiver took a request with reservations: {text}");
                }
                if self.said.in_trouble {
                    self.said.in_trouble = false;
                    tracing::info!(target: "gcwatch::export", %signal, "the receiver takes requests again");
                }
                Ok(Verdict::Settled)
            }
            Answer::Again {
                trouble,
                after,
                message,
            } => {
                let text = target.shown(&message);
                {
                    let mut queue = self.line.queue();
                    let requests = &mut queue.stats_mut().requests;
                    match trouble {
                        Trouble::Unavailable => requests.unavailable += 1,
                        Trouble::TimedOut => requests.timed_out += 1,
                        Trouble::Unreachable => requests.unreachable += 1,
                    }
                    queue.failed(&text, SystemTime::now());
                }
                if self.said.trouble.may(now) {
                    self.said.in_trouble = true;
                    let address = target.address();
                    tracing::warn!(target: "gcwatch::export", %signal, address, "a request is to be repeated: {text}");
                }
                self.tell_of_overflow();
                Err(after)
            }
            Answer::TooLarge { certain, message } if certain || batch.len() >= SMALLEST_SPLIT => {
                let text = target.shown(&message);
                let mut queue = self.line.queue();
                queue.stats_mut().requests.too_large += 1;
                queue.failed(&text, SystemTime::now());
                if certain {
                    queue.learn_limit(batch.len());
                }
                drop(queue);
                if self.said.refused.may(now) {
                    let bytes = batch.len();
                    tracing::warn!(target: "gcwatch::export", %signal, bytes, "the receiver says that a request is too large: {text}");
                }
                Ok(Verdict::Halve)
            }
            Answer::Refused { message } | Answer::CannotUnpack { message } | Answer::TooLarge { message, .. } => {
                let text = target.shown(&message);
                {
                    let mut queue = self.line.queue();
                    queue.stats_mut().requests.refused += 1;
                    queue.failed(&text, SystemTime::now());
                    queue.gave_up(items, Reason::Refused);
                }
                if self.said.refused.may(now) {
                    let address = target.address();
                    tracing::warn!(target: "gcwatch::export", %signal, address, items, "the receiver refused a request: {text}");
                }
                Ok(Verdict::Settled)
            }
            Answer::Unsupported { message } => {
                let text = target.shown(&message);
                let (news, gone) = {
                    let mut queue = self.line.queue();
                    queue.stats_mut().requests.unsupported += 1;
                    queue.failed(&text, SystemTime::now());
                    queue.unsupported(now)
                };
                drop(gone);
                if news {
                    let address = target.address();
                    tracing::warn!(
                        target: "gcwatch::export", %signal, address,
                        "the receiver does not take this signal (asked again every {} minutes): {text}",
                        UNSUPPORTED_FOR.as_secs() / 60,
                    );
                }
                Ok(Verdict::Unsupported)
            }
        }
    }

    fn give_up(&self, items: u64, reason: Reason) {
        self.line.queue().gave_up(items, reason);
    }

    fn tell_of_overflow(&mut self) {
        let dropped = self.line.queue().stats_mut().dropped;
        let told = self.said.dropped;
        let full = dropped.queue_full - told.queue_full;
        let expired = dropped.expired - told.expired;
        if full + expired > 0 && self.said.overflow.may(Instant::now()) {
            self.said.dropped = dropped;
            let signal = self.line.signal;
            let items = signal.items();
            tracing::warn!(
                target: "gcwatch::export", %signal,
                "{full} {items} were dropped as the queue is full, {expired} as they were tried for too long",
            );
        }
    }
}

/// What was told of, and when.
#[derive(Debug, Default)]
struct Said {
    partial: Sometimes,
    trouble: Sometimes,
    refused: Sometimes,
    overflow: Sometimes,
    /// Trouble was told of, and its end not yet.
    in_trouble: bool,
    /// What was told of as dropped.
    dropped: Dropped,
}

/// Says yes once a minute at most.
#[derive(Debug, Default)]
struct Sometimes(Option<Instant>);

impl Sometimes {
    fn may(&mut self, now: Instant) -> bool {
        let yes = self.0.is_none_or(|last| now >= last + SAY_EVERY);
        if yes {
            self.0 = Some(now);
        }
        yes
    }
}
