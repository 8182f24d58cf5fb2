//! The sending task of one signal: takes batches from the queue, sends and retries them. With a queue on disk, the task
//! keeps batches on the disk while the receiver does not accept them.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use base::backoff::Backoff;
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval, interval_at, sleep_until};

use crate::otlp::answer::RetryCause;
use crate::otlp::answer_counts::{AfterAnswer, AnswerCounts};
use crate::otlp::batch::Batch;
use crate::otlp::outgoing::{Control, DownCause, Outgoing, Rejection};
use crate::otlp::queue::NextAction;
use crate::otlp::refused_queue::{RefusedQueue, RejectedRequest};
use crate::otlp::stats::Reason;
use crate::otlp::target::Target;
use crate::transport::retry;

/// Maximum delay between attempts during shutdown, if the receiver requests none.
const CLOSING_CAP: Duration = Duration::from_secs(1);

/// Interval between heartbeats of the task.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(1);

/// Delays after a refused connection, or after an answer that the receiver is unavailable. A recovered receiver is
/// detected within 2 s.
const SHORT: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(2));

/// Delays after an answer that the signal is not accepted: exactly 1, 2, 4 ... 60 s.
const PROBES: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(60));

/// Time after which an answer is late and waiting items are written to the disk.
const LATE_AFTER: Duration = Duration::from_secs(1);
/// Interval between checks of the waiting items until the answer arrives.
const LATE_CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// Delay before an unreadable disk is read again.
const READ_AGAIN: Duration = Duration::from_secs(10);

/// State in which only small requests are sent, with its reason.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ReceiverOutage {
    cause: DownCause,
    backoff: Backoff,
    /// Time at which the next small request is sent.
    retry_at: Instant,
}

/// Like [`run`], but also sends heartbeats for as long as the task runs.
pub(crate) async fn run_beating(outgoing: Arc<Outgoing>) {
    let mut sending = pin!(run(Arc::clone(&outgoing)));
    let mut beats = interval(HEARTBEAT_INTERVAL);
    beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = &mut sending => return,
            now = beats.tick() => outgoing.beat(now),
        }
    }
}

