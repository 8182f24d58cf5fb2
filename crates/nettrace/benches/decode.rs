//! Measures the speed of decoding on one core.
//!
//! The environment variable `GCWATCH_BENCH_RECORDING` names the file with the long stream. If it is unset, a stream of
//! 20 MB is built by repeating the events of a Verbose recording of the repository (75 bytes per event). Each run feeds
//! the stream through [`Decoder::space`] in chunks of 256 KiB, like a file reader, so the time includes one copy of
//! every byte.
//!
//! Medians on a virtual machine with two cores (`lscpu`: AMD EPYC, family 25, model 17; 64 KiB of L1d each), of which
//! one is used, for a .NET 10 recording with 269,998 events in 20.3 MB:
//!
//! | | time | bytes | events |
//! |---|---|---|---|
//! | its GC events, by time | 3.6 ms | 5.6 GB/s | 75 million/s |
//! | no events: only counting and loss detection | 2.8 ms | 7.2 GB/s | 96 million/s |
//! | all events, by time | 16.5 ms | 1.2 GB/s | 16 million/s |
//! | all events, in file order | 12.7 ms | 1.6 GB/s | 21 million/s |
//! | a recording of the default profile (82 KB), all events, by time | 77 us | 1.1 GB/s | 17 million/s |
//! | writing a Verbose recording | 1.5 ms | 0.58 GB/s | |
//!
//! For the first four rows, the generated stream reaches 5.6, 7.2, 1.5 and 1.6 GB/s. For comparison, TraceEvent 4.0.0
//! reads the .NET 10 recording at 310 MB/s.
#![expect(clippy::unwrap_used, reason = "a bench may panic")]

use std::io::Read;
use std::sync::LazyLock;

use divan::counter::{BytesCount, ItemsCount};
use divan::{Bencher, black_box};
use nettrace::encode::{Encoder, EventRecord};
use nettrace::{Decoder, Interest, Item, Metadata, Options, Order, TraceHeader};

fn main() {
    divan::main();
}

/// Chunk size of a file reader, in bytes.
const PIECE: usize = 256 << 10;

/// Minimum length of the generated stream, in bytes.
const MADE_BYTES: usize = 20 << 20;

/// The events from which gcwatch reconstructs collections.
const GC_EVENTS: [u32; 11] = [1, 2, 3, 4, 7, 8, 9, 35, 39, 204, 205];

static LONG: LazyLock<Vec<u8>> = LazyLock::new(|| match std::env::var_os("GCWATCH_BENCH_RECORDING") {
    Some(path) => std::fs::read(path).unwrap(),
    None => repeat(&recording("net10-steady-verbose"), MADE_BYTES),
});

/// Reads and decompresses a recording of the repository.
fn recording(name: &str) -> Vec<u8> {
    let path = format!(
        "{}/../../tests/recordings/{name}.nettrace.gz",
        env!("CARGO_MANIFEST_DIR")
    );
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(std::fs::File::open(path).unwrap())
        .read_to_end(&mut bytes)
        .unwrap();
    bytes
}

/// An event with its payload.
struct StoredEvent {
    metadata: Metadata,
    sequence: u32,
    thread: u64,
    timestamp: i64,
    is_sorted: bool,
    payload: Vec<u8>,
}

/// Builds a stream of at least `length` bytes that repeats the events of a recording, with later timestamps each time.
fn repeat(bytes: &[u8], length: usize) -> Vec<u8> {
    let (header, events) = events(bytes);
    let mut encoder = Encoder::new(header.format, &header).unwrap();
    let mut defined = std::collections::BTreeSet::new();
    let first = events.iter().map(|event| event.timestamp).min().unwrap();
    let last = events.iter().map(|event| event.timestamp).max().unwrap();
    let (span, numbers) = (
        last - first + 1,
        events.iter().map(|event| event.sequence).max().unwrap(),
    );
    let mut out = Vec::new();
    let (mut shift, mut round) = (0, 0);
    while out.len() < length {
        for event in &events {
            if defined.insert(event.metadata.id) {
                encoder.metadata(&event.metadata).unwrap();
            }
            let record = EventRecord {
                metadata_id: event.metadata.id,
                sequence: event.sequence + round * numbers,
                capture_thread: event.thread,
                thread: event.thread,
                timestamp: event.timestamp + shift,
                is_sorted: event.is_sorted,
                payload: &event.payload,
                ..EventRecord::default()
            };
            encoder.event(&record).unwrap();
        }
        shift += span;
        round += 1;
        encoder.sequence_point(first + shift, &[]).unwrap();
        out.extend(encoder.take());
    }
    out.extend(encoder.finish().unwrap());
    out
}

