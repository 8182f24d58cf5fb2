//! The files of one log. The trait contains the disk operations that a log needs, so that a test can tear, reorder and
//! drop writes.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::PathBuf;

use base::directory::create_private;

/// A flat folder of files.
pub(crate) trait Disk: fmt::Debug {
    /// Returns the files with their lengths.
    fn list(&self) -> io::Result<Vec<(String, u64)>>;

    /// Writes at an offset. Creates the file if it does not exist.
    fn write_at(&mut self, name: &str, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Fills the buffer from an offset.
    fn read_at(&mut self, name: &str, offset: u64, into: &mut [u8]) -> io::Result<()>;

    /// Ensures that the content of a file is on the disk, and its name, too, if the file is new.
    fn sync(&mut self, name: &str, new: bool) -> io::Result<()>;

    /// Truncates a file.
    fn cut(&mut self, name: &str, len: u64) -> io::Result<()>;

    /// Removes a file.
    fn remove(&mut self, name: &str) -> io::Result<()>;
}

/// A directory in the file system. Recently used files stay open.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    /// The open files, at most [`MAX_OPEN`]: usually the file being written, the file being read, and the position. The
    /// most recently used file is last.
    open: Vec<(String, File)>,
}

/// Maximum number of files that stay open.
const MAX_OPEN: usize = 3;

impl Folder {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path, open: Vec::new() }
    }

    fn file(&mut self, name: &str, create: bool) -> io::Result<&File> {
        if let Some(place) = self.open.iter().position(|(open, _)| open == name) {
            let found = self.open.remove(place);
            self.open.push(found);
        } else {
            let mut options = OpenOptions::new();
            options.read(true).write(true).create(create).truncate(false);
            options.mode(0o600).custom_flags(NO_FOLLOW);
            let path = self.path.join(name);
            let file = match options.open(&path) {
                // Another process has removed the folder.
                Err(error) if create && error.kind() == io::ErrorKind::NotFound => {
                    create_private(&self.path)?;
                    options.open(&path)?
                }
                opened => opened?,
            };
            if self.open.len() >= MAX_OPEN {
                self.open.remove(0);
            }
            self.open.push((name.to_owned(), file));
        }
        let last = self.open.last().map(|(_, file)| file);
        last.ok_or_else(|| io::Error::other("no file is open"))
    }
}

/// `O_NOFOLLOW`: do not follow links.
const NO_FOLLOW: i32 = rustix::fs::OFlags::NOFOLLOW.bits() as i32;

impl Disk for Folder {
    fn list(&self) -> io::Result<Vec<(String, u64)>> {
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            let meta = entry.metadata()?;
            if let (true, Ok(name)) = (meta.is_file(), entry.file_name().into_string()) {
                files.push((name, meta.len()));
            }
        }
        Ok(files)
    }

    fn write_at(&mut self, name: &str, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.file(name, true)?.write_all_at(bytes, offset)
    }

    fn read_at(&mut self, name: &str, offset: u64, into: &mut [u8]) -> io::Result<()> {
        self.file(name, false)?.read_exact_at(into, offset)
    }

    fn sync(&mut self, name: &str, new: bool) -> io::Result<()> {
        self.file(name, false)?.sync_data()?;
        if new {
            File::open(&self.path)?.sync_all()?;
        }
        Ok(())
    }

    fn cut(&mut self, name: &str, len: u64) -> io::Result<()> {
        self.file(name, false)?.set_len(len)
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        self.open.retain(|(open, _)| open != name);
        fs::remove_file(self.path.join(name))
    }
}
