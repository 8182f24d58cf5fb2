//! Scans the processes on this host, and finds sockets whose process has exited.

use std::collections::HashSet;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use super::address::{SocketAddress, descriptor_path, may_connect};
use super::candidate::Candidate;
use super::credentials::Credentials;
use super::directory::socket_names;
use super::host::Host;
use super::process::{Evidence, Process};
use super::program::Program;
use super::socket_name::SocketName;
use crate::error::Error;
use crate::obstacle::{Obstacle, Reason};

/// A scan of the processes in a `/proc` file system.
///
/// A scan and its clones read the permissions of this process and each table of listening sockets only once. The tables
/// show sockets that are not at their expected path, so create another scan for processes that started later.
#[derive(Clone, Debug)]
pub struct Scan {
    host: Host,
    socket_directories: Vec<PathBuf>,
}

/// The result of a scan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Listing {
    /// Processes that run .NET, in ascending order of pid. Processes without a socket and without the runtime library
    /// are not recognized: NativeAOT and single-file programs with diagnostics disabled.
    pub processes: Vec<Process>,
    /// Socket files without a process.
    pub stale: Vec<StaleSocket>,
}

/// A socket file whose process has exited. This crate never deletes the file, because the file can belong to another
/// program.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StaleSocket {
    /// Path of the file.
    pub path: PathBuf,
    /// Pid and start time in the file name.
    pub name: SocketName,
    /// Whether a connection was refused, which proves that no process listens. Otherwise, no connection could be tried
    /// because the file belongs to another user, and a hidden process (`hidepid`) can own the socket.
    pub refused: bool,
}

impl fmt::Display for StaleSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (path, pid) = (self.path.display(), self.name.pid);
        if self.refused {
            write!(f, "{path}: left behind by process {pid}, which has exited; delete it")
        } else {
            write!(
                f,
                "{path}: no process {pid} with this start time is visible, and the socket belongs to another user"
            )
        }
    }
}

impl Scan {
    /// Creates a scan of this host: `/proc`, and stale sockets in `/tmp` and in this process's own `TMPDIR`, if that
    /// path is absolute.
    pub fn host() -> Self {
        let mut socket_directories = vec![PathBuf::from("/tmp")];
        if let Some(own) = std::env::var_os("TMPDIR")
            .map(PathBuf::from)
            .filter(|own| own.is_absolute())
        {
            let same = |a: &Path, b: &Path| a.canonicalize().ok() == b.canonicalize().ok();
            if !same(&own, Path::new("/tmp")) {
                socket_directories.push(own);
            }
        }
        Self {
            host: Host::new(PathBuf::from("/proc")),
            socket_directories,
        }
    }

    /// Sets the `/proc` to read: the `/proc` of the host, mounted elsewhere in a container, or a synthetic `/proc` in a
    /// test.
    #[must_use]
    pub fn with_proc_root(mut self, proc_root: impl Into<PathBuf>) -> Self {
        self.host.move_to(proc_root.into());
        self
    }

    /// Sets the directories to search for stale sockets.
    #[must_use]
    pub fn with_socket_directories(mut self, directories: impl IntoIterator<Item = PathBuf>) -> Self {
        self.socket_directories = directories.into_iter().collect();
        self
    }

