//! Checks processes with a timeout. The files of a process can be on any file system, even on one that the process
//! provides.

use std::time::Duration;

use base::text::shown;
use dotnet_diagnostics::discovery::{Obstacle, Process, Reason, Scan};
use dotnet_diagnostics::message::ProcessInfo;
use dotnet_diagnostics::{Client, Deadlines, Endpoint};
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::timeout;

const SCAN_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum number of concurrent checks. A check that does not return keeps its thread until the command ends, but no
/// longer counts.
const MAX_CONCURRENT_CHECKS: usize = 64;

/// Runs `looking`, which can block, and returns its result. The obstacle is [`Reason::Silent`] after a timeout, and
/// [`Reason::Failed`] after a panic.
pub(crate) async fn look<T: Send + 'static>(looking: impl FnOnce() -> T + Send + 'static) -> Result<T, Obstacle> {
    match timeout(SCAN_TIMEOUT, spawn_blocking(looking)).await {
        Ok(Ok(found)) => Ok(found),
        Ok(Err(failed)) => Err(Obstacle::new(Reason::Failed, format!("the check failed: {failed}"), "")),
        Err(_) => Err(Obstacle::new(
            Reason::Silent,
            format!("reading its files took more than {SCAN_TIMEOUT:?}: a file system does not respond"),
            "check the file system of its TMPDIR: it may be mounted from a server that does not respond",
        )),
    }
}

/// Runs a check for each process and returns the results in no particular order.
pub(crate) async fn each<T: Send + 'static, F: Future<Output = T> + Send + 'static>(
    pids: Vec<u32>,
    looking: impl Fn(u32) -> F,
) -> anyhow::Result<Vec<T>> {
    let (mut waiting, mut running, mut found) = (pids.into_iter(), JoinSet::new(), Vec::new());
    loop {
        while running.len() < MAX_CONCURRENT_CHECKS
            && let Some(pid) = waiting.next()
        {
            running.spawn(looking(pid));
        }
        let Some(done) = running.join_next().await else {
            return Ok(found);
        };
        found.push(done?);
    }
}

/// Queries the runtime of a process.
pub(crate) async fn ask(process: &Process, within: Duration) -> Result<Option<ProcessInfo>, Obstacle> {
    let endpoint = Endpoint::for_process(process).map_err(|error| error.obstacle())?;
    let client = Client::with_deadlines(endpoint, Deadlines::uniform(within));
    client.probe().await.map_err(|error| error.obstacle())
}

/// Returns the major number of a runtime version, or `None` if the text does not start with a number.
pub(crate) fn major(version: &str) -> Option<u32> {
    version.split('.').next()?.parse().ok()
}

/// Returns the version of the runtime. The answer of a process is not trusted, so unsafe characters in it are replaced.
/// .NET Core 3.x does not report its version, so the version is read from the path of its library. Returns `None` if
/// neither is available.
pub(crate) fn runtime_version(process: &Process, info: Option<ProcessInfo>) -> Option<String> {
    let answered = info.and_then(|info| info.runtime_version);
    answered.map(|version| shown(&version)).or_else(|| {
        let library = process.visible.then(Scan::host)?.runtime_library(process.pid)?;
        library.version().map(str::to_owned)
    })
}
