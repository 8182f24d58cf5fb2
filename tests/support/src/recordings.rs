//! The recordings of real runtimes in `tests/recordings`.

use std::fs;
use std::io::Read as _;
use std::path::PathBuf;

use flate2::read::GzDecoder;

/// Returns the folder of the recordings.
pub fn folder() -> PathBuf {
    crate::repository("tests/recordings")
}

/// Returns the names of all recordings without their extensions, sorted.
pub fn names() -> Vec<String> {
    let entries = fs::read_dir(folder()).unwrap();
    let name = |entry: fs::DirEntry| Some(entry.file_name().to_str()?.strip_suffix(".nettrace.gz")?.to_owned());
    let mut names: Vec<String> = entries.filter_map(|entry| name(entry.unwrap())).collect();
    names.sort();
    assert!(names.len() >= 28, "recordings are missing");
    names
}

/// Returns the path of a recording.
pub fn path(name: &str) -> PathBuf {
    folder().join(format!("{name}.nettrace.gz"))
}

/// Returns the path of a recording as an argument of a command.
pub fn file(name: &str) -> String {
    path(name).to_str().unwrap().to_owned()
}

/// Returns the decompressed bytes of a recording.
pub fn bytes(name: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    GzDecoder::new(fs::File::open(path(name)).unwrap())
        .read_to_end(&mut bytes)
        .unwrap();
    bytes
}
