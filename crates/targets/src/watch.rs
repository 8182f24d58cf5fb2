//! Watches directories with inotify, and reports runtime sockets that are created or deleted in these directories.
//!
//! Events that arrive within [`DEBOUNCE`] are returned together as one change. If the kernel's queue overflows, the
//! change is marked as incomplete, so that the caller scans everything. Directories are identified by device and inode,
//! and at most [`MAX_DIRECTORIES`] are watched. 100 containers have 100 directories, whereas 100 processes outside
//! containers share one directory.

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

/// Duration for which the events of a burst are collected.
pub(crate) const DEBOUNCE: Duration = Duration::from_millis(100);

/// Pause after a read that contained no sockets. The pause limits the cost if other processes create files endlessly.
const READ_PAUSE: Duration = Duration::from_millis(10);

/// Maximum number of events per read. The kernel queues 16384, and other processes can add events during the read.
const MAX_EVENTS: usize = 4096;

/// Maximum number of watched directories. The slow scan covers further directories.
pub(crate) const MAX_DIRECTORIES: usize = 1024;
/// Maximum number of names in one change. More names count as an overflow.
const MAX_NAMES: usize = 4096;

/// Identity of a directory, independent of its path.
pub(crate) type DirectoryId = (u64, u64);

/// Sockets that were created or deleted since the previous change.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    pub(crate) made: BTreeSet<SocketName>,
    pub(crate) deleted: BTreeSet<SocketName>,
    /// Whether the sets are incomplete, so that the caller must scan everything.
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

/// Error returned if a directory cannot be watched.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WatchError {
    #[error("{MAX_DIRECTORIES} directories are watched already")]
    Full,
    #[error("{0}")]
    System(#[from] io::Error),
}

/// The set of watched directories. The set is shared, so that dedicated threads can add directories: the kernel queries
/// the file system of a new directory for permissions, which can block forever.
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
            // The kernel removed the watch, for example because the directory was deleted.
            let watch = event.wd();
            self.lock().retain(|_, known| *known != watch);
        }
        let name = event.file_name().and_then(|name| name.to_str().ok());
        changes.take_in(event.events(), name);
    }

    /// Watches a directory that was opened with `O_PATH`. Returns `false` if the directory is already watched.
    ///
    /// Blocks the calling thread.
    pub(crate) fn add(&self, directory: &OwnedFd) -> Result<bool, WatchError> {
        let id = directory_id(directory)?;
        {
            let known = self.lock();
            if known.contains_key(&id) {
                return Ok(false);
            }
            if known.len() >= MAX_DIRECTORIES {
                return Err(WatchError::Full);
            }
        }
        // Use the descriptor, because the path can refer to another directory by now.
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

/// A receiver of the events of the watched directories.
#[derive(Debug)]
pub(crate) struct SocketWatch {
    announced: inotify::Changes,
    watches: Arc<Watches>,
    pending: Changes,
    due_at: Option<Instant>,
}

impl SocketWatch {
    /// Creates a watch without directories.
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

    /// Returns the watched directories, to which callers can add directories.
    pub(crate) fn watches(&self) -> &Arc<Watches> {
        &self.watches
    }

    /// Stops watching all directories that are not in `wanted`.
    pub(crate) fn keep(&mut self, wanted: &BTreeSet<DirectoryId>) {
        self.watches.lock().retain(|id, watch| {
            let stays = wanted.contains(id);
            if !stays {
                // This call can fail, because the kernel removes the watch of a deleted directory.
                self.watches.inotify.remove(*watch);
            }
            stays
        });
    }

    /// Waits for the next changes. This method is cancel safe.
    pub(crate) async fn changed(&mut self) -> io::Result<Changes> {
        loop {
            if let Some(at) = self.due_at {
                sleep_until(at).await;
                // Events beyond `MAX_EVENTS` are part of the next change.
                let Self { watches, pending, .. } = self;
                watches.inotify.read(MAX_EVENTS, |event| watches.take(event, pending))?;
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
            announced.next(MAX_EVENTS, each).await?;
            if self.pending.is_empty() {
                sleep(READ_PAUSE).await;
            } else {
                self.due_at = Some(Instant::now() + DEBOUNCE);
            }
        }
    }
}

/// Opens a directory of this host with `O_PATH`.
pub(crate) fn open_directory(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(CWD, path, flags, Mode::empty())?)
}

/// Returns the identity of a directory.
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

    /// Scenario: sockets and another file are created in two watched directories, and a socket is deleted. One of the
    /// directories is added again under a second path.
    /// Guarantee: a burst is returned as one change that contains only runtime sockets. Each directory is watched once.
    #[tokio::test]
    async fn created_and_deleted_sockets_are_reported() {
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

    /// Scenario: of three watched directories, one is no longer wanted, and another is deleted. Sockets are created in
    /// the unwanted directory and in the third directory; then the unwanted directory is added again.
    /// Guarantee: only the third directory is still watched, and the unwanted directory can be added again.
    #[tokio::test]
    async fn unwanted_and_deleted_directories_are_not_watched() {
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

    /// Scenario: the kernel's queue overflows during a change; another change gets more names than it can hold.
    /// Guarantee: both changes are marked as incomplete.
    #[test]
    fn overflow_marks_change_as_incomplete() {
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
