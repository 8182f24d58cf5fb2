//! Tables for a terminal. Columns have a declared width and are written row by row, so a recording of any length needs
//! no memory.

use std::fmt;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use anstyle::{AnsiColor, Style};
use base::text::is_plain;
use serde::Serialize;

use crate::units::plural;

/// Alignment of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    /// Left-aligned, for words.
    Left,
    /// Right-aligned, for numbers.
    Right,
}

/// Heading, width and alignment of a column.
#[derive(Debug, Clone, Copy)]
pub struct Column {
    /// Text of the heading.
    pub name: &'static str,
    /// Minimum number of characters. Longer cells shift the rest of their row.
    pub width: usize,
    /// Alignment of heading and cells.
    pub align: Align,
}

/// Creates a column of words.
pub const fn left(name: &'static str, width: usize) -> Column {
    Column {
        name,
        width,
        align: Align::Left,
    }
}

/// Creates a column of numbers.
pub const fn right(name: &'static str, width: usize) -> Column {
    Column {
        name,
        width,
        align: Align::Right,
    }
}

/// Number of characters between two columns.
pub const GAP: usize = 2;

/// Maximum number of characters per line; 0 for no limit.
static WIDTH: AtomicUsize = AtomicUsize::new(0);

/// Sets the maximum number of characters per line, which is the width of the terminal; `None` for no limit, used for
/// pipes.
pub fn width(characters: Option<usize>) {
    WIDTH.store(characters.unwrap_or(0), Ordering::Relaxed);
}

/// Returns the maximum number of characters per line, or `None` for no limit.
pub fn columns() -> Option<usize> {
    Some(WIDTH.load(Ordering::Relaxed)).filter(|columns| *columns > 0)
}

/// Returns the indices of the columns that fit. `importance` has a value for each column; the columns with the highest
/// values are kept. A last column of words (width 0) counts as `last` characters.
pub fn fitting(columns: &[Column], importance: &[u8], last: usize) -> Vec<usize> {
    let most = WIDTH.load(Ordering::Relaxed);
    let mut shown: Vec<usize> = (0..columns.len()).collect();
    let width_of = |place: &usize| {
        let column = columns.get(*place);
        column.map_or(0, |column| match column.width {
            0 => last.max(column.name.chars().count()),
            width => width.max(column.name.chars().count()),
        })
    };
    while most > 0 && shown.iter().map(|place| width_of(place) + GAP).sum::<usize>() > most + GAP {
        let least = shown
            .iter()
            .copied()
            .min_by_key(|place| importance.get(*place).copied().unwrap_or(u8::MAX));
        let Some(least) = least.filter(|_| shown.len() > 1) else {
            break;
        };
        shown.retain(|place| *place != least);
    }
    shown
}

/// Returns the cells of the columns that fit.
pub fn chosen<T: Clone>(shown: &[usize], all: &[T]) -> Vec<T> {
    shown.iter().filter_map(|place| all.get(*place).cloned()).collect()
}

/// Wraps words into lines that fit next to `indent` characters. No word is broken, and each further line is indented.
pub fn wrapped(text: &str, indent: usize) -> String {
    match columns() {
        // If a wide table leaves no space next to its columns, the text is written below them.
        Some(most) if most < indent + 24 && text.chars().count() + indent > most => {
            format!("\n{:4}{}", "", beside(text, 4, most))
        }
        Some(most) => beside(text, indent, most),
        None => text.to_owned(),
    }
}

/// Like [`wrapped`], but in lines of `most` characters.
pub(crate) fn beside(text: &str, indent: usize, most: usize) -> String {
    folded(text, most.saturating_sub(indent)).replace('\n', &format!("\n{:indent$}", ""))
}