    /// Adds the sockets at paths configured by the operator. A path is a runtime socket, or a directory of runtime
    /// sockets, which is read. A socket with the name of a process in `/proc` is assigned to that process if the
    /// process has no socket in its own `TMPDIR`. The other sockets belong to processes that are not visible to this
    /// program ([`Process::visible`]), for example if this program is a sidecar that shares only the directory with the
    /// other containers.
    #[must_use]
    pub fn with_sockets<'p>(self, paths: impl IntoIterator<Item = &'p Path>) -> Self {
        let found: Vec<_> = paths.into_iter().flat_map(Self::sockets_at).collect();
        self.with_found_sockets(found)
    }

    /// Like [`Scan::with_sockets`], but for sockets that [`Scan::sockets_at`] found. Performs no I/O.
    #[must_use]
    pub fn with_found_sockets(mut self, found: impl IntoIterator<Item = (SocketName, SocketAddress)>) -> Self {
        for (name, address) in found {
            self.host.give(name, address);
        }
        self
    }

    /// Returns the runtime sockets at a path configured by the operator: one socket, or the sockets in a directory,
    /// which is read. The result is empty if the directory cannot be read. Blocks the calling thread.
    pub fn sockets_at(path: &Path) -> Vec<(SocketName, SocketAddress)> {
        let file_name = path.file_name().and_then(|name| SocketName::parse(name.to_str()?));
        if let Some(name) = file_name {
            return vec![(name, SocketAddress::chosen(path))];
        }
        let address = |name: SocketName| SocketAddress::found(None, path.join(name.to_string()));
        let names = socket_names(None, path).into_iter();
        names.map(|name| (name, address(name))).collect()
    }

    /// Returns whether this run of a process still exists, or `true` if an error leaves its existence unknown. Reads
    /// only the `stat` file of the process, which the kernel provides without waiting for the process or a disk.
    pub fn is_there(&self, pid: u32, start_time: u64) -> bool {
        match Candidate::stat(&self.host, pid) {
            Ok(stat) => stat.start_time == start_time && !matches!(stat.state, 'Z' | 'X'),
            Err(error) => !has_gone(&error),
        }
    }

    /// Returns the processes of configured sockets ([`Scan::with_sockets`]) that are not in `/proc`. `visible` contains
    /// the socket names of the processes in `/proc`. Blocks the calling thread.
    fn invisible(&self, visible: &HashSet<SocketName>) -> Vec<Process> {
        let others = self.host.all_given().iter().filter(|(name, _)| !visible.contains(name));
        others.filter_map(|(name, address)| behind(*name, address)).collect()
    }

    /// Returns the process of a configured socket that is not in `/proc`, see [`Process::visible`]. Returns `None` if
    /// the operator configured no socket with this name, if the socket does not exist or belongs to a visible process,
    /// or if `/proc` cannot be read. Blocks the calling thread.
    pub fn inspect_named(&self, name: SocketName) -> Option<Process> {
        let address = self.host.given(name)?;
        let visible = self.pids().ok()?.into_iter().any(|pid| {
            let candidate = Candidate::read(&self.host, pid).ok().flatten();
            candidate.is_some_and(|candidate| candidate.socket_name() == name && !candidate.is_own())
        });
        if visible { None } else { behind(name, address) }
    }

    /// Returns the permissions of this process. All values are `None` if `/proc/self` cannot be read.
    pub fn credentials(&self) -> &Credentials {
        self.host.credentials()
    }

    /// Returns the architecture of a process's program, or `None` if the process does not exist or its program is not
    /// readable. Blocks the calling thread.
    pub fn program(&self, pid: u32) -> Option<Program> {
        Candidate::read(&self.host, pid).ok().flatten()?.program()
    }

    /// Returns the pids of all processes in ascending order, including processes that do not run .NET and kernel
    /// threads. Blocks the calling thread.
    ///
    /// # Errors
    /// Returns [`Error::Proc`] if `/proc` itself cannot be read.
    pub fn pids(&self) -> Result<Vec<u32>, Error> {
        let mut pids = Vec::new();
        let entries = std::fs::read_dir(self.host.proc_root()).map_err(|source| Error::Proc {
            path: self.host.proc_root().to_path_buf(),
            source,
        })?;
        for entry in entries {
            // An entry that cannot be read belongs to a process that has exited.
            let pid = entry
                .ok()
                .and_then(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
            pids.extend(pid);
        }
        pids.sort_unstable();
        Ok(pids)
    }

    /// Returns the processes of configured sockets that are not in `/proc`. Blocks the calling thread.
    pub fn list_named(&self) -> Vec<Process> {
        if self.host.all_given().is_empty() {
            return Vec::new();
        }
        let visible = self.pids().unwrap_or_default().into_iter().filter_map(|pid| {
            let candidate = Candidate::read(&self.host, pid).ok().flatten()?;
            (!candidate.is_own()).then(|| candidate.socket_name())
        });
        self.invisible(&visible.collect())
    }

    /// Returns every .NET process and the stale sockets. Blocks the calling thread while the file system of any process
    /// does not respond. To skip such a process, inspect each of [`Self::pids`] with a time limit.
    ///
    /// # Errors
    /// Returns [`Error::Proc`] if `/proc` itself cannot be read. A process that cannot be read is omitted or has an
    /// obstacle.
    pub fn list(&self) -> Result<Listing, Error> {
        let mut listing = Listing::default();
        let mut alive = HashSet::new();
        for pid in self.pids()? {
            let Ok(Some(candidate)) = Candidate::read(&self.host, pid) else {
                continue;
            };
            if !candidate.is_own() {
                alive.insert(candidate.socket_name());
            }
            let process = candidate.examine();
            if process.evidence.is_some() {
                listing.processes.push(process);
            }
        }
        listing.processes.extend(self.invisible(&alive));
        let sockets = listing.processes.iter().filter_map(|process| process.socket.as_ref());
        listing.stale = self.stale(&sockets.map(SocketAddress::host_path).collect())?;
        Ok(listing)
    }

    /// Returns the sockets without a process in the directories of this scan, sorted by path. `used` contains the paths
    /// of the sockets of the processes found ([`SocketAddress::host_path`]). Blocks the calling thread.
    ///
    /// # Errors
    /// Returns [`Error::Proc`] if `/proc` itself cannot be read.
    pub fn stale(&self, used: &HashSet<PathBuf>) -> Result<Vec<StaleSocket>, Error> {
        let alive: HashSet<_> = self
            .pids()?
            .into_iter()
            .filter_map(|pid| Some(Candidate::read(&self.host, pid).ok()??.socket_name()))
            .collect();
        let mut all = Vec::new();
        for directory in &self.socket_directories {
            let names = socket_names(None, directory)
                .into_iter()
                .filter(|name| !alive.contains(name));
            let paths = names.map(|name| (name, directory.join(name.to_string())));
            let stale = paths
                .filter(|(_, path)| !used.contains(path))
                .filter_map(|(name, path)| stale(name, path));
            all.extend(stale);
        }
        all.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        Ok(all)
    }

    /// Returns one process, even if there is no evidence that it runs .NET ([`Reason::NotDotnet`]). Blocks the calling
    /// thread.
    ///
    /// # Errors
    /// Returns [`Error::NoProcess`] if no process has this pid, or if the process has exited or is a kernel thread.
    /// Returns [`Error::NotAttachable`] if a security module or a mount option of `/proc` denies access to the entry of
    /// the process in `/proc`, or [`Error::Proc`] if the entry cannot be read for another reason.
    pub fn inspect(&self, pid: u32) -> Result<Process, Error> {
        let path = self.host.proc_root().join(pid.to_string());
        let candidate = match Candidate::read(&self.host, pid) {
            Ok(Some(candidate)) => candidate,
            Ok(None) => return Err(Error::NoProcess { pid }),
            Err(error) if has_gone(&error) => return Err(Error::NoProcess { pid }),
            Err(source) => return Err(unreadable(pid, path, source, self.credentials())),
        };
        let mut process = candidate.examine();
        if process.evidence.is_none() && !candidate.shows_its_maps() {
            process.obstacle = Some(Obstacle::new(
                Reason::Permission,
                "cannot determine whether the process runs .NET: its environment and mapped files are not readable, \
                 and it listens on no diagnostics socket",
                candidate.remedy(),
            ));
        } else if process.evidence.is_none() {
            process.obstacle = Some(Obstacle::new(
                Reason::NotDotnet,
                "the process has no diagnostics socket and no mapped .NET runtime library",
                "if it is a NativeAOT or single-file .NET program, its diagnostics are disabled: start it without \
                 DOTNET_EnableDiagnostics=0 and with a writable TMPDIR (NativeAOT: build it with EventSourceSupport)",
            ));
        }
        Ok(process)
    }

    /// Returns the runtime library that a process has mapped. .NET Core 3.x does not report its version, but the path
    /// of the library contains the version ([`Evidence::version`]). Returns `None` if there is no such library, as in
    /// single-file and NativeAOT programs, if the mapped files are not readable, or if the process does not exist.
    /// Blocks the calling thread.
    pub fn runtime_library(&self, pid: u32) -> Option<Evidence> {
        let candidate = Candidate::read(&self.host, pid).ok().flatten()?;
        candidate.runtime_library().ok().flatten().map(Evidence::Library)
    }
}

