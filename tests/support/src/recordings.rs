//! The recordings of real runtimes in `tests/recordings`.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use flate2::read::GzDecoder;

/// Returns the folder of the recordings.
pub fn folder() -> PathBuf {
    crate::repository("tests/recordings")
}

/// Returns the names of all recordings in the folder itself, without their extensions, sorted.
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

/// Returns the paths of all recordings in these folders of `tests/recordings`, sorted. An empty name denotes
/// `tests/recordings` itself.
pub fn paths_in(folders: &[&str]) -> Vec<PathBuf> {
    let folders = folders.iter().map(|name| folder().join(name));
    let mut paths: Vec<PathBuf> = folders
        .flat_map(|folder| fs::read_dir(folder).unwrap())
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_str().unwrap().ends_with(".nettrace.gz"))
        .collect();
    paths.sort();
    paths
}

/// Calls a function for each path, with one thread per core, and returns the results in the order of the paths.
pub fn on_all_cores<T: Send>(paths: &[PathBuf], each: impl Fn(&Path) -> T + Sync) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let found: Mutex<BTreeMap<usize, T>> = Mutex::default();
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let place = next.fetch_add(1, Ordering::Relaxed);
                    let Some(path) = paths.get(place) else { break };
                    let result = each(path);
                    found.lock().unwrap().insert(place, result);
                }
            });
        }
    });
    let found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    found.into_values().collect()
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
