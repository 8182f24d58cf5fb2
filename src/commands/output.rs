//! Standard output with its format and colours, and sentences on standard error.

use std::io::{self, BufWriter, IsTerminal, Write};
use std::os::fd::AsFd;

use anstream::{AutoStream, ColorChoice};
use dotnet_diagnostics::text::shown;
use serde::Serialize;

use crate::commands::cli::{Format, FormatArgs};
use report::table::{self, Escape, Folding};

/// Size of the buffer of standard output.
const WRITE_BYTES: usize = 64 * 1024;

/// Standard output, as a table or as records.
pub struct Output {
    format: Format,
    out: Folding<BufWriter<io::Stdout>>,
}

impl std::fmt::Debug for Output {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Output")
            .field("format", &self.format)
            .finish_non_exhaustive()
    }
}

impl Output {
    /// Standard output: a table on a terminal, else records, unless the arguments set the format. Colours only on a
    /// terminal, and by `NO_COLOR` and `CLICOLOR`.
    pub fn stdout(args: FormatArgs) -> Self {
        let stdout = io::stdout();
        let format = args.format.unwrap_or_else(|| {
            if stdout.is_terminal() {
                return Format::Table;
            }
            note_records();
            Format::Ndjson
        });
        let width = stdout.is_terminal().then(|| terminal_width(&stdout)).flatten();
        table::width(width);
        table::colour(format == Format::Table && AutoStream::choice(&stdout) != ColorChoice::Never);
        let out = BufWriter::with_capacity(WRITE_BYTES, stdout);
        let out = Folding::new(out, width.filter(|_| format == Format::Table), Escape::Replaced);
        Self { format, out }
    }

    /// The format in use.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Writes one record on a line of its own.
    ///
    /// # Errors
    ///
    /// When standard output cannot be written.
    pub fn record(&mut self, record: &impl Serialize) -> io::Result<()> {
        self.out.escape_as(Escape::Json);
        serde_json::to_writer(&mut self.out, record)?;
        self.out.write_all(b"\n")
    }

    /// The writer for tables: on a terminal no word of a line is broken.
    pub fn text(&mut self) -> &mut dyn Write {
        self.out.escape_as(Escape::Replaced);
        &mut self.out
    }

    /// Flushes the buffer.
    ///
    /// # Errors
    ///
    /// When standard output cannot be written.
    pub fn finish(mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// For whoever types `gcwatch doctor | less`. Programs have no terminal on standard error, and no note.
pub(crate) fn note_records() {
    if io::stderr().is_terminal() {
        say("ndjson, because standard output is not a terminal; --format table prints tables");
    }
}

/// Columns of a terminal.
pub(crate) fn terminal_width(terminal: impl AsFd) -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(terminal).ok()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

/// Writes one sentence to standard error. A closed standard error is ignored.
pub fn say(sentence: impl std::fmt::Display) {
    let mut stderr = io::stderr();
    let width = stderr.is_terminal().then(|| terminal_width(&stderr)).flatten();
    let text = format!("gcwatch: {sentence}");
    let text = text.lines().map(shown).collect::<Vec<_>>().join("\n");
    let text = width.map_or_else(|| text.clone(), |most| table::folded(&text, most));
    let _ignored = writeln!(stderr, "{text}");
}
