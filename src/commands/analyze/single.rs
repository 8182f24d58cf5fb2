//! `--gc`: one collection in full, with its events.

use std::io::{self, Cursor, Read as _};
use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use clr_gc::stream::Scope;

use super::input::{complain, opened};
use super::start_time;
use crate::commands::cli::Format;
use crate::commands::output::{Output, say};
use api::gc::GcRecord;
use recording::Recording;
use recording::source::{Source, SourceError};
use report::detail::{Detail, DetailRecord};
use report::{detail, memory};

/// Maximum size of standard input that is kept in memory to be read twice, in bytes.
const MAX_KEPT_BYTES: u64 = 1 << 30;

/// Writes one collection in full. The first pass finds the collection; the second pass collects its events, which a
/// table lists on request.
pub(super) fn one(file: &Path, number: u32, events: bool, output: &mut Output) -> anyhow::Result<bool> {
    let input = RereadableInput::from_file(file).context("cannot read standard input")?;
    let Some(mut source) = opened(input.open()) else {
        return Ok(false);
    };
    let recording = Recording::read(&mut source, Scope::Collections, |_| ());
    let mut fine = complain(&recording);
    if recording.header.is_none() {
        return Ok(false);
    }
    let mut found = false;
    for (subject, history) in &recording.processes {
        for (place, collection) in history.collections.iter().enumerate() {
            if collection.number != number {
                continue;
            }
            found = true;
            let mut wanted = Detail::new(*subject, collection, &history.collections, place);
            let Some(mut again) = opened(input.open()) else {
                return Ok(false);
            };
            let _same_as_before = Recording::read(&mut again, Scope::Everything, |observed| wanted.observe(observed));
            wanted.finish();
            let start = start_time(&recording, collection);
            match output.format {
                Format::Table => detail::write(output.text(), collection, &wanted, start.as_deref(), events)?,
                Format::Ndjson => {
                    output.record(&GcRecord::new(*subject, collection, start))?;
                    output.record(&DetailRecord {
                        detail: &wanted,
                        ledger: memory::ledger(collection),
                    })?;
                }
            }
        }
    }
    if !found {
        let numbers = recording.processes.iter().flat_map(|(_, history)| &history.collections);
        let (first, last) = numbers.fold((None, None), |(first, _): (Option<u32>, Option<u32>), collection| {
            (first.or(Some(collection.number)), Some(collection.number))
        });
        let range = first
            .zip(last)
            .map(|(first, last)| format!("; it contains {first} to {last}"))
            .unwrap_or_default();
        say(format_args!(
            "{} has no collection with the number {number}{range}",
            recording.stream.file
        ));
        fine = false;
    }
    Ok(fine)
}

/// A recording that is read twice. Standard input is kept in memory for the second pass.
enum RereadableInput<'f> {
    File(&'f Path),
    Kept(Arc<[u8]>),
}

impl<'f> RereadableInput<'f> {
    fn from_file(file: &'f Path) -> io::Result<Self> {
        if file != Path::new("-") {
            return Ok(Self::File(file));
        }
        let mut bytes = Vec::new();
        io::stdin().lock().take(MAX_KEPT_BYTES).read_to_end(&mut bytes)?;
        Ok(Self::Kept(bytes.into()))
    }

    fn open(&self) -> Result<Source, SourceError> {
        match self {
            Self::File(file) => Source::open(file),
            Self::Kept(bytes) => {
                Source::from_reader("standard input".to_owned(), Box::new(Cursor::new(Arc::clone(bytes))))
            }
        }
    }
}
