//! Determines the reason why a process that runs .NET has no socket.

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

/// Age below which a process possibly has not created its socket yet, in clock ticks (10 s).
const STARTING_TICKS: u64 = 1000;
/// First major version whose runtime listens.
const FIRST_VERSION: u32 = 3;
/// Remedy if the socket is stale or the reason is unknown.
const START_ANEW: &str = "restart it with a writable TMPDIR and without DOTNET_EnableDiagnostics=0";

/// A missing socket, and the facts about it.
#[derive(Debug)]
pub(super) struct Missing<'a> {
    pub(super) candidate: &'a Candidate<'a>,
    /// Settings in the environment; `None` if the environment cannot be read.
    pub(super) environ: Option<&'a Environ>,
    pub(super) root: Option<&'a Path>,
    /// Expected location of the socket.
    pub(super) expected: &'a SocketAddress,
    /// Error of the open at the expected location.
    pub(super) error: Errno,
    /// Sockets with the same pid in the same directory, oldest first.
    pub(super) others: &'a [SocketName],
    /// Path of the socket in the kernel's table, and the error of opening this path; `None` if the table was not
    /// searched or does not contain the socket.
    pub(super) listens_at: Option<(&'a Path, Errno)>,
    /// Version of the runtime, from the path of its library; `None` if the path contains no version.
    pub(super) version: Option<&'a str>,
}

impl Missing<'_> {
    /// Returns the reason. The most certain reasons are checked first.
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

    /// Returns an obstacle if the environment, and therefore TMPDIR, cannot be read.
    fn rights(&self) -> Option<Obstacle> {
        if self.environ.is_some() {
            return None;
        }
        let tried = match self.listens_at {
            Some((path, _)) => format!(
                "the process listens on {}, which cannot be opened, and its environment cannot be read",
                shown(&path.to_string_lossy())
            ),
            None => format!(
                "the environment, and therefore TMPDIR, cannot be read; {} and the kernel's table of listening sockets \
                 were searched, and no socket was found",
                self.expected
            ),
        };
        Some(Obstacle::new(Reason::Permission, tried, self.candidate.remedy()))
    }

    /// Returns an obstacle if a file exists at the expected location but cannot be opened.
    fn refused(&self) -> Option<Obstacle> {
        let expected = self.expected;
        let found = match self.error {
            // The length of the path is checked separately.
            Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG => return None,
            Errno::ACCESS | Errno::PERM => {
                let error = io::Error::from(self.error);
                let detail = format!("{expected} cannot be opened: {error}");
                return Some(Obstacle::new(Reason::Permission, detail, self.candidate.remedy()));
            }
            Errno::NOTSOCK => "is a file, a directory or a device instead of a socket",
            Errno::LOOP => "is a symbolic link, or its path contains a loop of symbolic links",
            Errno::XDEV => "leads outside the root directory of the process",
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
            format!("{expected} {found}; the path was not followed"),
            "find out which program created it, delete it, and restart the process",
        ))
    }

    fn too_old(&self) -> Option<Obstacle> {
        let version = self.version?;
        let major: u32 = version.split('.').next()?.parse().ok()?;
        (major < FIRST_VERSION).then(|| {
            Obstacle::new(
                Reason::TooOld,
                format!(
                    "the process runs .NET Core {}, which has no diagnostics socket",
                    shown(version)
                ),
                "update it to .NET Core 3.1 or later",
            )
        })
    }

    fn removed(&self) -> Option<Obstacle> {
        let (path, error) = self.listens_at?;
        if !matches!(error, Errno::NOENT | Errno::NOTDIR) {
            let (path, error) = (shown(&path.to_string_lossy()), io::Error::from(error));
            let detail = format!("the process listens on {path}, which cannot be opened: {error}");
            return Some(Obstacle::new(Reason::Failed, detail, ""));
        }
        Some(Obstacle::new(
            Reason::SocketRemoved,
            format!(
                "the process listens on {}, but that file was deleted",
                shown(&path.to_string_lossy())
            ),
            "restart it, and exclude dotnet-diagnostic-* from the cleanup of the directory",
        ))
    }

    fn too_long(&self) -> Option<Obstacle> {
        let length = self.expected.path().as_os_str().len();
        (length > MAX_SOCKET_PATH_BYTES).then(|| {
            Obstacle::new(
                Reason::NoSocket,
                format!(
                    "its TMPDIR is too long: the path of the socket would have {length} bytes, and the runtime \
                     supports at most {MAX_SOCKET_PATH_BYTES}"
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
                "the process started less than 10 seconds ago and has no socket yet",
                "try again in a few seconds",
            )
        })
    }

    /// Returns an obstacle if the process cannot create a socket in the directory.
    fn unwritable(&self) -> Option<Obstacle> {
        let path = self.expected.path().parent()?;
        let shown_path = shown(&path.to_string_lossy());
        let found = match self.expected.open_parent() {
            Err(Errno::NOENT) => format!("the socket directory {shown_path} does not exist"),
            Err(Errno::NOTDIR) => format!("the socket directory {shown_path} is not a directory"),
            Err(_) => return None,
            Ok(directory) => {
                let mount = rustix::fs::fstatvfs(&directory).ok()?;
                let metadata = rustix::fs::fstat(&directory).ok()?;
                let mode = metadata.st_mode;
                let uid = self.candidate.status.uid?;
                if mount.f_flag.contains(StatVfsMountFlags::RDONLY) {
                    format!("the socket directory {shown_path} is on a read-only file system")
                // The process can be a member of the group, so only a directory that is certainly not writable counts.
                } else if uid != 0 && metadata.st_uid != uid && mode & 0o022 == 0 {
                    format!("uid {uid}, the user of the process, cannot write to the socket directory {shown_path}")
                } else {
                    return None;
                }
            }
        };
        Some(Obstacle::new(
            Reason::UnwritableDirectory,
            found,
            "make this directory writable or set TMPDIR to a writable one (Kubernetes: mount an emptyDir at /tmp), \
             and restart the process",
        ))
    }

    fn other_architecture(&self) -> Option<Obstacle> {
        let foreign = self.candidate.program()?.foreign()?;
        Some(Obstacle::new(
            Reason::OtherArchitecture,
            format!("{foreign}; {} does not exist", self.expected),
            "run it as a native program",
        ))
    }

    fn stale(&self) -> Option<Obstacle> {
        let other = self.others.last()?;
        let directory = self.expected.path().parent()?;
        Some(Obstacle::new(
            Reason::StaleSocket,
            format!(
                "{other} in {} was left behind by an earlier process with pid {}; this process has no socket",
                shown(&directory.to_string_lossy()),
                self.candidate.ns_pid
            ),
            START_ANEW,
        ))
    }

    fn unexplained(&self) -> Obstacle {
        let root = self.root.map_or("", |_| " in the root directory of the process");
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
                "{}{root} does not exist{others}; the runtime creates it at startup unless diagnostics are off (also in \
                 runtimeconfig.json) or the directory is not writable",
                self.expected
            ),
            START_ANEW,
        )
    }
}
