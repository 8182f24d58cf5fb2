//! Collections as CSV (RFC 4180): a header, then one line per collection, for spreadsheets and data frames.
//!
//! Columns are the fields of the record `kind: "gc"`. Nested fields have their path with underscores, and lists are
//! joined by spaces. The last columns also depend on the previous collection. Sizes are bytes, durations nanoseconds.
//! An unknown value is an empty cell, never 0.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::sync::LazyLock;

use clr_gc::gc::Phases;
use serde_json::Value;

use crate::intervals::Interval;
use api::gc::GcRecord;

/// Fields of the record, in the order of the columns. A path is a JSON pointer.
const FIELDS: [&str; 55] = [
    "/pid",
    "/clr_instance",
    "/number",
    "/generation",
    "/type",
    "/became_blocking",
    "/reason",
    "/trigger",
    "/asked_by",
    "/start",
    "/start_offset_ns",
    "/duration_ns",
    "/pause_ns",
    "/suspend_ns",
    "/heap_before",
    "/heap_after",
    "/promoted",
    "/allocated_since_last",
    "/allocated_unknown",
    "/allocated_lower_bound",
    "/pinned_objects",
    "/sync_blocks",
    "/gc_handles",
    "/finalization_promoted_bytes",
    "/finalization_promoted_count",
    "/heap_count",
    "/memory_load_percent",
    "/pause_mode",
    "/compacting",
    "/condemned_reasons",
    "/committed/before",
    "/committed/after",
    "/committed/bookkeeping",
    "/committed_total/before",
    "/committed_total/after",
    "/largest_heap_survived",
    "/throughput_cost_percent",
    "/missing",
    "/implausible",
    "/complete",
    "/lossy",
    "/observed_by_others",
    "/requested_by_tool",
    "/thread_created",
    "/requests_hit",
    "/request_time_lost_ns",
    "/worst_request/lost_ns",
    "/worst_request/trace_id",
    "/worst_request/span_id",
    "/heap/gen0",
    "/heap/gen1",
    "/heap/gen2",
    "/heap/loh",
    "/heap/poh",
    "/phases",
];

/// Columns that relate a collection to the time before it, after the fields of the record.
const INTERVAL: [&str; 3] = ["since_last_ns", "stopped_share", "allocated_per_second"];

/// Fields of a generation.
const SIZES: [&str; 6] = ["before", "after", "promoted", "fragmentation", "budget", "survived"];

/// Paths of all columns.
static PATHS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let phases = Phases::default().named().map(|(name, _)| name);
    let columns = FIELDS.into_iter().flat_map(|field| {
        let parts: &[&str] = match field {
            "/phases" => &phases,
            _ if field.starts_with("/heap/") => &SIZES,
            _ => return vec![field.to_owned()],
        };
        parts.iter().map(|part| format!("{field}/{part}")).collect()
    });
    columns.collect()
});

/// Converts a path to a column name, for example `/heap/gen0/before` to `gen0_before`.
fn name(path: &str) -> String {
    let path = path.trim_start_matches('/');
    path.strip_prefix("heap/").unwrap_or(path).replace('/', "_")
}

pub fn header(out: &mut dyn Write) -> io::Result<()> {
    let names: Vec<String> = std::iter::once("file".to_owned())
        .chain(PATHS.iter().map(|path| name(path)))
        .chain(INTERVAL.map(str::to_owned))
        .collect();
    write!(out, "{}\r\n", names.join(","))
}

/// Writes one collection of a file.
pub fn row(out: &mut dyn Write, file: &str, record: &GcRecord<'_>, interval: Interval) -> io::Result<()> {
    let record = serde_json::to_value(record)?;
    let mut line = cell(file);
    for path in PATHS.iter() {
        line.push(',');
        line.push_str(&text(record.pointer(path).unwrap_or(&Value::Null)));
    }
    let since_last = interval.since_last_ns.map(|ns| ns.to_string());
    let share = interval.stopped_share.map(|share| format!("{share:.6}"));
    let rate = interval.allocated_per_second.map(|rate| format!("{rate:.0}"));
    for value in [since_last, share, rate] {
        line.push(',');
        line.push_str(&value.unwrap_or_default());
    }
    write!(out, "{line}\r\n")
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => cell(text),
        Value::Array(values) => {
            let mut joined = String::new();
            for (place, value) in values.iter().enumerate() {
                let separator = if place == 0 { "" } else { " " };
                // Writing to a String cannot fail.
                let _ = write!(joined, "{separator}{}", value.as_str().unwrap_or_default());
            }
            cell(&joined)
        }
        other => other.to_string(),
    }
}

/// Quotes a text if necessary. A spreadsheet interprets a text that starts with `=`, `+`, `-` or `@` as a formula, so
/// the cell of such a text starts with `'`.
fn cell(text: &str) -> String {
    let formula = if text.starts_with(['=', '+', '-', '@']) {
        "'"
    } else {
        ""
    };
    if text.contains([',', '"', '\r', '\n']) {
        format!("\"{formula}{}\"", text.replace('"', "\"\""))
    } else {
        format!("{formula}{text}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: texts contain every character that separates cells or starts a formula.
    /// Guarantee: the cells are quoted as RFC 4180 requires, and a text that a spreadsheet would take for a formula
    /// starts with `'`.
    #[test]
    fn texts_are_quoted() {
        assert_eq!(cell("a b"), "a b");
        assert_eq!(cell("a,\"b\"\n"), "\"a,\"\"b\"\"\n\"");
        assert_eq!(cell("=1+1"), "'=1+1");
        assert_eq!(text(&serde_json::json!(null)), "");
        assert_eq!(text(&serde_json::json!(["a", "b"])), "a b");
        assert_eq!(text(&serde_json::json!(1.5)), "1.5");
    }
}
