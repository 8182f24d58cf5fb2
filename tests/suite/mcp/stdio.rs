//! `gcwatch mcp` as a program, with a client and a listener.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{ChildStdin, ChildStdout, Stdio};

use serde_json::{Value, json};
use test_support::program;
use test_support::target::RunningProcess;

/// The program and its client.
pub(super) struct Client {
    child: RunningProcess,
    questions: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    id: u64,
}

impl Client {
    /// Starts the program with these arguments and completes the handshake.
    pub(super) fn start(arguments: &[&str]) -> Self {
        let mut child = program::command()
            .arg("mcp")
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let (questions, answers) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        let mut client = Self {
            child: RunningProcess(child),
            questions,
            answers,
            id: 0,
        };
        let client_info = json!({ "name": "test", "version": "1" });
        client.ask(
            "initialize",
            &json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client_info }),
        );
        client.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        client
    }

    fn send(&mut self, message: &Value) {
        let questions = self.questions.as_mut().unwrap();
        writeln!(questions, "{message}").unwrap();
        questions.flush().unwrap();
    }

    /// Sends a request and returns its answer.
    pub(super) fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.id += 1;
        self.send(&json!({ "jsonrpc": "2.0", "id": self.id, "method": method, "params": params }));
        loop {
            let mut line = String::new();
            assert!(
                self.answers.read_line(&mut line).unwrap() > 0,
                "the program is still running"
            );
            let answer: Value = serde_json::from_str(&line).unwrap();
            // Errors for lines that are not requests have no id.
            if answer["id"] == self.id {
                return answer;
            }
        }
    }

    /// Calls a tool. Returns its answer, and whether the call succeeded.
    pub(super) fn call(&mut self, tool: &str, arguments: &Value) -> (Value, bool) {
        let answer = self.ask("tools/call", &json!({ "name": tool, "arguments": arguments }));
        let result = &answer["result"];
        assert!(result.is_object(), "{answer}");
        (result["structuredContent"].clone(), result["isError"] != true)
    }

    fn tools(&mut self) -> Vec<String> {
        let listed = self.ask("tools/list", &json!({}));
        let tools = listed["result"]["tools"].as_array().unwrap().iter();
        tools.map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    }

    /// Closes the standard input. Returns whether the program exited successfully.
    pub(super) fn end(mut self) -> bool {
        drop(self.questions.take());
        self.child.0.wait().unwrap().success()
    }
}

/// Scenario: the server is started with a recording. The client lists the tools, requests the recording by its name,
/// one of its collections, advice from it, and a file that the server was not given, and sends a line of 2 MB.
/// Guarantee: the server offers only the tools for recordings. Their answers have the figures of the recording, and
/// advice has a record for each kind. The server refuses other files and pids, drops the long line, answers the next
/// request, and exits when its input ends.
#[test]
fn recordings_need_no_daemon() {
    let mut client = Client::start(&["tests/recordings/net10-lohoos.nettrace.gz"]);
    assert_eq!(client.tools(), ["recording", "advice"]);
    let (known, _) = client.call("recording", &json!({}));
    assert_eq!(known["files"], json!(["tests/recordings/net10-lohoos.nettrace.gz"]));
    assert!(known["of_incidents"]["unknown"].is_string(), "{known}");
    let (answer, is_answer) = client.call("recording", &json!({ "file": "net10-lohoos.nettrace.gz", "limit": 2 }));
    assert!(is_answer, "{answer}");
    let process = &answer["processes"][0];
    assert_eq!(process["count"], 497);
    assert_eq!(process["longest"].as_array().unwrap().len(), 2);
    assert!(process["incidents"][0]["symptom"].is_string(), "{process}");
    let number = &process["longest"][0]["number"];
    let (whole, _) = client.call(
        "recording",
        &json!({ "file": "net10-lohoos.nettrace.gz", "collection": number }),
    );
    assert_eq!(whole["collection"]["pause_ns"], process["longest"][0]["pause_ns"]);
    let other = "tests/recordings/net10-steady.nettrace.gz";
    assert!(!client.call("recording", &json!({ "file": other })).1);
    let limit = json!({ "file": "net10-lohoos.nettrace.gz", "limit": 1 << 30, "at": [1 << 29] });
    let (advice, is_answer) = client.call("advice", &limit);
    assert!(is_answer, "{advice}");
    let kinds: Vec<&str> = advice["found"]
        .as_array()
        .unwrap()
        .iter()
        .map(|record| record["kind"].as_str().unwrap())
        .collect();
    assert_eq!((kinds[0], kinds.len()), ("sizing", 7), "{advice}");
    assert_eq!(advice["found"][0]["configuration"]["memory_limit"], 1 << 30);
    assert!(advice["found"][1]["because"].is_string(), "{advice}");
    assert!(!client.call("advice", &json!({ "file": other })).1);
    assert!(!client.call("advice", &json!({ "pid": std::process::id() })).1);
    let questions = client.questions.as_mut().unwrap();
    writeln!(questions, "\"{}\"", "x".repeat(2 << 20)).unwrap();
    assert!(client.call("recording", &json!({})).1);
    assert!(client.end());
}

