//! Dedicated threads for work that can block forever, such as access to file systems that users provide.
//!
//! The executor has few threads for blocking work and needs them for everything else. Work that blocks forever would
//! occupy them one by one. Here, each piece of work has a dedicated thread, no task waits for a blocked thread, and at
//! most [`MAX_THREADS`] threads exist.

use std::sync::Arc;
use std::thread::Builder;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{Mutex, Semaphore, oneshot};
use tokio::time::timeout;

/// Maximum number of threads, including blocked ones. A blocked thread costs about 20 kB.
pub(crate) const MAX_THREADS: usize = 64;
/// Stack size, in bytes. Paths are resolved on the heap, and the stack holds buffers of a few kB.
const STACK_BYTES: usize = 512 << 10;

/// Error returned if no thread can be started.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SpawnError {
    #[error("{MAX_THREADS} threads are blocked by file systems that do not respond")]
    Full,
    #[error("cannot start a thread: {0}")]
    System(#[from] std::io::Error),
}

/// A limit on the number of threads for work that can block indefinitely.
#[derive(Debug, Clone)]
pub(crate) struct Threads(Arc<Semaphore>);

impl Default for Threads {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MAX_THREADS)))
    }
}

impl Threads {
    /// Executes `work` on a dedicated thread and sends its result. If `work` panics, the receiver returns an error.
    ///
    /// # Errors
    ///
    /// Returns [`SpawnError`] if no thread was started. `work` is not executed in this case.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<oneshot::Receiver<T>, SpawnError> {
        let running = Arc::clone(&self.0).try_acquire_owned().map_err(|_| SpawnError::Full)?;
        let (sender, receiver) = oneshot::channel();
        let thread = Builder::new().name("files".to_owned()).stack_size(STACK_BYTES);
        thread.spawn(move || {
            let done = work();
            drop(running);
            // The receiver can have been dropped.
            let _gone = sender.send(done);
        })?;
        Ok(receiver)
    }
}

/// Error returned if a file could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The read blocks.
    #[error("reading takes more than {within:?}: the file system does not respond")]
    Late {
        /// Time that the caller waited.
        within: Duration,
    },
    /// No thread could be started, or the thread panicked.
    #[error("reading failed: {problem}")]
    Failed {
        /// Reason for the failure.
        problem: String,
    },
}

/// Repeated reads of files on dedicated threads, which can block forever. While a read is blocked, no other read
/// starts: each further request counts as late immediately.
#[derive(Debug, Clone, Default)]
pub struct FileReading(Arc<Mutex<()>>);

impl FileReading {
    /// Executes `work` on a dedicated thread, in the context of the caller's executor, and waits at most `within`.
    ///
    /// # Errors
    ///
    /// Returns [`ReadError`] if there is no result in time; `work` can still be running.
    ///
    /// # Panics
    ///
    /// Panics outside a tokio runtime with time.
    pub async fn within<T: Send + 'static>(
        &self,
        within: Duration,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, ReadError> {
        let Ok(begun) = Arc::clone(&self.0).try_lock_owned() else {
            return Err(ReadError::Late { within });
        };
        let context = Handle::current();
        let done = Threads::default().run(move || {
            let _context = context.enter();
            let _begun = begun;
            work()
        });
        let failed = |problem: String| ReadError::Failed { problem };
        match timeout(within, done.map_err(|error| failed(error.to_string()))?).await {
            Ok(done) => done.map_err(|_panicked| failed("the thread panicked".to_owned())),
            Err(_) => Err(ReadError::Late { within }),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// Scenario: the maximum number of threads is blocked; then all blocked threads return, and another thread panics.
    /// Guarantee: another thread is refused; a slot is free as soon as a thread has ended, also after a panic.
    #[tokio::test]
    async fn blocked_threads_are_bounded() {
        let threads = Threads::default();
        let (release, hung) = mpsc::channel::<()>();
        let hung = Arc::new(std::sync::Mutex::new(hung));
        let work = |hung: &Arc<std::sync::Mutex<mpsc::Receiver<()>>>| {
            let hung = Arc::clone(hung);
            move || {
                let _released = hung.lock().unwrap().recv();
            }
        };
        let mut all: Vec<_> = (0..MAX_THREADS).map(|_| threads.run(work(&hung)).unwrap()).collect();
        assert!(matches!(threads.run(|| ()), Err(SpawnError::Full)));
        drop(release);
        for one in &mut all {
            one.await.unwrap();
        }
        assert_eq!(threads.run(|| 7).unwrap().await, Ok(7));
        let failed = threads.run(|| panic!("on purpose")).unwrap();
        assert!(failed.await.is_err());
        assert_eq!(threads.0.available_permits(), MAX_THREADS);
    }

    /// Scenario: a read blocks; another read is requested while it blocks, and a third read after it has returned.
    /// Guarantee: the caller gets an answer in time, no second thread is started, and the last read succeeds.
    #[tokio::test]
    async fn blocked_read_is_not_started_twice() {
        let reading = FileReading::default();
        let (release, hung) = mpsc::channel::<()>();
        let (ended, end) = oneshot::channel::<()>();
        let within = Duration::from_millis(20);
        let hangs = reading.within(within, move || {
            let _released = hung.recv();
            drop(ended);
        });
        assert_eq!(hangs.await, Err(ReadError::Late { within }));
        assert_eq!(reading.within(within, || ()).await, Err(ReadError::Late { within }));
        drop(release);
        let _ended = end.await;
        while reading.within(within, || ()).await.is_err() {
            tokio::task::yield_now().await;
        }
    }
}
