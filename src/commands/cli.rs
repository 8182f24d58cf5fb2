//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::error::{ContextKind, ContextValue};
use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::config::flags::ConfigFlags;
use gc_rules::rule::Severity;
use strict_yaml::units::{HumanDuration, UnitError};

/// Reports every GC of every .NET process on this host.
#[derive(Debug, Parser)]
#[command(name = "gcwatch", version = env!("GCWATCH_VERSION"), max_term_width = 110)]
#[command(
    after_help = "FILE is a .nettrace recording, which may be gzipped or zipped, or - for standard input.\n\
    Exit codes: 0 success, 1 the work failed, 2 wrong usage."
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    /// Colours of tables [default: auto, on a terminal and without NO_COLOR]
    #[arg(
        long,
        global = true,
        value_enum,
        default_value_t,
        hide_default_value = true,
        value_name = "WHEN",
        help_heading = "Global options"
    )]
    pub color: Color,
}

/// When tables are coloured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On a terminal, unless NO_COLOR is set.
    #[default]
    Auto,
    /// Also in a pipe or a file.
    Always,
    /// Never.
    Never,
}

impl From<Color> for anstream::ColorChoice {
    fn from(color: Color) -> Self {
        match color {
            Color::Auto => Self::Auto,
            Color::Always => Self::Always,
            Color::Never => Self::Never,
        }
    }
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the daemon: attach to every .NET process, export spans, metrics and alerts
    Run(RunArgs),
    /// Watch a running daemon's processes and incidents in the terminal
    Top(TopArgs),
    /// List every .NET process on the host, and why one cannot be attached to
    Ps(PsArgs),
    /// Diagnose why .NET processes cannot be attached to, and what to do
    Doctor(DoctorArgs),
    /// Record a live process to a nettrace file
    Record(RecordArgs),
    /// Print every event of a recording with its fields
    Events(EventsArgs),
    /// Print the collections and anomalies in recordings
    Analyze(AnalyzeArgs),
    /// Compare two recordings by generation and type
    Diff(DiffArgs),
    /// Send recordings through the daemon's pipeline to its receivers
    Replay(ReplayArgs),
    /// Play recorded processes as if they ran now; needs no .NET process
    Demo(DemoArgs),
    /// Check, list and test rules, or print the JSON schema of their files
    Rules(RulesArgs),
    /// Send a test incident to every configured receiver
    Alerts(AlertsArgs),
    /// Find out who makes a process collect: methods, collections, time stopped
    Callers(CallersArgs),
    /// Find out who allocates in a process: types and call sites
    Allocations(AllocationsArgs),
    /// Print a shell completion script
    Completions(CompletionsArgs),
    /// Write the manual pages into a folder, for packages
    #[command(hide = true)]
    Man(ManArgs),
}

/// What others call the commands: the words of dotnet-counters, dotnet-trace, dotnet-gcdump, PerfView, jstat, and plain
/// guesses.
const OTHER_NAMES: [(&str, &[&str]); 7] = [
    ("ps", &["list", "ls", "processes", "targets"]),
    (
        "top",
        &[
            "stat",
            "stats",
            "counters",
            "monitor",
            "watch",
            "live",
            "htop",
            "dashboard",
        ],
    ),
    (
        "record",
        &["collect", "trace", "dump", "gcdump", "capture", "start", "attach"],
    ),
    (
        "analyze",
        &[
            "report", "show", "summary", "convert", "print", "gcstats", "open", "view", "analyse",
        ],
    ),
    ("doctor", &["check", "diagnose", "why", "status", "health"]),
    ("diff", &["compare"]),
    ("run", &["daemon", "serve", "agent", "server"]),
];

impl Cli {
    /// Reads the arguments; where a word is no command, the error names the one that was meant.
    ///
    /// # Errors
    ///
    /// The error of clap, for `--help` and `--version` too.
    pub fn read(arguments: impl IntoIterator<Item = OsString>) -> Result<Self, clap::Error> {
        Self::try_parse_from(arguments).map_err(|mut error| {
            let word = match error.get(ContextKind::InvalidSubcommand) {
                Some(ContextValue::String(word)) => word.to_lowercase(),
                _ => return error,
            };
            let meant = OTHER_NAMES.iter().find(|(_, names)| names.contains(&word.as_str()));
            if let Some((command, _)) = meant {
                let suggestion = ContextValue::Strings(vec![(*command).to_owned()]);
                error.insert(ContextKind::SuggestedSubcommand, suggestion);
            }
            error
        })
    }
}

/// `gcwatch alerts`
#[derive(Debug, Args)]
pub struct AlertsArgs {
    /// What to do with receivers of alerts.
    #[command(subcommand)]
    pub command: AlertsCommand,
}

