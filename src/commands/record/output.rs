//! Destination of a recording: a file that gets its name once it is complete, a FIFO, or standard output.
//!
//! A dedicated thread writes, so that a slow disk or reader blocks neither the session nor Ctrl-C.

use std::ffi::OsString;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::Errno;
use tokio::sync::{mpsc, oneshot};

use processes::files;

/// Maximum number of queued pieces, of at most 64 KiB each.
const QUEUE: usize = 16;

/// Interval between attempts to open a FIFO without a reader.
const RETRY_INTERVAL: Duration = Duration::from_millis(50);

/// Destination of the recording.
#[derive(Debug)]
pub(super) struct Output {
    /// Current name of the destination, for messages.
    pub(super) name: String,
    /// The file that is renamed at the end; `None` for a FIFO and for standard output.
    partial: Option<Partial>,
    /// Queue of pieces; `None` after the last piece.
    pieces: Option<mpsc::Sender<Vec<u8>>>,
    /// Result of the writing thread.
    done: oneshot::Receiver<io::Result<()>>,
}

/// An incomplete file.
#[derive(Debug)]
struct Partial {
    path: PathBuf,
    /// Name of the file once it is complete.
    complete: PathBuf,
    replace: bool,
    /// Device and inode number of the file created here.
    made: (u64, u64),
}

