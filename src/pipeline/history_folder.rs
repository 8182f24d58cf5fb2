//! One day of history per run on disk, below `state.directory`. Each run has one file. Buckets are appended some time
//! after they ended.
//!
//! ```text
//! once a minute, on a thread that can wait for a disk: Pipeline::keep_history -> new buckets of each run -> its file
//! /api/v1/processes/PID/history                     <- its file, and the buckets in memory
//! ```
//!
//! There is one writer, which only appends. Readers see whole frames only ([`stored`]). A bucket that cannot be written
//! is missing only in the file and stays in memory. Files belong to one boot of the machine, because pids and start
//! times mean nothing after a reboot.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use base::directory::create_private;
use tracing::warn;

use base::run_key::RunKey;
use processes::files::{self, SAFE_OPEN_FLAGS};
use run::history::{BUCKET_NS, Bucket, stored};

/// Name of the directory inside the state directory. Another version of the format uses another name.
const FOLDER: &str = "history-1";
/// Suffix of file names.
const ENDING: &str = ".history";
/// Name of the file that contains the boot id for which the files are valid.
const BOOT: &str = "boot";
/// Maximum size of the boot id file, in bytes.
const MAX_BOOT: u64 = 256;
/// Number of buckets per day.
const DAY: u64 = 24 * 3600 * 1_000_000_000 / BUCKET_NS;
/// A file is rewritten when its oldest bucket is older than a day by this number of buckets.
const MAX_EXCESS_BUCKETS: u64 = DAY / 12;
/// Maximum size of one file, in bytes. A busy day takes a quarter of this size.
const MAX_FILE: u64 = 2 << 20;
/// Maximum number of files. A host on which programs start frequently has many small files.
const MAX_FILES: usize = 1024;
/// Maximum size of all files together, in bytes.
pub(crate) const MAX_ALL: u64 = 256 << 20;
/// Retention period for files of processes that have exited.
const KEPT_FOR: Duration = Duration::from_secs(24 * 3600);

/// The history files of all runs.
#[derive(Debug)]
pub struct HistoryFolder {
    folder: PathBuf,
    boot_id: Option<String>,
    /// Whether the directory exists and only has files of this boot.
    is_prepared: AtomicBool,
    known: Mutex<BTreeMap<RunKey, FileFacts>>,
    /// Whether the last write failed. The failure has been reported.
    failed: AtomicBool,
}

/// Facts about a file.
#[derive(Debug, Clone, Copy, Default)]
struct FileFacts {
    /// Number of bytes up to the end of the last whole frame.
    whole: u64,
    /// Index of the oldest and of the newest bucket; `None` if the file has no bucket.
    span: Option<(u64, u64)>,
}

impl HistoryFolder {
    /// Opens the directory below the state directory, and creates it if necessary. Also returns the reason if the
    /// directory cannot be used now; each write tries again. `boot_id`: `None` if unknown. Blocks the calling thread.
    pub fn open(state: &Path, boot_id: Option<&str>) -> (Self, io::Result<()>) {
        let opened = Self {
            folder: state.join(FOLDER),
            boot_id: boot_id.map(str::to_owned),
            is_prepared: AtomicBool::new(false),
            known: Mutex::default(),
            failed: AtomicBool::new(false),
        };
        let prepared = opened.prepare();
        opened.failed.store(prepared.is_err(), Ordering::Relaxed);
        (opened, prepared)
    }

    /// Returns the path of the directory.
    pub fn path_of_all(&self) -> &Path {
        &self.folder
    }

    /// Creates the directory, once. Removes the files of another boot or of an unknown boot.
    fn prepare(&self) -> io::Result<()> {
        if self.is_prepared.load(Ordering::Acquire) {
            return Ok(());
        }
        create_private(&self.folder)?;
        let boot = self.folder.join(BOOT);
        let before = files::read(&boot, MAX_BOOT).ok().flatten();
        let boot_id = self.boot_id.as_deref().map(str::as_bytes);
        if boot_id.is_none() || before.as_deref() != boot_id {
            for (path, _) in self.files()? {
                fs::remove_file(path)?;
            }
            files::write(&boot, boot_id.unwrap_or_default())?;
        }
        self.is_prepared.store(true, Ordering::Release);
        Ok(())
    }

