//! A client that sends commands, each in the newest variant that the runtime supports.

use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;
use tokio::time::timeout;

use crate::deadlines::Deadlines;
use crate::endpoint::Endpoint;
use crate::error::{Error, Stage};
use crate::exchange::{broken, exchange, exchange_on, invalid, stop_tracing};
use crate::guard::Guard;
use crate::message::{
    CollectVersion, Command, EnvironmentVariable, InfoVersion, MessageError, ProcessInfo, Request, SessionConfig,
    decode_environment, decode_environment_header, decode_session_id,
};
use crate::session::Session;

/// Maximum part of an environment block that is read at once, in bytes. The limit bounds the allocation if the reported
/// length is wrong.
const ENVIRONMENT_CHUNK: usize = 64 << 10;

/// A client that sends commands to one runtime.
///
/// Each command uses its own connection, so commands can run concurrently and a failed command leaves no state behind.
#[derive(Debug)]
pub struct Client {
    endpoint: Endpoint,
    deadlines: Deadlines,
    /// Bits of the commands that the runtime does not support. These commands are not tried again, except for the last
    /// variant.
    unknown: AtomicU32,
    guard: Option<Arc<dyn Guard>>,
}

impl Client {
    /// Creates a client with the default deadlines.
    pub fn new(endpoint: Endpoint) -> Self {
        Self::with_deadlines(endpoint, Deadlines::default())
    }

    /// Creates a client with the given deadlines.
    pub fn with_deadlines(endpoint: Endpoint, deadlines: Deadlines) -> Self {
        Self {
            endpoint,
            deadlines,
            unknown: AtomicU32::new(0),
            guard: None,
        }
    }

    /// Sets the guard; `None` removes it. The guard holds the stream of each session from before the session starts.
    #[must_use]
    pub fn guarded(mut self, guard: Option<Arc<dyn Guard>>) -> Self {
        self.guard = guard;
        self
    }

    /// Returns the endpoint of the runtime.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Returns the identity of the process, in the newest variant that the runtime supports.
    ///
    /// # Errors
    /// Returns [`Error::Runtime`] for .NET Core 3.x, which does not support any variant. [`Error::is_unknown_command`]
    /// returns `true` for this error. Returns connection errors and invalid responses, see [`Error`].
    pub async fn process_info(&self) -> Result<ProcessInfo, Error> {
        let forms = [InfoVersion::V3, InfoVersion::V2, InfoVersion::V1];
        self.first_known(&forms, |version| async move {
            let request = Request::ProcessInfo(version);
            let (_, payload) = exchange(&self.endpoint, &self.deadlines, &request, self.deadlines.answer).await?;
            let info = ProcessInfo::decode(version, &payload);
            info.map_err(|source| invalid(&self.endpoint, request.command(), source))
        })
        .await
    }

