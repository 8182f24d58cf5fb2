//! Errors with the process, the command and a remedy.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::message::{Command, MessageError, RuntimeError};
use crate::obstacle::{Obstacle, Reason};
use crate::text::shown;

// Remedies of errors. The message of an error ends with its remedy, except for `TOO_OLD`.
const PERMISSION: &str =
    "run with sudo, or as the same user and group (in a container: as root with CAP_SYS_PTRACE and CAP_DAC_OVERRIDE)";
const SILENT: &str = "the process is stopped, in a debugger or overloaded; check its state, and try again later";
const NOT_A_SOCKET: &str = "pass the path of a dotnet-diagnostic-*-socket; if a process created the file, find out why";
const WRONG_PEER: &str = "no command was sent to it; find out which program created the socket";
const OTHER_PID_NAMESPACE: &str = "no command was sent to it; run in the host's pid namespace (hostPID on Kubernetes)";
const TOO_OLD: &str = "update it to .NET Core 3.1 or later";

/// The target of a command: a process, a socket, or both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Process id in the pid namespace of this program; `None` if unknown.
    pub pid: Option<u32>,
    /// Path of the socket, from the perspective of this program. For a runtime that connects to this program, the path
    /// of the reverse port.
    pub socket: PathBuf,
    /// Whether the runtime connects to this program.
    pub reverse: bool,
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(pid) = self.pid {
            write!(f, "process {pid} ")?;
        }
        let kind = if self.reverse { "reverse port" } else { "socket" };
        let (open, close) = if self.pid.is_some() { ("(", ")") } else { ("", "") };
        let path = shown(&self.socket.to_string_lossy());
        write!(f, "{open}{kind} {path}{close}")
    }
}

/// The step during which a deadline passed or the connection broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Stage {
    /// Connecting.
    Connect,
    /// Waiting for a runtime to connect.
    Advertise,
    /// Sending the command.
    Write,
    /// Waiting for the response.
    Answer,
    /// Reading the event stream.
    Stream,
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Connect => "connecting",
            Self::Advertise => "waiting for the runtime to connect",
            Self::Write => "sending the command",
            Self::Answer => "waiting for the response",
            Self::Stream => "reading the event stream",
        })
    }
}

/// Error returned by commands and by discovery.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// `/proc`, or the entry of a process in `/proc`, cannot be read.
    #[error("cannot read {}: {source}; run where /proc is mounted and shows other processes", path.display())]
    Proc {
        /// Path that was read.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The process does not exist, has exited, or is a kernel thread.
    #[error("process {pid} does not exist; it may have exited")]
    NoProcess {
        /// The process id.
        pid: u32,
    },
    /// The process cannot be attached to, according to its entry in `/proc`.
    #[error("cannot attach to process {pid}: {}", obstacle.sentence())]
    NotAttachable {
        /// Process id in the pid namespace of this program.
        pid: u32,
        /// Reason and remedy.
        obstacle: Obstacle,
    },
    /// The socket does not exist.
    #[error("{peer} does not exist: the process has exited, or its runtime creates no socket")]
    NoSocket {
        /// The process or socket.
        peer: Peer,
    },
    /// The path is not a socket.
    #[error("{peer} is not a socket ({found}); {}", NOT_A_SOCKET)]
    NotASocket {
        /// The process or socket.
        peer: Peer,
        /// Kind of file found.
        found: &'static str,
    },
    /// This program has no permission to open the socket or to connect to the socket.
    #[error("no permission to connect to {peer} ({source}); {}", PERMISSION)]
    Permission {
        /// The process or socket.
        peer: Peer,
        /// Error of the system.
        source: io::Error,
    },
    /// No process listens on the socket.
    #[error("no process listens on {peer}; the socket was left behind by a process that has exited")]
    Refused {
        /// The process or socket.
        peer: Peer,
    },
    /// A process listens on the socket that is not the process in the name of the socket.
    #[error("process {found} listens on the socket of {peer}; {}", WRONG_PEER)]
    WrongPeer {
        /// The process or socket.
        peer: Peer,
        /// The process that listens.
        found: u32,
    },
    /// The listener is neither in the pid namespace of this program nor in a namespace below it, but the process in the
    /// name of the socket is. The listener is therefore a different process.
    #[error(
        "a process outside the pid namespace of this program listens on the socket of {peer}; {}",
        OTHER_PID_NAMESPACE
    )]
    InvisiblePeer {
        /// The process or socket.
        peer: Peer,
    },
    /// A deadline passed.
    #[error(
        "{peer} is not responding: {stage} ({command}) took longer than {after:?}; {}",
        SILENT
    )]
    Silent {
        /// The process or socket.
        peer: Peer,
        /// The command.
        command: Command,
        /// The step that was in progress.
        stage: Stage,
        /// The deadline.
        after: Duration,
    },
    /// The connection was closed before the response was complete.
    #[error("{peer} closed the connection after {received} bytes of its response to {command}; the process is exiting")]
    Closed {
        /// The process or socket.
        peer: Peer,
        /// The command.
        command: Command,
        /// Number of bytes of the response that were received.
        received: usize,
    },
    /// The runtime refused the command.
    #[error("{peer} refused {command}: {error}")]
    Runtime {
        /// The process or socket.
        peer: Peer,
        /// The command.
        command: Command,
        /// Error code of the runtime.
        error: RuntimeError,
    },
    /// The response violates the protocol.
    #[error("{peer} sent an invalid response to {command}: {source}")]
    Message {
        /// The process or socket.
        peer: Peer,
        /// The command.
        command: Command,
        /// The violation.
        source: MessageError,
    },
    /// The request cannot be encoded, or is not allowed. Nothing was sent.
    #[error("{command} was not sent: {source}")]
    Request {
        /// The command.
        command: Command,
        /// The invalid part.
        source: MessageError,
    },
    /// The system reported another error.
    #[error("{peer}: {stage} failed: {source}")]
    Io {
        /// The process or socket.
        peer: Peer,
        /// The step that was in progress.
        stage: Stage,
        /// Error of the system.
        source: io::Error,
    },
    /// A reverse port cannot listen on its path.
    #[error("cannot listen on {}: {problem}", path.display())]
    Port {
        /// The path.
        path: PathBuf,
        /// Reason and remedy.
        problem: String,
    },
}

