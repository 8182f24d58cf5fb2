//! Measures the throughput of each step of `gcwatch analyze --format ndjson` separately: decoding the stream,
//! rebuilding its collections, evaluating the shipped rules, and printing the records of the collections.
//!
//! ```text
//! cargo bench --bench analyze
//! GCWATCH_BENCH_RECORDING=big.nettrace cargo bench --bench analyze
//! ```
//!
//! The bench reads three recordings of the repository and the nettrace file that `GCWATCH_BENCH_RECORDING` names.
//! Decoding, rebuilding and the rules count the bytes of the recording, so their times can be compared. Printing counts
//! the bytes that it writes. docs/performance.md has measured figures.

use std::io::{self, Read as _, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use api::gc::{GcRecord, Subject};
use base::time::{TimeBase, Wall};
use clr_gc::event::{Layout, decode};
use clr_gc::gc::{Collection, Machine, Outcome, ReportTiming};
use clr_gc::stream::{GcStream, Scope};
use divan::counter::BytesCount;
use divan::{Bencher, black_box};
use flate2::read::GzDecoder;
use incidents::review::{History, Review};
use nettrace::{Decoder, Item, Options, TraceHeader};
use report::table::{Escape, Folding};
use rule_engine::field::ProcessFacts;
use rule_language::load::{load, shipped};

/// Number of bytes per read, as in the command.
const PIECE: usize = 256 << 10;

fn main() {
    divan::main();
}

/// Returns the paths of the recordings.
fn recordings() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recordings");
    let shipped = ["rules/net31-lohoos", "net10-lohoos", "net10-steady-verbose"];
    let shipped = shipped.map(|name| folder.join(format!("{name}.nettrace.gz")));
    let given = std::env::var_os("GCWATCH_BENCH_RECORDING").map(PathBuf::from);
    let paths = shipped.into_iter().chain(given);
    paths.map(|path| path.to_string_lossy().into_owned()).collect()
}

/// An event of the scope of `analyze`, with a copy of its payload.
struct RetainedEvent {
    layout: Layout,
    at: i64,
    thread: u64,
    payload: Vec<u8>,
}

/// A recording, and the input of each step.
struct Recorded {
    bytes: Vec<u8>,
    header: TraceHeader,
    events: Vec<RetainedEvent>,
    collections: Vec<Collection>,
}

impl Recorded {
    fn read(path: &str) -> Self {
        let failed = |error: io::Error| -> Vec<u8> { panic!("{path}: {error}") };
        let mut bytes = std::fs::read(path).unwrap_or_else(failed);
        if bytes.starts_with(&[0x1f, 0x8b]) {
            let mut unpacked = Vec::new();
            let read = GzDecoder::new(&bytes[..]).read_to_end(&mut unpacked);
            bytes = read.map_or_else(failed, |_| unpacked);
        }
        let mut events = Vec::new();
        let mut stream = GcStream::new(Scope::Collections, ReportTiming::AtTheEnd);
        stream.push(&bytes);
        stream.finish();
        let read = stream.advance(|observed| {
            events.extend(observed.layout.map(|layout| RetainedEvent {
                layout,
                at: observed.at,
                thread: observed.event.thread,
                payload: observed.event.payload.to_vec(),
            }));
        });
        let header = match (read, stream.header()) {
            (Ok(_), Some(header)) => header.clone(),
            (read, _) => panic!("{path}: {read:?}"),
        };
        let collections = rebuilt(&events, &header);
        Self {
            bytes,
            header,
            events,
            collections,
        }
    }
}

/// Decodes the events that collections are rebuilt from, and returns the number of these events.
fn decoded(bytes: &[u8], wanted: &[Layout]) -> u64 {
    let wanted = wanted.to_vec();
    let mut decoder = Decoder::new(Options {
        interest: Box::new(move |metadata| {
            let layout = Layout::find(&metadata.provider, metadata.event_id, metadata.version)?;
            wanted.contains(&layout).then(|| layout.to_tag())
        }),
        ..Options::default()
    });
    let take = |decoder: &mut Decoder| {
        while let Some(item) = decoder.next_item().unwrap_or_else(|error| panic!("{error}")) {
            if let Item::Event(event) = item {
                black_box(&event);
            }
        }
    };
    for piece in bytes.chunks(PIECE) {
        decoder.space(piece.len())[..piece.len()].copy_from_slice(piece);
        decoder.filled(piece.len());
        take(&mut decoder);
    }
    decoder.finish();
    take(&mut decoder);
    decoder.stats().delivered
}

