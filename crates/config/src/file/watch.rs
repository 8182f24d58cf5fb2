//! Detects changes of files.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::inotify::WatchFlags;
use tokio::time::Instant;

use targets::FileReading;
use targets::inotify::{Changes, Inotify};

/// Quiet period before a change is reported, because editors write a file in several steps and Kubernetes renames
/// files.
const QUIET: Duration = Duration::from_millis(200);
/// Maximum time for which a change waits for the quiet period. Files that change continuously are read after this time.
const LONGEST_WAIT: Duration = Duration::from_secs(2);
/// Interval between reads if no notification arrives. Network file systems send no notifications.
const SLOW_LOOK: Duration = Duration::from_secs(60);
/// Interval between reads without inotify.
const FAST_LOOK: Duration = Duration::from_secs(5);
/// Pause between two reads of notifications. The pause limits the CPU time for notifications of a continuous writer.
const READ_PAUSE: Duration = Duration::from_millis(20);
/// Maximum number of notifications per read. Without this limit, a read would never end if it causes further
/// notifications, for example because a trace of gcwatch is written to the watched directory.
const MAX_EVENTS: usize = 1024;
/// Timeout for reading the files.
pub const READ_TIMEOUT: Duration = Duration::from_secs(5);
/// Size above which files are compared only by size and modification time, in bytes.
const LARGEST: u64 = 4 << 20;

/// Maximum number of YAML files in a directory.
const MAX_FILES: usize = 1000;

/// A watch for changes of several files, or of the YAML files of a directory. The files can be written in place,
/// replaced by a rename, or changed through a symbolic link, as in a ConfigMap that Kubernetes mounts (`..data`).
#[derive(Debug)]
pub struct Watch {
    paths: Vec<PathBuf>,
    seen: Vec<Option<u64>>,
    notifications: io::Result<Changes>,
    /// Whether a comparison of the files is due, because a notification has arrived or the interval between reads has
    /// passed. The field survives a cancelled call, so that a cancelled call loses no notification.
    pending: bool,
    reading: FileReading,
}

impl Watch {
    /// Starts to watch `paths`. Changes are relative to the current contents. A file that does not exist yet can be
    /// created later. Requires a tokio runtime. Blocks the calling thread, because this function reads the files.
    pub fn new(paths: Vec<PathBuf>) -> Self {
        let notifications = Changes::begin();
        if let Ok(notifications) = &notifications {
            watch(notifications.inotify(), &paths);
        }
        // Read after the watch has started, so that no change is missed.
        let seen = fingerprints(&paths);
        Self {
            paths,
            seen,
            notifications,
            pending: false,
            reading: FileReading::default(),
        }
    }

    /// Returns the reason why inotify does not work, or `None` if inotify works. Without inotify, the files are read
    /// every 5 s.
    pub fn degraded(&self) -> Option<&io::Error> {
        self.notifications.as_ref().err()
    }

    /// Waits until the contents of a file differ from the contents at the last return of this method (or at the start),
    /// and no notification has arrived for 200 ms. If notifications continue, this method waits at most 2 s for such a
    /// pause. This method is cancel safe.
    pub async fn changed(&mut self) {
        loop {
            if !self.pending {
                match &self.notifications {
                    Ok(notifications) => tokio::select! {
                        read = next(notifications) => if let Err(error) = read {
                            self.notifications = Err(error);
                        },
                        () = tokio::time::sleep(SLOW_LOOK) => {}
                    },
                    Err(_) => tokio::time::sleep(FAST_LOOK).await,
                }
                self.pending = true;
            }
            self.quiet().await;
            let now = self.look().await;
            self.pending = false;
            if let Some(now) = now.filter(|now| *now != self.seen) {
                self.seen = now;
                return;
            }
        }
    }

    /// Reads the files on a blocking thread, because a network file system can be slow. Returns `None` if the file
    /// system does not respond within [`READ_TIMEOUT`].
    async fn look(&self) -> Option<Vec<Option<u64>>> {
        let inotify = self.notifications.as_ref().ok().map(Changes::inotify).cloned();
        let paths = self.paths.clone();
        let read = self.reading.within(READ_TIMEOUT, move || {
            // Links can point to different directories now. Watch these directories before the files are read.
            if let Some(inotify) = inotify {
                watch(&inotify, &paths);
            }
            fingerprints(&paths)
        });
        read.await.ok()
    }

