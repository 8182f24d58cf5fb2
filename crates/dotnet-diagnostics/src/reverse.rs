//! Runtimes that connect to us: `DOTNET_DiagnosticPorts=PATH,nosuspend`.
//!
//! A runtime (.NET 5 and later) connects to the socket that we listen on, says who it is ([`Advertise`]) and then waits for one
//! command on that connection. It connects again for the next one. [`ReversePort`] keeps the newest waiting connection of each
//! runtime, by its cookie; a [`Client`] on [`ReversePort::endpoint`] takes it for a command and waits for the next one.
//!
//! Invariants:
//! * the socket's file has mode 0600 from its first moment; a live one is never replaced, ours is deleted at the end;
//! * at most [`MAX_RUNTIMES`] runtimes and [`MAX_GREETINGS`] connections that have not said who they are yet; what is over that
//!   is closed, and the runtime tries again;
//! * a runtime that came suspended (`suspend` is the default of a port!) stands still until it is resumed: every one that
//!   [`ReversePort::accept`] yields can be resumed, and [`ReversePort::resume_all`] resumes whoever waits.

mod listen;
mod parked;

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::io::AsyncReadExt;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinHandle;
use tokio::time::{Duration, Instant, sleep, timeout, timeout_at};

use self::listen::BoundSocket;
use self::parked::Parked;
use crate::client::Client;
use crate::deadlines::Deadlines;
use crate::endpoint::Endpoint;
use crate::error::Error;
use crate::message::{ADVERTISE_BYTES, Advertise, Cookie};

/// Most runtimes that one port keeps.
pub const MAX_RUNTIMES: usize = 4096;
/// Most connections that have not said who they are yet.
pub const MAX_GREETINGS: usize = 256;
/// Pause after the system refused to accept (no descriptors left).
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// A socket that runtimes connect to.
#[derive(Debug)]
pub struct ReversePort {
    shared: Arc<Shared>,
    deadlines: Deadlines,
    accepting: JoinHandle<()>,
    // Dropped last: the file goes when nobody listens any more.
    _socket: BoundSocket,
}

/// A runtime that connected for the first time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Advertised {
    /// The runtime's identity over all of its connections.
    pub cookie: Cookie,
    /// Process id in its own pid namespace, as the runtime says.
    pub ns_pid: u64,
    /// Process id as we see it, from the kernel; `None` when the process is not visible to us.
    pub pid: Option<u32>,
}

/// The connections of one runtime.
#[derive(Clone, Debug)]
pub(crate) struct ReverseEndpoint {
    shared: Arc<Shared>,
    cookie: Cookie,
}

#[derive(Debug)]
struct Shared {
    path: PathBuf,
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    parked: Parked,
    /// First connections that [`ReversePort::accept`] has not yielded yet.
    arrived: VecDeque<Advertised>,
}

impl ReversePort {
    /// Listens on a path, for runtimes started with `DOTNET_DiagnosticPorts=PATH,nosuspend`.
    ///
    /// # Errors
    /// [`Error::Port`] when somebody listens there already, when the path is too long for a runtime to connect to (107 bytes), or
    /// when the system refuses. A socket file on which nobody listens is replaced.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn bind(path: impl Into<PathBuf>, deadlines: Deadlines) -> Result<Self, Error> {
        let path = path.into();
        let (socket, listener) = BoundSocket::bind(&path)?;
        let shared = Arc::new(Shared {
            path,
            state: Mutex::default(),
            changed: Notify::new(),
        });
        let accepting = tokio::spawn(accept_all(listener, Arc::clone(&shared), deadlines.advertise));
        Ok(Self {
            shared,
            deadlines,
            accepting,
            _socket: socket,
        })
    }

    /// The path that is listened on.
    pub fn path(&self) -> &Path {
        &self.shared.path
    }

    /// Waits for the next runtime that was not seen before. Each is yielded once, however often it connects.
    ///
    /// Cancel safe. It waits for as long as no runtime comes.
    pub async fn accept(&self) -> Advertised {
        loop {
            let changed = self.shared.changed.notified();
            tokio::pin!(changed);
            // Registered before the look, so that nothing that comes in between is missed.
            changed.as_mut().enable();
            if let Some(advertised) = self.shared.state().arrived.pop_front() {
                return advertised;
            }
            changed.await;
        }
    }

    /// The runtimes that are waiting for a command right now.
    pub fn waiting(&self) -> Vec<Advertised> {
        self.shared.state().parked.alive()
    }

    /// Where a runtime is reached for commands.
    pub fn endpoint(&self, runtime: &Advertised) -> Endpoint {
        let endpoint = ReverseEndpoint {
            shared: Arc::clone(&self.shared),
            cookie: runtime.cookie,
        };
        Endpoint::reverse(endpoint, runtime.pid)
    }

    /// A client for a runtime, with the port's deadlines.
    pub fn client(&self, runtime: &Advertised) -> Client {
        Client::with_deadlines(self.endpoint(runtime), self.deadlines)
    }

    /// Resumes every runtime that is waiting, suspended or not (a running one takes no notice): to be called before the port is
    /// closed, since a suspended runtime waits for its port for ever. Returns what failed.
    pub async fn resume_all(&self) -> Vec<(Advertised, Error)> {
        let resuming = self.waiting().into_iter().map(|runtime| {
            let client = self.client(&runtime);
            tokio::spawn(async move { client.resume_runtime().await.map_err(|error| (runtime, error)) })
        });
        // All at once: together they take no longer than the slowest.
        let resuming: Vec<_> = resuming.collect();
        let mut failed = Vec::new();
        for task in resuming {
            if let Ok(Err(failure)) = task.await {
                failed.push(failure);
            }
        }
        failed
    }
}

impl Drop for ReversePort {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl ReverseEndpoint {
    pub(crate) fn port_path(&self) -> &Path {
        &self.shared.path
    }

    /// The runtime's waiting connection, or its next one.
    pub(crate) async fn take(&self, deadline: Instant) -> Option<UnixStream> {
        loop {
            let changed = self.shared.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if let Some(stream) = self.shared.state().parked.take(&self.cookie) {
                return Some(stream);
            }
            timeout_at(deadline, changed).await.ok()?;
        }
    }
}

impl Shared {
    /// The state is whole at every unlock: a panic elsewhere cannot have broken it.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn park(&self, advertise: Advertise, stream: UnixStream) {
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
        if state.parked.insert(advertised, stream) == parked::Inserted::First {
            // Bounded with the parked ones: whoever is no longer known there is not worth yielding.
            if state.arrived.len() >= MAX_RUNTIMES {
                state.arrived.pop_front();
            }
            state.arrived.push_back(advertised);
        }
        drop(state);
        self.changed.notify_waiters();
    }
}

async fn accept_all(listener: UnixListener, shared: Arc<Shared>, greet_within: Duration) {
    let greetings = Arc::new(Semaphore::new(MAX_GREETINGS));
    loop {
        let Ok((mut stream, _)) = listener.accept().await else {
            sleep(ACCEPT_RETRY).await;
            continue;
        };
        // Over the limit the connection is closed; a runtime tries again.
        let Ok(permit) = Arc::clone(&greetings).try_acquire_owned() else {
            continue;
        };
        let shared = Arc::clone(&shared);
        tokio::spawn(async move {
            let mut message = [0; ADVERTISE_BYTES];
            let greeted = timeout(greet_within, stream.read_exact(&mut message)).await;
            if let (Ok(Ok(_)), Ok(advertise)) = (greeted, Advertise::decode(&message)) {
                shared.park(advertise, stream);
            }
            drop(permit);
        });
    }
}
