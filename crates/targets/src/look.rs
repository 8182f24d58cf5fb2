//! A look at processes: which are there, which are wanted, which are gone. On a thread of its own, step by step.
//!
//! A directory of sockets may be on any file system, one in a target's own hands included: whatever touches it may
//! never return. So a look is a list of steps, one per process and per configured path. A thread takes one after the
//! other and says at which it is; when one takes longer than [`STEP_WITHIN`], the thread is left to it, and another one
//! goes on with the rest ([`OngoingLook::late`], [`OngoingLook::run`]). A thread that was left and returns says so, and
//! its step's subject is looked at again.
//!
//! What is asked of `/proc` outside of the steps (`stat`, `status`, the link to the program, the namespaces) the kernel
//! answers by itself.

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
use crate::look::step::{Found, LookStep};
use crate::options::TargetOptions;
use crate::watch::{DirectoryId, NotWatched, Watches};

/// How long one step may take. One that takes longer is not given up for good: it is looked at again when it returns.
pub(crate) const STEP_WITHIN: Duration = Duration::from_secs(2);

/// Sockets that the operator named, as they were found.
pub(crate) type NamedSockets = Vec<(SocketName, SocketAddress)>;

/// What a look found.
#[derive(Debug, Default)]
pub(crate) struct Look {
    pub(crate) seen: Vec<Seen>,
    pub(crate) gone: Vec<RunKey>,
    /// Directories that hold sockets, when all was looked at to the end.
    pub(crate) directories: Option<Directories>,
    pub(crate) asked: BTreeSet<u32>,
    /// What `/proc` has, when all was looked at.
    pub(crate) all_pids: Option<BTreeSet<u32>>,
    pub(crate) named: NamedSockets,
    /// Processes that were left out because too many file systems do not respond, theirs maybe among them.
    pub(crate) left_out: usize,
}

#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) process: Process,
    /// Of runs that are not known, and of all when the options are new.
    pub(crate) wanted: Option<bool>,
    /// What its environment calls its service; of those that were judged.
    pub(crate) service: Option<String>,
}

/// Directories of sockets, watched.
#[derive(Debug, Default)]
pub(crate) struct Directories {
    pub(crate) watched: BTreeSet<DirectoryId>,
    /// One of them was not watched before.
    pub(crate) new: bool,
    /// Why one is not watched.
    pub(crate) problem: Option<String>,
}

/// What a look is asked for.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    /// All processes, not only `pids`.
    pub(crate) all: bool,
    pub(crate) pids: BTreeSet<u32>,
    /// Those that are known, and whether they are in our `/proc`.
    pub(crate) known: BTreeMap<RunKey, bool>,
    /// Whether also known ones are wanted is asked.
    pub(crate) judge_all: bool,
    /// Those that connected to us: that they run .NET needs no other sign.
    pub(crate) connected: BTreeSet<u32>,
    /// What a look did not return from: skipped.
    pub(crate) stuck: BTreeSet<LookSubject>,
    /// Whose processes are skipped, because so many looks did not return.
    pub(crate) left_alone: BTreeSet<FileSystemGroup>,
    pub(crate) plain: Arc<Mutex<PlainProcesses>>,
    /// `None`: directories cannot be watched.
    pub(crate) watches: Option<Arc<Watches>>,
    pub(crate) options: Arc<TargetOptions>,
}

/// A look that is under way.
#[derive(Debug)]
pub(crate) struct OngoingLook {
    asked: Asked,
    state: Mutex<LookState>,
}

#[derive(Debug, Default)]
struct LookState {
    /// Which thread does it; those before hang.
    thread: u32,
    at: Option<(LookSubject, Instant)>,
    steps: VecDeque<LookStep>,
    listed: Option<BTreeSet<u32>>,
    sockets: BTreeMap<PathBuf, NamedSockets>,
    look: Look,
    directories: Directories,
    result: Option<oneshot::Sender<Look>>,
}

/// How a thread's part of a look ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LookPart {
    /// The look is over.
    Last,
    /// It was left to this step, which has returned now.
    Left(LookSubject),
}

