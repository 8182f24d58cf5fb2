//! Maximum duration of each step.

use std::time::Duration;

/// Maximum duration of each step of a command.
///
/// If a runtime is stopped (SIGSTOP, a debugger, a full freeze), the kernel still accepts its connections, but the
/// runtime does not respond. Only a deadline can detect this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadlines {
    /// Opening the socket file and connecting. The default is 3 s. The runtime's queue holds 255 connections, so a
    /// connection waits only if the runtime has been unresponsive for a long time.
    pub connect: Duration,
    /// Sending a command. The default is 3 s. A command fits into the socket buffer.
    pub write: Duration,
    /// Time from a command to its complete response. The default is 5 s. One thread of the runtime serves all commands
    /// sequentially.
    pub answer: Duration,
    /// Time from CollectTracing to its response. The default is 15 s. The runtime enables providers first, which takes
    /// seconds under load.
    pub start: Duration,
    /// Time from [`crate::Session::request_stop`] to the end of the drained stream. The default is 20 s. The rundown of
    /// a large program takes several seconds.
    pub stop: Duration,
    /// Time that a command waits for a runtime to connect (reverse connect), and time within which a new connection
    /// must identify itself. The default is 5 s. A runtime reconnects immediately, or after at most 500 ms.
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
    /// Returns deadlines with the same duration for every step.
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
