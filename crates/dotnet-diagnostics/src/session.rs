//! A running event session: its stream, and how to end it.

use std::future::poll_fn;
use std::io;
use std::os::fd::AsFd as _;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead as _, ReadBuf};
use tokio::net::UnixStream;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};

use crate::client::stop_tracing;
use crate::deadlines::Deadlines;
use crate::endpoint::Endpoint;
use crate::error::{Error, Peer, Stage};
use crate::message::{CollectVersion, Command, Compromise};

/// A running event session. Its stream is nettrace, from the first byte (`Nettrace`).
///
/// # Reading and ending in one task
///
/// The runtime answers StopTracing only after it has written the last byte of the stream: whoever waits for the answer without
/// reading waits for ever. So [`request_stop`](Self::request_stop) returns at once, the command runs in a task of its own, and the
/// caller goes on with [`read`](Self::read) until it gives 0 or the deadline passes:
///
/// ```no_run
/// # async fn example(client: dotnet_diagnostics::Client, mut quit: tokio::sync::oneshot::Receiver<()>)
/// #     -> Result<(), dotnet_diagnostics::Error> {
/// use dotnet_diagnostics::message::SessionConfig;
///
/// let mut session = client.collect_tracing(&SessionConfig::garbage_collection()).await?;
/// let mut buffer = vec![0; 64 << 10];
/// let mut quitting = false;
/// loop {
///     tokio::select! {
///         read = session.read(&mut buffer) => match read? {
///             0 => break,
///             count => decode(&buffer[..count]),
///         },
///         _ = &mut quit, if !quitting => {
///             quitting = true;
///             session.request_stop();
///         }
///     }
/// }
/// # Ok(())
/// # }
/// # fn decode(_: &[u8]) {}
/// ```
///
/// Read promptly: what is not read waits in the target's memory, up to the session's buffer, and then new events are dropped.
///
/// A session that is dropped before its end is stopped in the background (when that happens inside a tokio runtime): a runtime
/// that has nothing to write would not notice the closed connection.
#[derive(Debug)]
pub struct Session {
    id: u64,
    version: CollectVersion,
    compromises: Vec<Compromise>,
    stream: UnixStream,
    endpoint: Endpoint,
    deadlines: Deadlines,
    idle: Option<Duration>,
    last_byte: Instant,
    stop: Option<Stop>,
    ended: bool,
}

#[derive(Debug)]
struct Stop {
    deadline: Instant,
    task: JoinHandle<Result<(), Error>>,
    /// The task's outcome was given away.
    told: bool,
}

impl Session {
    pub(crate) fn new(
        id: u64,
        version: CollectVersion,
        compromises: Vec<Compromise>,
        stream: UnixStream,
        endpoint: Endpoint,
        deadlines: Deadlines,
    ) -> Self {
        let last_byte = Instant::now();
        Self {
            id,
            version,
            compromises,
            stream,
            endpoint,
            deadlines,
            idle: None,
            last_byte,
            stop: None,
            ended: false,
        }
    }

    /// The id that the runtime gave the session; opaque.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The form of CollectTracing that the runtime knew.
    pub fn version(&self) -> CollectVersion {
        self.version
    }

    /// What the session gives other than what was asked for.
    pub fn compromises(&self) -> &[Compromise] {
        &self.compromises
    }

    /// Whose session it is.
    pub fn peer(&self) -> Peer {
        self.endpoint.peer()
    }

    /// From now on its bytes are waited for by the tokio runtime in which this is called, which may be another one than that of the client.
    ///
    /// # Errors
    /// When the system has no file descriptor for it.
    ///
    /// # Panics
    /// Outside of a tokio runtime with I/O.
    pub fn move_here(&mut self) -> Result<(), Error> {
        let moved = self.stream.as_fd().try_clone_to_owned();
        let moved = moved.and_then(|fd| UnixStream::from_std(fd.into()));
        self.stream = moved.map_err(|error| self.endpoint.io(Stage::Stream, error))?;
        Ok(())
    }

    /// How long no byte may come before [`read`](Self::read) is an error. By default there is no such deadline: a program that
    /// does not collect sends nothing for as long as it likes.
    pub fn set_idle_deadline(&mut self, idle: Option<Duration>) {
        self.idle = idle;
        self.last_byte = Instant::now();
    }

    /// Reads bytes of the stream; 0 is its end (or an empty buffer). Whether the stream is whole its own end tag tells: that of a
    /// process that was killed ends without one.
    ///
    /// Cancel safe: when the future is dropped, no byte is lost.
    ///
    /// # Errors
    /// [`Error::Silent`] after the idle deadline, or when the stream has not ended within [`Deadlines::stop`] of
    /// [`request_stop`](Self::request_stop); then what StopTracing met, if it met something.
    pub async fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Error> {
        if buffer.is_empty() {
            return Ok(0);
        }
        self.read_by(|stream, cx| poll_read(stream, cx, buffer)).await
    }

