//! `ps` and `record` on processes in every state.

use std::io::Read;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use test_support::daemon::await_bytes;
use test_support::harness::Tests;
use test_support::program::{command, gcwatch, records, records_of, stderr};
use test_support::runtimes::{FETCHED, NET_10, Runtime, need};
use test_support::target::Start;
use test_support::{add_tests, add_tests_on};

use crate::analyzed::analyze;
use crate::profiles::record;

pub(crate) fn tests(tests: &mut Tests) {
    add_tests_on!(tests, FETCHED; running_processes_are_listed, ctrl_c_ends_a_recording_in_order);
    add_tests!(tests, need(&FETCHED); each_obstacle_has_its_reason);
    add_tests!(tests, need(&[NET_10]); what_cannot_be_recorded_is_said, a_killed_process_leaves_a_recording, two_sessions_see_the_same);
}

fn process(pid: u32) -> Option<Value> {
    records(["ps", "--format", "ndjson"])
        .into_iter()
        .find(|record| record["pid"] == pid)
}

/// Scenario: running processes of both runtimes.
/// Guarantee: both are listed as attachable, with name, socket and runtime.
fn running_processes_are_listed(runtime: Runtime) {
    let target = Start::new(runtime, "idle").start();
    let listed = process(target.pid()).unwrap();
    assert_eq!(listed["kind"], "process");
    assert_eq!(
        (&listed["attachable"], &listed["reason"]),
        (&Value::Bool(true), &Value::Null),
        "{listed}"
    );
    assert_eq!(listed["ns_pid"], target.pid());
    assert_eq!(
        listed["socket"].as_str().unwrap(),
        target.socket().unwrap().to_str().unwrap()
    );
    let version = listed["runtime"].as_str().unwrap_or_default();
    assert!(
        version.starts_with(if runtime.is_core_3() { "3.1" } else { "10.0" }),
        "{listed}"
    );
    target.stop();
}

/// Scenario: diagnostics switched off, a process that is stopped, one that was killed and left its socket behind.
/// Guarantee: each has its own reason and a sentence with what to do; the stopped one does not hold up the list.
fn each_obstacle_has_its_reason() {
    let mut off = Start::new(test_support::runtimes::CORE_3_1, "idle")
        .env("COMPlus_EnableDiagnostics", "0")
        .spawn();
    off.await_line("off", |line| line.starts_with("ready "));
    let listed = process(off.pid()).unwrap();
    assert_eq!(
        (&listed["attachable"], listed["reason"].as_str()),
        (&Value::Bool(false), Some("diagnostics-off")),
        "{listed}"
    );
    assert!(
        listed["detail"].as_str().unwrap().contains("EnableDiagnostics"),
        "{listed}"
    );
    off.stop();

    let stopped = Start::new(NET_10, "idle").start();
    stopped.freeze();
    let listed = process(stopped.pid()).unwrap();
    assert_eq!(listed["reason"].as_str(), Some("silent"), "{listed}");
    stopped.signal(Signal::CONT);
    stopped.stop();

    let mut killed = Start::new(NET_10, "idle").start();
    let pid = killed.pid();
    killed.kill();
    assert!(killed.socket().is_some(), "it leaves its socket behind");
    // `ps` looks for abandoned sockets in /tmp and in its own TMPDIR.
    let mut ps = command();
    ps.args(["ps", "--format", "ndjson"]).env("TMPDIR", killed.tmp());
    let listed = records_of(&ps.output().unwrap());
    let listed = listed.iter().find(|record| record["pid"] == pid).unwrap();
    assert_eq!(
        (&listed["attachable"], listed["reason"].as_str()),
        (&Value::Bool(false), Some("stale-socket")),
        "{listed}"
    );
    // To record it is refused in one sentence.
    let file = killed.tmp().join("r");
    let said = refused(pid, file.to_str().unwrap());
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(!file.exists());
}

/// What is said of a process that cannot be recorded.
fn refused(pid: u32, file: &str) -> String {
    let output = gcwatch(["record", "--pid", &pid.to_string(), "-o", file]);
    assert_eq!(output.status.code(), Some(1));
    stderr(&output)
}

