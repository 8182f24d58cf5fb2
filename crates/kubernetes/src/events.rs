//! Kubernetes Events on pods, which `kubectl describe pod` and `kubectl events` show.
//!
//! An event is created once: its name identifies the change of the incident, so neither a repeated request nor a
//! restarted daemon creates a second event. gcwatch needs only the permission to create events.
//!
//! Events wait in a bounded queue for one task. A failed request is repeated a few times. Then the event is dropped and
//! counted, because the API server keeps events for only one hour.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use base::backoff::Backoff;
use serde_json::{Value, json};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::sleep;
use tracing::{info, warn};

use super::client::{Client, Transport};
use super::error::AnswerError;
use super::source::api_server;
use processes::text::bounded;

/// Maximum number of waiting events.
const MAX_WAITING: usize = 128;
/// Maximum number of attempts to create an event.
const ATTEMPTS: u32 = 5;
/// Pauses between attempts.
const BACKOFF: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(30));
/// Minimum interval between two events, which limits the load on the API server.
const PAUSE: Duration = Duration::from_millis(200);
/// Maximum length of a message, in bytes. The API server accepts 1 KiB.
const MAX_MESSAGE: usize = 1000;
/// Maximum length of an event's name without the dot before the id, in characters. The API server accepts 253
/// characters.
const MAX_NAME: usize = 200;
/// Name of gcwatch in events.
const COMPONENT: &str = "gcwatch";

/// The pod of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventPod {
    /// Namespace of the pod, in which the event is created.
    pub namespace: String,
    /// Name of the pod.
    pub name: String,
    /// UID of the pod. `kubectl describe` shows events with this UID.
    pub uid: String,
}

/// An event of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodEvent {
    /// The pod.
    pub pod: EventPod,
    /// Unique part of the event's name within the pod: letters, digits and `-`.
    pub id: String,
    /// Machine-readable reason, such as `GcIncident`.
    pub reason: &'static str,
    /// Text of the event.
    pub message: String,
    /// Whether the event is a warning.
    pub is_warning: bool,
    /// Time of the event, in RFC 3339 with seconds.
    pub at: String,
}

/// A handle for creating events. Clones are cheap, and no call waits.
#[derive(Debug, Clone)]
pub struct Events {
    waiting: Sender<PodEvent>,
    counts: Arc<EventCounts>,
}

/// The numbers of events by outcome.
#[derive(Debug, Default)]
pub struct EventCounts {
    created: AtomicU64,
    dropped: AtomicU64,
}

impl EventCounts {
    /// Returns the number of events by outcome.
    pub fn now(&self) -> [(&'static str, u64); 2] {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        [("created", of(&self.created)), ("dropped", of(&self.dropped))]
    }

    fn drop_one(&self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }
}

impl Events {
    /// Starts the task that creates events at the API server of this pod's cluster. Must be called inside a tokio
    /// runtime. If gcwatch does not run in a pod with a service account, a warning is logged and events are dropped.
    ///
    /// `host` is the name of the node. Events report the node as their source.
    pub fn start(host: String) -> Self {
        let (waiting, receiver) = channel(MAX_WAITING);
        let counts = Arc::new(EventCounts::default());
        let events = Self {
            waiting,
            counts: Arc::clone(&counts),
        };
        match api_server() {
            Ok(client) => {
                let writer = Writer::new(client, host, counts);
                tokio::spawn(writer.run(receiver));
            }
            Err(error) => warn!(target: "gcwatch::kubernetes", "no events are created on pods: {error}"),
        }
        events
    }

    /// Creates an event. An event that does not fit into the queue is dropped and counted.
    pub fn create(&self, event: PodEvent) {
        if self.waiting.try_send(event).is_err() {
            self.counts.drop_one();
        }
    }

    /// Returns the counts.
    pub fn counts(&self) -> &EventCounts {
        &self.counts
    }
}

/// State of the task that creates events.
struct Writer<T> {
    client: Client<T>,
    host: String,
    counts: Arc<EventCounts>,
    /// Whether a failure was logged. The next success resets this flag.
    is_failing: AtomicBool,
}

impl<T: Transport> Writer<T> {
    fn new(client: Client<T>, host: String, counts: Arc<EventCounts>) -> Self {
        Self {
            client,
            host,
            counts,
            is_failing: AtomicBool::new(false),
        }
    }

    /// Creates queued events, in order, until every [`Events`] is dropped.
    async fn run(self, mut waiting: Receiver<PodEvent>) {
        while let Some(event) = waiting.recv().await {
            self.create(&event).await;
            sleep(PAUSE).await;
        }
    }

