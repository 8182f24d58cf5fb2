//! Threads for work that may never return: whatever touches a file system that others provide.
//!
//! The executor's own threads for blocking work are few, and are needed for everything else: work that hangs there
//! takes them away one by one. Here each piece of work has a thread of its own, nobody waits for one that hangs, and
//! there are [`MOST`] of them at most.

use std::sync::Arc;
use std::thread::Builder;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{Mutex, Semaphore, oneshot};
use tokio::time::timeout;

/// Most threads at a time, those that hang included. One that hangs costs about 20 kB.
pub(crate) const MOST: usize = 64;
/// Paths are resolved on the heap; the rest is buffers of a few kB.
const STACK_BYTES: usize = 512 << 10;

/// Why there is no thread.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoThread {
    #[error("{MOST} threads wait for file systems that do not respond")]
    Full,
    #[error("cannot start a thread: {0}")]
    System(#[from] std::io::Error),
}

/// Threads for work that may never return.
#[derive(Debug, Clone)]
pub(crate) struct Threads(Arc<Semaphore>);

impl Default for Threads {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MOST)))
    }
}

impl Threads {
    /// Does this on a thread of its own. What it returns is sent; nothing is, when it panics.
    ///
    /// # Errors
    ///
    /// [`NoThread`]; then nothing was done.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<oneshot::Receiver<T>, NoThread> {
        let running = Arc::clone(&self.0).try_acquire_owned().map_err(|_| NoThread::Full)?;
        let (sender, receiver) = oneshot::channel();
        let thread = Builder::new().name("files".to_owned()).stack_size(STACK_BYTES);
        thread.spawn(move || {
            let done = work();
            drop(running);
            // Nobody waits for it any more.
            let _gone = sender.send(done);
        })?;
        Ok(receiver)
    }
}

/// Why nothing was read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotRead {
    /// It hangs.
    #[error("reading it takes more than {within:?}: its file system does not respond")]
    Late {
        /// How long it was waited for.
        within: Duration,
    },
    /// There is no thread, or it panicked.
    #[error("reading it failed: {problem}")]
    Failed {
        /// Why.
        problem: String,
    },
}

/// Files that are read again and again, each time on a thread of its own, which may hang. While one hangs no other one
/// begins: that counts as late at once.
#[derive(Debug, Clone, Default)]
pub struct FileReading(Arc<Mutex<()>>);

impl FileReading {
    /// Does this on a thread of its own, in the context of the caller's executor, and waits for so long.
    ///
    /// # Errors
    ///
    /// [`NotRead`]; it may still be under way.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime with time.
    pub async fn within<T: Send + 'static>(
        &self,
        within: Duration,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, NotRead> {
        let Ok(begun) = Arc::clone(&self.0).try_lock_owned() else {
            return Err(NotRead::Late { within });
        };
        let context = Handle::current();
        let done = Threads::default().run(move || {
            let _context = context.enter();
            let _begun = begun;
            work()
        });
        let failed = |problem: String| NotRead::Failed { problem };
        match timeout(within, done.map_err(|error| failed(error.to_string()))?).await {
            Ok(done) => done.map_err(|_panicked| failed("its thread ended".to_owned())),
            Err(_) => Err(NotRead::Late { within }),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// Scenario: as many pieces of work as there may be hang, then they return; one panics.
    /// Guarantee: one more is refused, and has room as soon as another has ended, however it did.
    #[tokio::test]
    async fn threads_that_hang_are_bounded() {
        let threads = Threads::default();
        let (release, hung) = mpsc::channel::<()>();
        let hung = Arc::new(std::sync::Mutex::new(hung));
        let work = |hung: &Arc<std::sync::Mutex<mpsc::Receiver<()>>>| {
            let hung = Arc::clone(hung);
            move || {
                let _released = hung.lock().unwrap().recv();
            }
        };
        let mut all: Vec<_> = (0..MOST).map(|_| threads.run(work(&hung)).unwrap()).collect();
        assert!(matches!(threads.run(|| ()), Err(NoThread::Full)));
        drop(release);
        for one in &mut all {
            one.await.unwrap();
        }
        assert_eq!(threads.run(|| 7).unwrap().await, Ok(7));
        let failed = threads.run(|| panic!("on purpose")).unwrap();
        assert!(failed.await.is_err());
        assert_eq!(threads.0.available_permits(), MOST);
    }

    /// Scenario: a file is read that hangs, again while it hangs, and after it came back.
    /// Guarantee: the caller has an answer within the time, a second thread is not begun, and then it is read.
    #[tokio::test]
    async fn what_hangs_is_not_begun_twice() {
        let reading = FileReading::default();
        let (release, hung) = mpsc::channel::<()>();
        let (ended, end) = oneshot::channel::<()>();
        let within = Duration::from_millis(20);
        let hangs = reading.within(within, move || {
            let _released = hung.recv();
            drop(ended);
        });
        assert_eq!(hangs.await, Err(NotRead::Late { within }));
        assert_eq!(reading.within(within, || ()).await, Err(NotRead::Late { within }));
        drop(release);
        let _ended = end.await;
        while reading.within(within, || ()).await.is_err() {
            tokio::task::yield_now().await;
        }
    }
}
