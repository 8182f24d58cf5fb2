//! The task of one run: attempts to attach, and reads the resulting session.
//!
//! # Processes that are out of memory
//!
//! The first session with the runtime's provider makes CoreCLR run managed code on the thread that answers commands
//! (`EventSource.DoCommand`). If the heap has reached its hard limit, this code can fail and end the *process*, with
//! "Out of memory." or with a stack overflow while the message is built. This happened on 10.0.14 in 4 of 8 processes
//! at their limit, and on 10.0.0. It did not happen in 6 of 6 processes (10.0.14) that had had a session before their
//! heap was full, nor with a session of only the rundown provider (3 of 3). Collections need the runtime's provider, so
//! the remedy is to attach early: gcwatch notices a new socket immediately, and keeps a running session. If gcwatch can
//! see from outside the process that memory is at its limit, the first session waits (`heap_limit`). The session that
//! reads the settings cannot cause this failure: it is never the first session, and it does not start while memory is
//! scarce.

mod session;

use std::pin::pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use dotnet_diagnostics::discovery::{Obstacle, Process, Reason, Scan};
use dotnet_diagnostics::message::SessionConfig;
use dotnet_diagnostics::{Client, Deadlines, Endpoint, Error, Session};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tracing::Instrument as _;

use gc_telemetry::definition::resource::SERVICE_NAME;

use crate::facts::Facts;
use crate::filter::Subject;
use crate::heap_limit;
use crate::identity::{identity, placed};
use crate::inspect::{Inspection, inspect};
use crate::kept_run::KeptRun;
use crate::lease::{LeaseError, Leases};
use crate::options::TargetOptions;
use crate::order::{Order, STOP_TIMEOUT, ordered_to_stop};
use crate::others::WatchedProcess;
use crate::shared::Shared;
use crate::sink::{RunSink, Sink};
use base::run_key::RunKey;
use processes::text::bounded;
use processes::{Identity, RunState};

/// Timeout for the inspection of one process, which reads a few files in `/proc` and opens the socket.
const INSPECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The outcome of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum End {
    /// The process has exited.
    Gone,
    /// Attaching failed, or the session ended. The run is retried.
    Again {
        /// Duration of the session.
        lived: Duration,
        /// Whether the stream used too much memory. If so, the pause before the retry is longer and grows with each
        /// retry.
        over_memory: bool,
    },
    /// The task was ordered to stop and has stopped. The text states why the session did not end cleanly; `None` if it
    /// ended cleanly or no session was started.
    Stopped(Option<String>),
}

impl End {
    /// A retry after an attempt without a session.
    pub(crate) const FAILED: Self = Self::Again {
        lived: Duration::ZERO,
        over_memory: false,
    };
}

#[derive(Debug)]
pub(crate) struct Attempt<S: Sink> {
    pub(crate) shared: Arc<Shared<S>>,
    pub(crate) options: Arc<TargetOptions>,
    /// Identity of the run as known so far. Its only attributes are the service name and, before the first session, the
    /// container and the pod.
    pub(crate) sketch: Identity,
    pub(crate) kept: KeptRun<S::Run>,
    pub(crate) orders: watch::Receiver<Order>,
    /// Whether the process is visible in gcwatch's `/proc`. If not, only its socket is known.
    pub(crate) visible: bool,
    /// Endpoint of the process's reverse connections; `None` if the process does not connect to gcwatch.
    pub(crate) reverse: Option<Endpoint>,
    /// Sender that resumes the suspended runtime. A message is sent when the session has started, and the sender is
    /// dropped if no session starts. `None` if no runtime waits.
    pub(crate) begun: Option<oneshot::Sender<()>>,
}

/// A session that has started.
#[derive(Debug)]
struct StartedSession {
    session: Session,
    client: Arc<Client>,
    /// Offset of the process's monotonic clock from gcwatch's clock, in nanoseconds; `None` if unknown.
    ahead_ns: Option<i64>,
    /// Tracks the connections of other tools; `None` if these connections are not visible.
    watched: Option<Arc<WatchedProcess>>,
    /// Whether requests are also read.
    reads_requests: bool,
    /// Size of event buffers that the heaps of the process need, in megabytes.
    needed_mb: u32,
}

