//! Reasons why a process cannot be attached to.

use std::fmt;

/// The reason as one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Reason {
    /// The runtime's diagnostics are disabled in its environment.
    DiagnosticsOff,
    /// The socket does not exist, for an unknown reason.
    NoSocket,
    /// The directory for the socket is missing, read-only, or not writable by the process.
    UnwritableDirectory,
    /// The file in place of the socket is not a socket: a link, a file, a device.
    NotASocket,
    /// The runtime is older than .NET Core 3.0.
    TooOld,
    /// The process has no socket that can be found, and its program is built for another machine or runs in an
    /// emulator.
    OtherArchitecture,
    /// The only sockets with this pid belong to processes that have exited, or the owner of the socket has exited.
    StaleSocket,
    /// The runtime listens, but its socket file was deleted.
    SocketRemoved,
    /// The socket, or the information required to find it, belongs to another user.
    Permission,
    /// No process listens on the socket.
    Refused,
    /// The runtime does not respond within the deadline.
    Silent,
    /// The process started recently and can still create its socket.
    Starting,
    /// Another process listens on the socket.
    WrongPeer,
    /// The peer does not use the protocol.
    Protocol,
    /// The runtime refused the command.
    Rejected,
    /// There is no evidence that the process runs .NET.
    NotDotnet,
    /// The process has exited.
    Exited,
    /// The operating system reported another error, which is in the detail.
    Failed,
}

impl Reason {
    /// Returns the word, which is stable: for logs, metrics and scripts.
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

/// Reason why a process cannot be attached to, and a remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Obstacle {
    /// Reason as one word.
    pub reason: Reason,
    /// Finding, without a final period.
    pub detail: String,
    /// Remedy, without a final period; empty if there is no remedy.
    pub remedy: String,
}

impl Obstacle {
    /// Creates an obstacle with a finding and a remedy.
    pub fn new(reason: Reason, detail: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            reason,
            detail: detail.into(),
            remedy: remedy.into(),
        }
    }

    /// Returns the finding and the remedy as one sentence.
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
