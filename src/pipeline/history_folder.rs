//! A day of the history of each run on disk, below `state.directory`: one file for a run, to which buckets are added a
//! while after they ended.
//!
//! ```text
//! once a minute, on a thread that may wait for a disk: Pipeline::keep_history -> what is new of each run -> its file
//! /api/v1/processes/PID/history                     <- its file, and what is in memory
//! ```
//!
//! One writer, which adds; readers see whole frames only ([`stored`]). What cannot be written is missing there and
//! nowhere else. Files are of this boot of the machine: pids and start times mean nothing in another one.

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
use processes::files::{self, NO_SURPRISE};
use run::history::{BUCKET_NS, Bucket, stored};

/// The directory, below that of the state. Another version of the format has another one.
const FOLDER: &str = "history-1";
/// The end of a file's name.
const ENDING: &str = ".history";
/// Which boot of the machine the files are of.
const BOOT: &str = "boot";
/// Bytes of the file that says so.
const MOST_BOOT: u64 = 256;
/// Buckets of a day.
const DAY: u64 = 24 * 3600 * 1_000_000_000 / BUCKET_NS;
/// A file is written anew when its oldest bucket is so much older than a day, in buckets.
const BEYOND: u64 = DAY / 12;
/// Bytes of one file. A busy day takes a quarter.
const MOST_FILE: u64 = 2 << 20;
/// Files: a host on which programs begin all the time has many small ones.
const MOST_FILES: usize = 1024;
/// Bytes of all files.
pub(crate) const MOST_ALL: u64 = 256 << 20;
/// Files of processes that exited stay for so long.
const KEPT_FOR: Duration = Duration::from_secs(24 * 3600);

/// The files.
#[derive(Debug)]
pub struct HistoryFolder {
    folder: PathBuf,
    boot_id: Option<String>,
    /// Whether the directory exists and has files of this boot only.
    is_prepared: AtomicBool,
    known: Mutex<BTreeMap<RunKey, Known>>,
    /// The last writing failed, which was reported.
    failed: AtomicBool,
}

/// What is known of a file.
#[derive(Debug, Clone, Copy, Default)]
struct Known {
    /// Bytes that are whole.
    whole: u64,
    /// The oldest and the newest bucket.
    span: Option<(u64, u64)>,
}

impl HistoryFolder {
    /// The directory below that of the state, which is made now or later. Returns also why it cannot be used now: each
    /// writing tries again. `boot_id`: `None` if unknown. Blocks the calling thread.
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

    /// Path of the directory.
    pub fn path_of_all(&self) -> &Path {
        &self.folder
    }

