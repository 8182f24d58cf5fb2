//! The task of one run: one attempt to attach, and the session that comes of it.
//!
//! # A process that is out of memory
//!
//! The first session with the runtime's provider makes CoreCLR run managed code on the thread that answers commands
//! (`EventSource.DoCommand`). While the heap is full to its hard limit, that code can fail and end the *process*: "Out
//! of memory.", or a stack overflow in the making of the message. Seen on 10.0.14 in 4 of 8 processes at their limit,
//! and on 10.0.0; not in 6 of 6 (10.0.14) that had had a session before their heap was full, nor with a session of the
//! rundown provider alone (3 of 3). Collections need the runtime's provider, so that what helps is to attach early:
//! a new socket is noticed at once, and a session that has begun is kept. Where it can be seen from outside that memory
//! is at its limit, the first session waits (`heap_limit`). The settings' own session has no part in it, comes second,
//! and is not begun while memory is scarce.

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
use crate::inspect::{Inspected, inspect};
use crate::kept_run::KeptRun;
use crate::lease::{Leases, NoLease};
use crate::options::TargetOptions;
use crate::order::{Order, STOP_WITHIN, ordered_to_stop};
use crate::others::Watched;
use crate::shared::Shared;
use crate::sink::{RunSink, Sink};
use base::run_key::RunKey;
use processes::text::bounded;
use processes::{Identity, RunState};

/// How long the inspection of one process may take; it is a few files of `/proc`, and the open of its socket.
const INSPECT_WITHIN: Duration = Duration::from_secs(5);

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum End {
    /// The process exited.
    Gone,
    /// Attaching failed, or the session ended: to be retried.
    Again {
        /// The session lived for so long before.
        lived: Duration,
        /// Its stream took more memory than it may: later, slower each time.
        over_memory: bool,
    },
    /// It was ordered to stop, and did. A text: it did not end in order.
    Stopped(Option<String>),
}

impl End {
    /// To be retried; no session lived.
    pub(crate) const FAILED: Self = Self::Again {
        lived: Duration::ZERO,
        over_memory: false,
    };
}

#[derive(Debug)]
pub(crate) struct Attempt<S: Sink> {
    pub(crate) shared: Arc<Shared<S>>,
    pub(crate) options: Arc<TargetOptions>,
    /// Who the run is, as far as it is known; without attributes.
    pub(crate) sketch: Identity,
    pub(crate) kept: KeptRun<S::Run>,
    pub(crate) orders: watch::Receiver<Order>,
    /// It is in our `/proc`; else its socket is all that is known of it.
    pub(crate) visible: bool,
    /// Where it connects to us, if it does.
    pub(crate) reverse: Option<Endpoint>,
    /// Sent when the session has begun, dropped when it will not: a suspended runtime is resumed then.
    pub(crate) begun: Option<oneshot::Sender<()>>,
}

/// A session that has begun.
#[derive(Debug)]
struct Begun {
    session: Session,
    client: Arc<Client>,
    /// What the process's monotonic clock is ahead of ours by.
    ahead_ns: Option<i64>,
    /// Looked at for other tools' connections; `None`: they cannot be seen.
    watched: Option<Arc<Watched>>,
    /// Its requests are read, too.
    reads_requests: bool,
}

impl<S: Sink> Attempt<S> {
    /// Makes the attempt: attaches here, and reads the session where all sessions are read. Whatever it meets is
    /// reported to the sink and logged.
    pub(crate) async fn run(mut self: Box<Self>) -> (KeptRun<S::Run>, End) {
        // What attaching needs, in this future and with it, is not to be held for as long as the session lasts.
        let begun = match Box::pin(self.begin()).await {
            Ok(begun) => begun,
            Err(end) => return (self.kept, end),
        };
        let executor = self.shared.readers.executor.clone();
        // Whoever ends this ends the reading.
        let mut reading = JoinSet::new();
        reading.spawn_on(self.read(Box::new(begun)), &executor);
        match reading.join_next().await {
            Some(Ok(ended)) => ended,
            Some(Err(error)) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            // Its executor is being shut down.
            Some(Err(_)) | None => (KeptRun::default(), End::Stopped(None)),
        }
    }

    fn key(&self) -> RunKey {
        self.sketch.key
    }

