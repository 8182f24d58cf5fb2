//! The recordings, the results of TraceEvent, and the counters of the recorded processes.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use clr_gc::gc::{Collection, Outcome, ReportTiming, Suspension};
use clr_gc::stream::{GcStream, Observed, Scope};
use flate2::read::GzDecoder;
use serde_json::Value;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/recordings")
}

/// Returns whether all recordings of the repository exist, not only those of the package.
pub(crate) fn are_all_there() -> bool {
    repository().join("net31-fin.nettrace.gz").exists()
}

fn folder() -> PathBuf {
    if are_all_there() {
        repository()
    } else {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recordings")
    }
}

/// Returns the names of the existing recordings, without their extensions.
pub(crate) fn names() -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder())
        .unwrap()
        .filter_map(|entry| {
            entry
                .unwrap()
                .file_name()
                .to_str()?
                .strip_suffix(".nettrace.gz")
                .map(str::to_owned)
        })
        .collect();
    names.sort();
    assert!(!are_all_there() || names.len() >= 28, "recordings are missing");
    names
}

/// Returns the given recordings that exist.
pub(crate) fn present<'n>(names: &'n [&'n str]) -> impl Iterator<Item = &'n str> {
    let is_there = |name: &&str| folder().join(format!("{name}.nettrace.gz")).exists();
    names.iter().copied().filter(is_there)
}

pub(crate) fn bytes(name: &str) -> Vec<u8> {
    unpack(&folder().join(format!("{name}.nettrace.gz")))
}

fn unpack(path: &Path) -> Vec<u8> {
    let mut unpacked = Vec::new();
    GzDecoder::new(fs::File::open(path).unwrap())
        .read_to_end(&mut unpacked)
        .unwrap();
    unpacked
}

/// Returns TraceEvent's collections of a recording, or `None` if the recording has no TraceEvent result.
pub(crate) fn witness(name: &str) -> Option<Value> {
    let path = folder().join(format!("{name}.gcs.json.gz"));
    path.exists().then(|| serde_json::from_slice(&unpack(&path)).unwrap())
}

/// Returns the counters that the process itself printed, or `None` if the recording has no counters. Each print has a
/// timestamp, the numbers of collections of generations 0, 1 and 2, and the total pause in microseconds (-1 if
/// unknown).
pub(crate) fn own(name: &str) -> Option<Vec<[i64; 5]>> {
    let text = fs::read_to_string(folder().join(format!("{name}.own.txt"))).ok()?;
    let tick = |line: &str| {
        let numbers: Vec<i64> = line
            .strip_prefix("tick ")?
            .split_whitespace()
            .filter_map(|word| word.parse().ok())
            .collect();
        <[i64; 5]>::try_from(numbers).ok()
    };
    Some(text.lines().filter_map(tick).collect())
}

/// A recording as the stream layer delivers it.
pub(crate) struct Recording {
    pub(crate) stream: GcStream,
    collections: Vec<Collection>,
    pub(crate) suspensions: Vec<Suspension>,
}

impl Recording {
    pub(crate) fn read(name: &str) -> Self {
        Self::read_bytes(&bytes(name), Scope::Collections, |_| ())
    }

    /// Reads a recording whose main cause of stopped time is known, or returns `None` outside the repository, where no
    /// such recording exists.
    pub(crate) fn read_account(name: &str) -> Option<Self> {
        let path = repository().join(format!("account/{name}.nettrace.gz"));
        (are_all_there() || path.exists()).then(|| Self::read_bytes(&unpack(&path), Scope::Collections, |_| ()))
    }

    pub(crate) fn read_bytes(bytes: &[u8], scope: Scope, observer: impl FnMut(&Observed<'_>)) -> Self {
        Self::in_pieces(bytes, 64 * 1024, scope, observer)
    }

    /// Reads a recording in pieces of `piece` bytes.
    pub(crate) fn in_pieces(bytes: &[u8], piece: usize, scope: Scope, mut observer: impl FnMut(&Observed<'_>)) -> Self {
        let mut stream = GcStream::new(scope, ReportTiming::AtTheEnd);
        for piece in bytes.chunks(piece) {
            stream.push(piece);
            stream.advance(&mut observer).unwrap();
        }
        stream.finish();
        // Empty input is not recognized as a stream.
        let fine = stream.advance(&mut observer);
        assert!(fine.is_ok() || bytes.is_empty(), "{fine:?}");
        stream.end();
        let (mut collections, mut suspensions) = (Vec::new(), Vec::new());
        while let Some((_, outcome)) = stream.next_outcome() {
            match outcome {
                Outcome::Collection(collection) => collections.push(*collection),
                Outcome::Suspension(suspension) => suspensions.push(suspension),
            }
        }
        collections.sort_by_key(|collection| collection.start);
        Self {
            stream,
            collections,
            suspensions,
        }
    }

    pub(crate) fn collections(&self) -> &[Collection] {
        &self.collections
    }
}
