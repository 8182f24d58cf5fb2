//! Opens connections to a runtime, through its socket or through connections that the runtime opens (reverse connect).

use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use tokio::net::UnixStream;
use tokio::time::{Instant, sleep, timeout_at};

use crate::connections::{Connections, OpenConnection};
use crate::deadlines::Deadlines;
use crate::discovery::{Process, SocketAddress};
use crate::error::{Error, Peer, Stage};
use crate::message::Command;
use crate::obstacle::{Obstacle, Reason};
use crate::waiting::WaitingRuntime;

/// Delay before a connection is retried if the connection queue of the runtime is full.
const QUEUE_RETRY: Duration = Duration::from_millis(20);

/// The endpoint of a runtime. Each connection carries one command.
#[derive(Clone, Debug)]
pub struct Endpoint {
    kind: Kind,
    /// Process id in the pid namespace of this program; `None` if unknown. The listener of a socket must have this id.
    pid: Option<u32>,
    connections: Connections,
}

/// A connection for one command.
#[derive(Debug)]
pub(crate) struct CommandConnection {
    pub(crate) stream: UnixStream,
    /// Dropped after the stream, so that the connection counts as open until it is closed.
    pub(crate) _open: Option<OpenConnection>,
}

#[derive(Clone, Debug)]
enum Kind {
    Socket(SocketAddress),
    Reverse(WaitingRuntime),
}

impl Endpoint {
    /// Creates an endpoint for a socket. The listener must be the process `pid`, a process id in the pid namespace of
    /// this program; otherwise, commands fail with [`Error::WrongPeer`] or [`Error::InvisiblePeer`]. With `None`, any
    /// listener is accepted.
    pub fn socket(address: SocketAddress, pid: Option<u32>) -> Self {
        Self {
            kind: Kind::Socket(address),
            pid,
            connections: Connections::default(),
        }
    }

    /// Creates an endpoint for the socket of a discovered process.
    ///
    /// # Errors
    /// Returns [`Error::NotAttachable`] with [`Process::obstacle`], or with [`Reason::NoSocket`] if the process has
    /// neither an obstacle nor a socket.
    pub fn for_process(process: &Process) -> Result<Self, Error> {
        let pid = process.pid;
        let listener = process.visible.then_some(pid);
        match (&process.socket, &process.obstacle) {
            (_, Some(obstacle)) => Err(Error::NotAttachable {
                pid,
                obstacle: obstacle.clone(),
            }),
            (Some(address), None) => Ok(Self::socket(address.clone(), listener)),
            (None, None) => {
                let obstacle = Obstacle::new(Reason::NoSocket, "the process has no diagnostics socket", "");
                Err(Error::NotAttachable { pid, obstacle })
            }
        }
    }

    /// Creates an endpoint for a runtime that connects to this process.
    pub(crate) fn waiting(runtime: WaitingRuntime, pid: Option<u32>) -> Self {
        Self {
            kind: Kind::Reverse(runtime),
            pid,
            connections: Connections::default(),
        }
    }

    /// Returns the address of the socket, or `None` if the runtime connects to this process.
    pub fn address(&self) -> Option<&SocketAddress> {
        match &self.kind {
            Kind::Socket(address) => Some(address),
            Kind::Reverse(_) => None,
        }
    }

    /// Returns the connections of this endpoint and its clones to the socket. Connections that the runtime opened are
    /// not included.
    pub fn connections(&self) -> &Connections {
        &self.connections
    }

    /// Returns the process and the socket for error messages.
    pub fn peer(&self) -> Peer {
        let (socket, reverse) = match &self.kind {
            Kind::Socket(address) => (address.host_path(), false),
            Kind::Reverse(runtime) => (runtime.path().to_path_buf(), true),
        };
        Peer {
            pid: self.pid,
            socket,
            reverse,
        }
    }

    /// Opens a connection for one command.
    pub(crate) async fn connect(&self, command: Command, deadlines: &Deadlines) -> Result<CommandConnection, Error> {
        match &self.kind {
            Kind::Socket(address) => {
                let open = Some(self.connections.open());
                let stream = self.connect_to(address, command, deadlines.connect).await?;
                self.verify(&stream)?;
                Ok(CommandConnection { stream, _open: open })
            }
            Kind::Reverse(runtime) => match runtime.take(Instant::now() + deadlines.advertise).await {
                Some(stream) => Ok(CommandConnection { stream, _open: None }),
                None => Err(self.silent(command, Stage::Advertise, deadlines.advertise)),
            },
        }
    }

