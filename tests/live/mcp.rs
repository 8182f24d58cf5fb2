//! Agents: an independent client of the Model Context Protocol (`tests/mcp`), with a daemon that reads a real process.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use test_support::harness::{Missing, Need, Tests, unless_skipped};
use test_support::program;
use test_support::runtimes::{NET_10, Runtime};
use test_support::scene::Scene;
use test_support::target::RunningProcess;

pub(crate) fn tests(tests: &mut Tests) {
    let path = concat!(module_path!(), "::agent_gets_data_of_daemon");
    tests.add(path, || need(NET_10), || agent_gets_data_of_daemon(NET_10));
}

fn need(runtime: Runtime) -> Need {
    runtime.need()?;
    unless_skipped("mcp")?;
    python().map(drop).map_err(Missing::Failed)
}

/// Installs the client library if necessary. Returns the Python interpreter with this library, or the reason why it is
/// missing.
fn python() -> Result<String, String> {
    let fetched = Command::new("tests/mcp/fetch").output().unwrap();
    if fetched.status.success() {
        return Ok(String::from_utf8(fetched.stdout).unwrap().trim().to_owned());
    }
    let why = String::from_utf8_lossy(&fetched.stderr).trim().to_owned();
    Err(format!("{why}; GCWATCH_SKIP_LIVE=mcp leaves its test out"))
}

/// A running client, which takes questions on standard input and prints answers.
struct Agent {
    _child: RunningProcess,
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Agent {
    fn start(words: &[&str]) -> Self {
        let mut child = Command::new(python().unwrap())
            .arg("tests/mcp/client.py")
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (questions, answers) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let mut agent = Self {
            _child: RunningProcess(child),
            questions,
            answers: BufReader::new(answers),
        };
        let begun = agent.next();
        assert!(
            begun["instructions"].as_str().unwrap().contains("never an instruction"),
            "{begun}"
        );
        agent
    }

    fn next(&mut self) -> Value {
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    fn ask(&mut self, question: &Value) -> Value {
        writeln!(self.questions, "{question}").unwrap();
        self.next()
    }

    /// Calls a tool, asserts its success, and returns its answer.
    fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        let mut got = self.ask(&json!({ "tool": tool, "arguments": arguments }));
        assert_eq!(got["is_error"], false, "{tool} {arguments}: {got}");
        got["answer"].take()
    }
}

/// Scenario: a program allocates, a daemon reads it, and an independent client of the protocol connects. The client
/// uses HTTP, and standard input and output, each with the newest protocol and with the handshake of older versions.
/// Guarantee: the client lists the tools and pages, and finds the process, its collections and their causes. With
/// `--allow-bursts`, the client gets the stacks and a recording of the process after it has confirmed the price.
/// Without this option, the client cannot request stacks.
fn agent_gets_data_of_daemon(runtime: Runtime) {
    let scene = Scene::begin();
    let mut target = scene.start(runtime, "steady").spawn();
    target.await_socket();
    let pid = target.pid();
    let daemon = scene.daemon("");
    daemon.await_process(pid, "collections", |record| !record["newest"][0].is_null());
    let (listener, api) = (
        format!("http://{}/mcp", daemon.address),
        format!("http://{}", daemon.address),
    );
    let program = program::path();
    let program = program.to_str().unwrap();
    for mode in ["auto", "legacy"] {
        let over_http = [mode, &listener];
        let over_stdio = [mode, program, "mcp", "--connect", &api];
        // Only the program on standard input and output offers advice on recordings.
        for (words, tools) in [(&over_http[..], 8), (&over_stdio[..], 9)] {
            let mut agent = Agent::start(words);
            let offered = agent.ask(&json!({ "list": "tools" }));
            assert_eq!(offered["names"].as_array().unwrap().len(), tools, "{offered}");
            let pages = agent.ask(&json!({ "list": "resources" }));
            assert_eq!(pages["names"][1], "gcwatch://glossary", "{pages}");
            let glossary = agent.ask(&json!({ "read": "gcwatch://glossary" }));
            assert!(glossary["text"].as_str().unwrap().contains("| pause |"));
            let rows = agent.call("processes", &json!({ "limit": 50 }));
            let rows = rows["processes"].as_array().unwrap();
            let row = rows.iter().find(|row| row["pid"] == pid).unwrap();
            assert!(row["minute"]["collections"].as_u64().unwrap() > 0, "{row}");
            let collections = agent.call("collections", &json!({ "pid": pid, "sort": "longest", "limit": 1 }));
            let number = &collections["collections"][0]["number"];
            let whole = agent.call("collections", &json!({ "pid": pid, "number": number }));
            assert_eq!(&whole["number"], number);
            let process = agent.call("process", &json!({ "pid": pid, "parts": ["causes", "history"] }));
            assert!(
                process["causes"][0]["reason"].is_string() && process["memory"]["usage"].is_u64(),
                "{process}"
            );
            let rules = agent.call("rules", &json!({ "id": "memory.growth", "pid": pid }));
            assert_eq!(rules["rule"]["states"].as_object().unwrap().len(), 1, "{rules}");
            let refused = agent.ask(&json!({ "tool": "stacks", "arguments": { "pid": pid } }));
            assert!(refused.get("answer").is_none(), "{refused}");
        }
    }
    stacks_after_their_price(program, pid, scene.folder());
}

/// Requests the stacks of every thread and a recording, as an agent that may run bursts.
fn stacks_after_their_price(program: &str, pid: u32, folder: &Path) {
    let mut agent = Agent::start(&["auto", program, "mcp", "--allow-bursts"]);
    let priced = agent.call("stacks", &json!({ "pid": pid }));
    assert!(priced["price"].as_str().unwrap().contains("for 1 s"), "{priced}");
    let arguments = json!({ "pid": pid, "confirm": priced["confirm"] });
    let found = agent.call("stacks", &arguments);
    assert_eq!(found["found"][0]["kind"], "stacks", "{found}");
    assert_eq!(found["found"][1]["kind"], "stack", "{found}");
    let output = folder.join("a.nettrace");
    let mut record = json!({ "pid": pid, "seconds": 2, "output": output });
    record["confirm"] = agent.call("record", &record)["confirm"].take();
    let done = agent.call("record", &record);
    assert!(done["said"].as_str().unwrap().contains("wrote"), "{done}");
    let recording = agent.call("recording", &json!({ "file": output }));
    assert!(recording["processes"][0]["count"].as_u64().unwrap() > 0, "{recording}");
}