/// What to do with receivers of alerts.
#[derive(Debug, Subcommand)]
pub enum AlertsCommand {
    /// Send a test incident and its end to every Alertmanager and webhook of the configuration, and print each answer
    Test(AlertsTestArgs),
}

/// `gcwatch alerts test`
#[derive(Debug, Args)]
#[command(after_help = "Exit codes: 0 every receiver accepted it, 1 one did not or there is none, 2 wrong usage.")]
pub struct AlertsTestArgs {
    /// The output format.
    #[command(flatten)]
    pub format: FormatArgs,
    /// What is configured.
    #[command(flatten)]
    pub config: ConfigFlags,
}

/// How results are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Tables for reading
    Table,
    /// One JSON object per line; names do not change
    #[value(alias = "json")]
    Ndjson,
}

/// How collections are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum AnalyzeFormat {
    /// Tables for reading
    Table,
    /// One JSON object per line; names do not change
    #[value(alias = "json")]
    Ndjson,
    /// A line for each collection, for spreadsheets and data frames; no summary, no anomalies
    Csv,
}

/// The output format.
#[derive(Debug, Clone, Copy, Args)]
pub struct FormatArgs {
    /// Output format [default: table on a terminal, otherwise ndjson]
    #[arg(long, value_enum)]
    pub format: Option<Format>,
}

/// `gcwatch top`
#[derive(Debug, Args)]
#[command(
    after_help = "Without --connect it asks the daemon of this host (gcwatch run) at http://127.0.0.1:9464. Where none \
                  listens, it attaches itself until it ends. Keys: ? shows them."
)]
pub struct TopArgs {
    /// The listener of a daemon, also of another host
    #[arg(long, value_name = "URL")]
    pub connect: Option<String>,
    /// File with the token of web.token_from
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// How often it asks
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "2s")]
    pub interval: Duration,
    /// Print one frame as text and end
    #[arg(long)]
    pub once: bool,
}

/// `gcwatch ps`
#[derive(Debug, Args)]
pub struct PsArgs {
    /// Directory of diagnostics sockets, or one socket, in addition to those found through /proc (repeatable)
    #[arg(long, value_name = "PATH")]
    pub sockets: Vec<PathBuf>,
    /// The output format.
    #[command(flatten)]
    pub format: FormatArgs,
}

/// `gcwatch doctor`
#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0 no action needed, 1 a process cannot be attached to or is missing, 2 wrong usage."
)]
pub struct DoctorArgs {
    /// Only this process (repeatable) [default: all that look like .NET, and those that the configuration names]
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
    /// Every collection; the cost to the process is not measurable
    Gc,
    /// Also allocation ticks, pins, finalized objects, joins, memory pressure: costs an allocating process 10-15 %
    GcVerbose,
    /// Every collection, and every GC handle that is created or freed
    GcHandles,
    /// Every collection, and the private provider: phases of background collections
    Private,
    /// Every collection, and the requests of ASP.NET Core, without their paths: costs about 5 µs of CPU each
    Requests,
}

/// A process, as PID or --pid PID.
#[derive(Debug, Clone, Copy, Args)]
pub struct PidArgs {
    /// The process
    #[arg(value_name = "PID", value_parser = clap::value_parser!(u32).range(1..), required_unless_present = "named")]
    plain: Option<u32>,
    /// The process
    #[arg(
        long = "pid", id = "named", value_name = "PID", conflicts_with = "plain",
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    named: Option<u32>,
}

impl PidArgs {
    /// The pid. One of the two is given, or clap refuses the command; 0 is no process.
    pub fn pid(&self) -> u32 {
        self.named.or(self.plain).unwrap_or(0)
    }
}

/// `gcwatch record`
#[derive(Debug, Args)]
pub struct RecordArgs {
    /// The process.
    #[command(flatten)]
    pub process: PidArgs,
    /// Output file, FILE.partial until it is complete; - for standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    /// Replace FILE if it exists, and an interrupted FILE.partial
    #[arg(long)]
    pub force: bool,
    /// Write into a FIFO, when it has a reader
    #[arg(long)]
    pub allow_fifo: bool,
    /// Events to record
    #[arg(long, value_enum, default_value_t = Profile::Gc)]
    pub profile: Profile,
    /// Duration, such as 30s or 5m [default: until Ctrl-C or until the process exits]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub duration: Option<Duration>,
    /// Maximum buffer in the process; a small buffer loses events [default: 16, with gc-verbose 64]
    #[arg(long, value_name = "MB", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub buffer_mb: Option<u32>,
}

/// How the results of a burst are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum EvidenceFormat {
    /// Tables for reading
    Table,
    /// One JSON object per line; names do not change
    #[value(alias = "json")]
    Ndjson,
    /// One stack per line with its weight, for flame graph tools
    Folded,
    /// A flame graph
    Svg,
    /// A gzipped pprof profile, for `go tool pprof` and Pyroscope
    Pprof,
}

