//! Arguments of the commands that read recordings: `events`, `analyze`, `diff`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::value::{FormatArgs, duration, severity};
use rule_engine::rule::Severity;

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  gcwatch events app.nettrace --name GCStart --to 5s")]
pub(crate) struct EventsArgs {
    /// Recording to read
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Show only events with this name, such as GCStart; case-insensitive (repeatable)
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Vec<String>,
    /// Show only events at or after this offset from the start of the recording, such as 1.5s
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) from: Option<Duration>,
    /// Show only events before this offset from the start of the recording
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) to: Option<Duration>,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

/// Output formats for collections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum AnalyzeFormat {
    /// Human-readable tables
    Table,
    /// One JSON object per line with stable field names
    #[value(alias = "json")]
    Ndjson,
    /// CSV with one line per collection, without summary and anomalies
    Csv,
}

/// Sort orders of collections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Sort {
    /// Earliest start first
    Time,
    /// Longest pause first
    Pause,
    /// Longest suspension first
    Suspend,
    /// Longest collection first
    Duration,
    /// Most promoted bytes first
    Promoted,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  gcwatch analyze app.nettrace\n  gcwatch analyze app.nettrace --sort pause --top 20\n  gcwatch analyze app.nettrace --gc 31 --events\n  gcwatch analyze --html report.html before.nettrace after.nettrace"
)]
pub(crate) struct AnalyzeArgs {
    /// Recordings, or directories with .nettrace files
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// Show all details of the collection with this number
    #[arg(long, value_name = "N", conflicts_with_all = ["from", "to", "sort", "top"])]
    pub(crate) gc: Option<u32>,
    /// Show the collection of --gc with its events
    #[arg(long, requires = "gc")]
    pub(crate) events: bool,
    /// Show only collections that start at or after this offset from the start of the recording, such as 1.5s
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) from: Option<Duration>,
    /// Show only collections that start before this offset from the start of the recording
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) to: Option<Duration>,
    /// Sort order of collections
    #[arg(long, value_enum, default_value_t = Sort::Time)]
    pub(crate) sort: Sort,
    /// Show only the first N collections of each process
    #[arg(long, value_name = "N")]
    pub(crate) top: Option<usize>,
    /// Do not evaluate rules, and show no anomalies
    #[arg(long)]
    pub(crate) no_rules: bool,
    /// Rule file or directory to load after the shipped rules (repeatable)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["no_rules", "gc"])]
    pub(crate) rules: Vec<PathBuf>,
    /// Exit with code 1 if an anomaly has at least this severity
    #[arg(long, value_parser = severity(), value_name = "SEVERITY", conflicts_with_all = ["no_rules", "gc"])]
    pub(crate) fail_on: Option<Severity>,
    /// Write the recordings as an HTML page to share: a single file that loads nothing from the network
    #[arg(long, value_name = "FILE", conflicts_with_all = ["gc", "from", "to", "sort", "top", "format"])]
    pub(crate) html: Option<PathBuf>,
    /// Show the command line of the process on the HTML page; the command line can contain secrets
    #[arg(long, requires = "html")]
    pub(crate) with_command_line: bool,
    /// Overwrite the HTML page if the file exists
    #[arg(long, requires = "html")]
    pub(crate) force: bool,
    /// Output format [default: table on a terminal, otherwise ndjson]
    #[arg(long, value_enum)]
    pub(crate) format: Option<AnalyzeFormat>,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  gcwatch diff before.nettrace after.nettrace")]
pub(crate) struct DiffArgs {
    /// Earlier recording
    #[arg(value_name = "A")]
    pub(crate) before: PathBuf,
    /// Later recording
    #[arg(value_name = "B")]
    pub(crate) after: PathBuf,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}
