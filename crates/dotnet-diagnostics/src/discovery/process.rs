//! A process found by a scan.

use std::path::PathBuf;

use super::address::SocketAddress;
use crate::obstacle::Obstacle;

/// A process on this host.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Process {
    /// Process id in the pid namespace of this program.
    pub pid: u32,
    /// Process id in the process's own pid namespace, which is also in the socket name.
    pub ns_pid: u32,
    /// Start time in clock ticks since boot. Together with the pid, it identifies one run of a process.
    pub start_time: u64,
    /// Effective user id; `None` if unknown.
    pub uid: Option<u32>,
    /// Display name, see [`display_name`](super::display_name).
    pub name: String,
    /// Whether the process is in the `/proc` of this program. Its pids are known, and it must be the listener of its
    /// socket. For other processes, only the socket file is known: [`Process::pid`] and [`Process::start_time`] come
    /// from its name.
    pub visible: bool,
    /// Evidence that the process runs .NET; `None` if there is no evidence.
    pub evidence: Option<Evidence>,
    /// Address on which the runtime listens; `None` if it was not found.
    pub socket: Option<SocketAddress>,
    /// Reason why the process cannot be attached to. `None` does not guarantee that the runtime responds; only a
    /// command can show this.
    pub obstacle: Option<Obstacle>,
}

/// Evidence that a process runs .NET.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Evidence {
    /// The process has a diagnostics socket.
    Socket,
    /// The process has mapped the runtime library at this path in its own root.
    Library(PathBuf),
    /// The command line suggests .NET; other files are not readable.
    CommandLine,
}

impl Evidence {
    /// Returns the version in the library's path, `.../Microsoft.NETCore.App/3.1.23/libcoreclr.so`. This is the only
    /// way to determine the version of .NET Core 3.x, which does not support ProcessInfo. The paths of self-contained
    /// programs contain no version.
    pub fn version(&self) -> Option<&str> {
        let Self::Library(path) = self else { return None };
        let version = path.parent()?.file_name()?.to_str()?;
        let framework = path.parent()?.parent()?.file_name()?;
        // A directory can have any name.
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '+');
        let is_version = version.starts_with(|c: char| c.is_ascii_digit()) && version.chars().all(is_plain);
        (framework == "Microsoft.NETCore.App" && is_version).then_some(version)
    }
}
