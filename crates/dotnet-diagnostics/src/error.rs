//! Errors: with which process, in which command, and what to do.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::message::{Command, MessageError, RuntimeError};
use crate::obstacle::{Obstacle, Reason};
use crate::text::shown;

// What to do, for the errors that end in it.
const PERMISSION: &str =
    "run it with sudo, or as the same user and group (a container: as root with CAP_SYS_PTRACE and CAP_DAC_OVERRIDE)";
const SILENT: &str = "the process is stopped, in a debugger or overloaded: look at its state, and try again later";
const NOT_A_SOCKET: &str = "give the path of a dotnet-diagnostic-*-socket; if a process put it there, ask why";
const WRONG_PEER: &str = "nothing was sent to it; find out who made the socket";
const OUTSIDE: &str = "nothing was sent to it; run in the host's pid namespace (hostPID on Kubernetes)";
const TOO_OLD: &str = "update it to .NET Core 3.1 or later";

/// What a command was sent to: a process, a socket, or both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Process id as we see it, where it is known.
    pub pid: Option<u32>,
    /// The socket, as we see it; for a runtime that connects to us, our own.
    pub socket: PathBuf,
    /// The runtime connects to us.
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

/// What was being done when a deadline passed or the connection broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Stage {
    /// Connecting.
    Connect,
    /// Waiting for a runtime to connect to us.
    Advertise,
    /// Sending the command.
    Write,
    /// Waiting for the answer.
    Answer,
    /// Reading the event stream.
    Stream,
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Connect => "connecting",
            Self::Advertise => "waiting for it to connect",
            Self::Write => "sending the command",
            Self::Answer => "waiting for the answer",
            Self::Stream => "reading the event stream",
        })
    }
}

/// Why something could not be done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// `/proc`, or the entry of a process in it, cannot be read.
    #[error("cannot read {}: {source}; run where /proc is mounted and shows other processes", path.display())]
    Proc {
        /// What was read.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// There is no such process.
    #[error("there is no process {pid}; it may have exited")]
    NoProcess {
        /// The process id.
        pid: u32,
    },
    /// The process cannot be attached to, as its entry in `/proc` already shows.
    #[error("cannot attach to process {pid}: {}", obstacle.sentence())]
    NotAttachable {
        /// Process id as we see it.
        pid: u32,
        /// Why, and what to do.
        obstacle: Obstacle,
    },
    /// The socket does not exist.
    #[error("{peer} does not exist: the process has exited, or its runtime creates no socket")]
    NoSocket {
        /// The process or socket.
        peer: Peer,
    },
    /// The path is no socket.
    #[error("{peer} is not a socket ({found}); {}", NOT_A_SOCKET)]
    NotASocket {
        /// The process or socket.
        peer: Peer,
        /// What it is.
        found: &'static str,
    },
    /// The socket belongs to another user.
    #[error("no permission to connect to {peer} ({source}); {}", PERMISSION)]
    Permission {
        /// The process or socket.
        peer: Peer,
        /// The system's error.
        source: io::Error,
    },
    /// No process listens on the socket.
    #[error("nobody listens on {peer}: it was left behind by a process that has exited")]
    Refused {
        /// The process or socket.
        peer: Peer,
    },
    /// Another process listens on the socket than the one it is named after.
    #[error("process {found} listens on the socket of {peer}; {}", WRONG_PEER)]
    WrongPeer {
        /// The process or socket.
        peer: Peer,
        /// The process that listens.
        found: u32,
    },
    /// A process that is not in our pid namespace, nor in one below it, listens on the socket of one that is: it cannot
    /// be that one.
    #[error(
        "a process outside of our pid namespace listens on the socket of {peer}; {}",
        OUTSIDE
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
        /// What was being done.
        stage: Stage,
        /// The deadline.
        after: Duration,
    },
    /// The connection was closed before the answer was whole.
    #[error("{peer} closed the connection after {received} bytes of its answer to {command}; the process is exiting")]
    Closed {
        /// The process or socket.
        peer: Peer,
        /// The command.
        command: Command,
        /// Bytes of the answer that came before.
        received: usize,
    },
    /// The runtime refused the command.
    #[error("{peer} refused {command}: {error}")]
    Runtime {
        /// The process or socket.
        peer: Peer,
        /// The command.
        command: Command,
        /// What it answered.
        error: RuntimeError,
    },
    /// The answer is not one of the protocol.
    #[error("{peer} gave an invalid answer to {command}: {source}")]
    Message {
        /// The process or socket.
        peer: Peer,
        /// The command.
        command: Command,
        /// What is invalid in it.
        source: MessageError,
    },
    /// The request cannot be sent as it was asked for. Nothing was sent.
    #[error("{command} was not sent: {source}")]
    Request {
        /// The command.
        command: Command,
        /// What is invalid in it.
        source: MessageError,
    },
    /// The system refuses for another reason.
    #[error("{peer}: {stage} failed: {source}")]
    Io {
        /// The process or socket.
        peer: Peer,
        /// What was being done.
        stage: Stage,
        /// The system's error.
        source: io::Error,
    },
    /// The path of a reverse port cannot be listened on.
    #[error("cannot listen on {}: {problem}", path.display())]
    Port {
        /// The path.
        path: PathBuf,
        /// Why not, and what to do.
        problem: String,
    },
}

impl Error {
    /// The reason in one word, as for a process that cannot be attached to.
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

    /// Reason, detail and remedy, as `discovery::Process::obstacle` has them.
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

    /// What to do: the end of the sentence, where there is something.
    fn remedy(&self) -> &'static str {
        match self {
            Self::NotASocket { .. } => NOT_A_SOCKET,
            Self::Permission { .. } => PERMISSION,
            Self::WrongPeer { .. } => WRONG_PEER,
            Self::InvisiblePeer { .. } => OUTSIDE,
            Self::Silent { .. } => SILENT,
            Self::Runtime { .. } if self.reason() == Reason::TooOld => TOO_OLD,
            _ => "",
        }
    }

    /// Whether the runtime does not know the command; it may know an older form.
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