/// Returns the error for a process whose entry in `/proc` cannot be read.
fn unreadable(pid: u32, path: PathBuf, source: io::Error, own: &Credentials) -> Error {
    if source.kind() != io::ErrorKind::PermissionDenied {
        return Error::Proc { path, source };
    }
    let detail = format!("cannot read {}: {source}", path.display());
    let obstacle = Obstacle::new(Reason::Permission, detail, own.remedy(None));
    Error::NotAttachable { pid, obstacle }
}

fn has_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(Errno::SRCH.raw_os_error())
}

/// Returns a process of which only the configured socket is visible, or `None` if the socket does not exist.
fn behind(name: SocketName, address: &SocketAddress) -> Option<Process> {
    let (socket, obstacle) = match address.open() {
        Ok(socket) => (Some(socket), None),
        Err(Errno::NOENT | Errno::NOTDIR) => return None,
        Err(Errno::ACCESS | Errno::PERM) => (
            None,
            Some((Reason::Permission, "no permission to search the directory")),
        ),
        Err(_) => (None, Some((Reason::NotASocket, "it is not a socket"))),
    };
    let uid = socket
        .as_ref()
        .and_then(|socket| Some(rustix::fs::fstat(socket).ok()?.st_uid));
    let owner = uid.map_or_else(|| "its user".to_owned(), |uid| format!("uid {uid}"));
    let remedy = "run this program as the same user as the process (Kubernetes: the same runAsUser)";
    let mut obstacle = obstacle.map(|(reason, found)| Obstacle::new(reason, format!("{address}: {found}"), remedy));
    if let Some(socket) = &socket
        && !may_connect(socket).unwrap_or(true)
    {
        let detail = format!("{address} is accessible only to {owner}");
        obstacle = Some(Obstacle::new(Reason::Permission, detail, remedy));
    }
    Some(Process {
        pid: name.pid,
        ns_pid: name.pid,
        start_time: name.key,
        uid,
        name: format!("process {}", name.pid),
        visible: false,
        evidence: Some(Evidence::Socket),
        socket: Some(address.clone()),
        obstacle,
    })
}

