//! Repeatedly examines the connections of all processes that are read, on a blocking thread.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use dotnet_diagnostics::Endpoint;
use dotnet_diagnostics::discovery::Process;
use tokio::sync::Notify;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep, timeout};

use crate::lease::Leases;
use crate::others::process::WatchedProcess;
use crate::others::tables::{SCAN_INTERVAL, look};

/// Delay before a look after an attach, or after a look that does not count. A runtime closes its ends of connections
/// within milliseconds.
const RESCAN_DELAY: Duration = Duration::from_millis(500);
/// Divisor of the time that looks can take: at most 1/`PARTS` of the time.
const PARTS: u32 = 200;
/// Maximum wait between looks, even if a look takes long. Side effects of a session must be healed within 10 s of its
/// end.
const AT_MOST: Duration = Duration::from_secs(8);
/// Timeout of a look. Afterwards, its results count as unknown.
const SCAN_TIMEOUT: Duration = Duration::from_secs(5);

/// The processes whose connections are tracked.
#[derive(Debug, Default)]
pub(crate) struct WatchedProcesses {
    runs: Mutex<Vec<Weak<WatchedProcess>>>,
    more: Notify,
    /// Lease folders that are searched for abandoned bursts.
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
                // When the daemon starts, it adds many processes in a short time. After this delay, one look covers all
                // these processes.
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
            // Wait for this look, because another look would block another thread. The late result is outdated and
            // dropped.
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
            run.set_due();
        }
    }
    wait
}
