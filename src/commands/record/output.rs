//! Where a recording is written: a file that appears under its name when it is complete, a FIFO, or standard output.
//!
//! A thread of its own writes, so that a disk or a reader that takes nothing holds neither the session nor Ctrl-C.

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

/// Pieces that wait to be written, 64 KiB each at most.
const QUEUE: usize = 16;

/// How often a FIFO is tried that nobody reads yet.
const TRY_EVERY: Duration = Duration::from_millis(50);

/// Where the recording goes.
#[derive(Debug)]
pub(super) struct Output {
    /// As in messages: where the bytes are now.
    pub(super) name: String,
    /// The file that is renamed at the end.
    partial: Option<Partial>,
    /// Takes pieces; `None` when no more come.
    pieces: Option<mpsc::Sender<Vec<u8>>>,
    /// How the writing ended.
    done: oneshot::Receiver<io::Result<()>>,
}

/// A file that is not complete.
#[derive(Debug)]
struct Partial {
    path: PathBuf,
    /// Its name when it is complete.
    complete: PathBuf,
    replace: bool,
    /// Device and number of the file that was made here.
    made: (u64, u64),
}

impl Output {
    /// Opens what `path` names; `-` is standard output. Waits for the reader of a FIFO, which needs `allow_fifo`. What
    /// exists needs `force`, and is a regular file.
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
                    bail!("{name} exists; give another name, or --force to replace it when the recording is complete");
                }
                if there.is_symlink() {
                    // The link stays, and the file that it leads to is replaced.
                    complete = path.canonicalize().with_context(|| format!("cannot follow {name}"))?;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error).with_context(|| format!("cannot look at {name}")),
        }
        let (file, partial) = Partial::make(complete, force)?;
        Ok(Self::writing(partial.path.display().to_string(), file, Some(partial)))
    }

    fn writing(name: String, mut out: File, partial: Option<Partial>) -> Self {
        let (pieces, mut queue) = mpsc::channel::<Vec<u8>>(QUEUE);
        let (ended, done) = oneshot::channel();
        // It is not waited for: one that is stuck in a write ends with the process.
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

    /// Gives a piece to be written. Waits while too many wait; cancel safe: the piece is taken from `piece` when there
    /// is room. Fails with the error of the write that failed before.
    pub(super) async fn write(&mut self, piece: &mut Vec<u8>) -> io::Result<()> {
        if let Some(pieces) = &self.pieces
            && let Ok(room) = pieces.reserve().await
        {
            room.send(std::mem::take(piece));
            return Ok(());
        }
        // Nobody takes it any more: the thread ended, with an error.
        Err(self.written().await.err().unwrap_or(io::ErrorKind::BrokenPipe.into()))
    }

    /// Waits until all is written. Fails with the error of the write that failed. Cancel safe.
    pub(super) async fn written(&mut self) -> io::Result<()> {
        self.pieces = None;
        match (&mut self.done).await {
            Ok(result) => result,
            Err(_gone) => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    /// It is complete: the file gets its name. Gives the name. When there is a file of this name now, that is an error,
    /// and the recording stays where it is.
    pub(super) fn complete(&self) -> anyhow::Result<String> {
        let Some(partial) = &self.partial else {
            return Ok(self.name.clone());
        };
        let name = partial.complete.display();
        files::rename(&partial.path, &partial.complete, partial.replace).with_context(|| {
            format!(
                "cannot rename {} to {name}; the recording is complete in the former",
                self.name
            )
        })?;
        Ok(name.to_string())
    }

    /// Nothing was received: removes the file, if it is the one that was made here.
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
                "{name} exists: a recording that was interrupted, or is being made; `gcwatch analyze` reads it. Move it, give \
                 another name, or --force to replace it"
            ),
            Ok(there) => bail!("{name} is {}", what(&there)),
            Err(_) => {}
        }
        // With `create_new` nothing is followed or opened that is there already.
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        let file =
            file.with_context(|| format!("cannot write {name}; give a file in a directory with write permission"))?;
        let made = file.metadata().with_context(|| format!("cannot look at {name}"))?;
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

/// Opens a FIFO when it has a reader.
async fn fifo(path: &Path) -> anyhow::Result<File> {
    let name = path.display();
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    loop {
        let opened = OpenOptions::new().write(true).custom_flags(flags).open(path);
        match opened {
            Ok(file) => {
                // The thread that writes may wait.
                fcntl_setfl(&file, OFlags::empty()).with_context(|| format!("cannot write {name}"))?;
                return Ok(file);
            }
            Err(error) if error.raw_os_error() == Some(Errno::NXIO.raw_os_error()) => {
                tokio::time::sleep(TRY_EVERY).await;
            }
            Err(error) => return Err(error).with_context(|| format!("cannot write {name}")),
        }
    }
}

/// What is there instead of a regular file, and what to do.
fn what(there: &Metadata) -> &'static str {
    let kind = there.file_type();
    if there.is_dir() {
        "a directory; give the name of a file in it"
    } else if kind.is_fifo() {
        "a FIFO; give --allow-fifo to write into it"
    } else if kind.is_char_device() || kind.is_block_device() {
        "a device; a recording is written to a regular file, or with `-o -` to standard output"
    } else if kind.is_socket() {
        "a socket; a recording is written to a regular file, or with `-o -` to standard output"
    } else {
        "not a regular file"
    }
}
