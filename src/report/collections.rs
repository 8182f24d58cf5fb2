//! The table of collections, a line per collection.

use std::io::{self, Write};

use clr_gc::gc::{Collection, Missing};

use crate::records::gc::type_name;
use crate::report::table::{Column, FAINT, MARK, chosen, fitting, head, left, right, row, wrapped};
use crate::report::units::{Mebibytes, Millis, Seconds, UNKNOWN};

const COLUMNS: [Column; 12] = [
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
    left("", 1),
    left("notes", 0),
];

/// What stays longest where not all of them fit.
const IMPORTANCE: [u8; 12] = [8, 12, 11, 10, 7, 13, 2, 3, 6, 1, 9, 5];
/// Characters of notes that are worth a column.
const NOTES: usize = 18;

fn shown() -> Vec<usize> {
    fitting(&COLUMNS, &IMPORTANCE, NOTES)
}

/// Which columns do not fit, in words; `None`: all do.
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

/// Writes the headings and a line per collection.
///
/// # Errors
///
/// When the output cannot be written.
pub fn write<'c>(out: &mut dyn Write, collections: impl IntoIterator<Item = &'c Collection>) -> io::Result<()> {
    headings(out)?;
    rows(out, collections)?;
    match left_out() {
        Some(text) => writeln!(out, "{FAINT}{}{FAINT:#}", wrapped(&text, 0)),
        None => Ok(()),
    }
}

/// Writes the headings.
///
/// # Errors
///
/// When the output cannot be written.
pub fn headings(out: &mut dyn Write) -> io::Result<()> {
    head(out, &chosen(&shown(), &COLUMNS))
}

/// Writes a line per collection.
///
/// # Errors
///
/// When the output cannot be written.
pub fn rows<'c>(out: &mut dyn Write, collections: impl IntoIterator<Item = &'c Collection>) -> io::Result<()> {
    let shown = shown();
    let columns = chosen(&shown, &COLUMNS);
    for collection in collections {
        row(out, &columns, &chosen(&shown, &line(collection)))?;
    }
    Ok(())
}

fn line(collection: &Collection) -> [String; 12] {
    let or_unknown = |text: Option<String>| text.unwrap_or_else(|| UNKNOWN.to_owned());
    let is_exact = collection.is_complete() && !collection.lossy;
    [
        Seconds(collection.start).to_string(),
        collection.number.to_string(),
        or_unknown(collection.generation.map(|generation| generation.to_string())),
        or_unknown(collection.gc_type.map(type_name)),
        or_unknown(collection.reason.map(|reason| reason.to_string())),
        Millis(collection.pause_ns).to_string(),
        Millis(collection.suspend_ns).to_string(),
        Mebibytes(collection.heap_before()).to_string(),
        Mebibytes(collection.heap_after()).to_string(),
        Mebibytes(collection.promoted()).to_string(),
        if is_exact {
            String::new()
        } else {
            format!("{MARK}!{MARK:#}")
        },
        notes(collection),
    ]
}

/// Special properties of a collection, and its missing parts.
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