impl<S: Sink> Attempt<S> {
    /// Attaches to the process on the current executor, and reads the session on the executor that all readers share.
    /// Outcomes are reported to the sink and logged.
    pub(crate) async fn run(mut self: Box<Self>) -> (KeptRun<S::Run>, End) {
        // The future is boxed, so that the data needed for attaching is released before the session is read.
        let begun = match Box::pin(self.begin()).await {
            Ok(begun) => begun,
            Err(end) => return (self.kept, end),
        };
        let executor = self.shared.readers.executor.clone();
        // Dropping the set aborts the task that reads the session.
        let mut reading = JoinSet::new();
        reading.spawn_on(self.read(Box::new(begun)), &executor);
        match reading.join_next().await {
            Some(Ok(ended)) => ended,
            Some(Err(error)) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            // The executor is shutting down.
            Some(Err(_)) | None => (KeptRun::default(), End::Stopped(None)),
        }
    }

    fn key(&self) -> RunKey {
        self.sketch.key
    }

    /// Inspects the process and starts the session.
    async fn begin(&mut self) -> Result<StartedSession, End> {
        let mut orders = self.orders.clone();
        let inspected = tokio::select! {
            inspected = self.inspect() => inspected?,
            () = ordered_to_stop(&mut orders) => return Err(End::Stopped(None)),
        };
        let Inspection {
            process,
            facts,
            lease,
            at_limit,
            needed_mb,
        } = inspected;
        if self.kept.sink.is_none() {
            // Record the location of the process, because attaching can fail before anything else is known.
            self.sketch = placed(&process, &facts);
        }
        match lease {
            Ok(lease) => self.kept.lease = Some(lease),
            Err(LeaseError::Held { holder }) => {
                self.report(RunState::HeldElsewhere { holder });
                return Err(End::FAILED);
            }
            Err(problem @ LeaseError::NoFolder { .. }) => {
                if !self.shared.lease_reported.swap(true, Ordering::Relaxed) {
                    log!(warn: "{problem}; another gcwatch instance on this host might report the same processes");
                }
            }
        }
        if let Some(why) = at_limit {
            return Err(self.unattachable_because(heap_limit::REASON, format!("{why}; {}", heap_limit::REMEDY)));
        }
        let endpoint = match (Endpoint::for_process(&process), self.reverse.clone()) {
            (Ok(endpoint), _) | (Err(_), Some(endpoint)) => endpoint,
            (Err(error), None) => return Err(self.unattachable(error.obstacle())),
        };
        let deadlines = Deadlines {
            stop: STOP_TIMEOUT,
            ..Deadlines::default()
        };
        let guard = self.shared.readers.guard();
        let client = Arc::new(Client::with_deadlines(endpoint, deadlines).guarded(guard));
        self.report(RunState::Attaching);
        let attached = {
            let name = bounded(&process.name);
            let span = tracing::info_span!(target: "gcwatch::targets", "attach", pid = process.pid, %name);
            let mut attaching = pin!(self.attach(&client, &process, &facts, needed_mb).instrument(span));
            tokio::select! {
                attached = &mut attaching => Some(attached),
                // Do not abandon a command in progress: its session would stay in the process until the next
                // collection.
                () = ordered_to_stop(&mut orders) => timeout(STOP_TIMEOUT, attaching).await.ok(),
            }
        };
        let session = match attached {
            Some(attached) => attached?,
            None => {
                return Err(End::Stopped(Some(
                    "a session was being started; it is unknown whether it started".to_owned(),
                )));
            }
        };
        self.kept.had_session = true;
        if let Some(begun) = self.begun.take() {
            // The receiver can have been dropped.
            let _waiting = begun.send(());
        }
        let watched = self.shared.watching.watch(&process, client.endpoint());
        let requests = &self.options.requests;
        let subject = Subject {
            name: &process.name,
            facts: &facts,
        };
        Ok(StartedSession {
            session,
            client,
            watched,
            reads_requests: requests.enabled && subject.is_wanted(&requests.include, &requests.exclude),
            ahead_ns: facts.monotonic_ahead_ns,
            needed_mb,
        })
    }

