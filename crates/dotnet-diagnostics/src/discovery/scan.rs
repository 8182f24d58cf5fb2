//! All processes of this host, and the sockets whose process has exited.

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

/// Looks through a `/proc`.
#[derive(Clone, Debug)]
pub struct Scan {
    host: Host,
    socket_directories: Vec<PathBuf>,
}

/// What a look through `/proc` found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Listing {
    /// The processes that run .NET, by pid. Those without a socket and without the runtime's library are not
    /// recognized: NativeAOT and single-file programs with diagnostics switched off.
    pub processes: Vec<Process>,
    /// Socket files without a process.
    pub stale: Vec<StaleSocket>,
}

/// A socket file whose process has exited. It is never deleted: it may not be ours.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StaleSocket {
    /// The file.
    pub path: PathBuf,
    /// The process that its name names.
    pub name: SocketName,
    /// Whether a connection was refused, which proves that no process listens. Otherwise it could not be tried (another
    /// user's file), and processes hidden from us (`hidepid`) may own it.
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
            host: Host::new(PathBuf::from("/proc")),
            socket_directories,
        }
    }

    /// Reads another `/proc`: the host's, mounted elsewhere in a container, or a made-up one in a test.
    #[must_use]
    pub fn with_proc_root(mut self, proc_root: impl Into<PathBuf>) -> Self {
        self.host.move_to(proc_root.into());
        self
    }

    /// Looks for stale sockets in these directories.
    #[must_use]
    pub fn with_socket_directories(mut self, directories: impl IntoIterator<Item = PathBuf>) -> Self {
        self.socket_directories = directories.into_iter().collect();
        self
    }

    /// Takes sockets at these paths, which the operator names: of a runtime's socket, or of a directory of such. One
    /// that is named like a process of our `/proc` is that process's, wherever that says its own is; the others are of
    /// processes that are not visible to us ([`Process::visible`]), as in a sidecar that shares nothing with them but
    /// the directory. Reads the directories.
    #[must_use]
    pub fn with_sockets<'p>(self, paths: impl IntoIterator<Item = &'p Path>) -> Self {
        let found: Vec<_> = paths.into_iter().flat_map(Self::sockets_at).collect();
        self.with_found_sockets(found)
    }

    /// The same for sockets that [`Scan::sockets_at`] found. Reads nothing.
    #[must_use]
    pub fn with_found_sockets(mut self, found: impl IntoIterator<Item = (SocketName, SocketAddress)>) -> Self {
        for (name, address) in found {
            self.host.give(name, address);
        }
        self
    }

    /// The runtimes' sockets at a path that the operator names: one socket, or those in a directory, which is read;
    /// blocking. Empty when it cannot be read.
    pub fn sockets_at(path: &Path) -> Vec<(SocketName, SocketAddress)> {
        let file_name = path.file_name().and_then(|name| SocketName::parse(name.to_str()?));
        if let Some(name) = file_name {
            return vec![(name, SocketAddress::chosen(path))];
        }
        let address = |name: SocketName| SocketAddress::found(None, path.join(name.to_string()));
        let names = socket_names(None, path).into_iter();
        names.map(|name| (name, address(name))).collect()
    }

    /// Whether this run of a process is still there; true also where that cannot be seen. Reads its `stat` alone, which
    /// the kernel answers without waiting for the process or for a disk.
    pub fn is_there(&self, pid: u32, start_time: u64) -> bool {
        match Candidate::stat(&self.host, pid) {
            Ok(stat) => stat.start_time == start_time && !matches!(stat.state, 'Z' | 'X'),
            Err(error) => !has_gone(&error),
        }
    }

    /// The processes of the sockets that were named ([`Scan::with_sockets`]) and that are not in our `/proc`; blocking.
    /// `visible` holds the names that processes of our `/proc` have.
    fn invisible(&self, visible: &HashSet<SocketName>) -> Vec<Process> {
        let others = self.host.all_given().iter().filter(|(name, _)| !visible.contains(name));
        others.filter_map(|(name, address)| behind(*name, address)).collect()
    }

    /// The process of a named socket that is not in our `/proc`, see [`Process::visible`]. `None`: there is no such
    /// socket, or it is a visible process's; blocking.
    pub fn inspect_named(&self, name: SocketName) -> Option<Process> {
        let address = self.host.given(name)?;
        let visible = self.pids().ok()?.into_iter().any(|pid| {
            let candidate = Candidate::read(&self.host, pid).ok().flatten();
            candidate.is_some_and(|candidate| candidate.socket_name() == name && !candidate.is_own())
        });
        if visible { None } else { behind(name, address) }
    }

    /// Our own rights.
    pub fn credentials(&self) -> &Credentials {
        self.host.credentials()
    }

    /// What the program of a process is made for. `None`: there is no such process, or its program may not be read;
    /// blocking.
    pub fn program(&self, pid: u32) -> Option<Program> {
        Candidate::read(&self.host, pid).ok().flatten()?.program()
    }

    /// Every process, .NET or not, in ascending order.
    ///
    /// # Errors
    /// [`Error::Proc`] when `/proc` itself cannot be read.
    pub fn pids(&self) -> Result<Vec<u32>, Error> {
        let mut pids = Vec::new();
        let entries = std::fs::read_dir(self.host.proc_root()).map_err(|source| Error::Proc {
            path: self.host.proc_root().to_path_buf(),
            source,
        })?;
        for entry in entries {
            // An entry that cannot be read is a process that has gone.
            let pid = entry
                .ok()
                .and_then(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
            pids.extend(pid);
        }
        pids.sort_unstable();
        Ok(pids)
    }

    /// The processes of named sockets that are not among these, which were looked at, and not in our `/proc`; blocking.
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

    /// Every .NET process, and the stale sockets; blocking, for as long as the file system of any process does not respond.
    /// To skip such a process, inspect each of [`Self::pids`] with a time limit.
    ///
    /// # Errors
    /// [`Error::Proc`] when `/proc` itself cannot be read. A process that cannot be read is left out or has an
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

    /// Sockets of no process in the directories of this scan, by path; blocking. `used`: those of processes that were
    /// found.
    ///
    /// # Errors
    /// [`Error::Proc`] when `/proc` itself cannot be read.
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

    /// One process, also when nothing shows that it runs .NET ([`Reason::NotDotnet`]).
    ///
    /// # Errors
    /// [`Error::NoProcess`] when there is none with this pid, [`Error::Proc`] when its entry cannot be read.
    pub fn inspect(&self, pid: u32) -> Result<Process, Error> {
        let path = self.host.proc_root().join(pid.to_string());
        let candidate = match Candidate::read(&self.host, pid) {
            Ok(Some(candidate)) => candidate,
            Ok(None) => return Err(Error::NoProcess { pid }),
            Err(error) if has_gone(&error) => return Err(Error::NoProcess { pid }),
            Err(source) => return Err(Error::Proc { path, source }),
        };
        let mut process = candidate.examine();
        if process.evidence.is_none() && !candidate.shows_its_maps() {
            process.obstacle = Some(Obstacle::new(
                Reason::Permission,
                "whether it runs .NET cannot be seen: neither its environment nor its mapped files may be read, and \
                 it listens on no diagnostics socket",
                candidate.remedy(),
            ));
        } else if process.evidence.is_none() {
            process.obstacle = Some(Obstacle::new(
                Reason::NotDotnet,
                "it has neither a diagnostics socket nor a .NET runtime's library mapped",
                "if it is a NativeAOT or single-file .NET program, its diagnostics are switched off: start it without \
                 DOTNET_EnableDiagnostics=0 and with a writable TMPDIR (NativeAOT: built with EventSourceSupport)",
            ));
        }
        Ok(process)
    }

    /// The runtime's library that a process has mapped. .NET Core 3.x cannot be asked for its version; the library's
    /// folder names it ([`Evidence::version`]). `None` when there is none, as in single-file and NativeAOT programs, or
    /// when it may not be seen.
    pub fn runtime_library(&self, pid: u32) -> Option<Evidence> {
        let candidate = Candidate::read(&self.host, pid).ok().flatten()?;
        candidate.runtime_library().ok().flatten().map(Evidence::Library)
    }
}

fn has_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(Errno::SRCH.raw_os_error())
}

/// The process behind a socket, of which nothing else can be seen. `None`: there is no socket.
fn behind(name: SocketName, address: &SocketAddress) -> Option<Process> {
    let (socket, obstacle) = match address.open() {
        Ok(socket) => (Some(socket), None),
        Err(Errno::NOENT | Errno::NOTDIR) => return None,
        Err(Errno::ACCESS | Errno::PERM) => (
            None,
            Some((Reason::Permission, "no permission to look into the directory")),
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
        let detail = format!("{address} is open to {owner} alone");
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

/// `None` when a process listens on the socket, or it was deleted meanwhile.
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
    // Not blocking: a full queue of connections means that a process listens.
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::connect(&socket, &address)
}
