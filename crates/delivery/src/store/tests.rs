//! Tests of the store on a disk that tears, reorders and drops writes.

use std::collections::{BTreeMap, VecDeque};
use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use fastrand::Rng;

use super::disk::Disk;
use super::*;

/// Number of crashes in the normal suite. `GCWATCH_STORE_CRASHES` sets another number (100,000 in the full mode).
const CRASHES: u64 = 4_000;

const SEGMENT: u64 = 600;

/// A change that is not certain to have reached the disk.
#[derive(Debug, Clone)]
enum Pending {
    Write(String, u64, Vec<u8>),
    Cut(String, u64),
    Remove(String),
}

/// A disk with a cache. After a crash, any part of the unsynced changes can be on the disk.
#[derive(Debug, Default, Clone)]
struct Cached {
    /// Content visible to readers.
    now: BTreeMap<String, Vec<u8>>,
    /// Content that is certainly on the disk.
    sure: BTreeMap<String, Vec<u8>>,
    pending: Vec<Pending>,
    /// Number of calls until the crash; `None` without a crash.
    crash_in: Option<u64>,
    crashed: bool,
    /// Whether writes fail because the disk is full.
    full: bool,
}

fn apply(files: &mut BTreeMap<String, Vec<u8>>, change: &Pending) {
    match change {
        Pending::Write(name, at, bytes) => {
            let file = files.entry(name.clone()).or_default();
            let (at, end) = (*at as usize, *at as usize + bytes.len());
            if file.len() < end {
                file.resize(end, 0);
            }
            file[at..end].copy_from_slice(bytes);
        }
        Pending::Cut(name, len) => {
            if let Some(file) = files.get_mut(name) {
                file.truncate(*len as usize);
            }
        }
        Pending::Remove(name) => {
            files.remove(name);
        }
    }
}

fn name_of(change: &Pending) -> &str {
    match change {
        Pending::Write(name, ..) | Pending::Cut(name, _) | Pending::Remove(name) => name,
    }
}

