//! The files of the black box: their names, retention and access.
//!
//! `20261123T114742Z-shop-4711-1f2e3d4c5b6a7988-27s-10s.nettrace` consists of the start of the incident, the process,
//! its pid, the incident's id (or `died`), and the recorded time before and after the start (27 s and 10 s). The name
//! without these times is the id of the recording.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::SystemTime;

use base::directory::create_private;
use incidents::QuotaOwner;
use schemars::JsonSchema;
use serde::Serialize;

use base::run_key::RunKey;

use super::BlackBoxOptions;
use crate::store::Store;

/// Name of the directory, within the state directory.
const FOLDER: &str = "black-box";

/// Suffix of a recording's file name.
const ENDING: &str = ".nettrace";

/// Suffix of the path of a recording's page.
const PAGE: &str = ".html";

/// Suffix of the name of a file that is being written.
const PARTIAL: &str = ".partial";

/// Maximum number of exited processes whose recordings are remembered.
const MAX_DEAD: usize = 256;

/// Maximum length of an id, in bytes.
const MAX_ID: usize = 120;

/// Path under which recordings are served. The id and [`ENDING`] follow.
pub const URL: &str = "/api/v1/evidence/";

/// The recordings in one directory.
#[derive(Debug)]
pub struct Files {
    folder: PathBuf,
    max_files: usize,
    max_bytes: u64,
    written: AtomicU64,
    failed: AtomicU64,
    dropped: AtomicU64,
    /// Owners of the existing recordings that this instance created, by id.
    shares: Mutex<HashMap<String, QuotaOwner>>,
    /// Recordings that contain the end of a process, for the last processes that exited.
    of_dead: Mutex<VecDeque<(RunKey, Arc<str>)>>,
    /// Ids of recordings that an earlier instance did not complete.
    cut: Vec<String>,
    store: OnceLock<Store>,
}

/// The record of a recording: `kind: "black_box"`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FileRecord {
    kind: &'static str,
    /// Id of the recording, which incidents refer to.
    pub id: String,
    /// Name of the file in the directory.
    pub file: String,
    /// URL of the recording.
    pub url: String,
    /// Name of the process, limited to the characters that a file name can have.
    pub process: Option<String>,
    /// Pid on the host.
    pub pid: Option<u32>,
    /// Id of the incident; null if the process died without an incident.
    pub incident: Option<String>,
    /// Recorded time before the incident, in seconds; null if the recording was not completed.
    pub seconds_before: Option<u64>,
    /// Recorded time after the incident, in seconds; null if the recording was not completed.
    pub seconds_after: Option<u64>,
    /// Size of the file, in bytes.
    pub bytes: u64,
}

/// A file of the directory.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ListedFile {
    name: String,
    bytes: u64,
    modified: SystemTime,
}

impl Files {
    /// Creates the directory, and gives the incomplete recordings of earlier instances their final names.
    pub(super) fn open(state: &Path, options: &BlackBoxOptions) -> io::Result<Self> {
        let mut files = Self {
            folder: state.join(FOLDER),
            max_files: options.max_files.max(1),
            max_bytes: options.max_bytes,
            written: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            shares: Mutex::default(),
            of_dead: Mutex::default(),
            cut: Vec::new(),
            store: OnceLock::new(),
        };
        create_private(&files.folder)?;
        for left in files.listed(PARTIAL)? {
            if let Some(id) = left.name.strip_suffix(PARTIAL) {
                let name = format!("{id}-cut{ENDING}");
                fs::rename(files.folder.join(&left.name), files.folder.join(name))?;
                files.cut.push(id.to_owned());
            }
        }
        files.make_room(None)?;
        Ok(files)
    }

    /// Sets the store for copies outside the host. The store also receives the recordings that an earlier instance did
    /// not complete.
    pub fn set_store(&self, store: Store) {
        for id in &self.cut {
            store.store_file(self.folder.join(format!("{id}-cut{ENDING}")), format!("{id}{ENDING}"));
        }
        // The store is set only once.
        let _set_already = self.store.set(store);
    }