    fn path(&self, run: RunKey) -> PathBuf {
        self.folder.join(format!("{}-{}{ENDING}", run.pid, run.start_time))
    }

    /// Returns the index of the oldest bucket that is kept of a run, or `None` if the index is unknown without reading
    /// the disk.
    pub(crate) fn first(&self, run: RunKey) -> Option<u64> {
        self.known().get(&run)?.span.map(|(first, _)| first)
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<RunKey, FileFacts>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the buckets that are kept of a run. Blocks the calling thread.
    ///
    /// # Errors
    ///
    /// Returns an error if the file exists but cannot be read.
    pub(crate) fn read(&self, run: RunKey) -> io::Result<Vec<Bucket>> {
        // Before preparation, the files can belong to another boot.
        if !self.is_prepared.load(Ordering::Acquire) {
            return Ok(Vec::new());
        }
        Ok(look(&self.path(run))?.buckets)
    }

    /// Appends the given buckets that are new. The buckets must be in order and final. Returns whether the write
    /// succeeded; only the first of several failures in a row is reported. Blocks the calling thread.
    pub(crate) fn keep(&self, run: RunKey, buckets: &[Bucket]) -> bool {
        let done = self.prepare().and_then(|()| self.add(run, buckets));
        let was_failed = self.failed.swap(done.is_err(), Ordering::Relaxed);
        if let (Err(error), false) = (&done, was_failed) {
            let path = self.folder.display();
            warn!("cannot keep the history of processes in {path}: {error}; the page shows only the last 30 minutes");
        }
        done.is_ok()
    }

    fn add(&self, run: RunKey, buckets: &[Bucket]) -> io::Result<()> {
        let path = self.path(run);
        let known = self.known().get(&run).copied();
        let known = match known {
            Some(known) => known,
            None => {
                let stored = look(&path)?;
                FileFacts::new(stored.whole, &stored.buckets)
            }
        };
        let (Some(oldest), Some(newest)) = (buckets.first(), buckets.last()) else {
            return Ok(());
        };
        let last = known.span.map(|(_, last)| last);
        // The clock was set back.
        let is_back = last.is_some_and(|last| newest.index < last);
        let new: Vec<Bucket> = buckets
            .iter()
            .filter(|bucket| is_back || last.is_none_or(|last| bucket.index > last))
            .cloned()
            .collect();
        if new.is_empty() {
            self.known().insert(run, known);
            return Ok(());
        }
        let frame = stored::frame(&new);
        let is_full = known.whole + frame.len() as u64 > MAX_FILE;
        let is_old = known
            .span
            .is_some_and(|(first, _)| newest.index.saturating_sub(first) > DAY + MAX_EXCESS_BUCKETS);
        let written = if known.whole == 0 || is_full || is_old || is_back {
            let mut kept = look(&path)?.buckets;
            kept.retain(|bucket| {
                bucket.index < oldest.index || (!is_back && last.is_some_and(|last| bucket.index <= last))
            });
            kept.retain(|bucket| newest.index - bucket.index.min(newest.index) < DAY);
            if is_full {
                kept.drain(..kept.len() / 4);
            }
            kept.extend(new);
            anew(&path, &kept)
        } else {
            append(&path, known.whole, &frame).map(|whole| FileFacts {
                whole,
                span: known.span.map(|(first, _)| (first, newest.index)),
            })
        };
        match written {
            Ok(known) => {
                self.known().insert(run, known);
                Ok(())
            }
            Err(error) => {
                // The frame can be incomplete. The next read finds the end of the last whole frame.
                self.known().remove(&run);
                Err(error)
            }
        }
    }

    /// Returns the files with their metadata. Ignores links, directories and files with other names.
    fn files(&self) -> io::Result<Vec<(PathBuf, fs::Metadata)>> {
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            let is_ours = entry.file_name().to_str().is_some_and(|name| name.ends_with(ENDING));
            if !is_ours {
                continue;
            }
            let metadata = entry.metadata()?;
            if metadata.is_file() {
                files.push((entry.path(), metadata));
            }
        }
        Ok(files)
    }