    async fn create(&self, event: &PodEvent) {
        let path = format!("/api/v1/namespaces/{}/events", event.pod.namespace);
        let body = object(event, &self.host).to_string().into_bytes();
        let mut pause = BACKOFF;
        for attempt in 1..=ATTEMPTS {
            let failed = match self.client.post(&path, body.clone()).await {
                Ok(()) => {
                    self.counts.created.fetch_add(1, Ordering::Relaxed);
                    if self.is_failing.swap(false, Ordering::Relaxed) {
                        info!(target: "gcwatch::kubernetes", "events are created again at {}", self.client.server());
                    }
                    return;
                }
                Err(failed) => failed,
            };
            if !self.is_failing.swap(true, Ordering::Relaxed) {
                let why = match &failed {
                    AnswerError::Forbidden(answer) => {
                        format!("access denied ({answer}); the service account needs `create` of `events`")
                    }
                    other => other.to_string(),
                };
                warn!(target: "gcwatch::kubernetes", "cannot create events on pods at {}: {why}", self.client.server());
            }
            if attempt == ATTEMPTS || !is_repeated(&failed) {
                self.counts.drop_one();
                return;
            }
            sleep(failed.retry_after().unwrap_or_else(|| pause.next(fastrand::f64()))).await;
        }
    }
}

/// Returns whether the same request can succeed later.
fn is_repeated(failed: &AnswerError) -> bool {
    match failed {
        AnswerError::Forbidden(_) => false,
        // 404 means that the namespace is being deleted or does not exist, and 422 means that the event is invalid.
        AnswerError::Refused { answer, .. } => !answer.starts_with("404") && !answer.starts_with("422"),
        _ => true,
    }
}

/// Returns the JSON object of an event for the API server.
fn object(event: &PodEvent, host: &str) -> Value {
    let PodEvent { pod, id, at, .. } = event;
    let start: String = pod.name.chars().take(MAX_NAME.saturating_sub(id.len())).collect();
    let message = bounded(&event.message);
    let end = (0..=MAX_MESSAGE.min(message.len()))
        .rev()
        .find(|end| message.is_char_boundary(*end))
        .unwrap_or(0);
    let message = message.get(..end).unwrap_or_default();
    json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": { "name": format!("{}.{id}", start.trim_end_matches(['-', '.'])), "namespace": pod.namespace },
        "involvedObject": {
            "apiVersion": "v1", "kind": "Pod", "namespace": pod.namespace, "name": pod.name, "uid": pod.uid,
        },
        "reason": event.reason,
        "message": message,
        "type": if event.is_warning { "Warning" } else { "Normal" },
        "firstTimestamp": at,
        "lastTimestamp": at,
        "count": 1,
        "source": { "component": COMPONENT, "host": host },
        "reportingComponent": COMPONENT,
        "reportingInstance": host,
    })
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;
    use crate::script::{Script, ScriptedAnswer};

    fn event() -> PodEvent {
        PodEvent {
            pod: EventPod {
                namespace: "shop".to_owned(),
                name: "web-1".to_owned(),
                uid: "u-1".to_owned(),
            },
            id: "0f1e2d3c4b5a6978-firing".to_owned(),
            reason: "GcIncident",
            message: "GC stopped 9 %".to_owned(),
            is_warning: true,
            at: "2027-01-15T08:00:00Z".to_owned(),
        }
    }

    async fn created(answers: Vec<ScriptedAnswer>) -> (Script, [(&'static str, u64); 2], Duration) {
        let (script, counts) = (Script::new(answers), Arc::new(EventCounts::default()));
        let client = Client::new(script.clone(), "the script".to_owned(), None);
        let begin = Instant::now();
        Writer::new(client, "node-7".to_owned(), Arc::clone(&counts))
            .create(&event())
            .await;
        (script, counts.now(), begin.elapsed())
    }

    /// Scenario: the server accepts an event, already has the event, is temporarily unavailable, denies the permission,
    /// or is always unavailable.
    /// Guarantee: an existing event counts as created; a failed request is repeated after a pause, with at most five
    /// attempts; a request without permission is not repeated.
    #[tokio::test(start_paused = true)]
    async fn event_is_created_once() {
        let answer = |status| ScriptedAnswer::whole(status, "{}");
        let (script, counts, _) = created(vec![answer(201)]).await;
        assert_eq!((counts[0].1, counts[1].1), (1, 0));
        assert_eq!(script.asked()[0].path, "/api/v1/namespaces/shop/events");
        let body: Value = serde_json::from_slice(&script.asked()[0].body).unwrap();
        assert_eq!(body["metadata"]["name"], "web-1.0f1e2d3c4b5a6978-firing");
        assert_eq!(body["involvedObject"]["uid"], "u-1");
        assert_eq!(
            (&body["type"], &body["source"]["host"]),
            (&json!("Warning"), &json!("node-7"))
        );
        let (_, counts, _) = created(vec![answer(409)]).await;
        assert_eq!((counts[0].1, counts[1].1), (1, 0));
        let (script, counts, waited) = created(vec![answer(503), answer(201)]).await;
        assert_eq!((script.asked().len(), counts[0].1, counts[1].1), (2, 1, 0));
        assert!(waited > Duration::ZERO);
        let (script, counts, _) = created(vec![answer(403), answer(201)]).await;
        assert_eq!((script.asked().len(), counts[0].1, counts[1].1), (1, 0, 1));
        let (script, counts, _) = created((0..9).map(|_| answer(500)).collect()).await;
        assert_eq!((script.asked().len(), counts[0].1, counts[1].1), (5, 0, 1));
    }

    /// Scenario: the name of a pod has 252 characters, and a message has 50,000 characters of one or three bytes.
    /// Guarantee: name and message are within the limits of the API server, which are in bytes.
    #[test]
    fn event_is_within_limits() {
        let mut event = event();
        event.pod.name = format!("{}-x", "p".repeat(250));
        for character in ["m", "…"] {
            event.message = character.repeat(50_000);
            let object = object(&event, "node");
            let name = object["metadata"]["name"].as_str().unwrap();
            assert!(
                name.len() <= 253 && name.ends_with(".0f1e2d3c4b5a6978-firing"),
                "{name}"
            );
            let length = object["message"].as_str().unwrap().len();
            assert!((990..=1024).contains(&length), "{length}");
        }
    }
}
