//! That one run is read by one gcwatch of the host only.
//!
//! A lease is a file `PID-STARTTIME.lease` that its holder keeps locked (`flock`). The kernel frees the lock when the
//! holder ends, however it ends; the file names its holder, who deletes it. An unlocked one is not held.
//!
//! Whoever can open a file can lock it, so it has mode 0600; others see in `/proc/locks` that it is locked, and by
//! which process. A lock of a process that is gone (a descriptor of it lives on elsewhere), or of a user whose word
//! does not count in the folder, is none: the file is made anew.
//!
//! # Which folder
//!
//! Files need a folder that all see. Root's is the configured one (`/run/gcwatch`). Others cannot write there; whoever
//! is not root reads processes of the same user alone, so that a folder of that user does: `/run/user/UID/gcwatch`,
//! else `/tmp/gcwatch-UID`. So that root and a user do not both read a process, everybody looks for a lock in all
//! three, with the UID of the *process*, before and after the own one is taken; of two that are taken at the same time,
//! the one in the later folder is given up.
//!
//! A folder counts when it is a real directory that belongs to root, to us or to the process's user, and others cannot
//! write to it. The configured one may belong to anybody where only root can have made it: that of a service with a
//! user of its own. So a process's user can keep gcwatch from that user's own processes and from no others. (An
//! abstract socket as the lock would need no folder, but is one per network namespace, which containers have each their
//! own of, and anybody could take it.)

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use crate::proc_file::uid_of;
use base::run_key::RunKey;
use processes::text::bounded;

/// The file of the lease for a burst: one on the host.
const BURST_FILE: &str = "burst.lease";
/// What follows its holder in that file, before the pid.
const BURST_OF: &str = ", a burst of process ";
/// Longest text of a holder that is read.
const MAX_HOLDER_BYTES: u64 = 128;
/// How often a file is opened anew that its holder deleted meanwhile.
const MAX_RACES: u32 = 8;
/// Files of one folder that are looked through for ones that are not held.
const MAX_SWEPT: usize = 4096;

/// The folders of this gcwatch's leases.
#[derive(Debug, Clone)]
pub struct Leases {
    configured: PathBuf,
    user_folders: PathBuf,
    temporary: PathBuf,
    own_uid: u32,
}

/// A lease that is held.
#[derive(Debug)]
pub struct Lease {
    path: PathBuf,
    file: OwnedFd,
}

/// Why there is no lease.
#[derive(Debug, thiserror::Error)]
pub enum NoLease {
    /// Another gcwatch reads the process.
    #[error("it is read by {holder}")]
    Held {
        /// Who.
        holder: String,
    },
    /// No folder can hold it: two gcwatches might both read the process.
    #[error("no lease can be taken in {folders}: {problem}")]
    NoFolder {
        /// Those that were tried.
        folders: String,
        /// Why the last of them could not be used.
        problem: String,
    },
}

impl Leases {
    /// Leases in the folder that is configured, else in those of the user of a process, else in that of temporary
    /// files.
    pub fn new(configured: PathBuf) -> Self {
        Self {
            configured,
            user_folders: PathBuf::from("/run/user"),
            temporary: PathBuf::from("/tmp"),
            own_uid: rustix::process::geteuid().as_raw(),
        }
    }

    /// The folders that a lease of a process of this user may be in, in the order in which they count.
    fn folders(&self, uid: u32) -> [PathBuf; 3] {
        [
            self.configured.clone(),
            self.user_folders.join(uid.to_string()).join("gcwatch"),
            self.temporary.join(format!("gcwatch-{uid}")),
        ]
    }

    /// Takes the lease of a run; blocking. `uid` is the process's user.
    pub(crate) fn take(&self, key: RunKey, uid: Option<u32>) -> Result<Lease, NoLease> {
        self.take_named(&file_name(key), uid, "")
    }

    /// Takes the host's one lease for a burst of process `pid` (crate `evidence`); blocking. `uid` is the process's
    /// user.
    pub fn take_burst(&self, pid: u32, uid: Option<u32>) -> Result<Lease, NoLease> {
        self.take_named(BURST_FILE, uid, &format!("{BURST_OF}{pid}"))
    }

