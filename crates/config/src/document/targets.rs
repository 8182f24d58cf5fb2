//! The keys of `targets`.

use super::{BTreeMap, Deserialize, JsonSchema, PathBuf, Serialize};
use base::pattern::Pattern;
use base::units::HumanDuration;
use targets::options::{Filter, TargetOptions};

/// Selection of the processes that gcwatch attaches to, and settings for their sessions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Targets {
    /// Filters of the processes to attach to. Without filters, all processes are selected.
    pub(crate) include: Vec<FilterKeys>,
    /// Filters of the processes to exclude.
    pub(crate) exclude: Vec<FilterKeys>,
    /// Maximum number of attached processes. Further processes are counted, and wait.
    #[schemars(range(min = 1, max = 100_000))]
    pub(crate) max_targets: u32,
    /// Maximum size of the event buffers in each process, in megabytes of the process's memory. A process with more
    /// than five heaps (server GC) gets 0.8 MB per heap, if that is more.
    #[schemars(range(min = 1, max = 1024))]
    pub(crate) buffer_mb: u32,
    /// Interval between scans of `/proc`, in addition to notifications of new processes.
    #[schemars(extend("x-minimum" = "1s", "x-maximum" = "24h"))]
    pub(crate) scan_interval: HumanDuration,
    /// Whether the GC settings of each process are read once, in a short session.
    pub(crate) read_settings: bool,
    /// Whether gcwatch attaches even to processes whose memory is at their heap limit. The first session of such a
    /// process can end it with an out-of-memory error. By default, gcwatch does not attach, and checks the process
    /// again every minute.
    pub(crate) attach_at_heap_limit: bool,
    /// Socket of gcwatch that processes connect to (`DOTNET_DiagnosticPorts`); by default, gcwatch has no such socket.
    #[schemars(extend("x-restart" = true))]
    pub(crate) listen: Option<PathBuf>,
    /// Directories of diagnostics sockets, or single sockets, in addition to the sockets of processes in `/proc`: for a
    /// sidecar that shares only a directory with its application. Sockets keep their names,
    /// `dotnet-diagnostic-PID-KEY-socket`.
    #[schemars(inner(length(min = 1)))]
    pub(crate) sockets: Vec<PathBuf>,
    /// Directory of the leases by which several gcwatch instances on one host share the processes.
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
            attach_at_heap_limit: options.attach_at_heap_limit,
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
            attach_at_heap_limit: keys.attach_at_heap_limit,
            listen: keys.listen.clone(),
            sockets: keys.sockets.clone(),
            lease_folder: keys.lease_folder.clone(),
            ..Self::default()
        }
    }
}

/// Conditions on a process, all of which must hold. In patterns, `*` matches any characters and `?` matches one
/// character.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("minProperties" = 1))]
pub(crate) struct FilterKeys {
    /// Pattern for the name of the process (its entry assembly, or its executable otherwise), or for the service
    /// that `OTEL_SERVICE_NAME` in its environment names.
    #[schemars(length(min = 1))]
    pub(crate) name: Option<String>,
    /// Pattern for the command line, with arguments joined by spaces.
    #[schemars(length(min = 1))]
    pub(crate) command_line: Option<String>,
    /// User of the process, by name or number.
    #[schemars(length(min = 1))]
    pub(crate) user: Option<String>,
    /// Environment variables of the process, each with a pattern for its value.
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
