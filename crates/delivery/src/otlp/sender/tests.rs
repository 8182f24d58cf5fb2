//! Tests of the sender with scripted answers, on a paused clock: hours pass instantly, and every attempt has an exact
//! time.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::MutexGuard;

use gc_telemetry::origin::Origin;
use opentelemetry_proto::tonic::trace::v1::Span;
use tokio::task::JoinHandle;

use super::*;
use crate::otlp::answer::{Answer, RetryCause};
use crate::otlp::batch::Entry;
use crate::otlp::settings::{DiskQueue, Limits};
use crate::otlp::signal::Signal;
use crate::otlp::stats::SignalStats;
use crate::otlp::store_handle::{StoreHandle, StoredItems};
use crate::otlp::target::Script;
use crate::transport::receiver::{Protocol, Receiver};

const RETRY_FOR: Duration = Duration::from_secs(300);

/// A signal with a running sender, and its target.
struct Sending {
    outgoing: Arc<Outgoing>,
    target: Arc<Target>,
    task: JoinHandle<()>,
    begin: Instant,
}

fn target(answers: impl IntoIterator<Item = Answer>) -> Arc<Target> {
    let endpoint = "http://127.0.0.1:1/v1/traces";
    let receiver = Receiver::new(endpoint, Protocol::HttpProtobuf, Duration::from_secs(10));
    let mut target = Target::new(Signal::Traces, &receiver, &mut Vec::new()).unwrap();
    target.script = Some(Script {
        answers: VecDeque::from_iter(answers).into(),
        ..Script::default()
    });
    Arc::new(target)
}

fn disk(directory: &Path) -> DiskQueue {
    DiskQueue {
        directory: directory.to_owned(),
        max_bytes: 1 << 20,
        max_age: Duration::from_secs(86_400),
    }
}

impl Sending {
    fn to(answers: impl IntoIterator<Item = Answer>) -> Self {
        Self::with(answers, None)
    }

    /// Creates a sender with a queue on disk in `directory`.
    fn with(answers: impl IntoIterator<Item = Answer>, directory: Option<&Path>) -> Self {
        Self::toward(target(answers), directory)
    }

    fn toward(target: Arc<Target>, directory: Option<&Path>) -> Self {
        let opened = directory.map(|directory| StoreHandle::open(&disk(directory), Instant::now()));
        let (store_handle, found) = match opened {
            Some((store_handle, _, StoredItems::Now([found, ..]))) => (Some(store_handle), found),
            Some((.., StoredItems::Later(_))) => panic!("the disk is slow"),
            None => (None, 0),
        };
        let outgoing = Arc::new(Outgoing::new(
            Signal::Traces,
            Instant::now(),
            store_handle,
            Arc::default(),
        ));
        outgoing.queue().found(found);
        let nothing = outgoing.queue().configure(Limits::default(), true, false);
        assert!(nothing.is_empty());
        outgoing.control.send_modify(|control| {
            control.target = Some(Arc::clone(&target));
            control.retry_for = RETRY_FOR;
        });
        Self {
            task: tokio::spawn(run(Arc::clone(&outgoing))),
            outgoing,
            target,
            begin: Instant::now(),
        }
    }

    fn give(&self) {
        self.outgoing.push(Instant::now(), vec![entry(0)]);
    }

    fn stats(&self) -> SignalStats {
        self.outgoing.queue().stats()
    }

    /// Returns the remaining scripted answers.
    fn answers(&self) -> MutexGuard<'_, VecDeque<Answer>> {
        self.target.script.as_ref().unwrap().answers.lock().unwrap()
    }

    /// Keeps refused requests.
    fn keep_refused(&self) {
        self.outgoing
            .control
            .send_modify(|control| control.keeps_refused = true);
    }

    /// Starts the shutdown of the daemon.
    fn close(&self) {
        self.outgoing.queue().close();
        self.outgoing.control.send_modify(|control| control.closing = true);
        self.outgoing.wake.notify_one();
    }

    /// Waits until `items` items were accepted.
    async fn exported(&self, items: u64) {
        while self.stats().exported < items {
            self.outgoing.settled.notified().await;
        }
    }

    /// Waits until all items added so far were sent or dropped.
    async fn settled(&self) {
        let mark = self.outgoing.queue().mark_flush();
        self.outgoing.wake.notify_one();
        while !self.outgoing.queue().is_settled(mark) {
            self.outgoing.settled.notified().await;
        }
    }

    /// Returns the times of all attempts since the start.
    fn attempts(&self) -> Vec<Duration> {
        attempts(&self.target, self.begin)
    }
}

