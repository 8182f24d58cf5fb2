//! What is reported of some recordings, as people read it.
//!
//! After a change that is meant, run with `GCWATCH_UPDATE_GOLDEN=1` and read the difference.

use gc_telemetry::options::MetricOptions;
use gc_telemetry::prometheus::{Format, exposition};
use opentelemetry_proto::tonic::resource::v1::Resource;
use test_support::golden::compare;

use crate::telemetry::recordings::{Process, all_spans, end, read, series, spans_of, trace};
use crate::telemetry::render;

/// The trees; the attributes of the first collection of each kind of tree.
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

/// Scenario: recordings with blocking collections, background ones with foreground ones in them, stops that collections
/// share, losses, an attach in the middle, a process that was killed, provisional mode, server GC; .NET Core 3.1 to 10.
/// Guarantee: the spans are those of the committed files.
#[test]
fn trees_are_as_committed() {
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

/// Scenario: the same kinds of recordings.
/// Guarantee: the metrics at their end are those of the committed files.
#[test]
fn metrics_are_as_committed() {
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

/// Scenario: a recording at `/metrics`, in both formats.
/// Guarantee: the text is that of the committed files.
#[test]
fn expositions_are_as_committed() {
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
