//! The daemon as a program: how it begins, what it reports to its supervisor, how it ends.
//!
//! These daemons attach to nothing: their configuration leaves every process out. Real targets are in tests/live.

use std::net::TcpListener;
use std::os::unix::net::UnixDatagram;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use test_support::daemon::{self, ANY, Daemon, marked};
use test_support::program::{self, gcwatch, stderr, written};
use test_support::scene::Scene;

/// Bound on everything that is awaited.
const PATIENCE: Duration = Duration::from_secs(30);

/// Scenario: SIGTERM, as systemd and Kubernetes send it.
/// Guarantee: it ends in order, says so, and its exit code is 0.
#[test]
fn sigterm_ends_it_in_order() {
    let said = Scene::begin().daemon("").end();
    assert!(said.contains("nothing lost"), "{said}");
}

/// A receiver that never answers: it takes connections, and what comes on them is never read.
fn mute() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    (listener, address)
}

/// Scenario: log records and spans of the daemon's own go to a receiver that takes connections and never answers, or to
/// one that is down, over gRPC and over HTTP; the daemon has logged already; SIGTERM.
/// Guarantee: it ends in order within ten seconds, and says that something was lost.
#[test]
fn own_telemetry_never_delays_the_end() {
    for protocol in ["grpc", "http/protobuf"] {
        let (listener, address) = mute();
        for listener in [Some(listener), None] {
            let down = listener.is_none();
            let mut open = Vec::new();
            let scene = Scene::begin();
            let path = if protocol == "grpc" { "" } else { "/v1" };
            let config = format!(
                "otlp: {{endpoint: 'http://{address}{path}', protocol: {protocol}}}\n\
                 self_telemetry: {{traces: true, metrics: false, log_level: info}}\n"
            );
            let mut daemon = scene.daemon(&config);
            if down {
                daemon.await_line("cannot reach the OTLP endpoint");
            } else {
                // The first request is on its way.
                open.push(listener.as_ref().unwrap().accept().unwrap());
            }
            let begun = Instant::now();
            let said = daemon.end();
            let took = begun.elapsed();
            assert!(said.contains("stopped; lost"), "{protocol}, down: {down}: {said}");
            assert!(took < Duration::from_secs(10), "{protocol}, down: {down}: {took:?}");
        }
    }
}

/// Scenario: a service supervisor listens on NOTIFY_SOCKET and asks for a watchdog.
/// Guarantee: it receives READY=1, then WATCHDOG=1 within the limit again and again, and STOPPING=1 at the end.
#[test]
fn the_service_supervisor_is_notified() {
    let scene = Scene::begin();
    let path = scene.path("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut command = scene.command("");
    command.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "200000");
    let mut daemon = Daemon::start(command);
    let mut next = || {
        let mut buffer = [0; 256];
        let n = socket.recv(&mut buffer).expect("the supervisor receives something");
        String::from_utf8_lossy(&buffer[..n]).trim().to_owned()
    };
    // The first look takes its time: the supervisor is to know meanwhile that the daemon lives.
    let first = std::iter::repeat_with(&mut next).find(|reported| reported != "WATCHDOG=1");
    assert_eq!(first.as_deref(), Some("READY=1"));
    assert_eq!(next(), "WATCHDOG=1");
    assert_eq!(next(), "WATCHDOG=1");
    daemon.signal(Signal::TERM);
    let reported = std::iter::repeat_with(&mut next).find(|reported| reported != "WATCHDOG=1");
    assert_eq!(reported.as_deref(), Some("STOPPING=1"));
    assert!(daemon.await_end().success());
}

/// Scenario: the port is taken by something else.
/// Guarantee: exit code 1, and the sentence names the address and the way out.
#[test]
fn a_taken_port_ends_it() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let output = Scene::begin().command_at(&address, "").output().unwrap();
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains(&address) && said.contains("--listen none"), "{said}");
}

/// Scenario: a configuration with three mistakes.
/// Guarantee: the daemon does not begin, exit code 1, and each mistake is said with its place.
#[test]
fn a_wrong_configuration_is_said_whole() {
    let scene = Scene::begin();
    let wrong = "targts: {}\nmetrics:\n  interval: soon\nspans:\n  ratio: 7\n";
    let mut command = daemon::command(program::command(), scene.folder(), ANY, wrong);
    let output = command.output().unwrap();
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    for place in ["gcwatch.yaml:1:1:", "gcwatch.yaml:3:13:", "gcwatch.yaml:5:10:"] {
        assert!(said.contains(place), "{place}:\n{said}");
    }
    assert!(said.contains("targets"), "the nearest known key: {said}");
}

/// Scenario: SIGHUP with a wrong file, then the file is put right.
/// Guarantee: the old configuration stays in force and that is said; then the change itself is enough for the new one.
#[test]
fn a_wrong_reload_keeps_the_old_configuration() {
    let scene = Scene::begin();
    let file = scene.path("gcwatch.yaml");
    let mut daemon = scene.daemon("");
    std::fs::write(&file, "spans: {ratio: many}\n").unwrap();
    daemon.signal(Signal::HUP);
    daemon.await_line("gcwatch.yaml:1:");
    daemon.await_line("previous one stays in force");
    std::fs::write(&file, marked(scene.mark()) + "spans:\n  ratio: 0.5\n").unwrap();
    daemon.await_line("new configuration is in force");
    daemon.end();
}

