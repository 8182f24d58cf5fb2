//! Names of a process's threads, and their ids in the process's own namespace.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use dotnet_diagnostics::discovery::parse_status;

/// Maximum number of threads of a process that are examined.
pub(crate) const MAX_THREADS: usize = 4096;

/// Name of the thread that executes finalizers (.NET 5 and later).
pub const FINALIZER: &str = ".NET Finalizer";

/// Returns the names of a process's threads by their ids in its own namespace. Blocks the calling thread.
pub fn names(pid: u32) -> BTreeMap<u64, String> {
    let Ok(tasks) = std::fs::read_dir(format!("/proc/{pid}/task")) else {
        return BTreeMap::new();
    };
    let tasks = tasks.take(MAX_THREADS).filter_map(Result::ok).map(|task| task.path());
    let name = |task: PathBuf| {
        let name = std::fs::read_to_string(task.join("comm")).ok()?;
        Some((own_number(&task)?, name.trim_end().to_owned()))
    };
    tasks.filter_map(name).collect()
}

/// Returns the folders of the threads in `tasks` whose names match. Blocks the calling thread.
pub(crate) fn named(tasks: &Path, fits: impl Fn(&str) -> bool) -> impl Iterator<Item = PathBuf> {
    let tasks = std::fs::read_dir(tasks).into_iter().flatten().take(MAX_THREADS);
    let tasks = tasks.filter_map(Result::ok).map(|task| task.path());
    tasks.filter(move |task| std::fs::read_to_string(task.join("comm")).is_ok_and(|name| fits(name.trim_end())))
}

/// Returns the thread's id in its innermost pid namespace: the last number of `NSpid`, or the name of the folder if
/// `status` has no such line. Returns `None` if the thread has exited.
pub(crate) fn own_number(task: &Path) -> Option<u64> {
    let status = std::fs::read(task.join("status")).ok()?;
    match parse_status(&status).ns_pid {
        Some(number) => Some(number.into()),
        None => task.file_name()?.to_str()?.parse().ok(),
    }
}
