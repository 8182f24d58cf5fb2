//! The shipped rules.

use super::SourceFile;

macro_rules! shipped {
    ($name:literal) => {
        (
            concat!("rules/", $name, ".yaml"),
            include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../rules/", $name, ".yaml")),
        )
    };
}

/// Name and text of each rule file in `rules/`, in the order in which they are read.
const FILES: &[(&str, &str)] = &[
    shipped!("memory"),
    shipped!("induced"),
    shipped!("pauses"),
    shipped!("churn"),
    shipped!("fragmentation"),
    shipped!("background"),
    shipped!("leaks"),
    shipped!("adaptation"),
    shipped!("settings"),
    shipped!("limits"),
    shipped!("watcher"),
    shipped!("services"),
];

/// The shipped rules, as in `rules/`.
pub fn shipped() -> Vec<SourceFile> {
    let file = |(name, text): &(&str, &str)| SourceFile {
        name: (*name).to_owned(),
        text: (*text).to_owned(),
    };
    FILES.iter().map(file).collect()
}
