//! The sender with answers from a script, on a paused clock: hours pass in no time, every attempt has an exact time.

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
use crate::otlp::store_handle::{Found, StoreHandle};
use crate::otlp::target::Script;
use crate::transport::receiver::{Protocol, Receiver};

const RETRY_FOR: Duration = Duration::from_secs(300);

/// A signal with a running sender, and the target that it sends to.
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

    /// With a queue on disk in `directory`.
    fn with(answers: impl IntoIterator<Item = Answer>, directory: Option<&Path>) -> Self {
        Self::toward(target(answers), directory)
    }

    fn toward(target: Arc<Target>, directory: Option<&Path>) -> Self {
        let opened = directory.map(|directory| StoreHandle::open(&disk(directory), Instant::now()));
        let (store_handle, found) = match opened {
            Some((store_handle, _, Found::Now([found, ..]))) => (Some(store_handle), found),
            Some((.., Found::Later(_))) => panic!("the disk is slow"),
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

    /// What the receiver has not answered yet.
    fn answers(&self) -> MutexGuard<'_, VecDeque<Answer>> {
        self.target.script.as_ref().unwrap().answers.lock().unwrap()
    }

    /// Where what is refused is kept.
    fn keep_refused(&self) {
        self.outgoing
            .control
            .send_modify(|control| control.keeps_refused = true);
    }

    /// The daemon ends: accepts nothing more.
    fn close(&self) {
        self.outgoing.queue().close();
        self.outgoing.control.send_modify(|control| control.closing = true);
        self.outgoing.wake.notify_one();
    }

    /// Waits until so many items were accepted.
    async fn exported(&self, items: u64) {
        while self.stats().exported < items {
            self.outgoing.settled.notified().await;
        }
    }

    /// Waits until everything given so far was sent or dropped.
    async fn settled(&self) {
        let mark = self.outgoing.queue().mark_flush();
        self.outgoing.wake.notify_one();
        while !self.outgoing.queue().is_settled(mark) {
            self.outgoing.settled.notified().await;
        }
    }

    /// When each attempt was made, since the beginning.
    fn attempts(&self) -> Vec<Duration> {
        attempts(&self.target, self.begin)
    }
}

fn attempts(target: &Target, begin: Instant) -> Vec<Duration> {
    let script = target.script.as_ref().unwrap();
    let attempts = script.attempts.lock().unwrap();
    attempts.iter().map(|at| at.duration_since(begin)).collect()
}

/// A span of some bytes more than that.
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

/// Scenario: a receiver that is down for the whole time that a batch may be retried; then it accepts the next one.
/// Guarantee: no delay is longer than two seconds, the first not longer than one; the batch expires at its deadline,
/// and not earlier; the next one is sent.
#[tokio::test(start_paused = true)]
async fn retries_grow_apart_until_the_batch_expires() {
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

/// Scenario: a receiver asks for two minutes of silence, then accepts; more comes meanwhile.
/// Guarantee: nothing is sent before they are over, and everything right after.
#[tokio::test(start_paused = true)]
async fn a_requested_delay_is_kept() {
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

/// Scenario: a receiver asks for an hour of silence; after ten seconds a reload names another one.
/// Guarantee: the batch goes there at once.
#[tokio::test(start_paused = true)]
async fn another_receiver_ends_a_requested_delay() {
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

/// Scenario: the daemon shuts down while a receiver that was down for long is down.
/// Guarantee: an attempt at once, then one a second at most apart, until the deadline of the batch; then the task ends.
#[tokio::test(start_paused = true)]
async fn a_shutdown_retries_in_short_steps() {
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

/// Scenario: a receiver does not accept the signal ten times, as an ingress in a roll-out; items come every second.
/// Guarantee: it is asked again after exactly 1, 2, 4 ... 60 s; nothing is dropped, and all of it is sent at last.
#[tokio::test(start_paused = true)]
async fn an_unsupported_signal_is_kept_and_asked_for_less_and_less() {
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

/// Scenario: the daemon ends, or somebody waits for a flush, while a receiver does not accept the signal, as it never
/// has.
/// Guarantee: nobody waits for it: what waits is dropped and counted.
#[tokio::test(start_paused = true)]
async fn the_end_does_not_wait_for_an_unsupported_signal() {
    let sending = Sending::to(vec![unsupported(); 1000]);
    sending.give();
    tokio::time::sleep(Duration::from_secs(2)).await;
    sending.give();
    sending.settled().await;
    assert_eq!(sending.stats().dropped.unsupported, 2);
    assert!(sending.begin.elapsed() < Duration::from_secs(4));
}

/// Scenario: a receiver is exhausted, without a delay of its own, for fifteen seconds; then it accepts everything.
/// Guarantee: the first request is sent again as a whole; a few requests, not thousands; nothing is dropped.
#[tokio::test(start_paused = true)]
async fn an_exhausted_receiver_is_left_in_peace() {
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

/// Scenario: with a queue on disk, a receiver is down for an hour, an item every second; then it is back, for ever.
/// Guarantee: the return is noticed within two seconds; nothing is dropped though far more came than memory would have
/// kept for so long; what is new is sent before what is stored; the disk is empty at last.
#[tokio::test(start_paused = true)]
async fn an_hour_without_a_receiver_loses_nothing() {
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

/// Scenario: where what is refused is kept, a receiver refuses two requests and accepts those that follow; then it
/// refuses one for good and accepts all others.
/// Guarantee: the two are sent again after others are accepted, and not before; the one is tried eight times, a minute
/// apart at least, and dropped then; the others are never held up.
#[tokio::test(start_paused = true)]
async fn what_was_refused_is_sent_again() {
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

    // One refusal, then each time that it is sent after one that is accepted.
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

/// Scenario: where what is refused is kept, everything is refused, more than is kept; then the end.
/// Guarantee: memory is bounded, and every item that was not accepted is counted as refused.
#[tokio::test(start_paused = true)]
async fn what_is_refused_is_bounded_and_counted() {
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

/// Scenario: with a queue on disk, a receiver takes a request and does not answer for nine seconds; ten items a second
/// come meanwhile.
/// Guarantee: what a kill would lose is at any time the request without an answer and at most two seconds of items;
/// everything is sent once the receiver answers.
#[tokio::test(start_paused = true)]
async fn a_late_answer_leaves_little_in_memory() {
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

/// Scenario: with a queue on disk, the daemon ends while the receiver is down; another one starts with the same disk,
/// and the receiver is there.
/// Guarantee: the end is at once and loses nothing; the next daemon sends everything, once, and counts it.
#[tokio::test(start_paused = true)]
async fn a_restart_sends_what_was_stored() {
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

/// Scenario: a receiver that has accepted the signal answers 404 for a while; another one never accepts it. Both with a
/// queue on disk.
/// Guarantee: the first one's items go to the disk and are sent later; the second one's stay in memory.
#[tokio::test(start_paused = true)]
async fn only_what_was_accepted_once_goes_to_the_disk() {
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

/// Scenario: the queue on disk cannot be opened, as something else is in its place; the receiver is down for a while.
/// Guarantee: what waits is kept in memory as without one, and is sent.
#[tokio::test(start_paused = true)]
async fn without_a_disk_that_works_memory_is_used() {
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

/// Scenario: what is stored is too large for the receiver, which is back.
/// Guarantee: halves of it are sent until they fit; nothing is dropped.
#[tokio::test(start_paused = true)]
async fn a_stored_request_that_is_too_large_is_halved() {
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
