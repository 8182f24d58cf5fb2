//! Against an API server on loopback that does what a script says.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Mutex;

use http::{Request, Response};
use http_body_util::{BodyExt as _, Full, combinators::UnsyncBoxBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

use super::*;
use processes::container::ContainerIdentity;
use processes::surroundings::Surroundings as _;

/// The answer to one request.
enum Answer {
    /// A whole body.
    Whole(u16, String),
    /// A body in pieces, as they are sent; it ends in order when the sender is dropped.
    Pieces(mpsc::Receiver<String>),
    /// A piece, then the connection breaks.
    Cut(String),
}

/// The answers still to give, and the requests so far.
#[derive(Default)]
struct Script {
    answers: Mutex<VecDeque<Answer>>,
    asked: Mutex<Vec<String>>,
    /// `Authorization` of the last request.
    token: Mutex<Option<String>>,
    arrived: Notify,
}

type Body = UnsyncBoxBody<Bytes, std::io::Error>;

impl Script {
    fn answer(&self, request: &Request<Incoming>) -> Response<Body> {
        self.asked
            .lock()
            .unwrap()
            .push(request.uri().path_and_query().unwrap().to_string());
        let token = request
            .headers()
            .get("authorization")
            .and_then(|value| value.to_str().ok());
        *self.token.lock().unwrap() = token.map(str::to_owned);
        let answer = self.answers.lock().unwrap().pop_front();
        self.arrived.notify_one();
        let (status, body): (u16, Body) = match answer {
            None => (
                503,
                Full::from("the script is at its end")
                    .map_err(|never| match never {})
                    .boxed_unsync(),
            ),
            Some(Answer::Whole(status, text)) => {
                (status, Full::from(text).map_err(|never| match never {}).boxed_unsync())
            }
            Some(Answer::Pieces(pieces)) => (200, Pieces(pieces).boxed_unsync()),
            Some(Answer::Cut(text)) => (200, Cut(Some(text), false).boxed_unsync()),
        };
        Response::builder().status(status).body(body).unwrap()
    }
}

struct Pieces(mpsc::Receiver<String>);

impl hyper::body::Body for Pieces {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        self.0
            .poll_recv(context)
            .map(|piece| piece.map(|piece| Ok(Frame::data(Bytes::from(piece)))))
    }
}

struct Cut(Option<String>, bool);

impl hyper::body::Body for Cut {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        match self.0.take() {
            Some(text) => std::task::Poll::Ready(Some(Ok(Frame::data(Bytes::from(text))))),
            // What was written leaves before the connection breaks.
            None if !std::mem::replace(&mut self.1, true) => {
                context.waker().wake_by_ref();
                std::task::Poll::Pending
            }
            None => std::task::Poll::Ready(Some(Err(std::io::Error::other("cut")))),
        }
    }
}

/// A server and its follower.
struct Scene {
    script: Arc<Script>,
    pods: Arc<Pods>,
    stats: Arc<Stats>,
    changes: Arc<Notify>,
    tasks: Vec<JoinHandle<()>>,
}

impl Drop for Scene {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

async fn serve(listener: TcpListener, tls: Option<TlsAcceptor>, script: Arc<Script>) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let (script, tls) = (Arc::clone(&script), tls.clone());
        tokio::spawn(async move {
            match tls {
                None => talk(stream, &script).await,
                Some(tls) => {
                    if let Ok(stream) = tls.accept(stream).await {
                        talk(stream, &script).await;
                    }
                }
            }
        });
    }
}

async fn talk(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, script: &Script) {
    let service = service_fn(|request| {
        let answer = script.answer(&request);
        async { Ok::<_, std::convert::Infallible>(answer) }
    });
    let server = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
    let _cut = server.serve_connection(TokioIo::new(stream), service).await;
}

fn client(address: SocketAddr) -> Client<Http> {
    let url = Url::parse(&format!("http://{address}")).unwrap();
    Client::new(Http::new(&url, Trust::System).unwrap(), url.to_string(), None)
}

impl Scene {
    async fn begin(answers: Vec<Answer>, kubelet: bool) -> Self {
        Self::with(answers, kubelet, None, client).await
    }

    async fn with(
        answers: Vec<Answer>,
        kubelet: bool,
        tls: Option<TlsAcceptor>,
        client: impl FnOnce(SocketAddr) -> Client<Http>,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let script = Arc::new(Script {
            answers: Mutex::new(answers.into()),
            ..Script::default()
        });
        let (pods, stats) = (Arc::new(Pods::default()), Arc::new(Stats::default()));
        let changes = Arc::new(Notify::new());
        let notify = Arc::clone(&changes);
        let follower = Follower {
            backoff: Backoff::new(Duration::from_millis(1), Duration::from_millis(4)),
            client: client(address),
            settings: Settings {
                node: Some("node 1".to_owned()),
                ..Settings::default()
            },
            pods: Arc::clone(&pods),
            stats: Arc::clone(&stats),
            changed: move || notify.notify_one(),
            is_denied: AtomicBool::new(false),
        };
        let following = async move {
            if kubelet {
                follower.poll().await;
            } else {
                follower.watch().await;
            }
        };
        let tasks = vec![
            tokio::spawn(serve(listener, tls, Arc::clone(&script))),
            tokio::spawn(following),
        ];
        Self {
            script,
            pods,
            stats,
            changes,
            tasks,
        }
    }