    /// Inspects the current state of the process and takes the lease.
    async fn inspect(&mut self) -> Result<Inspection, End> {
        let shared = Arc::clone(&self.shared);
        let _permit = shared.inspections.acquire().await;
        let (key, leases) = (self.key(), Leases::new(self.options.lease_folder.clone()));
        let (held, looking) = (self.kept.lease.take(), self.kept.looking.take());
        let named = Arc::clone(&shared.named.lock().unwrap_or_else(PoisonError::into_inner));
        let visible = self.visible;
        let first = !self.kept.had_session && !self.options.attach_at_heap_limit;
        let looking = match looking {
            Some(looking) => Ok(looking),
            None => shared
                .threads
                .run(move || inspect(key, visible, held, &leases, &named, first)),
        };
        let mut looking = match looking {
            Ok(looking) => looking,
            Err(full) => return Err(self.unattachable_because(Reason::Failed.as_str(), full.to_string())),
        };
        let Ok(inspected) = timeout(INSPECT_TIMEOUT, &mut looking).await else {
            self.kept.looking = Some(looking);
            let detail =
                format!("reading its files took more than {INSPECT_TIMEOUT:?}: a file system does not respond");
            return Err(self.unattachable_because(Reason::Silent.as_str(), detail));
        };
        match inspected {
            Ok(Ok(inspected)) if inspected.process.start_time == key.start_time => Ok(inspected),
            Ok(Ok(_) | Err(Error::NoProcess { .. })) => Err(End::Gone),
            Ok(Err(error)) => Err(self.unattachable(error.obstacle())),
            Err(_panicked) => {
                let detail = "the inspection failed".to_owned();
                Err(self.unattachable_because(Reason::Failed.as_str(), detail))
            }
        }
    }

    /// Queries the identity of the process and starts the session.
    async fn attach(
        &mut self,
        client: &Client,
        process: &Process,
        facts: &Facts,
        needed_mb: u32,
    ) -> Result<Session, End> {
        let info = match client.probe().await {
            Ok(info) => info,
            Err(error) => return Err(self.unattachable(error.obstacle())),
        };
        let mut process = process.clone();
        if info.is_none() && process.visible {
            // .NET Core 3 does not report its version, but the path of the runtime library contains the version.
            let pid = process.pid;
            let reading = self.shared.threads.run(move || Scan::host().runtime_library(pid));
            if let Ok(reading) = reading
                && let Ok(Ok(Some(evidence))) = timeout(INSPECT_TIMEOUT, reading).await
            {
                process.evidence = Some(evidence);
            }
        }
        let (identity, bad) = identity(&process, facts, info.as_ref(), &self.shared.host);
        if let (Some(bad), None) = (bad, &self.kept.sink) {
            let name = bounded(&identity.one_name());
            log!(warn: pid = process.pid, %name, "{bad}; ignoring the whole variable");
        }
        self.open(identity)?;
        let config = SessionConfig {
            buffer_mb: self.options.buffer_mb.max(needed_mb),
            ..SessionConfig::garbage_collection()
        };
        let session = client.collect_tracing(&config).await;
        session.map_err(|error| self.unattachable(error.obstacle()))
    }

    /// Opens the sink of the run, or passes the current details to the existing sink. Returns an error if the limit of
    /// attached processes is reached.
    fn open(&mut self, identity: Identity) -> Result<(), End> {
        if let Some(sink) = &mut self.kept.sink {
            sink.learned(identity.runtime.clone(), identity.resource.clone());
        } else {
            match self.shared.sink.open(identity.clone()) {
                Ok(mut sink) => {
                    sink.state(RunState::Attaching);
                    self.kept.sink = Some(sink);
                }
                Err(full) => {
                    self.report(RunState::OverLimit);
                    log!(debug: pid = identity.key.pid, "{full}");
                    return Err(End::FAILED);
                }
            }
        }
        // After this point, only the service name is needed.
        let mut resource = identity.resource;
        resource.retain(|attribute| attribute.key == SERVICE_NAME.name);
        resource.shrink_to_fit();
        self.sketch = Identity { resource, ..identity };
        Ok(())
    }

    fn unattachable(&mut self, obstacle: Obstacle) -> End {
        if obstacle.reason == Reason::Exited {
            // The run is retried soon. The process has then exited or responds.
            return End::FAILED;
        }
        self.unattachable_because(obstacle.reason.as_str(), obstacle.sentence())
    }

    fn unattachable_because(&mut self, reason: &str, detail: String) -> End {
        self.report(RunState::Unattachable {
            reason: reason.to_owned(),
            detail,
        });
        End::FAILED
    }

    fn report(&mut self, state: RunState) {
        self.kept.report(&self.shared.sink, &self.sketch, state);
    }
}