/// Folds a line into lines of at most `most` characters. Further lines are indented like the first and broken only
/// between words. A word of more than `most` characters makes its line longer. Colour sequences have no width.
pub fn folded(line: &str, most: usize) -> String {
    let blanks = line.chars().take_while(|c| *c == ' ').count();
    let indent = if blanks * 2 > most { 0 } else { blanks };
    let mut out = String::with_capacity(line.len() + 16);
    // Length of the current line, blanks before the next word, the word, and its length.
    let (mut length, mut gap, mut word, mut of_word) = (0, 0, String::new(), 0);
    let mut in_colour = false;
    let mut put = |out: &mut String, gap: &mut usize, word: &mut String, of_word: &mut usize| {
        if word.is_empty() {
            return;
        }
        if length > indent && length + *gap + *of_word > most {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', indent));
            length = indent;
        } else {
            out.extend(std::iter::repeat_n(' ', *gap));
            length += *gap;
        }
        out.push_str(word);
        length += *of_word;
        word.clear();
        (*gap, *of_word) = (0, 0);
    };
    for c in line.chars() {
        if c == ' ' && !in_colour {
            put(&mut out, &mut gap, &mut word, &mut of_word);
            gap += 1;
            continue;
        }
        in_colour |= c == '\u{1b}';
        word.push(c);
        of_word += usize::from(!in_colour);
        in_colour &= !c.is_ascii_alphabetic();
    }
    put(&mut out, &mut gap, &mut word, &mut of_word);
    out
}

/// Wraps the words of a last column into lines that fit next to the other columns, if there is space for a few words.
/// Otherwise, the text stays unchanged.
fn last_cell(text: &str, columns: &[Column], most: Option<usize>) -> String {
    let before = columns.iter().rev().skip(1);
    let indent: usize = before
        .map(|column| column.width.max(column.name.chars().count()) + GAP)
        .sum();
    match most {
        Some(most) if most >= indent + MIN_WORDS && !text.contains('\n') => beside(text, indent, most),
        _ => text.to_owned(),
    }
}

/// Minimum number of characters for a few words.
const MIN_WORDS: usize = 16;

/// Treatment of characters that a terminal would obey or that deceive ([`is_plain`]). The output contains names from
/// processes, recordings and other daemons.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Escape {
    /// Text: each such character is replaced by U+FFFD. Ends of lines, tabs and the styles of this module are kept.
    Replaced,
    /// JSON records: each such character becomes a JSON escape sequence, so that no information is lost.
    Json,
    /// Bytes of another format that is not text.
    Raw,
}

/// A writer for all standard output. The writer escapes foreign text before the text reaches a terminal, and folds
/// lines ([`folded`]).
#[derive(Debug)]
pub struct Folding<W> {
    inner: W,
    /// Maximum number of characters per line; `None` for no limit.
    most: Option<usize>,
    escape: Escape,
    /// The incomplete current line.
    line: Vec<u8>,
    /// The incomplete start of a character, of a style, or of a line end.
    begun: Vec<u8>,
    /// The most recent record. The buffer is reused for the next record.
    record: Vec<u8>,
}

impl<W: Write> Folding<W> {
    /// Creates a writer with lines of at most `most` characters; `None` for no limit.
    pub fn new(inner: W, most: Option<usize>, escape: Escape) -> Self {
        Self {
            inner,
            most,
            escape,
            line: Vec::new(),
            begun: Vec::new(),
            record: Vec::new(),
        }
    }

    /// Writes a record as a line of JSON. The record is escaped as a whole, because a check per token would cost more
    /// than the serialization.
    ///
    /// # Errors
    ///
    /// Returns an error if the record cannot be serialized or written.
    pub fn record(&mut self, record: &impl Serialize) -> io::Result<()> {
        let mut line = std::mem::take(&mut self.record);
        line.clear();
        serde_json::to_writer(Tokens(&mut line), record)?;
        line.push(b'\n');
        self.escape = Escape::Json;
        let written = self.write_all(&line);
        self.record = line;
        written
    }

    /// Sets the escaping of subsequent output.
    pub fn escape_as(&mut self, escape: Escape) {
        self.escape = escape;
    }

    /// Writes the remaining output and returns the inner writer.
    ///
    /// # Errors
    ///
    /// Returns an error if the output cannot be written.
    pub fn finish(mut self) -> io::Result<W> {
        self.flush()?;
        Ok(self.inner)
    }

