//! Finds the runs, and has one task for each.

use std::collections::{BTreeSet, HashMap};
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use dotnet_diagnostics::Endpoint;
use dotnet_diagnostics::discovery::SocketName;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, oneshot, watch};
use tokio::task::{Id, JoinError, JoinHandle, JoinSet, spawn_blocking};
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::process::text::bounded;
use crate::process::{Identity, RunKey, RunState};
use crate::targets::backoff::GOOD_LIFE;
use crate::targets::filter::asks_for_environment;
use crate::targets::host::Host;
use crate::targets::identity::{key_of, sketch};
use crate::targets::lease::Leases;
use crate::targets::look::{Asked, Directories, LOOK_WITHIN, Look, Seen, look};
use crate::targets::options::TargetOptions;
use crate::targets::registry::{Phase, Registry};
use crate::targets::reverse::{Arrival, Listening};
use crate::targets::rounds::Readers;
use crate::targets::session::{Attempt, End, Kept, Order, READ_BYTES, STOP_WITHIN, Shared, say};
use crate::targets::sink::{RunSink, Sink};
use crate::targets::watch::{Changes, NotWatched, SocketWatch};

/// Shortest time between two looks through all of `/proc` for the sake of events: anybody may make files in `/tmp`.
const SCAN_PAUSE: Duration = Duration::from_secs(2);
/// How often `/proc` is read when directories cannot be watched, at most.
const SCAN_UNWATCHED: Duration = Duration::from_secs(5);
/// How many tasks look at their processes at the same time.
const LOOKS: usize = 8;
/// What the tasks have on top of [`STOP_WITHIN`] when all is ended.
const STOP_GRACE: Duration = Duration::from_secs(1);

/// Sessions that did not end in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Unfinished {
    /// Pid, name and what happened of each.
    pub sessions: Vec<(u32, String, String)>,
}

/// Finds .NET processes and has their collections read by `readers` until `shutdown`, and then stops and drains every session, all at the same time,
/// each within 3 s.
///
/// New options are followed without ending a session that they leave in: filters and limits at once, what concerns a session from its
/// next one on.
///
/// # Panics
///
/// Outside of a tokio runtime with I/O and time.
pub async fn supervise<S: Sink>(
    options: watch::Receiver<Arc<TargetOptions>>,
    sink: S,
    readers: Readers,
    shutdown: impl Future<Output = ()>,
) -> Unfinished {
    let mut supervisor = Supervisor::new(options, sink, readers).await;
    let mut shutdown = pin!(shutdown);
    loop {
        supervisor.start_what_is_due();
        tokio::select! {
            () = &mut shutdown => break,
            () = supervisor.step() => {}
        }
    }
    supervisor.shut_down().await
}

/// What is kept of a run beside its phase.
#[derive(Debug)]
struct Known<T> {
    identity: Identity,
    /// With its task while that runs.
    kept: Option<Kept<T>>,
    orders: Option<watch::Sender<Order>>,
    /// Something was seen that said it had ended; asked again when its task is over.
    looked_gone: bool,
    /// It is in our `/proc`.
    visible: bool,
    /// Where it connects to us, if it does.
    reverse: Option<Endpoint>,
    /// It waits to be resumed: sent when its session has begun, dropped when it is to have none.
    begun: Option<oneshot::Sender<()>>,
}

/// What to look at.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Wish {
    all: bool,
    pids: BTreeSet<u32>,
}

struct Supervisor<S: Sink> {
    options: watch::Receiver<Arc<TargetOptions>>,
    shared: Arc<Shared<S>>,
    registry: Registry<Known<S::Run>>,
    tasks: JoinSet<(Kept<S::Run>, End)>,
    task_runs: HashMap<Id, RunKey>,
    watch: Option<SocketWatch>,
    /// One sentence about watching was said.
    watch_said: bool,
    wish: Wish,
    all_again: bool,
    look: Option<UnderWay>,
    /// Processes that a look did not come back from.
    stuck: BTreeSet<u32>,
    listening: Listening,
    /// Runtimes that connected to us, until their processes were looked at.
    arrivals: HashMap<u32, Arrival>,
    scan_at: Instant,
    scanned_at: Option<Instant>,
    unfinished: Unfinished,
}

/// A look that is under way.
#[derive(Debug)]
struct UnderWay {
    task: JoinHandle<Look>,
    until: Instant,
    /// The process that is looked at.
    at: Arc<AtomicU32>,
}

