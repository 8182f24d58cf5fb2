//! The directories of sockets, watched as far as the kernel allows it.

use std::io;
use std::sync::Arc;

use crate::look::Directories;
use crate::pending::or_pending;
use crate::watch::{Changes, SocketWatch, Watches};

/// The directories of sockets, watched as far as the kernel allows it.
#[derive(Debug)]
pub(crate) struct WatchedDirectories {
    /// `None`: nothing is watched, new processes are found by looks alone.
    watch: Option<SocketWatch>,
    /// The failure was logged.
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

    /// Where directories are added; `None`: new sockets are not announced.
    pub(crate) fn watches(&self) -> Option<Arc<Watches>> {
        Some(Arc::clone(self.watch.as_ref()?.watches()))
    }

    /// Waits for changes; for ever, when nothing is watched. Cancel safe.
    pub(crate) async fn changed(&mut self) -> io::Result<Changes> {
        or_pending(self.watch.as_mut().map(SocketWatch::changed)).await
    }

    /// Watching failed: looks alone find new processes from now on.
    pub(crate) fn give_up(&mut self, error: &io::Error) {
        self.watch = None;
        self.report(&error.to_string());
    }

    /// Watches these, which a look added, and no others. Returns whether one of them is new: what was made in it
    /// between the look and now is found by another look only.
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
                warn: "cannot watch directories: {problem}; new processes are found by reading /proc alone \
                 (see fs.inotify.max_user_instances and max_user_watches)"
            );
        }
    }
}