    /// Waits until no notification has arrived for [`QUIET`], at most [`LONGEST_WAIT`]. Returns immediately if inotify
    /// does not work.
    async fn quiet(&mut self) {
        let Ok(notifications) = &self.notifications else {
            return;
        };
        let end = Instant::now() + LONGEST_WAIT;
        while Instant::now() < end {
            match tokio::time::timeout(QUIET, next(notifications)).await {
                Ok(Ok(())) => tokio::time::sleep(READ_PAUSE).await,
                Ok(Err(_)) | Err(_) => return,
            }
        }
    }
}

/// Watches the directories that determine the targets of `paths`. Blocks the calling thread.
fn watch(inotify: &Inotify, paths: &[PathBuf]) {
    let what = WatchFlags::CREATE
        | WatchFlags::CLOSE_WRITE
        | WatchFlags::MODIFY
        | WatchFlags::MOVED_TO
        | WatchFlags::MOVED_FROM
        | WatchFlags::DELETE;
    // Add all directories again, because a replaced directory keeps its name. Files in a directory that cannot be
    // watched are still read periodically.
    for directory in directories(paths) {
        let _ = inotify.add(&directory, what);
    }
}

/// Waits for notifications of the directories, and reads at most [`MAX_EVENTS`] notifications.
async fn next(notifications: &Changes) -> io::Result<()> {
    let mut taken = 0;
    while taken == 0 {
        notifications.next(MAX_EVENTS, |_| taken += 1).await?;
    }
    Ok(())
}

/// Returns the YAML files of a directory, sorted by name, except hidden files. Symbolic links count, because a mounted
/// ConfigMap is a directory of links. Returns an error if there are more than [`MAX_FILES`] files.
pub(crate) fn yaml_files(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let name = entry?.file_name();
        let text = name.to_string_lossy();
        if text.starts_with('.') || !(text.ends_with(".yaml") || text.ends_with(".yml")) {
            continue;
        }
        if files.len() >= MAX_FILES {
            let message = format!("the directory has more than {MAX_FILES} YAML files");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        files.push(directory.join(name));
    }
    files.sort();
    Ok(files)
}

/// Returns every directory that determines the targets of `paths`: the directories among `paths`, and the parent
/// directories of all files, of symbolic links and of their targets.
fn directories(paths: &[PathBuf]) -> BTreeSet<PathBuf> {
    let mut directories = BTreeSet::new();
    let inside = paths.iter().filter_map(|path| {
        let files = yaml_files(path).ok()?;
        directories.insert(path.clone());
        Some(files)
    });
    let inside: Vec<PathBuf> = inside.flatten().collect();
    for path in paths.iter().chain(&inside) {
        let mut link = path.clone();
        // Like the kernel, follow at most 40 links. The limit also ends cycles.
        for _ in 0..40 {
            let Some(directory) = link.parent() else { break };
            let directory = if directory.as_os_str().is_empty() {
                Path::new(".")
            } else {
                directory
            };
            directories.insert(directory.to_owned());
            match std::fs::read_link(&link) {
                Ok(target) => link = directory.join(target),
                Err(_) => break,
            }
        }
        // A directory in the path can be a link (`..data`), so also watch the resolved parent directory.
        if let Ok(real) = path.canonicalize() {
            directories.extend(real.parent().map(Path::to_owned));
        }
    }
    directories
}

fn fingerprints(paths: &[PathBuf]) -> Vec<Option<u64>> {
    paths.iter().map(|path| fingerprint(path)).collect()
}

/// Returns a hash of the contents, or of the size and the modification time of a large file. Returns `None` if the path
/// cannot be read, or is neither a file nor a directory. The hash is never shown, because the file can contain a
/// secret.
fn fingerprint(path: &Path) -> Option<u64> {
    let metadata = std::fs::metadata(path).ok()?;
    let mut hasher = DefaultHasher::new();
    if metadata.is_dir() {
        for file in yaml_files(path).ok()? {
            let is_file = std::fs::metadata(&file).is_ok_and(|metadata| metadata.is_file());
            (&file, is_file.then(|| fingerprint(&file))).hash(&mut hasher);
        }
        return Some(hasher.finish());
    }
    if !metadata.is_file() {
        return None;
    }
    if metadata.len() > LARGEST {
        metadata.len().hash(&mut hasher);
        metadata.modified().ok().hash(&mut hasher);
    } else {
        std::fs::read(path).ok()?.hash(&mut hasher);
    }
    Some(hasher.finish())
}