/// A task that is over: what is kept of its run, and how it ended.
type Ended<T> = Result<(Id, (Kept<T>, End)), JoinError>;

/// What woke the supervisor.
enum Woken<T> {
    Changes(std::io::Result<Changes>),
    Looked(Result<Look, JoinError>),
    Arrived(Arrival),
    Ended(Ended<T>),
    Options(bool),
    Time,
}

impl<S: Sink> Supervisor<S> {
    async fn new(options: watch::Receiver<Arc<TargetOptions>>, sink: S, readers: Readers) -> Self {
        let leases = Leases::new(options.borrow().lease_folder.clone());
        let host = spawn_blocking(move || {
            leases.sweep();
            Host::read()
        });
        let host = host.await.unwrap_or_default();
        let shared = Shared {
            sink,
            host,
            looks: Semaphore::new(LOOKS),
            lease_said: AtomicBool::new(false),
            readers,
            commands: Handle::current(),
            buffer: Mutex::new(vec![0; READ_BYTES].into_boxed_slice()),
        };
        let mut supervisor = Self {
            options,
            shared: Arc::new(shared),
            registry: Registry::default(),
            tasks: JoinSet::new(),
            task_runs: HashMap::new(),
            watch: None,
            watch_said: false,
            wish: Wish::default(),
            all_again: false,
            look: None,
            stuck: BTreeSet::new(),
            listening: Listening::default(),
            arrivals: HashMap::new(),
            scan_at: Instant::now(),
            scanned_at: None,
            unfinished: Unfinished::default(),
        };
        match SocketWatch::new() {
            Ok(watch) => supervisor.watch = Some(watch),
            Err(error) => supervisor.not_watched(&error.to_string()),
        }
        let options = supervisor.options.borrow_and_update().clone();
        supervisor.take_options(&options);
        supervisor
    }

    /// Waits for the next thing that happens, and does what it asks for. Cancel safe: what it waits for is.
    async fn step(&mut self) {
        match self.woken().await {
            Woken::Changes(Ok(changes)) => self.take_changes(&changes),
            Woken::Changes(Err(error)) => {
                self.watch = None;
                self.not_watched(&error.to_string());
            }
            Woken::Looked(Ok(look)) => self.take_look(look),
            Woken::Looked(Err(error)) => {
                tracing::error!(target: "gcwatch::targets", "the look through /proc failed: {error}")
            }
            Woken::Arrived(arrival) => self.take_arrival(arrival),
            Woken::Ended(ended) => self.take_end(ended),
            Woken::Options(true) => {
                let options = self.options.borrow_and_update().clone();
                self.take_options(&options);
                self.wish.all = true;
                self.all_again = true;
            }
            // Whoever gives options is gone: these stay.
            Woken::Options(false) => {}
            Woken::Time => self.give_up_look(),
        }
        self.look_if_wished();
    }

    async fn woken(&mut self) -> Woken<S::Run> {
        let wake_at = self.wake_at();
        let watch = self.watch.as_mut();
        let looking = self.look.as_mut();
        let changes = async {
            match watch {
                Some(watch) => watch.changed().await,
                None => std::future::pending().await,
            }
        };
        let looked = async {
            match looking {
                Some(look) => (&mut look.task).await,
                None => std::future::pending().await,
            }
        };
        let options = &mut self.options;
        let new_options = async {
            match options.changed().await {
                Ok(()) => true,
                Err(_) => std::future::pending().await,
            }
        };
        tokio::select! {
            changes = changes => Woken::Changes(changes),
            looked = looked => {
                self.look = None;
                Woken::Looked(looked)
            }
            arrival = self.listening.arrived() => Woken::Arrived(arrival),
            Some(ended) = self.tasks.join_next_with_id() => Woken::Ended(ended),
            new = new_options => Woken::Options(new),
            () = sleep_until(wake_at) => Woken::Time,
        }
    }

    fn wake_at(&self) -> Instant {
        // While a look is under way, the next one waits for it.
        let scan = match &self.look {
            Some(look) => Some(look.until),
            None => Some(self.next_scan()),
        };
        let far = Instant::now() + Duration::from_secs(3600);
        let times = [scan, self.registry.next_due()];
        times.into_iter().flatten().min().unwrap_or(far)
    }

    fn next_scan(&self) -> Instant {
        if !self.wish.all {
            return self.scan_at;
        }
        self.scanned_at
            .map_or_else(Instant::now, |at| at + SCAN_PAUSE)
            .min(self.scan_at)
    }

