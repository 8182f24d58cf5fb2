//! The task of one run: one attempt to attach, and the session that comes of it, from its first byte to its last.
//!
//! # A process that is out of memory
//!
//! The first session with the runtime's provider makes CoreCLR run managed code on the thread that answers commands
//! (`EventSource.DoCommand`). While the heap is full to its hard limit, that code can fail and end the *process*: "Out of memory.", or a
//! stack overflow in the making of the message. Seen on 10.0.14 in 4 of 8 processes at their limit, and on 10.0.0; not in 6 of 6 (10.0.14)
//! that had had a session before their heap was full, nor with a session of the rundown provider alone (3 of 3). Collections need the
//! runtime's provider, so that what helps is to attach early: a new socket is noticed at once, and a session that has begun is kept. The
//! settings' own session has no part in it, comes second, and is not begun while memory is scarce.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, ready};
use std::time::Duration;

use clr_gc::stream::GcStream;
use dotnet_diagnostics::discovery::{Obstacle, Process, Reason, Scan, SocketName};
use dotnet_diagnostics::message::SessionConfig;
use dotnet_diagnostics::{Client, Deadlines, Endpoint, Error, Session};
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, oneshot, watch};
use tokio::task::{JoinHandle, JoinSet, spawn_blocking};
use tokio::time::{sleep_until, timeout};
use tracing::Instrument as _;

use crate::process::text::bounded;
use crate::process::{Identity, RunKey, RunState};
use crate::targets::facts::Facts;
use crate::targets::host::Host;
use crate::targets::identity::identity;
use crate::targets::lease::{Lease, Leases, NoLease};
use crate::targets::look::scan;
use crate::targets::options::TargetOptions;
use crate::targets::reading::Reading;
use crate::targets::rounds::Readers;
use crate::targets::settings::{self, GcSettings};
use crate::targets::sink::{RunSink, Sink};

/// How much is read at once; a runtime writes a few kilobytes per collection.
pub(crate) const READ_BYTES: usize = 64 << 10;
/// How long a session may take to end once it is told to.
pub(crate) const STOP_WITHIN: Duration = Duration::from_secs(3);
/// How long after its beginning a session is followed by the one that reads the settings.
const SETTINGS_AFTER: Duration = Duration::from_secs(1);

/// How long a look at one process may take; it is a few files of `/proc`, and the open of its socket.
const LOOK_WITHIN: Duration = Duration::from_secs(5);

/// What a task is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// To read.
    Read,
    /// To stop the session: the daemon ends.
    ShutDown,
    /// To stop the session: the configuration leaves the process out now.
    LeaveOut,
}

/// What is kept of a run from one attempt to the next.
#[derive(Debug)]
pub(crate) struct Kept<T> {
    /// Where it tells; `None` before it was attached to.
    pub(crate) told: Option<T>,
    /// That it is ours to read.
    pub(crate) lease: Option<Lease>,
    /// The settings were read, or cannot be.
    pub(crate) settings_read: bool,
    /// What was said last, so that it is said once.
    pub(crate) said: Option<RunState>,
    /// A look that has not come back: its files block, and another look would block another thread.
    looking: Option<JoinHandle<Result<Found, Error>>>,
}

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Self {
            told: None,
            lease: None,
            settings_read: false,
            said: None,
            looking: None,
        }
    }
}

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum End {
    /// The process has ended.
    Gone,
    /// It was not attached to, or not well: to be tried again.
    Again {
        /// The session lived for so long before.
        lived: Duration,
    },
    /// It was told to stop, and did. A text: it did not end in order.
    Stopped(Option<String>),
}

/// What all tasks share.
#[derive(Debug)]
pub(crate) struct Shared<S> {
    pub(crate) sink: S,
    pub(crate) host: Host,
    /// Looks into `/proc` at a time: each takes a thread.
    pub(crate) looks: Semaphore,
    /// That leases cannot be taken was said.
    pub(crate) lease_said: AtomicBool,
    pub(crate) readers: Readers,
    /// Where commands are given to runtimes: at once, not in rounds.
    pub(crate) commands: Handle,
    /// What all sessions are read through, [`READ_BYTES`] long.
    pub(crate) buffer: Mutex<Box<[u8]>>,
}

