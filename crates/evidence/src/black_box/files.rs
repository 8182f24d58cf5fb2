//! The files of the black box: their names, which of them are kept, and how they are read.
//!
//! `20261123T114742Z-shop-4711-1f2e3d4c5b6a7988-27s-10s.nettrace`: when the incident began, the process, its pid, the
//! incident's id (or `died`); 27 s before it and 10 s after are in it. All of it but the seconds is the recording's id.

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
use gc_rules::incident::Share;
use schemars::JsonSchema;
use serde::Serialize;

use base::run_key::RunKey;

use super::BlackBoxOptions;
use crate::store::Store;

/// The directory, below that of the state.
const FOLDER: &str = "black-box";

/// The end of a file's name.
const ENDING: &str = ".nettrace";

/// The end of the path of its page.
const PAGE: &str = ".html";

/// The end of the name of one that is being written.
const PARTIAL: &str = ".partial";

/// Runs that ended whose recordings are known.
const MOST_DEAD: usize = 256;

/// The longest id.
const MOST_ID: usize = 120;

/// Where a recording is served, followed by its id and [`ENDING`].
pub const URL: &str = "/api/v1/evidence/";

/// The files of one directory.
#[derive(Debug)]
pub struct Files {
    folder: PathBuf,
    max_files: usize,
    max_bytes: u64,
    written: AtomicU64,
    failed: AtomicU64,
    dropped: AtomicU64,
    /// Whose those are that were made here, by id. It has those that are there.
    shares: Mutex<HashMap<String, Share>>,
    /// Of the runs that ended last: what has their end.
    of_dead: Mutex<VecDeque<(RunKey, Arc<str>)>>,
    /// Ids of recordings that an earlier gcwatch left unfinished.
    cut: Vec<String>,
    store: OnceLock<Store>,
}

/// The record of a recording: `kind: "black_box"`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FileRecord {
    kind: &'static str,
    /// What incidents call it.
    pub id: String,
    /// Its name in the directory.
    pub file: String,
    /// Where it is served.
    pub url: String,
    /// The name of the process, as far as a file's name can have it.
    pub process: Option<String>,
    /// Pid on the host.
    pub pid: Option<u32>,
    /// The incident's id; null: the process died without one.
    pub incident: Option<String>,
    /// How much is in it of what was before the incident; null: it was cut.
    pub seconds_before: Option<u64>,
    /// The same of what was after.
    pub seconds_after: Option<u64>,
    /// Its size.
    pub bytes: u64,
}

/// What a directory has, for the choice of what is deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Listed {
    name: String,
    bytes: u64,
    modified: SystemTime,
}

impl Files {
    /// Makes the directory, and completes what was left unfinished.
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

    /// Recordings are also stored outside of the host, with those that an earlier gcwatch left unfinished.
    pub fn set_store(&self, store: Store) {
        for id in &self.cut {
            store.store_file(self.folder.join(format!("{id}-cut{ENDING}")), format!("{id}{ENDING}"));
        }
        // It is set once.
        let _set_already = self.store.set(store);
    }

    /// A recording has the end of a run.
    pub(super) fn has_end(&self, run: RunKey, id: &Arc<str>) {
        if !self.knows(id) {
            return;
        }
        let mut of_dead = self.of_dead.lock().unwrap_or_else(PoisonError::into_inner);
        if of_dead.len() >= MOST_DEAD {
            of_dead.pop_front();
        }
        of_dead.push_back((run, Arc::clone(id)));
    }

    /// The recording that has the end of a run.
    pub fn of_dead(&self, run: RunKey) -> Option<Arc<str>> {
        let of_dead = self.of_dead.lock().unwrap_or_else(PoisonError::into_inner);
        let mut newest = of_dead.iter().rev();
        newest.find(|(known, _)| *known == run).map(|(_, id)| Arc::clone(id))
    }

    /// The directory.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Every recording that is complete, the newest first.
    ///
    /// # Errors
    ///
    /// When the directory cannot be read.
    pub fn list(&self) -> io::Result<Vec<FileRecord>> {
        let mut all = self.listed(ENDING)?;
        all.sort_by(|one, other| other.name.cmp(&one.name));
        Ok(all.into_iter().filter_map(|listed| listed.record()).collect())
    }

    /// The file of a recording, and its size. `None`: there is none, or not any more.
    ///
    /// # Errors
    ///
    /// When it cannot be read.
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

