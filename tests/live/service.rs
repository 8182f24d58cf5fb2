//! A web service under load that the daemon reads: rules evaluate it live, and the API reports the alerts.
//!
//! The service is a pack (`svc10.0.14`) that not every machine has. The full matrix (`GCWATCH_MATRIX=full`) also
//! evaluates a faulty service, which takes two minutes.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use test_support::add_tests;
use test_support::daemon::Daemon;
use test_support::harness::Tests;
use test_support::runtimes::{SERVICE, need};
use test_support::service::{Clients, Service, from};
use test_support::target::TIMEOUT;

pub(crate) fn tests(tests: &mut Tests) {
    add_tests!(tests, need(&[SERVICE]); service_under_load_is_healthy);
    if crate::is_full() {
        add_tests!(tests, need(&[SERVICE]); service_with_large_objects_is_not_healthy);
    }
}

/// The service, two clients that send requests, and a daemon that reads only this service.
struct Scene {
    daemon: Daemon,
    clients: Clients,
    _service: Service,
}

impl Scene {
    fn new(server: bool, paths: &'static [&'static str]) -> Self {
        let service = Service::start(300, &[("DOTNET_gcServer", if server { "1" } else { "0" })]);
        let daemon = service.scene.daemon("");
        let clients = [0, paths.len() / 2].map(|first| from(paths, first));
        Self {
            daemon,
            clients: Clients::start(&service, clients, Duration::from_millis(2)),
            _service: service,
        }
    }

    /// Returns the firing rules of severity warning or higher.
    fn fires(&self) -> BTreeSet<String> {
        let alerts = self.daemon.list("/api/v1/alerts", "alerts").into_iter();
        let bad = alerts.filter(|alert| alert["severity"] != "info");
        bad.map(|alert| alert["rule"].as_str().unwrap().to_owned()).collect()
    }

    /// Returns the number of collections that the daemon has read so far.
    fn collections(&self) -> u64 {
        let targets = self.daemon.json("/api/v1/targets");
        targets["targets"][0]["collections"].as_u64().unwrap_or(0)
    }

    /// Polls until `holds` returns true, for at most `bound`.
    fn until(&self, bound: Duration, what: &str, holds: impl Fn(&Self) -> bool) {
        let since = Instant::now();
        while !holds(self) {
            assert!(since.elapsed() < bound, "{what}: {:?}", self.fires());
            std::thread::sleep(Duration::from_millis(200));
        }
    }
}

/// Requests to an ordinary service: small answers, a cache, a little garbage, and a little waiting.
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

/// Scenario: an ASP.NET Core service runs under load with workstation and server GC until the daemon has read 20 of its
/// collections.
/// Guarantee: no rule of severity warning or higher fires.
fn service_under_load_is_healthy() {
    for server in [false, true] {
        let scene = Scene::new(server, ORDINARY);
        scene.until(TIMEOUT, "collections", |scene| scene.collections() >= 20);
        assert_eq!(scene.fires(), BTreeSet::new(), "server GC: {server}");
        let asked = scene.clients.stop();
        assert!(asked > 100, "{asked}");
    }
}

/// Scenario: the same service answers with large arrays for more than one minute.
/// Guarantee: the rule `churn.large-objects`, which reports that large objects cause the collections, fires within
/// three minutes.
fn service_with_large_objects_is_not_healthy() {
    let scene = Scene::new(true, &["/loh?mb=4", "/json"]);
    let wanted = ["churn.large-objects"];
    scene.until(Duration::from_secs(180), "alerts", |scene| {
        let fires = scene.fires();
        wanted.iter().any(|rule| fires.contains(*rule))
    });
    scene.clients.stop();
}
