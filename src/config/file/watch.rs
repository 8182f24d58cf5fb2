//! Awaits that a file changes.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::inotify;
use tokio::io::unix::AsyncFd;
use tokio::time::Instant;

/// How long it has to be quiet before a change is told: editors write in several steps, Kubernetes renames.
const QUIET: Duration = Duration::from_millis(200);
/// A file that is written to without end is looked at all the same.
const LONGEST_WAIT: Duration = Duration::from_secs(2);
/// How often the files are looked at although nothing announced a change (network file systems announce nothing).
const SLOW_LOOK: Duration = Duration::from_secs(60);
/// The same where the kernel announces nothing at all.
const FAST_LOOK: Duration = Duration::from_secs(5);
/// Between two readings of what is announced: somebody who writes without end costs a look now and then, and no more.
const REST: Duration = Duration::from_millis(20);
/// Announcements that are read at once. Where reading is itself announced (a trace of us is written beside the file) there is no last one.
const MOST_EVENTS: usize = 1024;
/// Files larger than this are told apart by their size and time only.
const LARGEST: u64 = 4 << 20;

/// Most files of one folder.
const MOST_FILES: usize = 1000;

/// Awaits that the contents of one of several files change, or those of a folder's YAML files, or which there are, by whatever way: written in place, replaced by a rename, or
/// through a symbolic link that is pointed elsewhere, as Kubernetes does with a ConfigMap (`..data`).
#[derive(Debug)]
pub struct Watch {
    paths: Vec<PathBuf>,
    seen: Vec<Option<u64>>,
    announcements: io::Result<Announcements>,
    /// Something was announced, and nobody was told yet: a call that was given up loses nothing.
    pending: bool,
}

#[derive(Debug)]
struct Announcements(AsyncFd<OwnedFd>);

impl Watch {
    /// Begins to watch; what the files hold now is what they are compared with. Needs a tokio runtime. Files that are not
    /// there may come.
    pub fn new(paths: Vec<PathBuf>) -> Self {
        let announcements = Announcements::begin();
        if let Ok(announcements) = &announcements {
            announcements.watch(&folders(&paths));
        }
        // After the watching began: no change falls between.
        let seen = fingerprints(&paths);
        Self {
            paths,
            seen,
            announcements,
            pending: false,
        }
    }

    /// Why the kernel announces no changes, when it does not: then the files are looked at every few seconds.
    pub fn degraded(&self) -> Option<&io::Error> {
        self.announcements.as_ref().err()
    }

    /// Waits until the contents of a file are others than at the last return (or the beginning), and for 200 ms nothing
    /// happened. May be dropped while it waits, and called again.
    pub async fn changed(&mut self) {
        loop {
            if !self.pending {
                match &mut self.announcements {
                    Ok(announcements) => tokio::select! {
                        announced = announcements.next() => if let Err(error) = announced {
                            self.announcements = Err(error);
                        },
                        () = tokio::time::sleep(SLOW_LOOK) => {}
                    },
                    Err(_) => tokio::time::sleep(FAST_LOOK).await,
                }
                self.pending = true;
            }
            self.quiet().await;
            // Links may lead into other folders now; these are watched before the files are looked at.
            if let (Ok(announcements), Some(folders)) = (&self.announcements, self.look(folders).await) {
                announcements.watch(&folders);
            }
            let now = self.look(fingerprints).await;
            self.pending = false;
            if let Some(now) = now.filter(|now| *now != self.seen) {
                self.seen = now;
                return;
            }
        }
    }

    /// Looks at the files on a thread that may wait: a network file system can be slow.
    async fn look<T: Send + 'static>(&self, at: fn(&[PathBuf]) -> T) -> Option<T> {
        let paths = self.paths.clone();
        tokio::task::spawn_blocking(move || at(&paths)).await.ok()
    }

    /// Waits until nothing is announced for a while.
    async fn quiet(&mut self) {
        let Ok(announcements) = &mut self.announcements else {
            return;
        };
        let end = Instant::now() + LONGEST_WAIT;
        while Instant::now() < end {
            match tokio::time::timeout(QUIET, announcements.next()).await {
                Ok(Ok(())) => tokio::time::sleep(REST).await,
                Ok(Err(_)) | Err(_) => return,
            }
        }
    }
}

