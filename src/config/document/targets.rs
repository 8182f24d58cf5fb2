//! The keys of `targets`.

use super::{BTreeMap, Deserialize, JsonSchema, PathBuf, Serialize};
use crate::targets::options::{Filter, TargetOptions};
use strict_yaml::pattern::Pattern;
use strict_yaml::units::HumanDuration;

/// Which processes are attached to, and how.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Targets {
    /// Only processes that one of these filters fits; without any, all.
    pub(crate) include: Vec<FilterKeys>,
    /// Of those, not the ones that one of these filters fits.
    pub(crate) exclude: Vec<FilterKeys>,
    /// Most processes that are attached to at once; more are counted, and wait.
    #[schemars(range(min = 1, max = 100_000))]
    pub(crate) max_targets: u32,
    /// Upper limit of the event buffers in each process, in megabytes. It is the process's memory.
    #[schemars(range(min = 1, max = 1024))]
    pub(crate) buffer_mb: u32,
    /// How often `/proc` is read although nothing announced a process.
    #[schemars(extend("x-minimum" = "1s", "x-maximum" = "24h"))]
    pub(crate) scan_interval: HumanDuration,
    /// Whether each process's GC settings are read once, by a short session of their own.
    pub(crate) read_settings: bool,
    /// A socket of gcwatch's own, to which processes are pointed by `DOTNET_DiagnosticPorts`; not set: there is none.
    #[schemars(extend("x-restart" = true))]
    pub(crate) listen: Option<PathBuf>,
    /// Directories of sockets that are read beside those of the processes in `/proc`, or single sockets: for a sidecar that shares a
    /// directory with its application and may see nothing else of it. A socket has the name that its runtime gave it,
    /// `dotnet-diagnostic-PID-KEY-socket`.
    #[schemars(inner(length(min = 1)))]
    pub(crate) sockets: Vec<PathBuf>,
    /// The folder of the leases by which several gcwatches on one host share the processes.
    #[schemars(extend("x-restart" = true))]
    pub(crate) lease_folder: PathBuf,
}

impl Default for Targets {
    fn default() -> Self {
        let options = TargetOptions::default();
        Self {
            include: Vec::new(),
            exclude: Vec::new(),
            max_targets: u32::try_from(options.max_targets).unwrap_or(u32::MAX),
            buffer_mb: options.buffer_mb,
            scan_interval: HumanDuration(options.scan_interval),
            read_settings: options.read_settings,
            listen: options.listen,
            sockets: options.sockets,
            lease_folder: options.lease_folder,
        }
    }
}

impl From<&Targets> for TargetOptions {
    fn from(keys: &Targets) -> Self {
        Self {
            include: keys.include.iter().map(Filter::from).collect(),
            exclude: keys.exclude.iter().map(Filter::from).collect(),
            max_targets: usize::try_from(keys.max_targets).unwrap_or(usize::MAX),
            buffer_mb: keys.buffer_mb,
            scan_interval: keys.scan_interval.0,
            read_settings: keys.read_settings,
            listen: keys.listen.clone(),
            sockets: keys.sockets.clone(),
            lease_folder: keys.lease_folder.clone(),
        }
    }
}

/// Conditions on a process; all that are given must hold. In patterns `*` stands for any characters, `?` for one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("minProperties" = 1))]
pub(crate) struct FilterKeys {
    /// Pattern for the process's name: the entry assembly's, else the executable's.
    #[schemars(length(min = 1))]
    pub(crate) name: Option<String>,
    /// Pattern for its command line, arguments joined by a space.
    #[schemars(length(min = 1))]
    pub(crate) command_line: Option<String>,
    /// The user that it runs as: a name or a number.
    #[schemars(length(min = 1))]
    pub(crate) user: Option<String>,
    /// Variables of its environment, each with a pattern for the value.
    pub(crate) environment: BTreeMap<String, String>,
}

impl From<&FilterKeys> for Filter {
    fn from(keys: &FilterKeys) -> Self {
        let pattern = |text: &String| Pattern(text.clone());
        let variable = |(name, text): (&String, &String)| (name.clone(), pattern(text));
        Self {
            name: keys.name.as_ref().map(pattern),
            command_line: keys.command_line.as_ref().map(pattern),
            user: keys.user.clone(),
            environment: keys.environment.iter().map(variable).collect(),
        }
    }
}
