//! The names of a process's threads, and their numbers as the process itself has them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use dotnet_diagnostics::discovery::parse_status;

/// Most threads of a process that are looked at.
pub(crate) const MAX_THREADS: usize = 4096;

/// The thread that runs finalizers (.NET 5 and later).
pub const FINALIZER: &str = ".NET Finalizer";

/// The names of a process's threads, by their numbers in its own namespace; blocking.
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

/// The folders of the threads below this one whose names fit; blocking.
pub(crate) fn named(tasks: &Path, fits: impl Fn(&str) -> bool) -> impl Iterator<Item = PathBuf> {
    let tasks = std::fs::read_dir(tasks).into_iter().flatten().take(MAX_THREADS);
    let tasks = tasks.filter_map(Result::ok).map(|task| task.path());
    tasks.filter(move |task| std::fs::read_to_string(task.join("comm")).is_ok_and(|name| fits(name.trim_end())))
}

/// The last of `NSpid`, which has a number for each namespace, or else the folder's.
pub(crate) fn own_number(task: &Path) -> Option<u64> {
    let status = std::fs::read(task.join("status")).ok()?;
    match parse_status(&status).ns_pid {
        Some(number) => Some(number.into()),
        None => task.file_name()?.to_str()?.parse().ok(),
    }
}
