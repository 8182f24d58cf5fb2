//! Finds the recordings to analyze, reads them, and reports their problems.

use std::path::{Path, PathBuf};

use clr_gc::stream::Scope;

use crate::commands::output::say;
use recording::Recording;
use recording::source::{Source, SourceError};
use report::units::plural;

/// Returns the given files and the recordings in the given directories, sorted by name. Files in directories whose
/// names are not names of recordings are skipped. Sets `fine` to `false` if a directory cannot be read or has no
/// recordings, which is reported.
pub(super) fn expanded(paths: &[PathBuf], fine: &mut bool) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for path in paths {
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let mut inside: Vec<PathBuf> = match std::fs::read_dir(path) {
            Ok(entries) => entries.filter_map(|entry| Some(entry.ok()?.path())).collect(),
            Err(error) => {
                say(format_args!("cannot read the directory {}: {error}", path.display()));
                *fine = false;
                continue;
            }
        };
        inside.retain(|file| is_recording(file) && file.is_file());
        inside.sort();
        if inside.is_empty() {
            let names = RECORDINGS.join(", ");
            say(format_args!(
                "the directory {} has no file named {names}",
                path.display()
            ));
            *fine = false;
        }
        files.extend(inside);
    }
    files
}

/// Name patterns of recordings.
const RECORDINGS: [&str; 3] = ["*.nettrace", "*.nettrace.gz", "*.nettrace.zip"];

fn is_recording(file: &Path) -> bool {
    let name = file
        .file_name()
        .map(|name| name.to_string_lossy().to_lowercase())
        .unwrap_or_default();
    RECORDINGS
        .iter()
        .any(|ending| name.ends_with(ending.trim_start_matches('*')))
}

/// Collections, and requests if the recording contains them.
pub(super) const SCOPE: Scope = Scope::CollectionsAnd(gc_requests::session::PROVIDER);

/// Opens and reads a recording. Reports the error and returns `None` if the recording cannot be opened.
pub(crate) fn read(file: &Path, scope: Scope) -> Option<Recording> {
    let mut source = opened(Source::open(file))?;
    Some(Recording::read(&mut source, scope, |_| ()))
}

/// Returns the opened recording, or reports the error and returns `None`.
pub(crate) fn opened(opened: Result<Source, SourceError>) -> Option<Source> {
    opened.map_err(say).ok()
}

/// Reports the problems of a recording. Returns `false` if the recording could not be read to its end.
pub(crate) fn complain(recording: &Recording) -> bool {
    if let Some(cut) = &recording.cut {
        say(cut);
    }
    if recording.stream.undecodable > 0 {
        let events = plural(recording.stream.undecodable, "event");
        say(format_args!(
            "{}: {events} skipped, because they are too short for their layout",
            recording.stream.file
        ));
    }
    match &recording.error {
        Some(error) => say(error),
        None => return true,
    }
    false
}
