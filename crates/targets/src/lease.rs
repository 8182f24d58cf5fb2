//! Ensures that at most one gcwatch instance per host reads a run.
//!
//! A lease is a file `PID-STARTTIME.lease` that its holder keeps locked with `flock`. The kernel releases the lock when
//! the holder exits, even if it is killed. The file contains the name of its holder. The holder deletes the file when
//! it releases the lease. A lease file without a lock is not held.
//!
//! Any process that can open a file can lock it, so lease files have mode 0600. Other users see in `/proc/locks`
//! whether a file is locked, and by which process. A lock is ignored if its process has exited (another process can
//! still hold the descriptor), or if it belongs to a user whose locks do not count in the folder. gcwatch then
//! recreates the file.
//!
//! # Folders
//!
//! Lease files must be in a folder that all instances can see. An instance that runs as root uses the configured folder
//! (`/run/gcwatch`). Other users cannot write to this folder. Instances of other users read only their own processes,
//! so they use a folder of their user: `/run/user/UID/gcwatch`, or `/tmp/gcwatch-UID` if `/run/user/UID` does not
//! exist. To prevent root and a user from both reading a process, every instance uses the three folders for the UID of
//! the *process*. An instance checks all three folders before it takes its lease. Afterwards, the instance checks the
//! folders that precede the folder of its lease again. If two instances take leases in different folders at the same
//! time, the lease in the later folder is therefore released.
//!
//! A folder is accepted if it is a real directory and no other users can write to it. The folder must belong to root,
//! to the user of gcwatch or to the user of the process. The configured folder can belong to any user if only root can
//! have created it, as for a service with a dedicated user. A user can therefore keep gcwatch away from their own
//! processes, but not from processes of other users.
//!
//! Abstract sockets are not used as locks, although they need no folder: they are local to a network namespace, which
//! differs between containers, and any user can bind an abstract socket.

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use crate::proc_file::uid_of;
use base::run_key::RunKey;
use processes::text::bounded;

/// File name of the burst lease. There is one burst lease per host.
const BURST_FILE: &str = "burst.lease";
/// Separator between the holder and the pid in the burst lease file.
const BURST_OF: &str = ", a burst of process ";
/// Maximum length of a holder's name, in bytes. The rest is ignored.
const MAX_HOLDER_BYTES: u64 = 128;
/// Maximum number of attempts to open a file that its holder deletes at the same time.
const MAX_RACES: u32 = 8;
/// Maximum number of files per folder that a sweep examines.
const MAX_SWEPT: usize = 4096;

/// The folders in which this instance looks for leases.
#[derive(Debug, Clone)]
pub struct Leases {
    configured: PathBuf,
    user_folders: PathBuf,
    temporary: PathBuf,
    own_uid: u32,
}

/// A lease held by this process. Dropping the lease deletes the file and releases the lock.
#[derive(Debug)]
pub struct Lease {
    path: PathBuf,
    file: OwnedFd,
}

/// Error returned if a lease cannot be acquired.
#[derive(Debug, thiserror::Error)]
pub enum LeaseError {
    /// Another gcwatch instance holds the lease.
    #[error("the process is already read by {holder}")]
    Held {
        /// Program, version and pid of the holder.
        holder: String,
    },
    /// None of the folders can be used, so two instances can read the same process.
    #[error("cannot create a lease in {folders}: {problem}")]
    NoFolder {
        /// The folders that were tried, separated by commas.
        folders: String,
        /// Reason why the first folder cannot be used.
        problem: FolderError,
    },
}

/// Error returned if a folder cannot hold leases.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// The path is not a directory.
    #[error("it is not a directory")]
    NotDirectory,
    /// The folder belongs to a user whose locks do not count.
    #[error("it belongs to uid {0}")]
    WrongOwner(u32),
    /// Other users can create files in the folder.
    #[error("other users can write to it")]
    WritableByOthers,
    /// The folder of a user is not created without its parent.
    #[error("its parent folder does not exist")]
    NoParent,
    /// The folder or its lease file cannot be created or read.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

impl Leases {
    /// Creates a set of lease folders: `configured`, then the folder of the process's user in `/run/user`, then the
    /// folder of this user in `/tmp`.
    pub fn new(configured: PathBuf) -> Self {
        Self {
            configured,
            user_folders: PathBuf::from("/run/user"),
            temporary: PathBuf::from("/tmp"),
            own_uid: rustix::process::geteuid().as_raw(),
        }
    }

    /// Returns the possible folders for leases on processes of user `uid`, in order of preference.
    fn folders(&self, uid: u32) -> [PathBuf; 3] {
        [
            self.configured.clone(),
            self.user_folders.join(uid.to_string()).join("gcwatch"),
            self.temporary.join(format!("gcwatch-{uid}")),
        ]
    }