impl Error {
    /// Returns the reason for the error as one word. Discovery uses the same reasons ([`Obstacle::reason`]).
    pub fn reason(&self) -> Reason {
        match self {
            Self::NotAttachable { obstacle, .. } => obstacle.reason,
            Self::NoProcess { .. } | Self::Closed { .. } => Reason::Exited,
            Self::NoSocket { .. } => Reason::NoSocket,
            Self::Permission { .. } => Reason::Permission,
            Self::Refused { .. } => Reason::Refused,
            Self::WrongPeer { .. } | Self::InvisiblePeer { .. } => Reason::WrongPeer,
            Self::Silent { .. } => Reason::Silent,
            Self::NotASocket { .. } => Reason::NotASocket,
            Self::Message { .. } => Reason::Protocol,
            Self::Runtime {
                command: Command::CollectTracing(_),
                error: RuntimeError::UnknownCommand,
                ..
            } => Reason::TooOld,
            Self::Runtime { .. } => Reason::Rejected,
            Self::Proc { .. } | Self::Request { .. } | Self::Io { .. } | Self::Port { .. } => Reason::Failed,
        }
    }

    /// Returns the reason, the detail and the remedy, in the same form as
    /// [`Process::obstacle`](crate::discovery::Process::obstacle).
    pub fn obstacle(&self) -> Obstacle {
        match self {
            Self::NotAttachable { obstacle, .. } => obstacle.clone(),
            other => {
                let sentence = other.to_string();
                let remedy = other.remedy();
                let detail = sentence
                    .strip_suffix(remedy)
                    .and_then(|detail| detail.strip_suffix("; "));
                Obstacle::new(other.reason(), detail.unwrap_or(&sentence), remedy)
            }
        }
    }

    /// Returns the remedy of the error, or an empty string if the error has no remedy. The message ends with the
    /// remedy, except for [`TOO_OLD`].
    fn remedy(&self) -> &'static str {
        match self {
            Self::NotASocket { .. } => NOT_A_SOCKET,
            Self::Permission { .. } => PERMISSION,
            Self::WrongPeer { .. } => WRONG_PEER,
            Self::InvisiblePeer { .. } => OTHER_PID_NAMESPACE,
            Self::Silent { .. } => SILENT,
            Self::Runtime { .. } if self.reason() == Reason::TooOld => TOO_OLD,
            _ => "",
        }
    }

    /// Returns whether the runtime does not support the command. The runtime can support an older variant of the
    /// command.
    pub fn is_unknown_command(&self) -> bool {
        matches!(
            self,
            Self::Runtime {
                error: RuntimeError::UnknownCommand,
                ..
            }
        )
    }
}