/// One attempt.
#[derive(Debug)]
pub(crate) struct Attempt<S: Sink> {
    pub(crate) shared: Arc<Shared<S>>,
    pub(crate) options: Arc<TargetOptions>,
    pub(crate) leases: Leases,
    pub(crate) sketch: Identity,
    pub(crate) kept: Kept<S::Run>,
    pub(crate) orders: watch::Receiver<Order>,
    /// It is in our `/proc`; else its socket is all that is known of it.
    pub(crate) visible: bool,
    /// Where it connects to us, if it does.
    pub(crate) reverse: Option<Endpoint>,
    /// RunSink when the session has begun or will not: a suspended runtime goes on then.
    pub(crate) begun: Option<oneshot::Sender<()>>,
}

/// What is known of a process when it is attached to.
#[derive(Debug)]
struct Found {
    process: Process,
    facts: Facts,
    lease: Result<Lease, NoLease>,
}

/// A session that has begun.
#[derive(Debug)]
struct Begun {
    session: Session,
    client: Arc<Client>,
    /// What the process's monotonic clock is ahead of ours by.
    ahead_ns: Option<i64>,
}

impl<S: Sink> Attempt<S> {
    /// Makes the attempt. Everything that it met is told to the sink and logged; what is kept comes back. Who it is and its session are asked
    /// for here; the session is read where all are.
    pub(crate) async fn run(mut self) -> (Kept<S::Run>, End) {
        // What it takes to begin, in this future and with it, is not to be kept for as long as the session lasts.
        let begun = match Box::pin(self.begin()).await {
            Ok(begun) => begun,
            Err(end) => return (self.kept, end),
        };
        let executor = self.shared.readers.executor.clone();
        // Whoever ends this ends the reading.
        let mut reading = JoinSet::new();
        reading.spawn_on(self.read(begun), &executor);
        match reading.join_next().await {
            Some(Ok(ended)) => ended,
            Some(Err(error)) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            // Its executor is being shut down.
            Some(Err(_)) | None => (Kept::default(), End::Stopped(None)),
        }
    }

    fn key(&self) -> RunKey {
        self.sketch.key
    }

    /// Looks at the process, and begins the session.
    async fn begin(&mut self) -> Result<Begun, End> {
        let mut orders = self.orders.clone();
        let found = tokio::select! {
            found = self.look() => found?,
            () = told_to_stop(&mut orders) => return Err(End::Stopped(None)),
        };
        let Found { process, facts, lease } = found;
        match lease {
            Ok(lease) => self.kept.lease = Some(lease),
            Err(NoLease::Held { holder }) => {
                self.say(RunState::HeldElsewhere { holder });
                return Err(End::Again { lived: Duration::ZERO });
            }
            Err(problem @ NoLease::NoFolder { .. }) => {
                if !self.shared.lease_said.swap(true, Ordering::Relaxed) {
                    tracing::warn!(target: "gcwatch::targets", "{problem}; another gcwatch on this host might tell the same processes");
                }
            }
        }
        let endpoint = match (Endpoint::of(&process), self.reverse.clone()) {
            (Ok(endpoint), _) | (Err(_), Some(endpoint)) => endpoint,
            (Err(error), None) => return Err(self.unattachable(error.obstacle())),
        };
        let deadlines = Deadlines {
            stop: STOP_WITHIN,
            ..Deadlines::default()
        };
        let client = Arc::new(Client::with_deadlines(endpoint, deadlines));
        self.say(RunState::Attaching);
        let attached = {
            let span = tracing::info_span!(target: "gcwatch::targets", "attach", pid = process.pid, name = %bounded(&process.name));
            let mut attaching = pin!(self.attach(&client, &process, &facts).instrument(span));
            tokio::select! {
                attached = &mut attaching => Some(attached),
                // A command that is under way is not left alone: its session would stay in the process until the next collection.
                () = told_to_stop(&mut orders) => timeout(STOP_WITHIN, attaching).await.ok(),
            }
        };
        let session = match attached {
            Some(attached) => attached?,
            None => {
                return Err(End::Stopped(Some(
                    "a session was being started; whether it was is not known".to_owned(),
                )));
            }
        };
        if let Some(begun) = self.begun.take() {
            // Whoever waits for it may have given up.
            let _waiting = begun.send(());
        }
        Ok(Begun {
            session,
            client,
            ahead_ns: facts.monotonic_ahead_ns,
        })
    }

