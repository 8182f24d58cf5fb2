//! Runs `gcwatch replay` as a program, with a proxy, with alert receivers, without receivers, and with an invalid file.

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::process::{Command, Stdio};

use test_support::program::{self, records_of, stderr};
use test_support::recordings;

const NO_RECEIVERS: [&str; 3] = ["--no-traces", "--no-metrics", "--no-logs"];

fn replay(arguments: &[&str]) -> Command {
    let mut command = program::command();
    command
        .arg("replay")
        .args(arguments)
        .arg(recordings::path("net31-steady"))
        .env_remove("GCWATCH_CONFIG")
        .stderr(Stdio::piped());
    command
}

/// Scenario: `http_proxy` names a proxy, and only the proxy can resolve the receiver's host name.
/// Guarantee: OTLP over HTTP goes to the proxy, with the full URL of the receiver.
#[test]
fn http_uses_proxy_of_environment() {
    let proxy = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", proxy.local_addr().unwrap());
    let arguments = [
        "--protocol",
        "http/protobuf",
        "--endpoint",
        "http://collector.invalid:4318",
        "--no-metrics",
        "--no-logs",
    ];
    let mut child = replay(&arguments)
        .env("http_proxy", &address)
        .env_remove("no_proxy")
        .env_remove("NO_PROXY")
        .spawn()
        .unwrap();
    let (stream, _) = proxy.accept().unwrap();
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).unwrap();
    // Without an answer from the proxy, the program would retry for 60 s.
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(line, "POST http://collector.invalid:4318/v1/traces HTTP/1.1\r\n");
}

/// Scenario: all OTLP signals are disabled, and no listener is configured.
/// Guarantee: the command exits with code 1 and states the reason.
#[test]
fn replay_without_destination_is_refused() {
    let output = replay(&NO_RECEIVERS).output().unwrap();
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("nowhere to replay to"), "{said}");
}

/// Scenario: a rule fires on a recording; the configuration names an Alertmanager, a webhook and standard output.
/// Guarantee: each change of the incident is one line of JSON with the field names of the contract and the times of the
/// recording. The incident ends with the process. gcwatch connects to neither the Alertmanager nor the webhook.
#[test]
fn alerts_of_recording_are_printed_but_not_sent() {
    let folder = tempfile::TempDir::new().unwrap();
    let rules = folder.path().join("rules.yaml");
    let text = "apiVersion: gcwatch/v1\nrules:\n  - id: test.induced\n    title: Full collection\n    on: gc\n    \
                when: gc.generation == 2\n    severity: warning\n    keep_firing_for: 1h\n    labels: { area: test }\n    \
                summary: Collection {{ gc.number }}\n    description: A full collection ran.\n    \
                remedy: Do nothing.\n    source: a test\n";
    std::fs::write(&rules, text).unwrap();
    let pager = TcpListener::bind("127.0.0.1:0").unwrap();
    pager.set_nonblocking(true).unwrap();
    let url = format!("http://{}", pager.local_addr().unwrap());
    let config = folder.path().join("gcwatch.yaml");
    let text = format!(
        "rules: {{shipped: false, files: [{}]}}\nalerts:\n  stdout: true\n  alertmanagers: [{{url: '{url}'}}]\n  webhooks: [{{url: '{url}'}}]\n",
        rules.display()
    );
    std::fs::write(&config, text).unwrap();
    let arguments = [&NO_RECEIVERS[..], &["--config", config.to_str().unwrap()]].concat();
    let output = replay(&arguments).stdout(Stdio::piped()).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let records = records_of(&output);
    let [fired, ended] = records.as_slice() else {
        panic!("{records:?}")
    };
    for record in &records {
        assert_eq!(
            (&record["kind"], &record["rule"]),
            (&"incident".into(), &"test.induced".into())
        );
        assert_eq!(
            (&record["severity"], &record["labels"]["area"]),
            (&"warning".into(), &"test".into())
        );
        assert_eq!((&record["since"], &record["id"]), (&fired["since"], &fired["id"]));
    }
    assert_eq!(
        (&fired["state"], &fired["ending"]),
        (&"firing".into(), &serde_json::Value::Null)
    );
    assert_eq!(
        (&ended["state"], &ended["ending"]),
        (&"ended".into(), &"process-ended".into())
    );
    assert_eq!(fired["summary"], format!("Collection {}", fired["gc_number"]));
    assert!(
        fired["since"].as_str().unwrap() < ended["until"].as_str().unwrap()
            && fired["since"].as_str().unwrap().starts_with("202")
    );
    assert!(pager.accept().is_err(), "no receiver gets a connection");
}

/// Scenario: one of two files is not a recording.
/// Guarantee: the valid recording is replayed, the error names the invalid file, and the exit code is 1.
#[test]
fn invalid_file_does_not_stop_others() {
    let bad = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    let arguments = [&NO_RECEIVERS[..], &["--listen", "127.0.0.1:0", bad]].concat();
    let output = replay(&arguments).output().unwrap();
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("Cargo.toml"), "{said}");
    assert!(said.contains("replayed 14 collections"), "{said}");
}
