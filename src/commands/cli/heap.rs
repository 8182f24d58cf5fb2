//! `gcwatch heap` and `gcwatch stacks`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

use super::evidence::{BurstArgs, SubjectArgs};
use super::value::{FormatArgs, duration};

/// Output formats for live objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum HeapFormat {
    /// Human-readable tables
    Table,
    /// One JSON object per line with stable field names
    #[value(alias = "json")]
    Ndjson,
    /// A gzipped pprof profile of types by their holders, for `go tool pprof`, Grafana and speedscope
    Pprof,
    /// A heap snapshot for browser developer tools, VS Code and memlab
    Heapsnapshot,
    /// One stack of types per line with its bytes, for flame graph tools
    Folded,
    /// A flame graph in which the frame width shows retained bytes
    Svg,
}

#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "Examples:\n  sudo gcwatch heap 4711\n  sudo gcwatch heap 4711 --type Order\n  sudo gcwatch heap 4711 -o heap.pb.gz\n  gcwatch heap diff before.ndjson after.ndjson\n\n\
    A heap dump is a full collection that pauses all threads of the process while it is written (twice before\n\
    .NET 10), and takes memory outside the heap until it is read. The command prints the price first and refuses\n\
    dangerous dumps; see docs/heap.md."
)]
pub(crate) struct HeapArgs {
    #[command(flatten)]
    pub(crate) subject: SubjectArgs,
    /// Count only objects and bytes by type: half the price in .NET 10 and later, without holders
    #[arg(long)]
    pub(crate) histogram: bool,
    /// Show the holders of objects whose type name contains this text
    #[arg(long = "type", value_name = "T", conflicts_with = "histogram")]
    pub(crate) only: Option<String>,
    /// Take two dumps with this interval [default: 1m] and print the growth
    #[arg(long, value_name = "TIME", num_args = 0..=1, default_missing_value = "1m", value_parser = duration)]
    pub(crate) diff: Option<Duration>,
    /// Print the price and exit
    #[arg(long)]
    pub(crate) price: bool,
    /// .NET 11: use only 16 MB in the process, which pauses it longer because it waits for the reader
    #[arg(long, conflicts_with = "histogram")]
    pub(crate) small_buffer: bool,
    /// Run despite a refusal, and replace existing files
    #[arg(long)]
    pub(crate) force: bool,
    /// Maximum graph memory in megabytes [default: 512, at most half of the free memory]
    #[arg(long, value_name = "MB")]
    pub(crate) memory: Option<u64>,
    /// Folder of the host-wide dump lock
    #[arg(long, value_name = "DIR", hide = true, default_value = "/run/gcwatch")]
    pub(crate) lease_folder: PathBuf,
    /// Output format [default: from the file name, otherwise table on a terminal, otherwise ndjson]
    #[arg(long, value_enum)]
    pub(crate) format: Option<HeapFormat>,
    /// Output file, such as heap.pb.gz, heap.heapsnapshot, heap.ndjson [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Save the recording too, so that this command can read it again
    #[arg(long, value_name = "FILE")]
    pub(crate) keep: Option<PathBuf>,
    /// Maximum number of table rows
    #[arg(long, value_name = "N", default_value_t = 15)]
    pub(crate) top: usize,
    #[command(subcommand)]
    pub(crate) command: Option<HeapCommand>,
}

/// Subcommands of `gcwatch heap`.
#[derive(Debug, Subcommand)]
pub(crate) enum HeapCommand {
    /// Compare two dumps (ndjson outputs or recordings) and show growth by type and by holder
    Diff(HeapDiffArgs),
}

#[derive(Debug, Args)]
pub(crate) struct HeapDiffArgs {
    /// Earlier dump
    #[arg(value_name = "A")]
    pub(crate) before: PathBuf,
    /// Later dump
    #[arg(value_name = "B")]
    pub(crate) after: PathBuf,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
    /// Maximum number of table rows
    #[arg(long, value_name = "N", default_value_t = 15)]
    pub(crate) top: usize,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  sudo gcwatch stacks 4711\n  sudo gcwatch stacks 4711 --duration 1s --stacks")]
pub(crate) struct StacksArgs {
    #[command(flatten)]
    pub(crate) subject: SubjectArgs,
    #[command(flatten)]
    pub(crate) burst: BurstArgs,
}