/// Rebuilds the collections from decoded events.
fn rebuilt(events: &[RetainedEvent], header: &TraceHeader) -> Vec<Collection> {
    let mut machine = Machine::new(None, ReportTiming::AtTheEnd);
    for event in events {
        if let Ok(clr) = decode(event.layout, &event.payload, header.pointer_size) {
            machine.observe(event.at, event.thread, &clr);
        }
    }
    machine.finish();
    let outcomes = std::iter::from_fn(|| machine.next_outcome());
    let collections = outcomes.filter_map(|outcome| match outcome {
        Outcome::Collection(collection) => Some(*collection),
        Outcome::Suspension(_) => None,
    });
    collections.collect()
}

fn base(header: &TraceHeader) -> TimeBase {
    TimeBase::at(header.unix_ns_of_offset(0).unwrap_or(0))
}

/// Prints the records of the collections, and returns the output.
fn printed<W: Write>(collections: &[Collection], header: &TraceHeader, out: W) -> W {
    let mut out = Folding::new(out, None, Escape::Json);
    let subject = Subject {
        pid: header.process_id.map(u64::from),
        clr_instance: Some(0),
    };
    let base = base(header);
    let written = collections.iter().try_for_each(|collection| {
        let start = collection
            .start
            .and_then(|start| Wall::UNIX.rfc3339(base.moment(start)));
        out.record(&GcRecord::new(subject, collection, start))
    });
    let finished = written.and_then(|()| out.finish());
    finished.unwrap_or_else(|error| panic!("{error}"))
}

/// Decodes bytes to events.
#[divan::bench(args = recordings())]
fn decoding(bencher: Bencher<'_, '_>, path: &str) {
    let recorded = Recorded::read(path);
    let mut wanted: Vec<Layout> = Vec::new();
    for event in &recorded.events {
        if !wanted.contains(&event.layout) {
            wanted.push(event.layout);
        }
    }
    bencher
        .counter(BytesCount::of_slice(&recorded.bytes))
        .bench(|| decoded(black_box(&recorded.bytes), &wanted));
}

/// Rebuilds collections from events.
#[divan::bench(args = recordings())]
fn rebuilding(bencher: Bencher<'_, '_>, path: &str) {
    let recorded = Recorded::read(path);
    bencher
        .counter(BytesCount::of_slice(&recorded.bytes))
        .bench(|| rebuilt(black_box(&recorded.events), &recorded.header).len());
}

/// Evaluates the shipped rules on collections.
#[divan::bench(args = recordings())]
fn rules(bencher: Bencher<'_, '_>, path: &str) {
    let recorded = Recorded::read(path);
    let rules = match load(&shipped()) {
        Ok(loaded) => Arc::new(loaded.rules),
        Err(problems) => panic!("{} errors in the built-in rules", problems.len()),
    };
    let base = base(&recorded.header);
    let last = recorded
        .collections
        .iter()
        .map(|collection| collection.last_event)
        .max();
    bencher.counter(BytesCount::of_slice(&recorded.bytes)).bench(|| {
        let history = History {
            collections: black_box(&recorded.collections),
            ..History::default()
        };
        let facts = ProcessFacts::default();
        let review = Review::for_recording(Arc::clone(&rules), facts, base, history, last.unwrap_or(0), Some(0));
        review.alerts().count()
    });
}

/// Prints collections as lines of JSON.
#[divan::bench(args = recordings())]
fn printing(bencher: Bencher<'_, '_>, path: &str) {
    let recorded = Recorded::read(path);
    let (collections, header) = (&recorded.collections, &recorded.header);
    let output = printed(collections, header, Vec::new());
    bencher
        .counter(BytesCount::of_slice(&output))
        .bench(|| printed(black_box(collections), header, io::sink()));
}
