//! What gcwatch makes of every recording, as people read it.
//!
//! `tests/recordings/NAME.nettrace.gz` was sent by a real runtime; `NAME.txt` beside it is the table of `gcwatch analyze`.
//! After a change that is meant, run with `GCWATCH_UPDATE_GOLDEN=1` and read the difference.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and says what it does"
)]

use std::path::Path;
use std::process::Command;
use std::{env, fs};

/// Scenario: `analyze --format table` on every recording.
/// Guarantee: its output is the committed text beside it.
#[test]
fn tables_are_as_committed() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recordings");
    let mut names: Vec<String> = fs::read_dir(&folder)
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
    assert!(names.len() >= 28, "recordings are missing");
    let mut differ = Vec::new();
    for name in names {
        let output = Command::new(env!("CARGO_BIN_EXE_gcwatch"))
            .current_dir(&folder)
            .args(["analyze", "--format", "table", &format!("{name}.nettrace.gz")])
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{name}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        let told = String::from_utf8(output.stdout).unwrap();
        let golden = folder.join(format!("{name}.txt"));
        if env::var_os("GCWATCH_UPDATE_GOLDEN").is_some() {
            fs::write(&golden, &told).unwrap();
        }
        let committed = fs::read_to_string(&golden).unwrap_or_default();
        if let Some((line, (told, committed))) = told
            .lines()
            .zip(committed.lines().chain(std::iter::repeat("")))
            .enumerate()
            .find(|(_, (told, committed))| told != committed)
        {
            differ.push(format!(
                "{name}.txt:{}:\n  told      {told}\n  committed {committed}",
                line + 1
            ));
        } else if told.lines().count() != committed.lines().count() {
            differ.push(format!("{name}.txt has another number of lines"));
        }
    }
    assert!(differ.is_empty(), "{}", differ.join("\n"));
}
