//! The directory for state that outlives the daemon. The daemon creates the directory with mode 0700 and locks it, so
//! that two daemons cannot share it.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use processes::files::SAFE_OPEN_FLAGS;
use rustix::fs::{FlockOperation, flock};
use rustix::process::geteuid;

/// The file that is locked.
const LOCK: &str = "lock";

/// A directory that no other daemon uses while this value exists.
#[derive(Debug)]
pub(crate) struct StateDirectory {
    _lock: File,
    goes_with_pod: bool,
}

/// Path of the kubelet's directory for volumes that it deletes with the pod.
const EMPTY_DIR: &str = "/kubernetes.io~empty-dir/";

impl StateDirectory {
    /// Creates the directory if it does not exist, and locks it.
    ///
    /// # Errors
    ///
    /// Returns an error if the directory cannot be created or written, another user owns it or can write to it, its
    /// path is a link of another user, or another gcwatch instance uses it.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        match DirBuilder::new().recursive(true).mode(0o700).create(path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        is_own(path)?;
        let lock = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(SAFE_OPEN_FLAGS)
            .open(path.join(LOCK))?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self {
                _lock: lock,
                goes_with_pod: fs::read_to_string("/proc/self/mountinfo")
                    .is_ok_and(|mounts| is_empty_dir(&mounts, &path.canonicalize().unwrap_or_default())),
            }),
            Err(rustix::io::Errno::WOULDBLOCK) => Err(io::Error::other("another gcwatch instance uses it")),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns whether the directory is a volume that is deleted with the pod (an `emptyDir`). In that case, a clean
    /// exit is the end of the pod, and the next daemon finds no state.
    pub(crate) fn goes_with_pod(&self) -> bool {
        self.goes_with_pod
    }
}

/// Returns the id of the current boot of the machine, or `None` if it is unknown.
pub(super) fn boot_id() -> Option<String> {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(id.trim().to_owned())
}

/// Checks that no other user can write to the directory or owns it. A mount at exactly this path passes the check,
/// because the orchestrator chooses the owner of a container's volume, often with mode 0777. A link of another user is
/// refused in any case.
fn is_own(path: &Path) -> io::Result<()> {
    let (link, there) = (fs::symlink_metadata(path)?, fs::metadata(path)?);
    let own = geteuid().as_raw();
    if link.is_symlink() && link.uid() != own && link.uid() != 0 {
        let problem = format!("it is a link of uid {}, not of gcwatch's uid {own}", link.uid());
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, problem));
    }
    let parent = fs::metadata(path.canonicalize()?.join(".."))?;
    let problem = if parent.dev() != there.dev() {
        return Ok(());
    } else if there.uid() != own && there.uid() != 0 {
        format!("it belongs to uid {}, not to gcwatch's uid {own}", there.uid())
    } else if there.mode() & 0o022 != 0 {
        format!("other users can write to it (mode {:04o})", there.mode() & 0o7777)
    } else {
        return Ok(());
    };
    Err(io::Error::new(io::ErrorKind::PermissionDenied, problem))
}

/// Returns whether the mount of a path is an `emptyDir`, according to the root of the mount (proc_pid_mountinfo(5),
/// field 4; the mount point is field 5).
fn is_empty_dir(mounts: &str, path: &Path) -> bool {
    let mounts = mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ').skip(3);
        Some((fields.next()?, fields.next()?))
    });
    let of_path = mounts.filter(|(_, point)| path.starts_with(point));
    let innermost = of_path.max_by_key(|(_, point)| point.len());
    innermost.is_some_and(|(root, _)| root.contains(EMPTY_DIR))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// Scenario: two daemons use the same directory, one after the other and at the same time; another directory cannot
    /// be created.
    /// Guarantee: one daemon at a time holds the directory; only the user of the daemon can read the directory.
    #[test]
    fn directory_is_held_by_one_daemon_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state");
        let first = StateDirectory::open(&path).unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o700);
        let error = StateDirectory::open(&path).unwrap_err();
        assert_eq!(error.to_string(), "another gcwatch instance uses it");
        drop(first);
        StateDirectory::open(&path).unwrap();
        assert!(StateDirectory::open(&path.join("lock/below")).is_err());
    }

    /// Scenario: the directory exists, and all users can write to it.
    /// Guarantee: the directory is refused with the reason, and no file is created in it.
    #[test]
    fn world_writable_directory_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state");
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
        let error = StateDirectory::open(&path).unwrap_err();
        assert_eq!(error.to_string(), "other users can write to it (mode 0777)");
        assert_eq!(fs::read_dir(&path).unwrap().count(), 0);
    }

    /// Scenario: the directory is a link of the daemon's user, and a link of another user.
    /// Guarantee: the first link is followed; the second is refused with the reason, and no file is created in its
    /// target.
    #[test]
    fn links_of_others_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (own, foreign) = (folder.path().join("own"), folder.path().join("foreign"));
        for link in [&own, &foreign] {
            let to = link.with_extension("to");
            DirBuilder::new().mode(0o700).create(&to).unwrap();
            std::os::unix::fs::symlink(&to, link).unwrap();
        }
        StateDirectory::open(&own).unwrap();
        if std::os::unix::fs::lchown(&foreign, Some(65_534), None).is_err() {
            // Only root can give files to another user.
            return;
        }
        let error = StateDirectory::open(&foreign).unwrap_err().to_string();
        assert!(error.starts_with("it is a link of uid 65534"), "{error}");
        assert_eq!(fs::read_dir(foreign.with_extension("to")).unwrap().count(), 0);
    }

    /// Scenario: the state of one pod is in an `emptyDir`, the state of another pod is on the node; a third daemon runs
    /// on a host.
    /// Guarantee: only the state in the `emptyDir` goes with its pod.
    #[test]
    fn empty_dir_goes_with_its_pod() {
        let root = "1 0 0:1 / / rw - overlay overlay rw\n";
        let pod =
            "2 1 8:1 /var/lib/kubelet/pods/0a/volumes/kubernetes.io~empty-dir/state /var/lib/gcwatch rw - ext4 a rw\n";
        let node = "2 1 8:1 /var/lib/gcwatch /var/lib/gcwatch rw - ext4 a rw\n";
        let is = |mounts: &str| is_empty_dir(mounts, Path::new("/var/lib/gcwatch"));
        assert!(is(&format!("{root}{pod}")) && is(&format!("{pod}{root}")));
        assert!(!is(&format!("{root}{node}")) && !is(root) && !is(""));
    }
}
