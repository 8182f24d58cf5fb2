//! A running event session: its stream, and how to end it.

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
use crate::endpoint::{Connected, Endpoint};
use crate::error::{Error, Peer, Stage};
use crate::exchange::stop_tracing;
use crate::guard::Held;
use crate::message::{CollectVersion, Command, Compromise};

/// A running event session. Its stream is nettrace, from the first byte (`Nettrace`).
///
/// # Reading and ending in one task
///
/// The runtime answers StopTracing only after it has written the last byte of the stream: a program that waits for the
/// answer without reading waits for ever. So [`request_stop`](Self::request_stop) returns at once, the command runs in
/// a task of its own, and the caller goes on with [`read`](Self::read) until it gives 0 or the deadline passes:
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
/// Read promptly: what is not read waits in the target's memory, up to the session's buffer, and then new events are
/// dropped.
///
/// # Two ways to read
///
/// [`read`](Self::read) for one buffer per session, and [`poll_read`](Self::poll_read) where many sessions share a
/// buffer: it is needed only during the call, not while waiting.
///
/// # Dropping
///
/// A session that is dropped before its end is stopped in the background (when that happens inside a tokio runtime): a
/// runtime that has nothing to write would not notice the closed connection.
#[derive(Debug)]
pub struct Session {
    id: u64,
    version: CollectVersion,
    compromises: Vec<Compromise>,
    connected: Connected,
    /// By the guard, if there is one.
    held: Option<Box<dyn Held>>,
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
    /// The task's outcome was returned.
    taken: bool,
}

impl Session {
    pub(crate) fn new(
        id: u64,
        version: CollectVersion,
        compromises: Vec<Compromise>,
        connected: Connected,
        held: Option<Box<dyn Held>>,
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

    /// The process that the session is with.
    pub fn peer(&self) -> Peer {
        self.endpoint.peer()
    }

    /// The guard has shut the stream down, because nothing was read for too long: the end of the stream is not that of
    /// the session's events.
    pub fn was_closed_by_guard(&self) -> bool {
        self.held.as_ref().is_some_and(|held| held.was_closed())
    }

    /// Moves the session to the tokio runtime in which this is called: from now on that one waits for its bytes. It may
    /// be another one than the client's.
    ///
    /// # Errors
    /// When the system has no file descriptor for it.
    ///
    /// # Panics
    /// Outside of a tokio runtime with I/O.
    pub fn move_here(&mut self) -> Result<(), Error> {
        let moved = self.connected.stream.as_fd().try_clone_to_owned();
        let moved = moved.and_then(|fd| UnixStream::from_std(fd.into()));
        self.connected.stream = moved.map_err(|error| self.endpoint.io(Stage::Stream, error))?;
        self.timer = None;
        Ok(())
    }

    /// Reads bytes of the stream; 0 is its end (or an empty buffer). Whether the stream is whole can be seen from its
    /// own end tag: that of a process that was killed ends without one.
    ///
    /// Cancel safe: when the future is dropped, no byte is lost.
    ///
    /// # Errors
    /// [`Error::Silent`] when the stream has not ended within [`Deadlines::stop`] of
    /// [`request_stop`](Self::request_stop); the error of StopTracing instead, if that failed. Without a request to stop
    /// there is no deadline: a program that does not collect sends nothing for any length of time.
    pub async fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Error> {
        poll_fn(|cx| self.poll_read(cx, buffer)).await
    }

    /// As [`read`](Self::read), as a poll: bytes are put into the buffer when they are there, else the task is woken
    /// when they are, or when the deadline passes. The buffer is not kept, so that it may be another one, or shared, at
    /// each call:
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
    /// Those of [`read`](Self::read).
    pub fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<Result<usize, Error>> {
        if self.ended || buffer.is_empty() {
            return Poll::Ready(Ok(0));
        }
        if self.stop_is_overdue() {
            // A stream that never ends must not hold the caller, however many bytes it has.
            return Poll::Ready(Err(self.not_stopped(cx)));
        }
        let mut buffer = ReadBuf::new(buffer);
        match Pin::new(&mut self.connected.stream).poll_read(cx, &mut buffer) {
            Poll::Ready(Ok(())) => {
                let count = buffer.filled().len();
                self.ended = count == 0;
                Poll::Ready(Ok(count))
            }
            // The process ended with something of ours unread: the end of a stream like any other.
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

    /// Ready when the deadline of the stop has passed; never, where there is none.
    fn poll_deadline(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(deadline) = self.stop.as_ref().map(|stop| stop.deadline) else {
            return Poll::Pending;
        };
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        timer.as_mut().poll(cx)
    }

    /// Asks the runtime to end the session, on a second connection and in a task of its own. The stream must be read to
    /// its end meanwhile. Asking again does nothing.
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
            taken: false,
        });
    }

    /// Asks for the end and reads the stream to it. Returns the bytes read here.
    ///
    /// # Errors
    /// Those of [`read`](Self::read). The bytes before an error were given to `sink`.
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

    /// What the runtime answered to StopTracing; call it after the stream's end. `Ok` when it was never asked to stop,
    /// and after the first call.
    ///
    /// An error is normal for a process that was ending by itself: its stream is whole all the same.
    ///
    /// # Errors
    /// Those of the command. [`Error::Silent`] also when the answer does not come within [`Deadlines::stop`] of the
    /// request.
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
            // The deadline, or an executor that is being shut down and dropped the task.
            Ok(Err(_)) | Err(_) => Err(silent),
        }
    }

    /// The deadline of the stop has passed and the stream goes on: the error of StopTracing, or that the runtime is
    /// silent.
    fn not_stopped(&mut self, cx: &mut Context<'_>) -> Error {
        let silent = |stage| {
            let after = self.deadlines.stop;
            self.endpoint.silent(Command::StopTracing, stage, after)
        };
        let Some(stop) = self.stop.as_mut().filter(|stop| !stop.taken) else {
            return silent(Stage::Stream);
        };
        stop.taken = true;
        // However much this task has read in its turn: the outcome is there, or it is not.
        match Pin::new(&mut unconstrained(&mut stop.task)).poll(cx) {
            Poll::Ready(Ok(Err(error))) => error,
            Poll::Ready(Ok(Ok(()))) => silent(Stage::Stream),
            // Not answered, or dropped with an executor that is being shut down.
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
            // Nobody is left who could use the outcome.
            runtime.spawn(async move { drop(stop_tracing(&endpoint, &deadlines, id).await) });
        }
    }
}
