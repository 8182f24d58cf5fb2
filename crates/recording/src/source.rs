//! Reads the bytes of a recording from a file or standard input: uncompressed, gzip or zip.

use std::fs::File;
use std::io::{self, BufReader, Cursor, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use flate2::read::{DeflateDecoder, MultiGzDecoder};
use zip::result::ZipError;
use zip::{CompressionMethod, ZipArchive};

/// Size of a read, in bytes: large enough to amortize the call, small enough for the CPU cache.
const READ_BYTES: usize = 256 * 1024;

/// Maximum size of an archive on standard input. The archive is kept in memory, because its directory is at its end.
const MAX_PIPED_ARCHIVE_BYTES: u64 = 256 << 20;

const ZIP_MAGIC: &[u8] = b"PK\x03\x04";
const GZIP_MAGIC: &[u8] = &[0x1f, 0x8b];

/// Error returned if a recording cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// The file cannot be opened.
    #[error("cannot open {path}: {source}; pass a .nettrace file (or .nettrace.gz, .zip), or - for standard input")]
    Open {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The path is a directory.
    #[error("{path} is a directory; pass the path of a recording in it")]
    Directory {
        /// Path of the directory.
        path: PathBuf,
    },
    /// The file has no bytes.
    #[error("{name} is empty and contains no stream; record one with `gcwatch record --pid PID -o FILE`")]
    Empty {
        /// Name of the source.
        name: String,
    },
    /// The zip archive does not contain exactly one recording, its directory cannot be read, or its compression is not
    /// supported.
    #[error("{name} is a zip archive with {found}; unpack it and pass the path of one recording")]
    Archive {
        /// Name of the source.
        name: String,
        /// Description of the content of the archive.
        found: String,
    },
    /// A read failed.
    #[error("cannot read {name} after {offset} bytes of the stream: {source}")]
    Read {
        /// Name of the source.
        name: String,
        /// Number of bytes of the stream that were read before the error.
        offset: u64,
        /// Error of the system or of the decompression.
        source: io::Error,
    },
}

/// An open recording. Reads return the bytes that the runtime wrote, also if the file is compressed.
pub struct Source {
    name: String,
    reader: Box<dyn Read + Send>,
    offset: u64,
    /// Error of the decompression if the compressed data was truncated; `None` otherwise. The data that was
    /// decompressed before the error is valid.
    cut: Option<String>,
}

impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Source")
            .field("name", &self.name)
            .field("offset", &self.offset)
            .finish_non_exhaustive()
    }
}

impl Source {
    /// Opens a file, or standard input for `-`. The format is detected by the first bytes, not by the name.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be opened or read, is a directory or empty, or is an archive without exactly
    /// one recording in a supported compression.
    pub fn open(path: &Path) -> Result<Self, SourceError> {
        if path == Path::new("-") {
            return Self::from_reader("standard input".to_owned(), Box::new(io::stdin()));
        }
        let open_error = |source| SourceError::Open {
            path: path.to_owned(),
            source,
        };
        let mut file = File::open(path).map_err(open_error)?;
        if file.metadata().map_err(open_error)?.is_dir() {
            return Err(SourceError::Directory { path: path.to_owned() });
        }
        let name = path.display().to_string();
        let mut start = Vec::new();
        file.by_ref()
            .take(ZIP_MAGIC.len() as u64)
            .read_to_end(&mut start)
            .map_err(open_error)?;
        if start == ZIP_MAGIC {
            let reader = unzip(&name, file)?;
            return Ok(Self {
                name,
                reader,
                offset: 0,
                cut: None,
            });
        }
        Self::from_reader(name, Box::new(Cursor::new(start).chain(file)))
    }