    /// The process of a burst that ended without giving its lease back: its gcwatch was killed. The file is deleted.
    /// In the configured folder and our own; blocking.
    pub(crate) fn abandoned_burst(&self) -> Option<u32> {
        let mut folders = self.folders(self.own_uid).into_iter();
        folders.find_map(|folder| {
            self.trusted(&folder, self.own_uid).ok()?;
            let path = folder.join(BURST_FILE);
            let mut text = String::new();
            let file = std::fs::File::open(&path).ok()?;
            file.take(MAX_HOLDER_BYTES).read_to_string(&mut text).ok()?;
            let pid = text.trim().split_once(BURST_OF)?.1.parse().ok()?;
            match lock_there(&path) {
                // Not there any more: it had a lock that does not count.
                Ok(Some(_)) | Err(Errno::NOENT) => Some(pid),
                // Held: the burst goes on.
                Ok(None) | Err(_) => None,
            }
        })
    }

    fn take_named(&self, name: &str, uid: Option<u32>, what: &str) -> Result<Lease, NoLease> {
        let uid = uid.unwrap_or(self.own_uid);
        let folders = self.folders(uid);
        let trusted = |folder: &Path| self.trusted(folder, uid);
        let holder = |folder: &PathBuf| holder(&folder.join(name), &trusted(folder).ok()?);
        if let Some(holder) = folders.iter().find_map(holder) {
            return Err(NoLease::Held { holder });
        }
        let mut problem = String::new();
        for (place, folder) in folders.iter().enumerate() {
            let owners = match self.prepare(folder, place > 0).and_then(|()| trusted(folder)) {
                Ok(owners) => owners,
                Err(error) => {
                    if problem.is_empty() {
                        problem = error;
                    }
                    continue;
                }
            };
            match lock(&folder.join(name), OFlags::CREATE, &owners, what) {
                Ok(Some(lease)) => {
                    let before = folders.get(..place).unwrap_or_default();
                    return match before.iter().find_map(holder) {
                        Some(holder) => Err(NoLease::Held { holder }),
                        None => Ok(lease),
                    };
                }
                Ok(None) => {
                    let holder = holder(folder).unwrap_or_else(|| "another gcwatch".to_owned());
                    return Err(NoLease::Held { holder });
                }
                Err(errno) if problem.is_empty() => problem = std::io::Error::from(errno).to_string(),
                Err(_) => {}
            }
        }
        let folders: Vec<_> = folders.iter().map(|folder| folder.display().to_string()).collect();
        Err(NoLease::NoFolder {
            folders: folders.join(", "),
            problem,
        })
    }

    /// Who holds the lease of a run; blocking. `uid` is the process's user.
    pub(crate) fn holder(&self, key: RunKey, uid: Option<u32>) -> Option<String> {
        let uid = uid.unwrap_or(self.own_uid);
        let name = file_name(key);
        let mut folders = self.folders(uid).into_iter();
        folders.find_map(|folder| holder(&folder.join(&name), &self.trusted(&folder, uid).ok()?))
    }

    /// Whose locks count in a folder; the error says why it is not used. `uid` is the process's user.
    fn trusted(&self, folder: &Path, uid: u32) -> Result<Vec<u32>, String> {
        let mut owners = vec![0, self.own_uid, uid];
        if folder == self.configured
            && let Some(owner) = given_by_root(folder)
        {
            owners.push(owner);
        }
        is_trusted(folder, &owners)?;
        Ok(owners)
    }

    /// Makes a folder that is not there. One of a user's own is made in a folder that is there.
    fn prepare(&self, folder: &Path, is_users: bool) -> Result<(), String> {
        if std::fs::symlink_metadata(folder).is_ok() {
            return Ok(());
        }
        if is_users && !folder.parent().is_some_and(Path::is_dir) {
            return Err("its folder is not there".to_owned());
        }
        let mode = if self.own_uid == 0 { 0o755 } else { 0o700 };
        match rustix::fs::mkdirat(CWD, folder, Mode::from_raw_mode(mode)) {
            Ok(()) | Err(Errno::EXIST) => Ok(()),
            Err(errno) => Err(std::io::Error::from(errno).to_string()),
        }
    }

