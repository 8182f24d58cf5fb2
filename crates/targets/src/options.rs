//! Options that select processes and configure their sessions.

use std::path::PathBuf;
use std::time::Duration;

use base::pattern::Pattern;
use gc_requests::route::Routes;

/// Conditions on a process. All conditions that are set must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Pattern for the name of the process: the entry assembly, or the executable without an entry assembly.
    pub name: Option<Pattern>,
    /// Pattern for the command line. Arguments are joined by spaces.
    pub command_line: Option<Pattern>,
    /// User of the process, as a name or a number.
    pub user: Option<String>,
    /// Environment variables, each with a pattern for its value.
    pub environment: Vec<(String, Pattern)>,
}

/// Options for reading requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestOptions {
    /// Whether requests are read. The events of ASP.NET Core are read in a second session of each process.
    pub enabled: bool,
    /// Filters that select processes. An empty list selects all.
    pub include: Vec<Filter>,
    /// Filters that exclude selected processes.
    pub exclude: Vec<Filter>,
    /// Maximum size of the event buffers in the process, in megabytes.
    pub buffer_mb: u32,
    /// Maximum number of requests per second. Requests of a busier process are no longer read.
    pub max_per_second: u32,
    /// Classes of requests by path.
    pub routes: Routes,
    /// Duration for which suspensions are remembered. The time that a longer request lost is unknown.
    pub longest: Duration,
    /// Delay before a collection is reported, so that the requests that it suspended are known.
    pub wait: Duration,
}

impl Default for RequestOptions {
    fn default() -> Self {
        Self {
            enabled: false,
            include: Vec::new(),
            exclude: Vec::new(),
            buffer_mb: 8,
            max_per_second: 2000,
            routes: Routes::default(),
            longest: Duration::from_secs(60),
            wait: Duration::from_secs(2),
        }
    }
}

/// Options that select processes and configure their sessions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetOptions {
    /// Filters that select processes. An empty list selects all.
    pub include: Vec<Filter>,
    /// Filters that exclude selected processes.
    pub exclude: Vec<Filter>,
    /// Maximum number of attached processes. Further processes are counted and wait for a free slot.
    pub max_targets: usize,
    /// Maximum size of the event buffers in each process, in megabytes. The target provides this memory.
    pub buffer_mb: u32,
    /// Interval between scans of `/proc` if no event announces a new process.
    pub scan_interval: Duration,
    /// Whether the GC settings of each process are read once, in a short separate session.
    pub read_settings: bool,
    /// Whether to attach to processes whose memory is at the limit of their heap, although attaching can end such a
    /// process.
    pub attach_at_heap_limit: bool,
    /// Socket to which `DOTNET_DiagnosticPorts` can point; `None` for no such socket.
    pub listen: Option<PathBuf>,
    /// Sockets of runtimes, or directories of such sockets, in addition to those found through `/proc`.
    pub sockets: Vec<PathBuf>,
    /// Folder of the leases that keep several gcwatch instances on one host from reading the same process.
    pub lease_folder: PathBuf,
    /// Options for reading requests.
    pub requests: RequestOptions,
}

impl Default for TargetOptions {
    fn default() -> Self {
        Self {
            include: Vec::new(),
            exclude: Vec::new(),
            max_targets: 1000,
            buffer_mb: 4,
            scan_interval: Duration::from_secs(30),
            read_settings: true,
            attach_at_heap_limit: false,
            listen: None,
            sockets: Vec::new(),
            lease_folder: PathBuf::from("/run/gcwatch"),
            requests: RequestOptions::default(),
        }
    }
}