    /// Writes text that needs no further escaping.
    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Some(most) = self.most else {
            return self.inner.write_all(bytes);
        };
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            match part.strip_suffix(b"\n") {
                Some(end) => {
                    self.line.extend_from_slice(end);
                    let line = String::from_utf8_lossy(&self.line);
                    if line.len() <= most {
                        writeln!(self.inner, "{line}")?;
                    } else {
                        writeln!(self.inner, "{}", folded(&line, most))?;
                    }
                    self.line.clear();
                }
                None => self.line.extend_from_slice(part),
            }
        }
        Ok(())
    }

    /// Escapes and writes a text. Returns the end of the text without writing it if the end can be the start of a style
    /// or of a line end, otherwise an empty text.
    fn escaped<'a>(&mut self, text: &'a str) -> io::Result<&'a str> {
        let mut out = String::with_capacity(text.len() + 16);
        let mut rest = text;
        loop {
            let (harmless, foreign) = rest.split_at(harmless_bytes(rest.as_bytes()));
            out.push_str(harmless);
            rest = foreign;
            let Some(c) = rest.chars().next() else { break };
            let style = STYLES.into_iter().find(|style| rest.starts_with(style));
            let is_styled = self.escape == Escape::Replaced && COLOURED.load(Ordering::Relaxed);
            if let Some(style) = style.filter(|_| is_styled) {
                out.push_str(style);
                rest = rest.get(style.len()..).unwrap_or_default();
                continue;
            }
            if is_styled && STYLES.into_iter().any(|style| style.starts_with(rest)) {
                break;
            }
            // The line end of CSV.
            if self.escape == Escape::Replaced && c == '\r' {
                if rest == "\r" {
                    break;
                }
                if let Some(behind) = rest.strip_prefix("\r\n") {
                    out.push_str("\r\n");
                    rest = behind;
                    continue;
                }
            }
            rest = rest.get(c.len_utf8()..).unwrap_or_default();
            if is_plain(c) || c == '\n' || (c == '\t' && self.escape == Escape::Replaced) {
                out.push(c);
            } else if self.escape == Escape::Json {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    out.push_str(&format!("\\u{unit:04x}"));
                }
            } else {
                out.push(char::REPLACEMENT_CHARACTER);
            }
        }
        self.put(out.as_bytes())?;
        Ok(rest)
    }
}

/// Appends JSON tokens to a line. Most tokens have one byte, for which a copy costs more than a push.
struct Tokens<'l>(&'l mut Vec<u8>);

impl Write for Tokens<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_all(bytes)?;
        Ok(bytes.len())
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match bytes {
            [byte] => self.0.push(*byte),
            _ => self.0.extend_from_slice(bytes),
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// All styles that are written: bold, dimmed, red, yellow, and their end.
const STYLES: [&str; 5] = ["\x1b[1m", "\x1b[2m", "\x1b[31m", "\x1b[33m", "\x1b[0m"];

impl<W: Write> Write for Folding<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.escape == Escape::Raw {
            return self.inner.write(bytes);
        }
        if self.begun.is_empty() && harmless_bytes(bytes) == bytes.len() {
            self.put(bytes)?;
            return Ok(bytes.len());
        }
        let mut whole = std::mem::take(&mut self.begun);
        whole.extend_from_slice(bytes);
        let mut chunks = whole.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            let left = self.escaped(chunk.valid())?;
            let is_last = chunks.peek().is_none();
            if is_last && (chunk.invalid().is_empty() || begins_character(chunk.invalid())) {
                self.begun = [left.as_bytes(), chunk.invalid()].concat();
            } else {
                let lost = usize::from(!left.is_empty()) + usize::from(!chunk.invalid().is_empty());
                self.put("\u{fffd}".repeat(lost).as_bytes())?;
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if !std::mem::take(&mut self.begun).is_empty() {
            self.put("\u{fffd}".as_bytes())?;
        }
        let line = std::mem::take(&mut self.line);
        self.inner.write_all(&line)?;
        self.inner.flush()
    }
}

/// Returns the number of bytes before the first byte that can need an escape.
fn harmless_bytes(bytes: &[u8]) -> usize {
    let is_harmless = |byte: &u8| matches!(byte, b'\n' | b' '..=b'~');
    let is_harmless_block = |block: &&[u8; 8]| is_printable(**block) || block.iter().all(is_harmless);
    let (blocks, _) = bytes.as_chunks::<8>();
    let before = 8 * blocks.iter().take_while(is_harmless_block).count();
    let rest = bytes.get(before..).unwrap_or_default();
    before + rest.iter().take_while(|byte| is_harmless(byte)).count()
}