/// A rule file with one rule, or with a mistake in its fifth line.
fn rule(id: &str, condition: &str) -> String {
    format!(
        "apiVersion: gcwatch/v1\nrules:\n  - id: {id}\n    title: A rule\n    on: gc\n    when: {condition}\n    severity: info\n    summary: It is\n    \
         description: It is so.\n    remedy: None.\n    source: a test\n"
    )
}

/// Scenario: a folder of rule files as Kubernetes mounts a ConfigMap: links into `..data`, which is a link that is
/// swapped; first to a wrong file, then to a right one with another file beside it. Then SIGHUP without a change.
/// Guarantee: without any signal the swap is noticed. The wrong file is said with line and column, the old rule stays
/// in force, and the API says both; the right ones come into force, the new file too. What is the same is no reload.
#[test]
fn rules_are_reloaded_by_swaps_and_wrong_ones_change_nothing() {
    use std::os::unix::fs::symlink;
    let scene = Scene::begin();
    let rules = scene.folder().join("rules");
    let version = |name: &str, files: &[(&str, String)]| {
        let data = rules.join(name);
        std::fs::create_dir_all(&data).unwrap();
        for (file, text) in files {
            std::fs::write(data.join(file), text).unwrap();
        }
        // The new link is made beside the old one and renamed over it, as the kubelet does.
        symlink(name, rules.join("..data_tmp")).unwrap();
        std::fs::rename(rules.join("..data_tmp"), rules.join("..data")).unwrap();
    };
    version("..1", &[("a.yaml", rule("test.a", "gc.generation == 2"))]);
    symlink("..data/a.yaml", rules.join("a.yaml")).unwrap();
    let mut daemon = scene.daemon(&format!("rules: {{shipped: false, files: [{}]}}\n", rules.display()));
    let ids = |daemon: &Daemon| -> Vec<String> {
        let rules = daemon.list("/api/v1/rules", "rules");
        rules
            .iter()
            .map(|rule| rule["id"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(ids(&daemon), ["test.a"]);

    version("..2", &[("a.yaml", rule("test.b", "gc.generatoin == 2"))]);
    let said = daemon.await_line("a.yaml:6:");
    assert!(said.contains("gc.generation"), "the nearest known name: {said}");
    daemon.await_line("previous rules stay in force");
    let answer = daemon.json("/api/v1/rules");
    assert_eq!(
        (&answer["health"], answer["errors"].as_array().unwrap().len()),
        (&"err".into(), 1)
    );
    assert_eq!(ids(&daemon), ["test.a"]);

    version(
        "..3",
        &[
            ("a.yaml", rule("test.b", "gc.generation == 1")),
            ("b.yml", rule("test.c", "gc.generation == 0")),
        ],
    );
    symlink("..data/b.yml", rules.join("b.yml")).unwrap();
    daemon.await_line("2 rules are in force");
    assert_eq!(ids(&daemon), ["test.b", "test.c"]);
    let answer = daemon.json("/api/v1/rules");
    assert_eq!(
        (&answer["health"], &answer["errors"]),
        (&"ok".into(), &serde_json::json!([]))
    );

    daemon.signal(Signal::HUP);
    let said = daemon.end();
    assert!(said.matches("rules are in force").count() <= 3, "{said}");
}

/// Scenario: the rule file is wrong at the start, and is put right while the daemon runs.
/// Guarantee: the mistake is said with its place, the rules that ship are in force meanwhile, and the file's own as
/// soon as it is right.
#[test]
fn wrong_rules_at_the_start_leave_those_that_ship() {
    let scene = Scene::begin();
    let file = scene.path("rules.yaml");
    std::fs::write(&file, rule("test.a", "gc.pause_ms > 'long'")).unwrap();
    let mut daemon = scene.daemon(&format!("rules: {{files: [{file}]}}\n"));
    daemon.await_line("rules.yaml:6:");
    daemon.await_line("shipped rules are in force until the files are valid");
    let answer = daemon.json("/api/v1/rules");
    assert_eq!(answer["health"], "err");
    assert!(answer["rules"].as_array().unwrap().len() > 50, "{answer}");

    std::fs::write(&file, rule("test.a", "gc.pause_ms > 5.0")).unwrap();
    daemon.await_line("rules are in force");
    let answer = daemon.json("/api/v1/rules");
    assert_eq!(answer["health"], "ok");
    let rules = answer["rules"].as_array().unwrap();
    assert!(rules.iter().any(|rule| rule["id"] == "test.a"), "{answer}");
    daemon.end();
}

/// Scenario: the demonstration, one round of it, with nobody named to send to.
/// Guarantee: each of its processes is in the table, every collection of the recordings was reported, exit code 0.
#[test]
fn the_demonstration_plays_its_recordings() {
    let output = gcwatch(["demo", "--rounds", "1", "--listen", ANY]);
    let said = stderr(&output);
    let table = written(output);
    for service in [
        "demo-web",
        "demo-near-limit",
        "demo-server-gc",
        "demo-uploads",
        "demo-batch",
        "demo-leak",
    ] {
        assert!(
            table.lines().any(|line| line.starts_with(service)),
            "{service}:\n{table}"
        );
    }
    // 93, 290, 114, 497, 154 and 97, as their tables in tests/recordings say.
    assert!(said.contains("played 1245 collections"), "{said}");
    assert!(!said.contains("OTLP"), "{said}");
}
