//! Files that gcwatch writes for its user alone: beside their place, then renamed.
//!
//! Whoever reads the place has the old file or the whole new one. What is there under the name is never opened, so that
//! a link leads nowhere, and its mode and owner do not matter.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, OFlags, RenameFlags, renameat_with};
use rustix::io::Errno;

/// No link is followed out of a directory, and nothing waits for the other end of a FIFO.
pub const NO_SURPRISE: i32 = OFlags::NOFOLLOW.union(OFlags::NONBLOCK).bits() as i32;

/// The first bytes of a file, at most so many; `None`: it is not there.
///
/// # Errors
///
/// When it cannot be read, or is a link.
pub fn read(path: &Path, most: u64) -> io::Result<Option<Vec<u8>>> {
    let file = match OpenOptions::new().read(true).custom_flags(NO_SURPRISE).open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}

/// Writes a file as a whole, in the place of one that is there: a kill leaves the old one or the new one.
///
/// # Errors
///
/// As [`Beside::new`] and [`Beside::complete`].
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = Beside::new(path, true)?;
    file.write_all(bytes)?;
    file.complete()
}

/// A file that is being written, of mode 0600. It gets its name by [`Beside::complete`]; else nothing is left of it.
#[derive(Debug)]
pub struct Beside {
    file: File,
    path: PathBuf,
    to: PathBuf,
    replace: bool,
    is_complete: bool,
}

impl Beside {
    /// Makes a hidden file beside `to`; what an earlier one left there is removed. With `replace` the new file takes
    /// the place of a file or a link that is there.
    ///
    /// # Errors
    ///
    /// When it cannot be made, when `to` is there and may not be replaced, or is no file ([`io::ErrorKind::AlreadyExists`]
    /// and [`io::ErrorKind::InvalidInput`]).
    pub fn new(to: &Path, replace: bool) -> io::Result<Self> {
        match fs::symlink_metadata(to) {
            Ok(_) if !replace => return Err(io::ErrorKind::AlreadyExists.into()),
            Ok(there) if !there.is_file() && !there.is_symlink() => {
                return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"));
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
        // With `create_new` nothing is followed or opened that is there already.
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

    /// All is written: it is on the disk, and gets its name.
    ///
    /// # Errors
    ///
    /// When it cannot be; nothing is left of it.
    pub fn complete(mut self) -> io::Result<()> {
        self.file.sync_all()?;
        if !self.is_there() {
            return Err(io::Error::other("somebody else writes this file, too"));
        }
        rename(&self.path, &self.to, self.replace)?;
        self.is_complete = true;
        match self.to.parent().filter(|directory| !directory.as_os_str().is_empty()) {
            Some(directory) => File::open(directory)?.sync_all(),
            None => Ok(()),
        }
    }

    /// The file at its path is this one.
    fn is_there(&self) -> bool {
        let there = fs::symlink_metadata(&self.path).map(|there| (there.dev(), there.ino()));
        let own = self.file.metadata().map(|own| (own.dev(), own.ino()));
        there.is_ok_and(|there| own.is_ok_and(|own| own == there))
    }
}

impl Write for Beside {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        if !self.is_complete && self.is_there() {
            // Of a disk that is full, it takes nothing more.
            let _gone_already = fs::remove_file(&self.path);
        }
    }
}

/// Gives a file its name; without `replace` only where nothing has it.
///
/// # Errors
///
/// When that is not possible.
pub fn rename(from: &Path, to: &Path, replace: bool) -> io::Result<()> {
    if replace {
        return fs::rename(from, to);
    }
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // A file system without it: a second name fails where there is one, too.
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

    /// Scenario: the place is a link to a file of somebody else, a file with mode 0666, a directory; a writer before was
    /// killed, and one gives up.
    /// Guarantee: nothing is written through the link or into the file; both are replaced by one of mode 0600, but only
    /// where that was asked for; nothing else is left.
    #[test]
    fn nothing_is_written_through_what_is_there() {
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
                let error = Beside::new(&at(name), false).unwrap_err();
                assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
            }
            let mut file = Beside::new(&at(name), true).unwrap();
            file.write_all(b"new").unwrap();
            file.complete().unwrap();
            let there = fs::symlink_metadata(at(name)).unwrap();
            assert!(there.is_file() && there.permissions().mode() & 0o777 == 0o600, "{name}");
            assert_eq!(fs::read_to_string(at(name)).unwrap(), "new");
        }
        assert_eq!(fs::read_to_string(at("foreign")).unwrap(), "mine");
        assert!(Beside::new(&at("directory"), true).is_err());
        drop(Beside::new(&at("given-up"), false).unwrap());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 5);
    }

    /// Scenario: a file comes to its place while the new one is written.
    /// Guarantee: it is not replaced.
    #[test]
    fn what_came_meanwhile_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let to = folder.path().join("out");
        let file = Beside::new(&to, false).unwrap();
        fs::write(&to, "mine").unwrap();
        file.complete().unwrap_err();
        assert_eq!(fs::read_to_string(&to).unwrap(), "mine");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
