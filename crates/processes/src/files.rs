//! Files that only the user of gcwatch can read: they are written under a hidden name and then renamed.
//!
//! A reader sees either the old file or the complete new file. An existing file with the same name is never opened, so
//! links are not followed, and its mode and owner do not matter.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, OFlags, RenameFlags, renameat_with};
use rustix::io::Errno;

/// Flags for opening files: no link is followed, and opening a FIFO does not wait for its other end.
pub const SAFE_OPEN_FLAGS: i32 = OFlags::NOFOLLOW.union(OFlags::NONBLOCK).bits() as i32;

/// Reads at most `most` bytes from the start of a file, or returns `None` if the file does not exist.
///
/// # Errors
///
/// Returns an error if the file cannot be read, or is a link.
pub fn read(path: &Path, most: u64) -> io::Result<Option<Vec<u8>>> {
    let file = match OpenOptions::new().read(true).custom_flags(SAFE_OPEN_FLAGS).open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}

/// Writes a whole file and replaces an existing file. If the process is killed, either the old or the new file exists.
///
/// # Errors
///
/// See [`AtomicFile::new`] and [`AtomicFile::complete`].
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = AtomicFile::new(path, true)?;
    file.write_all(bytes)?;
    file.complete()
}

/// A file that is being written, with mode 0600. [`AtomicFile::complete`] gives the file its name. A file that is
/// dropped earlier is deleted.
#[derive(Debug)]
pub struct AtomicFile {
    file: File,
    path: PathBuf,
    to: PathBuf,
    replace: bool,
    is_complete: bool,
}

impl AtomicFile {
    /// Creates a hidden file in the folder of `to`, and removes the hidden file that an earlier writer left. With
    /// `replace`, the new file replaces an existing file or link.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be created, `to` exists and must not be replaced, or `to` is not a file
    /// ([`io::ErrorKind::AlreadyExists`] and [`io::ErrorKind::InvalidInput`]).
    pub fn new(to: &Path, replace: bool) -> io::Result<Self> {
        match fs::symlink_metadata(to) {
            Ok(_) if !replace => return Err(io::ErrorKind::AlreadyExists.into()),
            Ok(there) if !there.is_file() && !there.is_symlink() => {
                return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
            }
            _ => {}
        }
        let name = to.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let mut hidden = OsString::from(".");
        hidden.push(name);
        hidden.push(".new");
        let path = to.with_file_name(hidden);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        // `create_new` never follows or opens an existing file.
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)?;
        Ok(Self {
            file,
            path,
            to: to.to_owned(),
            replace,
            is_complete: false,
        })
    }

    /// Flushes the file to disk and gives it its name.
    ///
    /// # Errors
    ///
    /// Returns an error if an I/O error occurred; the file is deleted.
    pub fn complete(mut self) -> io::Result<()> {
        self.file.sync_all()?;
        if !self.is_there() {
            return Err(io::Error::other("another process writes this file at the same time"));
        }
        rename(&self.path, &self.to, self.replace)?;
        self.is_complete = true;
        match self.to.parent().filter(|directory| !directory.as_os_str().is_empty()) {
            Some(directory) => File::open(directory)?.sync_all(),
            None => Ok(()),
        }
    }

    /// Returns whether the hidden path still refers to this file.
    fn is_there(&self) -> bool {
        let there = fs::symlink_metadata(&self.path).map(|there| (there.dev(), there.ino()));
        let own = self.file.metadata().map(|own| (own.dev(), own.ino()));
        there.is_ok_and(|there| own.is_ok_and(|own| own == there))
    }
}

impl Write for AtomicFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for AtomicFile {
    fn drop(&mut self) {
        if !self.is_complete && self.is_there() {
            // An incomplete file must not use space, for example on a full disk.
            let _gone_already = fs::remove_file(&self.path);
        }
    }
}

/// Renames a file. Without `replace`, an existing file is not replaced.
///
/// # Errors
///
/// Returns an error if the file cannot be renamed.
pub fn rename(from: &Path, to: &Path, replace: bool) -> io::Result<()> {
    if replace {
        return fs::rename(from, to);
    }
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // The file system does not support the flag. Creating a hard link also fails if the name exists.
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
            fs::hard_link(from, to)?;
            fs::remove_file(from)
        }
        result => Ok(result?),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    /// Scenario: the path is a link to a file of another user, a file with mode 0666, or a directory; an earlier writer
    /// was killed, and another process gives up.
    /// Guarantee: no data is written through the link or into the file; both are replaced by a file of mode 0600, but
    /// only on request; no other file is left.
    #[test]
    fn existing_files_and_links_are_not_written_through() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("foreign"), "mine").unwrap();
        symlink(at("foreign"), at("link")).unwrap();
        fs::write(at("open"), "old").unwrap();
        fs::set_permissions(at("open"), fs::Permissions::from_mode(0o666)).unwrap();
        fs::create_dir(at("directory")).unwrap();
        fs::write(at(".link.new"), "left over").unwrap();
        for name in ["link", "open", "none"] {
            if name != "none" {
                let error = AtomicFile::new(&at(name), false).unwrap_err();
                assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
            }
            let mut file = AtomicFile::new(&at(name), true).unwrap();
            file.write_all(b"new").unwrap();
            file.complete().unwrap();
            let there = fs::symlink_metadata(at(name)).unwrap();
            assert!(there.is_file() && there.permissions().mode() & 0o777 == 0o600, "{name}");
            assert_eq!(fs::read_to_string(at(name)).unwrap(), "new");
        }
        assert_eq!(fs::read_to_string(at("foreign")).unwrap(), "mine");
        assert!(AtomicFile::new(&at("directory"), true).is_err());
        drop(AtomicFile::new(&at("given-up"), false).unwrap());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 5);
    }

    /// Scenario: another process creates a file at the path while the new file is being written.
    /// Guarantee: the file is not replaced.
    #[test]
    fn file_created_during_write_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let to = folder.path().join("out");
        let file = AtomicFile::new(&to, false).unwrap();
        fs::write(&to, "mine").unwrap();
        file.complete().unwrap_err();
        assert_eq!(fs::read_to_string(&to).unwrap(), "mine");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
