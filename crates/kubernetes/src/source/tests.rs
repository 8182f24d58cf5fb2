//! Tests against a scripted server on a paused clock, on which long waits pass instantly.

use std::net::SocketAddr;

use hyper::body::Bytes;
use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::*;
use crate::script::{End, RecordedRequest, Script, ScriptedAnswer};
use crate::transport::tests::server;
use crate::watch::SILENT;
use processes::container::ContainerIdentity;
use processes::surroundings::Surroundings as _;

/// Timeout for conditions, much longer than any scenario takes on the paused clock.
const TIMEOUT: Duration = Duration::from_secs(36_000);

/// A server and its follower.
struct Scene {
    script: Script,
    pods: Arc<Pods>,
    stats: Arc<Stats>,
    changes: Arc<Notify>,
    task: JoinHandle<()>,
}

impl Drop for Scene {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Scene {
    fn begin(answers: impl IntoIterator<Item = ScriptedAnswer>) -> Self {
        Self::with_follower(answers, |follower| tokio::spawn(follower.watch()))
    }

    fn with_follower(
        answers: impl IntoIterator<Item = ScriptedAnswer>,
        follow: impl FnOnce(Follower<Script, Box<dyn Fn() + Send + Sync>>) -> JoinHandle<()>,
    ) -> Self {
        let script = Script::new(answers);
        let (pods, stats) = (Arc::new(Pods::default()), Arc::new(Stats::default()));
        let changes = Arc::new(Notify::new());
        let notify = Arc::clone(&changes);
        let task = follow(Follower {
            backoff: BACKOFF,
            client: Client::new(script.clone(), "the script".to_owned(), None),
            settings: Settings {
                node: Some("node 1".to_owned()),
                ..Settings::default()
            },
            pods: Arc::clone(&pods),
            stats: Arc::clone(&stats),
            changed: Box::new(move || notify.notify_one()),
            is_denied: AtomicBool::new(false),
        });
        Self {
            script,
            pods,
            stats,
            changes,
            task,
        }
    }

    fn name(&self, uid: &str) -> Option<String> {
        let identity = ContainerIdentity {
            container_id: None,
            pod_uid: Some(uid.to_owned()),
        };
        gc_telemetry::value::text(&self.pods.attributes(&identity), "k8s.pod.name")
    }

