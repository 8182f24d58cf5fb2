//! The commands on live processes: `top`, `incidents`, `mcp`, `ps`, `doctor`, `record`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::value::{FormatArgs, PidArgs, duration, severity};
use config::flags::ConfigFlags;
use rule_engine::rule::Severity;

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  sudo gcwatch top\n  gcwatch top --connect http://node7:9464\n\n\
    Without --connect it asks the daemon of this host (gcwatch run) at http://127.0.0.1:9464. If none is \
                  running, it attaches to the processes directly. Press ? for the keys."
)]
pub(crate) struct TopArgs {
    /// URL of a daemon's listener, on this or another host
    #[arg(long, value_name = "URL")]
    pub(crate) connect: Option<String>,
    /// File with the token of web.token_from
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// Refresh interval
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "2s")]
    pub(crate) interval: Duration,
    /// Print once and exit
    #[arg(long)]
    pub(crate) once: bool,
    /// Show where memory is, with the limit never reached and the collector's working room
    #[arg(long)]
    pub(crate) memory: bool,
}

/// States of incidents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum IncidentState {
    /// Harm that continues
    #[value(alias = "firing")]
    Open,
    /// Harm that has ended
    #[value(alias = "resolved")]
    Ended,
    /// Both, open incidents first
    All,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  gcwatch incidents\n  gcwatch incidents 5f3a9c01\n  \
    gcwatch incidents --state open --severity error\n  \
    gcwatch incidents --format ndjson | jq -r '.id + \" \" + .summary'\n\n\
    Queries the daemon on this host (gcwatch run) at http://127.0.0.1:9464, or the daemon at --connect. Records are the\n\
    records of /api/v1/incidents. A daemon keeps a limited number of ended incidents. Incidents do not change the exit\n\
    code: 0 success, 1 the daemon does not answer or has no incident with this id, 2 wrong usage.")]
pub(crate) struct IncidentsArgs {
    /// One incident in full: its id, or the start of it
    #[arg(
        value_name = "ID",
        conflicts_with_all = ["state", "severity", "rule", "pid", "name", "pod", "namespace", "since"]
    )]
    pub(crate) id: Option<String>,
    /// State of the incidents
    #[arg(long, value_enum, default_value_t = IncidentState::All)]
    pub(crate) state: IncidentState,
    /// Minimum severity: info, warning, error, critical
    #[arg(long, value_name = "SEVERITY", value_parser = severity(), hide_possible_values = true)]
    pub(crate) severity: Option<Severity>,
    /// Rule that names the incident, or its family, such as memory
    #[arg(long, value_name = "RULE")]
    pub(crate) rule: Option<String>,
    /// Show only incidents of this process
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) pid: Option<u32>,
    /// Part of the name of the service or the process, case-insensitive
    #[arg(long, value_name = "TEXT", alias = "service")]
    pub(crate) name: Option<String>,
    /// Show only incidents of this pod
    #[arg(long, value_name = "POD")]
    pub(crate) pod: Option<String>,
    /// Show only incidents of pods in this namespace
    #[arg(short, long, value_name = "NAMESPACE")]
    pub(crate) namespace: Option<String>,
    /// Show only incidents that were open within this time, such as 1h
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) since: Option<Duration>,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
    /// URL of a daemon's listener, on this or another host
    #[arg(long, value_name = "URL")]
    pub(crate) connect: Option<String>,
    /// File with the token of web.token_from
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  claude mcp add gcwatch -- gcwatch mcp\n  gcwatch mcp --connect http://node7:9464\n  gcwatch mcp before.nettrace after.nettrace\n\n\
    Without --connect, the command queries the daemon on this host (gcwatch run) at http://127.0.0.1:9464. With FILEs,\n\
    it queries no daemon. Agents start this command; see docs/mcp.md."
)]
pub(crate) struct McpArgs {
    /// Answer only from these recordings
    #[arg(value_name = "FILE", conflicts_with_all = ["connect", "token_file", "allow_bursts"])]
    pub(crate) files: Vec<PathBuf>,
    /// URL of a daemon's listener, on this or another host
    #[arg(long, value_name = "URL")]
    pub(crate) connect: Option<String>,
    /// File with the token of web.token_from
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// Offer tools that have a cost for a process on this host; each requires confirmation of its price
    #[arg(long, conflicts_with = "connect")]
    pub(crate) allow_bursts: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  sudo gcwatch ps\n  sudo gcwatch ps --format ndjson | jq .name")]
pub(crate) struct PsArgs {
    /// Directory of diagnostics sockets, or one socket, in addition to sockets found through /proc (repeatable)
    #[arg(long, value_name = "PATH")]
    pub(crate) sockets: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  sudo gcwatch doctor\n  sudo gcwatch doctor --pid 4711\n\n\
    Exit codes: 0 no action needed, 1 a process cannot be attached to or is missing, 2 wrong usage."
)]
pub(crate) struct DoctorArgs {
    /// Check only this process (repeatable) [default: processes that look like .NET or are named in the configuration]
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) pid: Vec<u32>,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
    #[command(flatten)]
    pub(crate) config: ConfigFlags,
}

/// The events in a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Profile {
    /// Every collection; the cost to the process is not measurable
    Gc,
    /// Gc plus allocation ticks, pins, finalized objects, joins, memory pressure: costs an allocating process 10-15 %
    GcVerbose,
    /// Every collection, and every GC handle that is created or freed
    GcHandles,
    /// Every collection, and the private provider: phases of background collections
    Private,
    /// Every collection, and the requests of ASP.NET Core, without their paths: costs about 5 µs of CPU each
    Requests,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  sudo gcwatch record 4711 -o app.nettrace --duration 30s\n  sudo gcwatch record 4711 -o app.nettrace --profile gc-verbose"
)]
pub(crate) struct RecordArgs {
    #[command(flatten)]
    pub(crate) process: PidArgs,
    /// Output file, FILE.partial until it is complete; - for standard output
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,
    /// Replace FILE if it exists, and an interrupted FILE.partial
    #[arg(long)]
    pub(crate) force: bool,
    /// Write into a FIFO, when it has a reader
    #[arg(long)]
    pub(crate) allow_fifo: bool,
    /// Events to record
    #[arg(long, value_enum, default_value_t = Profile::Gc)]
    pub(crate) profile: Profile,
    /// Duration, such as 30s or 5m [default: until Ctrl-C or until the process exits]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) duration: Option<Duration>,
    /// Maximum buffer in the process; a small buffer loses events [default: 16, with gc-verbose 64, for more
    /// than 20 heaps 0.8 per heap]
    #[arg(long, value_name = "MB", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) buffer_mb: Option<u32>,
}