fn attempts(target: &Target, begin: Instant) -> Vec<Duration> {
    let script = target.script.as_ref().unwrap();
    let attempts = script.attempts.lock().unwrap();
    attempts.iter().map(|at| at.duration_since(begin)).collect()
}

/// Returns a span that is a few bytes larger than `bytes`.
fn entry(bytes: usize) -> Entry {
    let span = Span {
        name: "n".repeat(bytes),
        ..Span::default()
    };
    Entry::new(&Arc::new(Origin::new(Vec::new())), &[span], 1)
}

fn accepted() -> Answer {
    Answer::Accepted {
        rejected: 0,
        message: String::new(),
    }
}

fn again(after: Option<Duration>) -> Answer {
    Answer::Retry {
        cause: RetryCause::Unavailable,
        after,
        message: "not now".to_owned(),
    }
}

/// Scenario: a receiver is unavailable for the whole time for which a batch is retried; then the receiver accepts the
/// next batch.
/// Guarantee: no delay exceeds 2 s, and the first delay does not exceed 1 s; the batch expires at its deadline and not
/// earlier; the next batch is sent.
#[tokio::test(start_paused = true)]
async fn batch_is_retried_until_it_expires() {
    let sending = Sending::to(vec![again(None); 2000]);
    sending.give();
    sending.settled().await;
    let took = sending.begin.elapsed();
    assert!(
        took >= RETRY_FOR && took < RETRY_FOR + Duration::from_secs(1),
        "{took:?}"
    );
    let attempts = sending.attempts();
    let delays: Vec<Duration> = attempts.windows(2).map(|pair| pair[1] - pair[0]).collect();
    for (attempt, delay) in delays.iter().enumerate() {
        let limit = Duration::from_secs(1 << attempt.min(1));
        assert!(*delay <= limit + Duration::from_millis(1), "{attempt}: {delay:?}");
    }
    let stats = sending.stats();
    assert_eq!((stats.dropped.expired, stats.exported), (1, 0));
    assert_eq!(stats.retries + 1, attempts.len() as u64);
    sending.answers().clear();
    sending.give();
    sending.settled().await;
    assert_eq!(sending.stats().exported, 1);
}

/// Scenario: a receiver requests a delay of two minutes and then accepts; another item arrives in the meantime.
/// Guarantee: no request is sent during the delay, and all items are sent right after it.
#[tokio::test(start_paused = true)]
async fn requested_delay_is_respected() {
    let pause = Duration::from_secs(120);
    let sending = Sending::to([again(Some(pause))]);
    sending.give();
    tokio::time::sleep(pause / 2).await;
    assert_eq!(sending.attempts().len(), 1);
    sending.give();
    sending.settled().await;
    let attempts = sending.attempts();
    assert!(attempts[1] >= attempts[0] + pause && attempts[1] < attempts[0] + pause + Duration::from_secs(1));
    assert_eq!(sending.stats().exported, 2);
}

/// Scenario: a receiver requests a delay of an hour; after ten seconds, a reload configures another receiver.
/// Guarantee: the batch is sent to the new receiver at once.
#[tokio::test(start_paused = true)]
async fn new_receiver_ends_requested_delay() {
    let sending = Sending::to([again(Some(Duration::from_secs(3600)))]);
    sending.give();
    tokio::time::sleep(Duration::from_secs(10)).await;
    let other = target([]);
    sending
        .outgoing
        .control
        .send_modify(|control| control.target = Some(Arc::clone(&other)));
    sending.settled().await;
    let at = attempts(&other, sending.begin);
    assert!(at.len() == 1 && at[0] < Duration::from_secs(11), "{at:?}");
}

