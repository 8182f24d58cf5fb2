//! How fast streams are decoded, on one core.
//!
//! The long stream is the file that `GCWATCH_BENCH_RECORDING` names; without it, one of 20 MB is made by repeating the
//! events of a Verbose recording of the repository (75 bytes an event). Each run feeds it through
//! [`Decoder::space`] in pieces of 256 KiB, as a reader of a file does, so one copy of every byte is included.
//!
//! Seen on a virtual machine with two cores (`lscpu`: AMD EPYC, family 25, model 17; L1d 64 KiB each; one of them
//! used), medians, recording of .NET 10 with 269,998 events in 20.3 MB:
//!
//! | | time | bytes | events |
//! |---|---|---|---|
//! | the GC events of it, by time | 3.6 ms | 5.6 GB/s | 75 million/s |
//! | none of it: counting and losses | 2.8 ms | 7.2 GB/s | 96 million/s |
//! | all of it, by time | 16.5 ms | 1.2 GB/s | 16 million/s |
//! | all of it, in file order | 12.7 ms | 1.6 GB/s | 21 million/s |
//! | a recording of the default profile (82 KB), all, by time | 77 us | 1.1 GB/s | 17 million/s |
//! | writing a Verbose recording | 1.5 ms | 0.58 GB/s | |
//!
//! The stream that is made gives 5.6, 7.2, 1.5 and 1.6 GB/s. For scale: TraceEvent 4.0.0 reads that recording at
//! 310 MB/s.
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

/// What a file's reader reads at once.
const PIECE: usize = 256 << 10;

/// Length of the stream that is made.
const MADE_BYTES: usize = 20 << 20;

/// The events that collections are rebuilt from.
const GC_EVENTS: [u32; 11] = [1, 2, 3, 4, 7, 8, 9, 35, 39, 204, 205];

static LONG: LazyLock<Vec<u8>> = LazyLock::new(|| match std::env::var_os("GCWATCH_BENCH_RECORDING") {
    Some(path) => std::fs::read(path).unwrap(),
    None => repeat(&recording("net10-steady-verbose"), MADE_BYTES),
});

/// A recording of the repository, unpacked.
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
struct Kept {
    metadata: Metadata,
    sequence: u32,
    thread: u64,
    timestamp: i64,
    is_sorted: bool,
    payload: Vec<u8>,
}

/// A stream of at least `length` bytes with the events of a recording over and over, later each time.
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

fn events(bytes: &[u8]) -> (TraceHeader, Vec<Kept>) {
    let mut decoder = Decoder::new(Options {
        order: Order::File,
        ..Options::default()
    });
    decoder.push(bytes);
    let mut events = Vec::new();
    while let Some(item) = decoder.next_item().unwrap() {
        if let Item::Event(event) = item {
            events.push(Kept {
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

/// Reads a stream to its end. Gives how many events there were and were delivered.
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

/// What gcwatch does: only the events that collections are rebuilt from, by time.
#[divan::bench]
fn gc_events_of_a_verbose_stream(bencher: Bencher<'_, '_>) {
    bench(bencher, &LONG, Order::Time, gc_events);
}

/// Counting alone, losses included.
#[divan::bench]
fn no_events_of_a_verbose_stream(bencher: Bencher<'_, '_>) {
    bench(bencher, &LONG, Order::Time, || Box::new(|_| None));
}

/// Every event, by time.
#[divan::bench]
fn all_events_of_a_verbose_stream(bencher: Bencher<'_, '_>) {
    bench(bencher, &LONG, Order::Time, all);
}

/// Every event, as they come.
#[divan::bench]
fn all_events_of_a_verbose_stream_in_file_order(bencher: Bencher<'_, '_>) {
    bench(bencher, &LONG, Order::File, all);
}

/// A session of the default profile: all events are wanted, 70 collections in 82 KB.
#[divan::bench]
fn all_events_of_an_informational_recording(bencher: Bencher<'_, '_>) {
    bench(bencher, &recording("net10-steady"), Order::Time, all);
}

/// Writing the events of a Verbose recording.
#[divan::bench]
fn encode_a_verbose_recording(bencher: Bencher<'_, '_>) {
    let bytes = recording("net10-steady-verbose");
    bencher
        .counter(BytesCount::new(bytes.len()))
        .bench(|| repeat(black_box(&bytes), 1));
}
