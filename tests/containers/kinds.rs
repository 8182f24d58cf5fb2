//! Containers of every kind.

use std::process::{Command, Stdio};

use serde_json::Value;

use test_support::add_tests;
use test_support::harness::{Need, Tests};

use crate::container::{
    Recipe, TIMEOUT, containers, containers_with_assemblies, containers_with_loopback, containers_with_musl,
    user_namespaces,
};
use crate::gcwatch::{LEAST_PRIVILEGES, binary, doctor, texts, through, verdict};

pub(crate) fn tests(tests: &mut Tests) {
    for (kind, recipe) in kinds() {
        let needs = match &recipe {
            Recipe {
                user_namespace: true, ..
            } => user_namespaces,
            Recipe { musl: true, .. } => containers_with_musl,
            _ => containers,
        };
        let path = format!("{}::is_reached::{kind}", module_path!());
        tests.add(path, needs, move || is_reached(&recipe));
    }
    for (libc, musl, needs) in [
        ("glibc", false, containers as fn() -> Need),
        ("musl", true, containers_with_musl),
    ] {
        let path = format!("{}::collections_of_container_are_recorded::{libc}", module_path!());
        let recipe = Recipe {
            musl,
            ..Recipe::default()
        };
        tests.add(path, needs, move || collections_of_container_are_recorded(&recipe));
    }
    add_tests!(
        tests, containers;
        missing_host_pid_namespace_is_reported,
    );
    add_tests!(
        tests, containers_with_loopback;
        top_starts_private_daemon,
    );
    add_tests!(
        tests, containers_with_assemblies;
        missing_socket_is_explained,
        names_from_containers_are_escaped,
    );
}

/// Returns the kinds of containers: plain namespaces, a TMPDIR whose path from outside is too long for a socket
/// address, a TMPDIR behind an absolute symbolic link, only a network namespace, a user namespace, and musl as C
/// library.
fn kinds() -> [(&'static str, Recipe); 6] {
    let long = format!("/tmp/{}", "d".repeat(65));
    [
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
        (
            "musl",
            Recipe {
                musl: true,
                ..Recipe::default()
            },
        ),
    ]
}

/// Scenario: a process runs in a container of each kind.
/// Guarantee: gcwatch can attach to the process with only SYS_PTRACE and DAC_OVERRIDE.
fn is_reached(recipe: &Recipe) {
    let container = recipe.start();
    let found = verdict(LEAST_PRIVILEGES, container.pid);
    assert_eq!(found["verdict"], "attachable", "{}", texts(&found));
    assert_eq!(found["uid"], recipe.uid, "{found}");
    assert_eq!(
        found["runtime"].as_str().map(|version| version.starts_with("10.0")),
        Some(true),
        "{found}"
    );
}

/// Scenario: a process in a container, with glibc or with musl, is recorded with only SYS_PTRACE and DAC_OVERRIDE.
/// Guarantee: the recording contains complete collections of the process.
fn collections_of_container_are_recorded(recipe: &Recipe) {
    let container = recipe.start();
    let mut record = through(LEAST_PRIVILEGES);
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

/// Scenario: one container has a read-only directory for the socket, another has a missing directory, and a third has
/// disabled diagnostics.
/// Guarantee: each verdict names the problem, with the directory or the variable, and the remedy.
fn missing_socket_is_explained() {
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
            "/tmp/none does not exist",
            Recipe {
                tmpdir: Some("/tmp/none".to_owned()),
                ..Recipe::default()
            },
        ),
    ];
    for (reason, words, recipe) in cases {
        let container = recipe.start();
        // A young process can still be starting, so the test waits for the final verdict.
        let since = std::time::Instant::now();
        let mut found = verdict(LEAST_PRIVILEGES, container.pid);
        while found["verdict"] == "starting" && since.elapsed() < TIMEOUT {
            std::thread::sleep(std::time::Duration::from_millis(500));
            found = verdict(LEAST_PRIVILEGES, container.pid);
        }
        assert_eq!(found["verdict"], reason, "{}", texts(&found));
        assert!(found["detail"].as_str().unwrap().contains(words), "{}", texts(&found));
        assert!(found["remedy"].is_string(), "{found}");
    }
}

/// Scenario: the name of a process in a container contains an escape sequence, a newline and a right-to-left override.
/// Guarantee: neither the tables nor the records contain these characters.
fn names_from_containers_are_escaped() {
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

/// Scenario: `gcwatch top` runs in a container in which no daemon listens.
/// Guarantee: `top` attaches to the process there and shows its collections, and all processes that it started exit.
fn top_starts_private_daemon() {
    let container = Recipe::default().start();
    let pid = container.pid.to_string();
    let enter = |arguments: &[&str]| {
        let namespaces = ["--pid", "--net", "--mount", "--target", &pid];
        Command::new("nsenter")
            .args(namespaces)
            .args(arguments)
            .output()
            .unwrap()
    };
    // Prepare separate leases, a program at a path that the container does not hide (it hides /tmp), and a working
    // loopback device.
    container.inside("mount -t tmpfs t /run");
    std::fs::copy(binary(), format!("/proc/{pid}/root/run/gcwatch")).unwrap();
    assert!(enter(&["ip", "link", "set", "lo", "up"]).status.success());
    let output = enter(&["/run/gcwatch", "top", "--once"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("private daemon: none runs on this host"), "{text}");
    let row = text
        .lines()
        .find(|line| line.starts_with("workload"))
        .unwrap_or_default();
    let columns: Vec<&str> = row.split_whitespace().collect();
    assert!(columns.contains(&"ms"), "the longest pause is known: {text}");
    let processes = enter(&["sh", "-c", "cat /proc/[0-9]*/cmdline"]);
    let processes = String::from_utf8_lossy(&processes.stdout).replace('\0', " ");
    assert!(!processes.contains(" run --end-with-stdin"), "{processes}");
}

/// Scenario: gcwatch runs in its own pid namespace, as without hostPID.
/// Guarantee: gcwatch reports that it is not in the pid namespace of the host, with the remedy `hostPID`. The process
/// of another container counts as exited.
fn missing_host_pid_namespace_is_reported() {
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
    let found = records.iter().find(|record| record["kind"] == "diagnosis").unwrap();
    assert_eq!(found["verdict"], "exited", "{found}");
    assert_eq!(output.status.code(), Some(1));
}
