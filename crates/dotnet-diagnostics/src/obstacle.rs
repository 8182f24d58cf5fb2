//! Why a process cannot be attached to.

use std::fmt;

/// The reason in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Reason {
    /// The runtime's diagnostics are switched off in its environment.
    DiagnosticsOff,
    /// There is no socket, for an unknown reason.
    NoSocket,
    /// The directory in which the socket would be is missing, read-only, or not the process's to write.
    UnwritableDirectory,
    /// Something else than a socket is in the socket's place: a link, a file, a device.
    NotASocket,
    /// The runtime is older than .NET Core 3.0.
    TooOld,
    /// The process has no socket that can be found, and its program is made for another machine or runs in an emulator.
    OtherArchitecture,
    /// The only sockets with this pid are those of processes that ended, or the socket's owner has gone.
    StaleSocket,
    /// The runtime listens, but its socket file was deleted.
    SocketRemoved,
    /// The socket, or what is needed to find it, belongs to another user.
    Permission,
    /// No process listens on the socket.
    Refused,
    /// The runtime does not answer within the deadline.
    Silent,
    /// The process is so young that its socket may still come.
    Starting,
    /// Another process listens on the socket.
    WrongPeer,
    /// What answers does not speak the protocol.
    Protocol,
    /// The runtime refuses the command.
    Rejected,
    /// Nothing shows that the process runs .NET.
    NotDotnet,
    /// The process has exited.
    Exited,
    /// The operating system refuses for another reason, which is in the detail.
    Failed,
}

impl Reason {
    /// The word, which is stable: for logs, metrics and scripts.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::DiagnosticsOff => "diagnostics-off",
            Self::NoSocket => "no-socket",
            Self::UnwritableDirectory => "unwritable-directory",
            Self::NotASocket => "not-a-socket",
            Self::TooOld => "too-old",
            Self::OtherArchitecture => "other-architecture",
            Self::StaleSocket => "stale-socket",
            Self::SocketRemoved => "socket-removed",
            Self::Permission => "permission",
            Self::Refused => "refused",
            Self::Silent => "silent",
            Self::Starting => "starting",
            Self::WrongPeer => "wrong-peer",
            Self::Protocol => "protocol",
            Self::Rejected => "rejected",
            Self::NotDotnet => "not-dotnet",
            Self::Exited => "exited",
            Self::Failed => "failed",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Why a process cannot be attached to, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Obstacle {
    /// The reason in one word.
    pub reason: Reason,
    /// What was found, without a full stop.
    pub detail: String,
    /// What to do, without a full stop; empty when nothing can be.
    pub remedy: String,
}

impl Obstacle {
    /// An obstacle: what was found, and what to do.
    pub fn new(reason: Reason, detail: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            reason,
            detail: detail.into(),
            remedy: remedy.into(),
        }
    }

    /// One sentence: what was found, and what to do.
    pub fn sentence(&self) -> String {
        if self.remedy.is_empty() {
            return self.detail.clone();
        }
        format!("{}; {}", self.detail, self.remedy)
    }
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.reason, self.sentence())
    }
}
