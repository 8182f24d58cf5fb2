//! The guard of the sessions: a process of its own that closes their streams when this one is stopped or hangs.
//!
//! A runtime writes its events with blocking writes, and ends its sessions when it exits. When gcwatch is stopped
//! (SIGSTOP, swapped out, a debugger) or its reading thread hangs, the sockets fill, the writes wait, and processes
//! cannot exit, SIGTERM or not. Nothing inside of a stopped process can help, so a second one holds the same sockets:
//!
//! ```text
//!  gcwatch                                                    gcwatch guard (the same program, `child`)
//!  hold(stream) -- descriptor, id ---------------------->     keeps it
//!  the reading thread -- beat, every second ------------>     answers
//!  the session ends -- release, id --------------------->     drops it
//!                                no beat for 5 seconds:       shutdown(2) of all, drops them
//!  (goes on later) <------------- closed, ids ----------      the runtimes' writes fail, their exits go on
//!  the streams end, the sessions begin again
//! ```
//!
//! Beats come from what must be alive: a task on the executor on which sessions are read. The guard counts its own
//! wake-ups, not the clock: where both processes were stopped and go on (a frozen cgroup, a suspended machine), nothing
//! is closed. It ends with its socket, so that it cannot outlive gcwatch; one that dies or does not answer is replaced,
//! and the new one gets all streams again.
//!
//! # Modules
//!
//! | Module | What it is |
//! |---|---|
//! | `message` | what the two say to each other; pure |
//! | `channel` | messages and descriptors over the socket |
//! | [`child`] | the guard's own process |
//! | `held` | the streams that are held, as gcwatch knows them |
//! | `keeper` | the thread that has a guard running |
//!
//! # What it costs
//!
//! A process with one thread and a second descriptor in gcwatch for each session; docs/reliability.md has the memory.
//!
//! # What remains
//!
//! Whoever freezes the cgroup freezes the guard too. A runtime that was started suspended waits for gcwatch as before.

mod channel;
pub mod child;
mod held;
mod keeper;
mod message;

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

use dotnet_diagnostics::Held;

pub use self::held::Counts;
use self::held::{HeldStream, Shared};

/// How often the reading thread says that it is alive.
pub const BEAT_EVERY: Duration = Duration::from_secs(1);

/// After so many seconds without a beat the guard closes all streams. With the second that the guard itself may be late
/// and the rest of an exit, no process waits for more than ten.
pub const SILENT_SECONDS: u32 = 5;

/// gcwatch's end of its guard. Cheap to clone; nothing of it waits.
#[derive(Debug, Clone)]
pub struct Guard {
    shared: Arc<Shared>,
}

impl Guard {
    /// Starts a guard, and a thread that starts another one whenever it ends. That it cannot be started is logged, and
    /// retried.
    ///
    /// # Errors
    ///
    /// When the thread cannot be started.
    pub fn start() -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        keeper::start(Arc::clone(&shared))?;
        Ok(Self { shared })
    }

    /// The reading thread is alive.
    pub fn beat(&self) {
        self.shared.beat();
    }

    /// What it did so far.
    pub fn counts(&self) -> &Counts {
        &self.shared.counts
    }
}

impl dotnet_diagnostics::Guard for Guard {
    fn hold(&self, stream: BorrowedFd<'_>) -> Box<dyn Held> {
        Box::new(HeldStream::new(&self.shared, stream))
    }
}