    /// Removes the files that were last written more than a day ago and whose runs are no longer remembered. If the
    /// remaining files are too large or too many, also removes more files, in the order of their write times: first the
    /// files of runs that are no longer remembered, then the files of remembered runs. `runs`: runs that are still
    /// remembered. Blocks the calling thread.
    ///
    /// # Errors
    ///
    /// Returns an error if the directory cannot be read, or a file cannot be removed.
    pub(crate) fn prune(&self, runs: &BTreeSet<RunKey>, now: SystemTime) -> io::Result<()> {
        if !self.is_prepared.load(Ordering::Acquire) {
            return Ok(());
        }
        self.known().retain(|run, _| runs.contains(run));
        let remembered: BTreeSet<PathBuf> = runs.iter().map(|run| self.path(*run)).collect();
        let mut files: Vec<_> = self
            .files()?
            .into_iter()
            .map(|(path, metadata)| {
                (
                    remembered.contains(&path),
                    metadata.modified().unwrap_or(now),
                    metadata.len(),
                    path,
                )
            })
            .collect();
        files.sort();
        let mut all: u64 = files.iter().map(|(_, _, bytes, _)| bytes).sum();
        let mut count = files.len();
        for (is_remembered, modified, bytes, path) in files {
            let is_over = !is_remembered && now.duration_since(modified).is_ok_and(|age| age > KEPT_FOR);
            if is_over || all > MAX_ALL || count > MAX_FILES {
                fs::remove_file(&path)?;
                self.known().retain(|run, _| self.path(*run) != path);
                all = all.saturating_sub(bytes);
                count -= 1;
            }
        }
        Ok(())
    }
}

impl FileFacts {
    fn new(whole: usize, buckets: &[Bucket]) -> Self {
        let ends = buckets.first().zip(buckets.last());
        Self {
            whole: whole as u64,
            span: ends.map(|(first, last)| (first.index, last.index)),
        }
    }
}

fn look(path: &Path) -> io::Result<stored::StoredHistory> {
    let bytes = files::read(path, MAX_FILE)?.unwrap_or_default();
    // A file in an unknown format is rewritten.
    Ok(stored::read(&bytes).unwrap_or_default())
}

fn anew(path: &Path, buckets: &[Bucket]) -> io::Result<FileFacts> {
    let mut bytes = stored::HEAD.to_vec();
    bytes.extend(stored::frame(buckets));
    files::write(path, &bytes)?;
    Ok(FileFacts::new(bytes.len(), buckets))
}