impl Output {
    /// Opens the file at `path`; `-` is standard output. Waits for the reader of a FIFO, which requires `allow_fifo`.
    /// An existing file requires `force` and must be a regular file.
    pub(super) async fn open(path: &Path, force: bool, allow_fifo: bool) -> anyhow::Result<Self> {
        if path == Path::new("-") {
            let out = io::stdout().as_fd().try_clone_to_owned();
            let out = out.context("standard output is closed")?;
            return Ok(Self::writing("standard output".to_owned(), File::from(out), None));
        }
        let name = path.display().to_string();
        let mut complete = path.to_owned();
        match std::fs::symlink_metadata(path) {
            Ok(there) => {
                let kind = std::fs::metadata(path).with_context(|| format!("{name} is a link that leads nowhere"))?;
                if kind.file_type().is_fifo() && allow_fifo {
                    return Ok(Self::writing(name, fifo(path).await?, None));
                }
                if !kind.is_file() {
                    bail!("{name} is {}", what(&kind));
                }
                if !force {
                    bail!("{name} exists; use another name, or --force to replace it once the recording is complete");
                }
                if there.is_symlink() {
                    // The link stays, and its target is replaced.
                    complete = path.canonicalize().with_context(|| format!("cannot follow {name}"))?;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error).with_context(|| format!("cannot inspect {name}")),
        }
        let (file, partial) = Partial::make(complete, force)?;
        Ok(Self::writing(partial.path.display().to_string(), file, Some(partial)))
    }

    fn writing(name: String, mut out: File, partial: Option<Partial>) -> Self {
        let (pieces, mut queue) = mpsc::channel::<Vec<u8>>(QUEUE);
        let (ended, done) = oneshot::channel();
        // No code joins the thread: if it is stuck in a write, it ends with the process.
        std::thread::spawn(move || {
            let mut write = || {
                while let Some(piece) = queue.blocking_recv() {
                    out.write_all(&piece)?;
                }
                out.flush()
            };
            let _nobody_asks = ended.send(write());
        });
        Self {
            name,
            partial,
            pieces: Some(pieces),
            done,
        }
    }

    /// Queues a piece for writing, and waits while the queue is full. Fails with the error of an earlier write. This
    /// method is cancel safe: the content of `piece` is taken only when there is space in the queue.
    pub(super) async fn write(&mut self, piece: &mut Vec<u8>) -> io::Result<()> {
        if let Some(pieces) = &self.pieces
            && let Ok(room) = pieces.reserve().await
        {
            room.send(std::mem::take(piece));
            return Ok(());
        }
        // The receiver has been dropped: the thread ended with an error.
        Err(self.written().await.err().unwrap_or(io::ErrorKind::BrokenPipe.into()))
    }

    /// Waits until all pieces are written. Fails with the error of the failed write. This method is cancel safe.
    pub(super) async fn written(&mut self) -> io::Result<()> {
        self.pieces = None;
        match (&mut self.done).await {
            Ok(result) => result,
            Err(_gone) => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    /// Completes the recording: the file gets its final name, which is returned. If a file of that name has appeared in
    /// the meantime, an error is returned and the recording keeps its temporary name.
    pub(super) fn complete(&self) -> anyhow::Result<String> {
        let Some(partial) = &self.partial else {
            return Ok(self.name.clone());
        };
        let name = partial.complete.display();
        files::rename(&partial.path, &partial.complete, partial.replace).with_context(|| {
            format!(
                "cannot rename {} to {name}; the complete recording is in {}",
                self.name, self.name
            )
        })?;
        Ok(name.to_string())
    }

    /// Removes the file after a session without data, if the path still leads to the file created here.
    pub(super) fn discard(&self) {
        if let Some(partial) = &self.partial
            && std::fs::symlink_metadata(&partial.path).is_ok_and(|there| (there.dev(), there.ino()) == partial.made)
        {
            let _stays_empty = std::fs::remove_file(&partial.path);
        }
    }
}

impl Partial {
    fn make(complete: PathBuf, replace: bool) -> anyhow::Result<(File, Self)> {
        let mut path = OsString::from(&complete);
        path.push(".partial");
        let path = PathBuf::from(path);
        let name = path.display();
        match std::fs::symlink_metadata(&path) {
            Ok(there) if there.is_file() && replace => {
                std::fs::remove_file(&path).with_context(|| format!("cannot replace {name}"))?;
            }
            Ok(there) if there.is_file() => bail!(
                "{name} exists: an interrupted or unfinished recording; `gcwatch analyze` reads it. Move it, use \
                 another name, or --force to replace it"
            ),
            Ok(there) => bail!("{name} is {}", what(&there)),
            Err(_) => {}
        }
        // With `create_new`, an existing file is neither followed nor opened.
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        let file =
            file.with_context(|| format!("cannot write {name}; choose a file in a directory with write permission"))?;
        let made = file.metadata().with_context(|| format!("cannot inspect {name}"))?;
        let made = (made.dev(), made.ino());
        let partial = Self {
            path,
            complete,
            replace,
            made,
        };
        Ok((file, partial))
    }
}

/// Opens a FIFO as soon as it has a reader.
async fn fifo(path: &Path) -> anyhow::Result<File> {
    let name = path.display();
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    loop {
        let opened = OpenOptions::new().write(true).custom_flags(flags).open(path);
        match opened {
            Ok(file) => {
                // Make writes blocking again, because the writing thread may block.
                fcntl_setfl(&file, OFlags::empty()).with_context(|| format!("cannot write {name}"))?;
                return Ok(file);
            }
            Err(error) if error.raw_os_error() == Some(Errno::NXIO.raw_os_error()) => {
                tokio::time::sleep(RETRY_INTERVAL).await;
            }
            Err(error) => return Err(error).with_context(|| format!("cannot write {name}")),
        }
    }
}

/// Describes an object that is not a regular file, and the remedy.
fn what(there: &Metadata) -> &'static str {
    let kind = there.file_type();
    if there.is_dir() {
        "a directory; choose a file name in it"
    } else if kind.is_fifo() {
        "a FIFO; use --allow-fifo to write to it"
    } else if kind.is_char_device() || kind.is_block_device() {
        "a device; a recording is written to a regular file, or with `-o -` to standard output"
    } else if kind.is_socket() {
        "a socket; a recording is written to a regular file, or with `-o -` to standard output"
    } else {
        "not a regular file"
    }
}