/// Returns the socket as stale, or `None` if a process listens on the socket, the socket was deleted in the meantime,
/// or the check fails for another reason.
fn stale(name: SocketName, path: PathBuf) -> Option<StaleSocket> {
    match try_connect(&path) {
        Err(Errno::CONNREFUSED) => Some(StaleSocket {
            path,
            name,
            refused: true,
        }),
        Err(Errno::ACCESS | Errno::PERM) => Some(StaleSocket {
            path,
            name,
            refused: false,
        }),
        _ => None,
    }
}

fn try_connect(path: &Path) -> Result<(), Errno> {
    let file = SocketAddress::found(None, path).open()?;
    let address = SocketAddrUnix::new(descriptor_path(&file))?;
    // The connect does not block. If the connection queue is full, the connect fails with `EAGAIN`, which means that a
    // process listens.
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::connect(&socket, &address)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: the entry of a process in `/proc` cannot be read: SELinux denies access although this program has all
    /// capabilities, or the system reports another error.
    /// Guarantee: the first error is missing permission, and its remedy names SELinux; the second error stays an error.
    #[test]
    fn denied_entry_of_process_is_missing_permission() {
        let own = Credentials::parse(b"Uid:\t0\t0\t0\t0\nCapEff:\tffffffffff\n", None);
        let error = |errno: Errno| unreadable(7, PathBuf::from("/proc/7"), errno.into(), &own);
        let obstacle = error(Errno::ACCESS).obstacle();
        assert_eq!(obstacle.reason, Reason::Permission);
        assert!(obstacle.remedy.contains("SELinux"), "{obstacle:?}");
        assert_eq!(error(Errno::IO).obstacle().reason, Reason::Failed);
    }
}
