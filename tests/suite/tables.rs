//! The table that gcwatch prints for every recording.
//!
//! A real runtime sent `tests/recordings/NAME.nettrace.gz`; `NAME.txt` is the table that `gcwatch analyze` prints for
//! it. After an intended change, run with `GCWATCH_UPDATE_GOLDEN=1` and read the difference.

use test_support::program::{command, written};
use test_support::{golden, recordings};

/// Scenario: `analyze --format table` runs on every recording.
/// Guarantee: its output matches the committed text.
#[test]
fn tables_match_committed_texts() {
    let folder = recordings::folder();
    let mut differ = Vec::new();
    for name in recordings::names() {
        let mut analyze = command();
        analyze.args(["analyze", "--format", "table", &format!("{name}.nettrace.gz")]);
        let reported = written(analyze.current_dir(&folder).output().unwrap());
        differ.extend(golden::difference(&format!("tests/recordings/{name}.txt"), &reported));
    }
    assert!(differ.is_empty(), "{}", differ.join("\n"));
}
