//! The table of collections, with one line per collection.

use std::io::{self, Write};

use clr_gc::gc::{Collection, Missing};

use crate::intervals::Interval;
use crate::table::{Column, FAINT, MARK, chosen, fitting, head, left, right, row, wrapped};
use crate::units::{Mebibytes, Millis, Percent, Seconds, known};
use api::gc::type_name;

const COLUMNS: [Column; 17] = [
    right("start s", 9),
    right("gc", 6),
    right("gen", 3),
    left("type", 10),
    left("reason", 16),
    right("pause ms", 9),
    right("suspend ms", 10),
    right("before MiB", 10),
    right("after MiB", 9),
    right("promoted MiB", 12),
    right("survived", 8),
    right("free", 8),
    right("alloc MiB", 9),
    right("MiB/s", 8),
    right("of time", 8),
    left("", 1),
    left("notes", 0),
];

/// Importance of the columns: if not all columns fit, the columns with the highest values are kept.
const IMPORTANCE: [u8; 17] = [13, 17, 16, 15, 12, 18, 7, 8, 11, 6, 2, 1, 4, 3, 9, 14, 10];
/// Columns that depend on the previous collection.
const INTERVALS: [usize; 2] = [13, 14];
/// Minimum number of characters of the notes column.
const NOTES: usize = 18;

fn shown() -> Vec<usize> {
    fitting(&COLUMNS, &IMPORTANCE, NOTES)
}

/// Returns the names of the columns that do not fit, or `None` if all fit.
pub fn left_out() -> Option<String> {
    let shown = shown();
    let all = COLUMNS.iter().enumerate();
    let missing: Vec<&str> = all
        .filter(|(place, _)| !shown.contains(place))
        .map(|(_, column)| column.name)
        .collect();
    (!missing.is_empty()).then(|| {
        format!(
            "not shown, the terminal is too narrow: {}; --format ndjson has all",
            missing.join(", ")
        )
    })
}

/// Returns the columns that do not depend on the previous collection.
fn alone() -> Vec<usize> {
    let mut shown = shown();
    shown.retain(|place| !INTERVALS.contains(place));
    shown
}

/// Writes the headings and one line per collection.
pub fn write<'c>(
    out: &mut dyn Write,
    collections: impl IntoIterator<Item = (&'c Collection, Interval)>,
) -> io::Result<()> {
    let shown = shown();
    let columns = chosen(&shown, &COLUMNS);
    head(out, &columns)?;
    for (collection, interval) in collections {
        row(out, &columns, &chosen(&shown, &line(collection, interval)))?;
    }
    match left_out() {
        Some(text) => writeln!(out, "{FAINT}{}{FAINT:#}", wrapped(&text, 0)),
        None => Ok(()),
    }
}

/// Writes the headings of [`rows`].
pub fn headings(out: &mut dyn Write) -> io::Result<()> {
    head(out, &chosen(&alone(), &COLUMNS))
}

/// Writes one line per collection, without columns that depend on the previous collection.
pub fn rows<'c>(out: &mut dyn Write, collections: impl IntoIterator<Item = &'c Collection>) -> io::Result<()> {
    let shown = alone();
    let columns = chosen(&shown, &COLUMNS);
    for collection in collections {
        row(out, &columns, &chosen(&shown, &line(collection, Interval::default())))?;
    }
    Ok(())
}

fn line(collection: &Collection, interval: Interval) -> [String; 17] {
    let part = |of: Option<u64>, whole: Option<u64>| {
        let part = of.zip(whole.filter(|whole| *whole > 0));
        Percent(part.map(|(of, whole)| of as f64 / whole as f64)).to_string()
    };
    let (survived, before) = survival(collection).unzip();
    let is_exact = collection.is_complete() && !collection.lossy;
    [
        Seconds(collection.start).to_string(),
        collection.number.to_string(),
        known(collection.generation),
        known(collection.gc_type.map(type_name)),
        known(collection.reason),
        Millis(collection.pause_ns).to_string(),
        Millis(collection.suspend_ns).to_string(),
        Mebibytes(collection.heap_before()).to_string(),
        Mebibytes(collection.heap_after()).to_string(),
        Mebibytes(collection.promoted()).to_string(),
        part(survived, before),
        part(collection.total(|sizes| sizes.fragmentation), collection.heap_after()),
        Mebibytes(collection.allocated_since_last()).to_string(),
        Mebibytes(interval.allocated_per_second.map(|rate| rate as u64)).to_string(),
        Percent(interval.stopped_share).to_string(),
        if is_exact {
            String::new()
        } else {
            format!("{MARK}!{MARK:#}")
        },
        notes(collection),
    ]
}

/// Returns the bytes that survived in the collected generations, and the bytes before the collection. Returns `None` if
/// the generation or all sizes are unknown.
fn survival(collection: &Collection) -> Option<(u64, u64)> {
    let oldest = collection.generation?;
    // Large and pinned objects belong to generation 2.
    let collected = (0..)
        .zip(&collection.heap)
        .filter(|(place, _)| *place <= oldest || oldest == 2);
    let known = collected.filter_map(|(_, sizes)| sizes.survived.zip(sizes.before));
    known.reduce(|(survived, before), (more, of)| (survived.saturating_add(more), before.saturating_add(of)))
}

/// Returns special properties of a collection and its missing parts.
fn notes(collection: &Collection) -> String {
    let mut notes = Vec::new();
    if collection.became_blocking {
        notes.push("became blocking".to_owned());
    }
    if collection.is_compacting() == Some(true) {
        notes.push("compacting".to_owned());
    }
    let shared: Vec<String> = collection
        .pauses
        .iter()
        .flat_map(|pause| &pause.shared_with)
        .map(|number| format!("#{number}"))
        .collect();
    if !shared.is_empty() {
        notes.push(format!("stop shared with {}", shared.join(" ")));
    }
    let mut text = if notes.is_empty() {
        String::new()
    } else {
        format!("{FAINT}{}{FAINT:#}", notes.join(", "))
    };
    if !collection.is_complete() {
        let names: Vec<&str> = collection.missing.iter().map(Missing::name).collect();
        let separator = if text.is_empty() { "" } else { ", " };
        text.push_str(&format!("{separator}{MARK}missing {}{MARK:#}", names.join(" ")));
    }
    if collection.lossy {
        let separator = if text.is_empty() { "" } else { ", " };
        text.push_str(&format!("{separator}{MARK}events lost{MARK:#}"));
    }
    text
}
