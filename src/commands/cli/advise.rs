//! The command `advise`.

use std::path::PathBuf;
use std::time::Duration;

use base::units::ByteSize;
use clap::Args;

use super::value::{FormatArgs, duration};

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  sudo gcwatch advise 4711\n  sudo gcwatch advise 4711 --duration 10m\n  \
    gcwatch advise app.nettrace --limit 512MiB --cpus 2\n  gcwatch advise app.nettrace --at 400MiB --at 300MiB\n\n\
    Prints a lower bound of the memory limit, the price of lower limits, and settings with their price. A kind of\n\
    advice without proof is refused, with the reason (docs/advice.md). gcwatch changes nothing. The exit code does not\n\
    depend on the advice: 0 success, 1 the process or recording could not be read, 2 wrong usage."
)]
pub(crate) struct AdviseArgs {
    /// Process id, or a recording
    #[arg(value_name = "PID|FILE", required_unless_present = "pid")]
    pub(crate) source: Option<PathBuf>,
    /// Process id
    #[arg(long, value_name = "PID", conflicts_with = "source", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) pid: Option<u32>,
    /// Observation time of a process; at least 50 young and one full collection are needed
    #[arg(long, visible_alias = "for", value_name = "TIME", value_parser = duration, default_value = "60s")]
    pub(crate) duration: Duration,
    /// Memory limit of the container, if the recording or gcwatch does not know it
    #[arg(long, value_name = "SIZE")]
    pub(crate) limit: Option<ByteSize>,
    /// Number of CPUs that the process may use, if the recording or gcwatch does not know it
    #[arg(long, value_name = "N")]
    pub(crate) cpus: Option<f64>,
    /// Price this memory limit of the container (repeatable) [default: shares of the present limit or of the peak]
    #[arg(long, value_name = "SIZE")]
    pub(crate) at: Vec<ByteSize>,
    /// Show predictions of kinds without proof, marked as unproven: to record them before a trial, not to follow them
    #[arg(long)]
    pub(crate) unproven: bool,
    /// Save the recording of the process
    #[arg(long, value_name = "FILE")]
    pub(crate) keep: Option<PathBuf>,
    /// Replace the file of --keep
    #[arg(long, requires = "keep")]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}