/// Scenario: no daemon listens. The client requests incidents and, as files, a recording, standard input, a folder, a
/// device and a missing path. Bursts are not allowed.
/// Guarantee: the refusal of the incidents contains a remedy. The recording is analyzed, the other paths are refused,
/// and a call of a burst fails.
#[test]
fn refusal_without_daemon_contains_remedy() {
    let mut client = Client::start(&["--connect", "http://127.0.0.1:1"]);
    assert_eq!(client.tools().len(), 9);
    let (refusal, is_answer) = client.call("incidents", &json!({}));
    assert!(
        !is_answer && refusal["remedy"].as_str().unwrap().contains("gcwatch run"),
        "{refusal}"
    );
    let file = "tests/recordings/net10-idle.nettrace.gz";
    assert!(client.call("recording", &json!({ "file": file })).1);
    for file in ["-", "tests", "/dev/zero", "/nowhere"] {
        let (refusal, is_answer) = client.call("recording", &json!({ "file": file }));
        assert!(!is_answer && refusal["error"].is_string(), "{file}: {refusal}");
        assert!(!client.call("advice", &json!({ "file": file })).1, "{file}");
    }
    let answer = client.ask("tools/call", &json!({ "name": "callers", "arguments": { "pid": 1 } }));
    assert!(answer["error"].is_object(), "{answer}");
    assert!(client.end());
}

/// Scenario: with `--allow-bursts`, the client requests the callers of a process without .NET: it gets the price,
/// confirms the price with another pid, and then confirms the price correctly. Another server gets `--allow-bursts` and
/// the listener of another host.
/// Guarantee: the first call returns the price and the command. A confirmation is valid for its command, once. An error
/// of the command becomes the refusal. Bursts are not possible with pids of another host.
#[test]
fn burst_requires_confirmed_price() {
    let mut client = Client::start(&["--allow-bursts"]);
    assert_eq!(client.tools().len(), 14);
    let pid = std::process::id();
    let (priced, is_answer) = client.call("callers", &json!({ "pid": pid, "seconds": 2 }));
    assert!(
        is_answer && priced["price"].as_str().unwrap().contains("for 2 s"),
        "{priced}"
    );
    assert_eq!(
        priced["command"],
        format!("gcwatch callers {pid} --duration 2s --format ndjson")
    );
    let confirm = &priced["confirm"];
    assert!(
        !client
            .call("callers", &json!({ "pid": 1, "seconds": 2, "confirm": confirm }))
            .1
    );
    let (refusal, is_answer) = client.call("callers", &json!({ "pid": pid, "seconds": 2, "confirm": confirm }));
    let why = refusal["error"].as_str().unwrap();
    assert!(!is_answer && why.contains(&pid.to_string()), "{refusal}");
    let (again, _) = client.call("callers", &json!({ "pid": pid, "seconds": 2, "confirm": confirm }));
    assert!(
        again["error"].as_str().unwrap().contains("no unused confirmation"),
        "{again}"
    );
    assert!(client.end());
    let elsewhere = program::gcwatch(["mcp", "--allow-bursts", "--connect", "http://node7:9464"]);
    assert_eq!(elsewhere.status.code(), Some(2));
}
