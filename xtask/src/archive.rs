//! Builds reproducible archives: tar, gzip, zip.

use std::collections::BTreeMap;
use std::io::{Cursor, Write as _};

use anyhow::Result;
use flate2::{Compression, GzBuilder};
use sha2::{Digest as _, Sha256};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, ZipWriter};

/// A file of an archive.
#[derive(Debug, Clone)]
pub(crate) struct File {
    pub(crate) bytes: Vec<u8>,
    pub(crate) mode: u32,
}

/// Files by path, and empty folders. [`tar`](Self::tar) adds parent folders.
#[derive(Debug, Clone, Default)]
pub(crate) struct Files {
    files: BTreeMap<String, File>,
    empty: Vec<String>,
}

impl Files {
    /// Adds a file that all users can read.
    pub(crate) fn add(&mut self, path: impl Into<String>, bytes: impl Into<Vec<u8>>) {
        self.add_with(path, bytes, 0o644);
    }

    /// Adds a file with a mode.
    pub(crate) fn add_with(&mut self, path: impl Into<String>, bytes: impl Into<Vec<u8>>, mode: u32) {
        let bytes = bytes.into();
        self.files.insert(path.into(), File { bytes, mode });
    }

    /// Adds an empty folder.
    pub(crate) fn add_folder(&mut self, path: impl Into<String>) {
        self.empty.push(path.into());
    }

    /// Returns the files with their paths, sorted.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &File)> {
        self.files.iter().map(|(path, file)| (path.as_str(), file))
    }

    /// Builds a tar archive in which all paths are below the folder `top`, or at the top level if `top` is empty.
    /// `epoch` is the time of all entries, in Unix seconds.
    pub(crate) fn tar(&self, top: &str, epoch: u64) -> Result<Vec<u8>> {
        let mut entries: BTreeMap<String, Option<&File>> = BTreeMap::new();
        let top = if top.is_empty() {
            String::new()
        } else {
            format!("{top}/")
        };
        for folder in &self.empty {
            entries.insert(format!("{top}{folder}"), None);
        }
        for (path, file) in &self.files {
            entries.insert(format!("{top}{path}"), Some(file));
        }
        for path in entries.keys().cloned().collect::<Vec<_>>() {
            for (at, _) in path.match_indices('/') {
                entries.entry(path[..at].to_owned()).or_insert(None);
            }
        }
        let mut tar = tar::Builder::new(Vec::new());
        for (path, file) in entries {
            let mut header = tar::Header::new_gnu();
            header.set_uid(0);
            header.set_gid(0);
            header.set_username("root")?;
            header.set_groupname("root")?;
            header.set_mtime(epoch);
            let (kind, mode, bytes) = match file {
                Some(file) => (tar::EntryType::Regular, file.mode, file.bytes.as_slice()),
                None => (tar::EntryType::Directory, 0o755, &[][..]),
            };
            header.set_entry_type(kind);
            header.set_mode(mode);
            header.set_size(bytes.len() as u64);
            let name = if file.is_none() { format!("{path}/") } else { path };
            tar.append_data(&mut header, name, bytes)?;
        }
        Ok(tar.into_inner()?)
    }

    /// Builds a zip archive for NuGet, without empty folders. All entries have the earliest date of the format.
    pub(crate) fn zip(&self) -> Result<Vec<u8>> {
        let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
        for (path, file) in &self.files {
            let options = SimpleFileOptions::default()
                .compression_method(CompressionMethod::Deflated)
                .last_modified_time(DateTime::default())
                .unix_permissions(file.mode);
            zip.start_file(path.as_str(), options)?;
            zip.write_all(&file.bytes)?;
        }
        Ok(zip.finish()?.into_inner())
    }
}

/// Compresses with gzip. The header has neither a name nor a time.
pub(crate) fn gzip(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut gzip = GzBuilder::new().mtime(0).write(Vec::new(), Compression::best());
    gzip.write_all(bytes)?;
    Ok(gzip.finish()?)
}

/// Returns the SHA-256 in hexadecimal digits.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
