//! Output of results, with their format and colours, and messages on standard error.

use std::io::{self, BufWriter, IsTerminal, Stdout, Write};
use std::os::fd::AsFd;
use std::path::Path;

use anstream::{AutoStream, ColorChoice};
use anyhow::Context as _;
use base::text::shown;
use serde::Serialize;

use crate::commands::cli::{EvidenceFormat, Format, FormatArgs};
use processes::files::AtomicFile;
use report::table::{self, Escape, Folding};

const WRITE_BYTES: usize = 64 * 1024;

/// An output that writes results as a table, as records, or in another format.
pub(crate) struct Output<F = Format> {
    pub(crate) format: F,
    out: Folding<BufWriter<Destination>>,
}

enum Destination {
    Stdout(Stdout),
    File(AtomicFile),
}

impl Write for Destination {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Stdout(stdout) => stdout.write(bytes),
            Self::File(file) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Stdout(stdout) => stdout.flush(),
            Self::File(file) => file.flush(),
        }
    }
}

impl Output {
    /// Opens standard output. The format is a table on a terminal and records otherwise, unless the arguments set it.
    pub(crate) fn stdout(args: FormatArgs) -> Self {
        let stdout = io::stdout();
        let format = args.format.unwrap_or_else(|| {
            if stdout.is_terminal() {
                return Format::Table;
            }
            note_records();
            Format::Ndjson
        });
        Self::new(format, format == Format::Table, Destination::Stdout(stdout))
    }
}

impl Output<EvidenceFormat> {
    /// Opens a file, or standard output if `file` is `None`. Without a format, the file name or the terminal decides.
    pub(crate) fn open(format: Option<EvidenceFormat>, file: Option<&Path>, force: bool) -> anyhow::Result<Self> {
        let on_terminal = file.is_none() && io::stdout().is_terminal();
        let format = format.unwrap_or_else(|| match file {
            None if on_terminal => EvidenceFormat::Table,
            None => {
                note_records();
                EvidenceFormat::Ndjson
            }
            Some(file) => by_extension(file),
        });
        if format == EvidenceFormat::Pprof && on_terminal {
            anyhow::bail!("a pprof profile is not for a terminal; use -o FILE");
        }
        let to = match file {
            None => Destination::Stdout(io::stdout()),
            Some(file) => Destination::File(private_file(file, force)?),
        };
        Ok(Self::new(format, format == EvidenceFormat::Table, to))
    }

    /// Returns the writer for binary output.
    pub(crate) fn raw(&mut self) -> &mut dyn Write {
        self.out.escape_as(Escape::Raw);
        &mut self.out
    }
}

impl<F> Output<F> {
    /// Creates an output. Colours are used only on a terminal, subject to `NO_COLOR` and `CLICOLOR`.
    fn new(format: F, is_table: bool, to: Destination) -> Self {
        let (mut width, mut is_coloured) = (None, false);
        if let Destination::Stdout(stdout) = &to {
            width = stdout.is_terminal().then(|| terminal_width(stdout)).flatten();
            is_coloured = is_table && AutoStream::choice(stdout) != ColorChoice::Never;
        }
        table::width(width);
        table::colour(is_coloured);
        let out = BufWriter::with_capacity(WRITE_BYTES, to);
        let out = Folding::new(out, width.filter(|_| is_table), Escape::Replaced);
        Self { format, out }
    }

    /// Writes a record as a line of JSON.
    pub(crate) fn record(&mut self, record: &impl Serialize) -> io::Result<()> {
        self.out.record(record)
    }

    /// Writes each of the records.
    pub(crate) fn records<R: Serialize>(&mut self, records: impl IntoIterator<Item = R>) -> io::Result<()> {
        records.into_iter().try_for_each(|record| self.record(&record))
    }

    /// Returns the writer for tables. On a terminal, lines break only between words.
    pub(crate) fn text(&mut self) -> &mut dyn Write {
        self.out.escape_as(Escape::Replaced);
        &mut self.out
    }

    /// Finishes the output. A file gets its final name.
    pub(crate) fn finish(self) -> io::Result<()> {
        match self.out.finish()?.into_inner()? {
            Destination::Stdout(_) => Ok(()),
            Destination::File(file) => file.complete(),
        }
    }
}

/// Creates a file that only the user can read, because method names are private. An existing file is replaced only with
/// `force`.
pub(crate) fn private_file(file: &Path, force: bool) -> anyhow::Result<AtomicFile> {
    match AtomicFile::new(file, force) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            anyhow::bail!("{} exists; --force replaces it", file.display())
        }
        opened => opened.with_context(|| format!("cannot write {}", file.display())),
    }
}

fn by_extension(file: &Path) -> EvidenceFormat {
    match file.extension().and_then(|extension| extension.to_str()) {
        Some("svg") => EvidenceFormat::Svg,
        Some("folded") => EvidenceFormat::Folded,
        Some("pb" | "pprof" | "gz") => EvidenceFormat::Pprof,
        Some("txt") => EvidenceFormat::Table,
        _ => EvidenceFormat::Ndjson,
    }
}

/// Explains the format to users of a pipe such as `gcwatch doctor | less`. Programs have no terminal on standard error
/// and get no note.
fn note_records() {
    if io::stderr().is_terminal() {
        say("ndjson, because standard output is not a terminal; --format table prints tables");
    }
}

pub(crate) fn terminal_width(terminal: impl AsFd) -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(terminal).ok()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

/// Writes one sentence to standard error. A closed standard error is ignored.
pub(crate) fn say(sentence: impl std::fmt::Display) {
    let mut stderr = io::stderr();
    let width = stderr.is_terminal().then(|| terminal_width(&stderr)).flatten();
    let text = format!("gcwatch: {sentence}");
    let text = text.lines().map(shown).collect::<Vec<_>>().join("\n");
    let text = width.map_or_else(|| text.clone(), |most| table::folded(&text, most));
    let _ignored = writeln!(stderr, "{text}");
}
