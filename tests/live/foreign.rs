//! gcwatch's OTLP output, read by decoders of other projects.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use test_support::harness::Tests;
use test_support::mock::MockReceiver;
use test_support::program::{gcwatch, records, select_kind, written};
use test_support::scene::Scene;
use test_support::{add_tests, recordings};

pub(crate) fn tests(tests: &mut Tests) {
    add_tests!(tests, MockReceiver::need; grpc_is_read_by_other_decoders, http_protobuf_is_read_by_other_decoders);
}

fn recording() -> String {
    recordings::file("net10-steady")
}

/// Returns the number and generation of each collection in the recording.
fn truth() -> BTreeMap<i64, i64> {
    let records = records(["analyze", "--no-rules", "--format", "ndjson", &recording()]);
    select_kind(&records, "gc")
        .into_iter()
        .map(|gc| (gc["number"].as_i64().unwrap(), gc["generation"].as_i64().unwrap()))
        .collect()
}

/// Returns the elements of nested lists from all requests of a signal. `path` has the key of each list, from the
/// outermost to the innermost list.
fn all<'a>(requests: &'a [(String, Value)], signal: &str, path: [&str; 3]) -> Vec<&'a Value> {
    let bodies = requests.iter().filter(|(of, _)| of == signal).map(|(_, body)| body);
    path.iter().fold(bodies.collect(), |values: Vec<&Value>, key| {
        values
            .into_iter()
            .filter_map(|value| value[key].as_array())
            .flatten()
            .collect()
    })
}

fn replay_to(form: &str) {
    let receiver = MockReceiver::start();
    let endpoint = if form == "grpc" { &receiver.grpc } else { &receiver.http };
    let scene = Scene::begin();
    let config = scene.path("gcwatch.yaml");
    std::fs::write(&config, "spans: {min_pause: 0s}\n").unwrap();
    let args = [
        "replay",
        "--protocol",
        form,
        "--endpoint",
        endpoint,
        "--config",
        &config,
        &recording(),
    ];
    written(gcwatch(args));
    let requests = receiver.into_requests();
    let failed: Vec<_> = requests.iter().filter(|(signal, _)| signal == "failed").collect();
    assert!(failed.is_empty(), "{form}: {failed:?}");

    let truth = truth();
    let spans = all(&requests, "traces", ["resourceSpans", "scopeSpans", "spans"]);
    let number = |span: &Value| match &span["attributes"]["gcwatch.gc.number"] {
        Value::String(text) => text.parse().ok(),
        other => other.as_i64(),
    };
    let roots: BTreeSet<i64> = spans
        .iter()
        .filter(|span| span["parentSpanId"].as_str().unwrap_or_default().is_empty())
        .filter_map(|span| number(span))
        .collect();
    assert_eq!(
        roots,
        truth.keys().copied().collect(),
        "{form}: each collection has a root span"
    );
    let names: BTreeSet<&str> = all(&requests, "metrics", ["resourceMetrics", "scopeMetrics", "metrics"])
        .iter()
        .filter_map(|metric| metric["name"].as_str())
        .collect();
    for name in ["dotnet.gc.collections", "gcwatch.gc.pause.duration"] {
        assert!(names.contains(name), "{form}: {names:?}");
    }
}

/// Scenario: a recording is sent over gRPC to a receiver based on grpc-js and protobufjs.
/// Guarantee: the receiver reads a root span for each collection, and the metrics.
fn grpc_is_read_by_other_decoders() {
    replay_to("grpc");
}

/// Scenario: a recording is sent to the same receiver over HTTP with protobuf.
/// Guarantee: the receiver reads a root span for each collection, and the metrics.
fn http_protobuf_is_read_by_other_decoders() {
    replay_to("http/protobuf");
}