/// Returns whether all bytes are printable ASCII. A few instructions check the whole block.
const fn is_printable(block: [u8; 8]) -> bool {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const HIGH_BITS: u64 = 0x80 * ONES;
    let block = u64::from_ne_bytes(block);
    // The first operation sets the high bit of bytes below a space, and the second operation sets the high bit of DEL.
    let odd = block.wrapping_sub(b' ' as u64 * ONES) | block.wrapping_add(ONES) | block;
    odd & HIGH_BITS == 0
}

/// Returns whether the bytes can be the start of a character that continues in the next write.
fn begins_character(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}

static COLOURED: AtomicBool = AtomicBool::new(false);

/// Turns styles on or off for the process. They are turned on for a terminal that supports colours.
pub fn colour(on: bool) {
    COLOURED.store(on, Ordering::Relaxed);
}

/// A text style: `{STYLE}` starts the style, `{STYLE:#}` ends the style. Both write nothing unless styles were turned
/// on with [`colour`].
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

/// Style of headings.
pub const HEADING: Paint = Paint(Style::new().bold());
/// Style of secondary text.
pub const FAINT: Paint = Paint(Style::new().dimmed());
/// Style of the most severe items.
pub const BAD: Paint = Paint(AnsiColor::Red.on_default().bold());
/// Style of text that needs attention.
pub const MARK: Paint = Paint(AnsiColor::Yellow.on_default());

pub fn head(out: &mut dyn Write, columns: &[Column]) -> io::Result<()> {
    let names: Vec<String> = columns.iter().map(|column| column.name.to_owned()).collect();
    write!(out, "{HEADING}")?;
    cells(out, columns, &names)?;
    writeln!(out, "{HEADING:#}")
}

/// Writes one row. A last column of words is not padded.
pub fn row(out: &mut dyn Write, columns: &[Column], texts: &[String]) -> io::Result<()> {
    cells(out, columns, texts)?;
    writeln!(out)
}

fn cells(out: &mut dyn Write, columns: &[Column], texts: &[String]) -> io::Result<()> {
    let (mut owed, most) = (0, self::columns());
    for (index, (column, text)) in columns.iter().zip(texts).enumerate() {
        let width = column.width.max(column.name.chars().count());
        let length = text.chars().count();
        let (before, after) = match column.align {
            Align::Left => (0, width.saturating_sub(length)),
            Align::Right => (width.saturating_sub(length), 0),
        };
        let gap = if index == 0 { 0 } else { GAP };
        if text.is_empty() {
            owed += gap + before + after;
            continue;
        }
        let is_words = column.width == 0 && index + 1 == columns.len();
        let text = if is_words {
            &last_cell(text, columns, most)
        } else {
            text
        };
        write!(out, "{:1$}{text}", "", owed + gap + before)?;
        owed = after;
    }
    Ok(())
}