    fn take_changes(&mut self, changes: &Changes) {
        self.wish.all |= changes.overflow;
        // The name has the pid in the process's own namespace, which mostly is ours; the look says whether it was it.
        for name in &changes.made {
            self.wish.pids.insert(name.pid);
        }
        for (key, entry) in self.registry.iter() {
            let name = SocketName {
                pid: entry.kept.identity.ns_pid.unwrap_or(key.pid),
                key: key.start_time,
            };
            if changes.deleted.contains(&name) {
                self.wish.pids.insert(key.pid);
            }
        }
        self.wish.all |= !changes.made.is_empty() && self.has_foreign_namespaces();
    }

    /// A runtime connected to us: its process is looked at first, like any other.
    fn take_arrival(&mut self, arrival: Arrival) {
        match arrival.pid {
            Some(pid) => {
                self.wish.pids.insert(pid);
                self.arrivals.insert(pid, arrival);
            }
            // Dropped: it is resumed.
            None => tracing::warn!(
                target: "gcwatch::targets",
                "a runtime connected whose process is not visible to gcwatch; it is resumed and not read: share the host's pid namespace"
            ),
        }
    }

    /// Whether a process of another pid namespace is known: then names of new sockets may not be pids of ours.
    fn has_foreign_namespaces(&self) -> bool {
        let foreign = |key: RunKey, ns_pid: Option<u32>| ns_pid.is_some_and(|pid| pid != key.pid);
        self.registry
            .iter()
            .any(|(key, entry)| foreign(key, entry.kept.identity.ns_pid))
    }

    /// Begins a look through `/proc`, if one is due and none is under way.
    fn look_if_wished(&mut self) {
        if self.look.is_some() {
            return;
        }
        let now = Instant::now();
        let all = now >= self.next_scan();
        if !all && self.wish.pids.is_empty() {
            return;
        }
        let options = self.options.borrow().clone();
        let pids = std::mem::take(&mut self.wish.pids);
        let known: BTreeSet<RunKey> = self.registry.keys().collect();
        let judge_all = all && std::mem::take(&mut self.all_again);
        let connected = self.arrivals.keys().copied().collect();
        let at = Arc::new(AtomicU32::new(0));
        let asked = Asked {
            all,
            pids,
            known,
            judge_all,
            connected,
            stuck: self.stuck.clone(),
            at: Arc::clone(&at),
        };
        if all {
            self.wish.all = false;
            self.scanned_at = Some(now);
            let interval = match self.watch {
                Some(_) => options.scan_interval,
                None => options.scan_interval.min(SCAN_UNWATCHED),
            };
            self.scan_at = now + interval.max(Duration::from_millis(100));
        }
        self.look = Some(UnderWay {
            task: spawn_blocking(move || look(asked, &options)),
            until: now + LOOK_WITHIN,
            at,
        });
    }

    /// A look that takes too long is at a process whose files block: that one is left out from now on.
    fn give_up_look(&mut self) {
        let now = Instant::now();
        let Some(look) = self.look.take_if(|look| look.until <= now) else {
            return;
        };
        let pid = look.at.load(Ordering::Relaxed);
        tracing::error!(
            target: "gcwatch::targets", pid,
            "looking at this process took more than {LOOK_WITHIN:?}: its files block; it is not looked at again"
        );
        self.stuck.insert(pid);
        self.wish.all = true;
    }

    fn take_look(&mut self, look: Look) {
        for seen in look.seen {
            self.take_seen(&seen);
        }
        for key in look.gone {
            self.take_gone(key);
        }
        // Processes that came and went: nobody is left to be resumed.
        self.arrivals.retain(|pid, _| !look.asked.contains(pid));
        if let Some(pids) = look.all_pids {
            self.stuck.retain(|pid| pids.contains(pid));
            self.shared.sink.scanned();
        }
        if let Some(directories) = look.directories {
            self.watch_directories(&directories);
        }
    }

    fn take_seen(&mut self, seen: &Seen) {
        let arrival = self.arrivals.remove(&seen.process.pid);
        self.take_process(seen);
        let (key, Some(arrival)) = (key_of(&seen.process), arrival) else {
            return;
        };
        let Some(entry) = self.registry.get_mut(key) else {
            return;
        };
        entry.kept.reverse = Some(arrival.endpoint);
        // One that is left out, or attached to already, is resumed at once.
        if matches!(entry.phase, Phase::Ready | Phase::Waiting(_)) {
            entry.kept.begun = Some(arrival.begun);
            self.registry.hurry(key);
        }
    }