impl Cached {
    /// Returns an error if the crash happens now.
    fn step(&mut self) -> io::Result<()> {
        match &mut self.crash_in {
            Some(0) => {
                self.crashed = true;
                Err(io::Error::other("crashed"))
            }
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn change(&mut self, change: Pending) {
        apply(&mut self.now, &change);
        self.pending.push(change);
    }

    /// Returns the disk after the process was killed: all writes are present, and possibly a part of the last one.
    fn killed(mut self) -> Self {
        (self.crash_in, self.crashed) = (None, false);
        self
    }

    /// Returns the disk after a power failure: each unsynced write is present, absent or partially present, in any
    /// order, and missing parts can be garbage.
    fn unplugged(self, rng: &mut Rng) -> Self {
        let mut files = self.sure;
        let mut pending = self.pending;
        rng.shuffle(&mut pending);
        for mut change in pending {
            match rng.u8(0..4) {
                0 => continue,
                1 => {
                    if let Pending::Write(_, at, bytes) = &mut change {
                        let from = rng.usize(..=bytes.len());
                        let to = rng.usize(from..=bytes.len());
                        *at += from as u64;
                        *bytes = bytes[from..to].to_vec();
                        if rng.bool() {
                            bytes.iter_mut().for_each(|byte| *byte = rng.u8(..));
                        }
                    }
                    apply(&mut files, &change);
                }
                _ => apply(&mut files, &change),
            }
        }
        Self {
            now: files.clone(),
            sure: files,
            ..Self::default()
        }
    }
}

impl Disk for Cached {
    fn list(&self) -> io::Result<Vec<(String, u64)>> {
        Ok(self
            .now
            .iter()
            .map(|(name, file)| (name.clone(), file.len() as u64))
            .collect())
    }

    fn write_at(&mut self, name: &str, offset: u64, bytes: &[u8]) -> io::Result<()> {
        if self.full {
            // A disk that fills up writes a part of the bytes.
            let part = bytes[..bytes.len() / 2].to_vec();
            self.change(Pending::Write(name.to_owned(), offset, part));
            return Err(io::ErrorKind::StorageFull.into());
        }
        if let Err(crashed) = self.step() {
            let part = bytes[..fastrand::usize(..=bytes.len())].to_vec();
            self.change(Pending::Write(name.to_owned(), offset, part));
            return Err(crashed);
        }
        self.change(Pending::Write(name.to_owned(), offset, bytes.to_vec()));
        Ok(())
    }

    fn read_at(&mut self, name: &str, offset: u64, into: &mut [u8]) -> io::Result<()> {
        let file = self.now.get(name).ok_or(io::ErrorKind::NotFound)?;
        let found = file.get(offset as usize..offset as usize + into.len());
        into.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn sync(&mut self, name: &str, _new: bool) -> io::Result<()> {
        self.step()?;
        let (synced, others) = std::mem::take(&mut self.pending)
            .into_iter()
            .partition(|change| name_of(change) == name);
        self.pending = others;
        let synced: Vec<Pending> = synced;
        synced.iter().for_each(|change| apply(&mut self.sure, change));
        Ok(())
    }

    fn cut(&mut self, name: &str, len: u64) -> io::Result<()> {
        self.step()?;
        self.change(Pending::Cut(name.to_owned(), len));
        Ok(())
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        self.step()?;
        self.change(Pending::Remove(name.to_owned()));
        Ok(())
    }
}

/// The expected content of a log.
#[derive(Debug, Default)]
struct Model {
    /// Appended records that were not removed.
    there: VecDeque<Vec<u8>>,
    /// Removed records, oldest first.
    removed: Vec<Vec<u8>>,
    /// The call that did not return.
    in_flight: Option<Step>,
    made: u64,
}

#[derive(Debug, Clone, PartialEq)]
enum Step {
    Append(Vec<u8>),
    Remove,
}

impl Model {
    /// Performs one step on the log and on the model. Returns `false` if the disk has crashed.
    fn step(&mut self, log: &mut Log<Cached>, rng: &mut Rng) -> bool {
        if rng.u8(0..5) < 3 {
            self.made += 1;
            let mut payload = self.made.to_le_bytes().to_vec();
            payload.extend((0..rng.usize(..200)).map(|_| rng.u8(..)));
            self.in_flight = Some(Step::Append(payload.clone()));
            if log.append(1, payload.len(), &payload, self.made).is_err() {
                return false;
            }
            self.there.push_back(payload);
        } else if let Some((header, payload)) = log.oldest().unwrap() {
            assert_eq!(payload.as_ref(), self.there.front());
            self.in_flight = Some(Step::Remove);
            assert!(log.remove(header.number));
            self.removed.extend(self.there.pop_front());
        } else {
            assert!(self.there.is_empty());
        }
        // `remove` does not report a failure to record the removal.
        let lives = !log.disk().crashed;
        if lives {
            self.in_flight = None;
        }
        lives
    }
}

/// Removes and returns all records of a log.
fn drain(log: &mut Log<Cached>) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    loop {
        match log.oldest() {
            Ok(Some((header, payload))) => {
                all.extend(payload);
                assert!(log.remove(header.number));
            }
            Ok(None) => return all,
            Err(error) => {
                assert!(is_damage(&error), "{error}");
                log.drop_first();
            }
        }
    }
}

/// Uses a log until its disk crashes, and returns the disk.
fn life(disk: Cached, model: &mut Model, rng: &mut Rng) -> Cached {
    let mut log = Log::open(disk, SEGMENT).unwrap();
    while model.step(&mut log, rng) {}
    log.into_disk()
}

fn crashes() -> u64 {
    let given = env::var("GCWATCH_STORE_CRASHES").ok();
    given.and_then(|given| given.parse().ok()).unwrap_or(CRASHES)
}

/// Scenario: a log is killed at any call of the disk, with a part of the last write, repeatedly on the same disk.
/// Guarantee: the log opens and returns exactly the records that were appended and not removed, in order; only the
/// effect of the call that did not return is uncertain.
#[test]
fn kill_loses_no_record() {
    for seed in 0..crashes() / 4 {
        let mut rng = Rng::with_seed(seed);
        let (mut disk, mut model) = (Cached::default(), Model::default());
        for _ in 0..4 {
            disk.crash_in = Some(rng.u64(..60));
            disk = life(disk, &mut model, &mut rng).killed();
            let mut log = Log::open(disk.clone(), SEGMENT).unwrap();
            let found = drain(&mut log);
            let mut expected: Vec<Vec<u8>> = model.there.iter().cloned().collect();
            if let Some(Step::Append(payload)) = &model.in_flight
                && found.last() == Some(payload)
            {
                model.there.push_back(payload.clone());
                expected.push(payload.clone());
            }
            let again = found.len().saturating_sub(expected.len());
            let most = usize::from(model.in_flight == Some(Step::Remove));
            assert!(again <= most, "seed {seed}: {again} removed records reappeared");
            assert_eq!(found[again..], expected[..], "seed {seed}");
            let back = model.removed.split_off(model.removed.len() - again);
            assert_eq!(found[..again], back[..], "seed {seed}");
            back.into_iter()
                .rev()
                .for_each(|payload| model.there.push_front(payload));
            model.in_flight = None;
        }
    }
}

/// Scenario: the power fails at any call of the disk; any part of the unsynced changes is present, in any order, some
/// of it as garbage.
/// Guarantee: the log opens and returns every record that was appended and not removed, in order; all other returned
/// records were appended once, byte for byte.
#[test]
fn power_failure_loses_no_record() {
    for seed in 0..crashes() {
        let mut rng = Rng::with_seed(seed);
        let (mut disk, mut model) = (Cached::default(), Model::default());
        disk.crash_in = Some(rng.u64(..80));
        disk = life(disk, &mut model, &mut rng).unplugged(&mut rng);
        let mut log = Log::open(disk, SEGMENT).unwrap();
        let found = drain(&mut log);
        let sure: Vec<&Vec<u8>> = found.iter().filter(|payload| model.there.contains(payload)).collect();
        assert_eq!(sure, model.there.iter().collect::<Vec<_>>(), "seed {seed}");
        for payload in &found {
            let in_flight = model.in_flight == Some(Step::Append(payload.clone()));
            let known = in_flight || model.there.contains(payload) || model.removed.contains(payload);
            assert!(known, "seed {seed}: unknown record");
        }
        // The log remains usable.
        log.append(1, 3, b"new", 1).unwrap();
        assert_eq!(drain(&mut log), [b"new"], "seed {seed}");
    }
}

/// Scenario: the disk is full for a while in the middle of a record, with records before and after it.
/// Guarantee: accepted records are returned after reopening; the failed records are not.
#[test]
fn full_disk_loses_only_refused_records() {
    let mut log = Log::open(Cached::default(), SEGMENT).unwrap();
    log.append(1, 1, b"a", 1).unwrap();
    let mut disk = log.into_disk();
    disk.full = true;
    let mut log = Log::open(disk, SEGMENT).unwrap();
    assert!(log.append(1, 1, b"b", 2).is_err());
    assert!(log.append(1, 1, b"c", 3).is_err());
    let mut disk = log.into_disk();
    disk.full = false;
    let mut log = Log::open(disk, SEGMENT).unwrap();
    log.append(1, 1, b"d", 4).unwrap();
    let mut again = Log::open(log.into_disk(), SEGMENT).unwrap();
    assert_eq!(again.items(), 2);
    assert_eq!(drain(&mut again), [b"a", b"d"]);
}

const BOUNDS: Bounds = Bounds {
    max_bytes: 2 << 20,
    max_age: Duration::from_secs(3600),
};

const NAMES: [&str; LOGS] = ["a", "b", "c"];

/// Returns incompressible bytes.
fn request(seed: u64, len: usize) -> Vec<u8> {
    let mut rng = Rng::with_seed(seed);
    (0..len).map(|_| rng.u8(..)).collect()
}

/// Scenario: two logs are filled alternately far beyond the limit; then an hour passes.
/// Guarantee: the disk never holds more than the limit; the oldest records of both logs are dropped first; the oldest
/// remaining record is returned unchanged; records that are too old are dropped and counted.
#[test]
fn limit_drops_oldest_records_first() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("queue");
    let mut store = Store::open(&path, NAMES, BOUNDS).unwrap();
    let second = 1_000_000_000;
    for number in 0..200 {
        let which = (number % 2) as usize;
        store
            .append(which, 3, &request(number, 50_000), number * second)
            .unwrap();
        assert!(store.bytes() <= BOUNDS.max_bytes);
    }
    drop(store);
    let mut store = Store::open(&path, NAMES, BOUNDS).unwrap();
    let files: u64 = ["a", "b"]
        .iter()
        .flat_map(|name| fs::read_dir(path.join(name)).unwrap())
        .map(|entry| entry.unwrap().metadata().unwrap().len())
        .sum();
    assert!(files <= BOUNDS.max_bytes + 3 * 5000, "{files}");
    let (a, b) = (store.items(0), store.items(1));
    assert!(a.abs_diff(b) <= 9 && a > 50, "{a} {b}");
    let oldest = store.oldest(0, 200 * second).unwrap().unwrap();
    let number = 200 - 2 * (a / 3);
    assert_eq!(oldest.request, request(number, 50_000));
    assert!(store.remove(0, oldest.number) && !store.remove(0, oldest.number));
    assert_eq!(store.items(0), a - 3);
    assert_eq!(store.oldest(1, 4000 * second).unwrap(), None);
    assert_eq!((store.items(0), store.bytes()), (0, 0));
    assert_eq!(
        store.take_drops(1),
        Drops {
            expired: b,
            ..Drops::default()
        }
    );
    assert_eq!(store.take_drops(1), Drops::default());
}

/// Scenario: bytes of a stored request are changed, and another segment is removed.
/// Guarantee: the damaged items are counted and skipped; the requests of the removed segment are counted as missing;
/// the first undamaged and the last request are returned.
#[test]
fn damaged_items_are_counted_and_skipped() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::open(folder.path(), NAMES, BOUNDS).unwrap();
    for number in 0..8 {
        store.append(0, 5, &request(number, 60_000), 1).unwrap();
    }
    let first = folder.path().join("a/0000000000000000");
    let mut bytes = fs::read(&first).unwrap();
    bytes[1000] ^= 1;
    fs::write(&first, bytes).unwrap();
    fs::remove_file(folder.path().join("a/0000000000000003")).unwrap_or_else(|_| {
        fs::remove_file(folder.path().join("a/0000000000000004")).unwrap();
    });
    let mut store = Store::open(folder.path(), NAMES, BOUNDS).unwrap();
    let mut given = Vec::new();
    while let Some(stored) = store.oldest(0, 1).unwrap() {
        given.push(stored.request);
        assert!(store.remove(0, stored.number));
    }
    assert_eq!(store.take_drops(0).damaged, 5);
    assert!(store.missing() > 0);
    assert_eq!(given.first(), Some(&request(1, 60_000)));
    assert_eq!(given.last(), Some(&request(7, 60_000)));
}

