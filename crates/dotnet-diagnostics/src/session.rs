//! A running event session: its stream, and functions to stop it.

use std::future::poll_fn;
use std::io;
use std::os::fd::AsFd as _;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead as _, ReadBuf};
use tokio::net::UnixStream;
use tokio::task::{JoinHandle, unconstrained};
use tokio::time::{Instant, Sleep, sleep_until, timeout_at};

use crate::deadlines::Deadlines;
use crate::endpoint::{CommandConnection, Endpoint};
use crate::error::{Error, Peer, Stage};
use crate::exchange::stop_tracing;
use crate::guard::GuardedStream;
use crate::message::{CollectVersion, Command, Compromise};

/// A running event session. Its stream is in nettrace format, from the first byte (`Nettrace`).
///
/// # Reading and stopping in one task
///
/// The runtime responds to StopTracing only after it has written the last byte of the stream. A program that waits for
/// the response without reading the stream waits indefinitely. [`request_stop`](Self::request_stop) therefore returns
/// immediately and runs the command in a separate task. The caller continues to call [`read`](Self::read) until it
/// returns 0 or the deadline passes:
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
/// Read promptly: unread events wait in the target's memory, up to the session's buffer size; when the buffer is full,
/// new events are dropped.
///
/// # Two ways to read
///
/// Use [`read`](Self::read) with one buffer per session. Use [`poll_read`](Self::poll_read) if many sessions share a
/// buffer: the buffer is required only during the call, not while waiting.
///
/// # Dropping
///
/// A session that is dropped inside a tokio runtime before its end is stopped in the background. Without this stop, a
/// .NET runtime that has no events to write would not notice the closed connection.
#[derive(Debug)]
pub struct Session {
    id: u64,
    version: CollectVersion,
    compromises: Vec<Compromise>,
    connected: CommandConnection,
    /// Handle of the guard for the stream; `None` if the client has no guard.
    held: Option<Box<dyn GuardedStream>>,
    endpoint: Endpoint,
    deadlines: Deadlines,
    /// Wakes the reader at the deadline of the stop.
    timer: Option<Pin<Box<Sleep>>>,
    stop: Option<Stop>,
    ended: bool,
}

#[derive(Debug)]
struct Stop {
    deadline: Instant,
    task: JoinHandle<Result<(), Error>>,
    /// Whether the outcome of the task was returned.
    taken: bool,
}

impl Session {
    pub(crate) fn new(
        id: u64,
        version: CollectVersion,
        compromises: Vec<Compromise>,
        connected: CommandConnection,
        held: Option<Box<dyn GuardedStream>>,
        endpoint: Endpoint,
        deadlines: Deadlines,
    ) -> Self {
        Self {
            id,
            version,
            compromises,
            connected,
            held,
            endpoint,
            deadlines,
            timer: None,
            stop: None,
            ended: false,
        }
    }

    /// Returns the opaque id that the runtime assigned to the session.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Returns the variant of CollectTracing that the runtime supports.
    pub fn version(&self) -> CollectVersion {
        self.version
    }

    /// Returns the differences between the requested and the actual session.
    pub fn compromises(&self) -> &[Compromise] {
        &self.compromises
    }

    /// Returns the process of the session.
    pub fn peer(&self) -> Peer {
        self.endpoint.peer()
    }

    /// Returns whether the guard has shut down the stream because nothing was read for too long. In that case, the end
    /// of the stream is not the end of the session's events.
    pub fn was_closed_by_guard(&self) -> bool {
        self.held.as_ref().is_some_and(|held| held.was_closed())
    }

    /// Moves the session to the current tokio runtime, which can differ from the tokio runtime of the client.
    /// Afterwards, the current tokio runtime waits for the bytes of the session.
    ///
    /// # Errors
    /// Returns [`Error::Io`] if no file descriptor is available.
    ///
    /// # Panics
    /// Panics outside a tokio runtime with I/O.
    pub fn move_here(&mut self) -> Result<(), Error> {
        let moved = self.connected.stream.as_fd().try_clone_to_owned();
        let moved = moved.and_then(|fd| UnixStream::from_std(fd.into()));
        self.connected.stream = moved.map_err(|error| self.endpoint.io(Stage::Stream, error))?;
        self.timer = None;
        Ok(())
    }

    /// Reads bytes of the stream. Returns 0 at the end of the stream, or for an empty buffer. The end tag of the stream
    /// shows whether it is complete: the stream of a process that was killed has no end tag.
    ///
    /// This method is cancel safe: no byte is lost if the future is dropped.
    ///
    /// # Errors
    /// Returns [`Error::Silent`] if the stream has not ended within [`Deadlines::stop`] after
    /// [`request_stop`](Self::request_stop), or the error of StopTracing if that command failed. Without a stop
    /// request, there is no deadline, because a program without collections can be silent for any length of time.
    pub async fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Error> {
        poll_fn(|cx| self.poll_read(cx, buffer)).await
    }

