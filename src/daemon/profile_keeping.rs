//! Compares changes of configurations, and keeps the profiles of services in `state.directory`.
//!
//! The profiles are written every five minutes and at shutdown, and read at startup. The file is replaced atomically,
//! so a kill loses at most five minutes. Its first line has the version of the format, and each further line is one
//! service. A damaged line loses one service, and is reported.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use delivery::otlp::Note;
use gc_advice::profile::sampler::{MINUTE_NS, minute_of};
use gc_advice::services::Services;
use processes::files;
use serde::{Deserialize, Serialize};
use targets::host;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout};
use tracing::warn;

use crate::pipeline::Pipeline;

/// File name in the state directory.
const NAME: &str = "profiles.jsonl";
/// Maximum size of the file, in bytes. Two periods of a service take 12 KB.
const MAX_BYTES: u64 = 32 << 20;
/// Version of the format. Files of other versions are not read.
const VERSION: u32 = 2;
/// Interval between writes of the profiles.
const WRITE_INTERVAL: Duration = Duration::from_secs(300);

/// The first line of the file.
#[derive(Debug, Serialize, Deserialize)]
struct Head {
    version: u32,
}

/// Profiles that were read, with the number of damaged services, or the reason why the file could not be read.
pub(super) type ReadProfiles = io::Result<(Services, usize)>;

/// The task that compares changes and writes the profiles. At most one task runs at a time.
#[derive(Debug, Default)]
pub(super) struct ProfileKeeping {
    /// Path of the file; `None` if profiles are kept in memory only.
    path: Option<PathBuf>,
    last: Mutex<Option<Instant>>,
    working: AtomicBool,
    /// Revision of the profiles that were written last.
    written: AtomicU64,
    /// Whether the last write failed, so that a repeated failure is not reported again.
    failed: AtomicBool,
}

/// Returns the path of the file in a state directory.
fn path_in(directory: &Path) -> PathBuf {
    directory.join(NAME)
}

/// Reads the profiles of the previous daemon. The result is empty if there is no file. Blocks the calling thread.
pub(super) fn read(directory: &Path) -> ReadProfiles {
    let mut services = Services::default();
    let Some(bytes) = files::read(&path_in(directory), MAX_BYTES)? else {
        return Ok((services, 0));
    };
    let text = String::from_utf8_lossy(&bytes);
    let mut lines = text.lines();
    let head: Head = serde_json::from_str(lines.next().unwrap_or_default())?;
    if head.version != VERSION {
        let version = head.version;
        return Err(io::Error::other(format!(
            "the file has version {version}, but this version of gcwatch reads {VERSION}"
        )));
    }
    let damaged = lines.filter(|line| services.restore(line).is_err()).count();
    // Minutes of the future cannot be continued: the clock was set back while gcwatch did not run.
    let now = minute_of(host::now());
    let damaged = damaged + services.forget_future(now);
    Ok((services, damaged))
}

/// Writes the profiles. Minutes of the pipeline become minutes of the wall clock. Blocks the calling thread.
fn write(path: &Path, pipeline: &Pipeline) -> io::Result<()> {
    let shift = pipeline.wall().ahead_ns() / MINUTE_NS.cast_signed();
    let mut text = serde_json::to_string(&Head { version: VERSION })?;
    text.push('\n');
    // Lock the profiles once per service, because readers of processes wait for this lock.
    let keys = pipeline.shared().changes().services.keys();
    for key in keys {
        let line = pipeline.shared().changes().services.line(&key, shift);
        for part in line.iter().flat_map(|line| [line.as_str(), "\n"]) {
            text.push_str(part);
        }
    }
    files::write(path, text.as_bytes())
}

impl ProfileKeeping {
    /// Creates the task, with the profiles of the previous daemon. `read` is `None` if profiles are kept in memory
    /// only. Returns a note for the log, or `None` if there is nothing to report.
    pub(super) fn begin(
        directory: Option<&Path>,
        read: Option<ReadProfiles>,
        pipeline: &Pipeline,
    ) -> (Arc<Self>, Option<Note>) {
        let path = directory.filter(|_| read.is_some()).map(path_in);
        let shown = path.as_deref().unwrap_or(Path::new(NAME)).display().to_string();
        let problem = match read {
            None => None,
            Some(Ok((services, damaged))) => {
                pipeline.shared().changes().services = services;
                (damaged > 0).then(|| format!("ignored {damaged} damaged services in {shown}"))
            }
            Some(Err(error)) => Some(format!(
                "cannot read the profiles of services in {shown}: {error}; starting without profiles"
            )),
        };
        let keeping = Self {
            path,
            ..Self::default()
        };
        let note = problem.map(|text| Note { is_warning: true, text });
        (Arc::new(keeping), note)
    }

    /// Compares changes and writes the profiles in the background, if due. Called once per second.
    pub(super) fn tick(self: &Arc<Self>, pipeline: &Pipeline, now: Instant) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let is_time = now.saturating_duration_since(*last.get_or_insert(now)) >= WRITE_INTERVAL;
        let is_due = is_time && self.path.is_some();
        if !is_due && !pipeline.has_comparisons() || self.working.swap(true, Ordering::Acquire) {
            return;
        }
        if is_due {
            *last = Some(now);
        }
        let (keeping, pipeline) = (Arc::clone(self), pipeline.clone());
        spawn_blocking(move || {
            pipeline.compare_changes();
            if is_due {
                keeping.write(&pipeline);
            }
            keeping.working.store(false, Ordering::Release);
        });
    }

    /// Writes the profiles, unless a task is still running. Waits for at most `within`.
    pub(super) async fn close(self: &Arc<Self>, pipeline: &Pipeline, within: Duration) {
        if self.path.is_none() || self.working.swap(true, Ordering::Acquire) {
            return;
        }
        let (keeping, pipeline) = (Arc::clone(self), pipeline.clone());
        let writing = spawn_blocking(move || keeping.write(&pipeline));
        let _late = timeout(within, writing).await;
    }

    /// Writes the profiles if they have changed. Only the first of several failures in a row is reported.
    fn write(&self, pipeline: &Pipeline) {
        let Some(path) = &self.path else { return };
        let revision = pipeline.shared().changes().revision;
        if revision == self.written.load(Ordering::Relaxed) {
            return;
        }
        let done = write(path, pipeline);
        let was_failed = self.failed.swap(done.is_err(), Ordering::Relaxed);
        match done {
            Ok(()) => self.written.store(revision, Ordering::Relaxed),
            Err(error) if !was_failed => {
                let path = path.display();
                warn!("cannot write the profiles of services to {path}: {error}; a restart loses them");
            }
            Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Scenario: there is no file; the file is damaged at its start, has another version, or has one damaged line.
    /// Guarantee: a missing file has no profiles; a damaged start and another version are errors; a damaged line is
    /// counted.
    #[test]
    fn damaged_file_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        let read = || {
            read(folder.path())
                .map(|(_, damaged)| damaged)
                .map_err(|error| error.to_string())
        };
        let put = |text: &str| fs::write(path_in(folder.path()), text).unwrap();
        assert_eq!(read(), Ok(0));
        put("{\"vers");
        assert!(read().is_err());
        put("{\"version\":1}\n{}\n");
        assert!(read().unwrap_err().contains("version 1"));
        put("{\"version\":2}\n{\"service\":\n");
        assert_eq!(read(), Ok(1));
    }
}
