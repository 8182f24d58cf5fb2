//! Containers of every kind.

use std::process::Stdio;

use serde_json::Value;

use crate::container::{Recipe, is_possible};
use crate::gcwatch::{LEAST, doctor, texts, through, verdict};

/// Scenario: processes in a user namespace of their own; with a TMPDIR so long that the path from outside is no socket's address; behind
/// a symbolic link with an absolute path; in a network namespace only; and on the host's namespaces as another user.
/// Guarantee: with the two capabilities alone each can be attached to.
#[test]
fn every_kind_is_reached() {
    let long = format!("/tmp/{}", "d".repeat(65));
    let kinds = [
        ("namespaces", Recipe::default()),
        (
            "a long path",
            Recipe {
                prepare: format!("mkdir -m 1777 {long}"),
                tmpdir: Some(long),
                ..Recipe::default()
            },
        ),
        (
            "an absolute link",
            Recipe {
                tmpdir: Some("/tmp/link".to_owned()),
                prepare: "mkdir -m 1777 /tmp/real; ln -s /tmp/real /tmp/link".to_owned(),
                ..Recipe::default()
            },
        ),
        (
            "a network namespace",
            Recipe {
                namespaces: &["--net"],
                ..Recipe::default()
            },
        ),
        (
            "a user namespace",
            Recipe {
                user_namespace: true,
                ..Recipe::default()
            },
        ),
    ];
    for (kind, recipe) in kinds {
        if !is_possible(recipe.user_namespace) {
            continue;
        }
        let container = recipe.start();
        let told = verdict(LEAST, container.pid);
        assert_eq!(told["verdict"], "attachable", "{kind}: {}", texts(&told));
        assert_eq!(told["uid"], recipe.uid, "{kind}: {told}");
        assert_eq!(
            told["runtime"].as_str().map(|version| version.starts_with("10.0")),
            Some(true),
            "{kind}: {told}"
        );
    }
}

/// Scenario: a recording of a process in a container, with the two capabilities alone.
/// Guarantee: its collections are told, under the pid that the host sees.
#[test]
fn collections_come_out_of_a_container() {
    if !is_possible(false) {
        return;
    }
    let container = Recipe::default().start();
    let mut record = through(LEAST);
    record.args([
        "record",
        "--pid",
        &container.pid.to_string(),
        "--duration",
        "2s",
        "-o",
        "-",
    ]);
    let recorded = record.stderr(Stdio::null()).output().unwrap();
    assert!(recorded.status.success());
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), &recorded.stdout).unwrap();
    let analyzed = through(&[])
        .args(["analyze", "--format", "ndjson"])
        .arg(file.path())
        .output()
        .unwrap();
    let text = String::from_utf8(analyzed.stdout).unwrap();
    let records: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(
        records
            .iter()
            .any(|record| record["kind"] == "gc" && record["complete"] == true),
        "{text}"
    );
}

/// Scenario: a container without a writable directory for the socket: read-only, missing; and one with diagnostics off.
/// Guarantee: each verdict says so, with the directory or the variable, and what to do.
#[test]
fn containers_without_a_socket_are_explained() {
    if !is_possible(false) {
        return;
    }
    let off = ("DOTNET_EnableDiagnostics_IPC".to_owned(), "0".to_owned());
    let cases = [
        (
            "diagnostics-off",
            "DOTNET_EnableDiagnostics_IPC=0",
            Recipe {
                env: vec![off],
                ..Recipe::default()
            },
        ),
        (
            "unwritable-directory",
            "read-only",
            Recipe {
                prepare: "mount -o remount,ro /tmp".to_owned(),
                ..Recipe::default()
            },
        ),
        (
            "unwritable-directory",
            "/tmp/none, is not there",
            Recipe {
                tmpdir: Some("/tmp/none".to_owned()),
                ..Recipe::default()
            },
        ),
    ];
    for (reason, words, recipe) in cases {
        let container = recipe.start();
        // What is younger may only be starting; that verdict is awaited, not assumed.
        let since = std::time::Instant::now();
        let mut told = verdict(LEAST, container.pid);
        while told["verdict"] == "starting" && since.elapsed() < crate::container::PATIENCE {
            std::thread::sleep(std::time::Duration::from_millis(500));
            told = verdict(LEAST, container.pid);
        }
        assert_eq!(told["verdict"], reason, "{}", texts(&told));
        assert!(told["detail"].as_str().unwrap().contains(words), "{}", texts(&told));
        assert!(told["remedy"].is_string(), "{told}");
    }
}

/// Scenario: a process in a container is named with an escape sequence, a newline and a right-to-left override.
/// Guarantee: neither the table nor the records have any of them.
#[test]
fn names_from_containers_are_shown_safely() {
    if !is_possible(false) {
        return;
    }
    let recipe = Recipe {
        assembly: "a\x1b[2J\n\u{202e}b.dll".to_owned(),
        ..Recipe::default()
    };
    let container = recipe.start();
    let pid = container.pid.to_string();
    let (_, records) = doctor(&[], &["--pid", &pid]);
    let table = through(&[])
        .args(["doctor", "--pid", &pid, "--format", "table"])
        .output()
        .unwrap();
    let listed = through(&[]).args(["ps", "--format", "table"]).output().unwrap();
    for output in [records.stdout, table.stdout, listed.stdout] {
        let text = String::from_utf8(output).unwrap();
        assert!(text.contains("a\u{fffd}[2J\u{fffd}\u{fffd}b"), "{text}");
        assert!(!text.contains(['\x1b', '\u{202e}']), "{text:?}");
    }
}

/// Scenario: gcwatch in a pid namespace of its own, as without hostPID.
/// Guarantee: it says so of itself; the process of another container is not there for it, and it says where to look.
#[test]
fn without_the_hosts_pids_it_says_so() {
    if !is_possible(false) {
        return;
    }
    let container = Recipe::default().start();
    let (records, output) = doctor(
        &["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"],
        &["--pid", &container.pid.to_string()],
    );
    let own = records.iter().find(|record| record["kind"] == "gcwatch").unwrap();
    assert_eq!(
        (&own["host_pid_namespace"], &own["ok"]),
        (&Value::Bool(false), &Value::Bool(false)),
        "{own}"
    );
    assert!(own["remedy"].as_str().unwrap().contains("hostPID"), "{own}");
    let told = records.iter().find(|record| record["kind"] == "diagnosis").unwrap();
    assert_eq!(told["verdict"], "exited", "{told}");
    assert_eq!(output.status.code(), Some(1));
}
