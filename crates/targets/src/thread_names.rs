//! The names of a process's threads, and their numbers as the process itself has them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

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

/// The last of `NSpid`, which has a number for each namespace, or else the folder's.
pub(crate) fn own_number(task: &Path) -> Option<u64> {
    let status = std::fs::read_to_string(task.join("status")).ok()?;
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    let number = match numbers {
        Some(numbers) => numbers.split_ascii_whitespace().next_back()?.to_owned(),
        None => task.file_name()?.to_str()?.to_owned(),
    };
    number.parse().ok()
}
