//! Discovers the runs and executes one task for each.
//!
//! ```text
//! directories (inotify) --+
//! new processes (threads) +
//! reverse (arrivals) -----+--> scans: what to look at, when --> look --> found: the registry's runs --> tasks
//! time, new options ------+
//! ```
//!
//! [`Supervisor::step`] waits for the next event and handles it. The clock is read only here and in `tasks`.

mod directories;
mod found;
mod known;
mod scans;
mod tasks;

use std::collections::HashMap;
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use base::run_key::RunKey;
use dotnet_diagnostics::discovery::SocketName;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, watch};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use crate::alive::HEARTBEAT_INTERVAL;
use crate::buffer::SharedBuffer;
use crate::filter::asks_for_environment;
use crate::host::Host;
use crate::lease::Leases;
use crate::look::ScanResult;
use crate::new_processes::{self, NewProcesses};
use crate::options::TargetOptions;
use crate::others::WatchedProcesses;
use crate::registry::Registry;
use crate::reverse::{Arrival, Listening};
use crate::rounds::Readers;
use crate::shared::Shared;
use crate::sink::Sink;
use crate::supervise::directories::WatchedDirectories;
use crate::supervise::known::KnownRun;
use crate::supervise::scans::Scans;
use crate::supervise::tasks::{TaskOutcome, Tasks};
use crate::threads::Threads;
use crate::watch::Changes;

/// Maximum number of tasks that inspect their processes at the same time.
const INSPECTIONS: usize = 8;

/// Sessions that were not stopped cleanly.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UnfinishedSessions {
    /// Pid, name and problem of each session.
    pub sessions: Vec<(u32, String, String)>,
}

/// Discovers .NET processes and reads their collections with `readers` until `shutdown` completes. Then stops and
/// drains all sessions concurrently, each within 3 s.
///
/// Changed options end the session of a process only if they exclude the process. Filters and limits take effect
/// immediately, and session settings with the next session.
///
/// # Panics
///
/// Panics outside a tokio runtime with I/O and time.
pub async fn supervise<S: Sink>(
    options: watch::Receiver<Arc<TargetOptions>>,
    sink: S,
    readers: Readers,
    shutdown: impl Future<Output = ()>,
) -> UnfinishedSessions {
    let alive = readers.alive();
    let mut supervisor = Supervisor::new(options, sink, readers).await;
    let mut shutdown = pin!(shutdown);
    let mut says = interval(HEARTBEAT_INTERVAL);
    says.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let shared = Arc::clone(&supervisor.shared);
    // No look and no healing starts after shutdown has begun.
    let mut looks = Box::pin(shared.watching.run());
    loop {
        supervisor.start_what_is_due(Instant::now());
        tokio::select! {
            () = &mut shutdown => break,
            now = says.tick() => alive.supervisor(now),
            () = supervisor.step() => {}
            () = &mut looks => {}
        }
    }
    drop(looks);
    supervisor.shut_down().await
}

struct Supervisor<S: Sink> {
    options: watch::Receiver<Arc<TargetOptions>>,
    shared: Arc<Shared<S>>,
    registry: Registry<KnownRun<S::Run>>,
    tasks: Tasks<S::Run>,
    directories: WatchedDirectories,
    scans: Scans,
    listening: Listening,
    new_processes: NewProcesses,
    /// Runtimes that connected to gcwatch and whose processes have not been scanned yet.
    arrivals: HashMap<u32, Arrival>,
    unfinished: UnfinishedSessions,
}

/// Event that woke the supervisor.
enum WakeEvent<T> {
    Changes(std::io::Result<Changes>),
    Looked(Option<ScanResult>),
    NewProcesses(Vec<u32>),
    Arrived(Arrival),
    Ended(RunKey, TaskOutcome<T>),
    Options,
    Time,
}

impl<S: Sink> Supervisor<S> {
    async fn new(options: watch::Receiver<Arc<TargetOptions>>, sink: S, readers: Readers) -> Self {
        let leases = Leases::new(options.borrow().lease_folder.clone());
        let watching = WatchedProcesses::default();
        watching.set_leases(leases.clone());
        let host = spawn_blocking(move || {
            leases.sweep();
            Host::read()
        });
        let host = host.await.unwrap_or_default();
        let threads = Threads::default();
        let shared = Shared {
            sink,
            host,
            inspections: Semaphore::new(INSPECTIONS),
            lease_reported: AtomicBool::new(false),
            readers,
            threads: threads.clone(),
            named: Mutex::default(),
            commands: Handle::current(),
            memory: Arc::default(),
            watching,
            buffer: SharedBuffer::default(),
        };
        let mut supervisor = Self {
            options,
            shared: Arc::new(shared),
            registry: Registry::default(),
            tasks: Tasks::new(),
            directories: WatchedDirectories::new(),
            scans: Scans::new(Instant::now(), threads),
            listening: Listening::default(),
            new_processes: new_processes::watch(),
            arrivals: HashMap::new(),
            unfinished: UnfinishedSessions::default(),
        };
        let options = supervisor.options.borrow_and_update().clone();
        supervisor.take_options(&options);
        supervisor
    }