    /// Checks whether the runtime responds. Returns `None` for .NET Core 3.x, which responds but cannot identify
    /// itself.
    ///
    /// # Errors
    /// Returns the errors of [`process_info`](Self::process_info) except for the unknown command. [`Error::obstacle`]
    /// contains the reason why the process cannot be attached to, and a remedy.
    pub async fn probe(&self) -> Result<Option<ProcessInfo>, Error> {
        match self.process_info().await {
            Ok(info) => Ok(Some(info)),
            Err(error) if error.is_unknown_command() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the current environment of the process (`/proc/PID/environ` contains the environment at the start of the
    /// process).
    ///
    /// # Errors
    /// Returns [`Error::Runtime`] with an unknown command for .NET Core 3.x. Returns connection errors and invalid
    /// responses, see [`Error`]; an environment above the limits of [`message`](crate::message) is an invalid response.
    pub async fn environment(&self) -> Result<Vec<EnvironmentVariable>, Error> {
        let command = Command::ProcessEnvironment;
        let after = self.deadlines.answer;
        let request = Request::ProcessEnvironment;
        let (mut connected, payload) = exchange(&self.endpoint, &self.deadlines, &request, after).await?;
        let length = decode_environment_header(&payload);
        let length = length.map_err(|source| invalid(&self.endpoint, command, source))? as usize;
        let mut block = Vec::new();
        let read = async {
            while block.len() < length {
                let start = block.len();
                block.resize(start + ENVIRONMENT_CHUNK.min(length - start), 0);
                let (_, rest) = block.split_at_mut(start);
                connected.stream.read_exact(rest).await?;
            }
            Ok(())
        };
        match timeout(after, read).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return Err(broken(&self.endpoint, command, Stage::Answer, payload.len(), error)),
            Err(_) => return Err(self.endpoint.silent(command, Stage::Answer, after)),
        }
        decode_environment(&block).map_err(|source| invalid(&self.endpoint, command, source))
    }

    /// Starts an event session, in the first variant of [`SessionConfig::versions`] that the runtime supports.
    /// [`Session::compromises`] lists the settings that this variant could not express.
    ///
    /// # Errors
    /// Returns connection errors and refusals, see [`Error`]. Returns [`Error::Request`], and sends no command, if no
    /// runtime accepts the configuration or if the configuration would disturb the target. After [`Error::Silent`], a
    /// runtime can still start the session. The session then ends at its first write to the closed connection.
    pub async fn collect_tracing(&self, config: &SessionConfig) -> Result<Session, Error> {
        self.collect_tracing_with(config, config.versions()).await
    }

    /// Starts an event session in the first variant of `versions` that the runtime supports.
    ///
    /// # Errors
    /// See [`Client::collect_tracing`]. Returns [`Error::Request`] if `versions` is empty.
    pub async fn collect_tracing_with(
        &self,
        config: &SessionConfig,
        versions: &[CollectVersion],
    ) -> Result<Session, Error> {
        self.first_known(versions, |version| async move {
            let request = Request::CollectTracing {
                version,
                config: config.clone(),
            };
            let hold = |stream: &UnixStream| self.guard.as_ref().map(|guard| guard.hold(stream.as_fd()));
            let start = self.deadlines.start;
            let (connected, payload, held) =
                exchange_on(&self.endpoint, &self.deadlines, &request, start, hold).await?;
            let id =
                decode_session_id(&payload).map_err(|source| invalid(&self.endpoint, request.command(), source))?;
            Ok(Session::new(
                id,
                version,
                config.compromises(version),
                connected,
                held,
                self.endpoint.clone(),
                self.deadlines,
            ))
        })
        .await
    }

    /// Causes the runtime to recompute its enabled events, by starting and immediately stopping a short session.
    ///
    /// When a session ends, the runtime computes the level and the keywords of each of the session's providers over all
    /// sessions, which still include the session that is ending (`ep-config.c`; runtime issue 121462). The runtime
    /// therefore keeps producing the events of a Verbose session while any other session is open, although no session
    /// receives them. With many pinned handles, pauses become ten times as long on .NET 8 to 11. The start of any later
    /// session of the same provider corrects the levels; a session of another provider does not. A session that ends
    /// because its client was killed has the same effect.
    ///
    /// Call this method if the session of another tool has possibly ended while any other session continues. Also call
    /// this method after each own session that requested more events than the other sessions.
    ///
    /// # Errors
    /// Returns the errors of a session, see [`Error`], and [`Error::Silent`] if the operation takes longer than
    /// `within`. A session that has started is always stopped.
    pub async fn recompute_levels(&self, within: Duration) -> Result<(), Error> {
        let config = SessionConfig {
            buffer_mb: 1,
            ..SessionConfig::garbage_collection()
        };
        let session = async {
            let mut session = self.collect_tracing(&config).await?;
            session.drain(|_| ()).await?;
            session.stopped().await
        };
        match timeout(within, session).await {
            Ok(done) => done,
            Err(_) => Err(self.endpoint.silent(Command::StopTracing, Stage::Answer, within)),
        }
    }

    /// Stops a session by its id. For a session that this client reads, use [`Session::request_stop`]. The stream must
    /// be drained at the same time; otherwise, neither the command nor the session ends. Runtimes (3.1 to 11,
    /// NativeAOT) also respond OK if the session does not exist.
    ///
    /// # Errors
    /// Returns connection errors, see [`Error`], and [`Error::Silent`] if the runtime does not respond within
    /// [`Deadlines::stop`].
    pub async fn stop_tracing(&self, session_id: u64) -> Result<(), Error> {
        stop_tracing(&self.endpoint, &self.deadlines, session_id).await
    }

    /// Resumes a runtime that was suspended at startup. Does nothing if the runtime is running.
    ///
    /// # Errors
    /// Returns [`Error::Runtime`] with an unknown command for .NET Core 3.x, which cannot be suspended either. Returns
    /// connection errors, see [`Error`].
    pub async fn resume_runtime(&self) -> Result<(), Error> {
        exchange(
            &self.endpoint,
            &self.deadlines,
            &Request::ResumeRuntime,
            self.deadlines.answer,
        )
        .await
        .map(|_| ())
    }

    /// Tries the variants of a command in order, each on a new connection because the runtime closes a connection after
    /// an error, and remembers the variants that the runtime does not support.
    async fn first_known<V: Copy + Into<Command>, T, F: Future<Output = Result<T, Error>>>(
        &self,
        forms: &[V],
        attempt: impl Fn(V) -> F,
    ) -> Result<T, Error> {
        let mut unknown = None;
        for &form in forms {
            let bit = form.into().bit();
            // The last variant is always tried: its rejection is the error to report.
            let last = forms.last().is_some_and(|&last| last.into() == form.into());
            if !last && self.unknown.load(Ordering::Relaxed) & bit != 0 {
                continue;
            }
            match attempt(form).await {
                Err(error) if error.is_unknown_command() => {
                    self.unknown.fetch_or(bit, Ordering::Relaxed);
                    unknown = Some(error);
                }
                other => return other,
            }
        }
        Err(unknown.unwrap_or(Error::Request {
            command: Command::CollectTracing(CollectVersion::V2),
            source: MessageError::Limit {
                reading: "the number of variants to try",
                value: 0,
                limit: 1,
            },
        }))
    }
}
