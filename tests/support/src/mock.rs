//! Third-party OTLP receivers with independent decoders.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

use serde_json::Value;

use crate::harness::{Need, unless_skipped};

/// `@elastic/mockotlpserver` with all three signals over gRPC and HTTP. The server exits when its standard input ends.
#[derive(Debug)]
pub struct MockReceiver {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<Value>,
    /// Endpoint for gRPC.
    pub grpc: String,
    /// Endpoint for HTTP.
    pub http: String,
}

impl MockReceiver {
    /// Returns an error if `GCWATCH_SKIP_LIVE` skips the receiver.
    pub fn need() -> Need {
        unless_skipped("mockotlpserver")
    }

    /// Starts a receiver on free ports.
    pub fn start() -> Self {
        let folder = crate::repository("tests/receivers");
        let fetched = Command::new(folder.join("fetch")).output().unwrap();
        assert!(
            fetched.status.success(),
            "{}; GCWATCH_SKIP_LIVE=mockotlpserver skips its tests",
            String::from_utf8_lossy(&fetched.stderr).trim()
        );
        let modules = String::from_utf8(fetched.stdout).unwrap();
        let mut child = Command::new("node")
            .arg(folder.join("mock.js"))
            .arg(modules.trim())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (stdin, stdout) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        // Read the output continuously, because a full pipe would stop the receiver in the middle of a request.
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                let parsed = serde_json::from_str(&line).unwrap_or(Value::String(line));
                if sender.send(parsed).is_err() {
                    break;
                }
            }
        });
        let urls = lines.recv().expect("mock.js listens");
        let url = |form: &str| urls[form].as_str().unwrap().trim_end_matches('/').to_owned();
        Self {
            grpc: url("grpc"),
            http: url("http"),
            child,
            stdin,
            lines,
        }
    }

    /// Stops the receiver and returns every request with its signal (`traces`, `metrics`, `logs`) and its body as OTLP
    /// JSON, except that attributes are one object. If the receiver could not decode a request, the signal is `failed`
    /// and the body is an error text.
    pub fn into_requests(mut self) -> Vec<(String, Value)> {
        drop(self.stdin.take());
        let requests = self.lines.iter().map(|mut line| {
            let signal = line["signal"].as_str().map(str::to_owned);
            (
                signal.unwrap_or_else(|| panic!("mock.js says {line}")),
                line["body"].take(),
            )
        });
        requests.collect()
    }
}

impl Drop for MockReceiver {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