    /// Acquires the lease of a run. `uid` is the user of the process.
    ///
    /// Blocks the calling thread.
    pub(crate) fn take(&self, key: RunKey, uid: Option<u32>) -> Result<Lease, LeaseError> {
        self.take_named(&file_name(key), uid, "")
    }

    /// Acquires the burst lease of this host for process `pid` (crate `evidence`). `uid` is the user of the process.
    ///
    /// Blocks the calling thread.
    pub fn take_burst(&self, pid: u32, uid: Option<u32>) -> Result<Lease, LeaseError> {
        self.take_named(BURST_FILE, uid, &format!("{BURST_OF}{pid}"))
    }

    /// Returns the process of a burst whose gcwatch instance was killed before it released the burst lease, or `None`
    /// if there is no such burst. Deletes the lease file of this burst. Checks the configured folder and the folders of
    /// the current user.
    ///
    /// Blocks the calling thread.
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
                // The file no longer exists, because its lock did not count and the file was deleted.
                Ok(Some(_)) | Err(Errno::NOENT) => Some(pid),
                // The lease is held: the burst is still running.
                Ok(None) | Err(_) => None,
            }
        })
    }

    fn take_named(&self, name: &str, uid: Option<u32>, what: &str) -> Result<Lease, LeaseError> {
        let uid = uid.unwrap_or(self.own_uid);
        let folders = self.folders(uid);
        let trusted = |folder: &Path| self.trusted(folder, uid);
        let holder = |folder: &PathBuf| holder(&folder.join(name), &trusted(folder).ok()?);
        if let Some(holder) = folders.iter().find_map(holder) {
            return Err(LeaseError::Held { holder });
        }
        let mut problem = None;
        for (place, folder) in folders.iter().enumerate() {
            let owners = match self.prepare(folder, place > 0).and_then(|()| trusted(folder)) {
                Ok(owners) => owners,
                Err(error) => {
                    problem.get_or_insert(error);
                    continue;
                }
            };
            match lock(&folder.join(name), OFlags::CREATE, &owners, what) {
                Ok(Some(lease)) => {
                    let before = folders.get(..place).unwrap_or_default();
                    return match before.iter().find_map(holder) {
                        Some(holder) => Err(LeaseError::Held { holder }),
                        None => Ok(lease),
                    };
                }
                Ok(None) => {
                    let holder = holder(folder).unwrap_or_else(|| "another gcwatch".to_owned());
                    return Err(LeaseError::Held { holder });
                }
                Err(errno) => {
                    problem.get_or_insert_with(|| std::io::Error::from(errno).into());
                }
            }
        }
        let folders: Vec<_> = folders.iter().map(|folder| folder.display().to_string()).collect();
        Err(LeaseError::NoFolder {
            folders: folders.join(", "),
            // Each of the folders has a problem.
            problem: problem.unwrap_or(FolderError::NoParent),
        })
    }

    /// Returns the holder of a run's lease, or `None` if the lease is not held. `uid` is the user of the process.
    ///
    /// Blocks the calling thread.
    pub(crate) fn holder(&self, key: RunKey, uid: Option<u32>) -> Option<String> {
        let uid = uid.unwrap_or(self.own_uid);
        let name = file_name(key);
        let mut folders = self.folders(uid).into_iter();
        folders.find_map(|folder| holder(&folder.join(&name), &self.trusted(&folder, uid).ok()?))
    }

    /// Returns the uids whose locks count in a folder. `uid` is the user of the process.
    ///
    /// # Errors
    ///
    /// Returns the reason if the folder must not be used.
    fn trusted(&self, folder: &Path, uid: u32) -> Result<Vec<u32>, FolderError> {
        let mut owners = vec![0, self.own_uid, uid];
        if folder == self.configured
            && let Some(owner) = given_by_root(folder)
        {
            owners.push(owner);
        }
        is_trusted(folder, &owners)?;
        Ok(owners)
    }

    /// Creates a folder if it does not exist. The folder of a user is created only if its parent exists.
    fn prepare(&self, folder: &Path, is_users: bool) -> Result<(), FolderError> {
        if std::fs::symlink_metadata(folder).is_ok() {
            return Ok(());
        }
        if is_users && !folder.parent().is_some_and(Path::is_dir) {
            return Err(FolderError::NoParent);
        }
        let mode = if self.own_uid == 0 { 0o755 } else { 0o700 };
        match rustix::fs::mkdirat(CWD, folder, Mode::from_raw_mode(mode)) {
            Ok(()) | Err(Errno::EXIST) => Ok(()),
            Err(errno) => Err(std::io::Error::from(errno).into()),
        }
    }

    /// Deletes lease files that are not held, in the configured folder and the folders of the current user.
    ///
    /// Blocks the calling thread.
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
                    // Acquiring and releasing an unheld lease deletes its file.
                    drop(lock_there(&path));
                }
            }
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        // Delete the file while it is locked. A process that opened the file earlier then detects that the path no
        // longer names this file.
        if is_at(&self.file, &self.path) {
            let _already_gone = std::fs::remove_file(&self.path);
        }
    }
}