    /// Returns the requests once there are at least this many.
    async fn asked(&self, requests: usize) -> Vec<RecordedRequest> {
        let until = async {
            while self.script.asked().len() < requests {
                sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(TIMEOUT, until).await.unwrap();
        self.script.asked()
    }

    /// Waits for a condition that changes only with reported changes.
    async fn until(&self, what: impl Fn(&Self) -> bool) {
        let until = async {
            while !what(self) {
                self.changes.notified().await;
            }
        };
        timeout(TIMEOUT, until).await.unwrap();
    }
}

fn pod(uid: &str, name: &str, version: u32) -> Value {
    json!({
        "metadata": {"uid": uid, "name": name, "namespace": "shop", "resourceVersion": version.to_string()},
        "spec": {"nodeName": "node 1", "containers": [{"name": "app", "image": "web:1"}]}
    })
}

fn list(pods: &[Value], version: &str, token: Option<&str>) -> ScriptedAnswer {
    let body = json!({"kind": "PodList", "metadata": {"resourceVersion": version, "continue": token}, "items": pods});
    ScriptedAnswer::whole(200, body.to_string())
}

fn line(kind: &str, object: &Value) -> String {
    format!("{}\n", json!({"type": kind, "object": object}))
}

fn events(lines: &[String], end: End) -> ScriptedAnswer {
    let pieces = lines.iter().map(|line| Bytes::from(line.clone())).collect();
    ScriptedAnswer::Answer(200, None, pieces, end)
}

fn watch() -> (mpsc::Sender<Bytes>, ScriptedAnswer) {
    let (sender, pieces) = mpsc::channel(16);
    (sender, ScriptedAnswer::Live(pieces))
}

fn between(asked: &[RecordedRequest], first: usize) -> Duration {
    asked[first + 1].at - asked[first].at
}

/// Scenario: a list has two pages; a watch adds, changes and deletes a pod, in pieces that are not lines, sends a
/// bookmark, and ends cleanly.
/// Guarantee: each change is applied; the next watch continues at the bookmark; only the node's pods are requested.
#[tokio::test(start_paused = true)]
async fn node_is_followed() {
    let (events, first) = watch();
    let (_open, second) = watch();
    let pages = [
        list(&[pod("u1", "one", 3)], "9", Some("more/1")),
        list(&[pod("u2", "two", 4)], "9", None),
    ];
    let scene = Scene::begin(pages.into_iter().chain([first, second]));
    scene.until(|scene| scene.name("u2").is_some()).await;
    assert_eq!(scene.name("u1").as_deref(), Some("one"));

    let text = line("ADDED", &pod("u3", "three", 10)) + &line("MODIFIED", &pod("u1", "one-b", 11));
    let (begin, end) = text.split_at(text.len() / 3);
    events.send(begin.to_owned().into()).await.unwrap();
    events.send(end.to_owned().into()).await.unwrap();
    scene
        .until(|scene| scene.name("u3").is_some() && scene.name("u1").as_deref() == Some("one-b"))
        .await;
    events
        .send(line("DELETED", &pod("u2", "two", 12)).into())
        .await
        .unwrap();
    scene.until(|scene| scene.name("u2").is_none()).await;
    events
        .send(line("BOOKMARK", &json!({"metadata": {"resourceVersion": "99"}})).into())
        .await
        .unwrap();
    drop(events);

    let asked: Vec<String> = scene.asked(4).await.into_iter().map(|asked| asked.path).collect();
    let all = "/api/v1/pods?fieldSelector=spec.nodeName%3Dnode%201&";
    assert!(asked.iter().all(|asked| asked.starts_with(all)), "{asked:?}");
    assert!(asked[1].contains("continue=more%2F1"), "{asked:?}");
    assert!(
        asked[2].contains("watch=1")
            && asked[2].contains("resourceVersion=9")
            && asked[2].contains("allowWatchBookmarks=true")
    );
    assert!(
        asked[3].contains("watch=1") && asked[3].contains("resourceVersion=99"),
        "{asked:?}"
    );
    let stats = scene.stats.now();
    assert_eq!(
        (stats.lists, stats.events, stats.failures, stats.current),
        (1, 3, 0, true)
    );
}

/// Scenario: a watch breaks in the middle of a line; the version of the next watch has expired (as an event); a list
/// lacks a known pod; then a watch is refused with 410.
/// Guarantee: complete events stay applied; the broken watch continues at its last version; after an expired version,
/// all pods are listed again, and missing pods are forgotten.
#[tokio::test(start_paused = true)]
async fn broken_and_expired_watches_resume() {
    let whole = line("ADDED", &pod("u2", "two", 20));
    let cut = whole.clone() + "{\"type\":\"MODIFIED\",\"obj";
    let expired = line(
        "ERROR",
        &json!({"kind": "Status", "status": "Failure", "code": 410, "message": "too old resource version"}),
    );
    let (_open, last) = watch();
    let answers = vec![
        list(&[pod("u1", "one", 3)], "9", None),
        events(&[cut], End::Broken),
        events(&[expired], End::InOrder),
        list(&[pod("u2", "two", 20)], "30", None),
        ScriptedAnswer::whole(410, json!({"kind": "Status", "code": 410}).to_string()),
        list(&[pod("u2", "two", 20), pod("u4", "four", 41)], "42", None),
        last,
    ];
    let scene = Scene::begin(answers);
    scene.until(|scene| scene.name("u2").is_some()).await;
    assert_eq!(
        scene.name("u1").as_deref(),
        Some("one"),
        "a broken watch removes no pod"
    );
    scene.until(|scene| scene.name("u4").is_some()).await;
    let asked: Vec<String> = scene.asked(7).await.into_iter().map(|asked| asked.path).collect();
    assert!(asked[2].contains("resourceVersion=20"), "{asked:?}");
    assert!(
        !asked[3].contains("watch=1") && asked[4].contains("resourceVersion=30"),
        "{asked:?}"
    );
    assert!(
        !asked[5].contains("watch=1") && asked[6].contains("resourceVersion=42"),
        "{asked:?}"
    );
    assert_eq!(scene.name("u1"), None);
    let stats = scene.stats.now();
    assert_eq!((stats.lists, stats.failures), (3, 3));
}

/// Scenario: the server refuses, answers with invalid JSON, sends a line that is not a pod, and recovers.
/// Guarantee: known pods are kept, requests are repeated until one succeeds, and failures and the unreadable line are
/// counted.
#[tokio::test(start_paused = true)]
async fn known_pods_are_kept_while_server_is_unavailable() {
    let (events, first) = watch();
    let (again, second) = watch();
    let answers = vec![
        ScriptedAnswer::whole(403, json!({"message": "pods is forbidden"}).to_string()),
        ScriptedAnswer::whole(200, "no JSON"),
        list(&[pod("u1", "one", 3)], "9", None),
        first,
        ScriptedAnswer::whole(503, "away"),
        second,
    ];
    let scene = Scene::begin(answers);
    scene.until(|scene| scene.name("u1").is_some()).await;
    events.send("{\"type\":\"ODD\",\"object\":[]}\n".into()).await.unwrap();
    drop(events);
    scene.asked(6).await;
    assert_eq!(scene.name("u1").as_deref(), Some("one"));
    again.send(line("ADDED", &pod("u5", "five", 50)).into()).await.unwrap();
    scene.until(|scene| scene.name("u5").is_some()).await;
    let stats = scene.stats.now();
    assert_eq!((stats.current, stats.failures, stats.left_out), (true, 3, 1));
}

/// Scenario: a server sends a line without an end.
/// Guarantee: the watch is ended at the limit, and a new watch starts.
#[tokio::test(start_paused = true)]
async fn endless_line_ends_watch() {
    let (events, endless) = watch();
    let (_open, next) = watch();
    let scene = Scene::begin([list(&[], "1", None), endless, next]);
    let piece = Bytes::from("x".repeat(1 << 20));
    while events.send(piece.clone()).await.is_ok() {}
    assert_eq!(scene.asked(3).await.len(), 3);
    assert_eq!(scene.stats.now().failures, 1);
}

/// Scenario: the kubelet refuses, then answers.
/// Guarantee: the pods of the kubelet are requested until the kubelet answers, and are then known.
#[tokio::test(start_paused = true)]
async fn kubelet_is_polled() {
    let answers = vec![ScriptedAnswer::whole(401, ""), list(&[pod("u1", "one", 3)], "", None)];
    let scene = Scene::with_follower(answers, |follower| tokio::spawn(follower.poll()));
    scene.until(|scene| scene.name("u1").is_some()).await;
    assert!(scene.asked(2).await.iter().all(|asked| asked.path == "/pods"));
    assert_eq!((scene.stats.now().failures, scene.stats.now().lists), (1, 1));
}

/// Scenario: one kubelet has a trusted certificate and is verified. Another kubelet has an untrusted certificate and is
/// queried with and without verification. The token is in a file.
/// Guarantee: the token is sent only to a kubelet that is trusted or is not verified.
#[tokio::test]
async fn tokens_are_sent_to_trusted_kubelets_only() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("token"), "secret-token").unwrap();
    let (trusted, certificate) = server(&[]).await;
    let (stranger, _) = server(&[]).await;
    std::fs::write(path("ca.pem"), certificate).unwrap();
    let ask = async |address: SocketAddr, verify: bool| {
        let settings = Settings {
            kubelet_url: format!("https://{address}"),
            kubelet_certificate: Some(path("ca.pem")),
            kubelet_verify: verify,
            ..Settings::default()
        };
        let account = ServiceAccount {
            token: path("token"),
            certificates: path("none"),
        };
        // The server answers every request with the token of that request.
        let answer = kubelet_client(&settings, Some(account))
            .unwrap()
            .whole("/pods", 100)
            .await;
        answer.map(|answer| String::from_utf8(answer).unwrap())
    };
    for (address, verify) in [(trusted, true), (stranger, false)] {
        assert!(ask(address, verify).await.unwrap().contains("Bearer secret-token"));
    }
    assert!(matches!(ask(stranger, true).await, Err(AnswerError::Unreachable(_))));
}

/// Scenario: an overloaded server sends `Retry-After` at the start of a list, at the start of a watch, and within a
/// watch.
/// Guarantee: the next request follows less than 1 s after the requested delay has passed.
#[tokio::test(start_paused = true)]
async fn retry_after_is_honoured() {
    let later = || ScriptedAnswer::Answer(429, Some("120"), Vec::new(), End::InOrder);
    let within = line(
        "ERROR",
        &json!({"code": 429, "message": "later", "details": {"retryAfterSeconds": 90}}),
    );
    let scene = Scene::begin([later(), list(&[], "1", None), later(), events(&[within], End::InOrder)]);
    let asked = scene.asked(5).await;
    for (first, seconds) in [(0, 120), (2, 120), (3, 90)] {
        let pause = between(&asked, first);
        assert!(
            pause >= Duration::from_secs(seconds) && pause < Duration::from_secs(seconds + 1),
            "{pause:?}"
        );
    }
    assert_eq!(scene.stats.now().failures, 3);
}

/// Scenario: a watch receives no data on a connection that stays open.
/// Guarantee: the watch is ended after [`SILENT`], and the next watch continues at its version.
#[tokio::test(start_paused = true)]
async fn silent_watch_is_ended() {
    let bookmark = line("BOOKMARK", &json!({"metadata": {"resourceVersion": "7"}}));
    let scene = Scene::begin([list(&[], "1", None), events(&[bookmark], End::Silence)]);
    let asked = scene.asked(3).await;
    let silence = between(&asked, 1);
    assert!(
        silence >= SILENT && silence < SILENT + Duration::from_secs(2),
        "{silence:?}"
    );
    assert!(asked[2].path.contains("resourceVersion=7"), "{asked:?}");
    assert_eq!(scene.stats.now().failures, 1);
}

/// Scenario: an object is longer than the maximum line, in many pieces, between two others.
/// Guarantee: only the long object is skipped and counted, and the watch continues.
#[tokio::test(start_paused = true)]
async fn long_object_is_skipped() {
    let mut lines = vec![line("ADDED", &pod("u1", "one", 2))];
    lines.extend(std::iter::repeat_n("x".repeat(1 << 20), 5));
    lines.push("\n".to_owned() + &line("ADDED", &pod("u2", "two", 3)));
    let scene = Scene::begin([list(&[], "1", None), events(&lines, End::Silence)]);
    scene.until(|scene| scene.pods.count() == 2).await;
    let stats = scene.stats.now();
    assert_eq!((stats.events, stats.left_out, stats.failures), (2, 1, 0));
}

/// Scenario: a server ends each watch immediately, cleanly or by closing the connection.
/// Guarantee: the pauses between the watches grow.
#[tokio::test(start_paused = true)]
async fn immediately_ended_watches_are_retried_with_pauses() {
    for end in [End::InOrder, End::Broken] {
        let begin = Instant::now();
        let ended = (0..8).map(|_| events(&[], end));
        let scene = Scene::begin(std::iter::once(list(&[], "1", None)).chain(ended));
        scene.asked(9).await;
        // The backoff is at least half of 1 + 2 + 4 + ... + 60 seconds.
        assert!(begin.elapsed() > Duration::from_secs(60), "{:?}", begin.elapsed());
    }
}
