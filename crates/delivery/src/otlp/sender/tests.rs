//! The sender with answers from a script, on a paused clock: hours pass in no time, every attempt has an exact time.

use std::collections::VecDeque;

use gc_telemetry::origin::Origin;
use opentelemetry_proto::tonic::trace::v1::Span;
use tokio::task::JoinHandle;

use super::*;
use crate::otlp::answer::{Answer, RetryCause};
use crate::otlp::batch::Entry;
use crate::otlp::queue::UNSUPPORTED_FOR;
use crate::otlp::settings::Limits;
use crate::otlp::signal::Signal;
use crate::otlp::target::Script;
use crate::transport::receiver::{Compression, Protocol, Receiver};

const RETRY_FOR: Duration = Duration::from_secs(300);

/// A lane with a running sender, and the target that it sends to.
struct Sending {
    lane: Arc<Lane>,
    target: Arc<Target>,
    task: JoinHandle<()>,
    begin: Instant,
}

fn target(answers: impl IntoIterator<Item = Answer>) -> Arc<Target> {
    let receiver = Receiver {
        endpoint: "http://127.0.0.1:1/v1/traces".to_owned(),
        protocol: Protocol::HttpProtobuf,
        headers: Vec::new(),
        timeout: Duration::from_secs(10),
        compression: Compression::None,
        certificate: None,
        client_certificate: None,
        client_key: None,
    };
    let mut target = Target::new(Signal::Traces, &receiver, &mut Vec::new()).unwrap();
    target.script = Some(Script {
        answers: VecDeque::from_iter(answers).into(),
        ..Script::default()
    });
    Arc::new(target)
}

impl Sending {
    fn to(answers: impl IntoIterator<Item = Answer>) -> Self {
        let (lane, target) = (Arc::new(Lane::new(Signal::Traces, Instant::now())), target(answers));
        let nothing = lane.queue().configure(Limits::default(), true, false);
        assert!(nothing.is_empty());
        lane.control.send_modify(|control| {
            control.target = Some(Arc::clone(&target));
            control.retry_for = RETRY_FOR;
        });
        Self {
            task: tokio::spawn(run(Arc::clone(&lane))),
            lane,
            target,
            begin: Instant::now(),
        }
    }

    fn give(&self) {
        let entry = Entry::new(&Arc::new(Origin::new(Vec::new())), &[Span::default()], 1);
        self.lane.push(Instant::now(), vec![entry]);
    }

    /// Waits until everything given so far was sent or dropped.
    async fn settled(&self) {
        let mark = self.lane.queue().mark_flush();
        self.lane.wake.notify_one();
        while !self.lane.queue().is_settled(mark) {
            self.lane.settled.notified().await;
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

fn again(after: Option<Duration>) -> Answer {
    Answer::Retry {
        cause: RetryCause::Unavailable,
        after,
        message: "not now".to_owned(),
    }
}

/// Scenario: a receiver that is down for the whole time that a batch may be retried; then it accepts the next one.
/// Guarantee: no delay is longer than its limit, which doubles from one second to thirty; the batch expires at its
/// deadline, and not earlier; the next one is sent.
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
        let limit = Duration::from_secs(1 << attempt.min(5)).min(Duration::from_secs(30));
        assert!(*delay <= limit + Duration::from_millis(1), "{attempt}: {delay:?}");
    }
    let stats = sending.lane.queue().stats();
    assert_eq!((stats.dropped.expired, stats.exported), (1, 0));
    assert_eq!(stats.retries + 1, attempts.len() as u64);
    sending.target.script.as_ref().unwrap().answers.lock().unwrap().clear();
    sending.give();
    sending.settled().await;
    assert_eq!(sending.lane.queue().stats().exported, 1);
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
    assert_eq!(sending.lane.queue().stats().exported, 2);
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
        .lane
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
    let sending = Sending::to(vec![again(None); 2000]);
    sending.give();
    tokio::time::sleep(Duration::from_secs(100)).await;
    let before = sending.attempts().len();
    sending.lane.queue().close();
    sending.lane.control.send_modify(|control| control.closing = true);
    sending.lane.wake.notify_one();
    tokio::time::timeout(2 * RETRY_FOR, sending.task)
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
    assert_eq!(sending.lane.queue().stats().dropped.expired, 1);
}

/// Scenario: a receiver does not accept the signal; items come every second for half an hour.
/// Guarantee: one request every ten minutes asks again; what comes meanwhile is dropped and counted.
#[tokio::test(start_paused = true)]
async fn an_unsupported_signal_is_asked_for_every_ten_minutes() {
    let unsupported = Answer::Unsupported {
        message: "404".to_owned(),
    };
    let sending = Sending::to(vec![unsupported; 100]);
    for _ in 0..1800 {
        sending.give();
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    sending.settled().await;
    let attempts = sending.attempts();
    assert_eq!(attempts.len(), 3, "{attempts:?}");
    for pair in attempts.windows(2) {
        assert!(pair[1] - pair[0] >= UNSUPPORTED_FOR, "{pair:?}");
    }
    assert_eq!(sending.lane.queue().stats().dropped.unsupported, 1800);
}
