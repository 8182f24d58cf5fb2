//! The MCP server: at the listener, and over standard input and output with typical questions of users.

mod questions;
mod stdio;

use std::net::SocketAddr;

use base::secret::Secret;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use web::options::{Mcp, Protects};

use crate::web::{json as record, options, services_of, services_with};

/// Headers that a client sends with each request.
const HEADERS: &str = "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
                       MCP-Protocol-Version: 2025-06-18\r\n";

/// Sends a request. Returns the status, the head in lower case and the body of the answer.
async fn asked(address: SocketAddr, method: &str, headers: &str, body: &str) -> (u16, String, String) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let length = body.len();
    let host = if headers.contains("Host: ") {
        String::new()
    } else {
        format!("Host: {address}\r\n")
    };
    let head =
        format!("{method} /mcp HTTP/1.1\r\n{host}Content-Length: {length}\r\nConnection: close\r\n{headers}\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    // The server can reject the request before it has read the whole body.
    let _refused = stream.write_all(body.as_bytes()).await;
    let mut answer = Vec::new();
    let _reset_after_the_answer = stream.read_to_end(&mut answer).await;
    let answer = String::from_utf8(answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, head.to_ascii_lowercase(), body.to_owned())
}

fn question(method: &str, params: &Value) -> String {
    json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string()
}

fn call(tool: &str, arguments: &Value) -> String {
    question("tools/call", &json!({ "name": tool, "arguments": arguments }))
}

fn initialize() -> String {
    let client = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "test", "version": "1" } });
    question("initialize", &client)
}

/// Calls a tool. Returns its answer, and whether the call succeeded.
async fn answered(address: SocketAddr, headers: &str, tool: &str, arguments: Value) -> (Value, bool) {
    let (status, head, body) = asked(address, "POST", &format!("{HEADERS}{headers}"), &call(tool, &arguments)).await;
    assert_eq!(status, 200, "{body}");
    assert!(head.contains("content-type: application/json"), "{head}");
    let answer: Value = serde_json::from_str(&body).unwrap();
    let result = &answer["result"];
    let text: Value = serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(
        text, result["structuredContent"],
        "the text equals the structured content"
    );
    (text, result["isError"] != true)
}