    pub(crate) fn silent(&self, command: Command, stage: Stage, after: Duration) -> Error {
        Error::Silent {
            peer: self.peer(),
            command,
            stage,
            after,
        }
    }

    async fn connect_to(
        &self,
        address: &SocketAddress,
        command: Command,
        after: Duration,
    ) -> Result<UnixStream, Error> {
        let deadline = Instant::now() + after;
        // The path can be on any file system, including one that the target controls. Opening the path and connecting
        // to the socket can block, because the kernel checks permissions with that file system.
        let mut opened = None;
        loop {
            let address = address.clone();
            let connecting = tokio::task::spawn_blocking(move || {
                let file = opened.map_or_else(|| address.open(), Ok)?;
                Ok::<_, Errno>((connect_descriptor(&file), file))
            });
            let (connected, file) = match timeout_at(deadline, connecting).await {
                Ok(Ok(connected)) => connected.map_err(|errno| self.not_opened(errno))?,
                Ok(Err(panicked)) => return Err(self.io(Stage::Connect, std::io::Error::other(panicked))),
                Err(_) => return Err(self.silent(command, Stage::Connect, after)),
            };
            match connected.and_then(UnixStream::from_std) {
                Ok(stream) => return Ok(stream),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    if timeout_at(deadline, sleep(QUEUE_RETRY)).await.is_err() {
                        return Err(self.silent(command, Stage::Connect, after));
                    }
                    opened = Some(file);
                }
                Err(error) => return Err(self.not_connected(error)),
            }
        }
    }

    /// Checks that the listener is the process in the name of the socket. Any process can create a file with that name
    /// in `/tmp`.
    fn verify(&self, stream: &UnixStream) -> Result<(), Error> {
        let Some(expected) = self.pid else { return Ok(()) };
        let credentials = stream.peer_cred().map_err(|error| self.io(Stage::Connect, error))?;
        match credentials.pid().and_then(|pid| u32::try_from(pid).ok()) {
            // The kernel reports pid 0 for a listener that is not visible. The expected process is visible, so the
            // listener is another process. The pid is also 0 if `/proc` belongs to a different pid namespace; in that
            // case, the listener is not trusted either.
            None | Some(0) => Err(Error::InvisiblePeer { peer: self.peer() }),
            Some(found) if found == expected => Ok(()),
            Some(found) => Err(Error::WrongPeer {
                peer: self.peer(),
                found,
            }),
        }
    }

    fn not_opened(&self, errno: Errno) -> Error {
        let peer = self.peer();
        match errno {
            Errno::NOENT | Errno::NOTDIR | Errno::SRCH => Error::NoSocket { peer },
            Errno::NOTSOCK => Error::NotASocket {
                peer,
                found: "a file, a directory or a device",
            },
            Errno::LOOP => Error::NotASocket {
                peer,
                found: "a symbolic link",
            },
            Errno::XDEV => Error::NotASocket {
                peer,
                found: "a path outside the root directory of the process",
            },
            Errno::ACCESS | Errno::PERM => Error::Permission {
                peer,
                source: errno.into(),
            },
            other => self.io(Stage::Connect, other.into()),
        }
    }

    fn not_connected(&self, error: std::io::Error) -> Error {
        let peer = self.peer();
        match error.kind() {
            std::io::ErrorKind::ConnectionRefused => Error::Refused { peer },
            std::io::ErrorKind::PermissionDenied => Error::Permission { peer, source: error },
            _ => self.io(Stage::Connect, error),
        }
    }

    pub(crate) fn io(&self, stage: Stage, source: std::io::Error) -> Error {
        Error::Io {
            peer: self.peer(),
            stage,
            source,
        }
    }
}

/// Connects to an open socket. Returns `WouldBlock` if its connection queue is full.
fn connect_descriptor(file: &OwnedFd) -> std::io::Result<std::os::unix::net::UnixStream> {
    let address = SocketAddrUnix::new(crate::discovery::descriptor_path(file))?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::connect(&socket, &address)?;
    Ok(socket.into())
}