impl OngoingLook {
    /// A look, and where what it finds is sent.
    pub(crate) fn new(asked: Asked) -> (Self, oneshot::Receiver<Look>) {
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

    /// Takes the steps that are left, as the thread with this number; blocking.
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

    /// The step that takes too long. Its thread is left to it: the next one goes on by [`OngoingLook::run`] with the number
    /// that is returned.
    pub(crate) fn late(&self, now: Instant) -> Option<(LookSubject, u32)> {
        let mut state = self.lock();
        state.at.as_ref().filter(|(_, since)| now >= *since + STEP_WITHIN)?;
        let (place, _) = state.at.take()?;
        state.thread += 1;
        state.steps.retain(|step| step.place() != place);
        Some((place, state.thread))
    }

    /// Ends the look with what was found. `whole`: all steps were taken.
    pub(crate) fn finish(&self, whole: bool) {
        let mut state = self.lock();
        let Some(result) = state.result.take() else { return };
        let mut look = std::mem::take(&mut state.look);
        let asked = &self.asked;
        let seen: BTreeSet<RunKey> = look.seen.iter().map(|seen| key_of(&seen.process)).collect();
        let paths_respond = whole && !asked.stuck.iter().any(|place| matches!(place, LookSubject::Path(_)));
        // What a look does not show may be there nevertheless: a process without socket and library is one that nothing
        // marks.
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
        // Whoever asked is gone.
        let _gone = result.send(look);
    }
}

impl Asked {
    fn plain(&self) -> MutexGuard<'_, PlainProcesses> {
        self.plain.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LookState {
    fn add(&mut self, found: Found) {
        self.look.seen.extend(found.seen);
        self.look.left_out += usize::from(found.left_out);
        self.sockets.extend(found.sockets);
        match found.watched {
            Some(Ok((id, new))) => {
                self.directories.watched.insert(id);
                self.directories.new |= new;
            }
            // Not ours to read: looks alone find what is made in it.
            Some(Err(NotWatched::System(error))) if error.kind() == std::io::ErrorKind::PermissionDenied => {}
            Some(Err(error)) => self.directories.problem = Some(error.to_string()),
            None => {}
        }
    }
}

/// The pids that `/proc` has.
fn all_pids() -> BTreeSet<u32> {
    match std::fs::read_dir("/proc") {
        // An entry that cannot be read is a process that has gone.
        Ok(entries) => entries
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
            .collect(),
        Err(error) => {
            log!(error: "cannot read /proc: {error}; no process can be found");
            BTreeSet::new()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(pids: &[u32], sockets: Vec<PathBuf>) -> Asked {
        Asked {
            pids: pids.iter().copied().collect(),
            options: Arc::new(TargetOptions {
                sockets,
                ..TargetOptions::default()
            }),
            ..Asked::default()
        }
    }

    /// Scenario: a thread hangs in the step of a configured directory; another one goes on; the first one returns.
    /// Guarantee: the step is named once it is late and not before, its other steps are dropped, the rest is done by
    /// the other thread, and what the first one found too late is only that its place responds again.
    #[tokio::test]
    async fn a_step_that_hangs_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let place = LookSubject::Path(folder.path().to_owned());
        let (job, found) = OngoingLook::new(asked(&[1], vec![folder.path().to_owned()]));
        let now = Instant::now();
        {
            // As the first thread does before it hangs.
            let mut state = job.lock();
            assert!(matches!(state.steps.pop_front(), Some(LookStep::List(_))));
            state.at = Some((place.clone(), now));
        }
        assert_eq!(job.late(now + STEP_WITHIN / 2), None);
        assert_eq!(job.late(now + STEP_WITHIN), Some((place.clone(), 1)));
        assert_eq!(job.late(now + STEP_WITHIN * 9), None);
        assert_eq!(job.lock().steps.len(), 1, "only the process is left");
        assert_eq!(job.run(1), LookPart::Last);
        assert_eq!(found.await.unwrap().asked, BTreeSet::from([1]));
        assert_eq!(job.run(0), LookPart::Last, "a thread that was left takes no step");
    }

    /// Scenario: known runs: this process, another run with its pid, one that is not in our `/proc`; looked at while
    /// a path is stuck and while none is.
    /// Guarantee: only the other run is gone; one behind a path is not gone while that path does not respond.
    #[tokio::test]
    async fn what_cannot_be_looked_at_is_not_gone() {
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