    /// As [`read`](Self::read), with a buffer that many sessions share: it is locked only while bytes are put into it and given to
    /// `take`, never while waiting for them.
    ///
    /// Cancel safe: what was read was given to `take`.
    ///
    /// # Errors
    /// Those of [`read`](Self::read).
    pub async fn read_through(
        &mut self,
        buffer: &Mutex<Box<[u8]>>,
        mut take: impl FnMut(&[u8]),
    ) -> Result<usize, Error> {
        self.read_by(|stream, cx| {
            let mut buffer = buffer.lock().unwrap_or_else(PoisonError::into_inner);
            let count = ready!(poll_read(stream, cx, &mut buffer))?;
            take(buffer.get(..count).unwrap_or_default());
            Poll::Ready(Ok(count))
        })
        .await
    }

    /// Reads by `poll` within the deadlines.
    async fn read_by(
        &mut self,
        mut poll: impl FnMut(&mut UnixStream, &mut Context<'_>) -> Poll<io::Result<usize>>,
    ) -> Result<usize, Error> {
        if self.ended {
            return Ok(0);
        }
        let stop_at = self.stop.as_ref().map(|stop| stop.deadline);
        if stop_at.is_some_and(|at| at <= Instant::now()) {
            // A stream that never ends must not hold the caller, however many bytes it has.
            return Err(self.not_stopped().await);
        }
        let idle_at = self.idle.map(|idle| self.last_byte + idle);
        let deadline = [stop_at, idle_at].into_iter().flatten().min();
        let stream = &mut self.stream;
        let read = poll_fn(|cx| poll(stream, cx));
        let read = match deadline {
            None => read.await,
            Some(deadline) => match timeout_at(deadline, read).await {
                Ok(read) => read,
                Err(_) if Some(deadline) == stop_at => return Err(self.not_stopped().await),
                Err(_) => {
                    let collect = Command::CollectTracing(self.version);
                    return Err(self
                        .endpoint
                        .silent(collect, Stage::Stream, self.idle.unwrap_or_default()));
                }
            },
        };
        match read {
            Ok(count) => {
                self.ended = count == 0;
                self.last_byte = Instant::now();
                Ok(count)
            }
            // The process ended with something of ours unread: the end of a stream like any other.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {
                self.ended = true;
                Ok(0)
            }
            Err(error) => Err(self.endpoint.io(Stage::Stream, error)),
        }
    }

    /// Asks the runtime to end the session, on a second connection and in a task of its own. The stream must be read to its end
    /// meanwhile. Asking again does nothing.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn request_stop(&mut self) {
        if self.stop.is_some() || self.ended {
            return;
        }
        let (endpoint, deadlines, id) = (self.endpoint.clone(), self.deadlines, self.id);
        let task = tokio::spawn(async move { stop_tracing(&endpoint, &deadlines, id).await });
        self.stop = Some(Stop {
            deadline: Instant::now() + self.deadlines.stop,
            task,
            told: false,
        });
    }

    /// Asks for the end and reads the stream to it. Returns the bytes read here.
    ///
    /// # Errors
    /// Those of [`read`](Self::read). What came before one was given to `sink`.
    pub async fn drain(&mut self, mut sink: impl FnMut(&[u8])) -> Result<u64, Error> {
        self.request_stop();
        // A host may end hundreds of sessions at once, and little is left in each.
        let mut buffer = vec![0; 8 << 10];
        let mut drained = 0;
        loop {
            let count = self.read(&mut buffer).await?;
            if count == 0 {
                return Ok(drained);
            }
            sink(buffer.get(..count).unwrap_or_default());
            drained += count as u64;
        }
    }

    /// What the runtime answered to StopTracing; to be asked after the stream's end. `Ok` when it was never asked to stop, and
    /// after the first time.
    ///
    /// An error is normal for a process that was ending by itself: its stream has what it had to say.
    ///
    /// # Errors
    /// Those of the command. [`Error::Silent`] also when the answer does not come within [`Deadlines::stop`] of the request.
    pub async fn stopped(&mut self) -> Result<(), Error> {
        let silent = self
            .endpoint
            .silent(Command::StopTracing, Stage::Answer, self.deadlines.stop);
        let Some(stop) = self.stop.as_mut().filter(|stop| !stop.told) else {
            return Ok(());
        };
        let outcome = timeout_at(stop.deadline, &mut stop.task).await;
        stop.told = true;
        match outcome {
            Ok(Ok(outcome)) => outcome,
            // The deadline, or an executor that is being shut down and dropped the task.
            Ok(Err(_)) | Err(_) => Err(silent),
        }
    }

    /// The deadline of the stop has passed and the stream goes on.
    async fn not_stopped(&mut self) -> Error {
        let silent = self
            .endpoint
            .silent(Command::StopTracing, Stage::Stream, self.deadlines.stop);
        self.stopped().await.err().unwrap_or(silent)
    }
}

fn poll_read(stream: &mut UnixStream, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
    let mut buffer = ReadBuf::new(buffer);
    ready!(Pin::new(stream).poll_read(cx, &mut buffer))?;
    Poll::Ready(Ok(buffer.filled().len()))
}

impl Drop for Session {
    fn drop(&mut self) {
        if self.ended || self.stop.is_some() {
            return;
        }
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let (endpoint, deadlines, id) = (self.endpoint.clone(), self.deadlines, self.id);
            // Nobody is left to tell the outcome to.
            runtime.spawn(async move { drop(stop_tracing(&endpoint, &deadlines, id).await) });
        }
    }
}
