//! The directory of what outlives the daemon: made, private, and locked, so that two daemons do not share it.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

use rustix::fs::{FlockOperation, flock};

/// The file that is locked.
const LOCK: &str = "lock";

/// A directory that no other daemon uses as long as this lives.
#[derive(Debug)]
pub(crate) struct StateDirectory {
    _lock: File,
}

impl StateDirectory {
    /// Makes the directory when it is missing, and locks it.
    ///
    /// # Errors
    ///
    /// When it cannot be made or written, or another gcwatch uses it.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        match DirBuilder::new().recursive(true).mode(0o700).create(path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let lock = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path.join(LOCK))?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self { _lock: lock }),
            Err(rustix::io::Errno::WOULDBLOCK) => Err(io::Error::other("another gcwatch uses it")),
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// Scenario: two daemons with the same directory, one after the other and at the same time; a directory that cannot
    /// be made.
    /// Guarantee: one at a time has it; it is readable by its user only.
    #[test]
    fn one_daemon_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state");
        let first = StateDirectory::open(&path).unwrap();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o700);
        let error = StateDirectory::open(&path).unwrap_err();
        assert_eq!(error.to_string(), "another gcwatch uses it");
        drop(first);
        StateDirectory::open(&path).unwrap();
        assert!(StateDirectory::open(&path.join("lock/below")).is_err());
    }
}