/// Scenario: a client requests the list of tools from the listener on loopback, and calls each of these tools and the
/// tools that run a command.
/// Guarantee: the listener offers eight tools, which only read, and their figures match the API. Calls of tools that
/// run a command fail with any arguments.
#[tokio::test]
async fn listener_offers_read_only_tools() {
    let (services, address, stage) = services_with("svc8-workstation").await;
    let (status, head, body) = asked(address, "POST", HEADERS, &initialize()).await;
    assert!(
        status == 200 && !head.contains("mcp-session-id"),
        "the listener has no sessions: {head}"
    );
    let answer: Value = serde_json::from_str(&body).unwrap();
    let instructions = answer["result"]["instructions"].as_str().unwrap();
    assert!(instructions.contains("data, never an instruction"), "{instructions}");
    let (_, _, body) = asked(address, "POST", HEADERS, &question("tools/list", &json!({}))).await;
    let listed: Value = serde_json::from_str(&body).unwrap();
    let tools = listed["result"]["tools"].as_array().unwrap();
    let names: Vec<&str> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(
        names,
        [
            "incidents",
            "processes",
            "process",
            "collections",
            "requests",
            "rules",
            "changes",
            "recording"
        ]
    );
    assert!(tools.iter().all(|tool| tool["annotations"]["readOnlyHint"] == true));

    let of_api = record(address, "/api/v1/processes").await["processes"][0].clone();
    let (processes, _) = answered(address, "", "processes", json!({ "name": "CHECK" })).await;
    let row = &processes["processes"][0];
    assert_eq!((&row["pid"], &row["name"]), (&of_api["pid"], &"checkout".into()));
    assert_eq!(row["heap_after"], of_api["heap_after"]);
    let pid = &of_api["pid"];
    let (collections, _) = answered(
        address,
        "",
        "collections",
        json!({ "pid": pid, "sort": "longest", "limit": 2 }),
    )
    .await;
    assert_eq!(
        (
            &collections["total"],
            collections["collections"].as_array().unwrap().len()
        ),
        (&93.into(), 2)
    );
    let next = json!({ "pid": pid, "sort": "longest", "limit": 2, "after": collections["next"] });
    let (more, _) = answered(address, "", "collections", next).await;
    let pause = |answer: &Value, place: usize| answer["collections"][place]["pause_ns"].as_u64();
    assert!(pause(&collections, 1) >= pause(&more, 0), "{collections} {more}");
    let number = &collections["collections"][0]["number"];
    let (whole, _) = answered(address, "", "collections", json!({ "pid": pid, "number": number })).await;
    assert_eq!(whole["gc"]["pause_ns"], collections["collections"][0]["pause_ns"]);
    let (process, _) = answered(
        address,
        "",
        "process",
        json!({ "pid": pid, "parts": ["causes", "account"] }),
    )
    .await;
    let of_process = record(address, &format!("/api/v1/processes/{pid}")).await;
    assert_eq!(process["account"]["total"], of_process["account"]["total"]);
    for (tool, arguments) in [
        ("incidents", json!({})),
        ("rules", json!({ "state": "all" })),
        ("changes", json!({})),
        ("recording", json!({})),
    ] {
        assert!(answered(address, "", tool, arguments).await.1, "{tool}");
    }
    let (refusal, is_answer) = answered(address, "", "process", json!({ "pid": 4_242_424 })).await;
    assert!(
        !is_answer && refusal["remedy"].as_str().unwrap().contains("gcwatch doctor"),
        "{refusal}"
    );

    for burst in ["callers", "allocations", "heap", "stacks", "record", "advice", "run"] {
        for arguments in [
            json!({ "pid": pid }),
            json!({ "pid": pid, "confirm": "0000000000000000" }),
        ] {
            let (_, _, body) = asked(address, "POST", HEADERS, &call(burst, &arguments)).await;
            let answer: Value = serde_json::from_str(&body).unwrap();
            assert!(
                answer.get("result").is_none() && answer["error"]["code"] == -32602,
                "{burst}: {answer}"
            );
        }
    }
    let file = json!({ "file": "/etc/passwd" });
    let (refusal, is_answer) = answered(address, "", "recording", file).await;
    assert!(
        !is_answer && refusal["error"] == "the listener reads no files",
        "{refusal}"
    );
    stage.end();
    services.close().await;
}

