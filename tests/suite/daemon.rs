//! The daemon as a program: startup, notifications to the service supervisor, and shutdown.
//!
//! These daemons attach to no process: they select only processes with the mark of the test, and no process has this
//! mark. Tests with real targets are in tests/live.

use std::net::TcpListener;
use std::os::unix::net::UnixDatagram;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use test_support::daemon::{self, ANY, Daemon, marked};
use test_support::program::{self, gcwatch, stderr, written};
use test_support::scene::Scene;

/// Timeout for all expected events.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Scenario: the daemon receives SIGTERM, the signal with which systemd and Kubernetes stop it.
/// Guarantee: the daemon shuts down gracefully, logs that nothing was lost, and exits with code 0.
#[test]
fn sigterm_shuts_down_gracefully() {
    let said = Scene::begin().daemon("").end();
    assert!(said.contains("nothing lost"), "{said}");
}

/// Returns a listener whose connections are neither read nor answered, and its address.
fn mute() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    (listener, address)
}

/// Scenario: the daemon sends its own log records and spans over gRPC and over HTTP, to a receiver that accepts
/// connections and never answers, or to a receiver that is down. After the daemon has connected, or has logged that it
/// cannot connect, it receives SIGTERM.
/// Guarantee: the daemon shuts down gracefully within 10 s and reports lost items.
#[test]
fn own_telemetry_does_not_delay_shutdown() {
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
                // The daemon has connected to the receiver.
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

/// Scenario: a service supervisor listens on NOTIFY_SOCKET and requests watchdog notifications.
/// Guarantee: the supervisor receives READY=1, then WATCHDOG=1 repeatedly, and finally STOPPING=1.
#[test]
fn service_supervisor_is_notified() {
    let scene = Scene::begin();
    let path = scene.path("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(TIMEOUT)).unwrap();
    let mut command = scene.command("");
    command.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "200000");
    let mut daemon = Daemon::start(command);
    let mut next = || {
        let mut buffer = [0; 256];
        let n = socket
            .recv(&mut buffer)
            .expect("the supervisor receives a notification");
        String::from_utf8_lossy(&buffer[..n]).trim().to_owned()
    };
    // The first scan takes a while. During the scan, the watchdog notifications show that the daemon is alive.
    let first = std::iter::repeat_with(&mut next).find(|reported| reported != "WATCHDOG=1");
    assert_eq!(first.as_deref(), Some("READY=1"));
    assert_eq!(next(), "WATCHDOG=1");
    assert_eq!(next(), "WATCHDOG=1");
    daemon.signal(Signal::TERM);
    let reported = std::iter::repeat_with(&mut next).find(|reported| reported != "WATCHDOG=1");
    assert_eq!(reported.as_deref(), Some("STOPPING=1"));
    assert!(daemon.await_end().success());
}

/// Scenario: another program listens on the configured port.
/// Guarantee: the daemon exits with code 1, and its error names the address and `--listen none`.
#[test]
fn occupied_port_is_reported() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let output = Scene::begin().command_at(&address, "").output().unwrap();
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains(&address) && said.contains("--listen none"), "{said}");
}

