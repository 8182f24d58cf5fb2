//! Scans processes on a dedicated thread, step by step. A scan determines which processes exist, which of them are
//! selected, and which runs have exited.
//!
//! A socket directory can be on any file system, including one that a target controls, so any access to it can block
//! forever. A scan is therefore a list of steps, one per process and per configured path. A thread executes the steps
//! in order and records the current one. If a step takes longer than [`STEP_TIMEOUT`], its thread is abandoned and
//! another thread continues with the remaining steps ([`OngoingLook::late`], [`OngoingLook::run`]). When an abandoned
//! thread returns from its step, it reports the subject of that step, which is then scanned again.
//!
//! Reads of `/proc` outside the steps (`stat`, `status`, the link to the program, the namespaces) are answered by the
//! kernel itself and cannot block.

mod file_system_group;
mod plain;
mod step;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base::run_key::RunKey;
use dotnet_diagnostics::discovery::{Process, Scan, SocketAddress, SocketName};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::identity::key_of;
pub(crate) use crate::look::file_system_group::FileSystemGroup;
pub(crate) use crate::look::plain::PlainProcesses;
pub(crate) use crate::look::step::LookSubject;
use crate::look::step::{LookStep, StepResult};
use crate::options::TargetOptions;
use crate::watch::{DirectoryId, WatchError, Watches};

/// Maximum duration of a step. The subject of a late step is scanned again once the step returns.
pub(crate) const STEP_TIMEOUT: Duration = Duration::from_secs(2);

/// Sockets that were found at the configured paths.
pub(crate) type NamedSockets = Vec<(SocketName, SocketAddress)>;

/// Result of a scan.
#[derive(Debug, Default)]
pub(crate) struct ScanResult {
    pub(crate) seen: Vec<ScannedProcess>,
    pub(crate) gone: Vec<RunKey>,
    /// Directories that contain sockets; `None` if the scan did not cover every process or was cut short.
    pub(crate) directories: Option<Directories>,
    pub(crate) asked: BTreeSet<u32>,
    /// All pids in `/proc`; `None` if the scan did not cover every process.
    pub(crate) all_pids: Option<BTreeSet<u32>>,
    pub(crate) named: NamedSockets,
    /// Number of processes that were skipped, because too many file systems do not respond and theirs can be one of
    /// them.
    pub(crate) left_out: usize,
}

#[derive(Debug)]
pub(crate) struct ScannedProcess {
    pub(crate) process: Process,
    /// Whether the filters select the process; `None` if the run is already known and the options have not changed.
    pub(crate) wanted: Option<bool>,
    /// Service name in the environment; `None` if the process was not evaluated or sets no name.
    pub(crate) service: Option<String>,
}

/// Watched socket directories.
#[derive(Debug, Default)]
pub(crate) struct Directories {
    pub(crate) watched: BTreeSet<DirectoryId>,
    /// Whether one of the directories was not watched before.
    pub(crate) new: bool,
    /// Reason why a directory is not watched; `None` if all directories are watched.
    pub(crate) problem: Option<String>,
}

/// Scope and options of a scan.
#[derive(Debug, Default)]
pub(crate) struct ScanScope {
    /// Whether to scan all processes and not only `pids`.
    pub(crate) all: bool,
    pub(crate) pids: BTreeSet<u32>,
    /// Known runs, each with whether it is visible in gcwatch's `/proc`.
    pub(crate) known: BTreeMap<RunKey, bool>,
    /// Whether to evaluate the filters for known runs, too.
    pub(crate) judge_all: bool,
    /// Processes that connected to gcwatch. These processes need no further evidence of .NET.
    pub(crate) connected: BTreeSet<u32>,
    /// Subjects to skip, because their steps in a previous scan have not returned.
    pub(crate) stuck: BTreeSet<LookSubject>,
    /// File system groups whose processes are skipped, because too many threads are blocked.
    pub(crate) left_alone: BTreeSet<FileSystemGroup>,
    pub(crate) plain: Arc<Mutex<PlainProcesses>>,
    /// Set to which socket directories are added; `None` if directories cannot be watched.
    pub(crate) watches: Option<Arc<Watches>>,
    pub(crate) options: Arc<TargetOptions>,
}

/// A running scan.
#[derive(Debug)]
pub(crate) struct OngoingLook {
    asked: ScanScope,
    state: Mutex<LookState>,
}