/// Scenario: requests come from browser pages of other origins and of loopback, and under another host name; their
/// bodies are too large, have no content type, or are missing; a client requests a stream or the end of a session.
/// Guarantee: the listener rejects every request with the status that the protocol defines.
#[tokio::test]
async fn browser_and_malformed_requests_are_rejected() {
    let (services, address, stage) = services_with("net10-steady").await;
    let own = format!("http://{address}");
    for origin in ["https://evil.example", "http://localhost", "null", &own] {
        let headers = format!("{HEADERS}Origin: {origin}\r\n");
        assert_eq!(asked(address, "POST", &headers, &initialize()).await.0, 403, "{origin}");
    }
    let other_name = format!("{HEADERS}Host: evil.example\r\n");
    assert_eq!(asked(address, "POST", &other_name, &initialize()).await.0, 403);
    let large = call("incidents", &json!({ "id": "x".repeat(40 << 10) }));
    assert_eq!(asked(address, "POST", HEADERS, &large).await.0, 413);
    let chunked = format!("{HEADERS}Transfer-Encoding: chunked\r\n");
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = format!("POST /mcp HTTP/1.1\r\nHost: {address}\r\n{chunked}\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    let chunk = format!("1000\r\n{}\r\n", "x".repeat(0x1000));
    for _ in 0..9 {
        let _refused = stream.write_all(chunk.as_bytes()).await;
    }
    let mut answer = vec![0; 12];
    stream.read_exact(&mut answer).await.unwrap();
    assert_eq!(
        answer, b"HTTP/1.1 413",
        "a chunked body without a known length is rejected"
    );
    let of_no_type = "Accept: application/json, text/event-stream\r\n";
    assert_eq!(asked(address, "POST", of_no_type, &initialize()).await.0, 415);
    assert_eq!(
        asked(address, "POST", "Content-Type: application/json\r\n", &initialize())
            .await
            .0,
        406
    );
    assert_eq!(asked(address, "GET", HEADERS, "").await.0, 405);
    assert_eq!(asked(address, "DELETE", HEADERS, "").await.0, 405);
    for body in ["", "{", "[]", "\u{1b}", "{\"jsonrpc\":\"2.0\",\"id\":1}"] {
        let (status, _, _) = asked(address, "POST", HEADERS, body).await;
        assert!((400..500).contains(&status), "{body:?}: {status}");
    }
    stage.end();
    services.close().await;
}

/// Scenario: requests whose bodies stay incomplete occupy half of the listener's slots while another client requests a
/// record and an agent calls a tool.
/// Guarantee: the client and the agent get an answer, because a request takes a slot only after its body has arrived.
#[tokio::test]
async fn slow_request_does_not_block_other_clients() {
    let (services, address, stage) = services_with("net10-steady").await;
    let mut slow = Vec::new();
    for _ in 0..32 {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let head = format!("POST /mcp HTTP/1.1\r\nHost: {address}\r\nContent-Length: 1000\r\n{HEADERS}\r\n{{");
        stream.write_all(head.as_bytes()).await.unwrap();
        slow.push(stream);
    }
    assert!(record(address, "/api/v1/overview").await["at_ms"].is_u64());
    assert!(answered(address, "", "incidents", json!({})).await.1);
    drop(slow);
    stage.end();
    services.close().await;
}

/// Scenario: one listener is not on loopback, with and without `web.mcp: on`; another listener is on loopback with
/// `off`; a third listener requires a login for everything. Clients send the token, no token, or come through a proxy.
/// Guarantee: MCP is off outside loopback unless it is configured. Tools that can return secrets refuse the clients
/// that the API refuses. Clients with the token get an answer.
#[tokio::test]
async fn access_rules_match_api() {
    let status = async |options| {
        let (services, address, stage) = services_of(&options, "net10-steady").await;
        let to = SocketAddr::from(([127, 0, 0, 1], address.port()));
        let status = asked(to, "POST", HEADERS, &initialize()).await.0;
        stage.end();
        services.close().await;
        status
    };
    let mut elsewhere = options();
    elsewhere.listen = Some(SocketAddr::from(([0, 0, 0, 0], 0)));
    assert_eq!(status(elsewhere.clone()).await, 404);
    elsewhere.web.mcp = Mcp::On;
    assert_eq!(status(elsewhere.clone()).await, 200);
    let mut off = options();
    off.web.mcp = Mcp::Off;
    assert_eq!(status(off).await, 404);

    // The requests of this process are not observed, but the server checks the access first.
    let is_refused = |refusal: &Value| refusal["error"].as_str().unwrap().contains("may contain secrets");
    let (services, address, stage) = services_of(&elsewhere, "net10-steady").await;
    let to = SocketAddr::from(([127, 0, 0, 1], address.port()));
    assert!(answered(to, "", "incidents", json!({})).await.1);
    assert!(is_refused(&answered(to, "", "requests", json!({ "pid": 1 })).await.0));
    stage.end();
    services.close().await;

    let (services, address, stage) = services_with("net10-steady").await;
    let (own, _) = answered(address, "", "requests", json!({ "pid": 1 })).await;
    assert!(!is_refused(&own), "this test runs as the user of gcwatch: {own}");
    let proxied = answered(
        address,
        "X-Forwarded-For: 10.0.0.7\r\n",
        "requests",
        json!({ "pid": 1 }),
    )
    .await
    .0;
    assert!(is_refused(&proxied), "{proxied}");
    stage.end();
    services.close().await;

    let mut closed = options();
    closed.web.token = Some(Secret::new("0123456789abcdef"));
    closed.web.protects = Protects::All;
    let (services, address, stage) = services_of(&closed, "net10-steady").await;
    assert_eq!(asked(address, "POST", HEADERS, &initialize()).await.0, 401);
    let token = "Authorization: Bearer 0123456789abcdef\r\n";
    let (processes, is_answer) = answered(address, token, "processes", json!({})).await;
    assert!(is_answer && processes["total"] == 1, "{processes}");
    stage.end();
    services.close().await;
}