    fn take_process(&mut self, seen: &Seen) {
        let (process, key) = (&seen.process, key_of(&seen.process));
        let obstacle = process.obstacle.as_ref();
        let Some(entry) = self.registry.get_mut(key) else {
            let identity = sketch(process);
            let mut kept = Kept::default();
            let phase = match (seen.wanted, obstacle) {
                (Some(false), _) => {
                    say(&self.shared.sink, &identity, &mut kept, RunState::Excluded);
                    Phase::LeftOut
                }
                _ => {
                    say(&self.shared.sink, &identity, &mut kept, RunState::Found);
                    Phase::Ready
                }
            };
            let known = Known {
                identity,
                kept: Some(kept),
                orders: None,
                looked_gone: false,
                visible: process.visible,
                reverse: None,
                begun: None,
            };
            self.registry.insert(key, phase, known);
            return;
        };
        match (seen.wanted, entry.phase) {
            (Some(false), Phase::Running) => {
                if let Some(orders) = &entry.kept.orders {
                    orders.send_replace(Order::LeaveOut);
                }
            }
            (Some(false), Phase::Ready | Phase::Waiting(_)) => {
                entry.phase = Phase::LeftOut;
                entry.kept.begun = None;
                if let Some(kept) = &mut entry.kept.kept {
                    kept.lease = None;
                    say(&self.shared.sink, &entry.kept.identity, kept, RunState::Excluded);
                }
            }
            (Some(true), Phase::LeftOut) => entry.phase = Phase::Ready,
            (_, Phase::Waiting(_)) if obstacle.is_none() => {
                // It could not be attached to for the want of a socket, and now there is one.
                let waits_for_socket = entry.kept.kept.as_ref().is_some_and(|kept| {
                    matches!(&kept.said, Some(RunState::Unattachable { reason, .. }) if WANT_OF_SOCKET.contains(&reason.as_str()))
                });
                if waits_for_socket {
                    self.registry.hurry(key);
                }
            }
            _ => {}
        }
    }

    /// A run is gone. One that is being read tells so itself: its stream ends.
    fn take_gone(&mut self, key: RunKey) {
        let Some(entry) = self.registry.get_mut(key) else {
            return;
        };
        if entry.phase == Phase::Running {
            entry.kept.looked_gone = true;
            return;
        }
        if let Some(entry) = self.registry.remove(key) {
            self.end(entry.kept.identity, entry.kept.kept.unwrap_or_default());
        }
    }

    fn end(&self, identity: Identity, mut kept: Kept<S::Run>) {
        say(&self.shared.sink, &identity, &mut kept, RunState::Ended);
        match kept.told {
            Some(told) => told.end(),
            None => self.shared.sink.forget(identity.key),
        }
    }

    fn take_end(&mut self, ended: Ended<S::Run>) {
        let (id, outcome) = match ended {
            Ok((id, outcome)) => (id, Some(outcome)),
            Err(error) => {
                tracing::error!(target: "gcwatch::targets", "the task of a process failed: {error}");
                (error.id(), None)
            }
        };
        let Some(key) = self.task_runs.remove(&id) else { return };
        let (kept, end) = outcome.unwrap_or_else(|| {
            let failed = End::Again { lived: Duration::ZERO };
            (Kept::default(), failed)
        });
        let Some(entry) = self.registry.get_mut(key) else {
            return;
        };
        entry.kept.orders = None;
        match end {
            End::Gone => {
                if let Some(entry) = self.registry.remove(key) {
                    self.end(entry.kept.identity, kept);
                }
            }
            End::Again { lived } => {
                entry.kept.kept = Some(kept);
                let looked_gone = std::mem::take(&mut entry.kept.looked_gone);
                self.registry
                    .again(key, lived >= GOOD_LIFE, Instant::now(), fastrand::f64());
                if looked_gone {
                    self.wish.pids.insert(key.pid);
                }
            }
            End::Stopped(problem) => {
                if let Some(problem) = problem {
                    let name = bounded(&entry.kept.identity.name);
                    self.unfinished.sessions.push((key.pid, name, bounded(&problem)));
                }
                let mut kept = kept;
                // Left out: another gcwatch may read it.
                kept.lease = None;
                entry.phase = Phase::LeftOut;
                say(&self.shared.sink, &entry.kept.identity, &mut kept, RunState::Excluded);
                entry.kept.kept = Some(kept);
            }
        }
    }

