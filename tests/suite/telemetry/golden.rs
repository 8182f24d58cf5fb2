//! Reported spans and metrics of some recordings, as readable text.
//!
//! After an intended change, run with `GCWATCH_UPDATE_GOLDEN=1` and read the difference.

use gc_telemetry::options::MetricOptions;
use gc_telemetry::prometheus::{Format, exposition};
use opentelemetry_proto::tonic::resource::v1::Resource;
use test_support::golden::compare;

use crate::telemetry::recordings::{Process, all_spans, end, read, series, spans_of, trace};
use crate::telemetry::render;

/// Formats the trees, with attributes for the first collection of each kind of tree.
fn trees(process: &Process, most: usize) -> String {
    let mut seen = Vec::new();
    let mut out = String::new();
    for (collection, traced) in trace(process, all_spans()).iter().take(most) {
        let spans = spans_of(traced);
        let names: Vec<String> = spans.iter().map(|span| span.name.clone()).collect();
        let is_new = !seen.contains(&names);
        if is_new {
            seen.push(names);
        }
        out.push_str(&format!("#{}\n", collection.number));
        out.push_str(&render::tree(&spans, is_new));
    }
    out
}

/// Scenario: recordings contain blocking collections, background collections with foreground collections during them,
/// stops shared by several collections, lost events, an attach during a collection, a killed process, provisional mode
/// and server GC; the runtimes are .NET Core 3.1 to .NET 10.
/// Guarantee: the spans match the committed files.
#[test]
fn trees_match_committed_files() {
    for name in [
        "net10-steady",
        "net10b-attach-in-bgc",
        "net10b-loss",
        "net10b-pmode",
        "net10-threads-server",
        "net8-sigkill",
        "net31-steady",
    ] {
        let reported: String = read(name).iter().map(|process| trees(process, 60)).collect();
        compare(&format!("tests/telemetry/golden/{name}.spans.txt"), &reported);
    }
}

/// Scenario: recordings of the same kinds are played to their end.
/// Guarantee: the metrics match the committed files.
#[test]
fn metrics_match_committed_files() {
    for name in [
        "net10-steady",
        "net10b-attach-in-bgc",
        "net10b-loss",
        "net10-nogc",
        "net31-steady",
    ] {
        let processes = read(name);
        let metrics = |process: &Process| {
            let mut series = series(process, MetricOptions::default(), all_spans());
            render::metrics(&series.cumulative(end(process)))
        };
        let reported: String = processes.iter().map(metrics).collect();
        compare(&format!("tests/telemetry/golden/{name}.metrics.txt"), &reported);
    }
}

/// Scenario: `/metrics` shows a recording in both formats.
/// Guarantee: the text matches the committed files.
#[test]
fn expositions_match_committed_files() {
    let processes = read("net10-steady");
    let process = processes.first().unwrap();
    let mut series = series(process, MetricOptions::default(), all_spans());
    let metrics = series.cumulative(end(process));
    let resource = Resource {
        attributes: crate::telemetry::prometheus::resource(&[
            ("service.name", "shop"),
            ("service.namespace", "market"),
            ("service.instance.id", "0a1b"),
            ("process.pid", "4711"),
            ("host.name", "node-1"),
        ]),
        ..Resource::default()
    };
    for (format, extension) in [(Format::Text, "prom"), (Format::OpenMetrics, "openmetrics")] {
        let mut reported = String::new();
        assert_eq!(exposition(format, &[(&resource, &metrics)], &mut reported), 0);
        compare(&format!("tests/telemetry/golden/net10-steady.{extension}"), &reported);
    }
}
