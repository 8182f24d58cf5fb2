//! Repeatedly examines the connections of all processes that are read, on a blocking thread.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use dotnet_diagnostics::discovery::{Process, SocketName};
use dotnet_diagnostics::{Connections, Endpoint};
use tokio::sync::Notify;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep, timeout};

use crate::lease::Leases;
use crate::others::ForeignConnections;
use crate::others::tables::{SCAN_INTERVAL, look};

/// Delay after an attach, and after a look that does not count. A runtime closes its ends within milliseconds.
const RESCAN_DELAY: Duration = Duration::from_millis(500);
/// Divisor of the time that looks can take: at most 1/`PARTS` of the time.
const PARTS: u32 = 200;
/// Maximum wait between looks, even if a look takes long. Side effects of a session must be healed within 10 s of its
/// end.
const AT_MOST: Duration = Duration::from_secs(8);
/// Timeout of a look. Afterwards, its results count as unknown.
const SCAN_TIMEOUT: Duration = Duration::from_secs(5);

/// A process that is read, with the state of its connections.
#[derive(Debug)]
pub(crate) struct WatchedProcess {
    /// Pid that locates the process's table; `None` if the process is not visible in gcwatch's `/proc`.
    pub(crate) pid: Option<u32>,
    /// Name of the socket.
    pub(crate) name: SocketName,
    /// Path to which the socket is bound; `None` if unknown.
    pub(crate) path: Option<PathBuf>,
    /// Connections of gcwatch to the process.
    pub(crate) connections: Connections,
    others: Mutex<ForeignConnections>,
    due: Notify,
}

impl WatchedProcess {
    /// Returns `None` if the process has no socket with a runtime's name, for example because it connects to gcwatch.
    fn new(process: &Process, endpoint: &Endpoint) -> Option<Self> {
        let at = Self::at(process.visible.then_some(process.pid), endpoint.address()?.path())?;
        Some(Self {
            connections: endpoint.connections().clone(),
            ..at
        })
    }

    /// Creates the state of a process that listens on this path, without connections of gcwatch. Returns `None` if the
    /// path does not have the name of a runtime's socket.
    pub(crate) fn at(pid: Option<u32>, path: &Path) -> Option<Self> {
        Some(Self {
            pid,
            name: SocketName::parse(path.file_name()?.to_str()?)?,
            path: pid.map(|_| path.to_path_buf()),
            connections: Connections::default(),
            others: Mutex::default(),
            due: Notify::new(),
        })
    }

    pub(crate) fn others(&self) -> MutexGuard<'_, ForeignConnections> {
        self.others.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until a healing is probably due. This method is cancel safe.
    pub(crate) async fn is_due(&self) {
        self.due.notified().await;
    }
}

/// The processes whose connections are tracked.
#[derive(Debug, Default)]
pub(crate) struct WatchedProcesses {
    runs: Mutex<Vec<Weak<WatchedProcess>>>,
    more: Notify,
    /// Leases of bursts.
    leases: OnceLock<Leases>,
}

impl WatchedProcesses {
    /// Tracks a process until the returned value is dropped. Returns `None` if the process has no socket with a
    /// runtime's name.
    pub(crate) fn watch(&self, process: &Process, endpoint: &Endpoint) -> Option<Arc<WatchedProcess>> {
        let watched = Arc::new(WatchedProcess::new(process, endpoint)?);
        self.runs().push(Arc::downgrade(&watched));
        self.more.notify_one();
        Some(watched)
    }

    /// Sets the leases that are searched for abandoned bursts. Only the first call has an effect.
    pub(crate) fn set_leases(&self, leases: Leases) {
        let _set_already = self.leases.set(leases);
    }

    fn runs(&self) -> MutexGuard<'_, Vec<Weak<WatchedProcess>>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the processes that are still read.
    fn watched(&self) -> Vec<Arc<WatchedProcess>> {
        let mut runs = self.runs();
        runs.retain(|run| run.strong_count() > 0);
        runs.iter().filter_map(Weak::upgrade).collect()
    }

    pub(crate) async fn run(&self) {
        loop {
            let watched = self.watched();
            if watched.is_empty() {
                self.more.notified().await;
                continue;
            }
            let wait = look_once(watched, self.leases.get().cloned()).await;
            tokio::select! {
                () = sleep(wait) => {}
                // Many processes are added at once when the daemon starts. One look covers them together.
                () = self.more.notified() => sleep(wait.min(RESCAN_DELAY)).await,
            }
        }
    }
}

/// Performs one look, and notifies the tasks whose process must be healed. Returns the wait until the next look.
async fn look_once(watched: Vec<Arc<WatchedProcess>>, leases: Option<Leases>) -> Duration {
    let began = Instant::now();
    let runs = watched.clone();
    let mut looking = spawn_blocking(move || {
        let abandoned = leases.and_then(|leases| leases.abandoned_burst());
        (look(&runs), abandoned)
    });
    let looked = match timeout(SCAN_TIMEOUT, &mut looking).await {
        Ok(looked) => looked,
        Err(_) => {
            log!(warn: "the scan of /proc for connections of other tools takes more than {SCAN_TIMEOUT:?}");
            for run in &watched {
                run.others().look(None);
            }
            // Another look would block another thread. The late result is outdated.
            drop(looking.await);
            return RESCAN_DELAY;
        }
    };
    let Ok((looked, abandoned)) = looked else {
        log!(error: "the scan of /proc for connections of other tools failed");
        return AT_MOST;
    };
    let took = began.elapsed();
    let mut wait = (took * PARTS).clamp(SCAN_INTERVAL, AT_MOST);
    for (run, seen) in watched.iter().zip(looked) {
        let mut others = run.others();
        if others.look(seen) {
            wait = RESCAN_DELAY.max(took * PARTS).min(wait);
        }
        if abandoned.is_some() && run.pid == abandoned {
            others.abandoned();
        }
        if others.is_due(Instant::now()) {
            run.due.notify_one();
        }
    }
    wait
}
