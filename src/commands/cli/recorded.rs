//! The commands on recordings: `events`, `analyze`, `diff`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::value::{FormatArgs, duration, severity};
use gc_rules::rule::Severity;

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  gcwatch events app.nettrace --name GCStart --to 5s")]
pub(crate) struct EventsArgs {
    /// The recording
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Only events with this name, such as GCStart, in upper or lower case (repeatable)
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Vec<String>,
    /// Only events at or after this offset from the sync point, such as 1.5s
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) from: Option<Duration>,
    /// Only events before this offset from the sync point
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) to: Option<Duration>,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

/// How collections are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum AnalyzeFormat {
    /// Tables for reading
    Table,
    /// One JSON object per line; names do not change
    #[value(alias = "json")]
    Ndjson,
    /// A line for each collection, for spreadsheets and data frames; no summary, no anomalies
    Csv,
}

/// What collections are sorted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Sort {
    /// By start time
    Time,
    /// Longest pause first
    Pause,
    /// Longest suspension first
    Suspend,
    /// Longest collection first
    Duration,
    /// Most promoted first
    Promoted,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  gcwatch analyze app.nettrace\n  gcwatch analyze app.nettrace --sort pause --top 20\n  gcwatch analyze app.nettrace --gc 31 --events\n  gcwatch analyze --html report.html before.nettrace after.nettrace"
)]
pub(crate) struct AnalyzeArgs {
    /// The recordings; of a directory, the .nettrace files in it
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// Show one collection in full, by its number
    #[arg(long, value_name = "N", conflicts_with_all = ["from", "to", "sort", "top"])]
    pub(crate) gc: Option<u32>,
    /// With --gc: also its events
    #[arg(long, requires = "gc")]
    pub(crate) events: bool,
    /// Only collections that start at or after this offset from the sync point, such as 1.5s
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) from: Option<Duration>,
    /// Only collections that start before this offset from the sync point
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) to: Option<Duration>,
    /// Sort order
    #[arg(long, value_enum, default_value_t = Sort::Time)]
    pub(crate) sort: Sort,
    /// Only the first N of each process
    #[arg(long, value_name = "N")]
    pub(crate) top: Option<usize>,
    /// Do not evaluate rules: only collections, no anomalies
    #[arg(long)]
    pub(crate) no_rules: bool,
    /// Rule files or directories, read after the shipped rules (repeatable)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["no_rules", "gc"])]
    pub(crate) rules: Vec<PathBuf>,
    /// Exit with 1 if there is an anomaly of this or a higher severity
    #[arg(long, value_parser = severity(), value_name = "SEVERITY", conflicts_with_all = ["no_rules", "gc"])]
    pub(crate) fail_on: Option<Severity>,
    /// Write the recordings as a page to send to somebody: a single file, opened without a network
    #[arg(long, value_name = "FILE", conflicts_with_all = ["gc", "from", "to", "sort", "top", "format"])]
    pub(crate) html: Option<PathBuf>,
    /// Show the process's command line in the page of --html; it may hold secrets
    #[arg(long, requires = "html")]
    pub(crate) with_command_line: bool,
    /// Overwrite the file of --html
    #[arg(long, requires = "html")]
    pub(crate) force: bool,
    /// Output format [default: table on a terminal, otherwise ndjson]
    #[arg(long, value_enum)]
    pub(crate) format: Option<AnalyzeFormat>,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  gcwatch diff before.nettrace after.nettrace")]
pub(crate) struct DiffArgs {
    /// The earlier recording
    #[arg(value_name = "A")]
    pub(crate) before: PathBuf,
    /// The later recording
    #[arg(value_name = "B")]
    pub(crate) after: PathBuf,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}