    /// Deletes files of leases that are not held, in the configured folder and our own; blocking.
    pub(crate) fn sweep(&self) {
        for folder in self.folders(self.own_uid) {
            if is_trusted(&folder, &[self.own_uid]).is_err() {
                continue;
            }
            let Ok(entries) = std::fs::read_dir(&folder) else {
                continue;
            };
            for entry in entries.take(MAX_SWEPT).filter_map(Result::ok) {
                let path = entry.path();
                if path.extension().is_some_and(|extension| extension == "lease") {
                    // Taken and given back: deleted, if it is not held.
                    drop(lock_there(&path));
                }
            }
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        // While it is locked: whoever opened it before sees that it is no longer the one at this path.
        if is_at(&self.file, &self.path) {
            let _already_gone = std::fs::remove_file(&self.path);
        }
    }
}

fn file_name(key: RunKey) -> String {
    format!("{}-{}.lease", key.pid, key.start_time)
}

/// Whether others than these users cannot put files there.
fn is_trusted(folder: &Path, owners: &[u32]) -> Result<(), String> {
    let metadata = std::fs::symlink_metadata(folder).map_err(|error| error.to_string())?;
    if !metadata.is_dir() {
        return Err("it is no directory".to_owned());
    }
    if !owners.contains(&metadata.uid()) {
        return Err(format!("it belongs to uid {}", metadata.uid()));
    }
    if metadata.mode() & 0o022 != 0 {
        return Err("others can write to it".to_owned());
    }
    Ok(())
}

/// The owner of a folder that only root can have made or given away: nobody else can write to the one that it is in.
fn given_by_root(folder: &Path) -> Option<u32> {
    is_trusted(folder.parent()?, &[0]).ok()?;
    Some(std::fs::symlink_metadata(folder).ok()?.uid())
}

/// Who has this file locked. `None`: nobody whose lock counts.
fn holder(path: &Path, owners: &[u32]) -> Option<String> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let mut text = Vec::new();
    match rustix::fs::openat(CWD, path, flags, Mode::empty()) {
        Ok(file) => {
            match rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared) {
                Err(Errno::WOULDBLOCK) if !is_lock_of_others(path, owners) => {}
                _ => return None,
            }
            // Between lock and text there is a moment without one.
            let _empty = std::fs::File::from(file).take(MAX_HOLDER_BYTES).read_to_end(&mut text);
        }
        // Another user's, as it should be.
        Err(Errno::ACCESS) if is_locked(path) && !is_lock_of_others(path, owners) => {}
        Err(_) => return None,
    }
    let text = bounded(String::from_utf8_lossy(&text).trim());
    let by_pid = || lockers(path).first().map(|pid| format!("gcwatch (process {pid})"));
    let text = Some(text).filter(|text| !text.is_empty());
    text.or_else(by_pid).or_else(|| Some("another gcwatch".to_owned()))
}

/// The processes that have a lock on the file, as far as this process can see them.
fn lockers(path: &Path) -> Vec<u32> {
    let Ok(there) = rustix::fs::statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW) else {
        return Vec::new();
    };
    let (major, minor) = (rustix::fs::major(there.st_dev), rustix::fs::minor(there.st_dev));
    let locks = std::fs::read_to_string("/proc/locks").unwrap_or_default();
    lockers_in(&locks, &format!("{major:02x}:{minor:02x}:{}", there.st_ino))
}

/// Of lines such as `7: FLOCK ADVISORY WRITE 4711 00:19:812 0 EOF`; those of who waits have an arrow behind the number.
fn lockers_in(locks: &str, place: &str) -> Vec<u32> {
    let of_line = |line: &str| {
        let mut fields = line.split_whitespace().skip(1);
        let is_flock = fields.next() == Some("FLOCK");
        let pid = fields.nth(2)?.parse().ok()?;
        (is_flock && fields.next() == Some(place)).then_some(pid)
    };
    locks.lines().filter_map(of_line).collect()
}

fn is_locked(path: &Path) -> bool {
    !lockers(path).is_empty()
}

/// Whether whoever has the lock is known, and is gone or a user whose word does not count here. A lock that cannot be
/// seen (of another pid namespace) counts.
fn is_lock_of_others(path: &Path, owners: &[u32]) -> bool {
    // The kernel writes its list in pieces: a lock can be missing in one that changes meanwhile.
    let mut read = (0..3).map(|_| lockers(path));
    let lockers = read.find(|lockers| !lockers.is_empty()).unwrap_or_default();
    let counts = |pid: &u32| uid_of(*pid).is_some_and(|uid| owners.contains(&uid));
    !lockers.is_empty() && !lockers.iter().any(counts)
}