/// Writes the number of rows omitted from a table, if there are any.
pub(super) fn more(out: &mut dyn Write, all: usize, shown: usize, noun: &str) -> io::Result<()> {
    match all.checked_sub(shown).filter(|more| *more > 0) {
        Some(more) => writeln!(
            out,
            "{FAINT}and {} more; --top shows them{FAINT:#}",
            plural(more as u64, noun)
        ),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: one line fits, one has colours and a visible width that fits, one is long and indented, one has a word
    /// longer than the line, and one is a table row.
    /// Guarantee: no word is broken or lost, lines are no longer than necessary, and further lines are indented like
    /// the first.
    #[test]
    fn lines_are_folded_between_words() {
        assert_eq!(folded("twelve chars", 12), "twelve chars");
        assert_eq!(
            folded("\u{1b}[1mtwelve\u{1b}[0m chars", 12),
            "\u{1b}[1mtwelve\u{1b}[0m chars"
        );
        assert_eq!(folded("  -> one two three four", 14), "  -> one two\n  three four");
        assert_eq!(folded("a muchtoolongword b", 6), "a\nmuchtoolongword\nb");
        assert_eq!(folded("pid   name    what", 14), "pid   name\nwhat");
        assert_eq!(folded("", 5), "");
        let columns = [right("gc", 4), left("type", 6), left("notes", 0)];
        let notes = |most| last_cell("one two three four", &columns, most);
        assert_eq!(notes(Some(31)), format!("one two three\n{:14}four", ""));
        assert_eq!(notes(Some(20)), notes(None));
        let mut out = Folding::new(Vec::new(), Some(8), Escape::Replaced);
        write!(out, "one two").unwrap();
        write!(out, " three\n\nfour").unwrap();
        out.flush().unwrap();
        assert_eq!(String::from_utf8(out.inner).unwrap(), "one two\nthree\n\nfour");
    }

    fn through(escape: Escape, bytes: &[u8], piece: usize) -> String {
        let mut out = Folding::new(Vec::new(), None, escape);
        for piece in bytes.chunks(piece) {
            out.write_all(piece).unwrap();
        }
        String::from_utf8(out.finish().unwrap()).unwrap()
    }

    /// Scenario: a name has an escape sequence, a window title, a carriage return, C1, bidi and line separator
    /// characters, as text and in a JSON record; other input is not text, or is text in several scripts; pieces have
    /// every size.
    /// Guarantee: the output has no character that a terminal obeys or that deceives, and the JSON record is equal.
    #[test]
    fn foreign_text_is_escaped_for_terminals() {
        let name = "a\x1b[2J\x1b]0;t\x07\rb\u{9b}c\u{202e}d\u{2028}e\u{e0041}f\x7f";
        let text = format!("{name}\tGröße 日本\n");
        let safe =
            "a\u{fffd}[2J\u{fffd}]0;t\u{fffd}\u{fffd}b\u{fffd}c\u{fffd}d\u{fffd}e\u{fffd}f\u{fffd}\tGröße 日本\n";
        let json = format!("{}\n", serde_json::json!({ "name": name }));
        for piece in 1..=text.len() {
            assert_eq!(through(Escape::Replaced, text.as_bytes(), piece), safe, "{piece}");
            let record = through(Escape::Json, json.as_bytes(), piece);
            assert!(record.trim_end().chars().all(|c| matches!(c, ' '..='~')), "{record}");
            let read: serde_json::Value = serde_json::from_str(&record).unwrap();
            assert_eq!(read["name"], name);
            assert_eq!(
                through(Escape::Replaced, b"a\xffb\xe2\x80", piece),
                "a\u{fffd}b\u{fffd}"
            );
            let csv = through(Escape::Replaced, b"a,b\r\n\r1\r", piece);
            assert_eq!(csv, "a,b\r\n\u{fffd}1\u{fffd}");
        }
        let mut raw = Folding::new(Vec::new(), None, Escape::Raw);
        raw.write_all(b"\x1f\x8b\xff").unwrap();
        assert_eq!(raw.finish().unwrap(), b"\x1f\x8b\xff");
    }

    /// Scenario: after texts of each length up to 100, records have a dangerous character, a character of another
    /// script, or neither.
    /// Guarantee: each record is one line with the same content, and only dangerous characters are escaped.
    #[test]
    fn records_are_escaped_at_every_offset() {
        let mut out = Folding::new(Vec::new(), None, Escape::Replaced);
        let mut expected = String::new();
        for length in 0..100 {
            let before = "x".repeat(length);
            for (written, escaped) in [("", ""), ("\u{7f}\u{202e}", "\\u007f\\u202e"), ("ö日", "ö日")] {
                out.record(&serde_json::json!([before, written, before])).unwrap();
                expected += &format!("[\"{before}\",\"{escaped}\",\"{before}\"]\n");
            }
        }
        assert_eq!(String::from_utf8(out.finish().unwrap()).unwrap(), expected);
    }

    /// Scenario: the styles of headings, faint text, marks and severe items are written.
    /// Guarantee: each written style consists of styles that [`Folding`] lets through.
    #[test]
    fn written_styles_are_let_through() {
        for Paint(style) in [HEADING, FAINT, MARK, BAD] {
            let written = format!("{style}x{style:#}");
            let (before, after) = written.split_once('x').unwrap();
            // Bold and red are two styles.
            let passes = |mut text: &str| {
                while let Some(rest) = STYLES.iter().find_map(|style| text.strip_prefix(style)) {
                    text = rest;
                }
                text.is_empty()
            };
            assert!(passes(before) && passes(after), "{written:?}");
        }
    }

    /// Scenario: rows have short, long and empty cells.
    /// Guarantee: columns are aligned, and no line ends with blanks.
    #[test]
    fn columns_are_aligned() {
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
