//! The runtimes that connect to us, and their connections that wait for a command.
//!
//! [`crate::reverse`] puts connections in; an [`crate::Endpoint`] takes one out for each command. Neither knows the
//! other.

mod parked;

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::net::UnixStream;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use self::parked::{Inserted, Parked};
use crate::message::{Advertise, Cookie};

/// Most runtimes that one port keeps.
pub const MAX_RUNTIMES: usize = 4096;

/// A runtime that connected for the first time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Advertised {
    /// The runtime's identity over all of its connections.
    pub cookie: Cookie,
    /// Process id in its own pid namespace, as the runtime reports it.
    pub ns_pid: u64,
    /// Process id as we see it, from the kernel; `None` when the process is not visible to us.
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
    parked: Parked,
    /// First connections that [`Waiting::next_new`] has not given yet.
    arrived: VecDeque<Advertised>,
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

    /// The path that runtimes connect to.
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
        let advertised = Advertised {
            cookie: advertise.cookie,
            ns_pid: advertise.pid,
            pid: pid.filter(|&pid| pid != 0),
        };
        let mut state = self.state();
        if state.parked.insert(advertised, stream) == Inserted::First {
            // Bounded with the parked ones: a runtime that is no longer known there need not be yielded.
            if state.arrived.len() >= MAX_RUNTIMES {
                state.arrived.pop_front();
            }
            state.arrived.push_back(advertised);
        }
        drop(state);
        self.changed.notify_waiters();
    }

    /// Waits for the next runtime that was not seen before. Cancel safe.
    pub(crate) async fn next_new(&self) -> Advertised {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // Registered before the look, so that nothing that comes in between is missed.
            changed.as_mut().enable();
            if let Some(advertised) = self.state().arrived.pop_front() {
                return advertised;
            }
            changed.await;
        }
    }

    /// The runtimes whose connection waits right now.
    pub(crate) fn alive(&self) -> Vec<Advertised> {
        self.state().parked.alive()
    }

    /// The connections of the runtime with this cookie.
    pub(crate) fn runtime(self: &Arc<Self>, cookie: Cookie) -> WaitingRuntime {
        WaitingRuntime {
            all: Arc::clone(self),
            cookie,
        }
    }

    /// The state is whole at every unlock: a panic elsewhere cannot have broken it.
    fn state(&self) -> MutexGuard<'_, WaitingRuntimes> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WaitingRuntime {
    pub(crate) fn path(&self) -> &Path {
        self.all.path()
    }

    /// The runtime's waiting connection, or its next one.
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
