//! Why a process that runs .NET has no socket.

use std::io;
use std::path::Path;

use rustix::fs::StatVfsMountFlags;
use rustix::io::Errno;

use super::address::SocketAddress;
use super::candidate::Candidate;
use super::proc_files::Environ;
use super::socket_name::{MAX_SOCKET_PATH_BYTES, SocketName};
use crate::obstacle::{Obstacle, Reason};
use crate::text::shown;

/// A process younger than this may still be about to make its socket (clock ticks: 10 s).
const STARTING_TICKS: u64 = 1000;
/// First major version whose runtime listens.
const FIRST_VERSION: u32 = 3;
/// The remedy where the reason is not known.
const START_ANEW: &str = "start it with a writable TMPDIR and without DOTNET_EnableDiagnostics=0";

/// A socket that is missing, and what is known of it.
#[derive(Debug)]
pub(super) struct Missing<'a> {
    pub(super) candidate: &'a Candidate<'a>,
    /// `None`: it cannot be read.
    pub(super) environ: Option<&'a Environ>,
    pub(super) root: Option<&'a Path>,
    /// Where the socket must be.
    pub(super) expected: &'a SocketAddress,
    /// Why it cannot be opened there.
    pub(super) error: Errno,
    /// Sockets of its pid in the same directory, oldest first.
    pub(super) others: &'a [SocketName],
    /// Where it listens by the kernel's table, and why that cannot be opened.
    pub(super) listens_at: Option<(&'a Path, Errno)>,
    /// The runtime's version, from the path of its library.
    pub(super) version: Option<&'a str>,
}

