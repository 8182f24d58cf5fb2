//! The recordings in `tests/recordings`, and the telemetry derived from them.

use std::time::Duration;

use base::time::UnixBase;
use clr_gc::gc::{Collection, Suspension};
use clr_gc::stream::Scope;
use gc_telemetry::options::{MetricOptions, SpanOptions};
use gc_telemetry::series::Series;
use gc_telemetry::spans::{EncodedSpans, NotExported, SpanIds, Tracer};
use opentelemetry_proto::tonic::trace::v1::Span;
use recording::Recording;
use recording::source::Source;
use test_support::recordings;
pub(crate) use test_support::recordings::names;

/// Start of every recording, in nanoseconds since 1970. A fixed start makes golden files independent of the time of the
/// recording.
pub(crate) const BASE_NS: u64 = 1_800_000_000_000_000_000;

/// A process of a recording.
pub(crate) struct Process {
    pub(crate) name: String,
    /// Collections, sorted by their last events. This order is the closest approximation to the order of a live
    /// session.
    pub(crate) collections: Vec<Collection>,
    pub(crate) suspensions: Vec<Suspension>,
    pub(crate) lost_events: Option<u64>,
    pub(crate) observed_ns: i64,
}

pub(crate) fn base() -> UnixBase {
    UnixBase::at(BASE_NS.into())
}

pub(crate) fn read(name: &str) -> Vec<Process> {
    let path = recordings::path(name);
    let recording = Recording::read(&mut Source::open(&path).unwrap(), Scope::Collections, |_| ());
    let (lost_events, observed_ns) = (recording.stream.lost_events, recording.observed_ns);
    let processes = recording.processes.into_iter().enumerate();
    processes
        .map(|(place, (_, history))| {
            let mut collections = history.collections;
            collections.sort_by_key(|collection| collection.last_event);
            Process {
                name: format!("{name}#{place}"),
                collections,
                suspensions: history.suspensions,
                lost_events,
                observed_ns,
            }
        })
        .collect()
}

/// Seed of the ids in golden files.
pub(crate) const SEED: [u8; 16] = *b"a seed for tests";

/// The spans of a collection, or the reason why it was not traced.
pub(crate) type Traced = Result<(SpanIds, EncodedSpans), NotExported>;

/// Returns the spans of all collections of a process.
pub(crate) fn trace(process: &Process, options: SpanOptions) -> Vec<(Collection, Traced)> {
    let mut tracer = Tracer::new(options, SEED);
    let of = |collection: &Collection| (collection.clone(), tracer.trace(collection, base(), &[], false));
    process.collections.iter().map(of).collect()
}

/// Returns options without a minimum pause and without a rate limit, so that every collection has a trace.
pub(crate) fn all_spans() -> SpanOptions {
    SpanOptions {
        min_pause: Duration::ZERO,
        max_per_second: u32::MAX,
        ..SpanOptions::default()
    }
}

/// Returns the spans of a collection; empty if the collection was not selected.
pub(crate) fn spans_of(traced: &Traced) -> Vec<Span> {
    let spans = traced.iter().map(|(_, spans)| spans.decode().unwrap());
    spans.flatten().collect()
}

/// Returns the metrics of the process at the end of the recording.
pub(crate) fn series(process: &Process, options: MetricOptions, spans: SpanOptions) -> Series {
    let mut series = Series::new(options, BASE_NS);
    for (collection, traced) in trace(process, spans) {
        if let Err(why) = traced {
            series.observe_unexported(why);
        }
        series.observe(&collection, base(), traced.ok().map(|(ids, _)| ids));
    }
    for suspension in &process.suspensions {
        series.observe_suspension(suspension);
    }
    if let Some(lost) = process.lost_events {
        series.lost(lost);
    }
    series
}

/// Returns the end of the recording in Unix nanoseconds.
pub(crate) fn end(process: &Process) -> u64 {
    base().unix_ns(process.observed_ns)
}