    /// Waits for the next event and handles it. This method is cancel safe because all waits in this method are cancel
    /// safe.
    async fn step(&mut self) {
        let woken = self.woken().await;
        let now = Instant::now();
        match woken {
            WakeEvent::Changes(Ok(changes)) => self.take_changes(&changes),
            WakeEvent::Changes(Err(error)) => self.directories.give_up(&error),
            WakeEvent::Looked(Some(look)) => self.take_look(look),
            WakeEvent::Looked(None) => log!(error: "the scan of /proc failed"),
            WakeEvent::NewProcesses(pids) => self.scans.request.pids.extend(pids),
            WakeEvent::Arrived(arrival) => self.take_arrival(arrival),
            WakeEvent::Ended(key, outcome) => self.take_ended(key, outcome, now),
            WakeEvent::Options => {
                let options = self.options.borrow_and_update().clone();
                self.take_options(&options);
                self.scans.judge_all();
            }
            WakeEvent::Time => self.scans.check(now),
        }
        let options = self.options.borrow().clone();
        let known = self.registry.iter().map(|(key, entry)| (key, entry.run.visible));
        let connected = self.arrivals.keys().copied();
        let watches = self.directories.watches();
        self.scans.begin_if_due(now, &options, watches, known, connected);
    }

    async fn woken(&mut self) -> WakeEvent<S::Run> {
        let now = Instant::now();
        let scan = self.scans.next_due(now);
        let wake_at = self.registry.next_due().map_or(scan, |due| due.min(scan));
        let options = &mut self.options;
        let new_options = async {
            match options.changed().await {
                Ok(()) => {}
                // The sender of options was dropped; the current options stay in effect.
                Err(_) => std::future::pending().await,
            }
        };
        tokio::select! {
            changes = self.directories.changed() => WakeEvent::Changes(changes),
            looked = self.scans.ended() => WakeEvent::Looked(looked),
            pids = self.new_processes.found() => WakeEvent::NewProcesses(pids),
            arrival = self.listening.arrived() => WakeEvent::Arrived(arrival),
            Some((key, outcome)) = self.tasks.ended() => WakeEvent::Ended(key, outcome),
            () = new_options => WakeEvent::Options,
            () = sleep_until(wake_at) => WakeEvent::Time,
        }
    }

    fn take_changes(&mut self, changes: &Changes) {
        let request = &mut self.scans.request;
        request.all |= changes.overflow;
        // The name contains the pid in the process's own namespace, which is usually the namespace of gcwatch. The scan
        // checks the pid.
        request.pids.extend(changes.made.iter().map(|name| name.pid));
        for (key, entry) in self.registry.iter() {
            let name = SocketName {
                pid: entry.run.identity.ns_pid.unwrap_or(key.pid),
                key: key.start_time,
            };
            if changes.deleted.contains(&name) {
                request.pids.insert(key.pid);
            }
        }
        request.all |= !changes.made.is_empty() && has_foreign_namespaces(&self.registry);
    }

    /// Handles a runtime that connected to gcwatch. Its process is scanned first, like any other.
    fn take_arrival(&mut self, arrival: Arrival) {
        match arrival.pid {
            Some(pid) => {
                self.scans.request.pids.insert(pid);
                self.arrivals.insert(pid, arrival);
            }
            // Dropping the arrival resumes the runtime.
            None => log!(
                warn: "a runtime connected, but gcwatch cannot see its process; it is resumed and not read; \
                 share the host's pid namespace"
            ),
        }
    }

    fn take_options(&mut self, options: &TargetOptions) {
        self.listening.listen(options.listen.as_deref());
        if asks_for_environment(options) {
            log!(
                info: "targets.include and targets.exclude match environment variables; processes whose environment is unreadable do not match"
            );
        }
    }
}

/// Returns whether a process in another pid namespace is known. If so, the pids in the names of new sockets can be pids
/// of another namespace.
fn has_foreign_namespaces<T>(registry: &Registry<KnownRun<T>>) -> bool {
    let foreign = |key: RunKey, ns_pid: Option<u32>| ns_pid.is_some_and(|pid| pid != key.pid);
    registry
        .iter()
        .any(|(key, entry)| foreign(key, entry.run.identity.ns_pid))
}