/// Scenario: `record` on a process that is no .NET process, on one that is stopped, and into a folder that is not
/// there.
/// Guarantee: one sentence each, exit code 1, no file.
fn what_cannot_be_recorded_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("r.nettrace");
    // It waits for input that does not come.
    let mut other = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
    let said = refused(other.id(), file.to_str().unwrap());
    assert!(
        said.contains(&other.id().to_string()) && said.lines().count() == 1,
        "{said}"
    );
    drop(other.stdin.take());
    other.wait().unwrap();
    let target = Start::new(NET_10, "idle").start();
    let said = refused(target.pid(), "/no/such/folder/r");
    assert!(said.contains("/no/such/folder/r"), "{said}");
    target.freeze();
    let said = refused(target.pid(), file.to_str().unwrap());
    assert!(said.contains("answer"), "{said}");
    assert!(!file.exists());
    target.signal(Signal::CONT);
    target.stop();
}

/// Scenario: Ctrl-C during a recording, into a file and into a pipe.
/// Guarantee: the session is stopped and drained: the stream ends with its end tag, exit code 0, and the process works
/// on.
fn ctrl_c_ends_a_recording_in_order(runtime: Runtime) {
    let mut target = Start::new(runtime, "steady").start();
    let mut gcwatch = command()
        .args(["record", "--pid", &target.pid().to_string(), "-o", "-"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdout = gcwatch.stdout.take().unwrap();
    let mut stream = vec![0; 4096];
    // Its first bytes: the session runs.
    stdout.read_exact(&mut stream).unwrap();
    kill_process(Pid::from_child(&gcwatch), Signal::INT).unwrap();
    stdout.read_to_end(&mut stream).unwrap();
    let output = gcwatch.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let file = target.tmp().join("r.nettrace");
    std::fs::write(&file, &stream).unwrap();
    let analyzed = analyze(&file);
    assert_eq!(analyzed.stream["clean_end"], true);
    assert!(!analyzed.gcs.is_empty());
    target.await_ticks(2);
    target.stop();
}

/// Scenario: the process is killed while it is recorded.
/// Guarantee: what had come is a recording whose collections are complete; it reports that it was cut short; exit code
/// 0.
fn a_killed_process_leaves_a_recording() {
    let mut target = Start::new(NET_10, "threads").start();
    let file = target.tmp().join("r.nettrace");
    let gcwatch = command()
        .args(["record", "--pid", &target.pid().to_string(), "-o"])
        .arg(&file)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Enough was written that there are collections in it.
    let partial = target.tmp().join("r.nettrace.partial");
    await_bytes(&partial, 60_000);
    target.kill();
    let output = gcwatch.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stderr(&output).contains("the process exited"), "{}", stderr(&output));
    let analyzed = analyze(&file);
    assert_eq!(analyzed.stream["clean_end"], false);
    assert!(analyzed.gcs.iter().filter(|gc| gc["complete"] == true).count() > 10);
}

/// Scenario: two recordings of one process at once.
/// Guarantee: both see the same collections in the time that they share.
fn two_sessions_see_the_same() {
    let mut target = Start::new(NET_10, "steady").start();
    let second = target.tmp().join("second.nettrace");
    let other = command()
        .args(["record", "--pid", &target.pid().to_string(), "--duration", "4s", "-o"])
        .arg(&second)
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let (first, _) = record(&mut target, &["--duration", "2s"]);
    let output = other.wait_with_output().unwrap();
    assert!(output.status.success());
    let second = analyze(&second);
    let mut shared = 0;
    for gc in first.gcs.iter().filter(|gc| gc["complete"] == true) {
        if let Some(same) = second
            .gcs
            .iter()
            .find(|other| other["number"] == gc["number"] && other["complete"] == true)
        {
            // Each session stamps its own events: times differ by what writing one takes.
            for field in [
                "generation",
                "type",
                "reason",
                "heap",
                "heap_before",
                "promoted",
                "phases",
            ] {
                assert_eq!(gc[field], same[field], "#{} {field}", gc["number"]);
            }
            shared += 1;
        }
    }
    assert!(shared > 5, "{shared}");
    target.stop();
}
