//! Determines whether the finalizer thread uses a CPU, as evidence about a round of finalizers that does not end. A
//! finalizer that loops uses a whole CPU, and a finalizer that waits for a lock uses none.
//!
//! The figures are read only while a round takes long. The kernel's `schedstat` has nanoseconds. If `schedstat` is
//! missing, `stat` is used, which has units of 10 ms.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use base::run_key::RunKey;
use base::time::Moment;
use dotnet_diagnostics::discovery::parse_stat;
use tokio::time::Instant;

use crate::thread_names::{FINALIZER, named};

/// Unit of CPU times in `stat` (`USER_HZ`, 100 on all architectures that .NET supports).
const TICK_NS: u64 = 10_000_000;

/// The last readings of the finalizer threads of processes.
#[derive(Debug, Default)]
pub struct FinalizerCpus(HashMap<RunKey, FinalizerReading>);

#[derive(Debug)]
struct FinalizerReading {
    /// Start of the round.
    begun: Moment,
    /// Folder of the thread.
    task: PathBuf,
    at: Instant,
    ran_ns: u64,
}

impl FinalizerCpus {
    /// Returns the share (0 to 1) of the time since the last call for which the finalizer thread of a run had a CPU.
    /// Returns `None` on the first call for a round, which is identified by its start, and if the thread is not
    /// visible.
    ///
    /// Blocks the calling thread.
    pub fn read(&mut self, run: RunKey, begun: Moment, now: Instant) -> Option<f64> {
        let stat = std::fs::read(format!("/proc/{}/stat", run.pid)).ok()?;
        // The pid can belong to another process, or the process is not visible in gcwatch's `/proc`.
        parse_stat(&stat).filter(|stat| stat.start_time == run.start_time)?;
        self.read_at(Path::new(&format!("/proc/{}/task", run.pid)), run, begun, now)
    }

    fn read_at(&mut self, tasks: &Path, run: RunKey, begun: Moment, now: Instant) -> Option<f64> {
        let before = self.0.remove(&run).filter(|before| before.begun == begun);
        let task = match &before {
            Some(before) => before.task.clone(),
            None => named(tasks, |name| name == FINALIZER).next()?,
        };
        let ran_ns = ran(&task)?;
        let known = FinalizerReading {
            begun,
            task,
            at: now,
            ran_ns,
        };
        self.0.insert(run, known);
        let before = before?;
        let passed = now.saturating_duration_since(before.at).as_nanos() as f64;
        let share = ran_ns.checked_sub(before.ran_ns)? as f64 / passed;
        (passed > 0.0).then_some(share.min(1.0))
    }

    /// Forgets all runs that are not in `runs`.
    pub fn keep(&mut self, runs: &[RunKey]) {
        self.0.retain(|run, _| runs.contains(run));
    }
}

/// Returns the running time of a thread, in nanoseconds, or `None` if the thread has exited.
fn ran(task: &Path) -> Option<u64> {
    let text = |name: &str| std::fs::read_to_string(task.join(name)).ok();
    let counted = || text("schedstat")?.split_ascii_whitespace().next()?.parse().ok();
    // 0 means that the kernel does not count, or that the thread never ran.
    counted()
        .filter(|ns| *ns > 0)
        .or_else(|| parse_cpu_time(&text("stat")?))
}

/// Returns the sum of user and system time in `stat`.
fn parse_cpu_time(text: &str) -> Option<u64> {
    let stat = parse_stat(text.as_bytes())?;
    stat.user_ticks.checked_add(stat.system_ticks)?.checked_mul(TICK_NS)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const RUN: RunKey = RunKey { pid: 9, start_time: 1 };

    fn put(tasks: &Path, thread: u32, name: &str, schedstat: Option<&str>, ticks: u64) {
        let task = tasks.join(thread.to_string());
        std::fs::create_dir_all(&task).unwrap();
        std::fs::write(task.join("comm"), format!("{name}\n")).unwrap();
        let stat = format!("{thread} ({name}) S 1 2 3 4 5 6 7 8 9 10 {ticks} 5 0 0 20 0 1 0 100\n");
        std::fs::write(task.join("stat"), stat).unwrap();
        match schedstat {
            Some(text) => std::fs::write(task.join("schedstat"), text).unwrap(),
            None => _ = std::fs::remove_file(task.join("schedstat")),
        }
    }

    /// Scenario: the finalizer thread, next to another thread, uses a whole CPU, waits, is in another round, and exits.
    /// The kernel counts nanoseconds, or units of 10 ms.
    /// Guarantee: the share of the finalizer thread between two readings of one round is returned. In all other cases,
    /// the share is unknown.
    #[test]
    fn share_is_computed_within_round() {
        let folder = tempfile::tempdir().unwrap();
        let tasks = folder.path();
        let mut cpus = FinalizerCpus::default();
        let began = Instant::now();
        put(tasks, 5, ".NET BGC", Some("999999999999 0 1\n"), 99_999);
        for counts in [true, false] {
            let count = |seconds: u64| {
                let schedstat = format!("{} 0 1\n", 1 + seconds * 1_000_000_000);
                put(tasks, 7, FINALIZER, counts.then_some(&*schedstat), seconds * 100);
            };
            let mut read =
                |begun, seconds| cpus.read_at(tasks, RUN, Moment::from_ns(begun), began + Duration::from_secs(seconds));
            count(0);
            assert_eq!(read(10, 5), None);
            count(5);
            assert_eq!(read(10, 10), Some(1.0));
            assert_eq!(read(10, 15), Some(0.0));
            count(9);
            assert_eq!(read(11, 20), None);
            cpus.keep(&[]);
            assert!(cpus.0.is_empty());
        }
        std::fs::remove_dir_all(tasks.join("7")).unwrap();
        assert_eq!(cpus.read_at(tasks, RUN, Moment::from_ns(12), began), None);
        assert_eq!(parse_cpu_time("no name 1 2 3"), None);
    }
}
