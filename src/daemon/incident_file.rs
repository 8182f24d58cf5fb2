//! Open incidents on disk, below `state.directory`: written a second after a change and at the end, read at the start.
//!
//! The file is replaced as a whole (written beside it, synced, renamed), so that a kill leaves the old one or the new
//! one.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use tracing::warn;

use crate::pipeline::{Pipeline, StoredState};
use delivery::otlp::Note;

/// Its name in the state directory.
const NAME: &str = "incidents.json";

/// The largest file that is read: a thousand incidents take less than a quarter of it.
const MOST_BYTES: u64 = 16 << 20;

/// The version of the format. Others are not read.
const VERSION: u32 = 1;

/// The content of the file.
#[derive(Debug, Serialize, Deserialize)]
struct Content {
    version: u32,
    /// Pids and start times are those of this boot.
    boot_id: Option<String>,
    incidents: Vec<StoredState>,
}

/// The file of the open incidents.
#[derive(Debug)]
pub(super) struct IncidentFile {
    path: PathBuf,
    boot_id: Option<String>,
    /// What the writes share.
    shared: Arc<Shared>,
}

/// What the writes share.
#[derive(Debug, Default)]
struct Shared {
    /// The state of the pipeline that was written last, or is being written.
    written: AtomicU64,
    /// A tick's write is in progress.
    writing: AtomicBool,
    /// The last write failed, which was reported.
    failed: AtomicBool,
    /// One write at a time: that of the end does not take the new file from under that of a tick.
    file: Mutex<()>,
}

impl IncidentFile {
    pub(super) fn new(directory: &Path) -> Self {
        let boot_id = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok();
        Self {
            path: directory.join(NAME),
            boot_id: boot_id.map(|id| id.trim().to_owned()),
            shared: Arc::default(),
        }
    }

    /// Continues what the last daemon left. What is said of it, for the log.
    pub(super) fn resume(&self, pipeline: &Pipeline, now_unix_ns: u64) -> Option<Note> {
        let content = match read(&self.path) {
            Ok(content) => content?,
            Err(error) => {
                return Some(Note {
                    is_warning: true,
                    text: format!(
                        "cannot read the open incidents in {}: {error}; receivers are not notified of their ends",
                        self.path.display()
                    ),
                });
            }
        };
        let same_boot = content.boot_id.is_some() && content.boot_id == self.boot_id;
        pipeline.resume(&content.incidents, same_boot, now_unix_ns);
        let count = content.incidents.len();
        (count > 0).then(|| Note {
            is_warning: false,
            text: match (count, same_boot) {
                (1, true) => "an incident from before goes on".to_owned(),
                (_, true) => format!("{count} incidents from before go on"),
                (_, false) => format!("{count} incidents from before the machine started have ended"),
            },
        })
    }

    /// Writes what is open, in the background, when it changed. Called once a second.
    pub(super) fn tick(&self, pipeline: &Pipeline) {
        let changes = pipeline.incident_changes();
        let shared = &self.shared;
        if changes == shared.written.load(Ordering::Relaxed) || shared.writing.swap(true, Ordering::Acquire) {
            return;
        }
        let before = shared.written.swap(changes, Ordering::Relaxed);
        let content = self.content(pipeline);
        let (path, shared) = (self.path.clone(), Arc::clone(shared));
        // A disk may hang: the tick does not wait for it.
        tokio::task::spawn_blocking(move || {
            if !shared.write(&path, &content) {
                // The next tick tries again.
                shared.written.store(before, Ordering::Relaxed);
            }
            shared.writing.store(false, Ordering::Release);
        });
    }

    /// Writes what is open, for the next daemon.
    pub(super) async fn close(&self, pipeline: &Pipeline) {
        let content = self.content(pipeline);
        let (path, shared) = (self.path.clone(), Arc::clone(&self.shared));
        let written = tokio::task::spawn_blocking(move || shared.write(&path, &content));
        let _hung = tokio::time::timeout(super::services::FLUSH, written).await;
    }

    /// Nothing is left to the next daemon.
    pub(super) fn remove(&self) {
        if let Err(error) = fs::remove_file(&self.path)
            && error.kind() != io::ErrorKind::NotFound
        {
            warn!("cannot remove {}: {error}", self.path.display());
        }
    }

    fn content(&self, pipeline: &Pipeline) -> Content {
        Content {
            version: VERSION,
            boot_id: self.boot_id.clone(),
            incidents: pipeline.open_incidents(),
        }
    }
}

impl Shared {
    /// Whether it was written. Reports the first failure, not those that follow.
    fn write(&self, path: &Path, content: &Content) -> bool {
        let file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let done = write(path, content);
        drop(file);
        let (is_written, was_failed) = (done.is_ok(), self.failed.swap(done.is_err(), Ordering::Relaxed));
        if let (Err(error), false) = (done, was_failed) {
            warn!(
                "cannot write the open incidents to {}: {error}; after a kill, receivers are not notified of their ends",
                path.display()
            );
        }
        is_written
    }
}

fn read(path: &Path) -> io::Result<Option<Content>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut text = String::new();
    file.take(MOST_BYTES).read_to_string(&mut text)?;
    let content: Content = serde_json::from_str(&text)?;
    if content.version != VERSION {
        let message = format!("its version is {}, this gcwatch reads {VERSION}", content.version);
        return Err(io::Error::other(message));
    }
    Ok(Some(content))
}

fn write(path: &Path, content: &Content) -> io::Result<()> {
    let new = path.with_extension("json.new");
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&new)?;
    file.write_all(&serde_json::to_vec(content)?)?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    match path.parent() {
        Some(directory) => File::open(directory)?.sync_all(),
        None => Ok(()),
    }
}