    /// Creates a source from any reader. `name` is its name in messages.
    ///
    /// # Errors
    ///
    /// See [`Source::open`].
    pub fn from_reader(name: String, mut reader: Box<dyn Read + Send>) -> Result<Self, SourceError> {
        let mut start = Vec::new();
        let read_error = |name: &str, source| SourceError::Read {
            name: name.to_owned(),
            offset: 0,
            source,
        };
        let first = reader.by_ref().take(ZIP_MAGIC.len() as u64).read_to_end(&mut start);
        first.map_err(|source| read_error(&name, source))?;
        if start.is_empty() {
            return Err(SourceError::Empty { name });
        }
        let (gzip, zip) = (start.starts_with(GZIP_MAGIC), start.starts_with(ZIP_MAGIC));
        let whole = Cursor::new(start).chain(reader);
        let reader: Box<dyn Read + Send> = if gzip {
            Box::new(MultiGzDecoder::new(BufReader::with_capacity(READ_BYTES, whole)))
        } else if zip {
            let mut packed = Vec::new();
            let taken = whole.take(MAX_PIPED_ARCHIVE_BYTES).read_to_end(&mut packed);
            taken.map_err(|source| read_error(&name, source))?;
            unzip(&name, Cursor::new(packed))?
        } else {
            Box::new(whole)
        };
        Ok(Self {
            name,
            reader,
            offset: 0,
            cut: None,
        })
    }

    /// Returns the name for messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the recommended buffer size for [`Source::read`], in bytes.
    pub fn read_size(&self) -> usize {
        READ_BYTES
    }

    /// Reads the next bytes into `into`. Returns their number, or 0 at the end. A truncated compressed file ends at the
    /// truncation, and [`Source::cut`] returns the reason.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be read or decompressed, or if the decompressed stream is empty.
    pub fn read(&mut self, into: &mut [u8]) -> Result<usize, SourceError> {
        loop {
            match self.reader.read(into) {
                Ok(n) => {
                    self.offset += n as u64;
                    if n == 0 && self.offset == 0 && self.cut.is_none() {
                        return Err(SourceError::Empty {
                            name: self.name.clone(),
                        });
                    }
                    return Ok(n);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    self.cut = Some(error.to_string());
                    return Ok(0);
                }
                Err(source) => {
                    return Err(SourceError::Read {
                        name: self.name.clone(),
                        offset: self.offset,
                        source,
                    });
                }
            }
        }
    }

    /// Returns the error of a decompression that ended early, or `None` if the data was not truncated.
    pub fn cut(&self) -> Option<&str> {
        self.cut.as_deref()
    }
}

/// Opens the recording in an archive. The recording is decompressed while it is read, because a small archive can
/// contain a stream of any length.
fn unzip<R: Read + Seek + Send + 'static>(name: &str, packed: R) -> Result<Box<dyn Read + Send>, SourceError> {
    let archive = |found: String| SourceError::Archive {
        name: name.to_owned(),
        found,
    };
    let broken = |error: ZipError| archive(format!("a directory that cannot be read ({error})"));
    let mut entries = ZipArchive::new(packed).map_err(broken)?;
    let names = entries.file_names().collect::<Result<Vec<_>, _>>().map_err(broken)?;
    let names: Vec<String> = names
        .into_iter()
        .map(|entry| entry.into_owned())
        .filter(|entry| !entry.ends_with('/'))
        .collect();
    let recordings: Vec<&String> = names.iter().filter(|entry| entry.ends_with(".nettrace")).collect();
    let chosen = match (recordings.as_slice(), names.as_slice()) {
        ([one], _) => String::clone(one),
        ([], [one]) => one.clone(),
        ([], []) => return Err(archive("no files".to_owned())),
        ([], _) => return Err(archive(format!("{} files, none of them a .nettrace", names.len()))),
        (several, _) => return Err(archive(format!("{} recordings", several.len()))),
    };
    let entry = entries.by_name(&chosen).map_err(broken)?;
    let (method, length, start) = (entry.compression(), entry.compressed_size(), entry.data_start());
    drop(entry);
    let Some(start) = start else {
        return Err(archive("an entry without an offset".to_owned()));
    };
    let mut packed = entries.into_inner();
    let seek = packed.seek(SeekFrom::Start(start));
    seek.map_err(|source| SourceError::Read {
        name: name.to_owned(),
        offset: 0,
        source,
    })?;
    let entry = packed.take(length);
    match method {
        CompressionMethod::Stored => Ok(Box::new(entry)),
        CompressionMethod::Deflated => Ok(Box::new(DeflateDecoder::new(BufReader::with_capacity(
            READ_BYTES, entry,
        )))),
        other => Err(archive(format!(
            "a recording compressed by {other}, which is not supported"
        ))),
    }
}