/// Appends a frame after the last whole frame. The file is not synced: after a power failure, only the damaged frames
/// and the frames behind them are lost.
fn append(path: &Path, whole: u64, frame: &[u8]) -> io::Result<u64> {
    let mut file: File = OpenOptions::new()
        .append(true)
        .custom_flags(SAFE_OPEN_FLAGS)
        .open(path)?;
    if file.metadata()?.len() != whole {
        file.set_len(whole)?;
    }
    if let Err(error) = file.write_all(frame) {
        let _stays = file.set_len(whole);
        return Err(error);
    }
    Ok(whole + frame.len() as u64)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    const RUN: RunKey = RunKey {
        pid: 4711,
        start_time: 9,
    };

    fn buckets(indices: impl IntoIterator<Item = u64>) -> Vec<Bucket> {
        let bucket = |index| Bucket {
            index,
            stopped_ns: index * 7,
            allocated: Some(index),
            ..Bucket::default()
        };
        indices.into_iter().map(bucket).collect()
    }

    fn open(state: &Path, boot_id: &str) -> HistoryFolder {
        let (folder, prepared) = HistoryFolder::open(state, Some(boot_id));
        prepared.unwrap();
        folder
    }

    fn indices(folder: &HistoryFolder) -> Vec<u64> {
        let kept = folder.read(RUN).unwrap();
        kept.iter().map(|bucket| bucket.index).collect()
    }

    /// Scenario: the newest 30 minutes of a run are kept repeatedly, by one gcwatch instance and then by a second
    /// instance in the same boot; then the machine reboots.
    /// Guarantee: each bucket is stored once and unchanged. The file is private to its user and grows only by new
    /// buckets. No file of another boot remains, and files of another format version are not touched.
    #[test]
    fn history_continues_with_next_instance() {
        let state = tempfile::tempdir().unwrap();
        fs::create_dir(state.path().join("history-2")).unwrap();
        fs::write(state.path().join("history-2/4711-9.history"), "newer").unwrap();
        let folder = open(state.path(), "a");
        folder.keep(RUN, &buckets(100..140));
        let file = folder.path(RUN);
        let first = fs::metadata(&file).unwrap();
        assert_eq!(first.permissions().mode() & 0o7777, 0o600);
        folder.keep(RUN, &buckets(101..140));
        assert_eq!(fs::metadata(&file).unwrap().len(), first.len());
        folder.keep(RUN, &buckets(130..150));
        let folder = open(state.path(), "a");
        assert_eq!(folder.first(RUN), None);
        folder.keep(RUN, &buckets(145..152));
        assert_eq!(folder.read(RUN).unwrap(), buckets(100..152));
        assert_eq!(folder.first(RUN), Some(100));
        let folder = open(state.path(), "b");
        assert_eq!(folder.read(RUN).unwrap(), []);
        let newer = fs::read_to_string(state.path().join("history-2/4711-9.history")).unwrap();
        assert_eq!(newer, "newer");
    }

    /// Scenario: the last bytes of a file are missing, or garbage follows the last frame; the file has another format,
    /// a link leads out of the directory, or a write fails.
    /// Guarantee: whole frames are read, and later buckets are appended. A file in another format is replaced. The
    /// target of the link is neither read nor written. After the failed write, later buckets are kept again.
    #[test]
    fn damaged_file_loses_only_broken_frames() {
        let state = tempfile::tempdir().unwrap();
        let folder = open(state.path(), "a");
        let file = folder.path(RUN);
        let reopened = || open(state.path(), "a");
        folder.keep(RUN, &buckets(10..20));
        folder.keep(RUN, &buckets(20..30));
        let length = fs::metadata(&file).unwrap().len();
        OpenOptions::new()
            .write(true)
            .open(&file)
            .unwrap()
            .set_len(length - 1)
            .unwrap();
        let folder = reopened();
        assert_eq!(indices(&folder), Vec::from_iter(10..20));
        folder.keep(RUN, &buckets(15..35));
        assert_eq!(indices(&folder), Vec::from_iter(10..35));
        let mut bytes = fs::read(&file).unwrap();
        bytes.extend([7; 40]);
        fs::write(&file, &bytes).unwrap();
        let folder = reopened();
        folder.keep(RUN, &buckets(30..40));
        assert_eq!(indices(&folder), Vec::from_iter(10..40));
        fs::write(&file, "something else").unwrap();
        let folder = reopened();
        folder.keep(RUN, &buckets(30..40));
        assert_eq!(indices(&folder), Vec::from_iter(30..40));

        let foreign = state.path().join("foreign");
        fs::write(&foreign, stored::HEAD).unwrap();
        fs::remove_file(&file).unwrap();
        symlink(&foreign, &file).unwrap();
        let folder = reopened();
        folder.keep(RUN, &buckets(1..3));
        assert!(folder.failed.load(Ordering::Relaxed) && folder.read(RUN).is_err());
        assert_eq!(fs::read(&foreign).unwrap(), stored::HEAD);
        fs::remove_file(&file).unwrap();
        folder.keep(RUN, &buckets(1..3));
        assert!(!folder.failed.load(Ordering::Relaxed));
        assert_eq!(indices(&folder), [1, 2]);
    }

    /// Scenario: at the start, the directory cannot be created because a file has its name. Later the directory has
    /// files of another boot, a directory and a link whose names look like history files.
    /// Guarantee: initially no bucket is kept or read. Once the name is free, the history is kept, and files of the
    /// other boot do not count. The directory and the link stay unchanged.
    #[test]
    fn directory_is_created_later() {
        let state = tempfile::tempdir().unwrap();
        fs::write(state.path().join(FOLDER), "in the way").unwrap();
        let (folder, prepared) = HistoryFolder::open(state.path(), Some("b"));
        prepared.unwrap_err();
        assert_eq!(folder.path_of_all(), state.path().join("history-1"));
        assert!(!folder.keep(RUN, &buckets(1..3)));
        assert_eq!(folder.read(RUN).unwrap(), []);
        fs::remove_file(state.path().join(FOLDER)).unwrap();
        open(state.path(), "a").keep(RUN, &buckets(1..9));
        let foreign = state.path().join("foreign");
        fs::write(&foreign, "mine").unwrap();
        symlink(&foreign, state.path().join("history-1/link.history")).unwrap();
        fs::create_dir(state.path().join("history-1/x.history")).unwrap();
        assert_eq!(folder.read(RUN).unwrap(), []);
        assert!(folder.keep(RUN, &buckets(20..23)));
        assert_eq!(indices(&folder), [20, 21, 22]);
        folder
            .prune(&BTreeSet::new(), SystemTime::now() + 2 * KEPT_FOR)
            .unwrap();
        assert_eq!(indices(&folder), Vec::<u64>::new());
        assert_eq!(fs::read_to_string(&foreign).unwrap(), "mine");
        assert!(state.path().join("history-1/link.history").is_symlink());
    }

    /// Scenario: buckets of two and a half days arrive, 30 minutes at a time; then the clock is set back by an hour,
    /// and forward again.
    /// Guarantee: the file never has much more than a day and never exceeds its maximum size. Buckets from the future
    /// are dropped, and each bucket is stored once.
    #[test]
    fn one_day_is_kept() {
        let state = tempfile::tempdir().unwrap();
        let folder = open(state.path(), "a");
        let last = 5 * DAY / 2;
        for at in (0..last).step_by(180) {
            folder.keep(RUN, &buckets(at..at + 180));
            let known = *folder.known.lock().unwrap().get(&RUN).unwrap();
            let (first, newest) = known.span.unwrap();
            assert_eq!(newest, at + 179);
            assert!(newest - first <= DAY + MAX_EXCESS_BUCKETS, "{first} to {newest}");
            assert!(at < DAY || newest - first >= DAY - 180, "{first} to {newest}");
            assert!(fs::metadata(folder.path(RUN)).unwrap().len() <= MAX_FILE);
        }
        folder.keep(RUN, &buckets(last - 380..last - 360));
        let kept = indices(&folder);
        assert_eq!(kept.last(), Some(&(last - 361)));
        folder.keep(RUN, &buckets(last - 370..last - 300));
        let kept = indices(&folder);
        assert!(kept.windows(2).all(|pair| pair[0] < pair[1]));
        assert_eq!(kept.last(), Some(&(last - 301)));
    }

    /// Scenario: the directory has the file of a remembered run, the files of two runs that ended, and a foreign file.
    /// The file of the remembered run and the file of one ended run were last written two days ago. Then the files
    /// exceed the maximum total size and number.
    /// Guarantee: the old file of the ended run is removed, and the equally old file of the remembered run stays. If
    /// there are too many bytes or files, files of ended runs are removed before the file of the remembered run.
    /// Foreign files stay. A run whose file was removed starts a new file.
    #[test]
    fn old_files_are_removed_first() {
        let state = tempfile::tempdir().unwrap();
        let folder = open(state.path(), "a");
        let run = |pid| RunKey { pid, start_time: 1 };
        for pid in [1, 2, 3] {
            folder.keep(run(pid), &buckets(1..5));
        }
        let other = state.path().join(FOLDER).join("notes.txt");
        fs::write(&other, "mine").unwrap();
        let now = SystemTime::now();
        let file = |pid| OpenOptions::new().write(true).open(folder.path(run(pid))).unwrap();
        file(2).set_modified(now - 2 * KEPT_FOR).unwrap();
        file(1).set_modified(now - 2 * KEPT_FOR).unwrap();
        let remembered = BTreeSet::from([run(1)]);
        let there = || [1, 2, 3].map(|pid| folder.path(run(pid)).exists());
        folder.prune(&remembered, now).unwrap();
        assert_eq!(there(), [true, false, true]);
        file(3).set_len(MAX_ALL).unwrap();
        folder.prune(&remembered, now).unwrap();
        assert_eq!(there(), [true, false, false]);
        file(1).set_len(MAX_ALL + 1).unwrap();
        folder.prune(&remembered, now).unwrap();
        assert_eq!((there(), other.exists()), ([false; 3], true));
        folder.keep(run(1), &buckets(1..9));
        assert_eq!(folder.read(run(1)).unwrap(), buckets(1..9));
        for pid in 10..10 + MAX_FILES as u32 {
            fs::write(folder.path(run(pid)), "").unwrap();
        }
        folder.prune(&remembered, now).unwrap();
        assert_eq!(folder.files().unwrap().len(), MAX_FILES);
        assert!(folder.path(run(1)).exists());
    }
}