    fn name(&self, uid: &str) -> Option<String> {
        let identity = ContainerIdentity {
            container_id: None,
            pod_uid: Some(uid.to_owned()),
        };
        gc_telemetry::value::text(&self.pods.attributes(&identity), "k8s.pod.name")
    }

    /// Waits for that many requests; a test that hangs here is ended by its runner.
    async fn asked(&self, requests: usize) -> Vec<String> {
        loop {
            let arrived = self.script.arrived.notified();
            let asked = self.script.asked.lock().unwrap().clone();
            if asked.len() >= requests {
                return asked;
            }
            arrived.await;
        }
    }

    async fn until(&self, what: impl Fn(&Self) -> bool) {
        while !what(self) {
            self.changes.notified().await;
        }
    }
}

fn pod(uid: &str, name: &str, version: u32) -> Value {
    json!({
        "metadata": {"uid": uid, "name": name, "namespace": "shop", "resourceVersion": version.to_string()},
        "spec": {"nodeName": "node 1", "containers": [{"name": "app", "image": "web:1"}]}
    })
}

fn list(pods: &[Value], version: &str, token: Option<&str>) -> Answer {
    let body = json!({"kind": "PodList", "metadata": {"resourceVersion": version, "continue": token}, "items": pods});
    Answer::Whole(200, body.to_string())
}

fn line(kind: &str, object: &Value) -> String {
    format!("{}\n", json!({"type": kind, "object": object}))
}

fn watch() -> (mpsc::Sender<String>, Answer) {
    let (sender, pieces) = mpsc::channel(16);
    (sender, Answer::Pieces(pieces))
}

