//! The guard of the sessions: a separate process that closes their streams if gcwatch is stopped or hangs.
//!
//! A runtime writes its events with blocking writes, and ends its sessions when it exits. If gcwatch is stopped
//! (SIGSTOP, swapped out, a debugger) or its reading thread hangs, the sockets fill, the writes block, and processes
//! cannot exit, not even after SIGTERM. A stopped process cannot help itself, so a second process holds the same
//! sockets:
//!
//! ```text
//!  gcwatch                                                    gcwatch guard (the same program, `child`)
//!  hold(stream) -- descriptor, id ---------------------->     keeps it
//!  the reading thread -- beat, every second ------------>     answers
//!  the session ends -- release, id --------------------->     drops it
//!                                no beat for 5 seconds:       shutdown(2) on all, drops them
//!  (resumes later) <------------- closed, ids ----------      the writes of the runtimes fail, and they can exit
//!  the streams end, the sessions restart
//! ```
//!
//! Beats come from the part that must be alive: a task on the executor that reads sessions. The guard counts its own
//! wake-ups instead of the time. If both processes were stopped and resume (a frozen cgroup, a suspended machine), no
//! stream is closed. The guard exits when its socket is closed, so it cannot outlive gcwatch. A guard that dies or does
//! not answer is replaced, and the new guard receives all streams again.
//!
//! # Modules
//!
//! | Module | Purpose |
//! |---|---|
//! | `message` | messages between the two processes; pure |
//! | `channel` | messages and descriptors over the socket |
//! | [`child`] | the process of the guard |
//! | `held` | the held streams, on the side of gcwatch |
//! | `keeper` | the thread that keeps a guard running |
//!
//! # Cost
//!
//! The guard costs a process with one thread, and a second descriptor in gcwatch for each session. See
//! docs/reliability.md for the memory.
//!
//! # Limits
//!
//! Freezing the cgroup freezes the guard, too. A runtime that was started suspended waits for gcwatch as before.

mod channel;
pub mod child;
mod held;
mod keeper;
mod message;

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

use dotnet_diagnostics::GuardedStream;

pub use self::held::Counts;
use self::held::{HeldStream, Shared};

/// Interval between beats of the reading thread.
pub const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(1);

/// Number of seconds without a beat after which the guard closes all streams. Including the second by which the guard
/// itself can be late and the rest of an exit, no process waits longer than 10 s.
pub const SILENT_SECONDS: u32 = 5;

/// gcwatch's end of its guard. Cheap to clone. No method blocks.
#[derive(Debug, Clone)]
pub struct Guard {
    shared: Arc<Shared>,
}

impl Guard {
    /// Starts a guard, and a thread that replaces it whenever it exits. If a guard cannot be started, a warning is
    /// logged and the start is retried.
    ///
    /// # Errors
    ///
    /// Returns an error if the thread cannot be started.
    pub fn start() -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        keeper::start(Arc::clone(&shared))?;
        Ok(Self { shared })
    }

    /// Reports that the reading thread is alive.
    pub fn beat(&self) {
        self.shared.beat();
    }

    /// Returns the counters of the guard.
    pub fn counts(&self) -> &Counts {
        &self.shared.counts
    }
}

impl dotnet_diagnostics::Guard for Guard {
    fn hold(&self, stream: BorrowedFd<'_>) -> Box<dyn GuardedStream> {
        Box::new(HeldStream::new(&self.shared, stream))
    }
}
