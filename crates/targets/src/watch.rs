//! Sockets of runtimes that come and go, by inotify on the directories that they are made in.
//!
//! A burst of events is one change: what comes within [`DEBOUNCE`] is returned together. An overflow of the kernel's
//! queue is returned as one that names nothing, so that all is looked through. Directories are watched by what they are
//! (device and inode), at most [`MAX_DIRECTORIES`]: the paths of a hundred containers are as many directories, those of
//! a hundred plain processes one.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dotnet_diagnostics::discovery::SocketName;
use rustix::fs::inotify::{Event, ReadFlags, WatchFlags};
use rustix::fs::{CWD, Mode, OFlags};
use tokio::time::{Duration, Instant, sleep, sleep_until};

use crate::inotify::{self, Inotify};

/// How long events of a burst are gathered.
pub(crate) const DEBOUNCE: Duration = Duration::from_millis(100);

/// Between two readings without names of sockets: a directory in which others make files without end costs little.
const REST: Duration = Duration::from_millis(10);

/// Events that are read at once: the kernel keeps 16384, and somebody may make new ones while they are read.
const MOST_EVENTS: usize = 4096;

/// Most directories that are watched; the slow scan does for the others.
pub(crate) const MAX_DIRECTORIES: usize = 1024;
/// Most names that one change holds; more of them is an overflow.
const MAX_NAMES: usize = 4096;

/// What a directory is, by whatever path it is reached.
pub(crate) type DirectoryId = (u64, u64);

/// Sockets that came and went.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    pub(crate) made: BTreeSet<SocketName>,
    pub(crate) deleted: BTreeSet<SocketName>,
    /// More happened than these.
    pub(crate) overflow: bool,
}

impl Changes {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    fn take_in(&mut self, events: ReadFlags, name: Option<&str>) {
        if events.contains(ReadFlags::QUEUE_OVERFLOW) || self.made.len() + self.deleted.len() >= MAX_NAMES {
            self.overflow = true;
            return;
        }
        let Some(name) = name.and_then(SocketName::parse) else {
            return;
        };
        if events.intersects(ReadFlags::CREATE | ReadFlags::MOVED_TO) {
            self.made.insert(name);
            self.deleted.remove(&name);
        } else if events.intersects(ReadFlags::DELETE | ReadFlags::MOVED_FROM) {
            self.deleted.insert(name);
            self.made.remove(&name);
        }
    }
}

/// Why a directory is not watched.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotWatched {
    #[error("{MAX_DIRECTORIES} directories are watched already")]
    Full,
    #[error("{0}")]
    System(#[from] io::Error),
}

/// Where directories are added to those that are watched: on any thread, because the file system of a directory is
/// asked for our rights, and may never answer.
#[derive(Debug)]
pub(crate) struct Watches {
    inotify: Inotify,
    by_id: Mutex<BTreeMap<DirectoryId, i32>>,
}

impl Watches {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<DirectoryId, i32>> {
        self.by_id.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, event: &Event<'_>, changes: &mut Changes) {
        if event.events().contains(ReadFlags::IGNORED) {
            // The directory is gone.
            let watch = event.wd();
            self.lock().retain(|_, known| *known != watch);
        }
        let name = event.file_name().and_then(|name| name.to_str().ok());
        changes.take_in(event.events(), name);
    }

    /// Watches a directory that was opened as a place (`O_PATH`); blocking. Whether it is a new one.
    pub(crate) fn add(&self, directory: &OwnedFd) -> Result<bool, NotWatched> {
        let id = directory_id(directory)?;
        {
            let known = self.lock();
            if known.contains_key(&id) {
                return Ok(false);
            }
            if known.len() >= MAX_DIRECTORIES {
                return Err(NotWatched::Full);
            }
        }
        // By the descriptor: at its path there may be something else by now.
        let path = format!("/proc/self/fd/{}", directory.as_raw_fd());
        let flags = WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::MOVED_TO
            | WatchFlags::MOVED_FROM
            | WatchFlags::EXCL_UNLINK;
        let watch = self.inotify.add(path.as_ref(), flags)?;
        self.lock().insert(id, watch);
        Ok(true)
    }
}

/// The directories that are watched.
#[derive(Debug)]
pub(crate) struct SocketWatch {
    announced: inotify::Changes,
    watches: Arc<Watches>,
    pending: Changes,
    due_at: Option<Instant>,
}

impl SocketWatch {
    /// Watches nothing yet.
    pub(crate) fn new() -> io::Result<Self> {
        let announced = inotify::Changes::begin()?;
        let watches = Arc::new(Watches {
            inotify: announced.inotify().clone(),
            by_id: Mutex::new(BTreeMap::new()),
        });
        Ok(Self {
            announced,
            watches,
            pending: Changes::default(),
            due_at: None,
        })
    }

    /// Where directories are added.
    pub(crate) fn watches(&self) -> &Arc<Watches> {
        &self.watches
    }

