//! The files of one log: what the log needs of a disk, so that a test can tear, reorder and drop what is written.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::PathBuf;

use base::directory::create_private;

/// One flat folder of files.
pub(crate) trait Disk: fmt::Debug {
    /// The files with their lengths.
    fn list(&self) -> io::Result<Vec<(String, u64)>>;

    /// Writes at an offset; the file is made when it is missing.
    fn write_at(&mut self, name: &str, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Reads exactly as much.
    fn read_at(&mut self, name: &str, offset: u64, into: &mut [u8]) -> io::Result<()>;

    /// What was written to the file is on the disk; where it is new, its name is, too.
    fn sync(&mut self, name: &str, new: bool) -> io::Result<()>;

    /// Cuts the file.
    fn cut(&mut self, name: &str, len: u64) -> io::Result<()>;

    /// Removes the file.
    fn remove(&mut self, name: &str) -> io::Result<()>;
}

/// A directory of the file system. Files that were used last stay open.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    /// The one that is written, the one that is read, the position.
    open: Vec<(String, File)>,
}

/// Most files that stay open.
const MOST_OPEN: usize = 3;

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
                // Somebody removed the folder.
                Err(error) if create && error.kind() == io::ErrorKind::NotFound => {
                    create_private(&self.path)?;
                    options.open(&path)?
                }
                opened => opened?,
            };
            if self.open.len() >= MOST_OPEN {
                self.open.remove(0);
            }
            self.open.push((name.to_owned(), file));
        }
        let last = self.open.last().map(|(_, file)| file);
        last.ok_or_else(|| io::Error::other("no file is open"))
    }
}

/// `O_NOFOLLOW`: a link is not followed out of the folder.
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