impl Missing<'_> {
    /// The reason, the most certain one first.
    pub(super) fn obstacle(&self) -> Obstacle {
        if let Some(variable) = self.environ.and_then(|environ| environ.switched_off.as_ref()) {
            return Obstacle::new(
                Reason::DiagnosticsOff,
                format!("{} is set in its environment", shown(variable)),
                "start it without this variable",
            );
        }
        let rights = self.rights().or_else(|| self.refused());
        let seen = rights.or_else(|| self.too_old()).or_else(|| self.removed());
        let made = seen.or_else(|| self.too_long()).or_else(|| self.starting());
        made.or_else(|| self.unwritable())
            .or_else(|| self.other_architecture())
            .or_else(|| self.stale())
            .unwrap_or_else(|| self.unexplained())
    }

    /// Its environment, and with it its TMPDIR, cannot be read.
    fn rights(&self) -> Option<Obstacle> {
        if self.environ.is_some() {
            return None;
        }
        let tried = match self.listens_at {
            Some((path, _)) => format!(
                "it listens on {}, which cannot be opened, and its environment cannot be read",
                shown(&path.to_string_lossy())
            ),
            None => format!(
                "its environment cannot be read; without its TMPDIR, {} and the kernel's table of listening sockets \
                 were searched, and no socket was found",
                self.expected
            ),
        };
        Some(Obstacle::new(Reason::Permission, tried, self.candidate.remedy()))
    }

    /// There is something, and it cannot be opened.
    fn refused(&self) -> Option<Obstacle> {
        let expected = self.expected;
        let found = match self.error {
            // An overlong name ends up with the length of its path.
            Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG => return None,
            Errno::ACCESS | Errno::PERM => {
                let error = io::Error::from(self.error);
                let detail = format!("{expected} cannot be opened: {error}");
                return Some(Obstacle::new(Reason::Permission, detail, self.candidate.remedy()));
            }
            Errno::NOTSOCK => "is no socket but a file, a directory or a device",
            Errno::LOOP => "is a symbolic link, or its path is a circle of them",
            Errno::XDEV => "leads out of the process's root",
            other => {
                let error = io::Error::from(other);
                return Some(Obstacle::new(
                    Reason::Failed,
                    format!("{expected} cannot be opened: {error}"),
                    "",
                ));
            }
        };
        Some(Obstacle::new(
            Reason::NotASocket,
            format!("{expected} {found}; it was not followed"),
            "find out who put it there, delete it, and start the process again",
        ))
    }

    fn too_old(&self) -> Option<Obstacle> {
        let version = self.version?;
        let major: u32 = version.split('.').next()?.parse().ok()?;
        (major < FIRST_VERSION).then(|| {
            Obstacle::new(
                Reason::TooOld,
                format!("it runs .NET Core {}, which has no diagnostics socket", shown(version)),
                "update it to .NET Core 3.1 or later",
            )
        })
    }

    fn removed(&self) -> Option<Obstacle> {
        let (path, error) = self.listens_at?;
        if !matches!(error, Errno::NOENT | Errno::NOTDIR) {
            let (path, error) = (shown(&path.to_string_lossy()), io::Error::from(error));
            let detail = format!("it listens on {path}, which cannot be opened: {error}");
            return Some(Obstacle::new(Reason::Failed, detail, ""));
        }
        Some(Obstacle::new(
            Reason::SocketRemoved,
            format!(
                "it listens on {}, but that file was deleted",
                shown(&path.to_string_lossy())
            ),
            "restart it, and keep whatever cleans the directory away from dotnet-diagnostic-*",
        ))
    }

    fn too_long(&self) -> Option<Obstacle> {
        let length = self.expected.path().as_os_str().len();
        (length > MAX_SOCKET_PATH_BYTES).then(|| {
            Obstacle::new(
                Reason::NoSocket,
                format!(
                    "its TMPDIR is too long: the socket's path would have {length} bytes and the runtime can use \
                     {MAX_SOCKET_PATH_BYTES}"
                ),
                "start it with a shorter TMPDIR",
            )
        })
    }

    fn starting(&self) -> Option<Obstacle> {
        let young = self.candidate.age().is_some_and(|ticks| ticks < STARTING_TICKS);
        young.then(|| {
            Obstacle::new(
                Reason::Starting,
                "it was started less than 10 seconds ago and has no socket yet",
                "wait for it",
            )
        })
    }

    /// The directory is not one that it could make a socket in.
    fn unwritable(&self) -> Option<Obstacle> {
        let path = self.expected.path().parent()?;
        let shown_path = shown(&path.to_string_lossy());
        let found = match self.expected.open_parent() {
            Err(Errno::NOENT) => format!("the directory of its socket, {shown_path}, is not there"),
            Err(Errno::NOTDIR) => format!("the directory of its socket, {shown_path}, is no directory"),
            Err(_) => return None,
            Ok(directory) => {
                let mount = rustix::fs::fstatvfs(&directory).ok()?;
                let metadata = rustix::fs::fstat(&directory).ok()?;
                let mode = metadata.st_mode;
                let uid = self.candidate.status.uid?;
                if mount.f_flag.contains(StatVfsMountFlags::RDONLY) {
                    format!("the directory of its socket, {shown_path}, is on a read-only file system")
                // A group's right may be its own: only what is surely not writable counts.
                } else if uid != 0 && metadata.st_uid != uid && mode & 0o022 == 0 {
                    format!("uid {uid}, as which it runs, cannot write to the directory of its socket, {shown_path}")
                } else {
                    return None;
                }
            }
        };
        Some(Obstacle::new(
            Reason::UnwritableDirectory,
            found,
            "give it a writable directory there, or one that TMPDIR names (Kubernetes: an emptyDir mounted at /tmp), \
             and start it again",
        ))
    }

    fn other_architecture(&self) -> Option<Obstacle> {
        let foreign = self.candidate.program()?.foreign()?;
        Some(Obstacle::new(
            Reason::OtherArchitecture,
            format!("{foreign}; there is no {}", self.expected),
            "run it as a program of this machine",
        ))
    }

    fn stale(&self) -> Option<Obstacle> {
        let other = self.others.last()?;
        let directory = self.expected.path().parent()?;
        Some(Obstacle::new(
            Reason::StaleSocket,
            format!(
                "{other} in {} was left behind by an earlier process with pid {}; this one has no socket",
                shown(&directory.to_string_lossy()),
                self.candidate.ns_pid
            ),
            START_ANEW,
        ))
    }

    fn unexplained(&self) -> Obstacle {
        let root = self.root.map_or("", |_| ", seen in its own root");
        let directories = self.candidate.runtime_directories(self.environ);
        let directories: Vec<String> = directories.iter().map(|path| shown(&path.to_string_lossy())).collect();
        let others = if directories.is_empty() {
            String::new()
        } else {
            format!(", and none in {}", directories.join(" or "))
        };
        Obstacle::new(
            Reason::NoSocket,
            format!(
                "there is no {}{root}{others}; the runtime makes it at its start unless diagnostics are off (also in \
                 runtimeconfig.json) or the directory cannot be written",
                self.expected
            ),
            START_ANEW,
        )
    }
}