/// Locks the file if it is there.
fn lock_there(path: &Path) -> Result<Option<Lease>, Errno> {
    let own = rustix::process::geteuid().as_raw();
    lock(path, OFlags::empty(), &[0, own], "")
}

/// Locks the file. `None`: somebody else has it. `owners`: whose locks count.
fn lock(path: &Path, create: OFlags, owners: &[u32], what: &str) -> Result<Option<Lease>, Errno> {
    for _ in 0..MAX_RACES {
        let flags = create | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = match rustix::fs::openat(CWD, path, flags, Mode::from_raw_mode(0o600)) {
            // Another user left it, in a folder where we may delete it.
            Err(Errno::ACCESS) if is_regular(path) && !is_locked(path) => {
                rustix::fs::unlinkat(CWD, path, AtFlags::empty())?;
                continue;
            }
            opened => opened?,
        };
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) if is_lock_of_others(path, owners) => {
                log!(
                    warn: "{} was locked by process {:?}, which is no gcwatch that counts here: it is made anew",
                    path.display(),
                    lockers(path)
                );
                rustix::fs::unlinkat(CWD, path, AtFlags::empty())?;
                continue;
            }
            Err(Errno::WOULDBLOCK) => return Ok(None),
            Err(other) => return Err(other),
        }
        // Its former holder may have deleted it between the open and the lock.
        if is_at(&file, path) {
            let lease = Lease {
                path: path.to_path_buf(),
                file,
            };
            let text = format!(
                "gcwatch {} (process {}){what}\n",
                env!("CARGO_PKG_VERSION"),
                std::process::id()
            );
            rustix::fs::ftruncate(&lease.file, 0)?;
            std::fs::File::from(lease.file.try_clone().map_err(|_| Errno::MFILE)?)
                .write_all(text.as_bytes())
                .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
            return Ok(Some(lease));
        }
    }
    Err(Errno::AGAIN)
}

fn is_regular(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|there| there.is_file())
}

