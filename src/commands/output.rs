//! Standard output: the format, colours, and readers that go away.

use std::io::{self, BufWriter, IsTerminal, Write};

use anstream::{AutoStream, ColorChoice};
use serde::Serialize;

use crate::commands::cli::{Format, FormatArgs};
use crate::report::table;

/// How much is written at once.
const WRITE_BYTES: usize = 64 * 1024;

/// Standard output with its format.
pub struct Output {
    format: Format,
    out: BufWriter<io::Stdout>,
}

impl std::fmt::Debug for Output {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Output")
            .field("format", &self.format)
            .finish_non_exhaustive()
    }
}

impl Output {
    /// Standard output: a table on a terminal unless the arguments say otherwise. Colours only on a terminal, as
    /// `NO_COLOR` and `CLICOLOR` say.
    pub fn stdout(args: FormatArgs) -> Self {
        let stdout = io::stdout();
        let format = args.format.unwrap_or(if stdout.is_terminal() {
            Format::Table
        } else {
            Format::Ndjson
        });
        table::colour(format == Format::Table && AutoStream::choice(&stdout) != ColorChoice::Never);
        let out = BufWriter::with_capacity(WRITE_BYTES, stdout);
        Self { format, out }
    }

    /// The format.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Writes one record on a line of its own.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn record(&mut self, record: &impl Serialize) -> io::Result<()> {
        serde_json::to_writer(&mut self.out, record)?;
        self.out.write_all(b"\n")
    }

    /// Where tables go.
    pub fn text(&mut self) -> &mut dyn Write {
        &mut self.out
    }

    /// Writes what is buffered.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn finish(mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Writes one sentence to standard error. A standard error that is closed is nobody's loss.
pub fn say(sentence: impl std::fmt::Display) {
    let _nobody_listens = writeln!(io::stderr(), "gcwatch: {sentence}");
}