/// Scenario: a list in two pages, a watch with a pod that comes, changes and goes, in pieces that are no lines, a
/// bookmark, and the orderly end.
/// Guarantee: each is applied; the next watch continues at the bookmark, and only the node's pods are requested.
#[tokio::test]
async fn a_node_is_followed() {
    let (events, first) = watch();
    let (_open, second) = watch();
    let pages = [
        list(&[pod("u1", "one", 3)], "9", Some("more/1")),
        list(&[pod("u2", "two", 4)], "9", None),
    ];
    let scene = Scene::begin(pages.into_iter().chain([first, second]).collect(), false).await;
    scene.until(|scene| scene.name("u2").is_some()).await;
    assert_eq!(scene.name("u1").as_deref(), Some("one"));

    let text = line("ADDED", &pod("u3", "three", 10)) + &line("MODIFIED", &pod("u1", "one-b", 11));
    let (begin, end) = text.split_at(text.len() / 3);
    events.send(begin.to_owned()).await.unwrap();
    events.send(end.to_owned()).await.unwrap();
    scene
        .until(|scene| scene.name("u3").is_some() && scene.name("u1").as_deref() == Some("one-b"))
        .await;
    events.send(line("DELETED", &pod("u2", "two", 12))).await.unwrap();
    scene.until(|scene| scene.name("u2").is_none()).await;
    events
        .send(line("BOOKMARK", &json!({"metadata": {"resourceVersion": "99"}})))
        .await
        .unwrap();
    drop(events);

    let asked = scene.asked(4).await;
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

/// Scenario: a watch that breaks in the middle of a line, then one whose version has expired (as an event), then a list
/// without the pod, then a watch refused with 410.
/// Guarantee: complete events stay applied; the broken watch continues at its newest version; after an expired version
/// all pods are listed again, and a pod that is gone by then is forgotten.
#[tokio::test]
async fn broken_and_expired_watches_go_on() {
    let whole = line("ADDED", &pod("u2", "two", 20));
    let cut = whole.clone() + "{\"type\":\"MODIFIED\",\"obj";
    let expired = line(
        "ERROR",
        &json!({"kind": "Status", "status": "Failure", "code": 410, "message": "too old resource version"}),
    );
    let (gone, over) = watch();
    gone.send(expired).await.unwrap();
    drop(gone);
    let (_open, last) = watch();
    let answers = vec![
        list(&[pod("u1", "one", 3)], "9", None),
        Answer::Cut(cut),
        over,
        list(&[pod("u2", "two", 20)], "30", None),
        Answer::Whole(410, json!({"kind": "Status", "code": 410}).to_string()),
        list(&[pod("u2", "two", 20), pod("u4", "four", 41)], "42", None),
        last,
    ];
    let scene = Scene::begin(answers, false).await;
    scene.until(|scene| scene.name("u2").is_some()).await;
    assert_eq!(
        scene.name("u1").as_deref(),
        Some("one"),
        "a watch that breaks takes nothing away"
    );
    scene.until(|scene| scene.name("u4").is_some()).await;
    let asked = scene.asked(7).await;
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

/// Scenario: the server refuses, answers with invalid JSON, sends a line that is no pod, and recovers.
/// Guarantee: known pods are kept throughout, marked as not current, and requests are repeated until one succeeds.
#[tokio::test]
async fn what_was_known_stays_while_the_server_is_away() {
    let (events, first) = watch();
    let (again, second) = watch();
    let answers = vec![
        Answer::Whole(403, json!({"message": "pods is forbidden"}).to_string()),
        Answer::Whole(200, "no JSON".to_owned()),
        list(&[pod("u1", "one", 3)], "9", None),
        first,
        Answer::Whole(503, "away".to_owned()),
        second,
    ];
    let scene = Scene::begin(answers, false).await;
    scene.until(|scene| scene.name("u1").is_some()).await;
    events
        .send("{\"type\":\"ODD\",\"object\":[]}\n".to_owned())
        .await
        .unwrap();
    drop(events);
    scene.asked(6).await;
    assert_eq!(scene.name("u1").as_deref(), Some("one"));
    again.send(line("ADDED", &pod("u5", "five", 50))).await.unwrap();
    scene.until(|scene| scene.name("u5").is_some()).await;
    let stats = scene.stats.now();
    assert_eq!((stats.current, stats.failures, stats.left_out), (true, 3, 1));
}

/// Scenario: a server that sends a line without an end.
/// Guarantee: the watch is ended at the limit, and a new one begins.
#[tokio::test]
async fn endless_lines_are_given_up() {
    let (events, endless) = watch();
    let (_open, next) = watch();
    let scene = Scene::begin(vec![list(&[], "1", None), endless, next], false).await;
    let piece = "x".repeat(1 << 20);
    while events.send(piece.clone()).await.is_ok() {}
    assert_eq!(scene.asked(3).await.len(), 3);
    assert_eq!(scene.stats.now().failures, 1);
}

/// Scenario: the kubelet refuses, then answers.
/// Guarantee: its pods are requested until it answers, and are known then.
#[tokio::test]
async fn the_kubelet_is_asked() {
    let answers = vec![
        Answer::Whole(401, String::new()),
        list(&[pod("u1", "one", 3)], "", None),
    ];
    let scene = Scene::begin(answers, true).await;
    scene.until(|scene| scene.name("u1").is_some()).await;
    assert!(scene.asked(2).await.iter().all(|asked| asked == "/pods"));
    assert_eq!((scene.stats.now().failures, scene.stats.now().lists), (1, 1));
}

/// Scenario: a kubelet with a trusted certificate, one with an untrusted certificate, and the latter without
/// verification; a token in a file.
/// Guarantee: the token is sent to a kubelet that is trusted or need not be, and to no other.
#[tokio::test]
async fn tokens_are_sent_to_trusted_kubelets_only() {
    use rcgen::{CertificateParams, KeyPair};
    use rustls::pki_types::PrivatePkcs8KeyDer;

    let signed = || {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(vec!["127.0.0.1".to_owned()])
            .unwrap()
            .self_signed(&key)
            .unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(
                vec![certificate.der().clone()],
                PrivatePkcs8KeyDer::from(key.serialize_der()).into(),
            );
        (certificate.pem(), TlsAcceptor::from(Arc::new(config.unwrap())))
    };
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("token"), "secret-token").unwrap();
    let (known, server) = signed();
    let (_, stranger) = signed();
    std::fs::write(path("ca.pem"), known).unwrap();
    for (server, verify, answers) in [
        (server, true, true),
        (stranger.clone(), true, false),
        (stranger, false, true),
    ] {
        let settings = |address: SocketAddr| Settings {
            kubelet_url: format!("https://{address}"),
            kubelet_certificate: Some(path("ca.pem")),
            kubelet_verify: verify,
            ..Settings::default()
        };
        let client = |address| {
            let account = ServiceAccount {
                token: path("token"),
                certificates: path("none"),
            };
            kubelet_client(&settings(address), Some(account)).unwrap()
        };
        let scene = Scene::with(vec![list(&[pod("u1", "one", 3)], "", None)], true, Some(server), client).await;
        if answers {
            scene.until(|scene| scene.name("u1").is_some()).await;
            let token = scene.script.token.lock().unwrap().clone();
            assert_eq!(token.as_deref(), Some("Bearer secret-token"));
        } else {
            while scene.stats.now().failures == 0 {
                tokio::task::yield_now().await;
            }
            assert!(
                scene.script.asked.lock().unwrap().is_empty(),
                "no request is sent to a stranger"
            );
        }
    }
}

mod paused;
