//! Open incidents on disk, below `state.directory`: written a second after a change and at the end, read at the start.
//!
//! The file is replaced as a whole (written beside it, synced, renamed), so that a kill leaves the old one or the new
//! one.

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

/// Its name in the state directory.
const NAME: &str = "incidents.json";

/// The largest file that is read: a thousand incidents take less than a quarter of it.
const MOST_BYTES: u64 = 16 << 20;

/// The version of the format. Others are not read.
const VERSION: u32 = 1;

/// The content of the file.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Content {
    version: u32,
    /// Pids and start times are those of this boot.
    boot_id: Option<String>,
    incidents: Vec<StoredState>,
    /// Changes that webhooks did not get.
    #[serde(default)]
    unsent: Vec<UnsentChange>,
}

/// What every version of the file has.
#[derive(Deserialize)]
struct Version {
    version: u32,
}

/// Most changes that webhooks did not get in the file, the newest.
const MOST_UNSENT: usize = 1000;

/// A change that waits for so long is not one that is just being sent.
const UNSENT_AFTER: Duration = Duration::from_secs(2);

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
        Self {
            path: directory.join(NAME),
            boot_id: boot_id(),
            shared: Arc::default(),
        }
    }

    /// What the last daemon left; blocking.
    pub(super) fn read(&self) -> io::Result<Option<Content>> {
        read(&self.path)
    }

    /// Continues what the last daemon left. What is said of it, for the log.
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
            // The file has them until it is written again.
            self.shared.written.store(u64::MAX, Ordering::Relaxed);
        }
        // Before what follows them.
        let unsent = notifier.resume_unsent(&content.unsent);
        let same_boot = content.boot_id.is_some() && content.boot_id == self.boot_id;
        pipeline.resume(&content.incidents, same_boot, now);
        let count = content.incidents.len();
        let mut parts = Vec::new();
        match (count, same_boot) {
            (0, _) => {}
            (1, true) => parts.push("an incident from before goes on".to_owned()),
            (_, true) => parts.push(format!("{count} incidents from before go on")),
            (_, false) => parts.push(format!("{count} incidents from before the machine started have ended")),
        }
        match unsent {
            0 => {}
            1 => parts.push("a change of an incident is sent now that a webhook did not get".to_owned()),
            _ => parts.push(format!(
                "{unsent} changes of incidents are sent now that webhooks did not get"
            )),
        }
        (!parts.is_empty()).then(|| Note {
            is_warning: false,
            text: parts.join("; "),
        })
    }

    /// Writes what is open, in the background, when it changed. Called once a second.
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
        // A disk may hang: the tick does not wait for it.
        tokio::task::spawn_blocking(move || {
            if !shared.write(&path, &content) {
                // The next tick tries again.
                shared.written.store(before, Ordering::Relaxed);
            }
            shared.writing.store(false, Ordering::Release);
        });
    }

    /// Writes what is open and what was not sent, for the next daemon. False: that was not possible `within` that time.
    pub(super) async fn close(&self, pipeline: &Pipeline, unsent: Vec<UnsentChange>, within: Duration) -> bool {
        let content = self.content(pipeline, unsent);
        let (path, shared) = (self.path.clone(), Arc::clone(&self.shared));
        let written = tokio::task::spawn_blocking(move || shared.write(&path, &content));
        let written = tokio::time::timeout(within, written).await;
        matches!(written, Ok(Ok(true)))
    }

    /// Nothing is left to the next daemon.
    pub(super) fn remove(&self) {
        if let Err(error) = fs::remove_file(&self.path)
            && error.kind() != io::ErrorKind::NotFound
        {
            warn!("cannot remove {}: {error}", self.path.display());
        }
    }

    fn content(&self, pipeline: &Pipeline, mut unsent: Vec<UnsentChange>) -> Content {
        unsent.drain(..unsent.len().saturating_sub(MOST_UNSENT));
        Content {
            version: VERSION,
            boot_id: self.boot_id.clone(),
            incidents: pipeline.open_incidents(),
            unsent,
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
    let Some(text) = files::read(path, MOST_BYTES)? else {
        return Ok(None);
    };
    // Other versions may have other fields.
    let Version { version } = serde_json::from_slice(&text)?;
    if version != VERSION {
        let aside = path.with_extension(format!("v{version}.json"));
        files::rename(path, &aside, true)?;
        return Err(io::Error::other(format!(
            "its version is {version}, this gcwatch reads {VERSION}; it is left in {}",
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

    /// Scenario: a newer gcwatch left its file, with fields that this one does not know; then this one writes.
    /// Guarantee: that it was there is said, and it is set aside as it was.
    #[test]
    fn a_newer_file_is_set_aside() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(NAME);
        let newer = "{\"version\":2,\"incidents\":{\"of\":\"another form\"}}";
        fs::write(&path, newer).unwrap();
        let error = read(&path).unwrap_err().to_string();
        assert!(error.contains("its version is 2, this gcwatch reads 1"), "{error}");
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
