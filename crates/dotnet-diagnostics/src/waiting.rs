//! Runtimes that connect to this program, and their connections that wait for a command.
//!
//! [`crate::reverse`] adds connections, and an [`crate::Endpoint`] takes one for each command. The two modules do not
//! depend on each other.

mod parked;

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::net::UnixStream;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use self::parked::{InsertOutcome, ParkedRuntimes};
use crate::message::{Advertise, Cookie};

/// Maximum number of runtimes per port. Each runtime holds one connection, which takes a file descriptor.
pub const MAX_RUNTIMES: usize = 4096;

/// A runtime that has connected to a reverse port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AdvertisedRuntime {
    /// Identity of the runtime, which is the same for all its connections.
    pub cookie: Cookie,
    /// Process id in the runtime's own pid namespace, as reported by the runtime.
    pub ns_pid: u64,
    /// Process id in the pid namespace of this program, from the kernel; `None` if the process is not visible.
    pub pid: Option<u32>,
}

/// The runtimes that connected to one path.
#[derive(Debug)]
pub(crate) struct Waiting {
    path: PathBuf,
    state: Mutex<WaitingRuntimes>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct WaitingRuntimes {
    parked: ParkedRuntimes,
    /// New runtimes that [`Waiting::next_new`] has not returned yet.
    arrived: VecDeque<AdvertisedRuntime>,
}

/// The connections of one runtime.
#[derive(Clone, Debug)]
pub(crate) struct WaitingRuntime {
    all: Arc<Waiting>,
    cookie: Cookie,
}

impl Waiting {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self {
            path,
            state: Mutex::default(),
            changed: Notify::new(),
        }
    }

    /// Returns the path to which runtimes connect.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Keeps a connection whose runtime has identified itself.
    pub(crate) fn park(&self, advertise: Advertise, stream: UnixStream) {
        let pid = stream
            .peer_cred()
            .ok()
            .and_then(|peer| peer.pid())
            .and_then(|pid| u32::try_from(pid).ok());
        let advertised = AdvertisedRuntime {
            cookie: advertise.cookie,
            ns_pid: advertise.pid,
            pid: pid.filter(|&pid| pid != 0),
        };
        let mut state = self.state();
        if state.parked.insert(advertised, stream) == InsertOutcome::First {
            // The limit is the same as for parked runtimes: a runtime that is no longer parked need not be returned.
            if state.arrived.len() >= MAX_RUNTIMES {
                state.arrived.pop_front();
            }
            state.arrived.push_back(advertised);
        }
        drop(state);
        self.changed.notify_waiters();
    }

    /// Waits for the next new runtime. This method is cancel safe.
    pub(crate) async fn next_new(&self) -> AdvertisedRuntime {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // Register before the check, so that no arrival between them is missed.
            changed.as_mut().enable();
            if let Some(advertised) = self.state().arrived.pop_front() {
                return advertised;
            }
            changed.await;
        }
    }

    /// Returns the runtimes whose connection is currently waiting.
    pub(crate) fn alive(&self) -> Vec<AdvertisedRuntime> {
        self.state().parked.alive()
    }

    /// Returns the connections of the runtime with this cookie.
    pub(crate) fn runtime(self: &Arc<Self>, cookie: Cookie) -> WaitingRuntime {
        WaitingRuntime {
            all: Arc::clone(self),
            cookie,
        }
    }

    /// Locks the state. The state is consistent at every unlock, so a panic elsewhere cannot have corrupted it.
    fn state(&self) -> MutexGuard<'_, WaitingRuntimes> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WaitingRuntime {
    pub(crate) fn path(&self) -> &Path {
        self.all.path()
    }

    /// Returns the waiting connection of the runtime, or waits for its next connection. Returns `None` if the deadline
    /// passes.
    pub(crate) async fn take(&self, deadline: Instant) -> Option<UnixStream> {
        loop {
            let changed = self.all.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if let Some(stream) = self.all.state().parked.take(&self.cookie) {
                return Some(stream);
            }
            timeout_at(deadline, changed).await.ok()?;
        }
    }
}
