//! Ten typical questions of users, and the calls with which an agent answers them: at most three per question.
//!
//! The listener is a stub with the recorded answers of a daemon about five web services (`tests/mcp/state.json.gz`,
//! recorded by `tests/mcp/record`), so that every answer is reproducible. `tests/mcp/questions.txt` contains the calls
//! and answers.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

use flate2::read::GzDecoder;
use serde_json::{Value, json};

use super::stdio::Client;

/// Answers of the API by path.
type State = BTreeMap<String, Value>;

/// Serves the recorded answers until the test process exits. Returns the URL of the listener.
fn listener() -> String {
    let file = File::open("tests/mcp/state.json.gz").unwrap();
    let state: Arc<State> = Arc::new(serde_json::from_reader(GzDecoder::new(file)).unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let state = Arc::clone(&state);
            std::thread::spawn(move || answer(stream, &state));
        }
    });
    format!("http://{address}")
}

fn answer(mut stream: TcpStream, state: &State) {
    let mut lines = BufReader::new(stream.try_clone().unwrap())
        .lines()
        .map_while(Result::ok);
    while let Some(first) = lines.next() {
        let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
        // Skip the rest of the head.
        while lines.next().is_some_and(|line| !line.is_empty()) {}
        let (status, body) = match state.get(&path) {
            Some(record) => ("200 OK", record.to_string()),
            None => (
                "404 Not Found",
                json!({ "error": format!("nothing was recorded at {path}") }).to_string(),
            ),
        };
        let length = body.len();
        if write!(stream, "HTTP/1.1 {status}\r\nContent-Length: {length}\r\n\r\n{body}").is_err() {
            return;
        }
    }
}

/// A call: a tool and its arguments. A string `$N/a/b` stands for the value at `/a/b` in the answer of call N.
type Call = (&'static str, Value);

/// A question, its calls, and the path of the result in the last answer.
struct Question {
    asked: &'static str,
    calls: Vec<Call>,
    answered_at: &'static str,
}

fn questions() -> Vec<Question> {
    let question = |asked, answered_at, calls| Question {
        asked,
        calls,
        answered_at,
    };
    let named = |name: &str| ("processes", json!({ "name": name, "limit": 1 }));
    let pid = "$1/processes/0/pid";
    vec![
        question(
            "What is wrong right now?",
            "/incidents/0/title",
            vec![("incidents", json!({ "state": "open" }))],
        ),
        question(
            "Which service was stopped longest since the deploy, five minutes ago?",
            "/processes/0/since/stopped_ns",
            vec![("processes", json!({ "since": "5m", "limit": 3 }))],
        ),
        question(
            "Is the leak in catalog native?",
            "/memory/growth_per_minute_by_line/native",
            vec![named("catalog"), ("process", json!({ "pid": pid }))],
        ),
        question(
            "Why is search slow?",
            "/incident/account/parts/0/title",
            vec![
                ("incidents", json!({ "name": "search" })),
                ("incidents", json!({ "id": "$1/incidents/0/id" })),
            ],
        ),
        question(
            "What was the longest pause of search, and what was it spent on?",
            "/gc/account/roots.stacks",
            vec![
                named("search"),
                ("collections", json!({ "pid": pid, "sort": "longest", "limit": 1 })),
                (
                    "collections",
                    json!({ "pid": pid, "number": "$2/collections/0/number" }),
                ),
            ],
        ),
        question(
            "Did users of search notice?",
            "/totals/hit",
            vec![named("search"), ("requests", json!({ "pid": pid, "limit": 2 }))],
        ),
        question(
            "Does anybody call GC.Collect in reports?",
            "/causes/0/reason",
            vec![
                named("reports"),
                ("process", json!({ "pid": pid, "parts": ["causes"] })),
            ],
        ),
        question(
            "When did the memory of orders begin to grow?",
            "/history/heap_after/2",
            vec![
                named("orders"),
                (
                    "process",
                    json!({ "pid": pid, "parts": ["history"], "resolution": "1m" }),
                ),
            ],
        ),
        question(
            "Why is there no incident for the memory of checkout?",
            "/rule/states",
            vec![
                named("checkout"),
                ("rules", json!({ "id": "memory.growth", "pid": pid })),
            ],
        ),
        question(
            "What does this recording show?",
            "/processes/0/incidents/0/title",
            vec![(
                "recording",
                json!({ "file": "tests/recordings/net10-lohoos.nettrace.gz", "limit": 3 }),
            )],
        ),
    ]
}

/// Returns the arguments with references replaced by values of earlier answers.
fn resolved(value: &Value, answers: &[Value]) -> Value {
    match value {
        Value::String(text) => match text.strip_prefix('$').and_then(|path| path.split_once('/')) {
            Some((number, path)) => {
                let answer = &answers[number.parse::<usize>().unwrap() - 1];
                answer
                    .pointer(&format!("/{path}"))
                    .unwrap_or_else(|| panic!("{text}: {answer}"))
                    .clone()
            }
            None => value.clone(),
        },
        Value::Object(fields) => fields
            .iter()
            .map(|(name, value)| (name.clone(), resolved(value, answers)))
            .collect(),
        other => other.clone(),
    }
}

/// Formats an answer with one line per field and per list item.
fn shown(answer: &Value) -> String {
    let mut lines = String::new();
    for (name, value) in answer.as_object().unwrap() {
        match value
            .as_array()
            .filter(|values| values.first().is_some_and(Value::is_object))
        {
            Some(values) => {
                writeln!(lines, "  {name}:").unwrap();
                values.iter().for_each(|value| writeln!(lines, "    {value}").unwrap());
            }
            None => writeln!(lines, "  {name}: {value}").unwrap(),
        }
    }
    lines
}

/// Approximate number of bytes per token.
const BYTES_OF_A_TOKEN: usize = 4;

/// Scenario: an agent asks ten questions over standard input and output.
/// Guarantee: at most three calls answer each question, each with fewer than 1,300 tokens. Calls and answers match the
/// golden file.
#[test]
fn ten_questions_are_answered() {
    let mut client = Client::start(&["--connect", &listener()]);
    let mut text = String::new();
    for Question {
        asked,
        calls,
        answered_at,
    } in questions()
    {
        writeln!(text, "# {asked}\n").unwrap();
        assert!(calls.len() <= 3, "{asked}");
        let mut answers: Vec<Value> = Vec::new();
        for (tool, arguments) in &calls {
            let arguments = resolved(arguments, &answers);
            let (answer, is_answer) = client.call(tool, &arguments);
            assert!(is_answer, "{asked} {tool} {arguments}: {answer}");
            let tokens = answer.to_string().len() / BYTES_OF_A_TOKEN;
            assert!(tokens < 1300, "{asked} {tool}: {tokens} tokens");
            writeln!(text, "{tool} {arguments}\nabout {tokens} tokens\n{}", shown(&answer)).unwrap();
            answers.push(answer);
        }
        let last = answers.last().unwrap();
        let found = last
            .pointer(answered_at)
            .unwrap_or_else(|| panic!("{asked} {answered_at}: {last}"));
        writeln!(text, "=> {answered_at}: {found}\n").unwrap();
    }
    assert!(client.end());
    test_support::golden::compare("tests/mcp/questions.txt", &text);
}
