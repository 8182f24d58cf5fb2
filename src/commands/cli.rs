//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::config::flags::ConfigFlags;
use gc_rules::rule::Severity;
use strict_yaml::units::{HumanDuration, UnitError};

/// Tells every garbage collection of every .NET process on the host, exactly.
#[derive(Debug, Parser)]
#[command(name = "gcwatch", version = env!("GCWATCH_VERSION"), max_term_width = 110)]
#[command(
    after_help = "FILE may be a .nettrace recording, one that is gzipped or zipped, or - for standard input.\n\
    Exit codes: 0 fine, 1 the work failed, 2 wrong usage."
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// The daemon: attach to every .NET process, export spans and metrics
    Run(RunArgs),
    /// Every .NET process on the host: attachable, or the reason why not
    Ps(PsArgs),
    /// A verdict on every .NET process, or on one: what stands against attaching, and what to do
    Doctor(DoctorArgs),
    /// Record a live process to a nettrace file
    Record(RecordArgs),
    /// Every decoded event of a recording with its fields
    Events(EventsArgs),
    /// The collections and anomalies in recordings
    Analyze(AnalyzeArgs),
    /// Two recordings side by side, by generation and type
    Diff(DiffArgs),
    /// Recordings through the daemon's own pipeline to its exporters
    Replay(ReplayArgs),
    /// Recorded processes, played as if they ran here now: something to look at without a .NET process
    Demo(DemoArgs),
    /// Rules: check files of them, test them, list them, the JSON schema of their files
    Rules(RulesArgs),
    /// The script that completes gcwatch's arguments in a shell
    Completions(CompletionsArgs),
}

/// How results are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people
    Table,
    /// One JSON object per line; a contract
    #[value(alias = "json")]
    Ndjson,
}

/// The output format.
#[derive(Debug, Clone, Copy, Args)]
pub struct FormatArgs {
    /// How to write results [default: table on a terminal, ndjson elsewhere]
    #[arg(long, value_enum)]
    pub format: Option<Format>,
}

/// `gcwatch ps`
#[derive(Debug, Args)]
pub struct PsArgs {
    /// A directory of runtimes' sockets, or one socket, looked at beside what /proc shows (may be given several times)
    #[arg(long, value_name = "PATH")]
    pub sockets: Vec<PathBuf>,
    /// The output format.
    #[command(flatten)]
    pub format: FormatArgs,
}

/// `gcwatch doctor`
#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0 nothing is to be done, 1 a process cannot be attached to or is not there, 2 wrong usage."
)]
pub struct DoctorArgs {
    /// Only this process (may be given several times) [default: all that look like .NET, and what the configuration names]
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(u32).range(1..))]
    pub pid: Vec<u32>,
    /// The output format.
    #[command(flatten)]
    pub format: FormatArgs,
    /// What is configured.
    #[command(flatten)]
    pub config: ConfigFlags,
}

/// Which events a recording holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Profile {
    /// Every collection; costs the process next to nothing
    Gc,
    /// Also allocation ticks, pins, finalized objects, joins, memory pressure: 10-15 % of an allocating process's time
    GcVerbose,
    /// Every collection, and every GC handle that is made or freed
    GcHandles,
    /// Every collection, and the private provider: phases of background collections
    Private,
}

/// `gcwatch record`
#[derive(Debug, Args)]
pub struct RecordArgs {
    /// The process
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(u32).range(1..))]
    pub pid: u32,
    /// Where to write the stream; - for standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    /// Which events
    #[arg(long, value_enum, default_value_t = Profile::Gc)]
    pub profile: Profile,
    /// How long, such as 30s or 5m [default: until Ctrl-C or until the process ends]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub duration: Option<Duration>,
    /// Buffer in the process, at most; too small a buffer loses events [default: 16, with gc-verbose 64]
    #[arg(long, value_name = "MB", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub buffer_mb: Option<u32>,
}

/// `gcwatch events`
#[derive(Debug, Args)]
pub struct EventsArgs {
    /// The recording
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Only events with this name, such as GCStart (may be given several times)
    #[arg(long, value_name = "NAME")]
    pub name: Vec<String>,
    /// Only from this time after the sync point on, such as 1.5s
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub from: Option<Duration>,
    /// Only up to this time after the sync point
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub to: Option<Duration>,
    /// The output format.
    #[command(flatten)]
    pub format: FormatArgs,
}

/// What collections are sorted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Sort {
    /// Their start
    Time,
    /// Longest pause first
    Pause,
    /// Longest time to suspend first
    Suspend,
    /// Longest collection first
    Duration,
    /// Most promoted first
    Promoted,
}

/// `gcwatch analyze`
#[derive(Debug, Args)]
pub struct AnalyzeArgs {
    /// The recordings
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// One collection in full, by its number
    #[arg(long, value_name = "N", conflicts_with_all = ["from", "to", "sort", "top"])]
    pub gc: Option<u32>,
    /// Only collections that start at this time after the sync point or later, such as 1.5s
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub from: Option<Duration>,
    /// Only collections that start before this time after the sync point
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub to: Option<Duration>,
    /// What to sort by
    #[arg(long, value_enum, default_value_t = Sort::Time)]
    pub sort: Sort,
    /// Only the first N of each process
    #[arg(long, value_name = "N")]
    pub top: Option<usize>,
    /// Collections only, no anomalies
    #[arg(long)]
    pub no_rules: bool,
    /// Rule files or folders, read after the rules that ship (may be given several times)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["no_rules", "gc"])]
    pub rules: Vec<PathBuf>,
    /// Exit with 1 when there is an anomaly of this severity or a worse one
    #[arg(long, value_parser = severity(), value_name = "SEVERITY", conflicts_with_all = ["no_rules", "gc"])]
    pub fail_on: Option<Severity>,
    /// The output format.
    #[command(flatten)]
    pub format: FormatArgs,
}