#[derive(Debug, Default)]
struct LookState {
    /// Number of the thread that executes the scan. Threads with lower numbers are blocked.
    thread: u32,
    at: Option<(LookSubject, Instant)>,
    steps: VecDeque<LookStep>,
    listed: Option<BTreeSet<u32>>,
    sockets: BTreeMap<PathBuf, NamedSockets>,
    look: ScanResult,
    directories: Directories,
    result: Option<oneshot::Sender<ScanResult>>,
}

/// The end of a thread's part of a scan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LookPart {
    /// The scan is complete, or another thread continues it.
    Last,
    /// The thread was abandoned in this step, and the step has now returned.
    Left(LookSubject),
}

impl OngoingLook {
    /// Creates a scan, and returns the scan and the receiver of its result.
    pub(crate) fn new(asked: ScanScope) -> (Self, oneshot::Receiver<ScanResult>) {
        let (sender, receiver) = oneshot::channel();
        let listed = asked.all.then(all_pids);
        let mut pids = asked.pids.clone();
        pids.extend(listed.iter().flatten().chain(&asked.connected));
        let named = &asked.options.sockets;
        let own = std::env::var_os("TMPDIR").map(PathBuf::from);
        let always = [PathBuf::from("/tmp")].into_iter().chain(own);
        let always = always
            .filter(|path| asked.all && path.is_absolute())
            .map(LookStep::Watch);
        let steps = always
            .chain(named.iter().cloned().map(LookStep::List))
            .chain(pids.into_iter().map(LookStep::Process))
            .chain(named.iter().cloned().map(LookStep::Behind));
        let steps = steps.filter(|step| !asked.stuck.contains(&step.place())).collect();
        let state = LookState {
            steps,
            listed,
            result: Some(sender),
            ..LookState::default()
        };
        let job = Self {
            asked,
            state: Mutex::new(state),
        };
        (job, receiver)
    }

    fn lock(&self) -> MutexGuard<'_, LookState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Executes the remaining steps as thread number `thread`.
    ///
    /// Blocks the calling thread.
    pub(crate) fn run(&self, thread: u32) -> LookPart {
        let mut scan = None;
        loop {
            let step = {
                let mut state = self.lock();
                if state.thread != thread {
                    return LookPart::Last;
                }
                let Some(step) = state.steps.pop_front() else {
                    state.at = None;
                    drop(state);
                    self.finish(true);
                    return LookPart::Last;
                };
                state.at = Some((step.place(), Instant::now()));
                step
            };
            let found = self.take(&step, &mut scan);
            let mut state = self.lock();
            if state.thread != thread {
                return LookPart::Left(step.place());
            }
            state.at = None;
            state.add(found);
        }
    }

    /// If the current step takes too long, abandons its thread and returns the subject of the step and the number of
    /// the next thread; otherwise, returns `None`. The next thread continues the scan by calling [`OngoingLook::run`]
    /// with this number.
    pub(crate) fn late(&self, now: Instant) -> Option<(LookSubject, u32)> {
        let mut state = self.lock();
        state.at.as_ref().filter(|(_, since)| now >= *since + STEP_TIMEOUT)?;
        let (place, _) = state.at.take()?;
        state.thread += 1;
        state.steps.retain(|step| step.place() != place);
        Some((place, state.thread))
    }

    /// Finishes the scan and sends its result. `whole` is whether all steps were executed.
    pub(crate) fn finish(&self, whole: bool) {
        let mut state = self.lock();
        let Some(result) = state.result.take() else { return };
        let mut look = std::mem::take(&mut state.look);
        let asked = &self.asked;
        let seen: BTreeSet<RunKey> = look.seen.iter().map(|seen| key_of(&seen.process)).collect();
        let paths_respond = whole && !asked.stuck.iter().any(|place| matches!(place, LookSubject::Path(_)));
        // A process that the scan did not return can still exist: without a socket and a runtime library, it is not
        // recognized as a .NET process.
        let scan = Scan::host();
        let is_gone = |(key, visible): &(&RunKey, &bool)| {
            let looked_at = (asked.all || asked.pids.contains(&key.pid)) && !seen.contains(key);
            if **visible {
                looked_at && !scan.is_there(key.pid, key.start_time)
            } else {
                looked_at && paths_respond
            }
        };
        look.gone = asked.known.iter().filter(is_gone).map(|(key, _)| *key).collect();
        look.named = std::mem::take(&mut state.sockets).into_values().flatten().collect();
        if let Some(listed) = state.listed.take() {
            asked.plain().keep(&listed);
            look.all_pids = Some(listed);
            look.directories = (whole && asked.watches.is_some()).then(|| std::mem::take(&mut state.directories));
        }
        look.asked = asked.pids.union(&asked.connected).copied().collect();
        // The receiver can have been dropped.
        let _gone = result.send(look);
    }
}

