//! Watches directories with inotify.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::path::Path;
use std::sync::Arc;

use rustix::fs::inotify::{self, CreateFlags, Event, Reader, WatchFlags};
use rustix::io::Errno;
use tokio::io::unix::AsyncFd;

/// The kernel's event queue. Directories can be added on any thread, because their file systems can fail to respond.
#[derive(Debug, Clone)]
pub struct Inotify(Arc<OwnedFd>);

impl AsRawFd for Inotify {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

impl Inotify {
    /// Watches a directory. Has no effect if the directory is already watched.
    ///
    /// Blocks the calling thread.
    pub fn add(&self, directory: &Path, what: WatchFlags) -> io::Result<i32> {
        Ok(inotify::add_watch(&*self.0, directory, what | WatchFlags::ONLYDIR)?)
    }

    /// Stops watching a directory. The kernel can have deleted the watch already.
    pub(crate) fn remove(&self, watch: i32) {
        let _gone = inotify::remove_watch(&*self.0, watch);
    }

    /// Reads at most `most` events from the queue, because other processes can create events endlessly. Returns whether
    /// the queue is empty.
    pub(crate) fn read(&self, most: usize, mut each: impl FnMut(&Event<'_>)) -> io::Result<bool> {
        let mut space = [MaybeUninit::uninit(); 4096];
        let mut reader = Reader::new(&*self.0, &mut space);
        for _ in 0..most {
            match reader.next() {
                Ok(event) => each(&event),
                Err(Errno::WOULDBLOCK) => return Ok(true),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(false)
    }
}

/// The event queue with asynchronous reads.
#[derive(Debug)]
pub struct Changes(AsyncFd<Inotify>);

impl Changes {
    /// Creates a queue without directories. Needs a tokio runtime.
    #[expect(
        deprecated,
        reason = "meant for descriptors that other code can close; this OwnedFd is not shared, and `register` is unsafe"
    )]
    pub fn begin() -> io::Result<Self> {
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        Ok(Self(AsyncFd::new(Inotify(Arc::new(inotify)))?))
    }

    /// Returns the queue, to which directories are added.
    pub fn inotify(&self) -> &Inotify {
        self.0.get_ref()
    }

    /// Waits for events, and reads at most `most`. This method is cancel safe.
    pub async fn next(&self, most: usize, each: impl FnMut(&Event<'_>)) -> io::Result<()> {
        let mut ready = self.0.readable().await?;
        if ready.get_inner().read(most, each)? {
            ready.clear_ready();
        }
        Ok(())
    }
}
