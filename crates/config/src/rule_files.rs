//! Reads rule files from the disk.

use std::path::{Path, PathBuf};

use crate::file::{read_bounded, yaml_files};
use rule_language::load::{Level, MAX_FILES, Problem, SourceFile};
use strict_yaml::decode::decoded;

/// Maximum size of a file, in bytes.
pub const MAX_BYTES: u64 = 1 << 20;

/// Reads rule files. Each path is a file, or a directory with `*.yaml` and `*.yml` files, which are read in the order
/// of their names, except tests (`*.test.yaml`) and hidden files. Subdirectories are ignored.
///
/// # Errors
///
/// Returns an error if a file or directory cannot be read, or a directory has no rule file. All problems are returned.
pub fn read(paths: &[PathBuf]) -> Result<Vec<SourceFile>, Vec<Problem>> {
    let (mut files, mut problems) = (Vec::new(), Vec::new());
    for path in paths {
        match named(path) {
            Ok(found) if found.is_empty() => problems.push(problem(
                &path.display().to_string(),
                (1, 1),
                "there is no rule file (*.yaml) in the directory",
            )),
            Ok(found) => files.extend(found),
            Err(problem) => problems.push(problem),
        }
    }
    sources(&files, problems)
}

/// Like [`read`], but for one path that can be a directory without a rule file, such as a mounted ConfigMap without
/// keys.
///
/// # Errors
///
/// Returns an error if a file or directory cannot be read. All problems are returned.
pub fn read_any(path: &Path) -> Result<Vec<SourceFile>, Vec<Problem>> {
    let files = named(path).map_err(|problem| vec![problem])?;
    sources(&files, Vec::new())
}

fn sources(files: &[PathBuf], mut problems: Vec<Problem>) -> Result<Vec<SourceFile>, Vec<Problem>> {
    let mut sources = Vec::new();
    // Further files are refused when the files are loaded.
    for file in files.iter().take(MAX_FILES + 1) {
        match source(file) {
            Ok(source) => sources.push(source),
            Err(problem) => problems.push(problem),
        }
    }
    if problems.is_empty() {
        Ok(sources)
    } else {
        Err(problems)
    }
}

/// Decodes the text of a rule file. The name is used in messages.
///
/// # Errors
///
/// Returns an error if the bytes are not UTF-8.
pub fn decode(name: String, bytes: Vec<u8>) -> Result<SourceFile, Problem> {
    decoded(bytes)
        .map_err(|(at, message)| problem(&name, (at.line, at.column), message))
        .map(|text| SourceFile { name, text })
}

/// Returns whether a path names a test file.
pub fn is_test(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
    name.is_some_and(|name| name.ends_with(".test.yaml") || name.ends_with(".test.yml"))
}

fn problem(name: &str, (line, column): (usize, usize), message: impl Into<String>) -> Problem {
    Problem {
        file: name.into(),
        line,
        column,
        message: message.into(),
        severity: Level::Error,
    }
}

/// Returns the files that a path names; no file for a directory without rule files.
fn named(path: &Path) -> Result<Vec<PathBuf>, Problem> {
    let name = path.display().to_string();
    let cannot = |error: std::io::Error| problem(&name, (1, 1), format!("cannot read the file: {error}"));
    if !std::fs::metadata(path).map_err(cannot)?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = yaml_files(path).map_err(cannot)?;
    // A mounted ConfigMap contains links to files, and links to directories.
    files.retain(|file| !is_test(file) && std::fs::metadata(file).is_ok_and(|facts| facts.is_file()));
    Ok(files)
}

fn source(path: &Path) -> Result<SourceFile, Problem> {
    let name = path.display().to_string();
    if is_test(path) {
        let message = "this is a test file, not a rule file; `gcwatch rules test` runs it";
        return Err(problem(&name, (1, 1), message));
    }
    text(path)
}

/// Reads one file of rules or tests.
///
/// # Errors
///
/// Returns an error if the file cannot be read, is larger than [`MAX_BYTES`] or is not UTF-8.
pub fn text(path: &Path) -> Result<SourceFile, Problem> {
    let name = path.display().to_string();
    let bytes = read_bounded(path, MAX_BYTES)
        .map_err(|error| problem(&name, (1, 1), format!("cannot read the file: {error}")))?;
    decode(name, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: a directory has no rule files, like a mounted ConfigMap without keys; another path does not exist.
    /// Guarantee: the empty directory is valid for the daemon and an error for commands; the missing path is always an
    /// error.
    #[test]
    fn empty_directory_is_valid_for_the_daemon() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(read_any(folder.path()), Ok(Vec::new()));
        assert!(read(&[folder.path().to_owned()]).is_err());
        assert!(read_any(&folder.path().join("none")).is_err());
    }
}
