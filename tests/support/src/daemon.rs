//! `gcwatch run` as a process of a test: tests start it with YAML, wait for its log lines, and query its listener.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::target::{TIMEOUT, await_end};

/// Environment variable that marks the processes of a test, so that its daemon ignores other processes on the machine.
pub const MARK: &str = "GCWATCH_TEST_MARK";

/// Loopback address with port 0, for which the kernel selects a free port.
pub const ANY: &str = "127.0.0.1:0";

/// Returns the `targets` section of a daemon that reads only the processes with this mark.
pub fn marked(mark: &str) -> String {
    format!("targets: {{include: [{{environment: {{{MARK}: '{mark}'}}}}], scan_interval: 1s}}\n")
}

/// Returns the command `gcwatch run` with `config` in `folder/gcwatch.yaml` and a separate lease folder. The daemon
/// exports nothing unless `config` has `otlp`. The standard error of the daemon is a pipe.
pub fn command(mut gcwatch: Command, folder: &Path, listen: &str, config: &str) -> Command {
    let file = folder.join("gcwatch.yaml");
    std::fs::write(&file, config).unwrap();
    gcwatch.args(["run", "--listen", listen, "--config"]).arg(file);
    gcwatch.arg("--lease-folder").arg(folder.join("leases"));
    if !config.lines().any(|line| line.starts_with("otlp:")) {
        gcwatch.args(["--no-traces", "--no-metrics", "--no-logs"]);
    }
    gcwatch
        .env_remove("NOTIFY_SOCKET")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    gcwatch
}