/// Scenario: the configuration has three mistakes.
/// Guarantee: the daemon exits with code 1 and reports each mistake with its position. For the misspelt key, the error
/// suggests the nearest known key.
#[test]
fn invalid_configuration_is_reported_completely() {
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

/// Scenario: the daemon receives SIGHUP after its file became invalid; then the file is corrected.
/// Guarantee: the daemon logs that the old configuration stays in force. The corrected file is loaded without another
/// signal.
#[test]
fn invalid_reload_keeps_old_configuration() {
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

/// Returns a rule file with one rule. If `condition` is invalid, the mistake is in line 6.
fn rule(id: &str, condition: &str) -> String {
    format!(
        "apiVersion: gcwatch/v1\nrules:\n  - id: {id}\n    title: A rule\n    on: gc\n    when: {condition}\n    severity: info\n    summary: It is\n    \
         description: It is so.\n    remedy: None.\n    source: a test\n"
    )
}

/// Scenario: a folder of rule files is mounted like a Kubernetes ConfigMap: its links lead into `..data`, which is
/// itself a link. The link is switched to an invalid file, then to a valid file with an additional file. Finally, the
/// daemon receives SIGHUP without any change.
/// Guarantee: the daemon notices each switch without a signal. For the invalid file, the daemon logs the line of the
/// mistake, the old rule stays in force, and the API shows the error and the old rule. The rules of the valid files
/// come into force, including the additional file. The signal does not reload the unchanged rules.
#[test]
fn swapped_rule_folder_is_reloaded_only_if_valid() {
    use std::os::unix::fs::symlink;
    let scene = Scene::begin();
    let rules = scene.folder().join("rules");
    let version = |name: &str, files: &[(&str, String)]| {
        let data = rules.join(name);
        std::fs::create_dir_all(&data).unwrap();
        for (file, text) in files {
            std::fs::write(data.join(file), text).unwrap();
        }
        // The kubelet also creates the new link next to the old link and renames it over the old link.
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

/// Scenario: the rule file is invalid when the daemon starts, and is corrected while the daemon runs.
/// Guarantee: the daemon reports the position of the mistake. The shipped rules are in force until the file is
/// corrected; afterwards, the rules of the file are in force as well.
#[test]
fn shipped_rules_apply_until_invalid_file_is_corrected() {
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

/// Scenario: a rule file has a rule with a removed word and another rule when the daemon starts. Then the word is
/// replaced.
/// Guarantee: the daemon logs the error with its position, and the other rule is in force together with the shipped
/// rules. The API and the metric report that a rule is left out, until the file is corrected.
#[test]
fn rule_with_removed_word_is_left_out_at_start() {
    let scene = Scene::begin();
    let file = scene.path("rules.yaml");
    let of_word = |word: &str| {
        let other = rule(
            "test.old",
            &format!("gc.generation == 2\n    let: {{x: {{fn: {word}, of: gc.pause_ms, over: 5m}}}}"),
        );
        rule("test.a", "gc.pause_ms > 5.0") + other.split_once("rules:\n").unwrap().1
    };
    std::fs::write(&file, of_word("mad")).unwrap();
    let mut daemon = scene.daemon(&format!("rules: {{files: [{file}]}}\n"));
    daemon.await_line("rules.yaml:16:19: test.old: let.x.fn: `mad` was removed");
    daemon.await_line("left out the rules and overrides with these errors");
    let current = |daemon: &Daemon| daemon.metric("gcwatch_rules_current") == Some(1.0);
    let answer = daemon.json("/api/v1/rules");
    assert_eq!(
        (&answer["health"], &answer["errors"]),
        (&"err".into(), &serde_json::json!([]))
    );
    assert_eq!(answer["left_out"].as_array().unwrap().len(), 1, "{answer}");
    let ids = |answer: &serde_json::Value| -> Vec<String> {
        let rules = answer["rules"].as_array().unwrap().iter();
        rules.map(|rule| rule["id"].as_str().unwrap().to_owned()).collect()
    };
    let before = ids(&answer);
    assert!(
        before.len() > 50 && before.iter().any(|id| id == "test.a"),
        "{before:?}"
    );
    assert!(
        !before.iter().any(|id| id == "test.old") && !current(&daemon),
        "{before:?}"
    );

    std::fs::write(&file, of_word("median")).unwrap();
    daemon.await_line("rules are in force");
    let answer = daemon.json("/api/v1/rules");
    assert_eq!(
        (&answer["health"], &answer["left_out"]),
        (&"ok".into(), &serde_json::json!([]))
    );
    assert!(ids(&answer).iter().any(|id| id == "test.old") && current(&daemon));
    daemon.end();
}

/// Scenario: the demonstration plays one round and has no receiver.
/// Guarantee: the table contains each of its processes, every collection of the recordings is played, and the exit code
/// is 0.
#[test]
fn demonstration_plays_all_recordings() {
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
    // 93, 290, 114, 497, 154 and 97 collections, according to the tables in tests/recordings.
    assert!(said.contains("played 1245 collections"), "{said}");
    assert!(!said.contains("OTLP"), "{said}");
}