    /// Watches these, as far as they were added, and no others any more.
    pub(crate) fn keep(&mut self, wanted: &BTreeSet<DirectoryId>) {
        self.watches.lock().retain(|id, watch| {
            let stays = wanted.contains(id);
            if !stays {
                // It may be gone together with its directory.
                self.watches.inotify.remove(*watch);
            }
            stays
        });
    }

    /// Waits for the next changes. Cancel safe.
    pub(crate) async fn changed(&mut self) -> io::Result<Changes> {
        loop {
            if let Some(at) = self.due_at {
                sleep_until(at).await;
                // What is not read yet is returned as the next change.
                let Self { watches, pending, .. } = self;
                watches
                    .inotify
                    .read(MOST_EVENTS, |event| watches.take(event, pending))?;
                self.due_at = None;
                return Ok(std::mem::take(&mut self.pending));
            }
            let Self {
                announced,
                watches,
                pending,
                ..
            } = self;
            let each = |event: &Event<'_>| watches.take(event, pending);
            announced.next(MOST_EVENTS, each).await?;
            if self.pending.is_empty() {
                sleep(REST).await;
            } else {
                self.due_at = Some(Instant::now() + DEBOUNCE);
            }
        }
    }
}

/// Opens a directory of this host as a place.
pub(crate) fn open_directory(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(CWD, path, flags, Mode::empty())?)
}

/// What a directory is.
pub(crate) fn directory_id(directory: &OwnedFd) -> io::Result<DirectoryId> {
    let stat = rustix::fs::fstat(directory)?;
    Ok((stat.st_dev, stat.st_ino))
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    fn name(pid: u32) -> SocketName {
        SocketName { pid, key: 9 }
    }

    /// Scenario: sockets and other files are made and deleted in two watched directories, one of them reached by two
    /// paths.
    /// Guarantee: a burst is one change, with runtimes' sockets alone; a directory is watched once.
    #[tokio::test]
    async fn sockets_that_come_and_go_are_announced() {
        let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let mut watch = SocketWatch::new().unwrap();
        assert!(watch.watches().add(&open_directory(a.path()).unwrap()).unwrap());
        assert!(watch.watches().add(&open_directory(b.path()).unwrap()).unwrap());
        assert!(
            !watch
                .watches()
                .add(&open_directory(&a.path().join(".")).unwrap())
                .unwrap()
        );
        let first = a.path().join(name(1).to_string());
        let _first = UnixListener::bind(&first).unwrap();
        let _second = UnixListener::bind(b.path().join(name(2).to_string())).unwrap();
        std::fs::write(a.path().join("other"), b"").unwrap();
        let changes = watch.changed().await.unwrap();
        assert_eq!(changes.made, BTreeSet::from([name(1), name(2)]));
        assert!(changes.deleted.is_empty() && !changes.overflow);
        std::fs::remove_file(first).unwrap();
        assert_eq!(watch.changed().await.unwrap().deleted, BTreeSet::from([name(1)]));
    }

    /// Scenario: a directory is no longer wanted; another one is deleted; both are made anew.
    /// Guarantee: neither is watched any more, and each can be watched again.
    #[tokio::test]
    async fn directories_are_let_go() {
        let kept = tempfile::tempdir().unwrap();
        let dropped = tempfile::tempdir().unwrap();
        let gone = tempfile::tempdir().unwrap();
        let mut watch = SocketWatch::new().unwrap();
        for directory in [&kept, &dropped, &gone] {
            watch.watches().add(&open_directory(directory.path()).unwrap()).unwrap();
        }
        let id = |directory: &tempfile::TempDir| directory_id(&open_directory(directory.path()).unwrap()).unwrap();
        watch.keep(&BTreeSet::from([id(&kept), id(&gone)]));
        drop(gone);
        std::fs::write(dropped.path().join(name(1).to_string()), b"").unwrap();
        std::fs::write(kept.path().join(name(2).to_string()), b"").unwrap();
        let changes = watch.changed().await.unwrap();
        assert_eq!(changes.made, BTreeSet::from([name(2)]));
        assert_eq!(watch.watches.lock().keys().copied().collect::<Vec<_>>(), [id(&kept)]);
        assert!(watch.watches().add(&open_directory(dropped.path()).unwrap()).unwrap());
    }

    /// Scenario: the kernel's queue overflows, and more names come than are kept.
    /// Guarantee: the change is marked as incomplete.
    #[test]
    fn an_overflow_is_returned() {
        let mut changes = Changes::default();
        changes.take_in(ReadFlags::QUEUE_OVERFLOW, None);
        assert!(changes.overflow);
        let mut changes = Changes::default();
        for pid in 0..=MAX_NAMES {
            changes.take_in(ReadFlags::CREATE, Some(&name(pid as u32).to_string()));
        }
        assert!(changes.overflow && changes.made.len() == MAX_NAMES);
    }
}
