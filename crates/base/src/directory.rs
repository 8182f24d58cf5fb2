//! Directories that only the current user can read.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

/// Creates a directory with mode 0700, and its parents, if the directory does not exist. A symbolic link is refused,
/// because its target can belong to another user.
///
/// # Errors
///
/// Returns an error if the directory cannot be created, or the path is a file or a symbolic link.
pub fn create_private(directory: &Path) -> io::Result<()> {
    match DirBuilder::new().recursive(true).mode(0o700).create(directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    if fs::symlink_metadata(directory)?.is_dir() {
        Ok(())
    } else {
        Err(io::Error::new(
            io::ErrorKind::NotADirectory,
            "it is not a directory, or is a link to a directory",
        ))
    }
}
