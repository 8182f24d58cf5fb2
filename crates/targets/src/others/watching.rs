//! One look after the other at all processes that are read, on a thread of its own.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use dotnet_diagnostics::discovery::{Process, SocketName};
use dotnet_diagnostics::{Connections, Endpoint};
use tokio::sync::Notify;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep, timeout};

use crate::lease::Leases;
use crate::others::Others;
use crate::others::tables::{EVERY, look};

/// After a process was attached to, and after a look that does not count: a runtime closes its ends within
/// milliseconds.
const AGAIN: Duration = Duration::from_millis(500);
/// Looks take at most one part in so many of the time.
const PARTS: u32 = 200;
/// The longest wait for that reason: what a session left behind must be healed within ten seconds of its end.
const AT_MOST: Duration = Duration::from_secs(8);
/// How long a look may take, until what it would find counts as unknown.
const LOOK_WITHIN: Duration = Duration::from_secs(5);

/// A process that is read, as its looks know it.
#[derive(Debug)]
pub(crate) struct Watched {
    /// Where its table is; `None`: it is not in our `/proc`.
    pub(crate) pid: Option<u32>,
    /// The name of its socket.
    pub(crate) name: SocketName,
    /// The path that it has bound; `None`: unknown.
    pub(crate) path: Option<PathBuf>,
    /// Ours to it.
    pub(crate) connections: Connections,
    others: Mutex<Others>,
    due: Notify,
}

impl Watched {
    /// `None`: it has no socket with a runtime's name; it connects to us.
    fn new(process: &Process, endpoint: &Endpoint) -> Option<Self> {
        let at = Self::at(process.visible.then_some(process.pid), endpoint.address()?.path())?;
        Some(Self {
            connections: endpoint.connections().clone(),
            ..at
        })
    }

    /// One that listens there, with no connection of ours.
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

    pub(crate) fn others(&self) -> MutexGuard<'_, Others> {
        self.others.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until a healing may be due. Cancel safe.
    pub(crate) async fn is_due(&self) {
        self.due.notified().await;
    }
}

/// The processes that are looked at.
#[derive(Debug, Default)]
pub(crate) struct Watching {
    runs: Mutex<Vec<Weak<Watched>>>,
    more: Notify,
    /// Where bursts leave their leases.
    leases: OnceLock<Leases>,
}

impl Watching {
    /// Looks at this process from now on, until the value is dropped.
    pub(crate) fn watch(&self, process: &Process, endpoint: &Endpoint) -> Option<Arc<Watched>> {
        let watched = Arc::new(Watched::new(process, endpoint)?);
        self.runs().push(Arc::downgrade(&watched));
        self.more.notify_one();
        Some(watched)
    }

    /// Bursts that were killed are looked for here, too. The first call counts.
    pub(crate) fn set_leases(&self, leases: Leases) {
        let _set_already = self.leases.set(leases);
    }

    fn runs(&self) -> MutexGuard<'_, Vec<Weak<Watched>>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Those that are still read.
    fn watched(&self) -> Vec<Arc<Watched>> {
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
                // Many come at once when the daemon starts: they are looked at together.
                () = self.more.notified() => sleep(wait.min(AGAIN)).await,
            }
        }
    }
}

/// Makes one look, and has those healed for whom that is due. Returns how long to wait for the next.
async fn look_once(watched: Vec<Arc<Watched>>, leases: Option<Leases>) -> Duration {
    let began = Instant::now();
    let runs = watched.clone();
    let mut looking = spawn_blocking(move || {
        let abandoned = leases.and_then(|leases| leases.abandoned_burst());
        (look(&runs), abandoned)
    });
    let looked = match timeout(LOOK_WITHIN, &mut looking).await {
        Ok(looked) => looked,
        Err(_) => {
            log!(warn: "a look through /proc for connections of other tools takes more than {LOOK_WITHIN:?}");
            for run in &watched {
                run.others().look(None);
            }
            // Another one would block another thread. What this one finds in the end is of long ago.
            drop(looking.await);
            return AGAIN;
        }
    };
    let Ok((looked, abandoned)) = looked else {
        log!(error: "a look through /proc for connections of other tools failed");
        return AT_MOST;
    };
    let took = began.elapsed();
    let mut wait = (took * PARTS).clamp(EVERY, AT_MOST);
    for (run, seen) in watched.iter().zip(looked) {
        let mut others = run.others();
        if others.look(seen) {
            wait = AGAIN.max(took * PARTS).min(wait);
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
