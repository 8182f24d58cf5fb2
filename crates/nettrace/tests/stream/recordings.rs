//! Recordings of real runtimes: all recordings of the repository or, in the published package, its small recordings.

use std::io::Read;
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/recordings")
}

/// Returns whether all recordings of the repository exist, not only the recordings of the package.
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

/// Returns whether this recording exists.
pub(crate) fn has(name: &str) -> bool {
    folder().join(format!("{name}.nettrace.gz")).exists()
}

/// Returns the names of the available recordings.
pub(crate) fn names() -> Vec<String> {
    let files = std::fs::read_dir(folder()).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names
        .filter_map(|name| Some(name.strip_suffix(".nettrace.gz")?.to_owned()))
        .collect();
    names.sort();
    names
}

/// Reads and decompresses a recording.
pub(crate) fn bytes(name: &str) -> Vec<u8> {
    let file = std::fs::File::open(folder().join(format!("{name}.nettrace.gz"))).unwrap();
    let mut bytes = Vec::new();
    GzDecoder::new(file).read_to_end(&mut bytes).unwrap();
    bytes
}

/// A pseudorandom generator that yields the same numbers in each run.
pub(crate) struct Seeded(u64);

impl Seeded {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the next number below `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % end.max(1) as u64) as usize
    }
}
