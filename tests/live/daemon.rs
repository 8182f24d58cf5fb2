//! A daemon that reads the processes of one test, and is asked over its API.

use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;
use test_support::daemon::{ANY, Daemon as Running, MARK, command, marked};
use test_support::target::{PATIENCE, Start};

/// A folder for one test, and the mark of its processes.
pub(crate) struct Scene(TempDir);

impl Scene {
    pub(crate) fn new() -> Self {
        Self(tempfile::Builder::new().prefix("gcwatch-daemon").tempdir().unwrap())
    }

    pub(crate) fn mark(&self) -> &str {
        self.0.path().file_name().unwrap().to_str().unwrap()
    }

    pub(crate) fn marked(&self, start: Start) -> Start {
        start.env(MARK, self.mark())
    }

    /// Starts it, with the rules that ship.
    pub(crate) fn daemon(&self) -> Daemon {
        let gcwatch = Command::new(env!("CARGO_BIN_EXE_gcwatch"));
        Daemon(Running::start(command(
            gcwatch,
            self.0.path(),
            ANY,
            &marked(self.mark()),
        )))
    }
}

/// The daemon, killed at the end.
pub(crate) struct Daemon(Running);

impl Daemon {
    /// What it has logged.
    pub(crate) fn said(&self) -> Vec<String> {
        self.0.said().lines().map(str::to_owned).collect()
    }

    pub(crate) fn get(&self, path: &str) -> Value {
        // Nothing is known of a process at first.
        serde_json::from_str(&self.0.get(path).1).unwrap_or(Value::Null)
    }

    /// The record of a process as soon as it is so.
    pub(crate) fn process(&self, pid: u32, what: &str, is: impl Fn(&Value) -> bool) -> Value {
        let until = Instant::now() + PATIENCE;
        loop {
            let record = self.get(&format!("/api/v1/processes/{pid}"));
            if is(&record) {
                return record;
            }
            assert!(Instant::now() < until, "{what}: {record}");
            std::thread::sleep(Duration::from_millis(200));
        }
    }
}
