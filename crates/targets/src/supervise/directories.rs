//! Watches the socket directories, within the limits of the kernel.

use std::io;
use std::sync::Arc;

use crate::look::Directories;
use crate::pending::or_pending;
use crate::watch::{Changes, SocketWatch, Watches};

/// The watched socket directories, within the limits of the kernel.
#[derive(Debug)]
pub(crate) struct WatchedDirectories {
    /// The watch; `None` if the watch failed, so that only scans find new processes.
    watch: Option<SocketWatch>,
    /// Whether the failure was logged.
    reported: bool,
}

impl WatchedDirectories {
    pub(crate) fn new() -> Self {
        let mut directories = Self {
            watch: None,
            reported: false,
        };
        match SocketWatch::new() {
            Ok(watch) => directories.watch = Some(watch),
            Err(error) => directories.report(&error.to_string()),
        }
        directories
    }

    /// Returns the set to which directories are added, or `None` if new sockets are not announced.
    pub(crate) fn watches(&self) -> Option<Arc<Watches>> {
        Some(Arc::clone(self.watch.as_ref()?.watches()))
    }

    /// Waits for changes, or forever if no directory is watched. This method is cancel safe.
    pub(crate) async fn changed(&mut self) -> io::Result<Changes> {
        or_pending(self.watch.as_mut().map(SocketWatch::changed)).await
    }

    /// Stops watching after a failure. Only scans find new processes afterwards.
    pub(crate) fn give_up(&mut self, error: &io::Error) {
        self.watch = None;
        self.report(&error.to_string());
    }

    /// Stops watching all directories except `directories`, which a scan has added. Returns whether one of these
    /// directories is new. If so, another scan is needed to find sockets that were created in the new directory before
    /// its watch started.
    pub(crate) fn follow(&mut self, directories: &Directories) -> bool {
        let Some(watch) = &mut self.watch else { return false };
        watch.keep(&directories.watched);
        if let Some(problem) = &directories.problem {
            self.report(problem);
        }
        directories.new
    }

    fn report(&mut self, problem: &str) {
        if !std::mem::replace(&mut self.reported, true) {
            log!(
                warn: "cannot watch directories: {problem}; new processes are found only by reading /proc \
                 (see fs.inotify.max_user_instances and max_user_watches)"
            );
        }
    }
}
