//! What other people's OTLP decoders read of what gcwatch sends.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "tests may fail by panicking"
)]

#[path = "receivers/mod.rs"]
mod receivers;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use self::receivers::MockReceiver;

const RECORDING: &str = "net10-steady";

fn recording() -> PathBuf {
    let name = format!("tests/recordings/{RECORDING}.nettrace.gz");
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// Collections of the recording: number and generation.
fn truth() -> BTreeMap<i64, i64> {
    let output = Command::new(env!("CARGO_BIN_EXE_gcwatch"))
        .args(["analyze", "--no-rules", "--format", "ndjson"])
        .arg(recording())
        .output()
        .unwrap();
    let lines = String::from_utf8(output.stdout).unwrap();
    let records = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    records
        .filter(|record| record["kind"] == "gc")
        .map(|gc| (gc["number"].as_i64().unwrap(), gc["generation"].as_i64().unwrap()))
        .collect()
}

/// Everything at the end of a path of lists, in all requests of a signal.
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
    let Some(receiver) = MockReceiver::start() else { return };
    let endpoint = if form == "grpc" { &receiver.grpc } else { &receiver.http };
    let output = Command::new(env!("CARGO_BIN_EXE_gcwatch"))
        .args(["replay", "--protocol", form, "--endpoint", endpoint])
        .arg(recording())
        .env_remove("GCWATCH_CONFIG")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let requests = receiver.into_requests();
    let failed: Vec<_> = requests.iter().filter(|(signal, _)| signal == "failed").collect();
    assert!(failed.is_empty(), "{form}: {failed:?}");

    let truth = truth();
    let spans = all(&requests, "traces", ["resourceSpans", "scopeSpans", "spans"]);
    let number = |span: &Value| match &span["attributes"]["dotnet.gc.number"] {
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
        "{form}: a root span for each collection"
    );
    let names: BTreeSet<&str> = all(&requests, "metrics", ["resourceMetrics", "scopeMetrics", "metrics"])
        .iter()
        .filter_map(|metric| metric["name"].as_str())
        .collect();
    for name in ["dotnet.gc.collections", "dotnet.gc.pause.duration"] {
        assert!(names.contains(name), "{form}: {names:?}");
    }
}

/// Scenario: a recording goes to a receiver of grpc-js and protobufjs over gRPC.
/// Guarantee: it reads a root span for each collection, and the metrics.
#[test]
fn grpc_is_read_by_others() {
    replay_to("grpc");
}

/// Scenario: the same over HTTP with protobuf.
/// Guarantee: the same.
#[test]
fn http_protobuf_is_read_by_others() {
    replay_to("http/protobuf");
}