/// What bursts have in common.
#[derive(Debug, Args)]
pub struct BurstArgs {
    /// How long, such as 10s
    #[arg(long = "for", alias = "duration", value_name = "TIME", value_parser = duration)]
    pub duration: Option<Duration>,
    /// Do not wait for another burst on this host, replace files, and ignore what else would refuse it
    #[arg(long)]
    pub force: bool,
    /// Folder of the lock that one burst on the host takes
    #[arg(long, value_name = "DIR", hide = true, default_value = "/run/gcwatch")]
    pub lease_folder: PathBuf,
    /// Output format [default: table on a terminal, otherwise ndjson]
    #[arg(long, value_enum)]
    pub format: Option<EvidenceFormat>,
    /// Output file [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Also keep the recording that the answer comes from, which this command reads too
    #[arg(long, value_name = "FILE")]
    pub keep: Option<PathBuf>,
    /// Rows of a table
    #[arg(long, value_name = "N", default_value_t = 15)]
    pub top: usize,
    /// Stacks in the table, not only the method
    #[arg(long)]
    pub stacks: bool,
}

/// A process, or a recording of one.
#[derive(Debug, Args)]
pub struct SubjectArgs {
    /// The process, or a recording with stacks
    #[arg(value_name = "PID|FILE", required_unless_present = "pid")]
    pub source: Option<PathBuf>,
    /// The process
    #[arg(long, value_name = "PID", conflicts_with = "source", value_parser = clap::value_parser!(u32).range(1..))]
    pub pid: Option<u32>,
}

/// `gcwatch callers`
#[derive(Debug, Args)]
pub struct CallersArgs {
    /// What is looked at.
    #[command(flatten)]
    pub subject: SubjectArgs,
    /// What bursts have in common.
    #[command(flatten)]
    pub burst: BurstArgs,
}

/// `gcwatch allocations`
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = ".NET 10 and later: samples by chance, unbiased, with 95 % intervals. The burst ends at 2,000 samples.\n\
    .NET 9 and older: --tick, which costs the process more and is biased; see docs/evidence.md."
)]
pub struct AllocationsArgs {
    /// What is looked at.
    #[command(flatten)]
    pub subject: SubjectArgs,
    /// Before .NET 10: allow a Verbose session, which costs an allocating process 10-15 % while it lasts
    #[arg(long)]
    pub tick: bool,
    /// What bursts have in common.
    #[command(flatten)]
    pub burst: BurstArgs,
    /// What else there is.
    #[command(subcommand)]
    pub command: Option<AllocationsCommand>,
}

/// What else there is of allocations.
#[derive(Debug, Subcommand)]
pub enum AllocationsCommand {
    /// Compare two ndjson outputs, per second: what grew, by type and site
    Diff(AllocationsDiffArgs),
}

/// `gcwatch allocations diff`
#[derive(Debug, Args)]
pub struct AllocationsDiffArgs {
    /// The earlier output
    #[arg(value_name = "A")]
    pub before: PathBuf,
    /// The later output
    #[arg(value_name = "B")]
    pub after: PathBuf,
    /// The output format.
    #[command(flatten)]
    pub format: FormatArgs,
    /// Rows of a table
    #[arg(long, value_name = "N", default_value_t = 15)]
    pub top: usize,
}

/// `gcwatch events`
#[derive(Debug, Args)]
pub struct EventsArgs {
    /// The recording
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Only events with this name, such as GCStart, in upper or lower case (repeatable)
    #[arg(long, value_name = "NAME")]
    pub name: Vec<String>,
    /// Only events at or after this offset from the sync point, such as 1.5s
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub from: Option<Duration>,
    /// Only events before this offset from the sync point
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub to: Option<Duration>,
    /// The output format.
    #[command(flatten)]
    pub format: FormatArgs,
}

/// What collections are sorted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Sort {
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

