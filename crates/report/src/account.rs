//! The account of stopped time as text: its parts with bars, the largest first.

use std::io::{self, Write};

use rule_engine::account::{AccountPart, AccountRecord};

use crate::table::{FAINT, HEADING};
use crate::units::{Percent, Span};

/// Maximum number of parts with a separate line.
const MAX_PARTS: usize = 8;
/// Minimum share of a part with a separate line, and of an origin that is named.
const MIN_SHARE: f64 = 0.01;
/// Width of the bar for the whole time, in characters.
const BAR: f64 = 20.0;

/// Returns the range of a part, or the word `estimated`, for the end of its line. Returns an empty text for a measured
/// part.
fn note(part: &AccountPart, total: i64) -> String {
    match part.range(total) {
        Some((low, high)) => format!(" {:.0} to {:.0} %", 100.0 * low, 100.0 * high),
        None if part.kind == "estimated" => " estimated".to_owned(),
        None => String::new(),
    }
}

/// Writes the stopped time by cause and by origin, under a title. Writes nothing if there is no stopped time.
pub fn write(out: &mut dyn Write, title: &str, account: &AccountRecord) -> io::Result<()> {
    if account.total <= 0 {
        return Ok(());
    }
    writeln!(out, "{HEADING}{title}{HEADING:#}")?;
    let mut line = |title: &str, ns: i64, note: &str| {
        let share = ns as f64 / account.total as f64;
        let width = (share * BAR).round() as usize;
        let bar = "█".repeat(width.max(usize::from(width == 0 && ns > 0)));
        writeln!(
            out,
            "  {title:<40}{:>11} {:>9}  {bar}{FAINT}{note}{FAINT:#}",
            Span(ns).to_string(),
            Percent(Some(share)).to_string()
        )
    };
    let has_line = |share: f64| share >= MIN_SHARE;
    let (shown, rest): (Vec<_>, Vec<_>) = account
        .parts
        .iter()
        .enumerate()
        .partition(|(place, part)| *place < MAX_PARTS && has_line(part.share));
    for (_, part) in &shown {
        line(&part.title, part.value, &note(part, account.total))?;
    }
    if !rest.is_empty() {
        let sum = rest.iter().map(|(_, part)| part.value).fold(0, i64::saturating_add);
        line(&format!("{} more", rest.len()), sum, "")?;
    }
    if account.unexplained > 0 {
        line("unexplained", account.unexplained, "")?;
    }
    let askers = account.asked_by.iter().filter(|part| has_line(part.share));
    let askers: Vec<String> = askers
        .map(|part| format!("{} {}", part.title, Percent(Some(part.share))))
        .collect();
    writeln!(out, "asked for by {}", askers.join(", "))
}
