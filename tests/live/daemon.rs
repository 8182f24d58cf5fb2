//! `gcwatch run`, which reads the processes of one test, and is asked over its API.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;
use test_support::target::{PATIENCE, Start};

/// The variable by which it knows the processes of its test: others run on the same machine.
const MARK: &str = "GCWATCH_TEST_MARK";

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

    /// Starts it, with these rules beside those that ship.
    pub(crate) fn daemon(&self, rules: Option<&str>) -> Daemon {
        let (config, file) = (self.0.path().join("gcwatch.yaml"), self.0.path().join("rules.yaml"));
        let rules = rules.map_or_else(String::new, |rules| {
            std::fs::write(&file, rules).unwrap();
            format!("rules: {{files: [{}]}}\n", file.display())
        });
        let text = format!(
            "targets: {{include: [{{environment: {{{MARK}: '{}'}}}}], lease_folder: {}, scan_interval: 1s}}\n\
             otlp: {{enabled: false}}\nlisten: 127.0.0.1:0\n{rules}",
            self.mark(),
            self.0.path().join("leases").display(),
        );
        std::fs::write(&config, text).unwrap();
        let mut daemon = Command::new(env!("CARGO_BIN_EXE_gcwatch"));
        daemon.arg("run").arg("--config").arg(&config);
        let mut daemon = daemon.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(daemon.stderr.take().unwrap())
            .lines()
            .map_while(Result::ok);
        let line = lines.find(|line| line.contains("listening at http://")).unwrap();
        let address = line.split("http://").nth(1).unwrap().split('/').next().unwrap();
        let said = Arc::new(Mutex::new(Vec::new()));
        let daemon = Daemon {
            child: daemon,
            address: address.to_owned(),
            said: Arc::clone(&said),
        };
        std::thread::spawn(move || lines.for_each(|line| said.lock().unwrap().push(line)));
        daemon
    }
}

/// The daemon, killed at the end.
pub(crate) struct Daemon {
    child: Child,
    address: String,
    said: Arc<Mutex<Vec<String>>>,
}

impl Daemon {
    /// What it has logged since it listens.
    pub(crate) fn said(&self) -> Vec<String> {
        self.said.lock().unwrap().clone()
    }

    pub(crate) fn get(&self, path: &str) -> Value {
        let address = &self.address;
        let mut stream = TcpStream::connect(address).unwrap();
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"
        )
        .unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let body = text.split("\r\n\r\n").nth(1).unwrap_or_default();
        serde_json::from_str(body).unwrap_or(Value::Null)
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

impl Drop for Daemon {
    fn drop(&mut self) {
        let _killed = self.child.kill();
        let _ended = self.child.wait();
    }
}