fn file_name(key: RunKey) -> String {
    format!("{}-{}.lease", key.pid, key.start_time)
}

/// Checks that only these users can create files in a folder.
fn is_trusted(folder: &Path, owners: &[u32]) -> Result<(), FolderError> {
    let metadata = std::fs::symlink_metadata(folder)?;
    if !metadata.is_dir() {
        return Err(FolderError::NotDirectory);
    }
    if !owners.contains(&metadata.uid()) {
        return Err(FolderError::WrongOwner(metadata.uid()));
    }
    if metadata.mode() & 0o022 != 0 {
        return Err(FolderError::WritableByOthers);
    }
    Ok(())
}

/// Returns the owner of a folder, or `None` if any user other than root can write to its parent. Only root can have
/// created the folder or changed its owner.
fn given_by_root(folder: &Path) -> Option<u32> {
    is_trusted(folder.parent()?, &[0]).ok()?;
    Some(std::fs::symlink_metadata(folder).ok()?.uid())
}

/// Returns the holder of the lock on a file, or `None` if no valid lock is held. If the name of the holder is not
/// readable, the result contains only the pid, or neither name nor pid.
fn holder(path: &Path, owners: &[u32]) -> Option<String> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let mut text = Vec::new();
    match rustix::fs::openat(CWD, path, flags, Mode::empty()) {
        Ok(file) => {
            match rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared) {
                Err(Errno::WOULDBLOCK) if !is_lock_of_others(path, owners) => {}
                _ => return None,
            }
            // The file is empty for a moment after its holder has locked it.
            let _empty = std::fs::File::from(file).take(MAX_HOLDER_BYTES).read_to_end(&mut text);
        }
        // The file belongs to another user and has mode 0600, as expected.
        Err(Errno::ACCESS) if is_locked(path) && !is_lock_of_others(path, owners) => {}
        Err(_) => return None,
    }
    let text = bounded(String::from_utf8_lossy(&text).trim());
    let by_pid = || lockers(path).first().map(|pid| format!("gcwatch (process {pid})"));
    let text = Some(text).filter(|text| !text.is_empty());
    text.or_else(by_pid).or_else(|| Some("another gcwatch".to_owned()))
}

/// Returns the processes that hold a lock on a file, if they are visible to this process.
fn lockers(path: &Path) -> Vec<u32> {
    let Ok(there) = rustix::fs::statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW) else {
        return Vec::new();
    };
    let (major, minor) = (rustix::fs::major(there.st_dev), rustix::fs::minor(there.st_dev));
    let locks = std::fs::read_to_string("/proc/locks").unwrap_or_default();
    lockers_in(&locks, &format!("{major:02x}:{minor:02x}:{}", there.st_ino))
}

/// Returns the processes that hold an `flock` on a file. `place` is the device and inode of the file. A lock has a line
/// such as `7: FLOCK ADVISORY WRITE 4711 00:19:812 0 EOF`. Lines of waiting processes have an arrow after the number
/// and are ignored.
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

/// Returns whether lock owners are visible and no owner counts, because each owner has exited or belongs to a user that
/// is not in `owners`. A lock from another pid namespace is not visible and counts.
fn is_lock_of_others(path: &Path, owners: &[u32]) -> bool {
    // The kernel returns the list in chunks. A lock can be missing if the list changes between two chunks.
    let mut read = (0..3).map(|_| lockers(path));
    let lockers = read.find(|lockers| !lockers.is_empty()).unwrap_or_default();
    let counts = |pid: &u32| uid_of(*pid).is_some_and(|uid| owners.contains(&uid));
    !lockers.is_empty() && !lockers.iter().any(counts)
}

/// Locks a file if it exists. Returns `None` if another process holds a lock that counts.
fn lock_there(path: &Path) -> Result<Option<Lease>, Errno> {
    let own = rustix::process::geteuid().as_raw();
    lock(path, OFlags::empty(), &[0, own], "")
}

