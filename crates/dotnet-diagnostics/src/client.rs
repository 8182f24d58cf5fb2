//! The commands as methods, each in the newest form that the runtime knows.

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

/// How much of an environment block is read at once: the most that a false length can cost.
const ENVIRONMENT_CHUNK: usize = 64 << 10;

/// Sends commands to one runtime.
///
/// Each command has a connection of its own, so that several can be under way at once and a failed one leaves no state
/// behind.
#[derive(Debug)]
pub struct Client {
    endpoint: Endpoint,
    deadlines: Deadlines,
    /// Bits of the commands that this runtime does not know: they are not tried again.
    unknown: AtomicU32,
    guard: Option<Arc<dyn Guard>>,
}

impl Client {
    /// A client with the default deadlines.
    pub fn new(endpoint: Endpoint) -> Self {
        Self::with_deadlines(endpoint, Deadlines::default())
    }

    /// A client with other deadlines.
    pub fn with_deadlines(endpoint: Endpoint, deadlines: Deadlines) -> Self {
        Self {
            endpoint,
            deadlines,
            unknown: AtomicU32::new(0),
            guard: None,
        }
    }

    /// The same, with a guard that holds the streams of its sessions from before they begin.
    #[must_use]
    pub fn guarded(mut self, guard: Option<Arc<dyn Guard>>) -> Self {
        self.guard = guard;
        self
    }

    /// Where the runtime is reached.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Who the process is, in the newest form that the runtime knows.
    ///
    /// # Errors
    /// For .NET Core 3.x, which has none of the forms, an [`Error::Runtime`] for which [`Error::is_unknown_command`]
    /// holds.
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

    /// Whether the runtime answers. `None` is .NET Core 3.x, which answers but cannot identify itself.
    ///
    /// # Errors
    /// Why the process cannot be attached to, see [`Error::obstacle`].
    pub async fn probe(&self) -> Result<Option<ProcessInfo>, Error> {
        match self.process_info().await {
            Ok(info) => Ok(Some(info)),
            Err(error) if error.is_unknown_command() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The environment that the process has now (`/proc/PID/environ` holds the one that it was started with).
    ///
    /// # Errors
    /// [`Error::Runtime`] with the unknown command for .NET Core 3.x.
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

    /// Starts an event session, in the first form of [`SessionConfig::versions`] that the runtime knows.
    /// [`Session::compromises`] lists what that form could not express.
    ///
    /// # Errors
    /// [`Error::Request`] for a configuration that no runtime accepts or that would disturb the target, before anything
    /// is sent. After [`Error::Silent`] a runtime may still start the session; it ends at its first write to the closed
    /// connection.
    pub async fn collect_tracing(&self, config: &SessionConfig) -> Result<Session, Error> {
        self.collect_tracing_with(config, config.versions()).await
    }

    /// Starts an event session in the first of these forms that the runtime knows.
    ///
    /// # Errors
    /// As [`Client::collect_tracing`].
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

    /// Has the runtime work out anew which events anybody wants, by a session for collections that is ended at once.
    ///
    /// When a session ends, the runtime computes the level and the keywords of each of its providers over all sessions,
    /// and the one that is ending is still among them (`ep-config.c`; runtime issue 121462). So what a Verbose session
    /// asked for is made for as long as any other session is open, though nobody gets it: with many pinned handles
    /// pauses become ten times as long, on 8 to 11. The beginning of any later session of the same provider puts
    /// it right; one of another provider does not. A client that dies leaves the same behind.
    ///
    /// To be called where somebody else's session may have ended while another one goes on, and after each session of
    /// ours that asked for more than the others.
    ///
    /// # Errors
    /// Those of a session, see [`Error`]; [`Error::Silent`] when it takes longer than `within`. A session that has
    /// begun is stopped in any case.
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

    /// Ends a session by its id. [`Session::request_stop`] does this for a session that is read here. The stream must
    /// be drained at the same time, else neither ends. Runtimes (3.1 to 11, NativeAOT) answer OK also when there is no
    /// such session.
    ///
    /// # Errors
    /// The connection's, see [`Error`].
    pub async fn stop_tracing(&self, session_id: u64) -> Result<(), Error> {
        stop_tracing(&self.endpoint, &self.deadlines, session_id).await
    }

    /// Resumes a runtime that was suspended at its start; does nothing to one that runs.
    ///
    /// # Errors
    /// [`Error::Runtime`] with the unknown command for .NET Core 3.x, which cannot be suspended either.
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

    /// Tries the forms of a command one after the other, each on a new connection (the runtime closes one after an
    /// error), and remembers those that the runtime does not know.
    async fn first_known<V: Copy + Into<Command>, T, F: Future<Output = Result<T, Error>>>(
        &self,
        forms: &[V],
        attempt: impl Fn(V) -> F,
    ) -> Result<T, Error> {
        let mut unknown = None;
        for &form in forms {
            let bit = form.into().bit();
            // The last form is always tried: its refusal is the error to show.
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
                reading: "the number of forms to try",
                value: 0,
                limit: 1,
            },
        }))
    }
}