fn is_at(file: &OwnedFd, path: &Path) -> bool {
    let there = rustix::fs::statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW);
    match (there, rustix::fs::fstat(file)) {
        (Ok(there), Ok(ours)) => (there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    const KEY: RunKey = RunKey {
        pid: 12,
        start_time: 34,
    };

    /// Folders in a directory of the test's own.
    fn leases(root: &Path, configured: &str) -> Leases {
        Leases {
            configured: root.join(configured),
            user_folders: root.join("run-user"),
            temporary: root.join("tmp"),
            own_uid: rustix::process::geteuid().as_raw(),
        }
    }

    fn root() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("tmp")).unwrap();
        root
    }

    fn held(result: Result<Lease, NoLease>) -> String {
        match result {
            Err(NoLease::Held { holder }) => holder,
            other => panic!("{other:?}"),
        }
    }

    /// Scenario: two gcwatches want one run; the first lets it go; a file without a holder is left behind.
    /// Guarantee: the second one learns who has it, gets it afterwards, and nothing is left in the folder.
    #[test]
    fn one_of_two_has_the_lease() {
        let root = root();
        let leases = leases(root.path(), "run");
        let first = leases.take(KEY, None).unwrap();
        let holder = held(leases.take(KEY, None));
        assert!(holder.contains(&std::process::id().to_string()), "{holder}");
        assert!(leases.take(RunKey { pid: 13, ..KEY }, None).is_ok(), "another run");
        drop(first);
        let files = || std::fs::read_dir(root.path().join("run")).unwrap().count();
        assert_eq!(files(), 0);
        std::fs::write(root.path().join("run/12-34.lease"), b"whoever").unwrap();
        drop(leases.take(KEY, None).unwrap());
        assert_eq!(files(), 0);
        std::fs::write(root.path().join("run/1-2.lease"), b"whoever").unwrap();
        let kept = leases.take(KEY, None).unwrap();
        leases.sweep();
        assert_eq!(files(), 1, "the abandoned one is gone, the one that is held is there");
        drop(kept);
    }

    /// Scenario: a gcwatch is killed while somebody else has its lease's file open and locked, whose process is gone, too.
    /// Guarantee: that is no holder: the lease is taken, with a file that nobody else can open, and sweeping deletes it.
    #[test]
    fn a_lock_that_is_no_gcwatchs_is_none() {
        let root = root();
        let leases = leases(root.path(), "run");
        drop(leases.take(KEY, None).unwrap());
        let file = root.path().join("run/12-34.lease");
        std::fs::write(&file, "gcwatch 0.1.0 (process 30966)").unwrap();
        // The one that locks ends; the one that sleeps has its descriptor.
        let mut child = std::process::Command::new("sh")
            .args(["-c", "exec 9<\"$0\"; flock -n 9 && echo locked && exec sleep 600 >&2"])
            .arg(&file)
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = String::new();
        child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
        assert_eq!(said, "locked\n");
        assert_eq!(leases.holder(KEY, None), None);
        let lease = leases.take(KEY, None).unwrap();
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        held(leases.take(KEY, None));
        drop(lease);
        assert!(!file.exists());
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Scenario: the kernel's list with locks of other kinds, on other files, and one that waits.
    /// Guarantee: those who have a lock on this file.
    #[test]
    fn the_kernel_says_who_has_a_lock() {
        let locks = "1: POSIX  ADVISORY  WRITE 5 00:19:812 0 EOF\n2: FLOCK  ADVISORY  WRITE 71 00:19:812 0 EOF\n\
                     2: -> FLOCK  ADVISORY  WRITE 72 00:19:812 0 EOF\n3: FLOCK  ADVISORY  READ 73 00:19:813 0 EOF\n4:";
        assert_eq!(lockers_in(locks, "00:19:812"), [71]);
        assert_eq!(lockers_in(locks, "00:19:9"), Vec::<u32>::new());
    }

    /// Scenario: a burst gives its lease back; another one is killed, which leaves the file without a lock.
    /// Guarantee: while a burst goes on and after an orderly end there is nothing to heal; of the killed one the process
    /// is named once.
    #[test]
    fn an_abandoned_burst_names_its_process() {
        let root = root();
        let leases = leases(root.path(), "run");
        let lease = leases.take_burst(4711, None).unwrap();
        let file = root.path().join("run/burst.lease");
        let text = std::fs::read(&file).unwrap();
        assert_eq!(leases.abandoned_burst(), None);
        drop(lease);
        assert_eq!(leases.abandoned_burst(), None);
        std::fs::write(&file, text).unwrap();
        assert_eq!(leases.abandoned_burst(), Some(4711));
        assert_eq!(leases.abandoned_burst(), None);
        std::fs::write(&file, "whatever").unwrap();
        assert_eq!(leases.abandoned_burst(), None);
    }

    /// Scenario: the configured folder cannot be made; then a gcwatch comes that can make it (root's).
    /// Guarantee: the first takes the lease in a folder of the process's user, and the second one sees it there.
    #[test]
    fn all_folders_are_looked_at() {
        let root = root();
        std::fs::write(root.path().join("file"), b"").unwrap();
        let first = leases(root.path(), "file/run").take(KEY, None).unwrap();
        assert!(first.path.starts_with(root.path().join("tmp")), "{first:?}");
        held(leases(root.path(), "run").take(KEY, None));
        drop(first);
        assert!(leases(root.path(), "run").take(KEY, None).is_ok());
    }

    /// Scenario: each folder is a link, writable by all, or a file; the lease's file is a link.
    /// Guarantee: none is used, and the run has no lease; a link is not followed.
    #[test]
    fn foreign_folders_are_not_trusted() {
        let root = root();
        let elsewhere = root.path().join("elsewhere");
        std::fs::create_dir(&elsewhere).unwrap();
        symlink(&elsewhere, root.path().join("run")).unwrap();
        let leases = leases(root.path(), "run");
        let [_, _, temporary] = leases.folders(leases.own_uid);
        std::fs::create_dir(&temporary).unwrap();
        std::fs::set_permissions(&temporary, std::fs::Permissions::from_mode(0o777)).unwrap();
        assert!(matches!(leases.take(KEY, None), Err(NoLease::NoFolder { .. })));
        std::fs::set_permissions(&temporary, std::fs::Permissions::from_mode(0o700)).unwrap();
        symlink(elsewhere.join("target"), temporary.join("12-34.lease")).unwrap();
        assert!(matches!(leases.take(KEY, None), Err(NoLease::NoFolder { .. })));
        assert_eq!(std::fs::read_dir(elsewhere).unwrap().count(), 0);
    }
}
