//! All processes of this host, and the sockets that nobody owns any more.

use std::collections::HashSet;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use super::address::{SocketAddress, descriptor_path};
use super::obstacle::{Obstacle, Reason};
use super::socket_name::SocketName;
use super::target::{Candidate, Evidence, Process, socket_names};
use crate::error::Error;

/// Looks through a `/proc`.
#[derive(Clone, Debug)]
pub struct Scan {
    proc_root: PathBuf,
    socket_directories: Vec<PathBuf>,
}

/// What a look through `/proc` found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Listing {
    /// The processes that run .NET, by pid. Those without a socket and without the runtime's library are not recognized:
    /// NativeAOT and single-file programs with diagnostics switched off.
    pub processes: Vec<Process>,
    /// Socket files without a process.
    pub stale: Vec<StaleSocket>,
}

/// A socket file whose process has ended. It is never deleted: it may not be ours.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StaleSocket {
    /// The file.
    pub path: PathBuf,
    /// What its name says.
    pub name: SocketName,
    /// Whether a connection was refused, which proves that nobody listens. Otherwise it could not be tried (another user's
    /// file), and processes hidden from us (`hidepid`) may own it.
    pub refused: bool,
}

impl fmt::Display for StaleSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (path, pid) = (self.path.display(), self.name.pid);
        if self.refused {
            write!(f, "{path}: left behind by process {pid}, which has ended; delete it")
        } else {
            write!(
                f,
                "{path}: no process {pid} with this start time is visible to us, and the socket is another user's"
            )
        }
    }
}

impl Scan {
    /// This host: `/proc`, and stale sockets in `/tmp` and our own `TMPDIR`.
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
            proc_root: PathBuf::from("/proc"),
            socket_directories,
        }
    }

    /// Reads another `/proc`: the host's, mounted elsewhere in a container, or a made-up one in a test.
    #[must_use]
    pub fn with_proc_root(mut self, proc_root: impl Into<PathBuf>) -> Self {
        self.proc_root = proc_root.into();
        self
    }

    /// Looks for stale sockets in these directories.
    #[must_use]
    pub fn with_socket_directories(mut self, directories: impl IntoIterator<Item = PathBuf>) -> Self {
        self.socket_directories = directories.into_iter().collect();
        self
    }

    /// Every .NET process, and the stale sockets.
    ///
    /// # Errors
    /// [`Error::Proc`] when `/proc` itself cannot be read. A process that cannot be read is left out or has an obstacle.
    pub fn list(&self) -> Result<Listing, Error> {
        let unreadable = |source| Error::Proc {
            path: self.proc_root.clone(),
            source,
        };
        let mut pids = Vec::new();
        for entry in std::fs::read_dir(&self.proc_root).map_err(unreadable)? {
            // An entry that cannot be read is a process that has gone.
            let pid = entry
                .ok()
                .and_then(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
            pids.extend(pid);
        }
        pids.sort_unstable();
        let mut alive = HashSet::new();
        let mut listing = Listing::default();
        for pid in pids {
            let Ok(Some(candidate)) = Candidate::read(&self.proc_root, pid) else {
                continue;
            };
            alive.insert(SocketName {
                pid: candidate.ns_pid,
                key: candidate.stat.start_time,
            });
            let process = candidate.examine();
            if process.evidence.is_some() {
                listing.processes.push(process);
            }
        }
        let used: HashSet<_> = listing
            .processes
            .iter()
            .filter_map(|process| Some(process.socket.as_ref()?.host_path()))
            .collect();
        for directory in &self.socket_directories {
            let names = socket_names(None, directory)
                .into_iter()
                .filter(|name| !alive.contains(name));
            let paths = names.map(|name| (name, directory.join(name.to_string())));
            let stale = paths
                .filter(|(_, path)| !used.contains(path))
                .filter_map(|(name, path)| stale(name, path));
            listing.stale.extend(stale);
        }
        listing.stale.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        Ok(listing)
    }

    /// One process, also when nothing says that it runs .NET ([`Reason::NotDotnet`]).
    ///
    /// # Errors
    /// [`Error::NoProcess`] when there is none with this pid, [`Error::Proc`] when its entry cannot be read.
    pub fn inspect(&self, pid: u32) -> Result<Process, Error> {
        let path = self.proc_root.join(pid.to_string());
        let candidate = match Candidate::read(&self.proc_root, pid) {
            Ok(Some(candidate)) => candidate,
            Ok(None) => return Err(Error::NoProcess { pid }),
            Err(error) if has_gone(&error) => return Err(Error::NoProcess { pid }),
            Err(source) => return Err(Error::Proc { path, source }),
        };
        let mut process = candidate.examine();
        if process.evidence.is_none() {
            process.obstacle = Some(Obstacle::new(
                Reason::NotDotnet,
                "it has neither a diagnostics socket nor a .NET runtime's library mapped; if it is a NativeAOT or single-file \
                 program, its diagnostics are switched off",
            ));
        }
        Ok(process)
    }

    /// The runtime's library that a process has mapped. .NET Core 3.x cannot be asked for its version; the library's folder names it
    /// ([`Evidence::version`]). `None` when there is none, as in single-file and NativeAOT programs, or when it may not be seen.
    pub fn runtime_library(&self, pid: u32) -> Option<Evidence> {
        let candidate = Candidate::read(&self.proc_root, pid).ok().flatten()?;
        candidate.runtime_library().ok().flatten().map(Evidence::Library)
    }
}

fn has_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(Errno::SRCH.raw_os_error())
}

/// `None` when somebody listens on the socket, or it has gone meanwhile.
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
    // Not blocking: a full queue of connections means that somebody listens.
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::connect(&socket, &address)
}
