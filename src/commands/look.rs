//! Looking at processes from a command, within a limit of time: their files may be on any file system, even one that
//! the process provides.

use std::time::Duration;

use base::text::shown;
use dotnet_diagnostics::discovery::{Obstacle, Process, Reason, Scan};
use dotnet_diagnostics::message::ProcessInfo;
use dotnet_diagnostics::{Client, Deadlines, Endpoint};
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::timeout;

const LOOK_WITHIN: Duration = Duration::from_secs(5);
/// Limit of looks at once. One that does not return keeps its thread until the command ends, and counts no more.
const AT_ONCE: usize = 64;

/// What `looking`, which may block, returns; [`Reason::Silent`] when it has not in time, [`Reason::Failed`] when it
/// panicked.
pub(crate) async fn look<T: Send + 'static>(looking: impl FnOnce() -> T + Send + 'static) -> Result<T, Obstacle> {
    match timeout(LOOK_WITHIN, spawn_blocking(looking)).await {
        Ok(Ok(found)) => Ok(found),
        Ok(Err(failed)) => Err(Obstacle::new(Reason::Failed, format!("the check failed: {failed}"), "")),
        Err(_) => Err(Obstacle::new(
            Reason::Silent,
            format!("reading its files took more than {LOOK_WITHIN:?}: a file system does not respond"),
            "check the file system of its TMPDIR: it may be mounted from a server that does not respond",
        )),
    }
}

/// What is found of each process, in no order.
pub(crate) async fn each<T: Send + 'static, F: Future<Output = T> + Send + 'static>(
    pids: Vec<u32>,
    looking: impl Fn(u32) -> F,
) -> anyhow::Result<Vec<T>> {
    let (mut waiting, mut running, mut found) = (pids.into_iter(), JoinSet::new(), Vec::new());
    loop {
        while running.len() < AT_ONCE
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

/// What the runtime of a process answers.
pub(crate) async fn ask(process: &Process, within: Duration) -> Result<Option<ProcessInfo>, Obstacle> {
    let endpoint = Endpoint::of(process).map_err(|error| error.obstacle())?;
    let client = Client::with_deadlines(endpoint, Deadlines::uniform(within));
    client.probe().await.map_err(|error| error.obstacle())
}

/// The first number of a runtime's version.
pub(crate) fn major(version: &str) -> Option<u32> {
    version.split('.').next()?.parse().ok()
}

/// The version of its runtime. The answer of a process is not trusted; .NET Core 3.x does not report its version: the
/// directory of its library has it.
pub(crate) fn runtime_version(process: &Process, info: Option<ProcessInfo>) -> Option<String> {
    let answered = info.and_then(|info| info.runtime_version);
    answered.map(|version| shown(&version)).or_else(|| {
        let library = process.visible.then(Scan::host)?.runtime_library(process.pid)?;
        library.version().map(str::to_owned)
    })
}