    /// Looks at the process as it is now, and takes the lease.
    async fn look(&mut self) -> Result<Found, End> {
        let shared = Arc::clone(&self.shared);
        let _permit = shared.looks.acquire().await;
        let (key, leases) = (self.key(), self.leases.clone());
        let (held, looking) = (self.kept.lease.take(), self.kept.looking.take());
        let (options, visible) = (Arc::clone(&self.options), self.visible);
        let mut looking =
            looking.unwrap_or_else(|| spawn_blocking(move || look(key, visible, held, &leases, &options)));
        let Ok(looked) = timeout(LOOK_WITHIN, &mut looking).await else {
            self.kept.looking = Some(looking);
            let detail = format!("looking at its files took more than {LOOK_WITHIN:?}");
            return Err(self.unattachable_because(Reason::Silent.as_str(), detail));
        };
        match looked {
            Ok(Ok(found)) if found.process.start_time == key.start_time => Ok(found),
            Ok(Ok(_) | Err(Error::NoProcess { .. })) => Err(End::Gone),
            Ok(Err(error)) => Err(self.unattachable(error.obstacle())),
            Err(failed) => {
                let detail = format!("looking at it failed: {failed}");
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
            if let Ok(Some(evidence)) = spawn_blocking(move || Scan::host().runtime_library(pid)).await {
                process.evidence = Some(evidence);
            }
        }
        let (identity, bad) = identity(&process, facts, info.as_ref(), &self.shared.host);
        if let (Some(bad), None) = (bad, &self.kept.told) {
            tracing::warn!(target: "gcwatch::targets", pid = process.pid, name = %bounded(&identity.name), "{bad}; none of it is used");
        }
        self.open(identity)?;
        let config = SessionConfig {
            buffer_mb: self.options.buffer_mb,
            ..SessionConfig::garbage_collection()
        };
        let session = client.collect_tracing(&config).await;
        session.map_err(|error| self.unattachable(error.obstacle()))
    }

    /// Where it tells from now on.
    fn open(&mut self, identity: Identity) -> Result<(), End> {
        if let Some(told) = &mut self.kept.told {
            told.learned(identity.runtime.clone(), identity.resource.clone());
        } else {
            match self.shared.sink.open(identity.clone()) {
                Ok(mut told) => {
                    told.state(RunState::Attaching);
                    self.kept.told = Some(told);
                }
                Err(full) => {
                    self.say(RunState::OverLimit);
                    tracing::debug!(target: "gcwatch::targets", pid = identity.key.pid, "{full}");
                    return Err(End::Again { lived: Duration::ZERO });
                }
            }
        }
        // Its attributes are of no use here any more.
        let resource = Vec::new();
        self.sketch = Identity { resource, ..identity };
        Ok(())
    }

    /// Reads the session to its end.
    async fn read(mut self, begun: Begun) -> (Kept<S::Run>, End) {
        let end = self.read_to_end(begun).await;
        (self.kept, end)
    }

    async fn read_to_end(&mut self, begun: Begun) -> End {
        let Begun {
            mut session,
            client,
            ahead_ns,
        } = begun;
        if let Err(error) = session.move_here() {
            return self.unattachable(error.obstacle());
        }
        let Some(told) = self.kept.told.take() else {
            return End::Again { lived: Duration::ZERO };
        };
        let version = self
            .sketch
            .runtime
            .clone()
            .unwrap_or_else(|| "of unknown version".to_owned());
        let mut reading = Reading::new(told, ahead_ns, Arc::clone(&self.shared.readers.rounds));
        if self.options.read_settings && !self.kept.settings_read {
            reading.settings_at = Some(reading.since + SETTINGS_AFTER);
        }
        let mut settings: Option<JoinHandle<_>> = None;
        reading.told.state(RunState::Attached);
        if self.kept.said.replace(RunState::Attached) != Some(RunState::Attached) {
            tracing::info!(
                target: "gcwatch::targets", pid = self.key().pid, name = %bounded(&self.sketch.name), "attached, .NET {version}"
            );
        }
        let mut order = Order::Read;
        let mut broken = None;
        let ended = loop {
            let timer = reading.next_timer();
            let timer = async {
                match timer {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                read = read_shared(&mut session, &self.shared.buffer, &mut reading.stream), if !reading.rests() => match read {
                    Ok(0) => break Ok(()),
                    Ok(n) => if let Err(error) = reading.take(n) {
                        broken = Some(error.to_string());
                        break Ok(());
                    },
                    Err(error) => break Err(error),
                },
                () = told_to_stop(&mut self.orders), if order == Order::Read => {
                    order = *self.orders.borrow();
                    session.request_stop();
                    reading.hurry();
                }
                () = timer => {
                    if let Err(error) = reading.tick() {
                        broken = Some(error.to_string());
                        break Ok(());
                    }
                    if reading.settings_are_due() && order == Order::Read {
                        // A task of its own: its session is ended also when nobody waits for it any more.
                        settings = Some(self.shared.commands.spawn(settings::read(Arc::clone(&client))));
                    }
                }
                read = joined(&mut settings) => {
                    settings = None;
                    self.kept.settings_read = true;
                    self.take_settings(&mut reading, read);
                }
            }
        };
        let lived = reading.since.elapsed();
        if let Some(settings) = settings {
            // Its session is to be over, too.
            let _told = timeout(STOP_WITHIN, settings).await;
        }
        let in_order = if let Some(problem) = broken.clone() {
            // The bytes that still come are of no use; the session must not stay in the process.
            let drained = timeout(STOP_WITHIN, session.drain(|_| ())).await;
            drop(drained);
            Err(problem)
        } else {
            let finished = reading.finish();
            let stopped = session.stopped().await;
            // A process that ends while it is being stopped answers no more; its stream has said all.
            match (ended, finished, stopped) {
                (Err(error), _, _) => Err(error.to_string()),
                (Ok(()), Err(error), _) => Err(error.to_string()),
                (Ok(()), Ok(()), _) => Ok(()),
            }
        };
        self.kept.told = Some(reading.told);
        match order {
            Order::Read => {
                let detail = match &in_order {
                    Err(_) if broken.is_some() => "its stream is damaged; it is attached to again".to_owned(),
                    Err(problem) => bounded(problem),
                    Ok(()) => "the runtime ended the session; it is attached to again if the process lives".to_owned(),
                };
                if let Err(problem) = &in_order {
                    tracing::warn!(
                        target: "gcwatch::targets",
                        pid = self.key().pid, name = %bounded(&self.sketch.name), "the session failed: {}", bounded(problem)
                    );
                }
                self.say(RunState::Detached { detail });
                let lived = if broken.is_some() { Duration::ZERO } else { lived };
                End::Again { lived }
            }
            Order::ShutDown | Order::LeaveOut => {
                let detail = "gcwatch ended the session".to_owned();
                self.say(RunState::Detached { detail });
                End::Stopped(in_order.err())
            }
        }
    }

    fn take_settings(&self, reading: &mut Reading<S::Run>, read: Result<Option<GcSettings>, String>) {
        match read {
            Ok(Some(settings)) => reading.told.learned(None, settings.attributes()),
            Ok(None) => {}
            Err(problem) => tracing::debug!(
                target: "gcwatch::targets", pid = self.key().pid, "its GC settings cannot be read: {}", bounded(&problem)
            ),
        }
    }

    fn unattachable(&mut self, obstacle: Obstacle) -> End {
        if obstacle.reason == Reason::Exited {
            // Tried again shortly; then it is gone, or answers.
            return End::Again { lived: Duration::ZERO };
        }
        self.unattachable_because(obstacle.reason.as_str(), obstacle.sentence())
    }

    fn unattachable_because(&mut self, reason: &str, detail: String) -> End {
        self.say(RunState::Unattachable {
            reason: reason.to_owned(),
            detail,
        });
        End::Again { lived: Duration::ZERO }
    }

    fn say(&mut self, state: RunState) {
        say(&self.shared.sink, &self.sketch, &mut self.kept, state);
    }
}

/// Reads from a session into a stream, by a buffer that many sessions share: it is locked only while bytes are moved
/// through it, never while they are waited for.
async fn read_shared(session: &mut Session, buffer: &Mutex<Box<[u8]>>, stream: &mut GcStream) -> Result<usize, Error> {
    poll_fn(|cx| {
        let mut buffer = buffer.lock().unwrap_or_else(PoisonError::into_inner);
        let count = ready!(session.poll_read(cx, &mut buffer))?;
        stream.push(buffer.get(..count).unwrap_or_default());
        Poll::Ready(Ok(count))
    })
    .await
}

/// Waits for the settings, if they are being read.
async fn joined(
    settings: &mut Option<JoinHandle<Result<Option<GcSettings>, Error>>>,
) -> Result<Option<GcSettings>, String> {
    match settings {
        Some(settings) => match settings.await {
            Ok(read) => read.map_err(|error| error.to_string()),
            Err(failed) => Err(failed.to_string()),
        },
        None => std::future::pending().await,
    }
}

/// Tells what is done with a run; logged when it is something else than the last time.
pub(crate) fn say<S: Sink>(sink: &S, identity: &Identity, kept: &mut Kept<S::Run>, state: RunState) {
    match &mut kept.told {
        Some(told) => told.state(state.clone()),
        None => sink.note(identity, state.clone()),
    }
    // That it is tried again is no news.
    if state == RunState::Attaching {
        return;
    }
    let same = |said: &RunState| match (said, &state) {
        // The sentence may hold numbers that change.
        (RunState::Unattachable { reason: said, .. }, RunState::Unattachable { reason, .. }) => said == reason,
        (said, state) => said == state,
    };
    if kept.said.as_ref().is_some_and(same) {
        return;
    }
    let (pid, name) = (identity.key.pid, bounded(&identity.name));
    match &state {
        RunState::Unattachable { reason, detail } => {
            tracing::warn!(target: "gcwatch::targets", pid, name, reason, "cannot attach: {}", bounded(detail));
        }
        RunState::HeldElsewhere { holder } => {
            tracing::info!(target: "gcwatch::targets", pid, name, "{} reads it", bounded(holder));
        }
        RunState::OverLimit => {
            tracing::warn!(target: "gcwatch::targets", pid, name, "there are as many processes as may be")
        }
        RunState::Excluded => tracing::info!(target: "gcwatch::targets", pid, name, "left out by the configuration"),
        RunState::Detached { detail } => {
            tracing::info!(target: "gcwatch::targets", pid, name, "detached: {}", bounded(detail))
        }
        RunState::Ended => tracing::info!(target: "gcwatch::targets", pid, name, "it has ended"),
        RunState::Found | RunState::Attaching | RunState::Attached => {}
    }
    kept.said = Some(state);
}

/// Looks at a process as it is now, and takes the lease unless it is held; blocking.
fn look(
    key: RunKey,
    visible: bool,
    held: Option<Lease>,
    leases: &Leases,
    options: &TargetOptions,
) -> Result<Found, Error> {
    let scan = scan(options);
    let process = if visible {
        scan.inspect(key.pid)?
    } else {
        let name = SocketName {
            pid: key.pid,
            key: key.start_time,
        };
        scan.inspect_named(name).ok_or(Error::NoProcess { pid: key.pid })?
    };
    let facts = Facts::of(&process);
    let lease = if process.start_time == key.start_time {
        held.map_or_else(|| leases.take(key, process.uid), Ok)
    } else {
        // Another process has its pid by now: nothing is taken for it.
        Err(NoLease::Held { holder: String::new() })
    };
    Ok(Found { process, facts, lease })
}

/// Waits until something else than reading is ordered; a supervisor that is gone orders to stop.
async fn told_to_stop(orders: &mut watch::Receiver<Order>) {
    let _gone = orders.wait_for(|order| *order != Order::Read).await;
}
