//! The shipped rules.

use super::SourceFile;

/// Includes a file of `rules/`.
macro_rules! shipped {
    ($name:literal) => {
        SourceFile::new(
            concat!("rules/", $name),
            include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../rules/", $name)),
        )
    };
}

/// Returns the shipped rules of `rules/`, in the order in which they are read.
pub fn shipped() -> Vec<SourceFile> {
    vec![
        shipped!("memory.yaml"),
        shipped!("time.yaml"),
        shipped!("watcher.yaml"),
        shipped!("services.yaml"),
        shipped!("notes.yaml"),
    ]
}

/// Returns the tests of the shipped rules in `rules/`.
pub fn shipped_tests() -> Vec<SourceFile> {
    vec![
        shipped!("memory.test.yaml"),
        shipped!("time.test.yaml"),
        shipped!("watcher.test.yaml"),
        shipped!("services.test.yaml"),
        shipped!("notes.test.yaml"),
    ]
}