/// `gcwatch diff`
#[derive(Debug, Args)]
pub struct DiffArgs {
    /// The recording before
    #[arg(value_name = "A")]
    pub before: PathBuf,
    /// The recording after
    #[arg(value_name = "B")]
    pub after: PathBuf,
    /// The output format.
    #[command(flatten)]
    pub format: FormatArgs,
}

/// `gcwatch run`
#[derive(Debug, Args)]
pub struct RunArgs {
    /// What is configured.
    #[command(flatten)]
    pub config: ConfigFlags,
}

/// `gcwatch replay`
#[derive(Debug, Args)]
pub struct ReplayArgs {
    /// The recordings
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// As if it ended now (with --realtime: as if it began now) [default: with the times when it was recorded]
    #[arg(long)]
    pub now: bool,
    /// As fast as it was recorded [default: as fast as the receivers take it]
    #[arg(long)]
    pub realtime: bool,
    /// service.name of the processes [default: the file's name]
    #[arg(long, value_name = "NAME")]
    pub service: Option<String>,
    /// What is configured.
    #[command(flatten)]
    pub config: ConfigFlags,
}

/// `gcwatch demo`
#[derive(Debug, Args)]
pub struct DemoArgs {
    /// How often each recording is played [default: until Ctrl-C]
    #[arg(long, value_name = "N")]
    pub rounds: Option<u32>,
    /// What is configured.
    #[command(flatten)]
    pub config: ConfigFlags,
}

/// `gcwatch rules`
#[derive(Debug, Args)]
pub struct RulesArgs {
    /// What to do with rules.
    #[command(subcommand)]
    pub command: RulesCommand,
}

/// What to do with rules.
#[derive(Debug, Subcommand)]
pub enum RulesCommand {
    /// Everything that is wrong with rule files, each with file, line and column
    Check(RulesCheckArgs),
    /// The rules in files
    List(RulesListArgs),
    /// Tests of rules: written events or recordings, a virtual clock, exact expectations
    Test(RulesTestArgs),
    /// The JSON schema of rule files, for editors
    Schema(RulesSchemaArgs),
}

/// `gcwatch rules test`
#[derive(Debug, Args)]
#[command(after_help = "Exit codes: 0 all passed, 1 one failed or could not be run, 2 wrong usage.")]
pub struct RulesTestArgs {
    /// Test files, or folders with *.test.yaml in them
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// The output format.
    #[command(flatten)]
    pub format: FormatArgs,
}

/// `gcwatch rules schema`
#[derive(Debug, Args)]
pub struct RulesSchemaArgs {
    /// That of test files
    #[arg(long)]
    pub tests: bool,
}

/// `gcwatch rules check`
#[derive(Debug, Args)]
#[command(
    after_help = "Files are read in the order in which they are given: a later one may change rules of those before it.\n\
    Exit codes: 0 fine, 1 mistakes, 2 wrong usage."
)]
pub struct RulesCheckArgs {
    /// Files, folders (their *.yaml and *.yml; not *.test.yaml), or - for standard input [default: the rules that ship]
    #[arg(value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Read the rules that ship before the files, as the daemon does
    #[arg(long)]
    pub with_shipped: bool,
    /// Warnings are mistakes, too
    #[arg(long)]
    pub lint_fatal: bool,
    /// The output format.
    #[command(flatten)]
    pub format: FormatArgs,
}

/// `gcwatch rules list`
#[derive(Debug, Args)]
pub struct RulesListArgs {
    /// Files, folders, or - for standard input [default: the rules that ship]
    #[arg(value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Read the rules that ship before the files, as the daemon does
    #[arg(long)]
    pub with_shipped: bool,
    /// The output format.
    #[command(flatten)]
    pub format: FormatArgs,
}

/// `gcwatch completions`
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    pub shell: clap_complete::Shell,
}

/// Durations as in the configuration: `1.5s`, `250ms`, `2m`, `1h30m`; here a bare number is seconds.
fn duration(text: &str) -> Result<Duration, UnitError> {
    let bare = text.trim().bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') && !text.trim().is_empty();
    let seconds = bare.then(|| format!("{}s", text.trim()));
    let duration: HumanDuration = seconds.as_deref().unwrap_or(text).parse()?;
    Ok(duration.0)
}

fn severity() -> impl TypedValueParser<Value = Severity> {
    PossibleValuesParser::new(Severity::ALL.iter().map(|severity| severity.name()))
        .try_map(|word| word.parse::<Severity>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    /// Scenario: the definition of the command line, checked by clap itself.
    /// Guarantee: no argument contradicts another.
    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    /// Scenario: times as people write them, and words.
    /// Guarantee: they are taken, or refused with an example.
    #[test]
    fn times_are_read() {
        assert_eq!(duration("1.5"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        assert!(duration("-3s").is_err() && duration("soon").is_err_and(|error| error.to_string().contains("500ms")));
    }
}
