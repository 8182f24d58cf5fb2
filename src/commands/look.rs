//! Reading the files of a process from a command, within a limit of time: they may be on any file system, even one that
//! the process provides.

use std::time::Duration;

use dotnet_diagnostics::discovery::{Obstacle, Reason};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

/// Limit of one look.
pub(crate) const LOOK_WITHIN: Duration = Duration::from_secs(5);
/// Limit of looks at once. One that does not return keeps its thread until the command ends, and counts no more.
pub(crate) const AT_ONCE: usize = 64;

/// What `looking`, which may block, returns.
///
/// # Errors
///
/// [`Reason::Silent`] when it has not returned in time, [`Reason::Failed`] when it panicked.
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