    /// Whether a recording is being written.
    pub fn is_being_written(&self, id: &str) -> bool {
        is_id(id) && self.folder.join(format!("{id}{PARTIAL}")).exists()
    }

    /// Whether there is something with this id, complete or not.
    pub(super) fn knows(&self, id: &str) -> bool {
        self.is_being_written(id) || matches!(self.find(id), Ok(Some(_)))
    }

    /// Most bytes of all files.
    pub(super) fn max_bytes(&self) -> u64 {
        self.max_bytes
    }

    /// Begins a file. `share`: whose it is, where that is known.
    pub(super) fn create(&self, id: &str, share: Option<Share>) -> io::Result<File> {
        if !is_id(id) {
            return Err(io::Error::other("its id is no name of a file"));
        }
        if let Some(share) = share {
            self.shares().insert(id.to_owned(), share);
        }
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        options.open(self.folder.join(format!("{id}{PARTIAL}")))
    }

    fn shares(&self) -> MutexGuard<'_, HashMap<String, Share>> {
        self.shares.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A file is whole and on the disk: it gets its name, and others give way ([`surplus`]). Returns the name.
    pub(super) fn complete(&self, id: &str, seconds: (u64, u64)) -> io::Result<String> {
        let (before, after) = seconds;
        let partial = self.folder.join(format!("{id}{PARTIAL}"));
        let metadata = fs::metadata(&partial)?;
        let name = format!("{id}-{before}s-{after}s{ENDING}");
        self.make_room(Some(Listed {
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

    /// An incident is not recorded, as the writer is behind. Returns how many were not before it.
    pub(super) fn drop_one(&self) -> u64 {
        self.dropped.fetch_add(1, Ordering::Relaxed)
    }

    /// Recordings by what became of them.
    pub fn counts(&self) -> [(&'static str, u64); 3] {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        [
            ("written", of(&self.written)),
            ("failed", of(&self.failed)),
            ("dropped", of(&self.dropped)),
        ]
    }

    /// A file cannot be completed.
    pub(super) fn abandon(&self, id: &str) {
        self.failed.fetch_add(1, Ordering::Relaxed);
        let _nothing_there = fs::remove_file(self.folder.join(format!("{id}{PARTIAL}")));
    }

    /// Deletes files until there is room for this one, too.
    fn make_room(&self, new: Option<Listed>) -> io::Result<()> {
        let all = self.listed(ENDING)?;
        let mut shares = self.shares();
        shares
            .retain(|id, _| all.iter().chain(&new).any(|listed| listed.id() == Some(id)) || self.is_being_written(id));
        let share = |listed: &Listed| shares.get(listed.id()?).cloned();
        let surplus = surplus(all, new.as_ref(), share, self.max_files, self.max_bytes);
        drop(shares);
        for old in surplus {
            fs::remove_file(self.folder.join(&old.name))?;
            tracing::info!(
                target: "gcwatch::evidence",
                "deleted a recording of the black box, {}: evidence.black_box limits them, and whose are most lose theirs \
                 first",
                old.name
            );
        }
        Ok(())
    }

    fn find(&self, id: &str) -> io::Result<Option<Listed>> {
        if !is_id(id) {
            return Ok(None);
        }
        let mut all = self.listed(ENDING)?.into_iter();
        Ok(all.find(|listed| listed.id() == Some(id)))
    }

    /// The files of that ending; what is nobody's is left alone.
    fn listed(&self, ending: &str) -> io::Result<Vec<Listed>> {
        let mut all = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            let metadata = entry.metadata()?;
            if name.ends_with(ending) && metadata.is_file() {
                let (bytes, modified) = (metadata.len(), metadata.modified()?);
                all.push(Listed { name, bytes, modified });
            }
        }
        Ok(all)
    }
}

impl Listed {
    /// The id and what is said after it; `None`: the file is none of ours.
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

    /// The name of the process, as far as the name of the file has it.
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

/// The name of the process in an id; empty: there is none.
pub(super) fn process_of(id: &str) -> &str {
    let name = id.rsplitn(3, '-').nth(2).and_then(|rest| rest.split_once('-'));
    name.map_or("", |(_, name)| name)
}

/// Where the recording with that id is served.
pub fn url(id: &str) -> String {
    format!("{URL}{id}{ENDING}")
}

/// The id in the last part of a path under [`URL`].
pub fn id_of(part: &str) -> Option<&str> {
    part.strip_suffix(ENDING).filter(|id| is_id(id))
}

/// The id in the last part of the path of a recording's page.
pub fn id_of_page(part: &str) -> Option<&str> {
    part.strip_suffix(PAGE).filter(|id| is_id(id))
}

/// Whether it is the id of a recording, and so the beginning of a file's name and of nothing else.
fn is_id(id: &str) -> bool {
    let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    !id.is_empty() && id.len() <= MOST_ID && id.bytes().all(is_of_name)
}

/// The files to delete, so that with the new one there are at most so many with so many bytes: of the tenant with most
/// of them, of that one's service with most, the oldest. So whoever makes many loses their own, under any name. What
/// is there from an earlier gcwatch is taken for one tenant's, and each name for a service.
fn surplus(
    mut all: Vec<Listed>,
    new: Option<&Listed>,
    share: impl Fn(&Listed) -> Option<Share>,
    files: usize,
    bytes: u64,
) -> Vec<Listed> {
    all.sort_by(|one, other| (one.modified, &one.name).cmp(&(other.modified, &other.name)));
    let key = |listed: &Listed| {
        share(listed).unwrap_or_else(|| Share {
            tenant: "".into(),
            service: listed.process().into(),
        })
    };
    let mut groups: BTreeMap<Share, Group> = BTreeMap::new();
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
        let of_tenant = |share: &Share| of_tenants.get(&share.tenant).copied();
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
    /// With the new one.
    sizes: Sizes,
    /// The oldest first.
    listed: VecDeque<Listed>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Sizes {
    files: usize,
    bytes: u64,
}

impl Sizes {
    fn add(&mut self, listed: &Listed) {
        self.files += 1;
        self.bytes = self.bytes.saturating_add(listed.bytes);
    }

    fn remove(&mut self, listed: &Listed) {
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

    fn listed(name: &str, bytes: u64, at: u64) -> Listed {
        Listed {
            name: name.to_owned(),
            bytes,
            modified: SystemTime::UNIX_EPOCH + Duration::from_secs(at),
        }
    }

    /// Scenario: files beyond the number, beyond the bytes, within both, and one that is larger than all may be.
    /// Guarantee: the oldest are deleted, no more than it takes.
    #[test]
    fn the_oldest_give_way() {
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

    /// Scenario: a process that restarts has twenty new recordings, of a tenant with another name for each process there
    /// are ten, and an older one is of a third; each makes another one.
    /// Guarantee: whoever has most loses the oldest of their own, by number and by bytes; the third keeps its one.
    #[test]
    fn whoever_makes_many_loses_their_own() {
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
        let share = |listed: &Listed| {
            let tenant = match listed.process() {
                "honest" => "pod a",
                "loop" => "user 1000",
                _ => "pod b",
            };
            Some(Share {
                tenant: tenant.into(),
                service: listed.process().into(),
            })
        };
        let gone = |new: Option<Listed>, files, bytes| -> Vec<String> {
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

    /// Scenario: a pod has one recording for each of many names, all of one user; another pod of that user has three of
    /// one name, and makes a fourth.
    /// Guarantee: only the first one loses some.
    #[test]
    fn new_names_push_out_nobody() {
        let file = |name: &str, pid: u64| {
            let name = format!("20261123T114742Z-{name}-{pid}-1f2e3d4c5b6a7988-1s-1s.nettrace");
            listed(&name, 10, pid)
        };
        let mut all: Vec<Listed> = (1..=3).map(|pid| file("honest", pid)).collect();
        all.extend((100..117).map(|pid| file(&format!("any{pid}"), pid)));
        let share = |listed: &Listed| {
            let is_honest = listed.process() == "honest";
            Some(Share {
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

    /// Scenario: names of recordings, of one that was cut, and of other files.
    /// Guarantee: the record says what the name says.
    #[test]
    fn names_say_what_is_in_the_file() {
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

    /// Scenario: paths that would leave the directory, name other files, or nothing.
    /// Guarantee: they are no ids.
    #[test]
    fn no_path_leaves_the_directory() {
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

    /// Scenario: the directory of recordings is a link to one with more of them than may be.
    /// Guarantee: it is refused, and nothing in the other one is deleted.
    #[test]
    fn recordings_of_others_are_left_alone() {
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

    /// Scenario: a gcwatch that is killed while it writes; the next one writes two more, of which one may stay.
    /// Guarantee: what was cut is a recording; files are for their user alone; the oldest give way, others are left
    /// alone.
    #[test]
    fn files_outlive_a_kill() {
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