/// Calls `find` until it returns a value, and returns the value. Panics after [`TIMEOUT`].
pub fn until<T>(what: &str, mut find: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + TIMEOUT;
    loop {
        if let Some(found) = find() {
            return found;
        }
        assert!(Instant::now() < until, "{what}: nothing for {TIMEOUT:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Calls `is` until it returns true. Panics after [`TIMEOUT`].
pub fn await_that(what: &str, is: impl FnMut() -> bool) {
    await_within(TIMEOUT, what, is);
}

/// Like [`await_that`], with another timeout.
pub fn await_within(time: Duration, what: &str, mut is: impl FnMut() -> bool) {
    let since = Instant::now();
    while !is() {
        assert!(since.elapsed() < time, "{what}: not within {time:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Waits until a file has at least `least` bytes.
pub fn await_bytes(path: impl AsRef<Path>, least: u64) {
    let path = path.as_ref();
    let length = || std::fs::metadata(path).map_or(0, |file| file.len());
    await_that(&path.to_string_lossy(), || length() >= least);
}

/// Calls `ask` until its answer satisfies `fits`, and returns the answer. Panics after the duration `within`.
fn fitting(within: Duration, what: &str, fits: impl Fn(&Value) -> bool, ask: impl Fn() -> Value) -> Value {
    let since = Instant::now();
    loop {
        let answer = ask();
        if fits(&answer) {
            return answer;
        }
        assert!(since.elapsed() < within, "{what}: {answer}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Returns the peak memory of a process in bytes, or `None` if the process has exited.
pub fn most_memory(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().trim_end_matches(" kB").parse::<u64>().ok()? * 1024)
}

/// The log lines of a daemon. A thread reads the lines, so that the pipe never fills.
#[derive(Default)]
struct Said {
    lines: Mutex<(Vec<String>, bool)>,
    more: Condvar,
}

impl Said {
    /// Returns the lines so far, and whether the log is complete. Ignores a poisoned lock, because a test that panics
    /// while it holds the lock leaves the lines intact.
    fn lines(&self) -> MutexGuard<'_, (Vec<String>, bool)> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A running daemon, which is killed when this value is dropped.
pub struct Daemon {
    child: Child,
    said: Arc<Said>,
    /// Number of lines up to and including the last awaited line. [`await_line`](Self::await_line) does not search them
    /// again.
    passed: usize,
    /// Address of the daemon's listener.
    pub address: SocketAddr,
    folder: Option<TempDir>,
}

impl Daemon {
    /// Starts a daemon and waits until it listens.
    pub fn start(mut command: Command) -> Self {
        let mut child = command.spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let said = Arc::<Said>::default();
        let heard = Arc::clone(&said);
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                heard.lines().0.push(line);
                heard.more.notify_all();
            }
            heard.lines().1 = true;
            heard.more.notify_all();
        });
        let mut daemon = Self {
            child,
            said,
            passed: 0,
            address: SocketAddr::from(([0, 0, 0, 0], 0)),
            folder: None,
        };
        let listening = daemon.await_line("listening at http://");
        let (_, address) = listening.split_once("http://").unwrap();
        daemon.address = address.split('/').next().unwrap().parse().unwrap();
        daemon
    }

    /// Transfers the ownership of a folder to the daemon. The folder is removed after the daemon has exited.
    #[must_use]
    pub fn in_folder(mut self, folder: TempDir) -> Self {
        self.folder = Some(folder);
        self
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Returns all log lines so far.
    pub fn said(&self) -> String {
        let lines = self.said.lines();
        lines.0.iter().flat_map(|line| [line, "\n"]).collect()
    }

    /// Waits for the next line that contains `words`, and returns the line.
    pub fn await_line(&mut self, words: &str) -> String {
        let until = Instant::now() + TIMEOUT;
        let mut lines = self.said.lines();
        loop {
            let found = lines.0.iter().skip(self.passed).position(|line| line.contains(words));
            if let Some(place) = found {
                self.passed += place + 1;
                return lines.0[self.passed - 1].clone();
            }
            self.passed = lines.0.len();
            assert!(!lines.1, "the daemon logs {words:?}:\n{}", lines.0.join("\n"));
            let left = until.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "the daemon logs {words:?}:\n{}", lines.0.join("\n"));
            lines = self
                .said
                .more
                .wait_timeout(lines, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }

    /// Waits until the daemon has exited and all its log lines are read.
    pub fn await_end(&mut self) -> ExitStatus {
        let status = await_end(&mut self.child, TIMEOUT);
        let status = status.unwrap_or_else(|| panic!("the daemon exits:\n{}", self.said()));
        // The guard process can hold the pipe slightly longer.
        let (lines, bound) = (self.said.lines(), Duration::from_secs(1));
        drop(self.said.more.wait_timeout_while(lines, bound, |lines| !lines.1));
        status
    }

    /// Returns the exit status of the daemon, or `None` if the daemon still runs.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }

    /// Shuts the daemon down gracefully and returns all its log lines.
    pub fn end(mut self) -> String {
        self.signal(Signal::TERM);
        let status = self.await_end();
        assert!(status.success(), "{status}:\n{}", self.said());
        self.said()
    }

    /// Requests a path, and returns the status and the body of the answer.
    pub fn bytes(&self, path: &str) -> (u16, Vec<u8>) {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        let host = self.address;
        let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let head = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").unwrap();
        let body = answer.split_off(head + 4);
        let status = std::str::from_utf8(&answer).unwrap().split(' ').nth(1).unwrap();
        (status.parse().unwrap(), body)
    }

    /// Like [`bytes`](Self::bytes), with the body as text.
    pub fn get(&self, path: &str) -> (u16, String) {
        let (status, body) = self.bytes(path);
        (status, String::from_utf8(body).unwrap())
    }

    /// Returns the record at a path.
    pub fn json(&self, path: &str) -> Value {
        let (status, body) = self.get(path);
        serde_json::from_str(&body).unwrap_or_else(|error| panic!("{path}: {status}: {error}: {body}"))
    }

    /// Returns the entry of a process in the list of targets, or `None` if the list has no such entry.
    pub fn target(&self, pid: u32) -> Option<Value> {
        let mut targets = self.json("/api/v1/targets");
        let Value::Array(targets) = targets["targets"].take() else {
            return None;
        };
        targets.into_iter().find(|target| target["pid"] == pid)
    }

    /// Waits until the entry of a process satisfies `fits`.
    pub fn await_target(&self, pid: u32, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
        fitting(TIMEOUT, what, fits, || self.target(pid).unwrap_or_default())
    }

    /// Returns the record of a process, or null if the daemon has no record of this pid.
    pub fn process(&self, pid: u32) -> Value {
        let (_, record) = self.get(&format!("/api/v1/processes/{pid}"));
        serde_json::from_str(&record).unwrap_or_default()
    }

    /// Waits until the record of a process satisfies `fits`.
    pub fn await_process(&self, pid: u32, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
        fitting(TIMEOUT, what, fits, || self.process(pid))
    }

    /// Returns the items of a list of the API.
    pub fn list(&self, path: &str, name: &str) -> Vec<Value> {
        let Value::Array(list) = self.json(path)[name].take() else {
            panic!("{path} has no {name}");
        };
        list
    }

    /// Waits for the newest incident of a process that satisfies `fits`. The timeout is four times as long as in other
    /// methods, because memory growth is known only after two readings, which are 15 s apart.
    pub fn incident(&self, pid: u32, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
        let is = |one: &Value| one["pid"] == pid && fits(one);
        let found = || self.list("/api/v1/incidents", "incidents").into_iter().find(is);
        fitting(
            4 * TIMEOUT,
            what,
            |found| !found.is_null(),
            || found().unwrap_or_default(),
        )
    }

    /// Returns the first value of a metric at `/metrics`, or `None` if the daemon does not export the metric.
    pub fn metric(&self, name: &str) -> Option<f64> {
        let (_, text) = self.get("/metrics");
        let line = text.lines().find(|line| line.split(['{', ' ']).next() == Some(name))?;
        line.rsplit(' ').next()?.parse().ok()
    }

    /// Returns the daemon's peak memory, in bytes.
    pub fn most_memory(&self) -> u64 {
        most_memory(self.pid()).unwrap()
    }

    /// Returns the pid of the daemon's guard process, or `None` if no guard runs.
    pub fn guard(&self) -> Option<Pid> {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.pid())).ok()?;
        let children = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("children")).ok());
        let children: String = children.collect();
        let is_guard = |pid: &&str| {
            std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == "gcwatch-guard")
        };
        let guard = children.split_whitespace().find(is_guard)?;
        Pid::from_raw(guard.parse().ok()?)
    }

    /// Waits until the daemon has a guard other than `other`.
    pub fn await_guard(&self, other: Option<Pid>) -> Pid {
        until("a guard", || self.guard().filter(|guard| Some(*guard) != other))
    }
}

impl Drop for Daemon {
    #[allow(clippy::print_stdout, reason = "shown with the failure of its test")]
    fn drop(&mut self) {
        let _it_ended_before = self.child.kill();
        let _it_was_awaited = self.child.wait();
        if std::thread::panicking() {
            println!("gcwatch said:\n{}", self.said());
        }
    }
}
