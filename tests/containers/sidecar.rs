//! gcwatch as an unprivileged sidecar with a shared directory.

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use test_support::add_tests;
use test_support::harness::Tests;

use crate::container::{Recipe, USER, containers};
use crate::gcwatch::{doctor, through};

pub(crate) fn tests(tests: &mut Tests) {
    add_tests!(tests, containers; shared_directory_is_sufficient);
}

/// Scenario: an application has its sockets in a directory that it shares; gcwatch runs in its own pid and mount
/// namespaces as the same user and group, without capabilities, and gets the directory.
/// Guarantee: `doctor` identifies the process by the name of its socket, and the process answers, regardless of
/// gcwatch's group. The daemon attaches to the process. Another user cannot attach, and gets the remedy. A shared
/// directory without a socket is an error.
fn shared_directory_is_sufficient() {
    let shared = tempfile::Builder::new().prefix("gcwatch-shared").tempdir().unwrap();
    std::fs::set_permissions(shared.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let recipe = Recipe {
        shared: Some(shared.path().to_path_buf()),
        tmpdir: Some("/mnt/shared".to_owned()),
        ..Recipe::default()
    };
    let container = recipe.start();
    let folder = shared.path().to_str().unwrap();
    let uid = USER.to_string();
    let as_user = |uid: &str| -> Vec<String> {
        let words = format!(
            "unshare --pid --fork --kill-child --mount-proc setpriv --pdeathsig KILL --reuid {uid} --regid 7 --clear-groups --bounding-set -all --inh-caps -all"
        );
        words.split_whitespace().map(str::to_owned).collect()
    };
    let run = |uid: &str, args: &[&str]| {
        let words = as_user(uid);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        doctor(&words, args)
    };
    let (records, output) = run(&uid, &["--sockets", folder]);
    let diagnosis = records.iter().find(|record| record["kind"] == "diagnosis").unwrap();
    assert_eq!(
        (diagnosis["verdict"].as_str(), diagnosis["pid"].as_u64()),
        (Some("attachable"), Some(1)),
        "{diagnosis}"
    );
    assert_eq!(output.status.code(), Some(0), "{records:?}");
    let (records, _) = run("7", &["--sockets", folder]);
    let diagnosis = records.iter().find(|record| record["kind"] == "diagnosis").unwrap();
    assert_eq!(diagnosis["verdict"], "permission", "{diagnosis}");
    assert!(
        diagnosis["remedy"].as_str().unwrap().contains("runAsUser"),
        "{diagnosis}"
    );
    // An empty directory is an error, because it should contain a socket.
    let empty = tempfile::tempdir().unwrap();
    std::fs::set_permissions(empty.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let (records, output) = run(&uid, &["--sockets", empty.path().to_str().unwrap()]);
    assert!(
        records.iter().any(|record| record["verdict"] == "not-found"),
        "{records:?}"
    );
    assert_eq!(output.status.code(), Some(1));

    let words = as_user(&uid);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let mut daemon = through(&words)
        .args([
            "run",
            "--listen",
            "none",
            "--no-traces",
            "--no-metrics",
            "--no-logs",
            "--sockets",
            folder,
        ])
        .args(["--lease-folder", &format!("{folder}/leases")])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(daemon.stderr.take().unwrap()).lines();
    let mut said = Vec::new();
    for line in lines.map_while(Result::ok) {
        let is_attached = line.contains("attached, .NET");
        said.push(line);
        if is_attached {
            break;
        }
    }
    let attached = said.last().cloned().unwrap_or_default();
    daemon.kill().unwrap();
    daemon.wait().unwrap();
    assert!(attached.contains("attached, .NET 10.0"), "{said:?}");
    drop(container);
}