    fn start_what_is_due(&mut self) {
        let options = self.options.borrow().clone();
        let (start, over) = self.registry.due(Instant::now(), options.max_targets);
        for key in start {
            let Some(entry) = self.registry.get_mut(key) else {
                continue;
            };
            let (sender, orders) = watch::channel(Order::Read);
            entry.kept.orders = Some(sender);
            let attempt = Attempt {
                shared: Arc::clone(&self.shared),
                options: Arc::clone(&options),
                leases: Leases::new(options.lease_folder.clone()),
                sketch: entry.kept.identity.clone(),
                kept: entry.kept.kept.take().unwrap_or_default(),
                orders,
                visible: entry.kept.visible,
                reverse: entry.kept.reverse.clone(),
                begun: entry.kept.begun.take(),
            };
            let task = self.tasks.spawn(attempt.run());
            self.task_runs.insert(task.id(), key);
        }
        for key in over {
            let Some(entry) = self.registry.get_mut(key) else {
                continue;
            };
            // It does not stand still until there is room.
            entry.kept.begun = None;
            if let Some(kept) = &mut entry.kept.kept
                && kept.said != Some(RunState::OverLimit)
            {
                say(&self.shared.sink, &entry.kept.identity, kept, RunState::OverLimit);
            }
        }
    }

    fn watch_directories(&mut self, directories: &Directories) {
        let Some(watch) = &mut self.watch else { return };
        watch.keep(&directories.keys().copied().collect());
        let mut problem = None;
        for directory in directories.values() {
            match watch.add(directory) {
                // What was made in it between the look and now is found by another one.
                Ok(true) => self.wish.all = true,
                Ok(false) => {}
                // Not ours to read: the slow scan does.
                Err(NotWatched::System(error)) if error.kind() == std::io::ErrorKind::PermissionDenied => {}
                Err(error) => problem = Some(error.to_string()),
            }
        }
        if let Some(problem) = problem {
            self.not_watched(&problem);
        }
    }

    fn not_watched(&mut self, problem: &str) {
        if !std::mem::replace(&mut self.watch_said, true) {
            tracing::warn!(
                target: "gcwatch::targets",
                "new processes are found by reading /proc alone, because directories cannot be watched: {problem} \
                 (see fs.inotify.max_user_instances and max_user_watches)"
            );
        }
    }

    fn take_options(&mut self, options: &TargetOptions) {
        self.listening.listen(options.listen.as_deref());
        if asks_for_environment(options) {
            tracing::info!(
                target: "gcwatch::targets",
                "filters look at the environment: where it cannot be read, such a condition does not hold"
            );
        }
    }

    /// Stops and drains every session.
    async fn shut_down(mut self) -> Unfinished {
        let deadline = Instant::now() + STOP_WITHIN + STOP_GRACE;
        // Dropped: those that wait are resumed, while the sessions end.
        self.arrivals.clear();
        for key in self.registry.keys().collect::<Vec<_>>() {
            if let Some(entry) = self.registry.get_mut(key) {
                entry.kept.begun = None;
                if let Some(orders) = &entry.kept.orders {
                    orders.send_replace(Order::ShutDown);
                }
            }
        }
        while let Ok(Some(ended)) = timeout_at(deadline, self.tasks.join_next_with_id()).await {
            let Ok((id, (_, End::Stopped(Some(problem))))) = ended else {
                continue;
            };
            if let Some(entry) = self.task_runs.get(&id).and_then(|key| self.registry.get(*key)) {
                let identity = &entry.kept.identity;
                let name = bounded(&identity.name);
                self.unfinished
                    .sessions
                    .push((identity.key.pid, name, bounded(&problem)));
            }
        }
        self.tasks.abort_all();
        while let Some(ended) = self.tasks.join_next_with_id().await {
            let Err(error) = ended else { continue };
            if let Some(key) = self.task_runs.get(&error.id()) {
                let detail = "its task did not end in time".to_owned();
                self.unfinished.sessions.push((key.pid, String::new(), detail));
            }
        }
        self.listening.close().await;
        self.unfinished
    }
}

/// Reasons that a socket's coming takes away.
const WANT_OF_SOCKET: [&str; 7] = [
    "starting",
    "no-socket",
    "unwritable-directory",
    "other-architecture",
    "stale-socket",
    "socket-removed",
    "refused",
];
