//! `gcwatch diff`: compares two recordings side by side.

use std::path::Path;

use clr_gc::stream::Scope;

use crate::commands::analyze::{complain, read};
use crate::commands::cli::{DiffArgs, Format};
use crate::commands::output::Output;
use report::difference::{self, RecordingTotals};

/// Runs the command. Returns `false` if a recording could not be read to its end, which was reported: parts of
/// recordings are not comparable.
pub(crate) fn run(args: &DiffArgs) -> anyhow::Result<bool> {
    let (Some(before), Some(after)) = (side(&args.before), side(&args.after)) else {
        return Ok(false);
    };
    let mut output = Output::stdout(args.format);
    let differences = difference::compare(&before, &after);
    match output.format {
        Format::Table => difference::write(output.text(), &before, &after, &differences)?,
        Format::Ndjson => output.records(&differences)?,
    }
    output.finish()?;
    Ok(true)
}

fn side(file: &Path) -> Option<RecordingTotals> {
    let recording = read(file, Scope::Collections)?;
    if !complain(&recording) {
        return None;
    }
    let mut side = RecordingTotals {
        file: recording.stream.file,
        observed_ns: recording.observed_ns,
        ..RecordingTotals::default()
    };
    for (_, history) in &recording.processes {
        for collection in &history.collections {
            side.totals.add(collection);
        }
        for suspension in &history.suspensions {
            side.totals.add_suspension(suspension);
        }
    }
    Some(side)
}
