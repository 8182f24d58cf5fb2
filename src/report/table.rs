//! Tables for a terminal: columns of a declared width, written row by row, so that a recording of any length needs no memory.

use std::fmt;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use anstyle::{AnsiColor, Style};

/// Where a column's text stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// One column.
#[derive(Debug, Clone, Copy)]
pub struct Column {
    /// Its heading.
    pub name: &'static str,
    /// Least number of characters; longer cells push the rest of their row.
    pub width: usize,
    /// Where its text stands.
    pub align: Align,
}

/// A column of words.
pub const fn left(name: &'static str, width: usize) -> Column {
    Column {
        name,
        width,
        align: Align::Left,
    }
}

/// A column of numbers.
pub const fn right(name: &'static str, width: usize) -> Column {
    Column {
        name,
        width,
        align: Align::Right,
    }
}

static COLOURED: AtomicBool = AtomicBool::new(false);

/// Whether texts are styled from now on: on a terminal that wants it.
pub fn colour(on: bool) {
    COLOURED.store(on, Ordering::Relaxed);
}

/// A style of text: `{STYLE}` begins it, `{STYLE:#}` ends it. Writes nothing unless [`colour`] was turned on.
#[derive(Debug, Clone, Copy)]
pub struct Paint(Style);

impl fmt::Display for Paint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if COLOURED.load(Ordering::Relaxed) {
            self.0.fmt(f)
        } else {
            Ok(())
        }
    }
}

/// Headings.
pub const HEADING: Paint = Paint(Style::new().bold());
/// What is less important.
pub const FAINT: Paint = Paint(Style::new().dimmed());
/// What somebody should look at.
pub const MARK: Paint = Paint(AnsiColor::Yellow.on_default());

/// Writes the headings.
///
/// # Errors
///
/// What the writer says.
pub fn head(out: &mut dyn Write, columns: &[Column]) -> io::Result<()> {
    let names: Vec<String> = columns.iter().map(|column| column.name.to_owned()).collect();
    write!(out, "{HEADING}")?;
    cells(out, columns, &names)?;
    writeln!(out, "{HEADING:#}")
}

/// Writes one row. A last column of words is not padded.
///
/// # Errors
///
/// What the writer says.
pub fn row(out: &mut dyn Write, columns: &[Column], texts: &[String]) -> io::Result<()> {
    cells(out, columns, texts)?;
    writeln!(out)
}

fn cells(out: &mut dyn Write, columns: &[Column], texts: &[String]) -> io::Result<()> {
    let mut owed = 0;
    for (index, (column, text)) in columns.iter().zip(texts).enumerate() {
        let width = column.width.max(column.name.chars().count());
        let length = text.chars().count();
        let (before, after) = match column.align {
            Align::Left => (0, width.saturating_sub(length)),
            Align::Right => (width.saturating_sub(length), 0),
        };
        let gap = if index == 0 { 0 } else { 2 };
        if text.is_empty() {
            owed += gap + before + after;
            continue;
        }
        write!(out, "{:1$}{text}", "", owed + gap + before)?;
        owed = after;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: rows with short, long and empty cells.
    /// Guarantee: columns stand under each other, and no line ends in blanks.
    #[test]
    fn columns_stand_under_each_other() {
        let columns = [right("gc", 4), left("reason", 8), right("ms", 6), left("note", 0)];
        let mut out = Vec::new();
        for texts in [["1", "AllocSmall", "1.5", "x"], ["22", "Empty", "10.25", ""]] {
            row(&mut out, &columns, &texts.map(str::to_owned)).unwrap();
        }
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "   1  AllocSmall     1.5  x\n  22  Empty      10.25\n"
        );
    }
}
