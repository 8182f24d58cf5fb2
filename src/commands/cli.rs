//! The command line: which commands there are; their arguments are in the modules below.

mod configured;
mod evidence;
mod heap;
mod live;
mod recorded;
mod rules;
mod value;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::{ContextKind, ContextValue};
use clap::{Args, Parser, Subcommand, ValueEnum};

pub use self::configured::{AlertsArgs, AlertsCommand, AlertsTestArgs, DemoArgs, ReplayArgs, RunArgs};
pub use self::evidence::{
    AllocationsArgs, AllocationsCommand, AllocationsDiffArgs, BurstArgs, CallersArgs, EvidenceFormat, SubjectArgs,
};
pub use self::heap::{HeapArgs, HeapCommand, HeapDiffArgs, HeapFormat};
pub use self::live::{DoctorArgs, Profile, PsArgs, RecordArgs, TopArgs};
pub use self::recorded::{AnalyzeArgs, AnalyzeFormat, DiffArgs, EventsArgs, Sort};
pub use self::rules::{
    RulesArgs, RulesCheckArgs, RulesCommand, RulesListArgs, RulesSchemaArgs, RulesShowArgs, RulesTestArgs,
};
pub use self::value::{Format, FormatArgs, PidArgs};

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
    /// Find out what lives in a process and what holds it: types, roots, what grew
    Heap(HeapArgs),
    /// Find out what every managed thread is doing
    Stacks(CallersArgs),
    /// Print a shell completion script
    Completions(CompletionsArgs),
    /// Write the manual pages into a folder, for packages
    #[command(hide = true)]
    Man(ManArgs),
}

/// What others call the commands: the words of dotnet-counters, dotnet-trace, dotnet-gcdump, PerfView, jstat, and plain
/// guesses.
const OTHER_NAMES: [(&str, &[&str]); 9] = [
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
    ("record", &["collect", "trace", "capture", "start", "attach"]),
    ("heap", &["gcdump", "dump", "memory", "census"]),
    (
        "analyze",
        &[
            "report", "show", "summary", "convert", "print", "gcstats", "open", "view", "analyse",
        ],
    ),
    ("stacks", &["stack", "threads"]),
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
}
