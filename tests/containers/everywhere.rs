//! The same reason in the daemon's log, its API, its metrics, `ps` and `doctor`.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::Value;

use test_support::add_tests;
use test_support::harness::Tests;

use crate::container::{PATIENCE, Recipe, containers_with_assemblies};
use crate::gcwatch::{doctor, through};

pub(crate) fn tests(tests: &mut Tests) {
    add_tests!(tests, containers_with_assemblies; one_reason_everywhere);
}

/// A daemon that reads what its configuration means; its lines.
struct Daemon {
    child: Child,
    lines: Receiver<String>,
}

impl Daemon {
    fn start(config: &str, folder: &str) -> Self {
        let mut child = through(&[])
            .args([
                "run",
                "--listen",
                "127.0.0.1:0",
                "--no-traces",
                "--no-metrics",
                "--no-logs",
            ])
            .args(["--config", config, "--lease-folder", folder])
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Self { child, lines }
    }

    fn await_line(&self, words: &[&str]) -> String {
        let until = Instant::now() + PATIENCE;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let line = self
                .lines
                .recv_timeout(left)
                .unwrap_or_else(|error| panic!("{words:?}: {error}"));
            if words.iter().all(|word| line.contains(word)) {
                return line;
            }
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}

fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.split_once("\r\n\r\n").unwrap().1.to_owned()
}

/// Scenario: the daemon runs with a process in a container that it can read, and one whose directory is read-only; a
/// filter fits nothing, another leaves a process out.
/// Guarantee: `doctor` says that the first is attached, and by whom; the second has one reason in the log, the API, the
/// metric, `ps` and `doctor`; the filter that fits nothing is reported, what is excluded is no mistake.
fn one_reason_everywhere() {
    let folder = tempfile::Builder::new().prefix("gcwatch-everywhere").tempdir().unwrap();
    let mark = format!("k{}", std::process::id());
    let named = |name: &str| Recipe {
        assembly: format!("{mark}{name}.dll"),
        ..Recipe::default()
    };
    let well = named("well").start();
    let out = named("out").start();
    let bad = Recipe {
        prepare: "mount -o remount,ro /tmp".to_owned(),
        ..named("bad")
    };
    let bad = bad.start();
    let config = folder.path().join("gcwatch.yaml");
    let text = format!(
        "targets:\n  include: [{{name: '{mark}*'}}, {{name: nothing-has-this-name}}]\n  exclude: [{{name: {mark}out}}]\n  scan_interval: 1s\n"
    );
    std::fs::write(&config, text).unwrap();
    let (config, leases) = (config.to_str().unwrap(), folder.path().join("leases"));
    let leases = leases.to_str().unwrap();
    let daemon = Daemon::start(config, leases);
    let listening = daemon.await_line(&["listening at http://"]);
    let address = listening
        .split("http://")
        .nth(1)
        .unwrap()
        .split('/')
        .next()
        .unwrap()
        .to_owned();
    let reason = "unwritable-directory";
    // It may be called one that is starting before.
    daemon.await_line(&["cannot attach", reason, &bad.pid.to_string()]);

    let targets: Value = serde_json::from_str(&get(&address, "/api/v1/targets")).unwrap();
    let target = |pid: u32| {
        targets["targets"]
            .as_array()
            .unwrap()
            .iter()
            .find(|target| target["pid"] == pid)
            .cloned()
            .unwrap()
    };
    assert_eq!(
        (target(bad.pid)["state"].as_str(), target(bad.pid)["reason"].as_str()),
        (Some("unattachable"), Some(reason))
    );
    assert_eq!(target(well.pid)["state"], "attached");
    assert_eq!(target(out.pid)["state"], "excluded");
    let metrics = get(&address, "/metrics");
    let is_counted = |reason: &str| {
        let label = format!("gcwatch_target_reason=\"{reason}\"");
        metrics.lines().any(|line| {
            line.starts_with("gcwatch_targets_not_attached{") && line.contains(&label) && !line.ends_with(" 0")
        })
    };
    assert!(is_counted(reason) && is_counted("excluded"), "{metrics}");
    let listed = through(&[]).args(["ps", "--format", "ndjson"]).output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    let listed = listed
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .find(|record| record["pid"] == bad.pid);
    assert_eq!(listed.unwrap()["reason"], reason);

    let (records, output) = doctor(&[], &["--config", config, "--lease-folder", leases]);
    let verdict = |pid: u32| {
        records
            .iter()
            .find(|record| record["kind"] == "diagnosis" && record["pid"] == pid)
            .cloned()
            .unwrap()
    };
    assert_eq!(verdict(bad.pid)["verdict"], reason);
    assert_eq!(
        (&verdict(out.pid)["verdict"], &verdict(out.pid)["ok"]),
        (&Value::from("excluded"), &Value::Bool(true))
    );
    let attached = verdict(well.pid);
    assert_eq!(attached["verdict"], "attached");
    assert!(
        attached["detail"]
            .as_str()
            .unwrap()
            .contains(&format!("process {}", daemon.child.id())),
        "{attached}"
    );
    assert!(
        records
            .iter()
            .any(|record| record["verdict"] == "not-found" && record["name"] == "targets.include[1]"),
        "{records:?}"
    );
    assert_eq!(output.status.code(), Some(1));
}