    /// Like [`read`](Self::read), but as a poll function. If bytes are available, they are copied to the buffer.
    /// Otherwise, the task is woken when bytes are available or the deadline passes. The session does not retain the
    /// buffer, so each call can use a different or a shared buffer:
    ///
    /// ```no_run
    /// # async fn example(mut session: dotnet_diagnostics::Session, shared: &std::sync::Mutex<Vec<u8>>)
    /// #     -> Result<usize, dotnet_diagnostics::Error> {
    /// use std::task::{Poll, ready};
    ///
    /// let read = std::future::poll_fn(|cx| {
    ///     let mut buffer = shared.lock().unwrap();
    ///     let count = ready!(session.poll_read(cx, &mut buffer))?;
    ///     decode(&buffer[..count]);
    ///     Poll::Ready(Ok(count))
    /// });
    /// read.await
    /// # }
    /// # fn decode(_: &[u8]) {}
    /// ```
    ///
    /// # Errors
    /// See [`read`](Self::read).
    pub fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<Result<usize, Error>> {
        if self.ended || buffer.is_empty() {
            return Poll::Ready(Ok(0));
        }
        if self.stop_is_overdue() {
            // A stream that never ends must not block the caller, even if bytes are available.
            return Poll::Ready(Err(self.not_stopped(cx)));
        }
        let mut buffer = ReadBuf::new(buffer);
        match Pin::new(&mut self.connected.stream).poll_read(cx, &mut buffer) {
            Poll::Ready(Ok(())) => {
                let count = buffer.filled().len();
                self.ended = count == 0;
                Poll::Ready(Ok(count))
            }
            // The process ended before it read all bytes sent to it. This is a regular end of the stream.
            Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::ConnectionReset => {
                self.ended = true;
                Poll::Ready(Ok(0))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(self.endpoint.io(Stage::Stream, error))),
            Poll::Pending => {
                ready!(self.poll_deadline(cx));
                Poll::Ready(Err(self.not_stopped(cx)))
            }
        }
    }

    fn stop_is_overdue(&self) -> bool {
        self.stop.as_ref().is_some_and(|stop| stop.deadline <= Instant::now())
    }

    /// Returns `Ready` when the deadline of the stop has passed, and never without a deadline.
    fn poll_deadline(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(deadline) = self.stop.as_ref().map(|stop| stop.deadline) else {
            return Poll::Pending;
        };
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        timer.as_mut().poll(cx)
    }

    /// Requests the end of the session, on a second connection and in a separate task. The caller must read the stream
    /// to its end at the same time. Further calls have no effect.
    ///
    /// # Panics
    /// Panics outside a tokio runtime.
    pub fn request_stop(&mut self) {
        if self.stop.is_some() || self.ended {
            return;
        }
        let (endpoint, deadlines, id) = (self.endpoint.clone(), self.deadlines, self.id);
        let task = tokio::spawn(async move { stop_tracing(&endpoint, &deadlines, id).await });
        self.stop = Some(Stop {
            deadline: Instant::now() + self.deadlines.stop,
            task,
            taken: false,
        });
    }

    /// Requests a stop and reads the stream to its end. Returns the number of bytes read by this call.
    ///
    /// # Errors
    /// See [`read`](Self::read). The bytes before an error were passed to `sink`.
    pub async fn drain(&mut self, mut sink: impl FnMut(&[u8])) -> Result<u64, Error> {
        self.request_stop();
        // The buffer is small because a host can stop hundreds of sessions at once, and each session has few bytes
        // left.
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

    /// Waits for the response to StopTracing. Call this method after the end of the stream. Returns `Ok` if no stop was
    /// requested, and after the first call.
    ///
    /// An error is normal for a process that is exiting: its stream is complete anyway.
    ///
    /// # Errors
    /// Returns the errors of the command, and [`Error::Silent`] if the response does not arrive within
    /// [`Deadlines::stop`] after the request.
    pub async fn stopped(&mut self) -> Result<(), Error> {
        let silent = self
            .endpoint
            .silent(Command::StopTracing, Stage::Answer, self.deadlines.stop);
        let Some(stop) = self.stop.as_mut().filter(|stop| !stop.taken) else {
            return Ok(());
        };
        let outcome = timeout_at(stop.deadline, &mut stop.task).await;
        stop.taken = true;
        match outcome {
            Ok(Ok(outcome)) => outcome,
            // The deadline passed, or an executor that is shutting down dropped the task.
            Ok(Err(_)) | Err(_) => Err(silent),
        }
    }

    /// Returns the error if the deadline of the stop has passed and the stream continues: the error of StopTracing, or
    /// [`Error::Silent`].
    fn not_stopped(&mut self, cx: &mut Context<'_>) -> Error {
        let silent = |stage| {
            let after = self.deadlines.stop;
            self.endpoint.silent(Command::StopTracing, stage, after)
        };
        let Some(stop) = self.stop.as_mut().filter(|stop| !stop.taken) else {
            return silent(Stage::Stream);
        };
        stop.taken = true;
        // Unconstrained: the outcome is returned if it is available, even if this task has used up its budget.
        match Pin::new(&mut unconstrained(&mut stop.task)).poll(cx) {
            Poll::Ready(Ok(Err(error))) => error,
            Poll::Ready(Ok(Ok(()))) => silent(Stage::Stream),
            // The command has no response yet, or an executor that is shutting down dropped the task.
            Poll::Ready(Err(_)) | Poll::Pending => silent(Stage::Answer),
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if self.ended || self.stop.is_some() {
            return;
        }
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let (endpoint, deadlines, id) = (self.endpoint.clone(), self.deadlines, self.id);
            // The outcome is dropped because the session no longer exists.
            runtime.spawn(async move { drop(stop_tracing(&endpoint, &deadlines, id).await) });
        }
    }
}
