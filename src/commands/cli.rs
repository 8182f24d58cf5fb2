//! The command line. The submodules define the arguments of the commands.

mod advise;
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
use clap::{Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand, ValueEnum};

pub(crate) use self::advise::AdviseArgs;
pub(crate) use self::configured::{AlertsArgs, AlertsCommand, AlertsTestArgs, DemoArgs, ReplayArgs, RunArgs};
pub(crate) use self::evidence::{
    AllocationsArgs, AllocationsCommand, BurstArgs, CallersArgs, EvidenceFormat, SubjectArgs,
};
pub(crate) use self::heap::{HeapArgs, HeapCommand, HeapDiffArgs, HeapFormat, StacksArgs};
pub(crate) use self::live::{DoctorArgs, IncidentState, IncidentsArgs, McpArgs, Profile, PsArgs, RecordArgs, TopArgs};
pub(crate) use self::recorded::{AnalyzeArgs, AnalyzeFormat, DiffArgs, EventsArgs, Sort};
pub(crate) use self::rules::{RulesArgs, RulesCheckArgs, RulesCommand, RulesListArgs, RulesShowArgs, RulesTestArgs};
pub(crate) use self::value::{Format, FormatArgs};

/// Reports every GC of every .NET process on this host.
#[derive(Debug, Parser)]
#[command(name = "gcwatch", version = env!("GCWATCH_VERSION"), max_term_width = 110)]
#[command(after_help = "Examples:\n  \
    gcwatch demo                                 recorded processes, to look around\n  \
    sudo gcwatch run                             watch every .NET process on this host\n  \
    sudo gcwatch top                             incidents and processes in the terminal\n  \
    sudo gcwatch callers 4711                    the code that triggers collections in process 4711\n  \
    gcwatch analyze --html out.html a.nettrace   a recording as a page to share\n\n\
    FILE is a .nettrace recording, which may be gzipped or zipped, or - for standard input.\n\
    Exit codes: 0 success, 1 the work failed, 2 wrong usage.")]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
    /// Colours of tables: always, never, or auto [default: auto, on a terminal and without NO_COLOR]
    #[arg(
        long,
        global = true,
        value_enum,
        default_value_t,
        hide_default_value = true,
        hide_possible_values = true,
        value_name = "WHEN",
        help_heading = "Global options"
    )]
    pub(crate) color: Color,
}

/// Selects when tables are coloured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    /// Coloured on a terminal, unless NO_COLOR is set.
    #[default]
    Auto,
    /// Coloured everywhere, including pipes and files.
    Always,
    /// Without colours.
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
pub(crate) enum Command {
    /// Run the daemon: attach to every .NET process, export traces, metrics and alerts
    Run(RunArgs),
    /// Watch incidents and processes live in the terminal
    Top(TopArgs),
    /// List the incidents that the daemon knows, or show one in full
    Incidents(IncidentsArgs),
    /// List every .NET process on the host, and why gcwatch cannot attach to one
    Ps(PsArgs),
    /// Check why gcwatch cannot attach to a process, and what to do
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
    /// Replay recorded processes as if they ran now; needs no .NET process
    Demo(DemoArgs),
    /// Check, list and test rules, or print the JSON schema of their files
    Rules(RulesArgs),
    /// Send a test incident to every configured receiver
    Alerts(AlertsArgs),
    /// Find the code that triggers collections: methods, counts, time stopped
    Callers(CallersArgs),
    /// Find the code that allocates: types and call sites
    Allocations(AllocationsArgs),
    /// Find the types that live in a process, what holds them, and what grew
    Heap(HeapArgs),
    /// Show the stack of every managed thread, equal stacks together
    Stacks(StacksArgs),
    /// Size the memory of a process, and predict settings with their price, or say why not
    Advise(AdviseArgs),
    /// Answer agents over stdin and stdout (Model Context Protocol): incidents, processes, collections
    Mcp(McpArgs),
    /// Print a shell completion script
    Completions(CompletionsArgs),
    /// Write the manual pages into a folder, for packages
    #[command(hide = true)]
    Man(ManArgs),
}

/// Groups of commands, in the order of the help.
const GROUPS: [(&str, &[&str]); 7] = [
    ("Watch", &["run", "top", "incidents", "ps", "demo"]),
    ("Find the code", &["callers", "allocations"]),
    ("Look inside", &["heap", "stacks"]),
    ("Size and tune", &["advise"]),
    ("Record and analyze", &["record", "analyze", "diff", "events", "replay"]),
    ("Rules and alerts", &["rules", "alerts"]),
    ("Set up", &["doctor", "mcp", "completions", "help"]),
];

/// Other names that users try for the commands: the words of dotnet-counters, dotnet-trace, dotnet-gcdump, PerfView and
/// jstat, and guesses.
const OTHER_NAMES: [(&str, &[&str]); 11] = [
    ("incidents", &["incident", "problems", "issues", "findings", "firing"]),
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
    ("advise", &["advice", "recommend", "suggest", "size", "sizing", "tune"]),
    ("run", &["daemon", "serve", "agent", "server"]),
];

impl Cli {
    /// Returns the command line with its commands in groups. The help does not list a command without a group.
    pub(crate) fn grouped() -> clap::Command {
        let command = Self::command();
        let named = |name: &str| command.get_subcommands().find(|known| known.get_name() == name);
        let about = |name: &str| match named(name).and_then(clap::Command::get_about) {
            Some(about) => about.to_string(),
            None => "Print the help of a command".to_owned(),
        };
        let mut help = "{about-with-newline}\n{usage-heading} {usage}\n".to_owned();
        for (title, names) in GROUPS {
            help.push_str(&format!("\n{title}:\n"));
            names
                .iter()
                .for_each(|name| help.push_str(&format!("  {name:<11}  {}\n", about(name))));
        }
        help.push_str("\nOptions:\n{options}{after-help}");
        command.help_template(help)
    }

    /// Parses the arguments. If a word is not a command, the error names the closest command. clap reports `--help` and
    /// `--version` as errors as well.
    pub(crate) fn read(arguments: impl IntoIterator<Item = OsString>) -> Result<Self, clap::Error> {
        let read = Self::grouped().try_get_matches_from(arguments);
        read.and_then(|matches| Self::from_arg_matches(&matches))
            .map_err(|mut error| {
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

#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// The folder, which exists
    #[arg(value_name = "FOLDER")]
    pub(crate) folder: PathBuf,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: the help lists commands in groups.
    /// Guarantee: every command that is not hidden is in one group, and every name in the groups is a command.
    #[test]
    fn every_command_is_in_one_group() {
        let command = Cli::command();
        let known = command.get_subcommands().filter(|known| !known.is_hide_set());
        let mut known: Vec<&str> = known.map(clap::Command::get_name).chain(["help"]).collect();
        let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        known.sort_unstable();
        grouped.sort_unstable();
        assert_eq!(grouped, known);
        let help = Cli::grouped().render_help().to_string();
        assert!(
            help.contains("Find the code:\n  callers ") && help.contains("Examples:"),
            "{help}"
        );
    }

    /// Scenario: clap checks the definition of the command line.
    /// Guarantee: no argument contradicts another argument.
    #[test]
    fn command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
