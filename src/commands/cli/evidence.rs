//! The commands that run a burst, or read the results of one: `callers`, `allocations`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

use super::value::duration;

/// Output formats for the results of a burst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum EvidenceFormat {
    /// Human-readable tables
    Table,
    /// One JSON object per line with stable field names
    #[value(alias = "json")]
    Ndjson,
    /// One stack per line with its weight, for flame graph tools
    Folded,
    /// A flame graph
    Svg,
    /// A gzipped pprof profile, for `go tool pprof` and Pyroscope
    Pprof,
}

/// Options of commands that run a burst.
#[derive(Debug, Args)]
pub(crate) struct BurstArgs {
    /// Duration, such as 10s [default: 10s, for allocations 5s]
    #[arg(long, visible_alias = "for", value_name = "TIME", value_parser = duration)]
    pub(crate) duration: Option<Duration>,
    /// Run despite another burst on this host, existing output files and other refusals
    #[arg(long)]
    pub(crate) force: bool,
    /// Folder of the host-wide burst lock
    #[arg(long, value_name = "DIR", hide = true, default_value = "/run/gcwatch")]
    pub(crate) lease_folder: PathBuf,
    /// Output format [default: table on a terminal, otherwise ndjson]
    #[arg(long, value_enum)]
    pub(crate) format: Option<EvidenceFormat>,
    /// Output file [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Save the recording too, so that this command can read it again
    #[arg(long, value_name = "FILE")]
    pub(crate) keep: Option<PathBuf>,
    /// Maximum number of table rows
    #[arg(long, value_name = "N", default_value_t = 15)]
    pub(crate) top: usize,
    /// Show stacks in the table, not only the method
    #[arg(long)]
    pub(crate) stacks: bool,
}

/// A process, or a recording of a process.
#[derive(Debug, Args)]
pub(crate) struct SubjectArgs {
    /// Process id, or a recording with stacks
    #[arg(value_name = "PID|FILE", required_unless_present = "pid")]
    pub(crate) source: Option<PathBuf>,
    /// Process id
    #[arg(long, value_name = "PID", conflicts_with = "source", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) pid: Option<u32>,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  sudo gcwatch callers 4711\n  sudo gcwatch callers 4711 --duration 30s --stacks\n  gcwatch callers app.nettrace"
)]
pub(crate) struct CallersArgs {
    #[command(flatten)]
    pub(crate) subject: SubjectArgs,
    #[command(flatten)]
    pub(crate) burst: BurstArgs,
}

#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "Examples:\n  sudo gcwatch allocations 4711\n  sudo gcwatch allocations 4711 -o flame.svg --format svg\n\n\
    .NET 10 and later: random, unbiased samples with 95 % intervals. The burst ends at 2,000 samples.\n\
    .NET 9 and older: --tick, which costs the process more and is biased; see docs/evidence.md."
)]
pub(crate) struct AllocationsArgs {
    #[command(flatten)]
    pub(crate) subject: SubjectArgs,
    /// Allow a Verbose session before .NET 10, which costs an allocating process 10-15 % during the burst
    #[arg(long)]
    pub(crate) tick: bool,
    #[command(flatten)]
    pub(crate) burst: BurstArgs,
    #[command(subcommand)]
    pub(crate) command: Option<AllocationsCommand>,
}

/// Subcommands of `gcwatch allocations`.
#[derive(Debug, Subcommand)]
pub(crate) enum AllocationsCommand {
    /// A removed command, whose error names the replacement
    #[command(hide = true, disable_help_flag = true)]
    Diff {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        _arguments: Vec<OsString>,
    },
}
