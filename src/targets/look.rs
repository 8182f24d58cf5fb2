//! A look at processes: which are there, which are wanted, which are gone. Blocking.
//!
//! The directories of sockets may be on any file system, one in a target's own hands included: opening one may block
//! for ever. So a look publishes at which process it is, and whoever waits for it gives it up after [`LOOK_WITHIN`] and
//! skips that process in the next ones.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use dotnet_diagnostics::Error;
use dotnet_diagnostics::discovery::{Process, Scan, SocketName};

use crate::process::RunKey;
use crate::targets::facts::Facts;
use crate::targets::filter::Subject;
use crate::targets::identity::key_of;
use crate::targets::options::TargetOptions;
use crate::targets::watch::{DirectoryId, directory_id, open_directory};

/// What a look found.
#[derive(Debug, Default)]
pub(crate) struct Look {
    pub(crate) seen: Vec<Seen>,
    pub(crate) gone: Vec<RunKey>,
    pub(crate) directories: Option<Directories>,
    pub(crate) asked: BTreeSet<u32>,
    /// What `/proc` has, when all was looked at.
    pub(crate) all_pids: Option<BTreeSet<u32>>,
}

#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) process: Process,
    /// Of runs that are not known, and of all when the options are new.
    pub(crate) wanted: Option<bool>,
}

/// Directories of sockets, opened.
pub(crate) type Directories = BTreeMap<DirectoryId, OwnedFd>;

/// How long a look at all processes may take.
pub(crate) const LOOK_WITHIN: Duration = Duration::from_secs(20);

/// What a look is asked for.
#[derive(Debug)]
pub(crate) struct Asked {
    /// All processes, not only `pids`.
    pub(crate) all: bool,
    pub(crate) pids: BTreeSet<u32>,
    pub(crate) known: BTreeSet<RunKey>,
    /// Whether also known ones are wanted is asked.
    pub(crate) judge_all: bool,
    /// Those that connected to us: that they run .NET needs no other sign.
    pub(crate) connected: BTreeSet<u32>,
    /// Those that a look did not return from: they are skipped.
    pub(crate) stuck: BTreeSet<u32>,
    /// The process that is looked at.
    pub(crate) at: Arc<AtomicU32>,
}

/// The scan that these options ask for.
pub(crate) fn scan(options: &TargetOptions) -> Scan {
    let named = options.sockets.iter().map(PathBuf::as_path);
    Scan::host().with_socket_directories([]).with_sockets(named)
}

/// Looks through `/proc`, or at some processes; blocking.
pub(crate) fn look(asked: Asked, options: &TargetOptions) -> Look {
    let Asked {
        all,
        pids,
        known,
        judge_all,
        connected,
        stuck,
        at,
    } = asked;
    let scan = scan(options);
    let mut look = Look::default();
    let mut processes = Vec::new();
    let listed = if all { all_pids() } else { BTreeSet::new() };
    for pid in listed
        .iter()
        .chain(&pids)
        .chain(&connected)
        .copied()
        .collect::<BTreeSet<u32>>()
    {
        if stuck.contains(&pid) {
            continue;
        }
        at.store(pid, Ordering::Relaxed);
        let inspected = scan.inspect(pid).ok();
        processes.extend(inspected.filter(|process| process.evidence.is_some() || connected.contains(&pid)));
    }
    at.store(0, Ordering::Relaxed);
    processes.extend(scan.list_named());
    let seen: BTreeSet<RunKey> = processes.iter().map(key_of).collect();
    // What a look does not show may be there nevertheless: a process without socket and library is one that nothing
    // marks.
    let unseen = known
        .iter()
        .filter(|key| (all || pids.contains(&key.pid)) && !seen.contains(key));
    let is_gone = |key: &&RunKey| match scan.inspect(key.pid) {
        Ok(process) => process.start_time != key.start_time,
        Err(error) => matches!(error, Error::NoProcess { .. }),
    };
    look.gone = unseen.filter(is_gone).copied().collect();
    if all {
        look.directories = Some(directories(&processes, &options.sockets, &at));
        look.all_pids = Some(listed);
    }
    let judged = |process: Process| {
        let wanted = (judge_all || !known.contains(&key_of(&process))).then(|| {
            let facts = Facts::of(&process);
            let subject = Subject {
                name: &process.name,
                facts: &facts,
            };
            subject.is_wanted(options)
        });
        Seen { process, wanted }
    };
    look.seen = processes.into_iter().map(judged).collect();
    look.asked = pids;
    look.asked.extend(connected);
    look
}

/// The pids that `/proc` has.
fn all_pids() -> BTreeSet<u32> {
    match std::fs::read_dir("/proc") {
        // An entry that cannot be read is a process that has gone.
        Ok(entries) => entries
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
            .collect(),
        Err(error) => {
            tracing::error!(target: "gcwatch::targets", "cannot read /proc: {error}; no process can be found");
            BTreeSet::new()
        }
    }
}

/// The directories of the processes' sockets, and those that are always watched.
fn directories(processes: &[Process], named: &[PathBuf], at: &AtomicU32) -> Directories {
    let own = std::env::var_os("TMPDIR").unwrap_or_default();
    let always = [Path::new("/tmp"), Path::new(&own)];
    // A socket that is named, not a directory of them: its directory.
    let named = named.iter().filter_map(|path| {
        let is_socket = SocketName::parse(path.file_name()?.to_str()?).is_some();
        if is_socket { path.parent() } else { Some(path) }
    });
    let always = always.into_iter().filter(|path| path.is_absolute());
    let opened = always.chain(named).filter_map(|path| open_directory(path).ok());
    let theirs = processes.iter().filter_map(|process| {
        at.store(process.pid, Ordering::Relaxed);
        process.socket.as_ref()?.open_parent().ok()
    });
    let with_ids = opened
        .chain(theirs)
        .filter_map(|directory| Some((directory_id(&directory).ok()?, directory)));
    with_ids.collect()
}
