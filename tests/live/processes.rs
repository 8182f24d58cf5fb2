//! `ps` and `record` with processes in every state.

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
    add_tests_on!(tests, FETCHED; running_processes_are_listed, ctrl_c_ends_recording_cleanly);
    add_tests!(tests, need(&FETCHED); obstacles_have_distinct_reasons);
    add_tests!(
        tests, need(&[NET_10]);
        unrecordable_target_is_reported,
        killed_process_leaves_readable_recording,
        two_sessions_record_same_collections,
    );
}

fn process(pid: u32) -> Option<Value> {
    records(["ps", "--format", "ndjson"])
        .into_iter()
        .find(|record| record["pid"] == pid)
}

/// Scenario: a process runs on each of the runtimes.
/// Guarantee: the process is listed as attachable, with name, socket and runtime.
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

/// Scenario: one process has diagnostics switched off, one is suspended, and one was killed and left its socket.
/// Guarantee: `ps` lists each process with its own reason. The detail of the first process names the setting, and the
/// suspended process does not block the list. `record` refuses the killed process with a one-line error, and leaves no
/// file.
fn obstacles_have_distinct_reasons() {
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
    assert!(killed.socket().is_some(), "the killed process leaves its socket");
    // `ps` scans /tmp and its own TMPDIR for stale sockets.
    let mut ps = command();
    ps.args(["ps", "--format", "ndjson"]).env("TMPDIR", killed.tmp());
    let listed = records_of(&ps.output().unwrap());
    let listed = listed.iter().find(|record| record["pid"] == pid).unwrap();
    assert_eq!(
        (&listed["attachable"], listed["reason"].as_str()),
        (&Value::Bool(false), Some("stale-socket")),
        "{listed}"
    );
    // `record` refuses this process with a one-line error.
    let file = killed.tmp().join("r");
    let said = refused(pid, file.to_str().unwrap());
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(!file.exists());
}

/// Runs `gcwatch record` for a process that cannot be recorded. Returns the error message.
fn refused(pid: u32, file: &str) -> String {
    let output = gcwatch(["record", "--pid", &pid.to_string(), "-o", file]);
    assert_eq!(output.status.code(), Some(1));
    stderr(&output)
}

/// Scenario: `record` is called for a process without .NET, for a suspended process, and with a missing output folder.
/// Guarantee: each call fails with exit code 1 and an error that states the cause, and leaves no file.
fn unrecordable_target_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("r.nettrace");
    // This process waits for input that never arrives.
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
    assert!(said.contains("is not responding"), "{said}");
    assert!(!file.exists());
    target.signal(Signal::CONT);
    target.stop();
}

/// Scenario: Ctrl-C is pressed during a recording into a pipe.
/// Guarantee: the session is stopped and drained, so that the stream has its end tag; the exit code is 0, and the
/// process continues to work.
fn ctrl_c_ends_recording_cleanly(runtime: Runtime) {
    let mut target = Start::new(runtime, "steady").start();
    let mut gcwatch = command()
        .args(["record", "--pid", &target.pid().to_string(), "-o", "-"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdout = gcwatch.stdout.take().unwrap();
    let mut stream = vec![0; 4096];
    // The first bytes show that the session runs.
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

/// Scenario: a process is killed while it is recorded.
/// Guarantee: the received data is a readable recording with more than 10 complete collections. gcwatch reports that
/// the process exited, and exits with code 0.
fn killed_process_leaves_readable_recording() {
    let mut target = Start::new(NET_10, "threads").start();
    let file = target.tmp().join("r.nettrace");
    let gcwatch = command()
        .args(["record", "--pid", &target.pid().to_string(), "-o"])
        .arg(&file)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The file is large enough to contain collections.
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

/// Scenario: two recordings of one process run at once.
/// Guarantee: collections that are complete in both recordings have the same values, and there are more than 5 of these
/// collections.
fn two_sessions_record_same_collections() {
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
            // Times are not compared: each session timestamps its own events, so the times differ by the duration of
            // writing an event.
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