impl ScanScope {
    fn plain(&self) -> MutexGuard<'_, PlainProcesses> {
        self.plain.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LookState {
    fn add(&mut self, found: StepResult) {
        self.look.seen.extend(found.seen);
        self.look.left_out += usize::from(found.left_out);
        self.sockets.extend(found.sockets);
        match found.watched {
            Some(Ok((id, new))) => {
                self.directories.watched.insert(id);
                self.directories.new |= new;
            }
            // The directory is not readable for gcwatch. Only scans find new sockets in this directory.
            Some(Err(WatchError::System(error))) if error.kind() == std::io::ErrorKind::PermissionDenied => {}
            Some(Err(error)) => self.directories.problem = Some(error.to_string()),
            None => {}
        }
    }
}

/// Returns all pids in `/proc`.
fn all_pids() -> BTreeSet<u32> {
    match std::fs::read_dir("/proc") {
        // An entry that cannot be read belongs to a process that has exited.
        Ok(entries) => entries
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
            .collect(),
        Err(error) => {
            log!(error: "cannot read /proc: {error}; cannot find any process");
            BTreeSet::new()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(pids: &[u32], sockets: Vec<PathBuf>) -> ScanScope {
        ScanScope {
            pids: pids.iter().copied().collect(),
            options: Arc::new(TargetOptions {
                sockets,
                ..TargetOptions::default()
            }),
            ..ScanScope::default()
        }
    }

    /// Scenario: a thread blocks in the step of a configured directory; another thread continues; then the first thread
    /// tries to continue.
    /// Guarantee: the step is reported once, and not before it is late; the other steps of its subject are dropped; the
    /// second thread executes the remaining steps; the first thread executes no further step.
    #[tokio::test]
    async fn blocked_step_is_abandoned() {
        let folder = tempfile::tempdir().unwrap();
        let place = LookSubject::Path(folder.path().to_owned());
        let (job, found) = OngoingLook::new(asked(&[1], vec![folder.path().to_owned()]));
        let now = Instant::now();
        {
            // Act like the first thread before it blocks.
            let mut state = job.lock();
            assert!(matches!(state.steps.pop_front(), Some(LookStep::List(_))));
            state.at = Some((place.clone(), now));
        }
        assert_eq!(job.late(now + STEP_TIMEOUT / 2), None);
        assert_eq!(job.late(now + STEP_TIMEOUT), Some((place.clone(), 1)));
        assert_eq!(job.late(now + STEP_TIMEOUT * 9), None);
        assert_eq!(job.lock().steps.len(), 1, "only the step of the process remains");
        assert_eq!(job.run(1), LookPart::Last);
        assert_eq!(found.await.unwrap().asked, BTreeSet::from([1]));
        assert_eq!(job.run(0), LookPart::Last, "an abandoned thread executes no step");
    }

    /// Scenario: the known runs are this process, another run with the same pid, and a run that is not visible in
    /// `/proc`. These runs are scanned while a path is stuck, and while no path is stuck.
    /// Guarantee: the other run is reported as exited, and this process is not. The invisible run is reported only
    /// while no path is stuck.
    #[tokio::test]
    async fn unscanned_run_is_not_reported_as_exited() {
        let own = Scan::host().inspect(std::process::id()).unwrap();
        let key = |start_time| RunKey {
            pid: own.pid,
            start_time,
        };
        let behind = RunKey { pid: 1, start_time: 3 };
        for stuck in [true, false] {
            let mut asked = asked(&[own.pid, 1], Vec::new());
            asked.known = BTreeMap::from([
                (key(own.start_time), true),
                (key(own.start_time + 1), true),
                (behind, false),
            ]);
            if stuck {
                asked.stuck.insert(LookSubject::Path("/hung".into()));
            }
            let (job, found) = OngoingLook::new(asked);
            job.run(0);
            let mut gone = vec![key(own.start_time + 1)];
            gone.extend((!stuck).then_some(behind));
            gone.sort_unstable();
            assert_eq!(found.await.unwrap().gone, gone);
        }
    }
}