    /// Records that a recording contains the end of a run, if the recording exists.
    pub(super) fn has_end(&self, run: RunKey, id: &Arc<str>) {
        if !self.knows(id) {
            return;
        }
        let mut of_dead = self.of_dead.lock().unwrap_or_else(PoisonError::into_inner);
        if of_dead.len() >= MAX_DEAD {
            of_dead.pop_front();
        }
        of_dead.push_back((run, Arc::clone(id)));
    }

    /// Returns the id of the newest recording that contains the end of a run, or `None` if no such recording is
    /// remembered.
    pub fn find_last_recording(&self, run: RunKey) -> Option<Arc<str>> {
        let of_dead = self.of_dead.lock().unwrap_or_else(PoisonError::into_inner);
        let mut newest = of_dead.iter().rev();
        newest.find(|(known, _)| *known == run).map(|(_, id)| Arc::clone(id))
    }

    /// Returns the directory.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns all recordings except the recordings that are being written, newest first.
    ///
    /// # Errors
    ///
    /// Returns an error if the directory cannot be read.
    pub fn list(&self) -> io::Result<Vec<FileRecord>> {
        let mut all = self.listed(ENDING)?;
        all.sort_by(|one, other| other.name.cmp(&one.name));
        Ok(all.into_iter().filter_map(|listed| listed.record()).collect())
    }