/// `gcwatch analyze`
#[derive(Debug, Args)]
pub struct AnalyzeArgs {
    /// The recordings; of a directory, the .nettrace files in it
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// Show one collection in full, by its number
    #[arg(long, value_name = "N", conflicts_with_all = ["from", "to", "sort", "top"])]
    pub gc: Option<u32>,
    /// Only collections that start at or after this offset from the sync point, such as 1.5s
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub from: Option<Duration>,
    /// Only collections that start before this offset from the sync point
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub to: Option<Duration>,
    /// Sort order
    #[arg(long, value_enum, default_value_t = Sort::Time)]
    pub sort: Sort,
    /// Only the first N of each process
    #[arg(long, value_name = "N")]
    pub top: Option<usize>,
    /// Do not evaluate rules: only collections, no anomalies
    #[arg(long)]
    pub no_rules: bool,
    /// Rule files or directories, read after the shipped rules (repeatable)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["no_rules", "gc"])]
    pub rules: Vec<PathBuf>,
    /// Exit with 1 if there is an anomaly of this or a higher severity
    #[arg(long, value_parser = severity(), value_name = "SEVERITY", conflicts_with_all = ["no_rules", "gc"])]
    pub fail_on: Option<Severity>,
    /// Write the recordings as a page to send to somebody: a single file, opened without a network
    #[arg(long, value_name = "FILE", conflicts_with_all = ["gc", "from", "to", "sort", "top", "format"])]
    pub html: Option<PathBuf>,
    /// Show the process's command line in the page of --html; it may hold secrets
    #[arg(long, requires = "html")]
    pub with_command_line: bool,
    /// Overwrite the file of --html
    #[arg(long, requires = "html")]
    pub force: bool,
    /// Output format [default: table on a terminal, otherwise ndjson]
    #[arg(long, value_enum)]
    pub format: Option<AnalyzeFormat>,
}

/// `gcwatch diff`
#[derive(Debug, Args)]
pub struct DiffArgs {
    /// The earlier recording
    #[arg(value_name = "A")]
    pub before: PathBuf,
    /// The later recording
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
    /// End when standard input ends
    #[arg(long, hide = true)]
    pub end_with_stdin: bool,
}

/// `gcwatch replay`
#[derive(Debug, Args)]
pub struct ReplayArgs {
    /// The recordings
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// Shift timestamps as if it ended now (with --realtime: began now) [default: the recorded timestamps]
    #[arg(long)]
    pub now: bool,
    /// Play at recorded speed [default: as fast as the receivers accept it]
    #[arg(long)]
    pub realtime: bool,
    /// service.name of the processes [default: the name of the file]
    #[arg(long, value_name = "NAME")]
    pub service: Option<String>,
    /// What is configured.
    #[command(flatten)]
    pub config: ConfigFlags,
}

/// `gcwatch demo`
#[derive(Debug, Args)]
pub struct DemoArgs {
    /// How many times to play each recording [default: until Ctrl-C]
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
    /// Check rule files: every error with file, line and column
    Check(RulesCheckArgs),
    /// List rules
    List(RulesListArgs),
    /// Print one rule: what it finds, its condition, its tests, and what to do
    Show(RulesShowArgs),
    /// Run rule tests on written events or recordings, with a virtual clock
    Test(RulesTestArgs),
    /// Print the JSON schema of rule files, for editors
    Schema(RulesSchemaArgs),
}

/// `gcwatch rules test`
#[derive(Debug, Args)]
#[command(after_help = "Exit codes: 0 all tests passed, 1 a test failed or could not be run, 2 wrong usage.")]
pub struct RulesTestArgs {
    /// Test files, or directories with *.test.yaml files
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// The output format.
    #[command(flatten)]
    pub format: FormatArgs,
}

/// `gcwatch rules schema`
#[derive(Debug, Args)]
pub struct RulesSchemaArgs {
    /// The schema of test files instead
    #[arg(long)]
    pub tests: bool,
}

/// `gcwatch rules check`
#[derive(Debug, Args)]
#[command(
    after_help = "Files are read in the given order; a later file may override rules of earlier ones.\n\
    Exit codes: 0 valid, 1 errors, 2 wrong usage."
)]
pub struct RulesCheckArgs {
    /// Files, directories (*.yaml and *.yml, not *.test.yaml), or - for standard input [default: the shipped rules]
    #[arg(value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Read the shipped rules before the files, as the daemon does
    #[arg(long)]
    pub with_shipped: bool,
    /// Treat warnings as errors
    #[arg(long)]
    pub lint_fatal: bool,
    /// The output format.
    #[command(flatten)]
    pub format: FormatArgs,
}

/// `gcwatch rules list`
#[derive(Debug, Args)]
pub struct RulesListArgs {
    /// Files, directories, or - for standard input [default: the shipped rules]
    #[arg(value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Read the shipped rules before the files, as the daemon does
    #[arg(long)]
    pub with_shipped: bool,
    /// The output format.
    #[command(flatten)]
    pub format: FormatArgs,
}

/// `gcwatch rules show`
#[derive(Debug, Args)]
#[command(after_help = "Exit codes: 0 found, 1 no such rule or invalid files, 2 wrong usage.")]
pub struct RulesShowArgs {
    /// The id of the rule
    #[arg(value_name = "ID")]
    pub id: String,
    /// Files, directories, or - for standard input [default: the shipped rules]
    #[arg(value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Read the shipped rules before the files, as the daemon does
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

/// `gcwatch man`
#[derive(Debug, Args)]
pub struct ManArgs {
    /// The folder, which exists
    #[arg(value_name = "FOLDER")]
    pub folder: PathBuf,
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