    /// Inspects the process, and begins the session.
    async fn begin(&mut self) -> Result<Begun, End> {
        let mut orders = self.orders.clone();
        let inspected = tokio::select! {
            inspected = self.inspect() => inspected?,
            () = ordered_to_stop(&mut orders) => return Err(End::Stopped(None)),
        };
        let Inspected {
            process,
            facts,
            lease,
            at_limit,
        } = inspected;
        if self.kept.sink.is_none() {
            // Where it is, in case that is all that will be known of it.
            self.sketch = placed(&process, &facts);
        }
        match lease {
            Ok(lease) => self.kept.lease = Some(lease),
            Err(NoLease::Held { holder }) => {
                self.report(RunState::HeldElsewhere { holder });
                return Err(End::FAILED);
            }
            Err(problem @ NoLease::NoFolder { .. }) => {
                if !self.shared.lease_reported.swap(true, Ordering::Relaxed) {
                    log!(warn: "{problem}; another gcwatch on this host might report the same processes");
                }
            }
        }
        if let Some(why) = at_limit {
            return Err(self.unattachable_because(heap_limit::REASON, format!("{why}; {}", heap_limit::REMEDY)));
        }
        let endpoint = match (Endpoint::of(&process), self.reverse.clone()) {
            (Ok(endpoint), _) | (Err(_), Some(endpoint)) => endpoint,
            (Err(error), None) => return Err(self.unattachable(error.obstacle())),
        };
        let deadlines = Deadlines {
            stop: STOP_WITHIN,
            ..Deadlines::default()
        };
        let guard = self.shared.readers.guard();
        let client = Arc::new(Client::with_deadlines(endpoint, deadlines).guarded(guard));
        self.report(RunState::Attaching);
        let attached = {
            let name = bounded(&process.name);
            let span = tracing::info_span!(target: "gcwatch::targets", "attach", pid = process.pid, %name);
            let mut attaching = pin!(self.attach(&client, &process, &facts).instrument(span));
            tokio::select! {
                attached = &mut attaching => Some(attached),
                // A command that is under way is not abandoned: its session would stay in the process until the next
                // collection.
                () = ordered_to_stop(&mut orders) => timeout(STOP_WITHIN, attaching).await.ok(),
            }
        };
        let session = match attached {
            Some(attached) => attached?,
            None => {
                return Err(End::Stopped(Some(
                    "a session was being started; whether it began is unknown".to_owned(),
                )));
            }
        };
        self.kept.had_session = true;
        if let Some(begun) = self.begun.take() {
            // Whoever waits for it may have given up.
            let _waiting = begun.send(());
        }
        let watched = self.shared.watching.watch(&process, client.endpoint());
        let requests = &self.options.requests;
        let subject = Subject {
            name: &process.name,
            facts: &facts,
        };
        Ok(Begun {
            session,
            client,
            watched,
            reads_requests: requests.enabled && subject.is_wanted(&requests.include, &requests.exclude),
            ahead_ns: facts.monotonic_ahead_ns,
        })
    }

    /// Inspects the process as it is now, and takes the lease.
    async fn inspect(&mut self) -> Result<Inspected, End> {
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
        let Ok(inspected) = timeout(INSPECT_WITHIN, &mut looking).await else {
            self.kept.looking = Some(looking);
            let detail = format!("reading its files took more than {INSPECT_WITHIN:?}: a file system does not respond");
            return Err(self.unattachable_because(Reason::Silent.as_str(), detail));
        };
        match inspected {
            Ok(Ok(inspected)) if inspected.process.start_time == key.start_time => Ok(inspected),
            Ok(Ok(_) | Err(Error::NoProcess { .. })) => Err(End::Gone),
            Ok(Err(error)) => Err(self.unattachable(error.obstacle())),
            Err(_panicked) => {
                let detail = "its inspection failed".to_owned();
                Err(self.unattachable_because(Reason::Failed.as_str(), detail))
            }
        }
    }

    /// Asks who it is, and begins the session.
    async fn attach(&mut self, client: &Client, process: &Process, facts: &Facts) -> Result<Session, End> {
        let info = match client.probe().await {
            Ok(info) => info,
            Err(error) => return Err(self.unattachable(error.obstacle())),
        };
        let mut process = process.clone();
        if info.is_none() && process.visible {
            // .NET Core 3: the version is in the path of its library.
            let pid = process.pid;
            let reading = self.shared.threads.run(move || Scan::host().runtime_library(pid));
            if let Ok(reading) = reading
                && let Ok(Ok(Some(evidence))) = timeout(INSPECT_WITHIN, reading).await
            {
                process.evidence = Some(evidence);
            }
        }
        let (identity, bad) = identity(&process, facts, info.as_ref(), &self.shared.host);
        if let (Some(bad), None) = (bad, &self.kept.sink) {
            let name = bounded(&identity.one_name());
            log!(warn: pid = process.pid, %name, "{bad}; all of it is ignored");
        }
        self.open(identity)?;
        let config = SessionConfig {
            buffer_mb: self.options.buffer_mb,
            ..SessionConfig::garbage_collection()
        };
        let session = client.collect_tracing(&config).await;
        session.map_err(|error| self.unattachable(error.obstacle()))
    }

    /// Opens the run's sink, or passes what is known by now to the one that it has.
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
        // But for what it is called its attributes are not needed here any more.
        let mut resource = identity.resource;
        resource.retain(|attribute| attribute.key == SERVICE_NAME.name);
        resource.shrink_to_fit();
        self.sketch = Identity { resource, ..identity };
        Ok(())
    }

    fn unattachable(&mut self, obstacle: Obstacle) -> End {
        if obstacle.reason == Reason::Exited {
            // Retried shortly; then the process is gone, or answers.
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
