//! gcwatch as a command of a test, and the records that it prints.

use std::ffi::OsStr;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// Returns the path of the program, which cargo builds next to the tests.
pub fn path() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let folder = own.ancestors().skip(1).find(|folder| !folder.ends_with("deps"));
    folder.unwrap().join("gcwatch")
}

pub fn command() -> Command {
    Command::new(path())
}

/// Runs the program without input, and waits until it exits.
pub fn gcwatch(args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Output {
    command().args(args).stdin(Stdio::null()).output().unwrap()
}

/// Like [`gcwatch()`], with input. The program can exit before it has read the whole input.
pub fn with_input(args: impl IntoIterator<Item = impl AsRef<OsStr>>, input: &[u8]) -> Output {
    fed(command().args(args), input)
}

/// Runs a command with input, and returns its output. The command can exit before it has read the whole input.
pub fn fed(command: &mut Command, input: &[u8]) -> Output {
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || drop(stdin.write_all(input)));
        child.wait_with_output().unwrap()
    })
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Returns the standard output of a successful command.
#[track_caller]
pub fn written(output: Output) -> String {
    assert!(output.status.success(), "{}", stderr(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// Runs the program and returns the records of its standard output. The program must succeed.
#[track_caller]
pub fn records(args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Vec<Value> {
    let output = gcwatch(args);
    assert!(output.status.success(), "{}", stderr(&output));
    records_of(&output)
}

#[track_caller]
pub fn records_of(output: &Output) -> Vec<Value> {
    let text = std::str::from_utf8(&output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

pub fn select_kind<'r>(records: &'r [Value], kind: &str) -> Vec<&'r Value> {
    records.iter().filter(|record| record["kind"] == kind).collect()
}