/// Sends items until the signal is closed and its queue is empty.
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
            NextAction::Now => {
                sender.send_batch().await;
                // New items never wait for more than one stored request.
                if sender.down.is_none() && !closing {
                    sender.send_stored().await;
                }
            }
            NextAction::Done => return sender.give_up_refused(),
            NextAction::At(_) | NextAction::Never => {
                if !closing && sender.send_stored().await {
                    continue;
                }
                let until = match (due, sender.read_again) {
                    (NextAction::At(at), Some(again)) => Some(at.min(again)),
                    (NextAction::At(at), None) => Some(at),
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
    /// Receiver of the last attempt; `None` if the signal was not exported.
    target: Option<Arc<Target>>,
    /// Time before which the receiver has requested no attempt; `None` if it has not requested this.
    not_before: Option<Instant>,
    /// State of an unavailable receiver; `None` if the last request was accepted. The unaccepted batch is on disk or in
    /// the queue.
    down: Option<ReceiverOutage>,
    /// Size of the smallest request that the receiver has answered with "exhausted"; `None` if the receiver has
    /// accepted a request of this size since.
    exhausted: Option<usize>,
    /// Time at which an unreadable disk is read again; `None` if the disk can be read.
    read_again: Option<Instant>,
    /// Refused requests, if they are kept.
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
                // The attempt is complete, so only this function holds the batch. If the batch were shared, its items
                // would be counted as dropped.
                AfterAnswer::Halve | AfterAnswer::Exhausted => match Arc::try_unwrap(batch).map(Batch::halve) {
                    Ok(Ok((first, second))) => rest.extend([Arc::new(second), Arc::new(first)]),
                    // The receiver is overloaded: retry later, until the deadline.
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

    /// Keeps a refused request that was sent again `tries` times.
    fn shelve(&mut self, batch: Arc<Batch>, tries: u32) {
        let given_up = self.refused_queue.put(RejectedRequest { batch, tries }, Instant::now());
        if given_up > 0 {
            self.give_up(given_up, Reason::Refused);
        }
    }

    /// Sends the oldest refused request again, because other requests are accepted now.
    async fn send_refused(&mut self) {
        let Some(target) = self.target.clone() else { return };
        let Some(RejectedRequest { batch, tries }) = self.refused_queue.take(Instant::now()) else {
            return;
        };
        self.outgoing.queue().stats_mut().retries += 1;
        self.note_sending(&[], Some(&batch));
        match self.attempt(&target, &batch).await {
            AfterAnswer::Settled => {}
            AfterAnswer::Halve => self.give_up(batch.items(), Reason::TooLarge),
            // The answer is not about this request.
            AfterAnswer::Retry(..) | AfterAnswer::Exhausted | AfterAnswer::Unsupported => self.shelve(batch, tries),
            AfterAnswer::Refused => self.shelve(batch, tries + 1),
        }
        self.note_sending(&[], None);
    }

    /// Drops all refused requests because sending has ended.
    fn give_up_refused(&mut self) {
        let items = self.refused_queue.clear();
        if items > 0 {
            self.give_up(items, Reason::Refused);
        }
    }

    /// Records the batches that are lost if the task is aborted now, unless they are stored.
    fn note_sending(&self, rest: &[Arc<Batch>], batch: Option<&Arc<Batch>>) {
        if self.outgoing.store_handle.is_some() {
            self.outgoing.set_sending(rest.iter().chain(batch).cloned().collect());
        }
    }

    /// Reads the current receiver. Returns whether it has changed, in which case pauses requested by the previous
    /// receiver are void.
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

    /// Sends a batch until it is accepted, refused, expired or stored. Returns another verdict than
    /// [`AfterAnswer::Settled`] if the caller must handle the batch.
    async fn deliver(&mut self, batch: &Arc<Batch>, deadline: Instant) -> AfterAnswer {
        let mut backoff: Option<(RetryCause, Backoff)> = None;
        let mut first = true;
        loop {
            self.follow_control();
            let Some(target) = self.target.clone() else {
                self.give_up(batch.items(), Reason::Disabled);
                return AfterAnswer::Settled;
            };
            // The receiver can have requested a pause, for this batch or for the previous batch.
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
            // Another receiver or the shutdown is a reason to send at once and to reset the backoff.
            if self.wait((now + delay).min(deadline), false).await {
                backoff = None;
            }
        }
    }

    /// Sends one request and returns the next step after its answer. New items are written to the disk if the queue is
    /// crowded or if the answer is late: a receiver that accepts requests but does not answer counts as available until
    /// the request times out.
    async fn attempt(&mut self, target: &Arc<Target>, batch: &Arc<Batch>) -> AfterAnswer {
        let (items, len) = (batch.items(), batch.len());
        let answer = {
            let outgoing = Arc::clone(&self.outgoing);
            let mut sending = pin!(target.send(batch));
            let mut late = interval_at(Instant::now() + LATE_AFTER, LATE_CHECK_INTERVAL);
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
                    // The receiver can be merely overloaded: retry the same request later.
                    return AfterAnswer::Retry(RetryCause::Unavailable, None);
                }
                // The request is too large, or the receiver is still overloaded: send halves later.
                let mut backoff = SHORT;
                self.not_before = Some(now + backoff.next(fastrand::f64()));
            }
            _ => {}
        }
        verdict
    }

    /// Waits until `until`. Returns `true` if the wait ended early: if the receiver changed, or at shutdown, unless the
    /// receiver `requested` the delay.
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

    /// Keeps batches that the receiver does not accept, on disk if possible, and otherwise in the queue. The first
    /// batch is last in `batches`.
    async fn keep(&mut self, mut batches: Vec<Arc<Batch>>) {
        let mut entries = Vec::new();
        while let Some(batch) = batches.pop() {
            if entries.is_empty() && self.may_store() && self.store(&batch).await {
                continue;
            }
            entries.extend(Batch::into_entries(batch));
        }
        let dropped = self.outgoing.queue().put_back(entries, Instant::now());
        drop(dropped);
    }

    /// Returns whether unaccepted batches can be written to the disk now. A signal that the receiver has never accepted
    /// and reports as unsupported stays in memory.
    fn may_store(&self) -> bool {
        let Some(store_handle) = &self.outgoing.store_handle else {
            return false;
        };
        let now = Instant::now();
        let usable = store_handle.usable_at(now).is_some_and(|at| at <= now);
        usable && !self.outgoing.queue().is_foreign()
    }

    /// Writes a batch in flight to the disk. Returns `false` if it is still in flight.
    async fn store(&self, batch: &Arc<Batch>) -> bool {
        let Some(store_handle) = &self.outgoing.store_handle else {
            return false;
        };
        let stored = store_handle.append(self.outgoing.signal, Arc::clone(batch)).await;
        if stored {
            self.outgoing.queue().stored(batch.items());
            self.outgoing.count_drops();
        }
        stored
    }

    /// Writes the oldest queued items to the disk.
    async fn store_waiting(&mut self) {
        store_oldest(&self.outgoing).await;
        self.outgoing.settled.notify_waiters();
        self.counts.log_drops(Instant::now());
    }

    /// Sends the oldest stored request. Returns `false` if no request is stored, or if it cannot be read now.
    async fn send_stored(&mut self) -> bool {
        let (Some(store_handle), Some(target)) = (self.outgoing.store_handle.clone(), self.target.clone()) else {
            return false;
        };
        let now = Instant::now();
        if self.outgoing.queue().on_disk() == 0 || self.read_again.is_some_and(|again| now < again) {
            return false;
        }
        if let Some(at) = self.not_before
            && at > now
        {
            self.read_again = Some(at);
            return false;
        }
        self.read_again = None;
        let signal = self.outgoing.signal;
        let Some(stored) = store_handle.oldest(signal).await else {
            self.outgoing.count_drops();
            if self.outgoing.queue().on_disk() > 0 {
                self.read_again = Some(Instant::now() + READ_AGAIN);
            }
            return false;
        };
        self.outgoing.count_drops();
        let items = self.outgoing.queue().take_stored(stored.items);
        let batch = Arc::new(Batch::stored(stored.request, items));
        if self.down.is_some() {
            self.outgoing.queue().stats_mut().retries += 1;
        }
        let verdict = self.attempt(&target, &batch).await;
        match verdict {
            AfterAnswer::Settled => {
                store_handle.remove(signal, stored.number).await;
                self.down = None;
            }
            AfterAnswer::Refused => {
                store_handle.remove(signal, stored.number).await;
                self.shelve(batch, 0);
                self.down = None;
            }
            AfterAnswer::Halve | AfterAnswer::Exhausted => {
                self.store_halves(batch).await;
                store_handle.remove(signal, stored.number).await;
                if verdict == AfterAnswer::Exhausted {
                    self.go_down(DownCause::Retry(RetryCause::Unavailable), None);
                } else {
                    self.down = None;
                }
            }
            AfterAnswer::Retry(cause, after) => {
                self.leave_stored(stored.number, items).await;
                self.go_down(DownCause::Retry(cause), after);
            }
            AfterAnswer::Unsupported => {
                self.leave_stored(stored.number, items).await;
                self.go_down(DownCause::Unsupported, None);
            }
        }
        self.outgoing.count_drops();
        self.outgoing.settled.notify_waiters();
        true
    }

    /// Leaves a stored request on disk, unless it was dropped while it was sent.
    async fn leave_stored(&self, number: u64, items: u64) {
        let Some(store_handle) = &self.outgoing.store_handle else {
            return;
        };
        // The counts of the disk contain the request if it was dropped.
        let _is_there = store_handle.has(self.outgoing.signal, number).await;
        self.outgoing.queue().stored(items);
        self.outgoing.count_drops();
    }

    /// Stores the halves of a stored request, which the caller then removes.
    async fn store_halves(&self, batch: Arc<Batch>) {
        let items = batch.items();
        let (first, second) = match Arc::try_unwrap(batch).map(Batch::halve) {
            Ok(Ok(halves)) => halves,
            _ => return self.give_up(items, Reason::TooLarge),
        };
        for half in [first, second] {
            let half = Arc::new(half);
            if !self.store(&half).await {
                self.give_up(half.items(), Reason::DiskFull);
            }
        }
    }

    /// Handles gcwatch's own telemetry that the receiver did not accept and that is queued now.
    fn heed(&mut self, not_taken: &Rejection) {
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

    /// Starts the state in which only small requests are sent until one is accepted. `after` is the delay that the
    /// receiver has requested.
    fn go_down(&mut self, cause: DownCause, after: Option<Duration>) {
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
        self.down = Some(ReceiverOutage {
            cause,
            backoff,
            retry_at,
        });
    }

    /// Waits while the receiver does not accept requests: writes new items to the disk, and probes the receiver when a
    /// probe is due. Returns `true` if the signal is closed and no work is left.
    async fn wait_down(&mut self) -> bool {
        let Some(ReceiverOutage { cause, retry_at, .. }) = self.down.clone() else {
            return false;
        };
        let now = Instant::now();
        let closing = self.control.borrow().closing;
        let foreign = cause == DownCause::Unsupported && self.outgoing.queue().is_foreign();
        if foreign && (closing || self.outgoing.queue().is_flushing()) {
            // Items that were never accepted do not delay the shutdown.
            let dropped = self.outgoing.queue().drop_unsupported();
            drop(dropped);
            self.outgoing.settled.notify_waiters();
        }
        let store_handle = self.outgoing.store_handle.as_ref();
        let usable_at = store_handle.and_then(|store_handle| store_handle.usable_at(now));
        let usable_at = usable_at.filter(|_| !foreign);
        let spill_at = match (usable_at, self.outgoing.queue().spill_due(now)) {
            (Some(usable), NextAction::Now) => Some(usable.max(now)),
            (Some(usable), NextAction::At(at)) => Some(usable.max(at)),
            _ => None,
        };
        if spill_at.is_some_and(|at| at <= now) {
            self.store_waiting().await;
            return false;
        }
        if closing {
            // Items in memory cannot be written: send them while there is time.
            self.down = None;
            return self.outgoing.queue().due(now) == NextAction::Done;
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

    /// Probes the receiver with the smallest possible request.
    async fn probe(&mut self) {
        let Some(target) = self.target.clone() else {
            self.down = None;
            return;
        };
        let entries = self.outgoing.queue().take_one();
        if entries.is_empty() {
            // There are no new items: probe with the oldest stored request. Without stored requests, the next batch is
            // the probe.
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
            // A request this small is never too large.
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

fn backoff_while(down: DownCause) -> Backoff {
    match down {
        DownCause::Retry(cause) => backoff_of(cause),
        DownCause::Unsupported => PROBES,
    }
}

fn backoff_of(cause: RetryCause) -> Backoff {
    match cause {
        RetryCause::Unavailable | RetryCause::Unreachable => SHORT,
        // Each attempt takes the whole timeout.
        RetryCause::TimedOut => retry::BACKOFF,
    }
}

/// Writes queued items to the disk until the queue is no longer crowded.
async fn store_crowd(outgoing: &Outgoing) {
    while outgoing.queue().is_crowded() {
        if !store_oldest(outgoing).await {
            return;
        }
    }
}

/// Writes to the disk the items whose time in memory has expired, while the receiver does not accept them.
async fn store_due(outgoing: &Outgoing, now: Instant) {
    while outgoing.queue().spill_due(now) == NextAction::Now {
        if !store_oldest(outgoing).await {
            return;
        }
    }
}

/// Writes the oldest queued items to the disk. Returns `false` if no items were written; queued items then stay queued.
async fn store_oldest(outgoing: &Outgoing) -> bool {
    let Some(store_handle) = &outgoing.store_handle else {
        return false;
    };
    let now = Instant::now();
    if store_handle.usable_at(now).is_none_or(|at| at > now) {
        return false;
    }
    let entries = outgoing.queue().take_to_store();
    if entries.is_empty() {
        return false;
    }
    let batch = Arc::new(Batch::new(entries));
    let items = batch.items();
    let stored = store_handle.append(outgoing.signal, Arc::clone(&batch)).await;
    if stored {
        outgoing.queue().stored(items);
    } else {
        let dropped = outgoing.queue().put_back(Batch::into_entries(batch), now);
        drop(dropped);
    }
    outgoing.count_drops();
    stored
}

#[cfg(test)]
mod tests;
