//! One reason appears in the daemon's log, its API, its metrics, `ps` and `doctor`.

use serde_json::Value;

use test_support::add_tests;
use test_support::daemon::{ANY, Daemon, command};
use test_support::harness::Tests;

use crate::container::{Recipe, containers_with_assemblies};
use crate::gcwatch::{doctor, through};

pub(crate) fn tests(tests: &mut Tests) {
    add_tests!(tests, containers_with_assemblies; reason_is_identical_everywhere);
}

/// Scenario: the daemon runs with a readable process in a container, and with a process whose directory is read-only;
/// one filter matches no process, another excludes a process.
/// Guarantee: `doctor` reports that the first process is attached, and names the daemon. The second process has one
/// reason in the log, the API, the metric, `ps` and `doctor`. The filter without a match is reported; an excluded
/// process is not an error.
fn reason_is_identical_everywhere() {
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
    let mut daemon = Daemon::start(command(through(&[]), folder.path(), ANY, &text));
    let (config, leases) = (config.to_str().unwrap(), folder.path().join("leases"));
    let leases = leases.to_str().unwrap();
    let reason = "unwritable-directory";
    // Skip an earlier line that reports the process as starting.
    let is_said = |line: &String| [reason, &bad.pid.to_string()].iter().all(|word| line.contains(word));
    while !is_said(&daemon.await_line("cannot attach")) {}

    let target = |pid: u32| daemon.target(pid).unwrap();
    assert_eq!(
        (target(bad.pid)["state"].as_str(), target(bad.pid)["reason"].as_str()),
        (Some("unattachable"), Some(reason))
    );
    assert_eq!(target(well.pid)["state"], "attached");
    assert_eq!(target(out.pid)["state"], "excluded");
    let metrics = daemon.get("/metrics").1;
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
            .contains(&format!("process {}", daemon.pid())),
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
