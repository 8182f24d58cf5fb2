//! Which processes are attached to, and how.

use std::path::PathBuf;
use std::time::Duration;

use base::pattern::Pattern;
use gc_requests::route::Routes;

/// Conditions on a process; all that are given must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// The process's name (the entry assembly's, else the executable's).
    pub name: Option<Pattern>,
    /// Its command line, arguments joined by a space.
    pub command_line: Option<Pattern>,
    /// The user that it runs as: a name or a number.
    pub user: Option<String>,
    /// Variables of its environment, each with a pattern for the value.
    pub environment: Vec<(String, Pattern)>,
}

/// Of which processes requests are read, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestOptions {
    /// Whether they are read, by the events of ASP.NET Core in a second session of the process.
    pub enabled: bool,
    /// Only processes that one of these fits; empty: all.
    pub include: Vec<Filter>,
    /// Of those, not the ones that one of these fits.
    pub exclude: Vec<Filter>,
    /// Upper limit of the event buffers in the process, megabytes.
    pub buffer_mb: u32,
    /// A process with more requests a second is asked no more.
    pub max_per_second: u32,
    /// The classes that they are divided into, by their paths.
    pub routes: Routes,
    /// Stops are remembered this long: what a longer request lost is unknown.
    pub longest: Duration,
    /// A collection is reported this much later, so that it knows the requests that it stopped.
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

/// Which processes are attached to, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetOptions {
    /// Only processes that one of these fits; empty: all.
    pub include: Vec<Filter>,
    /// Of those, not the ones that one of these fits.
    pub exclude: Vec<Filter>,
    /// Most processes attached to at once; more are counted, and wait.
    pub max_targets: usize,
    /// Upper limit of the event buffers in each process, megabytes (it is the target's memory).
    pub buffer_mb: u32,
    /// How often `/proc` is read although nothing announced a process.
    pub scan_interval: Duration,
    /// Whether each process's GC settings are read once, by a short session of their own.
    pub read_settings: bool,
    /// Whether also processes are attached to whose memory stands at the limit of their heap, which can end them.
    pub attach_at_heap_limit: bool,
    /// A socket that processes may be pointed at by `DOTNET_DiagnosticPorts`; none: no such socket.
    pub listen: Option<PathBuf>,
    /// Sockets of runtimes, or directories of such, beside those that processes of `/proc` are found to have.
    pub sockets: Vec<PathBuf>,
    /// The folder of the leases by which several gcwatches on one host share the processes.
    pub lease_folder: PathBuf,
    /// Of which of them requests are read.
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
