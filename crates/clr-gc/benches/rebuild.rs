//! Speed of rebuilding collections from a stream: with only the events of collections decoded, and with every event
//! decoded.
//!
//! Run with `cargo bench -p clr-gc`. The benches read three of the recordings in `tests/recordings`. Set
//! `GCWATCH_BENCH_RECORDING` to the path of a nettrace file to read this file, too.
//!
//! Medians on a virtual machine with two cores of an AMD EPYC, one of them in use. Every run copies each byte once.
//!
//! | Recording | rebuild | rebuild and decode every event |
//! |---|---|---|
//! | Verbose, 20.3 MB, 269,998 events, 1,617 collections | 5.4 ms, 3.75 GB/s | 19.5 ms, 1.04 GB/s |
//! | `net10-steady-verbose`, 0.9 MB, 70 collections | 0.23 ms, 3.9 GB/s | 0.84 ms, 1.05 GB/s |
//! | `net10-threads-server-datas`, 0.23 MB, 114 collections | 0.26 ms, 0.89 GB/s | 0.37 ms, 0.63 GB/s |
//! | `svc8-workstation`, 0.11 MB, 93 collections | 0.20 ms, 0.55 GB/s | 0.23 ms, 0.48 GB/s |
//!
//! TraceEvent 4.0.0 reads the first recording at 310 MB/s and rebuilds its collections at 120 MB/s. The command
//! `gcwatch analyze` takes 14.9 ms for the first recording, including reading the file and writing 1,617 lines (`perf
//! stat -r 20`).

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use clr_gc::gc::ReportTiming;
use clr_gc::stream::{GcStream, Scope};
use divan::Bencher;
use divan::counter::BytesCount;
use flate2::read::GzDecoder;

/// Number of bytes passed to the stream at once, as in `gcwatch analyze`.
const PIECE: usize = 256 * 1024;

fn main() {
    divan::main();
}

fn recordings() -> Vec<String> {
    let shipped = ["svc8-workstation", "net10-threads-server-datas", "net10-steady-verbose"];
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/recordings");
    let shipped = shipped.map(|name| folder.join(format!("{name}.nettrace.gz")));
    let given = std::env::var_os("GCWATCH_BENCH_RECORDING").map(PathBuf::from);
    shipped
        .into_iter()
        .chain(given)
        .map(|path| path.to_string_lossy().into_owned())
        .collect()
}

fn bytes(path: &str) -> Vec<u8> {
    let file = fs::read(path).unwrap_or_else(|error| panic!("{path}: {error}"));
    if !file.starts_with(&[0x1f, 0x8b]) {
        return file;
    }
    let mut unpacked = Vec::new();
    GzDecoder::new(&file[..])
        .read_to_end(&mut unpacked)
        .unwrap_or_else(|error| panic!("{path}: {error}"));
    unpacked
}

fn read(bytes: &[u8], scope: Scope) -> usize {
    let mut stream = GcStream::new(scope, ReportTiming::AtTheEnd);
    let damaged = |error: nettrace::Error| panic!("{error}");
    for piece in bytes.chunks(PIECE) {
        stream.space(piece.len())[..piece.len()].copy_from_slice(piece);
        stream.filled(piece.len());
        stream.advance(|_| ()).unwrap_or_else(damaged);
    }
    stream.finish();
    stream.advance(|_| ()).unwrap_or_else(damaged);
    stream.end();
    std::iter::from_fn(|| stream.next_outcome()).count()
}

/// Decodes only the events of collections, and rebuilds the collections, as `gcwatch analyze` does.
#[divan::bench(args = recordings())]
fn rebuild(bencher: Bencher<'_, '_>, path: &str) {
    let bytes = bytes(path);
    bencher
        .counter(BytesCount::of_slice(&bytes))
        .bench(|| read(&bytes, Scope::Collections));
}

/// Rebuilds collections and decodes the fields of every event, as `gcwatch events` does before it writes.
#[divan::bench(args = recordings())]
fn rebuild_and_decode_every_event(bencher: Bencher<'_, '_>, path: &str) {
    let bytes = bytes(path);
    bencher
        .counter(BytesCount::of_slice(&bytes))
        .bench(|| read(&bytes, Scope::Everything));
}
