//! Golden files: committed files that a test's output must equal.
//!
//! After an intended change, run the tests with `GCWATCH_UPDATE_GOLDEN=1` and read the difference.

use std::{env, fs};

use similar::TextDiff;

/// Maximum number of lines of a printed difference; more lines do not help the reader.
const MAX_LINES: usize = 120;

/// Panics with a diff if the text of the file in the repository differs from `actual`.
#[track_caller]
pub fn compare(path: &str, actual: &str) {
    if let Some(difference) = difference(path, actual) {
        panic!("{difference}");
    }
}

/// Returns the difference between the file in the repository and `actual` as a unified diff, or `None` if they are
/// equal. If `GCWATCH_UPDATE_GOLDEN` is set, writes the file instead and returns `None`.
pub fn difference(path: &str, actual: &str) -> Option<String> {
    let file = crate::repository(path);
    if env::var_os("GCWATCH_UPDATE_GOLDEN").is_some() {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, actual).unwrap_or_else(|error| panic!("{path}: {error}"));
        return None;
    }
    let committed = fs::read_to_string(&file).unwrap_or_default();
    if committed == actual {
        return None;
    }
    let diff = TextDiff::from_lines(committed.as_str(), actual);
    let unified = diff
        .unified_diff()
        .context_radius(3)
        .header(&format!("{path} as committed"), "now")
        .to_string();
    let lines: Vec<&str> = unified.lines().take(MAX_LINES).collect();
    let rest = unified.lines().count() - lines.len();
    let more = if rest > 0 {
        format!("\n... and {rest} lines more")
    } else {
        String::new()
    };
    Some(format!(
        "{path} differs; GCWATCH_UPDATE_GOLDEN=1 writes it\n{}{more}",
        lines.join("\n")
    ))
}
