//! Tests of one receiver with scripted answers, on a paused clock.

use std::collections::VecDeque;

use super::*;
use crate::alerts::labels::{Labels, fingerprint};
use crate::alerts::outbox::RETRY_FOR;
use crate::alerts::post::Script;
use crate::alerts::shares::MESSAGES_EACH;
use crate::transport::receiver::{Protocol, Receiver};

const RESEND: Duration = Duration::from_secs(60);

const ALERTMANAGER: ReceiverKind = ReceiverKind::Alertmanager {
    resend: RESEND,
    min_severity: Severity::Info,
};

const WEBHOOK: ReceiverKind = ReceiverKind::Webhook {
    secret: None,
    min_severity: Severity::Info,
};

fn queue(kind: ReceiverKind, answers: impl IntoIterator<Item = Answer>) -> Arc<ReceiverQueue> {
    let receiver = Receiver::new("http://127.0.0.1:1/", Protocol::HttpJson, Duration::from_secs(10));
    let mut post = Post::new(&receiver, &mut Vec::new()).unwrap();
    post.script = Some(Script {
        answers: VecDeque::from_iter(answers).into(),
        ..Script::default()
    });
    let queue = Arc::new(ReceiverQueue::new(
        "test".to_owned(),
        kind,
        Links::default(),
        post,
        Arc::default(),
    ));
    tokio::spawn(Arc::clone(&queue).run());
    queue
}

fn message(ended: bool) -> Arc<Message> {
    let labels = Labels::from([("alertname".to_owned(), "test".to_owned())]);
    Arc::new(Message::test(fingerprint(&labels), labels, ended))
}

/// Returns the time of each request since `begin`.
fn requests(queue: &ReceiverQueue, begin: Instant) -> Vec<Duration> {
    let script = queue.post.script.as_ref().unwrap();
    let requests = script.requests.lock().unwrap();
    requests.iter().map(|at| at.duration_since(begin)).collect()
}

fn again(after: Option<Duration>) -> Answer {
    Answer::Retry {
        failure: Failure::Unavailable,
        after,
        message: "not now".to_owned(),
    }
}

fn seconds(times: &[Duration]) -> Vec<u64> {
    times.iter().map(Duration::as_secs).collect()
}

/// Scenario: an alert fires for ten minutes and then resolves; an hour passes.
/// Guarantee: an Alertmanager gets the alert at once and once per minute, and its end at once and once per minute for
/// five minutes, and nothing afterwards.
#[tokio::test(start_paused = true)]
async fn alertmanager_gets_states_at_intervals() {
    let (queue, begin) = (queue(ALERTMANAGER, []), Instant::now());
    queue.put(&message(false));
    sleep(Duration::from_secs(630)).await;
    queue.put(&message(true));
    sleep(Duration::from_secs(3600)).await;
    let mut expected: Vec<u64> = (0..=10).map(|minute| minute * 60).collect();
    expected.extend((0..5).map(|minute| 630 + minute * 60));
    assert_eq!(seconds(&requests(&queue, begin)), expected);
}

/// Scenario: one Alertmanager forbids access for three minutes; another Alertmanager asks for a pause of 100 seconds.
/// Guarantee: the first Alertmanager gets one request per interval, and the second gets no request during its pause.
#[tokio::test(start_paused = true)]
async fn refusing_alertmanager_gets_few_requests() {
    let forbidden = Answer::Refused {
        content: false,
        message: "401".to_owned(),
    };
    let begin = Instant::now();
    let closed = queue(ALERTMANAGER, vec![forbidden; 3]);
    let busy = queue(ALERTMANAGER, [again(Some(Duration::from_secs(100)))]);
    closed.put(&message(false));
    busy.put(&message(false));
    sleep(Duration::from_secs(190)).await;
    assert_eq!(seconds(&requests(&closed, begin)), [0, 60, 120, 180]);
    assert_eq!(seconds(&requests(&busy, begin)), [0, 100, 160]);
    assert_eq!((closed.stats().sent, busy.stats().sent), (1, 2));
}

/// Scenario: a webhook is down for longer than a change is retried.
/// Guarantee: every delay is within its limit, which doubles from one second to thirty; then the change is dropped and
/// counted, and no further request is sent.
#[tokio::test(start_paused = true)]
async fn change_for_webhook_expires() {
    let (queue, begin) = (queue(WEBHOOK, vec![again(None); 5000]), Instant::now());
    queue.put(&message(false));
    sleep(2 * RETRY_FOR).await;
    let requests = requests(&queue, begin);
    for (attempt, pair) in requests.windows(2).enumerate() {
        let limit = Duration::from_secs(1 << attempt.min(5)).min(Duration::from_secs(30));
        assert!(
            pair[1] - pair[0] <= limit + Duration::from_millis(1),
            "{attempt}: {pair:?}"
        );
    }
    let last = *requests.last().unwrap();
    assert!(
        last < RETRY_FOR && last >= RETRY_FOR - Duration::from_secs(31),
        "{last:?}"
    );
    let stats = queue.stats();
    assert_eq!((stats.queued, stats.dropped()[1]), (0, ("expired", 1)));
}

/// Scenario: a tenant has twice its share of new incidents of one rule, and the webhook starts to accept requests late.
/// Guarantee: the share is sent; one message for all further incidents is sent a minute after the first of them;
/// further incidents are counted as summed up and not as dropped.
#[tokio::test(start_paused = true)]
async fn incidents_beyond_share_are_one_message() {
    let (queue, begin) = (
        queue(WEBHOOK, vec![again(Some(Duration::from_secs(5)))]),
        Instant::now(),
    );
    let each = MESSAGES_EACH as u64;
    for incident in 0..2 * each {
        let mut message = Message::clone(&message(false));
        message.incident.1 = incident;
        message.change = Change::Began;
        queue.put(&Arc::new(message));
    }
    sleep(Duration::from_secs(59)).await;
    assert_eq!(queue.stats().sent, each);
    sleep(Duration::from_secs(2)).await;
    let requests = seconds(&requests(&queue, begin));
    assert_eq!(requests.last(), Some(&60), "{requests:?}");
    let stats = queue.stats();
    assert_eq!((stats.sent, stats.summed_up, stats.queued), (each + 1, each, 0));
    assert!(stats.dropped().iter().all(|(_, count)| *count == 0));
}

/// Scenario: a signature is computed for the second test case of RFC 4231.
/// Guarantee: the header has the published value.
#[test]
fn signatures_are_hmac_sha256() {
    let (name, value) = signature(&Secret::new("Jefe"), b"what do ya want for nothing?").unwrap();
    assert_eq!(name, "x-gcwatch-signature");
    assert_eq!(
        value,
        "sha256=5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
    );
}