/// Scenario: the daemon shuts down while a receiver has been unavailable for a long time.
/// Guarantee: an attempt is made at once, then at least every second, until the deadline of the batch; then the task
/// ends.
#[tokio::test(start_paused = true)]
async fn shutdown_retries_in_short_intervals() {
    let mut sending = Sending::to(vec![again(None); 2000]);
    sending.give();
    tokio::time::sleep(Duration::from_secs(100)).await;
    let before = sending.attempts().len();
    sending.close();
    tokio::time::timeout(2 * RETRY_FOR, &mut sending.task)
        .await
        .unwrap()
        .unwrap();
    let attempts = attempts(&sending.target, sending.begin);
    assert!(
        attempts[before] < Duration::from_millis(100_010),
        "{:?}",
        attempts[before]
    );
    for pair in attempts[before..].windows(2) {
        assert!(pair[1] - pair[0] <= CLOSING_CAP + Duration::from_millis(1), "{pair:?}");
    }
    assert_eq!(sending.stats().dropped.expired, 1);
}

fn unsupported() -> Answer {
    Answer::Unsupported {
        message: "404".to_owned(),
    }
}

/// Scenario: a receiver does not accept the signal ten times, like an ingress during a rollout; an item arrives every
/// second.
/// Guarantee: the receiver is probed after exactly 1, 2, 4 ... 60 s; no item is dropped, and finally all are sent.
#[tokio::test(start_paused = true)]
async fn unsupported_signal_is_kept_and_probed() {
    let sending = Sending::to(vec![unsupported(); 10]);
    for _ in 0..310 {
        sending.give();
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    sending.settled().await;
    let attempts = sending.attempts();
    let delays: Vec<u64> = attempts.windows(2).map(|pair| (pair[1] - pair[0]).as_secs()).collect();
    assert_eq!(delays[..10], [1, 2, 4, 8, 16, 32, 60, 60, 60, 60], "{delays:?}");
    let stats = sending.stats();
    assert_eq!(
        (stats.exported, stats.dropped.total(), stats.unsupported),
        (310, 0, false)
    );
}

/// Scenario: the queue is flushed while a receiver does not accept the signal and never has.
/// Guarantee: the flush does not wait for the receiver; queued items are dropped and counted.
#[tokio::test(start_paused = true)]
async fn flush_does_not_wait_for_unsupported_signal() {
    let sending = Sending::to(vec![unsupported(); 1000]);
    sending.give();
    tokio::time::sleep(Duration::from_secs(2)).await;
    sending.give();
    sending.settled().await;
    assert_eq!(sending.stats().dropped.unsupported, 2);
    assert!(sending.begin.elapsed() < Duration::from_secs(4));
}

/// Scenario: a receiver answers twelve times that it is exhausted and requests no delay; then it accepts all requests.
/// Guarantee: there are fewer than 40 requests, not thousands; the twelve answers take more than 5 s; no item is
/// dropped.
#[tokio::test(start_paused = true)]
async fn exhausted_receiver_gets_few_requests() {
    let exhausted = Answer::TooLarge {
        certain: false,
        message: "ResourceExhausted".to_owned(),
    };
    let sending = Sending::to(vec![exhausted; 12]);
    sending
        .outgoing
        .push(Instant::now(), (0..40).map(|_| entry(1000)).collect());
    sending.settled().await;
    let attempts = sending.attempts();
    assert!(attempts.len() < 40, "{attempts:?}");
    assert!(attempts[12] > Duration::from_secs(5), "{attempts:?}");
    let stats = sending.stats();
    assert_eq!((stats.exported, stats.dropped.total()), (40, 0));
}

/// Scenario: with a queue on disk, a receiver is unavailable for an hour while an item arrives every second; then it is
/// available permanently.
/// Guarantee: nearly all items are stored during the outage, although it lasts longer than a batch is retried from
/// memory; the recovery is detected within 2 s; no item is dropped, and the disk is finally empty.
#[tokio::test(start_paused = true)]
async fn hour_without_receiver_loses_no_item() {
    let folder = tempfile::tempdir().unwrap();
    let sending = Sending::with(vec![again(None); 1_000_000], Some(folder.path()));
    for _ in 0..3600 {
        sending.give();
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let stats = sending.stats();
    assert!(stats.stored > 3590 && stats.dropped.total() == 0, "{stats:?}");
    let back = sending.begin.elapsed();
    sending.answers().clear();
    let before = sending.attempts().len();
    sending.exported(3600).await;
    let first = sending.attempts()[before];
    assert!(first <= back + Duration::from_secs(2), "{first:?} {back:?}");
    let stats = sending.stats();
    assert_eq!((stats.stored, stats.queued, stats.dropped.total()), (0, 0, 0));
}

fn refused() -> Answer {
    Answer::Refused {
        message: "no such token".to_owned(),
    }
}

/// Scenario: if refused requests are kept, a receiver refuses two requests and accepts the following requests; then the
/// receiver permanently refuses one request and accepts all other requests.
/// Guarantee: the two requests are sent again once each and accepted; the permanently refused request is sent again
/// eight times, at least a minute apart, and then dropped; all other items are exported.
#[tokio::test(start_paused = true)]
async fn refused_request_is_sent_again() {
    let sending = Sending::to([refused(), refused()]);
    sending.keep_refused();
    for _ in 0..4 {
        sending.give();
        sending.settled().await;
    }
    let stats = sending.stats();
    assert_eq!(
        (stats.exported, stats.dropped.total(), stats.in_flight),
        (4, 0, 0),
        "{stats:?}"
    );
    assert_eq!((stats.requests.refused, stats.retries), (2, 2));

    // One refusal, then one for each time that it is sent after an accepted request.
    let begin = Instant::now();
    let mut seen = sending.attempts().len();
    let mut again = Vec::new();
    for one in 0..2000 {
        *sending.answers() = match one {
            0 => [refused()].into(),
            _ => [accepted(), refused()].into(),
        };
        sending.give();
        sending.settled().await;
        let attempts = sending.attempts().len();
        if one > 0 && attempts - seen == 2 {
            again.push(begin.elapsed());
        }
        seen = attempts;
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(again.len(), 8);
    assert!(
        again
            .windows(2)
            .all(|pair| pair[1] - pair[0] >= Duration::from_secs(60)),
        "{again:?}"
    );
    let stats = sending.stats();
    assert_eq!(
        (stats.exported, stats.dropped.refused, stats.in_flight),
        (4 + 1999, 1, 0)
    );
}

/// Scenario: if refused requests are kept, all requests are refused, more than can be kept; then the daemon shuts down.
/// Guarantee: memory is bounded, and every item that was not accepted is counted as refused.
#[tokio::test(start_paused = true)]
async fn refused_requests_are_bounded_and_counted() {
    let sending = Sending::to(vec![refused(); 100_000]);
    sending.keep_refused();
    for _ in 0..30 {
        sending.outgoing.push(Instant::now(), vec![entry(100_000)]);
        sending.settled().await;
    }
    let stats = sending.stats();
    assert!(
        stats.in_flight <= 10 && stats.dropped.refused == 30 - stats.in_flight,
        "{stats:?}"
    );
    sending.close();
    let Sending { outgoing, task, .. } = sending;
    task.await.unwrap();
    let stats = outgoing.queue().stats();
    assert_eq!((stats.in_flight, stats.dropped.refused), (0, 30));
}

/// Scenario: with a queue on disk, a receiver accepts a request and does not answer for nine seconds, while ten items
/// arrive per second.
/// Guarantee: at any time, a kill would lose at most the unanswered request and two seconds of items; all items are
/// sent once the receiver answers.
#[tokio::test(start_paused = true)]
async fn late_answer_leaves_few_items_in_memory() {
    let folder = tempfile::tempdir().unwrap();
    let mut target = Arc::into_inner(target([])).unwrap();
    target.script.as_mut().unwrap().takes = Duration::from_secs(9);
    let sending = Sending::toward(Arc::new(target), Some(folder.path()));
    for given in 0..85 {
        sending.give();
        tokio::time::sleep(Duration::from_millis(100)).await;
        let stats = sending.stats();
        assert!(stats.queued <= 20, "after {given}: {stats:?}");
    }
    let stats = sending.stats();
    assert!(stats.stored > 60 && stats.exported == 0, "{stats:?}");
    sending.exported(85).await;
    let stats = sending.stats();
    assert_eq!((stats.stored, stats.queued, stats.dropped.total()), (0, 0, 0));
}

/// Scenario: with a queue on disk, the daemon shuts down while the receiver is unavailable; another daemon starts with
/// the same disk and an available receiver.
/// Guarantee: the shutdown is immediate and loses no item; the next daemon sends all items once and counts them.
#[tokio::test(start_paused = true)]
async fn restart_sends_stored_items() {
    let folder = tempfile::tempdir().unwrap();
    let sending = Sending::with(vec![again(None); 1000], Some(folder.path()));
    for _ in 0..10 {
        sending.give();
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    sending.give();
    sending.close();
    let Sending { outgoing, task, .. } = sending;
    let end = Instant::now();
    task.await.unwrap();
    assert!(end.elapsed() < Duration::from_secs(1));
    let stats = outgoing.queue().stats();
    assert_eq!((stats.stored, stats.dropped.total()), (11, 0));
    drop(outgoing);

    let sending = Sending::with([], Some(folder.path()));
    sending.exported(11).await;
    let stats = sending.stats();
    assert_eq!((stats.given, stats.stored, stats.dropped.total()), (11, 0, 0));
}

/// Scenario: with a queue on disk, a receiver that has accepted the signal answers 404 for a while; another receiver
/// answers 404 from the start.
/// Guarantee: the items of the first receiver are stored on disk and sent later; the items of the second receiver stay
/// in memory.
#[tokio::test(start_paused = true)]
async fn only_accepted_signal_is_stored_on_disk() {
    for (first, stored) in [(accepted(), 1), (unsupported(), 0)] {
        let folder = tempfile::tempdir().unwrap();
        let answers = std::iter::once(first).chain(vec![unsupported(); 2]);
        let sending = Sending::with(answers, Some(folder.path()));
        sending.give();
        tokio::time::sleep(Duration::from_millis(500)).await;
        sending.give();
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(sending.stats().stored, stored);
        tokio::time::sleep(Duration::from_secs(20)).await;
        let stats = sending.stats();
        assert_eq!(
            (stats.exported, stats.stored, stats.dropped.total()),
            (2, 0, 0),
            "{stats:?}"
        );
    }
}

/// Scenario: the queue on disk cannot be opened because a file has its path; the receiver is unavailable for a while.
/// Guarantee: items are queued in memory, as without a queue on disk, and are sent.
#[tokio::test(start_paused = true)]
async fn memory_is_used_without_working_disk() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let sending = Sending::with(vec![again(None); 5], Some(&file));
    assert!(!sending.outgoing.store_handle.as_ref().unwrap().works());
    sending.give();
    sending.settled().await;
    let stats = sending.stats();
    assert_eq!((stats.exported, stats.stored, stats.dropped.total()), (1, 0, 0));
}

/// Scenario: a stored request is too large for the receiver, which is available again.
/// Guarantee: the request is halved until it fits; no item is dropped.
#[tokio::test(start_paused = true)]
async fn large_stored_request_is_halved() {
    let folder = tempfile::tempdir().unwrap();
    let too_large = Answer::TooLarge {
        certain: true,
        message: "413".to_owned(),
    };
    let sending = Sending::with([again(None), too_large.clone(), too_large], Some(folder.path()));
    sending
        .outgoing
        .push(Instant::now(), (0..8).map(|_| entry(0)).collect());
    sending.exported(8).await;
    let stats = sending.stats();
    assert_eq!(
        (stats.requests.too_large, stats.stored, stats.dropped.total()),
        (2, 0, 0)
    );
}
