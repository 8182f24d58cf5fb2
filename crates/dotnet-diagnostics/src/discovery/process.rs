//! A process as a scan finds it.

use std::path::PathBuf;

use super::address::SocketAddress;
use crate::obstacle::Obstacle;

/// A process of this host.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Process {
    /// Process id as we see it.
    pub pid: u32,
    /// Process id in its own pid namespace; the one in the socket's name.
    pub ns_pid: u32,
    /// Start time in clock ticks since boot: with the pid it identifies one run of a process.
    pub start_time: u64,
    /// Effective user id.
    pub uid: Option<u32>,
    /// Its display name, see [`display_name`](super::display_name).
    pub name: String,
    /// It is in our `/proc`: its pids are known, and it must be the one that listens on its socket. Of others only the
    /// socket's file is known: [`Process::pid`] and [`Process::start_time`] are those of its name.
    pub visible: bool,
    /// What shows that it runs .NET; `None` when nothing does.
    pub evidence: Option<Evidence>,
    /// Where its runtime listens, as far as that was found.
    pub socket: Option<SocketAddress>,
    /// Why it cannot be attached to. `None` does not promise that the runtime answers: only a command can show that.
    pub obstacle: Option<Obstacle>,
}

/// What shows that a process runs .NET.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Evidence {
    /// It has a diagnostics socket.
    Socket,
    /// It has mapped the runtime's library, at this path in its own root.
    Library(PathBuf),
    /// Its command line looks like it, and more may not be read.
    CommandLine,
}

impl Evidence {
    /// The version in the library's path, `.../Microsoft.NETCore.App/3.1.23/libcoreclr.so`. The only way to learn the
    /// version of .NET Core 3.x, which has no ProcessInfo; self-contained programs have none in the path.
    pub fn version(&self) -> Option<&str> {
        let Self::Library(path) = self else { return None };
        let version = path.parent()?.file_name()?.to_str()?;
        let framework = path.parent()?.parent()?.file_name()?;
        // A folder may be called anything.
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '+');
        let is_version = version.starts_with(|c: char| c.is_ascii_digit()) && version.chars().all(is_plain);
        (framework == "Microsoft.NETCore.App" && is_version).then_some(version)
    }
}
