//! A web service under load, through the daemon: rules judge it live, and the API says what they found.
//!
//! The service is a pack (`svc10.0.14`) that not every machine has; the whole matrix (`GCWATCH_MATRIX=full`) judges a
//! sick one, too, which takes two minutes.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use test_support::add_tests;
use test_support::daemon::{ANY, Daemon, command, marked};
use test_support::harness::Tests;
use test_support::runtimes::{SERVICE, need};
use test_support::target::{PATIENCE, await_listening, service_port};

pub(crate) fn tests(tests: &mut Tests) {
    add_tests!(tests, need(&[SERVICE]); a_service_under_load_is_healthy);
    if crate::is_full() {
        add_tests!(tests, need(&[SERVICE]); a_service_of_large_objects_is_not);
    }
}

/// A process that ends with its test.
pub(crate) struct Running(pub(crate) Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _gone = self.0.kill();
        let _reaped = self.0.wait();
    }
}

/// Clients of a service. Each asks for its paths in turn, one request after the other, until they are stopped.
pub(crate) struct Clients {
    end: Arc<AtomicBool>,
    threads: Vec<JoinHandle<u64>>,
}

impl Clients {
    /// One client for each list of paths, which waits so long after each answer: what they ask for has to come, and the
    /// CPU is for other tests, too.
    pub(crate) fn start(address: &str, each: impl IntoIterator<Item = Vec<&'static str>>, pause: Duration) -> Self {
        let end = Arc::new(AtomicBool::new(false));
        let client = |paths: Vec<&'static str>| {
            let (end, address) = (Arc::clone(&end), address.to_owned());
            std::thread::spawn(move || {
                let mut answered = 0;
                for path in paths.iter().cycle() {
                    if end.load(Ordering::Relaxed) {
                        break;
                    }
                    let (head, body) = ask(&address, path, None);
                    assert!(head.starts_with("HTTP/1.1 200") && !body.is_empty(), "{path}: {head}");
                    answered += 1;
                    std::thread::sleep(pause);
                }
                answered
            })
        };
        let threads = each.into_iter().map(client).collect();
        Self { end, threads }
    }

    /// How many requests were answered.
    pub(crate) fn stop(self) -> u64 {
        self.end.store(true, Ordering::Relaxed);
        self.threads.into_iter().map(|client| client.join().unwrap()).sum()
    }
}

/// These paths, begun at another one.
pub(crate) fn from(paths: &[&'static str], first: usize) -> Vec<&'static str> {
    let (before, after) = paths.split_at(first);
    [after, before].concat()
}

/// The service, two clients that ask it, and a daemon that reads it alone.
struct Scene {
    _service: Running,
    daemon: Daemon,
    clients: Clients,
    _folder: TempDir,
}

impl Scene {
    fn new(server: bool, paths: &'static [&'static str]) -> Self {
        let folder = tempfile::Builder::new().prefix("gcw").tempdir().unwrap();
        let port = service_port();
        let mark = folder.path().file_name().unwrap().to_str().unwrap().to_owned();
        let mut service = Command::new(SERVICE.folder().join("svc"))
            .env("TMPDIR", folder.path())
            .env("DOTNET_SYSTEM_GLOBALIZATION_INVARIANT", "1")
            .env("DOTNET_gcServer", if server { "1" } else { "0" })
            .env("GCWATCH_TEST_MARK", &mark)
            .env("SPORT", port.to_string())
            .env("SSECS", "300")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(service.stdout.take().unwrap()).lines();
        let mut service = Running(service);
        assert!(
            said.any(|line| line.unwrap().starts_with("ready")),
            "the service begins"
        );
        std::thread::spawn(move || said.for_each(drop));
        await_listening(&mut service.0, port);

        let gcwatch = Command::new(env!("CARGO_BIN_EXE_gcwatch"));
        let daemon = Daemon::start(command(gcwatch, folder.path(), ANY, &marked(&mark)));

        let clients = [0, paths.len() / 2].map(|first| from(paths, first));
        let clients = Clients::start(&format!("127.0.0.1:{port}"), clients, Duration::from_millis(2));
        Self {
            _service: service,
            daemon,
            clients,
            _folder: folder,
        }
    }

    /// Rules from a warning on that fire now.
    fn fires(&self) -> BTreeSet<String> {
        let alerts = self.daemon.json("/api/v1/alerts");
        let alerts = alerts["alerts"].as_array().unwrap().iter();
        let bad = alerts.filter(|alert| alert["severity"] != "info");
        bad.map(|alert| alert["rule"].as_str().unwrap().to_owned()).collect()
    }

    /// Collections so far, all of them complete.
    fn collections(&self) -> u64 {
        let targets = self.daemon.json("/api/v1/targets");
        targets["targets"][0]["collections"].as_u64().unwrap_or(0)
    }

    /// Looks until it is so.
    fn until(&self, bound: Duration, what: &str, holds: impl Fn(&Self) -> bool) {
        let since = Instant::now();
        while !holds(self) {
            assert!(since.elapsed() < bound, "{what}: {:?}", self.fires());
            std::thread::sleep(Duration::from_millis(200));
        }
    }
}

/// What is answered to a request, without its head.
pub(crate) fn get(address: &str, path: &str) -> String {
    ask(address, path, None).1
}

/// The head and the body of an answer, to a request with a header or without.
pub(crate) fn ask(address: &str, path: &str, header: Option<(&str, &str)>) -> (String, String) {
    let header = header
        .map(|(name, value)| format!("{name}: {value}\r\n"))
        .unwrap_or_default();
    // The service says that it is ready before it listens.
    let since = Instant::now();
    let mut stream = loop {
        match TcpStream::connect(address) {
            Ok(stream) => break stream,
            Err(error) => assert!(since.elapsed() < PATIENCE, "{address}: {error}"),
        }
        std::thread::yield_now();
    };
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: {address}\r\n{header}Connection: close\r\n\r\n"
    )
    .unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

/// Requests of an ordinary service: small answers, a cache, some garbage, some waiting.
const ORDINARY: &[&str] = &[
    "/json",
    "/cache",
    "/cache",
    "/json",
    "/cache",
    "/alloc?kb=1000",
    "/cache",
    "/json",
    "/cache",
    "/slow?ms=20",
    "/cache",
];

/// Scenario: an ASP.NET Core service under load, workstation and server GC, until twenty of its collections were read.
/// Guarantee: no rule from a warning on fires.
fn a_service_under_load_is_healthy() {
    for server in [false, true] {
        let scene = Scene::new(server, ORDINARY);
        scene.until(PATIENCE, "collections", |scene| scene.collections() >= 20);
        assert_eq!(scene.fires(), BTreeSet::new(), "server GC: {server}");
        let asked = scene.clients.stop();
        assert!(asked > 100, "{asked}");
    }
}

/// Scenario: the same service answers with large arrays, for more than a minute.
/// Guarantee: the rules report that large objects make it collect.
fn a_service_of_large_objects_is_not() {
    let scene = Scene::new(true, &["/loh?mb=4", "/json"]);
    let wanted = ["churn.large-objects"];
    scene.until(Duration::from_secs(180), "alerts", |scene| {
        let fires = scene.fires();
        wanted.iter().any(|rule| fires.contains(*rule))
    });
    scene.clients.stop();
}
