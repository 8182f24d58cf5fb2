//! `gcwatch run` as a process, asked over its listener.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;
use test_support::target::PATIENCE;

/// The variable by which a daemon knows the processes of its test: others run on the same machine.
pub(crate) const MARK: &str = "GCWATCH_TEST_MARK";

/// A daemon that runs, and reads only the processes of its test.
pub(crate) struct Serving {
    child: Child,
    lines: Receiver<String>,
    pub(crate) said: String,
    pub(crate) address: SocketAddr,
    _folder: TempDir,
}

/// The command, its standard error a pipe. `more` is YAML beside what keeps it to processes with the mark.
pub(crate) fn command(folder: &Path, mark: &str, listen: &str, more: &str) -> Command {
    let file = folder.join("gcwatch.yaml");
    let config = format!(
        "targets:\n  include: [{{environment: {{{MARK}: {mark}}}}}]\n  scan_interval: 1s\n  lease_folder: {}\n\
         self_telemetry: {{enabled: false}}\n{more}",
        folder.join("leases").display()
    );
    std::fs::write(&file, config).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_gcwatch"));
    command
        .args([
            "run",
            "--listen",
            listen,
            "--no-traces",
            "--no-metrics",
            "--no-logs",
            "--config",
        ])
        .arg(&file)
        .env_remove("NOTIFY_SOCKET")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    command
}

impl Serving {
    /// Starts it on a free port of loopback, and waits until it listens.
    pub(crate) fn start(mark: &str, more: &str) -> Self {
        Self::start_at("127.0.0.1:0", mark, more)
    }

    pub(crate) fn start_at(listen: &str, mark: &str, more: &str) -> Self {
        let folder = tempfile::Builder::new().prefix("gcw").tempdir().unwrap();
        let mut child = command(folder.path(), mark, listen, more).spawn().unwrap();
        let lines = reading(child.stderr.take().unwrap());
        let mut serving = Self {
            child,
            lines,
            said: String::new(),
            address: SocketAddr::from(([0, 0, 0, 0], 0)),
            _folder: folder,
        };
        let listening = serving.await_line("listening at");
        let address = listening.split("http://").nth(1).unwrap().split('/').next().unwrap();
        serving.address = address.parse().unwrap();
        serving
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Reads what it says up to a line with `words`.
    pub(crate) fn await_line(&mut self, words: &str) -> String {
        let until = Instant::now() + PATIENCE;
        loop {
            match self.lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(line) => {
                    self.said.push_str(&line);
                    self.said.push('\n');
                    if line.contains(words) {
                        return line;
                    }
                }
                Err(RecvTimeoutError::Timeout) => panic!("it does not say {words:?}:\n{}", self.said),
                Err(RecvTimeoutError::Disconnected) => panic!("it ended without saying {words:?}:\n{}", self.said),
            }
        }
    }

    /// Waits for its end.
    pub(crate) fn await_end(&mut self) -> ExitStatus {
        await_end(&mut self.child, PATIENCE).unwrap_or_else(|| panic!("it does not end:\n{}", self.said))
    }

    /// Status and body of an answer.
    pub(crate) fn get(&self, path: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }

    pub(crate) fn json(&self, path: &str) -> Value {
        serde_json::from_str(&self.get(path).1).unwrap()
    }

    /// What is known of a process.
    pub(crate) fn target(&self, pid: u32) -> Option<Value> {
        let targets = self.json("/api/v1/targets");
        let targets = targets["targets"].as_array().unwrap().clone();
        targets.into_iter().find(|target| target["pid"] == pid)
    }

    /// Waits until what is known of a process fits.
    pub(crate) fn await_target(&self, pid: u32, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
        let since = Instant::now();
        loop {
            let target = self.target(pid).unwrap_or_default();
            if fits(&target) {
                return target;
            }
            assert!(
                since.elapsed() < PATIENCE,
                "process {pid}, {what}: {target}\n{}",
                self.said
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// The value of one of its own metrics.
    pub(crate) fn metric(&self, name: &str) -> Option<f64> {
        let (_, text) = self.get("/metrics");
        let line = text.lines().find(|line| line.split(['{', ' ']).next() == Some(name))?;
        line.rsplit(' ').next()?.parse().ok()
    }

    /// Its guard's process.
    pub(crate) fn guard(&self) -> Option<Pid> {
        let children = format!("/proc/{0}/task", self.pid());
        let tasks = std::fs::read_dir(children).ok()?;
        let children = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("children")).ok());
        let pids: Vec<i32> = children
            .flat_map(|pids| {
                pids.split_whitespace()
                    .filter_map(|pid| pid.parse().ok())
                    .collect::<Vec<_>>()
            })
            .collect();
        let is_guard = |pid: &&i32| {
            std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == "gcwatch-guard")
        };
        pids.iter().find(is_guard).and_then(|pid| Pid::from_raw(*pid))
    }

    /// Waits until it has a guard that is not `other`.
    pub(crate) fn await_guard(&self, other: Option<Pid>) -> Pid {
        let since = Instant::now();
        loop {
            match self.guard() {
                Some(guard) if Some(guard) != other => return guard,
                _ => std::thread::yield_now(),
            }
            assert!(since.elapsed() < PATIENCE, "it has no guard:\n{}", self.said);
        }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// Waits for the end of a process; `None`: it did not end in time.
pub(crate) fn await_end(child: &mut Child, within: Duration) -> Option<ExitStatus> {
    let since = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return Some(status);
        }
        if since.elapsed() > within {
            return None;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn reading(stderr: ChildStderr) -> Receiver<String> {
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stderr).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    lines
}
