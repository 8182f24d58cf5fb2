//! How long each step may take.

use std::time::Duration;

/// How long each step may take. Nothing waits without one of these.
///
/// A runtime that is stopped (SIGSTOP, a debugger, a full freeze) still has its connections accepted by the kernel, and
/// does not answer: only a deadline shows that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadlines {
    /// Opening the socket's file and connecting. Default 3 s: the runtime's queue holds 255 connections, so that only a
    /// runtime that is stuck for long lets one wait.
    pub connect: Duration,
    /// Sending a command. Default 3 s: it fits into the socket's buffer.
    pub write: Duration,
    /// From the command to the whole answer. Default 5 s: one thread of the runtime answers everything, one after the
    /// other.
    pub answer: Duration,
    /// From CollectTracing to its answer. Default 15 s: the runtime enables providers first, and under load that takes
    /// seconds.
    pub start: Duration,
    /// From [`crate::Session::request_stop`] to the end of the stream, drained. Default 20 s: a rundown of a large
    /// program takes several seconds.
    pub stop: Duration,
    /// How long a command waits for a runtime that connects to us, and how long such a connection may take to identify
    /// itself. Default 5 s: a runtime comes back at once, or after at most 500 ms.
    pub advertise: Duration,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(3),
            write: Duration::from_secs(3),
            answer: Duration::from_secs(5),
            start: Duration::from_secs(15),
            stop: Duration::from_secs(20),
            advertise: Duration::from_secs(5),
        }
    }
}

impl Deadlines {
    /// The same deadline for every step.
    pub const fn uniform(deadline: Duration) -> Self {
        Self {
            connect: deadline,
            write: deadline,
            answer: deadline,
            start: deadline,
            stop: deadline,
            advertise: deadline,
        }
    }
}
