//! The recordings of `tests/recordings`: what real runtimes sent.

use std::fs;
use std::io::Read as _;
use std::path::PathBuf;

use flate2::read::GzDecoder;

/// Where they are.
pub fn folder() -> PathBuf {
    crate::repository("tests/recordings")
}

/// Names of all recordings, without their endings, sorted.
pub fn names() -> Vec<String> {
    let entries = fs::read_dir(folder()).unwrap();
    let name = |entry: fs::DirEntry| Some(entry.file_name().to_str()?.strip_suffix(".nettrace.gz")?.to_owned());
    let mut names: Vec<String> = entries.filter_map(|entry| name(entry.unwrap())).collect();
    names.sort();
    assert!(names.len() >= 28, "recordings are missing");
    names
}

/// The file of a recording.
pub fn path(name: &str) -> PathBuf {
    folder().join(format!("{name}.nettrace.gz"))
}

/// The same, as an argument of a command.
pub fn file(name: &str) -> String {
    path(name).to_str().unwrap().to_owned()
}

/// A recording, unpacked.
pub fn bytes(name: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    GzDecoder::new(fs::File::open(path(name)).unwrap())
        .read_to_end(&mut bytes)
        .unwrap();
    bytes
}