fn events(bytes: &[u8]) -> (TraceHeader, Vec<StoredEvent>) {
    let mut decoder = Decoder::new(Options {
        order: Order::File,
        ..Options::default()
    });
    decoder.push(bytes);
    let mut events = Vec::new();
    while let Some(item) = decoder.next_item().unwrap() {
        if let Item::Event(event) = item {
            events.push(StoredEvent {
                metadata: event.metadata.clone(),
                sequence: event.sequence,
                thread: event.thread,
                timestamp: event.timestamp,
                is_sorted: event.is_sorted,
                payload: event.payload.to_vec(),
            });
        }
    }
    (decoder.header().unwrap().clone(), events)
}

/// Reads a stream to its end. Returns the number of events and the number of delivered events.
fn read(bytes: &[u8], order: Order, interest: Interest) -> (u64, u64) {
    let mut decoder = Decoder::new(Options {
        order,
        interest,
        ..Options::default()
    });
    for piece in bytes.chunks(PIECE) {
        decoder.space(PIECE)[..piece.len()].copy_from_slice(piece);
        decoder.filled(piece.len());
        while let Some(item) = decoder.next_item().unwrap() {
            black_box(&item);
        }
    }
    decoder.finish();
    while let Some(item) = decoder.next_item().unwrap() {
        black_box(&item);
    }
    (decoder.stats().events, decoder.stats().delivered)
}

fn gc_events() -> Interest {
    Box::new(|metadata| {
        let wanted = metadata.provider == "Microsoft-Windows-DotNETRuntime" && GC_EVENTS.contains(&metadata.event_id);
        wanted.then_some(metadata.event_id)
    })
}

fn all() -> Interest {
    Box::new(|_| Some(0))
}

fn bench(bencher: Bencher<'_, '_>, bytes: &[u8], order: Order, interest: fn() -> Interest) {
    let (events, _) = read(bytes, order, interest());
    bencher
        .counter(BytesCount::new(bytes.len()))
        .counter(ItemsCount::new(events))
        .bench(|| read(black_box(bytes), order, interest()));
}

/// Decodes, as gcwatch does, only the events from which collections are reconstructed, in order of time.
#[divan::bench]
fn gc_events_of_a_verbose_stream(bencher: Bencher<'_, '_>) {
    bench(bencher, &LONG, Order::Time, gc_events);
}

/// Counts events and detects losses without delivering events.
#[divan::bench]
fn no_events_of_a_verbose_stream(bencher: Bencher<'_, '_>) {
    bench(bencher, &LONG, Order::Time, || Box::new(|_| None));
}

/// Delivers every event, in order of time.
#[divan::bench]
fn all_events_of_a_verbose_stream(bencher: Bencher<'_, '_>) {
    bench(bencher, &LONG, Order::Time, all);
}

/// Delivers every event, in the order of the stream.
#[divan::bench]
fn all_events_of_a_verbose_stream_in_file_order(bencher: Bencher<'_, '_>) {
    bench(bencher, &LONG, Order::File, all);
}

/// Delivers every event of a session of the default profile: 70 collections in 82 KB.
#[divan::bench]
fn all_events_of_an_informational_recording(bencher: Bencher<'_, '_>) {
    bench(bencher, &recording("net10-steady"), Order::Time, all);
}

/// Writes the events of a Verbose recording.
#[divan::bench]
fn encode_a_verbose_recording(bencher: Bencher<'_, '_>) {
    let bytes = recording("net10-steady-verbose");
    bencher
        .counter(BytesCount::new(bytes.len()))
        .bench(|| repeat(black_box(&bytes), 1));
}
