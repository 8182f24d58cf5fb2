//! A port to which runtimes connect: `DOTNET_DiagnosticPorts=PATH,nosuspend`.
//!
//! A runtime (.NET 5 and later) connects to the socket, identifies itself ([`Advertise`]) and waits for one command on
//! that connection. The runtime reconnects for the next command. [`ReversePort`] keeps the newest waiting connection of
//! each runtime, by cookie. A [`Client`] on [`ReversePort::endpoint`] takes the connection for a command and waits for
//! the next connection.
//!
//! ```no_run
//! use dotnet_diagnostics::Deadlines;
//! use dotnet_diagnostics::reverse::ReversePort;
//!
//! # async fn example() -> Result<(), dotnet_diagnostics::Error> {
//! let port = ReversePort::bind("/run/tool/port.sock", Deadlines::default())?;
//! let runtime = port.accept().await;
//! let client = port.client(&runtime);
//! // A runtime that connected suspended does not run before this command.
//! client.resume_runtime().await?;
//! println!("{}: {}", runtime.cookie, client.process_info().await?.command_line);
//! # Ok(())
//! # }
//! ```
//!
//! Invariants:
//! * The socket file has mode 0600 from its creation. A live socket is never replaced. The port deletes its socket file
//!   when it is dropped.
//! * There are at most [`MAX_RUNTIMES`] runtimes, and at most [`MAX_GREETINGS`] connections that have not identified
//!   themselves yet. Connections above these limits are closed, and the runtime retries.
//! * A runtime that connects suspended (`suspend` is the default of a port!) does not run until it is resumed. Every
//!   runtime that [`ReversePort::accept`] returns can be resumed, and [`ReversePort::resume_all`] resumes all waiting
//!   runtimes.

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
pub use crate::waiting::{AdvertisedRuntime, MAX_RUNTIMES};

/// Maximum number of connections that have not identified themselves yet. Each connection holds a file descriptor until
/// it identifies itself or [`Deadlines::advertise`] passes.
pub const MAX_GREETINGS: usize = 256;
/// Delay after the system failed to accept a connection, for example because no file descriptors are left.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// A socket to which runtimes connect.
#[derive(Debug)]
pub struct ReversePort {
    waiting: Arc<Waiting>,
    deadlines: Deadlines,
    accepting: JoinHandle<()>,
    // Dropped last, so that the file is deleted after the socket is closed.
    _socket: BoundSocket,
}

impl ReversePort {
    /// Listens on a path for runtimes started with `DOTNET_DiagnosticPorts=PATH,nosuspend`. A socket file on which no
    /// process listens is replaced.
    ///
    /// # Errors
    /// Returns [`Error::Port`] if another process already listens on the path, if the path is a file that is not a
    /// socket, if the path is too long for runtimes (more than 107 bytes), or if the system reports an error.
    ///
    /// # Panics
    /// Panics outside a tokio runtime.
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

    /// Returns the path of the port.
    pub fn path(&self) -> &Path {
        self.waiting.path()
    }

    /// Waits for the next new runtime. Each runtime is returned once, regardless of how often it connects.
    ///
    /// Waits indefinitely if no runtime connects. This method is cancel safe.
    pub async fn accept(&self) -> AdvertisedRuntime {
        self.waiting.next_new().await
    }

    /// Returns the runtimes that are currently waiting for a command.
    pub fn waiting(&self) -> Vec<AdvertisedRuntime> {
        self.waiting.alive()
    }

    /// Returns the endpoint for commands to a runtime. A command waits at most [`Deadlines::advertise`] for a
    /// connection of the runtime.
    pub fn endpoint(&self, runtime: &AdvertisedRuntime) -> Endpoint {
        Endpoint::waiting(self.waiting.runtime(runtime.cookie), runtime.pid)
    }

    /// Creates a client for a runtime, with the deadlines of the port.
    pub fn client(&self, runtime: &AdvertisedRuntime) -> Client {
        Client::with_deadlines(self.endpoint(runtime), self.deadlines)
    }

    /// Resumes every waiting runtime. A running runtime ignores the command. Call this method before closing the port,
    /// because a suspended runtime waits for its port indefinitely. Returns the runtimes whose command failed, with the
    /// error.
    pub async fn resume_all(&self) -> Vec<(AdvertisedRuntime, Error)> {
        let resuming = self.waiting().into_iter().map(|runtime| {
            let client = self.client(&runtime);
            tokio::spawn(async move { client.resume_runtime().await.map_err(|error| (runtime, error)) })
        });
        // The commands run concurrently, so the total time is the time of the slowest command.
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
        // Close the connection above the limit. The runtime retries.
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
