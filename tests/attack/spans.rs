//! Whoever sends spans is never held up, and cannot make the daemon large.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use prost::Message as _;
use test_support::add_tests;
use test_support::harness::Tests;
use test_support::target::PATIENCE;

use crate::serving::Serving;

pub(crate) fn tests(tests: &mut Tests) {
    add_tests!(tests, || Ok(()); senders_are_never_held_up);
}

/// Nothing has this mark.
const NOTHING: &str = "none";
/// Senders at once.
const SENDERS: usize = 48;
/// Spans of one export: with it, a body just below the limit of 4 MiB.
const SPANS: usize = 30_000;
/// What the bodies that are read may take (16 MiB), what is read ahead of those that wait, and the allocator's rest.
const MOST_MORE_KIB: u64 = 64 << 10;

/// An export of a service's requests.
fn export() -> Vec<u8> {
    let span = |number: usize| Span {
        trace_id: vec![7; 16],
        span_id: number.to_le_bytes().to_vec(),
        name: "GET /orders/{id}".to_owned(),
        kind: 2,
        start_time_unix_nano: 1_700_000_000_000_000_000,
        end_time_unix_nano: 1_700_000_000_020_000_000,
        trace_state: "x".repeat(40),
        ..Span::default()
    };
    let pid = KeyValue {
        key: "process.pid".to_owned(),
        value: Some(AnyValue {
            value: Some(any_value::Value::IntValue(1)),
        }),
        ..KeyValue::default()
    };
    let request = ExportTraceServiceRequest {
        resource_spans: vec![ResourceSpans {
            resource: Some(Resource {
                attributes: vec![pid],
                ..Resource::default()
            }),
            scope_spans: vec![ScopeSpans {
                spans: (0..SPANS).map(span).collect(),
                ..ScopeSpans::default()
            }],
            ..ResourceSpans::default()
        }],
    };
    let body = request.encode_to_vec();
    assert!((3 << 20..4 << 20).contains(&body.len()), "{}", body.len());
    body
}

fn head(length: usize) -> String {
    format!(
        "POST /v1/traces HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-protobuf\r\nContent-Length: {length}\r\n\r\n"
    )
}

/// Sends one export; the status of the answer, and how long it took.
fn send(stream: &mut TcpStream, body: &[u8]) -> (u16, Duration) {
    let begun = Instant::now();
    stream.write_all(head(body.len()).as_bytes()).unwrap();
    stream.write_all(body).unwrap();
    let (mut answer, mut piece) = (Vec::new(), [0; 1024]);
    // The answer of protobuf is empty, or a few bytes.
    while !answer.windows(4).any(|bytes| bytes == b"\r\n\r\n") {
        let count = stream.read(&mut piece).unwrap();
        assert!(count > 0, "closed: {}", String::from_utf8_lossy(&answer));
        answer.extend_from_slice(&piece[..count]);
    }
    let text = String::from_utf8_lossy(&answer);
    (text.split(' ').nth(1).unwrap().parse().unwrap(), begun.elapsed())
}

fn rss_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

/// Scenario: 48 senders, each one export of nearly 4 MiB after the other, and eight that stop in the middle of one.
/// Guarantee: every export is answered with success within 10 s, what found no memory is counted, the daemon grows by a
/// bounded amount, and is healthy; afterwards a small export is answered at once.
fn senders_are_never_held_up() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let keys = format!("requests:\n  mode: otlp\n  otlp: {{listen: \"127.0.0.1:{port}\"}}\n");
    let mut daemon = Serving::start(NOTHING, &keys);
    daemon.await_line("listening for spans");
    let before = rss_kib(daemon.pid());
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let body = Arc::new(export());
    let stopped: Vec<TcpStream> = (0..8)
        .map(|_| {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(head(body.len()).as_bytes()).unwrap();
            stream.write_all(&body[..body.len() / 2]).unwrap();
            stream
        })
        .collect();
    let over = Arc::new(AtomicBool::new(false));
    let senders: Vec<_> = (0..SENDERS)
        .map(|_| {
            let (over, body) = (Arc::clone(&over), Arc::clone(&body));
            std::thread::spawn(move || {
                let mut stream = TcpStream::connect(address).unwrap();
                stream.set_read_timeout(Some(PATIENCE)).unwrap();
                let (mut sent, mut longest) = (0_u64, Duration::ZERO);
                while !over.load(Ordering::Relaxed) {
                    let (status, took) = send(&mut stream, &body);
                    assert_eq!(status, 200);
                    sent += 1;
                    longest = longest.max(took);
                }
                (sent, longest)
            })
        })
        .collect();
    let since = Instant::now();
    while since.elapsed() < Duration::from_secs(5) {
        assert_eq!(daemon.get("/livez").0, 200);
        std::thread::sleep(Duration::from_millis(100));
    }
    over.store(true, Ordering::Relaxed);
    let results: Vec<(u64, Duration)> = senders.into_iter().map(|sender| sender.join().unwrap()).collect();
    let sent: u64 = results.iter().map(|(sent, _)| sent).sum();
    let longest = results.iter().map(|(_, longest)| *longest).max().unwrap();
    let more = rss_kib(daemon.pid()).saturating_sub(before);
    println!(
        "{sent} exports of {} bytes, the slowest {longest:?}, {more} KiB more",
        body.len()
    );
    assert!(sent >= SENDERS as u64, "{sent}");
    assert!(longest < Duration::from_secs(10), "{longest:?}");
    assert!(more < MOST_MORE_KIB, "{more} KiB");
    assert!(daemon.metric("gcwatch_intake_exports_dropped_total").unwrap_or(0.0) > 0.0);
    drop(stopped);
    let small = ExportTraceServiceRequest::default().encode_to_vec();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    assert_eq!(send(&mut stream, &small).0, 200);
}
