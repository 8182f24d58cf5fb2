//! How fast streams become collections: decoding alone, and decoding with reconstruction.
//!
//! Run with `cargo bench -p clr-gc`. Without more it reads the recordings of `tests/recordings`; the path of any nettrace file in
//! `GCWATCH_BENCH_RECORDING` is read too (the goal was set for a Verbose one of 20 MB, 270,000 events, 1,617 collections).

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use clr_gc::gc::Settling;
use clr_gc::stream::{GcStream, Scope};
use divan::Bencher;
use divan::counter::BytesCount;
use flate2::read::GzDecoder;

/// Bytes that are offered at once, as the command does.
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
    let mut stream = GcStream::new(scope, Settling::AtTheEnd);
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

/// Only what collections are made of is decoded, and they are rebuilt: what `analyze` does.
#[divan::bench(args = recordings())]
fn rebuild(bencher: Bencher<'_, '_>, path: &str) {
    let bytes = bytes(path);
    bencher
        .counter(BytesCount::of_slice(&bytes))
        .bench(|| read(&bytes, Scope::Collections));
}

/// Every event is decoded to its fields as well: what `events` does before it writes.
#[divan::bench(args = recordings())]
fn rebuild_and_decode_every_event(bencher: Bencher<'_, '_>, path: &str) {
    let bytes = bytes(path);
    bencher
        .counter(BytesCount::of_slice(&bytes))
        .bench(|| read(&bytes, Scope::Everything));
}