    /// Opens the file of a recording. Returns the file, its size and its name, or `None` if the recording does not
    /// exist or was deleted.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be read.
    pub fn read(&self, id: &str) -> io::Result<Option<(File, u64, String)>> {
        let Some(found) = self.find(id)? else { return Ok(None) };
        match File::open(self.folder.join(&found.name)) {
            Ok(file) => {
                let bytes = file.metadata()?.len();
                Ok(Some((file, bytes, found.name)))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns whether a recording is being written.
    pub fn is_being_written(&self, id: &str) -> bool {
        is_id(id) && self.folder.join(format!("{id}{PARTIAL}")).exists()
    }

    /// Returns whether a recording with this id exists, complete or not.
    pub(super) fn knows(&self, id: &str) -> bool {
        self.is_being_written(id) || matches!(self.find(id), Ok(Some(_)))
    }

    /// Returns the maximum size of all files together, in bytes.
    pub(super) fn max_bytes(&self) -> u64 {
        self.max_bytes
    }

    /// Creates a file. `share` is the owner of the recording, if known.
    pub(super) fn create(&self, id: &str, share: Option<QuotaOwner>) -> io::Result<File> {
        if !is_id(id) {
            return Err(io::Error::other("its id is not a valid file name"));
        }
        if let Some(share) = share {
            self.shares().insert(id.to_owned(), share);
        }
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        options.open(self.folder.join(format!("{id}{PARTIAL}")))
    }

    fn shares(&self) -> MutexGuard<'_, HashMap<String, QuotaOwner>> {
        self.shares.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Renames a complete file to its final name, after deleting older files if necessary ([`surplus`]), and passes the
    /// file to the store if a store is set. Returns the name.
    pub(super) fn complete(&self, id: &str, seconds: (u64, u64)) -> io::Result<String> {
        let (before, after) = seconds;
        let partial = self.folder.join(format!("{id}{PARTIAL}"));
        let metadata = fs::metadata(&partial)?;
        let name = format!("{id}-{before}s-{after}s{ENDING}");
        self.make_room(Some(ListedFile {
            name: name.clone(),
            bytes: metadata.len(),
            modified: metadata.modified()?,
        }))?;
        fs::rename(partial, self.folder.join(&name))?;
        File::open(&self.folder)?.sync_all()?;
        if let Some(store) = self.store.get() {
            store.store_file(self.folder.join(&name), format!("{id}{ENDING}"));
        }
        self.written.fetch_add(1, Ordering::Relaxed);
        Ok(name)
    }

    /// Counts an incident that is not recorded because the writer is behind. Returns the previous count.
    pub(super) fn drop_one(&self) -> u64 {
        self.dropped.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns the number of recordings by outcome.
    pub fn counts(&self) -> [(&'static str, u64); 3] {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        [
            ("written", of(&self.written)),
            ("failed", of(&self.failed)),
            ("dropped", of(&self.dropped)),
        ]
    }

    /// Counts a failed recording, and deletes its file.
    pub(super) fn abandon(&self, id: &str) {
        self.failed.fetch_add(1, Ordering::Relaxed);
        let _nothing_there = fs::remove_file(self.folder.join(format!("{id}{PARTIAL}")));
    }

    /// Deletes files until all files, including the new file, are within the limits.
    fn make_room(&self, new: Option<ListedFile>) -> io::Result<()> {
        let all = self.listed(ENDING)?;
        let mut shares = self.shares();
        shares
            .retain(|id, _| all.iter().chain(&new).any(|listed| listed.id() == Some(id)) || self.is_being_written(id));
        let share = |listed: &ListedFile| shares.get(listed.id()?).cloned();
        let surplus = surplus(all, new.as_ref(), share, self.max_files, self.max_bytes);
        drop(shares);
        for old in surplus {
            fs::remove_file(self.folder.join(&old.name))?;
            tracing::info!(
                target: "gcwatch::evidence",
                "deleted a recording of the black box, {}, to stay within the limits of evidence.black_box; the \
                 largest tenant loses its oldest recordings first",
                old.name
            );
        }
        Ok(())
    }

    fn find(&self, id: &str) -> io::Result<Option<ListedFile>> {
        if !is_id(id) {
            return Ok(None);
        }
        let mut all = self.listed(ENDING)?.into_iter();
        Ok(all.find(|listed| listed.id() == Some(id)))
    }

    /// Returns the files with this suffix. Other files are ignored.
    fn listed(&self, ending: &str) -> io::Result<Vec<ListedFile>> {
        let mut all = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            let metadata = entry.metadata()?;
            if name.ends_with(ending) && metadata.is_file() {
                let (bytes, modified) = (metadata.len(), metadata.modified()?);
                all.push(ListedFile { name, bytes, modified });
            }
        }
        Ok(all)
    }
}

impl ListedFile {
    /// Returns the id, and the seconds before and after the incident; the seconds are `None` if the recording was not
    /// completed. The result is `None` if the file is not a recording.
    fn split(&self) -> Option<(&str, Option<(u64, u64)>)> {
        let stem = self.name.strip_suffix(ENDING)?;
        if let Some(id) = stem.strip_suffix("-cut") {
            return Some((id, None));
        }
        let (stem, after) = stem.rsplit_once('-')?;
        let (id, before) = stem.rsplit_once('-')?;
        let seconds = |text: &str| text.strip_suffix('s')?.parse().ok();
        Some((id, Some((seconds(before)?, seconds(after)?))))
    }

    fn id(&self) -> Option<&str> {
        self.split().map(|(id, _)| id)
    }

    /// Returns the name of the process, as given in the file name.
    fn process(&self) -> &str {
        process_of(self.id().unwrap_or_default())
    }

    fn record(&self) -> Option<FileRecord> {
        let (id, seconds) = self.split()?;
        let mut parts = id.rsplitn(3, '-');
        let (incident, pid) = (parts.next()?, parts.next()?);
        let process = Some(process_of(id)).filter(|name| !name.is_empty());
        Some(FileRecord {
            kind: "black_box",
            id: id.to_owned(),
            file: self.name.clone(),
            url: url(id),
            process: process.map(str::to_owned),
            pid: pid.parse().ok(),
            incident: (incident != "died").then(|| incident.to_owned()),
            seconds_before: seconds.map(|(before, _)| before),
            seconds_after: seconds.map(|(_, after)| after),
            bytes: self.bytes,
        })
    }
}

/// Returns the name of the process in an id, or an empty string if the id has no name.
pub(super) fn process_of(id: &str) -> &str {
    let name = id.rsplitn(3, '-').nth(2).and_then(|rest| rest.split_once('-'));
    name.map_or("", |(_, name)| name)
}

/// Returns the URL of the recording with this id.
pub fn url(id: &str) -> String {
    format!("{URL}{id}{ENDING}")
}

/// Returns the id in the last part of a path under [`URL`].
pub fn id_of(part: &str) -> Option<&str> {
    part.strip_suffix(ENDING).filter(|id| is_id(id))
}

/// Returns the id in the last part of the path of a recording's page.
pub fn id_of_page(part: &str) -> Option<&str> {
    part.strip_suffix(PAGE).filter(|id| is_id(id))
}

/// Returns whether a text has the form of an id. An id contains no `/` and no `.`, so that it cannot name a file in
/// another directory.
fn is_id(id: &str) -> bool {
    let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    !id.is_empty() && id.len() <= MAX_ID && id.bytes().all(is_of_name)
}

/// Returns the files to delete, so that at most `files` files with at most `bytes` bytes remain, including the new
/// file. Each returned file is the oldest of the largest service of the largest tenant. A tenant that creates many
/// recordings therefore loses its own recordings, under any name. Recordings of an earlier instance count as recordings
/// of one tenant, in which each process name is a service.
fn surplus(
    mut all: Vec<ListedFile>,
    new: Option<&ListedFile>,
    share: impl Fn(&ListedFile) -> Option<QuotaOwner>,
    files: usize,
    bytes: u64,
) -> Vec<ListedFile> {
    all.sort_by(|one, other| (one.modified, &one.name).cmp(&(other.modified, &other.name)));
    let key = |listed: &ListedFile| {
        share(listed).unwrap_or_else(|| QuotaOwner {
            tenant: "".into(),
            service: listed.process().into(),
        })
    };
    let mut groups: BTreeMap<QuotaOwner, Group> = BTreeMap::new();
    let mut whole = Sizes::default();
    if let Some(new) = new {
        groups.entry(key(new)).or_default().sizes.add(new);
        whole.add(new);
    }
    for listed in all {
        let group = groups.entry(key(&listed)).or_default();
        group.sizes.add(&listed);
        whole.add(&listed);
        group.listed.push_back(listed);
    }
    let mut surplus = Vec::new();
    while whole.files > files || whole.bytes > bytes {
        let by_number = whole.files > files;
        let size = |sizes: &Sizes| if by_number { sizes.files as u64 } else { sizes.bytes };
        let mut of_tenants: BTreeMap<Arc<str>, u64> = BTreeMap::new();
        for (share, group) in &groups {
            *of_tenants.entry(Arc::clone(&share.tenant)).or_default() += size(&group.sizes);
        }
        let of_tenant = |share: &QuotaOwner| of_tenants.get(&share.tenant).copied();
        let left = groups.iter_mut().filter_map(|(key, group)| {
            let oldest = group.listed.front()?.modified;
            Some(((of_tenant(key), size(&group.sizes), Reverse(oldest)), group))
        });
        let most = left.max_by_key(|(rank, _)| *rank);
        let Some((group, old)) = most.and_then(|(_, group)| group.listed.pop_front().map(|old| (group, old))) else {
            break;
        };
        group.sizes.remove(&old);
        whole.remove(&old);
        surplus.push(old);
    }
    surplus
}

/// Recordings of one service of a tenant.
#[derive(Debug, Default)]
struct Group {
    /// Number and size of the recordings, including the new recording.
    sizes: Sizes,
    /// The existing recordings, oldest first.
    listed: VecDeque<ListedFile>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Sizes {
    files: usize,
    bytes: u64,
}

impl Sizes {
    fn add(&mut self, listed: &ListedFile) {
        self.files += 1;
        self.bytes = self.bytes.saturating_add(listed.bytes);
    }

    fn remove(&mut self, listed: &ListedFile) {
        self.files = self.files.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(listed.bytes);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::time::Duration;

    use super::*;

    const ID: &str = "20261123T114742Z-my-shop-4711-1f2e3d4c5b6a7988";

    fn listed(name: &str, bytes: u64, at: u64) -> ListedFile {
        ListedFile {
            name: name.to_owned(),
            bytes,
            modified: SystemTime::UNIX_EPOCH + Duration::from_secs(at),
        }
    }

    /// Scenario: the files exceed the maximum number, the maximum size or neither; one file is larger than the maximum
    /// size.
    /// Guarantee: the oldest files are deleted, and no more than necessary.
    #[test]
    fn oldest_files_are_deleted() {
        let all = || vec![listed("c", 30, 3), listed("a", 10, 1), listed("b", 20, 2)];
        let names = |files, bytes| -> Vec<String> {
            let surplus = surplus(all(), None, |_| None, files, bytes);
            surplus.into_iter().map(|listed| listed.name).collect()
        };
        assert!(names(3, 60).is_empty());
        assert_eq!(names(2, 60), ["a"]);
        assert_eq!(names(3, 59), ["a"]);
        assert_eq!(names(3, 30), ["a", "b"]);
        assert_eq!(names(3, 0), ["a", "b", "c"]);
    }

    /// Scenario: one tenant has twenty recent recordings of a restarting process; another tenant has ten recordings,
    /// each with its own process name; a third tenant has one older recording; each tenant adds a recording.
    /// Guarantee: the tenant with the most recordings loses its oldest recordings, by number and by size; the third
    /// tenant keeps its recording.
    #[test]
    fn tenant_with_most_recordings_loses_oldest() {
        let file = |name: &str, pid: u64, bytes| {
            listed(
                &format!("20261123T114742Z-{name}-{pid}-1f2e3d4c5b6a7988-1s-1s.nettrace"),
                bytes,
                pid,
            )
        };
        let mut all = vec![file("honest", 1, 90)];
        all.extend((100..120).map(|pid| file("loop", pid, 10)));
        all.extend((200..210).map(|pid| file(&format!("any{pid}"), pid, 10)));
        let share = |listed: &ListedFile| {
            let tenant = match listed.process() {
                "honest" => "pod a",
                "loop" => "user 1000",
                _ => "pod b",
            };
            Some(QuotaOwner {
                tenant: tenant.into(),
                service: listed.process().into(),
            })
        };
        let gone = |new: Option<ListedFile>, files, bytes| -> Vec<String> {
            let surplus = surplus(all.clone(), new.as_ref(), share, files, bytes);
            surplus.iter().map(|listed| listed.process().to_owned()).collect()
        };
        for new in [file("honest", 300, 10), file("loop", 300, 10), file("any300", 300, 10)] {
            assert_eq!(gone(Some(new), 30, 10_000), ["loop", "loop"]);
        }
        let many = gone(None, 5, 10_000);
        assert!(many.len() == 26 && !many.contains(&"honest".to_owned()), "{many:?}");
        let heavy = gone(None, 100, 300);
        assert!(heavy.len() == 9 && heavy.iter().all(|name| name == "loop"), "{heavy:?}");
    }

    /// Scenario: one pod of a user has one recording for each of many process names; another pod of the user has three
    /// recordings with the same name; each pod adds a recording.
    /// Guarantee: only the first pod loses recordings.
    #[test]
    fn new_names_displace_only_their_own_pod() {
        let file = |name: &str, pid: u64| {
            let name = format!("20261123T114742Z-{name}-{pid}-1f2e3d4c5b6a7988-1s-1s.nettrace");
            listed(&name, 10, pid)
        };
        let mut all: Vec<ListedFile> = (1..=3).map(|pid| file("honest", pid)).collect();
        all.extend((100..117).map(|pid| file(&format!("any{pid}"), pid)));
        let share = |listed: &ListedFile| {
            let is_honest = listed.process() == "honest";
            Some(QuotaOwner {
                tenant: if is_honest { "pod a" } else { "pod b" }.into(),
                service: listed.process().into(),
            })
        };
        for new in [file("honest", 300), file("any300", 300)] {
            let surplus = surplus(all.clone(), Some(&new), share, 10, 10_000);
            assert_eq!(surplus.len(), 11);
            assert!(
                surplus.iter().all(|listed| listed.process().starts_with("any")),
                "{surplus:?}"
            );
        }
    }

    /// Scenario: file names of recordings, of an incomplete recording and of other files are parsed.
    /// Guarantee: the records contain the data of the names; other files have no record.
    #[test]
    fn record_is_parsed_from_file_name() {
        let record = listed(&format!("{ID}-27s-10s.nettrace"), 5, 0).record().unwrap();
        assert_eq!((record.id.as_str(), record.pid), (ID, Some(4711)));
        assert_eq!(record.process.as_deref(), Some("my-shop"));
        assert_eq!(record.incident.as_deref(), Some("1f2e3d4c5b6a7988"));
        assert_eq!((record.seconds_before, record.seconds_after), (Some(27), Some(10)));
        assert_eq!(id_of(record.url.strip_prefix(URL).unwrap()), Some(ID));
        let cut = listed(&format!("{ID}-cut.nettrace"), 5, 0).record().unwrap();
        assert_eq!((cut.id.as_str(), cut.seconds_before), (ID, None));
        let died = listed("20261123T114742Z-shop-7-died-3s-0s.nettrace", 5, 0)
            .record()
            .unwrap();
        assert_eq!((died.incident, died.pid), (None, Some(7)));
        for other in ["a.nettrace", "notes.txt", "-.nettrace", "a-1s.nettrace"] {
            assert_eq!(listed(other, 5, 0).record(), None, "{other}");
        }
    }

    /// Scenario: paths that would leave the directory, or that do not name a recording, are parsed.
    /// Guarantee: no id is returned.
    #[test]
    fn path_outside_directory_has_no_id() {
        for part in [
            "../lock.nettrace",
            "a/b.nettrace",
            ".nettrace",
            "a",
            "a.nettrace.nettrace",
            "%2e%2e.nettrace",
            "é.nettrace",
        ] {
            assert_eq!(id_of(part), None, "{part}");
        }
    }

    /// Scenario: the directory is a link to a directory with more recordings than allowed.
    /// Guarantee: opening fails, and the files in the other directory are kept.
    #[test]
    fn recordings_behind_link_are_kept() {
        let (state, foreign) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for pid in 0..9 {
            let name = format!("20261123T114742Z-shop-{pid}-died-1s-0s.nettrace");
            fs::write(foreign.path().join(name), "mine").unwrap();
        }
        std::os::unix::fs::symlink(foreign.path(), state.path().join(FOLDER)).unwrap();
        let options = BlackBoxOptions {
            max_files: 2,
            ..BlackBoxOptions::default()
        };
        let error = Files::open(state.path(), &options).unwrap_err();
        assert_eq!(error.to_string(), "it is not a directory, or is a link to a directory");
        assert_eq!(fs::read_dir(foreign.path()).unwrap().count(), 9);
    }

    /// Scenario: an instance is killed while it writes a recording; the next instance has a limit of one file and
    /// writes another recording.
    /// Guarantee: the incomplete recording is listed; only the user can read the files; the oldest recordings are
    /// deleted, and other files are kept.
    #[test]
    fn files_survive_kill() {
        let state = tempfile::tempdir().unwrap();
        let options = |max_files| BlackBoxOptions {
            max_files,
            ..BlackBoxOptions::default()
        };
        let first = Files::open(state.path(), &options(9)).unwrap();
        fs::write(first.folder().join("notes.txt"), "mine").unwrap();
        drop(first.create(ID, None).unwrap());
        assert!(first.is_being_written(ID) && first.knows(ID) && first.list().unwrap().is_empty());
        let next = Files::open(state.path(), &options(1)).unwrap();
        assert_eq!(next.list().unwrap()[0].id, ID);
        let id = "20261123T114743Z-shop-4711-died";
        io::Write::write_all(&mut next.create(id, None).unwrap(), b"123").unwrap();
        let name = next.complete(id, (3, 0)).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
        assert_eq!((mode(next.folder()), mode(&next.folder().join(&name))), (0o700, 0o600));
        let all = next.list().unwrap();
        assert_eq!((all.len(), all[0].id.as_str(), all[0].bytes), (1, id, 3));
        assert!(next.create("../x", None).is_err() && next.create(id, None).is_ok());
        let (_, bytes, read) = next.read(id).unwrap().unwrap();
        assert_eq!((bytes, read), (3, name));
        assert!(next.read(ID).unwrap().is_none() && next.folder().join("notes.txt").exists());
    }
}