/// Locks a file and writes the holder into it. `owners` are the uids whose locks count.
///
/// Returns `None` if another process holds a lock that counts.
fn lock(path: &Path, create: OFlags, owners: &[u32], what: &str) -> Result<Option<Lease>, Errno> {
    for _ in 0..MAX_RACES {
        let flags = create | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = match rustix::fs::openat(CWD, path, flags, Mode::from_raw_mode(0o600)) {
            // Another user left the file in a folder where this process can delete it.
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
                    warn: "{} is locked by process {:?}, which is not a valid lease holder; recreating the file",
                    path.display(),
                    lockers(path)
                );
                rustix::fs::unlinkat(CWD, path, AtFlags::empty())?;
                continue;
            }
            Err(Errno::WOULDBLOCK) => return Ok(None),
            Err(other) => return Err(other),
        }
        // The previous holder can delete the file between the open and the lock.
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

    /// Returns lease folders inside the temporary directory of a test.
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

    fn held(result: Result<Lease, LeaseError>) -> String {
        match result {
            Err(LeaseError::Held { holder }) => holder,
            other => panic!("{other:?}"),
        }
    }

    /// Scenario: two instances request the lease of one run; the first instance releases it; lease files without a
    /// holder remain; a sweep runs while a lease is held.
    /// Guarantee: the second instance learns the holder; a file without a holder does not prevent the lease; a released
    /// lease leaves no file; the sweep keeps only the held file.
    #[test]
    fn lease_has_one_holder() {
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
        assert_eq!(
            files(),
            1,
            "the sweep deletes the abandoned file and keeps the held one"
        );
        drop(kept);
    }

    /// Scenario: an instance was killed and left its lease file. The lock on this file belongs to a process that has
    /// also exited, while its child still has the descriptor.
    /// Guarantee: the stale lock is ignored, the lease is acquired with a new file of mode 0600, and the file is
    /// deleted when the lease is dropped.
    #[test]
    fn lock_of_exited_process_is_ignored() {
        let root = root();
        let leases = leases(root.path(), "run");
        drop(leases.take(KEY, None).unwrap());
        let file = root.path().join("run/12-34.lease");
        std::fs::write(&file, "gcwatch 0.1.0 (process 30966)").unwrap();
        // `flock` exits after it has taken the lock; `sleep` inherits the descriptor.
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

    /// Scenario: `/proc/locks` contains locks of other kinds, locks on other files, and a waiting process.
    /// Guarantee: only the processes that hold an `flock` on the file are returned.
    #[test]
    fn lock_owners_are_parsed_from_proc_locks() {
        let locks = "1: POSIX  ADVISORY  WRITE 5 00:19:812 0 EOF\n2: FLOCK  ADVISORY  WRITE 71 00:19:812 0 EOF\n\
                     2: -> FLOCK  ADVISORY  WRITE 72 00:19:812 0 EOF\n3: FLOCK  ADVISORY  READ 73 00:19:813 0 EOF\n4:";
        assert_eq!(lockers_in(locks, "00:19:812"), [71]);
        assert_eq!(lockers_in(locks, "00:19:9"), Vec::<u32>::new());
    }

    /// Scenario: a burst releases its lease; another burst is killed and leaves an unlocked file; then the file
    /// contains another text.
    /// Guarantee: a running burst and a finished burst are not reported; the process of the killed burst is reported
    /// once; the other text is ignored.
    #[test]
    fn abandoned_burst_is_reported_once() {
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

    /// Scenario: the configured folder cannot be created; then an instance starts that can create it (as root).
    /// Guarantee: the first instance takes the lease in a folder of the process's user; the second instance finds the
    /// lease there.
    #[test]
    fn lease_in_fallback_folder_is_found() {
        let root = root();
        std::fs::write(root.path().join("file"), b"").unwrap();
        let first = leases(root.path(), "file/run").take(KEY, None).unwrap();
        assert!(first.path.starts_with(root.path().join("tmp")), "{first:?}");
        held(leases(root.path(), "run").take(KEY, None));
        drop(first);
        assert!(leases(root.path(), "run").take(KEY, None).is_ok());
    }

    /// Scenario: the configured folder is a link, the folder in `/run/user` cannot be created, and the folder in `/tmp`
    /// is world-writable. Then the last folder is valid, but the lease file in it is a link.
    /// Guarantee: no lease is acquired, and no link is followed.
    #[test]
    fn untrusted_folders_are_refused() {
        let root = root();
        let elsewhere = root.path().join("elsewhere");
        std::fs::create_dir(&elsewhere).unwrap();
        symlink(&elsewhere, root.path().join("run")).unwrap();
        let leases = leases(root.path(), "run");
        let [_, _, temporary] = leases.folders(leases.own_uid);
        std::fs::create_dir(&temporary).unwrap();
        std::fs::set_permissions(&temporary, std::fs::Permissions::from_mode(0o777)).unwrap();
        assert!(matches!(leases.take(KEY, None), Err(LeaseError::NoFolder { .. })));
        std::fs::set_permissions(&temporary, std::fs::Permissions::from_mode(0o700)).unwrap();
        symlink(elsewhere.join("target"), temporary.join("12-34.lease")).unwrap();
        assert!(matches!(leases.take(KEY, None), Err(LeaseError::NoFolder { .. })));
        assert_eq!(std::fs::read_dir(elsewhere).unwrap().count(), 0);
    }
}
