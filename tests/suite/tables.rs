//! What gcwatch makes of every recording, as people read it.
//!
//! `tests/recordings/NAME.nettrace.gz` was sent by a real runtime; `NAME.txt` beside it is the table of `gcwatch
//! analyze`. After a change that is meant, run with `GCWATCH_UPDATE_GOLDEN=1` and read the difference.

use test_support::program::{command, written};
use test_support::{golden, recordings};

/// Scenario: `analyze --format table` on every recording.
/// Guarantee: its output is the committed text beside it.
#[test]
fn tables_are_as_committed() {
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
