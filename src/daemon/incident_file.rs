//! Open incidents on disk, in `state.directory`. The file is written one second after a change and at shutdown, and
//! read at startup.
//!
//! The file is replaced as a whole (a new file is written, synced and renamed), so a kill leaves either the old file or
//! the new one.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base::time::Moment;
use serde::{Deserialize, Serialize};
use tracing::warn;

use crate::daemon::state::boot_id;
use crate::pipeline::{Pipeline, StoredState};
use delivery::alerts::{Notifier, UnsentChange};
use delivery::otlp::Note;
use processes::files;

/// File name in the state directory.
const NAME: &str = "incidents.json";

/// Maximum size of the file, in bytes. A thousand incidents take less than a quarter of this size.
const MAX_BYTES: u64 = 16 << 20;

/// Version of the format. Files of other versions are not read.
const VERSION: u32 = 1;

/// The content of the file.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Content {
    version: u32,
    /// Boot for which the pids and start times are valid; `None` if unknown.
    boot_id: Option<String>,
    incidents: Vec<StoredState>,
    /// Changes that were not delivered to webhooks.
    #[serde(default)]
    unsent: Vec<UnsentChange>,
}

/// Fields that every version of the file has.
#[derive(Deserialize)]
struct Version {
    version: u32,
}

/// Maximum number of undelivered changes in the file; the newest are kept.
const MAX_UNSENT: usize = 1000;

/// Age at which a waiting change counts as unsent. gcwatch is probably still sending a younger change.
const UNSENT_AFTER: Duration = Duration::from_secs(2);

/// The file of open incidents.
#[derive(Debug)]
pub(super) struct IncidentFile {
    path: PathBuf,
    boot_id: Option<String>,
    /// State that all writes share.
    shared: Arc<Shared>,
}

/// State that all writes share.
#[derive(Debug, Default)]
struct Shared {
    /// Mark of the incidents and the unsent changes that were written last, or are being written.
    written: AtomicU64,
    /// Whether a write of the tick is in progress.
    writing: AtomicBool,
    /// Whether the last write failed. The failure was reported.
    failed: AtomicBool,
    /// Serializes writes, so that the write at shutdown does not rename the new file of a write that the tick started.
    file: Mutex<()>,
}

impl IncidentFile {
    pub(super) fn new(directory: &Path) -> Self {
        Self {
            path: directory.join(NAME),
            boot_id: boot_id(),
            shared: Arc::default(),
        }
    }

    /// Reads the file of the previous daemon. Blocks the calling thread.
    pub(super) fn read(&self) -> io::Result<Option<Content>> {
        read(&self.path)
    }

