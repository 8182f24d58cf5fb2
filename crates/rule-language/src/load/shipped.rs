//! The shipped rules.

use super::SourceFile;

/// Name and text of each file.
macro_rules! shipped {
    ($ending:literal: $($name:literal)+) => {
        &[$((
            concat!("rules/", $name, $ending),
            include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../rules/", $name, $ending)),
        ),)+]
    };
}

/// Name and text of each rule file in `rules/`, in the order in which they are read.
const FILES: &[(&str, &str)] = shipped!(".yaml":
    "memory"
    "time"
    "watcher"
    "services"
    "notes"
);

/// The tests of these files.
const TESTS: &[(&str, &str)] = shipped!(".test.yaml":
    "memory"
    "time"
    "watcher"
    "services"
    "notes"
);

/// The shipped rules, as in `rules/`.
pub fn shipped() -> Vec<SourceFile> {
    sources(FILES)
}

/// The tests of the shipped rules, as in `rules/`.
pub fn shipped_tests() -> Vec<SourceFile> {
    sources(TESTS)
}

fn sources(files: &[(&str, &str)]) -> Vec<SourceFile> {
    let file = |(name, text): &(&str, &str)| SourceFile {
        name: (*name).to_owned(),
        text: (*text).to_owned(),
    };
    files.iter().map(file).collect()
}