    /// Makes the directory, once. Files of another boot, or of an unknown one, are removed.
    fn prepare(&self) -> io::Result<()> {
        if self.is_prepared.load(Ordering::Acquire) {
            return Ok(());
        }
        create_private(&self.folder)?;
        let boot = self.folder.join(BOOT);
        let before = files::read(&boot, MOST_BOOT).ok().flatten();
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

    /// The oldest bucket that is kept of a run, as far as that is known without a look at the disk.
    pub(crate) fn first(&self, run: RunKey) -> Option<u64> {
        self.known().get(&run)?.span.map(|(first, _)| first)
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<RunKey, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The buckets that are kept of a run; blocking.
    ///
    /// # Errors
    ///
    /// When the file cannot be read; there need not be one.
    pub(crate) fn read(&self, run: RunKey) -> io::Result<Vec<Bucket>> {
        // Files can be of another boot.
        if !self.is_prepared.load(Ordering::Acquire) {
            return Ok(Vec::new());
        }
        Ok(look(&self.path(run))?.buckets)
    }

    /// Adds what is new of these buckets, which are in order and changed no more; blocking. False: that failed, which is
    /// reported once.
    pub(crate) fn keep(&self, run: RunKey, buckets: &[Bucket]) -> bool {
        let done = self.prepare().and_then(|()| self.add(run, buckets));
        let was_failed = self.failed.swap(done.is_err(), Ordering::Relaxed);
        if let (Err(error), false) = (&done, was_failed) {
            let path = self.folder.display();
            warn!("cannot keep the history of processes in {path}: {error}; the page has the last half hour only");
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
                Known::of(stored.whole, &stored.buckets)
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
        let is_full = known.whole + frame.len() as u64 > MOST_FILE;
        let is_old = known
            .span
            .is_some_and(|(first, _)| newest.index.saturating_sub(first) > DAY + BEYOND);
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
            append(&path, known.whole, &frame).map(|whole| Known {
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
                // Part of it may be there: the next look says how much is whole.
                self.known().remove(&run);
                Err(error)
            }
        }
    }

    /// Returns the files with their metadata. Links, directories and files with other names are left alone.
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

    /// Removes the files of runs that ended a day ago, and where all are too large or too many, the ones that were
    /// written longest ago; blocking. `runs`: those that are remembered.
    ///
    /// # Errors
    ///
    /// When the directory cannot be read, or a file not be removed.
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
            if is_over || all > MOST_ALL || count > MOST_FILES {
                fs::remove_file(&path)?;
                self.known().retain(|run, _| self.path(*run) != path);
                all = all.saturating_sub(bytes);
                count -= 1;
            }
        }
        Ok(())
    }
}

impl Known {
    fn of(whole: usize, buckets: &[Bucket]) -> Self {
        let ends = buckets.first().zip(buckets.last());
        Self {
            whole: whole as u64,
            span: ends.map(|(first, last)| (first.index, last.index)),
        }
    }
}

fn look(path: &Path) -> io::Result<stored::Stored> {
    let bytes = files::read(path, MOST_FILE)?.unwrap_or_default();
    // What is none of ours is written anew.
    Ok(stored::read(&bytes).unwrap_or_default())
}

fn anew(path: &Path, buckets: &[Bucket]) -> io::Result<Known> {
    let mut bytes = stored::HEAD.to_vec();
    bytes.extend(stored::frame(buckets));
    files::write(path, &bytes)?;
    Ok(Known::of(bytes.len(), buckets))
}

/// Adds a frame after what is whole. What is on the disk after a power cut does not matter: damage costs what follows.
fn append(path: &Path, whole: u64, frame: &[u8]) -> io::Result<u64> {
    let mut file: File = OpenOptions::new().append(true).custom_flags(NO_SURPRISE).open(path)?;
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

    /// Scenario: the newest half hour of a run is kept again and again, by one gcwatch and then by another one of the
    /// same boot; then the machine is started again.
    /// Guarantee: each bucket is there once and as it was; the file is for its user alone, and grows by what is new;
    /// nothing is left of another boot, and what another version made is not touched.
    #[test]
    fn a_run_goes_on_with_the_next_gcwatch() {
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

    /// Scenario: the last bytes of a file were never written, garbage follows it, it is something else, a link leads out
    /// of the directory, the disk takes nothing.
    /// Guarantee: what is whole is read, and goes on; what the link leads to is neither read nor written; a failure is
    /// none of the caller's, and later ones are kept again.
    #[test]
    fn damage_costs_no_more_than_it_has_to() {
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

    /// Scenario: the directory cannot be made at the start, because a file has its name, and has files of another boot
    /// later; among them are a directory and a link with the names of files.
    /// Guarantee: nothing is kept and read at first; once the name is free the history is kept, and nothing of the other
    /// boot counts; directory and link stay as they are.
    #[test]
    fn a_directory_is_made_later() {
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

    /// Scenario: two days and a half, half an hour at a time; then the clock is set back by an hour, and forward again.
    /// Guarantee: never much more than a day is kept, never more than a file may have; what lay in the future is
    /// forgotten, and each bucket is there once.
    #[test]
    fn a_day_is_kept() {
        let state = tempfile::tempdir().unwrap();
        let folder = open(state.path(), "a");
        let last = 5 * DAY / 2;
        for at in (0..last).step_by(180) {
            folder.keep(RUN, &buckets(at..at + 180));
            let known = *folder.known.lock().unwrap().get(&RUN).unwrap();
            let (first, newest) = known.span.unwrap();
            assert_eq!(newest, at + 179);
            assert!(newest - first <= DAY + BEYOND, "{first} to {newest}");
            assert!(at < DAY || newest - first >= DAY - 180, "{first} to {newest}");
            assert!(fs::metadata(folder.path(RUN)).unwrap().len() <= MOST_FILE);
        }
        folder.keep(RUN, &buckets(last - 380..last - 360));
        let kept = indices(&folder);
        assert_eq!(kept.last(), Some(&(last - 361)));
        folder.keep(RUN, &buckets(last - 370..last - 300));
        let kept = indices(&folder);
        assert!(kept.windows(2).all(|pair| pair[0] < pair[1]));
        assert_eq!(kept.last(), Some(&(last - 301)));
    }

    /// Scenario: files of a run that is remembered, of two that ended, one of them two days ago, of somebody else; then
    /// they are too large together.
    /// Guarantee: that of two days ago goes; of too many bytes or files those of runs that ended go before the one that is
    /// remembered; what is none of ours stays; a run whose file went begins a new one.
    #[test]
    fn old_files_give_way() {
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
        file(3).set_len(MOST_ALL).unwrap();
        folder.prune(&remembered, now).unwrap();
        assert_eq!(there(), [true, false, false]);
        file(1).set_len(MOST_ALL + 1).unwrap();
        folder.prune(&remembered, now).unwrap();
        assert_eq!((there(), other.exists()), ([false; 3], true));
        folder.keep(run(1), &buckets(1..9));
        assert_eq!(folder.read(run(1)).unwrap(), buckets(1..9));
        for pid in 10..10 + MOST_FILES as u32 {
            fs::write(folder.path(run(pid)), "").unwrap();
        }
        folder.prune(&remembered, now).unwrap();
        assert_eq!(folder.files().unwrap().len(), MOST_FILES);
        assert!(folder.path(run(1)).exists());
    }
}
