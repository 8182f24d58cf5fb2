//! Runtimes that connect to us: `DOTNET_DiagnosticPorts=PATH,nosuspend`.
//!
//! A runtime (.NET 5 and later) connects to the socket that we listen on, identifies itself ([`Advertise`]) and then
//! waits for one command on that connection. It connects again for the next one. [`ReversePort`] keeps the newest
//! waiting connection of each runtime, by its cookie; a [`Client`] on [`ReversePort::endpoint`] takes it for a command
//! and waits for the next one.
//!
//! Invariants:
//! * the socket's file has mode 0600 from its first moment; a live one is never replaced, ours is deleted at the end;
//! * at most [`MAX_RUNTIMES`] runtimes and [`MAX_GREETINGS`] connections that have not identified themselves yet;
//!   connections above these limits are closed, and the runtime tries again;
//! * a runtime that connects suspended (`suspend` is the default of a port!) does not run until it is resumed: every
//!   one that [`ReversePort::accept`] yields can be resumed, and [`ReversePort::resume_all`] resumes all that wait.

mod listen;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::io::AsyncReadExt;
use tokio::net::UnixListener;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::{Duration, sleep, timeout};

use self::listen::BoundSocket;
use crate::client::Client;
use crate::deadlines::Deadlines;
use crate::endpoint::Endpoint;
use crate::error::Error;
use crate::message::{ADVERTISE_BYTES, Advertise};
use crate::waiting::Waiting;
pub use crate::waiting::{Advertised, MAX_RUNTIMES};

/// Most connections that have not identified themselves yet.
pub const MAX_GREETINGS: usize = 256;
/// Pause after the system refused to accept (no descriptors left).
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// A socket that runtimes connect to.
#[derive(Debug)]
pub struct ReversePort {
    waiting: Arc<Waiting>,
    deadlines: Deadlines,
    accepting: JoinHandle<()>,
    // Dropped last: the file is deleted when we listen no more.
    _socket: BoundSocket,
}

impl ReversePort {
    /// Listens on a path, for runtimes started with `DOTNET_DiagnosticPorts=PATH,nosuspend`.
    ///
    /// # Errors
    /// [`Error::Port`] when another process listens there already, when the path is too long for a runtime to connect
    /// to (107 bytes), or when the system refuses. A socket file on which no process listens is replaced.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn bind(path: impl Into<PathBuf>, deadlines: Deadlines) -> Result<Self, Error> {
        let path = path.into();
        let (socket, listener) = BoundSocket::bind(&path)?;
        let waiting = Arc::new(Waiting::new(path));
        let accepting = tokio::spawn(accept_all(listener, Arc::clone(&waiting), deadlines.advertise));
        Ok(Self {
            waiting,
            deadlines,
            accepting,
            _socket: socket,
        })
    }

    /// The path that is listened on.
    pub fn path(&self) -> &Path {
        self.waiting.path()
    }

    /// Waits for the next runtime that was not seen before. Each is yielded once, however often it connects.
    ///
    /// Cancel safe. It waits for as long as no runtime comes.
    pub async fn accept(&self) -> Advertised {
        self.waiting.next_new().await
    }

    /// The runtimes that are waiting for a command right now.
    pub fn waiting(&self) -> Vec<Advertised> {
        self.waiting.alive()
    }

    /// Where a runtime is reached for commands.
    pub fn endpoint(&self, runtime: &Advertised) -> Endpoint {
        Endpoint::waiting(self.waiting.runtime(runtime.cookie), runtime.pid)
    }

    /// A client for a runtime, with the port's deadlines.
    pub fn client(&self, runtime: &Advertised) -> Client {
        Client::with_deadlines(self.endpoint(runtime), self.deadlines)
    }

    /// Resumes every runtime that is waiting, suspended or not (a running one takes no notice). Call it before the port
    /// is closed: a suspended runtime waits for its port without a limit. Returns what failed.
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

async fn accept_all(listener: UnixListener, waiting: Arc<Waiting>, greet_within: Duration) {
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
        let waiting = Arc::clone(&waiting);
        tokio::spawn(async move {
            let mut message = [0; ADVERTISE_BYTES];
            let greeted = timeout(greet_within, stream.read_exact(&mut message)).await;
            if let (Ok(Ok(_)), Ok(advertise)) = (greeted, Advertise::decode(&message)) {
                waiting.park(advertise, stream);
            }
            drop(permit);
        });
    }
}
