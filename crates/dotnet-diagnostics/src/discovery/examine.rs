//! Finds the socket of a process or the reason why there is no socket.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use super::address::{SocketAddress, may_connect};
use super::candidate::Candidate;
use super::directory::sockets_of;
use super::missing::Missing;
use super::proc_files::Environ;
use super::process::{Evidence, Process};
use crate::obstacle::{Obstacle, Reason};

/// The search for the socket of a process.
#[derive(Debug)]
struct Search {
    /// Settings in the environment; `None` if the environment cannot be read.
    environ: Option<Environ>,
    root: Option<PathBuf>,
    /// Expected location of the socket.
    expected: SocketAddress,
    /// Error of the open at the expected location.
    error: Errno,
}

impl Search {
    fn directory(&self) -> &Path {
        self.expected.path().parent().unwrap_or(Path::new("/tmp"))
    }
}

impl Candidate<'_> {
    /// Finds the socket, or the reason why there is no socket.
    pub(super) fn examine(&self) -> Process {
        let environ = self.environ();
        let root = self.foreign_root();
        let tmpdir = self.tmpdir(environ.as_ref());
        let name = self.socket_name();
        let expected = SocketAddress::found(root.clone(), tmpdir.join(name.to_string()));
        let mut process = self.process();
        match expected.open() {
            Ok(socket) => self.with_socket(&mut process, expected, &socket),
            Err(error) => {
                let search = Search {
                    environ,
                    root,
                    expected,
                    error,
                };
                self.search_on(&mut process, &search);
            }
        }
        process
    }

    fn with_socket(&self, process: &mut Process, address: SocketAddress, socket: &OwnedFd) {
        process.evidence = Some(Evidence::Socket);
        // If this check fails, the permission to connect is unknown; a later connection shows it.
        if !may_connect(socket).unwrap_or(true) {
            process.obstacle = Some(Obstacle::new(
                Reason::Permission,
                format!("{address} is accessible only to {}", self.owner()),
                self.remedy(),
            ));
        }
        process.socket = Some(address);
    }

    /// Searches other locations because the socket is not at the expected location. The listener of a socket is
    /// compared with the process when a client connects.
    fn search_on(&self, process: &mut Process, search: &Search) {
        let name = self.socket_name();
        // Check the sockets that the operator configured.
        if let Some(given) = self.host.given(name)
            && !self.is_own()
            && let Ok(socket) = given.open()
        {
            return self.with_socket(process, given.clone(), &socket);
        }
        for directory in self.runtime_directories(search.environ.as_ref()) {
            let address = SocketAddress::found(search.root.clone(), directory.join(name.to_string()));
            if let Ok(socket) = address.open() {
                return self.with_socket(process, address, &socket);
            }
        }
        let time_shifted = self.in_other_namespace("time");
        match self.runtime_library() {
            Ok(Some(library)) => process.evidence = Some(Evidence::Library(library)),
            Err(_) if self.looks_like_dotnet() => process.evidence = Some(Evidence::CommandLine),
            _ => {}
        }
        // The kernel's table contains the path even if TMPDIR cannot be read or was changed after the start.
        let listens_at = if process.evidence.is_some() || search.environ.is_none() {
            self.host.listens_at(&self.directory.join("net/unix"), name)
        } else {
            None
        };
        let mut not_opened = None;
        if let Some(path) = &listens_at {
            let address = SocketAddress::found(search.root.clone(), path);
            match address.open() {
                Ok(socket) => return self.with_socket(process, address, &socket),
                Err(error) => not_opened = Some((path.as_path(), error)),
            }
            process.evidence.get_or_insert(Evidence::Socket);
        }
        if process.evidence.is_none() && !time_shifted {
            return;
        }
        let directory = search.directory();
        let others = sockets_of(search.root.as_deref(), directory, self.ns_pid);
        // In another time namespace, the runtime sees a different start time, so the newest socket is used. If the
        // runtime could not read its start time (some emulators do not provide it), the key is 0.
        let other = if time_shifted {
            others.last()
        } else {
            others.iter().find(|name| name.key == 0)
        };
        if let Some(other) = other {
            let address = SocketAddress::found(search.root.clone(), directory.join(other.to_string()));
            if let Ok(socket) = address.open() {
                return self.with_socket(process, address, &socket);
            }
        }
        if process.evidence.is_none() {
            return;
        }
        let version = process.evidence.as_ref().and_then(Evidence::version);
        let missing = Missing {
            candidate: self,
            environ: search.environ.as_ref(),
            root: search.root.as_deref(),
            expected: &search.expected,
            error: search.error,
            others: &others,
            listens_at: not_opened,
            version,
        };
        process.obstacle = Some(missing.obstacle());
    }
}
