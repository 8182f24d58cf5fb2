//! `gcwatch heap` and `gcwatch stacks`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

use super::evidence::{BurstArgs, SubjectArgs};
use super::value::{FormatArgs, duration};

/// How what lives is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum HeapFormat {
    /// Tables for reading
    Table,
    /// One JSON object per line; names do not change
    #[value(alias = "json")]
    Ndjson,
    /// A gzipped pprof profile: types by what keeps them alive, for `go tool pprof`, Grafana and speedscope
    Pprof,
    /// For the memory tab of a browser's developer tools, VS Code and memlab
    Heapsnapshot,
    /// One stack of types per line with its bytes, for flame graph tools
    Folded,
    /// A flame graph: the width of a frame is what it retains
    Svg,
}

#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "Examples:\n  sudo gcwatch heap 4711\n  sudo gcwatch heap 4711 --type Order\n  sudo gcwatch heap 4711 -o heap.pb.gz\n  gcwatch heap diff before.ndjson after.ndjson\n\n\
    A heap dump is one full collection that pauses all threads of the process while it is written (twice before\n\
    .NET 10), and takes memory beside the heap until it is read. The command prints the price first and refuses\n\
    what is dangerous; see docs/heap.md."
)]
pub(crate) struct HeapArgs {
    #[command(flatten)]
    pub(crate) subject: SubjectArgs,
    /// Count objects and bytes by type only: half the price from .NET 10 on, without what holds them
    #[arg(long)]
    pub(crate) histogram: bool,
    /// Show what holds objects whose type name contains this
    #[arg(long = "type", value_name = "T", conflicts_with = "histogram")]
    pub(crate) only: Option<String>,
    /// Take two dumps this far apart [default: 1m] and print what grew
    #[arg(long, value_name = "TIME", num_args = 0..=1, default_missing_value = "1m", value_parser = duration)]
    pub(crate) diff: Option<Duration>,
    /// Print the price and stop
    #[arg(long)]
    pub(crate) price: bool,
    /// .NET 11: take only 16 MB in the process, which pauses it longer because it waits for the reader
    #[arg(long, conflicts_with = "histogram")]
    pub(crate) small_buffer: bool,
    /// Run despite a refusal, and replace files
    #[arg(long)]
    pub(crate) force: bool,
    /// Memory limit of the graph in megabytes [default: 512, at most half of the free memory]
    #[arg(long, value_name = "MB")]
    pub(crate) memory: Option<u64>,
    /// Folder of the lock that one dump on the host takes
    #[arg(long, value_name = "DIR", hide = true, default_value = "/run/gcwatch")]
    pub(crate) lease_folder: PathBuf,
    /// Output format [default: by the file's name, else table on a terminal, otherwise ndjson]
    #[arg(long, value_enum)]
    pub(crate) format: Option<HeapFormat>,
    /// Output file, such as heap.pb.gz, heap.heapsnapshot, heap.ndjson [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Also keep the recording that the answer comes from, which this command reads too
    #[arg(long, value_name = "FILE")]
    pub(crate) keep: Option<PathBuf>,
    /// Rows of a table
    #[arg(long, value_name = "N", default_value_t = 15)]
    pub(crate) top: usize,
    #[command(subcommand)]
    pub(crate) command: Option<HeapCommand>,
}

/// What else there is of heaps.
#[derive(Debug, Subcommand)]
pub(crate) enum HeapCommand {
    /// Compare two dumps, ndjson outputs or recordings: what grew, by type and by what holds it
    Diff(HeapDiffArgs),
}

#[derive(Debug, Args)]
pub(crate) struct HeapDiffArgs {
    /// The earlier one
    #[arg(value_name = "A")]
    pub(crate) before: PathBuf,
    /// The later one
    #[arg(value_name = "B")]
    pub(crate) after: PathBuf,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
    /// Rows of a table
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