/// Scenario: the header of a record in the middle or at the start of the last segment is damaged; the folder contains
/// files that are not segments.
/// Guarantee: records before the damage are returned; the damaged record and the records behind it are counted as
/// missing; the files that are not segments are not removed.
#[test]
fn records_behind_damage_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::open(folder.path(), NAMES, BOUNDS).unwrap();
    for number in 0..5 {
        store.append(0, 5, &request(number, 10_000), 1).unwrap();
    }
    let strange =
        ["+000000000000001", "ffffffffffffffff", "000000000000000G"].map(|name| folder.path().join("a").join(name));
    for path in &strange {
        fs::write(path, "?").unwrap();
    }
    let segment = folder.path().join("a/0000000000000000");
    let mut bytes = fs::read(&segment).unwrap();
    let second = bytes.windows(3).skip(1).position(|bytes| bytes == b"GWR").unwrap() + 1;
    bytes[second + 5] ^= 1;
    fs::write(&segment, bytes).unwrap();
    let mut store = Store::open(folder.path(), NAMES, BOUNDS).unwrap();
    assert_eq!((store.items(0), store.missing()), (5, 4));
    store.append(0, 5, b"new", 1).unwrap();
    assert_eq!(store.oldest(0, 1).unwrap().unwrap().request, request(0, 10_000));
    assert!(strange.iter().all(|path| path.exists()));
    // The damage is at the start of the only segment.
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::open(folder.path(), NAMES, BOUNDS).unwrap();
    for number in 0..5 {
        store.append(0, 5, &request(number, 1000), 1).unwrap();
    }
    let segment = folder.path().join("a/0000000000000000");
    let mut bytes = fs::read(&segment).unwrap();
    bytes[5] ^= 1;
    fs::write(&segment, bytes).unwrap();
    let store = Store::open(folder.path(), NAMES, BOUNDS).unwrap();
    assert_eq!((store.items(0), store.missing()), (0, 5));
}