impl Announcements {
    fn begin() -> io::Result<Self> {
        let inotify = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK)?;
        // The constructor that replaces this one is `unsafe`, which this project has none of. What it is about cannot happen
        // here: an `OwnedFd` is the same descriptor as long as it lives.
        #[allow(deprecated, reason = "see above")]
        let inotify = AsyncFd::new(inotify)?;
        Ok(Self(inotify))
    }

    /// Watches folders, each by the name that it has now.
    fn watch(&self, folders: &BTreeSet<PathBuf>) {
        let what = inotify::WatchFlags::CREATE
            | inotify::WatchFlags::CLOSE_WRITE
            | inotify::WatchFlags::MODIFY
            | inotify::WatchFlags::MOVED_TO
            | inotify::WatchFlags::MOVED_FROM
            | inotify::WatchFlags::DELETE
            | inotify::WatchFlags::ONLYDIR;
        // All of them again: a folder that was replaced has the old name and is another. For one that is watched already
        // this changes nothing. One that cannot be watched is looked at slowly, as everything is.
        for folder in folders {
            let _ = inotify::add_watch(&self.0, folder, what);
        }
    }

    /// Waits until something happens in one of the folders, and takes what has happened, up to [`MOST_EVENTS`].
    async fn next(&mut self) -> io::Result<()> {
        loop {
            let mut ready = self.0.readable().await?;
            let mut space = [MaybeUninit::uninit(); 4096];
            let mut reader = inotify::Reader::new(ready.get_inner(), &mut space);
            let mut taken = 0;
            let end = loop {
                match reader.next() {
                    Ok(_) => taken += 1,
                    Err(error) => break Some(error),
                }
                if taken >= MOST_EVENTS {
                    break None;
                }
            };
            match end {
                Some(rustix::io::Errno::AGAIN) => ready.clear_ready(),
                Some(rustix::io::Errno::INTR) | None => {}
                Some(error) => return Err(error.into()),
            }
            if taken > 0 {
                return Ok(());
            }
        }
    }
}

/// The YAML files of a folder, by name, hidden ones aside. A mounted ConfigMap is a folder of links.
///
/// # Errors
///
/// When it is none, cannot be read, or has too many.
pub(crate) fn yaml_files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let name = entry?.file_name();
        let text = name.to_string_lossy();
        if text.starts_with('.') || !(text.ends_with(".yaml") || text.ends_with(".yml")) {
            continue;
        }
        if files.len() >= MOST_FILES {
            let message = format!("it has more than {MOST_FILES} YAML files");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        files.push(folder.join(name));
    }
    files.sort();
    Ok(files)
}

/// Every folder that decides what `paths` are: their own, and those of the links on the way.
fn folders(paths: &[PathBuf]) -> BTreeSet<PathBuf> {
    let mut folders = BTreeSet::new();
    let inside = paths.iter().filter_map(|path| {
        let files = yaml_files(path).ok()?;
        folders.insert(path.clone());
        Some(files)
    });
    let inside: Vec<PathBuf> = inside.flatten().collect();
    for path in paths.iter().chain(&inside) {
        let mut link = path.clone();
        // As many links as the kernel follows; a circle ends here.
        for _ in 0..40 {
            let Some(folder) = link.parent() else { break };
            let folder = if folder.as_os_str().is_empty() {
                Path::new(".")
            } else {
                folder
            };
            folders.insert(folder.to_owned());
            match std::fs::read_link(&link) {
                Ok(target) => link = folder.join(target),
                Err(_) => break,
            }
        }
        // The folder may itself be behind links (`..data`).
        if let Ok(real) = path.canonicalize() {
            folders.extend(real.parent().map(Path::to_owned));
        }
    }
    folders
}

fn fingerprints(paths: &[PathBuf]) -> Vec<Option<u64>> {
    paths.iter().map(|path| fingerprint(path)).collect()
}

/// What tells two contents apart; `None`: there is no such file. Never shown: the file may hold a secret.
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