    /// Resumes the incidents of the previous daemon. Returns a note for the log, or `None` if there is nothing to
    /// report.
    pub(super) fn resume(
        &self,
        left: io::Result<Option<Content>>,
        pipeline: &Pipeline,
        notifier: &Notifier,
        now: Moment,
    ) -> Option<Note> {
        let content = match left {
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
        if !content.unsent.is_empty() {
            // Force a write at the next tick, because the resumed changes stay in the file until the next write.
            self.shared.written.store(u64::MAX, Ordering::Relaxed);
        }
        // Send these changes before their successors.
        let unsent = notifier.resume_unsent(&content.unsent);
        let same_boot = content.boot_id.is_some() && content.boot_id == self.boot_id;
        pipeline.resume(&content.incidents, same_boot, now);
        let count = content.incidents.len();
        let mut parts = Vec::new();
        match (count, same_boot) {
            (0, _) => {}
            (1, true) => parts.push("resumed an incident from before the restart".to_owned()),
            (_, true) => parts.push(format!("resumed {count} incidents from before the restart")),
            (_, false) => parts.push(format!("closed {count} incidents from before the machine started")),
        }
        match unsent {
            0 => {}
            1 => parts.push("sending an incident change that a webhook did not receive".to_owned()),
            _ => parts.push(format!(
                "sending {unsent} incident changes that webhooks did not receive"
            )),
        }
        (!parts.is_empty()).then(|| Note {
            is_warning: false,
            text: parts.join("; "),
        })
    }

    /// Writes the open incidents in the background if they have changed. Called once per second.
    pub(super) fn tick(&self, pipeline: &Pipeline, notifier: &Notifier) {
        let unsent = notifier.unsent_mark(UNSENT_AFTER);
        let changes = pipeline.incident_changes() ^ unsent;
        let shared = &self.shared;
        if changes == shared.written.load(Ordering::Relaxed) || shared.writing.swap(true, Ordering::Acquire) {
            return;
        }
        let before = shared.written.swap(changes, Ordering::Relaxed);
        let content = self.content(pipeline, notifier.unsent(UNSENT_AFTER));
        let (path, shared) = (self.path.clone(), Arc::clone(shared));
        // A disk can hang, so the tick does not wait for it.
        tokio::task::spawn_blocking(move || {
            if !shared.write(&path, &content) {
                // The next tick tries again.
                shared.written.store(before, Ordering::Relaxed);
            }
            shared.writing.store(false, Ordering::Release);
        });
    }

    /// Writes the open incidents and the unsent changes for the next daemon. Returns `false` if the write failed or did
    /// not finish `within` the given time.
    pub(super) async fn close(&self, pipeline: &Pipeline, unsent: Vec<UnsentChange>, within: Duration) -> bool {
        let content = self.content(pipeline, unsent);
        let (path, shared) = (self.path.clone(), Arc::clone(&self.shared));
        let written = tokio::task::spawn_blocking(move || shared.write(&path, &content));
        let written = tokio::time::timeout(within, written).await;
        matches!(written, Ok(Ok(true)))
    }

    /// Deletes the file, so that the next daemon resumes nothing.
    pub(super) fn remove(&self) {
        if let Err(error) = fs::remove_file(&self.path)
            && error.kind() != io::ErrorKind::NotFound
        {
            warn!("cannot remove {}: {error}", self.path.display());
        }
    }

    fn content(&self, pipeline: &Pipeline, mut unsent: Vec<UnsentChange>) -> Content {
        unsent.drain(..unsent.len().saturating_sub(MAX_UNSENT));
        Content {
            version: VERSION,
            boot_id: self.boot_id.clone(),
            incidents: pipeline.open_incidents(),
            unsent,
        }
    }
}

impl Shared {
    /// Writes the content, and returns whether the write succeeded. Only the first of several failures in a row is
    /// reported.
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
    let Some(text) = files::read(path, MAX_BYTES)? else {
        return Ok(None);
    };
    // Other versions can have other fields.
    let Version { version } = serde_json::from_slice(&text)?;
    if version != VERSION {
        let aside = path.with_extension(format!("v{version}.json"));
        files::rename(path, &aside, true)?;
        return Err(io::Error::other(format!(
            "the file has version {version}, but this version of gcwatch reads {VERSION}; moved it to {}",
            aside.display()
        )));
    }
    Ok(Some(serde_json::from_slice(&text)?))
}

fn write(path: &Path, content: &Content) -> io::Result<()> {
    files::write(path, &serde_json::to_vec(content)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: a newer version of gcwatch left its file, with unknown fields; then this version writes the file.
    /// Guarantee: an error reports the version of the newer file, the newer file is moved aside unchanged, and gcwatch
    /// reads the file that it wrote itself.
    #[test]
    fn newer_file_is_moved_aside() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(NAME);
        let newer = "{\"version\":2,\"incidents\":{\"of\":\"another form\"}}";
        fs::write(&path, newer).unwrap();
        let error = read(&path).unwrap_err().to_string();
        assert!(
            error.contains("the file has version 2, but this version of gcwatch reads 1"),
            "{error}"
        );
        let content = Content {
            version: VERSION,
            boot_id: None,
            incidents: Vec::new(),
            unsent: Vec::new(),
        };
        write(&path, &content).unwrap();
        assert_eq!(read(&path).unwrap().map(|content| content.version), Some(VERSION));
        let aside = folder.path().join("incidents.v2.json");
        assert_eq!(fs::read_to_string(aside).unwrap(), newer);
    }
}