/// Scenario: another process removes the directory while it is in use.
/// Guarantee: later requests are stored in a new directory that only this user can access.
#[test]
fn removed_directory_is_recreated() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("queue");
    let mut store = Store::open(&path, NAMES, BOUNDS).unwrap();
    fs::remove_dir_all(&path).unwrap();
    store.append(1, 1, b"later", 1).unwrap();
    let mode = fs::metadata(&path).unwrap().permissions().mode() & 0o7777;
    assert_eq!((mode, store.items(1)), (0o700, 1));
    let mut again = Store::open(&path, NAMES, BOUNDS).unwrap();
    assert_eq!(again.oldest(1, 1).unwrap().unwrap().request, b"later");
}

/// Scenario: a new store is created.
/// Guarantee: only this user can access its directories and files.
#[test]
fn store_is_not_readable_by_other_users() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state/queue");
    let mut store = Store::open(&path, NAMES, BOUNDS).unwrap();
    store.append(1, 1, b"secret", 1).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode(&path), 0o700);
    assert_eq!(mode(&path.join("b")), 0o700);
    assert_eq!(mode(&path.join("b/0000000000000000")), 0o600);
}

/// Scenario: an earlier version left a log with unsent profiles.
/// Guarantee: the log is removed, its items are counted once, and the other logs are unchanged.
#[test]
fn log_of_removed_signal_is_removed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("queue");
    let mut earlier = Store::open(&path, ["a", "b", "other"], BOUNDS).unwrap();
    earlier.append(0, 2, b"spans", 0).unwrap();
    earlier.append(2, 3, b"profiles", 0).unwrap();
    assert_eq!(earlier.unsendable(), 0);
    drop(earlier);
    fs::rename(path.join("other"), path.join("profiles")).unwrap();
    let store = Store::open(&path, NAMES, BOUNDS).unwrap();
    assert_eq!((store.unsendable(), store.items(0)), (3, 2));
    assert!(!path.join("profiles").exists());
    drop(store);
    assert_eq!(Store::open(&path, NAMES, BOUNDS).unwrap().unsendable(), 0);
}
