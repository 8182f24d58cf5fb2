//! The folder of files that wait for the store. A file is named `NUMBER~KEY`, with `~` for each `/` of the key.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use base::directory::create_private;

use super::queue::Entry;

const FOLDER: &str = "outgoing";
/// End of the name of a file that is being written.
const PARTIAL: &str = ".partial";
/// Separates number and parts of the key. No key contains this character.
const SEPARATOR: char = '~';
/// Maximum length of a key. The name of a file has at most 255 bytes.
const MAX_KEY: usize = 220;

/// The folder. Every method blocks.
#[derive(Debug, Clone)]
pub(super) struct Outgoing {
    folder: PathBuf,
}

impl Outgoing {
    /// Returns the path of the folder in the state directory.
    pub(super) fn folder(state: &Path) -> PathBuf {
        state.join(FOLDER)
    }

    /// Creates the folder if it does not exist, and returns it with the files that wait, in order. Deletes files that
    /// were not completed.
    ///
    /// # Errors
    ///
    /// Returns an error if the folder cannot be used.
    pub(super) fn open(state: &Path) -> io::Result<(Self, Vec<Entry>)> {
        let folder = Self::folder(state);
        create_private(&folder)?;
        let mut waiting = Vec::new();
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            let name = entry.file_name();
            let Some(name) = name.to_str() else { continue };
            if name.ends_with(PARTIAL) {
                fs::remove_file(entry.path())?;
                continue;
            }
            let metadata = entry.metadata()?;
            if let Some((number, key)) = parts(name).filter(|_| metadata.is_file()) {
                waiting.push(Entry {
                    number,
                    key,
                    bytes: metadata.len(),
                });
            }
        }
        waiting.sort_by_key(|entry| entry.number);
        Ok((Self { folder }, waiting))
    }

    /// Adds a file by a second link, so that the file remains when the first link is deleted.
    ///
    /// # Errors
    ///
    /// Returns an error if the key is not valid, the file does not exist, or the link cannot be made.
    pub(super) fn link(&self, number: u64, key: &str, file: &Path) -> io::Result<Entry> {
        let path = self.path(number, key)?;
        fs::hard_link(file, &path)?;
        self.completed(number, key, &path)
    }

    /// Adds a file with these bytes.
    ///
    /// # Errors
    ///
    /// Returns an error if the key is not valid, or the file cannot be written.
    pub(super) fn write(&self, number: u64, key: &str, bytes: &[u8]) -> io::Result<Entry> {
        let path = self.path(number, key)?;
        let partial = self.folder.join(format!("{number:016x}{PARTIAL}"));
        let written = (|| {
            let mut options = OpenOptions::new();
            let mut file = options.write(true).create_new(true).mode(0o600).open(&partial)?;
            file.write_all(bytes)?;
            file.sync_all()?;
            fs::rename(&partial, &path)
        })();
        if written.is_err() {
            let _nothing_there = fs::remove_file(&partial);
        }
        written?;
        self.completed(number, key, &path)
    }

    fn completed(&self, number: u64, key: &str, path: &Path) -> io::Result<Entry> {
        File::open(&self.folder)?.sync_all()?;
        Ok(Entry {
            number,
            key: key.to_owned(),
            bytes: fs::metadata(path)?.len(),
        })
    }

    /// Opens the file of an entry, or returns `None` if it does not exist.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be opened.
    pub(super) fn read(&self, entry: &Entry) -> io::Result<Option<File>> {
        match File::open(self.path(entry.number, &entry.key)?) {
            Ok(file) => Ok(Some(file)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Deletes the file of an entry, if it exists.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be deleted.
    pub(super) fn remove(&self, entry: &Entry) -> io::Result<()> {
        match fs::remove_file(self.path(entry.number, &entry.key)?) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    fn path(&self, number: u64, key: &str) -> io::Result<PathBuf> {
        if !is_key(key) {
            return Err(io::Error::other("its key is not valid"));
        }
        let name = key.replace('/', &SEPARATOR.to_string());
        Ok(self.folder.join(format!("{number:016x}{SEPARATOR}{name}")))
    }
}

/// Returns the number and the key in the name of a file, or `None` if the file does not belong to the queue.
fn parts(name: &str) -> Option<(u64, String)> {
    let (number, key) = name.split_once(SEPARATOR)?;
    let key = key.replace(SEPARATOR, "/");
    let number = u64::from_str_radix(number, 16).ok()?;
    is_key(&key).then_some((number, key))
}

/// Returns whether a key is short enough and consists of valid names, separated by `/`.
fn is_key(key: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let is_name = |part: &str| !part.is_empty() && !part.starts_with('.') && part.bytes().all(is_plain);
    key.len() <= MAX_KEY && !key.ends_with(PARTIAL) && key.split('/').all(is_name)
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// Scenario: bytes and a link to a file are added; the linked file is deleted; the folder also has an incomplete
    /// file and a foreign file; the folder is opened again.
    /// Guarantee: both files are listed in order, the linked file keeps its content, and only the user can read the
    /// folder and the written file. The incomplete file is deleted; the foreign file is kept and not listed.
    #[test]
    fn files_wait_for_next_instance() {
        let state = tempfile::tempdir().unwrap();
        let (outgoing, waiting) = Outgoing::open(state.path()).unwrap();
        assert!(waiting.is_empty());
        let source = state.path().join("a.nettrace");
        fs::write(&source, "recording").unwrap();
        let second = outgoing.write(17, "0f/incident.json", b"{}").unwrap();
        let first = outgoing.link(2, "a.nettrace", &source).unwrap();
        fs::remove_file(&source).unwrap();
        let folder = Outgoing::folder(state.path());
        fs::write(folder.join("00~x.partial"), "cut").unwrap();
        fs::write(folder.join("notes.txt"), "mine").unwrap();
        let (outgoing, waiting) = Outgoing::open(state.path()).unwrap();
        assert_eq!(waiting, [first.clone(), second.clone()]);
        let mut text = String::new();
        outgoing
            .read(&first)
            .unwrap()
            .unwrap()
            .read_to_string(&mut text)
            .unwrap();
        assert_eq!((text.as_str(), first.bytes), ("recording", 9));
        let mode = |name: &Path| fs::metadata(name).unwrap().permissions().mode() & 0o7777;
        let written = folder.join("0000000000000011~0f~incident.json");
        assert_eq!((mode(&folder), mode(&written)), (0o700, 0o600));
        assert!(folder.join("notes.txt").exists() && !folder.join("00~x.partial").exists());
        outgoing.remove(&first).unwrap();
        outgoing.remove(&first).unwrap();
        assert!(outgoing.read(&first).unwrap().is_none());
    }

    /// Scenario: keys would leave the folder, are empty or too long, or have invalid characters.
    /// Guarantee: no file is written.
    #[test]
    fn foreign_keys_are_refused() {
        let state = tempfile::tempdir().unwrap();
        let (outgoing, _) = Outgoing::open(state.path()).unwrap();
        let long = "x".repeat(MAX_KEY + 1);
        for key in [
            "",
            "/a",
            "a/",
            "../a",
            "a/../b",
            "a~b",
            "é",
            "a b",
            "a.partial",
            ".a",
            &long,
        ] {
            assert!(outgoing.write(1, key, b"").is_err(), "{key}");
        }
        assert_eq!(fs::read_dir(Outgoing::folder(state.path())).unwrap().count(), 0);
        assert_eq!(parts("0000000000000001~a~b.json"), Some((1, "a/b.json".to_owned())));
        assert_eq!(parts("x~a"), None);
    }
}
