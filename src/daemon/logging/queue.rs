//! Log lines on their way to standard error: a bounded queue, and one thread that writes them.
//!
//! The reader of standard error can stop reading (the pipe of a supervisor that hangs, a paused terminal). The write
//! then blocks, but only the writing thread waits for it. Lines that do not fit are dropped and counted. Once lines are
//! read again, one line reports the number of lost lines.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tracing::warn;
use tracing_subscriber::fmt::MakeWriter;

/// Maximum number of bytes and of lines in the queue.
const MAX_BYTES: usize = 256 << 10;
const MAX_LINES: usize = 2048;

/// A queue of log lines that is cheap to clone. Adding a line never waits for the reader of standard error.
#[derive(Debug, Clone, Default)]
pub struct LogQueue {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<Lines>,
    changed: Condvar,
    dropped: AtomicU64,
}

#[derive(Debug, Default)]
struct Lines {
    lines: VecDeque<Box<[u8]>>,
    bytes: usize,
    /// Whether a line is being written.
    writing: bool,
    /// Number of dropped lines that no line has reported yet.
    unreported: u64,
}

impl LogQueue {
    /// Starts the thread that writes to standard error.
    ///
    /// # Errors
    ///
    /// Returns an error if the thread cannot be started, or standard error is closed.
    pub fn to_stderr() -> io::Result<Self> {
        // Uses a separate descriptor, because the lock of the standard library would be held while a write blocks.
        let stderr = File::from(io::stderr().as_fd().try_clone_to_owned()?);
        Self::to(stderr)
    }

    fn to(output: impl Write + Send + 'static) -> io::Result<Self> {
        let queue = Self::default();
        let shared = Arc::clone(&queue.shared);
        let thread = std::thread::Builder::new().name("log".to_owned());
        thread.stack_size(256 << 10).spawn(move || shared.write_to(output))?;
        Ok(queue)
    }

    /// Returns the number of lines dropped so far.
    pub fn dropped(&self) -> u64 {
        self.shared.dropped.load(Ordering::Relaxed)
    }

    /// Waits until every line is written, at most `within`. Returns whether all lines are written. Blocks the calling
    /// thread.
    pub fn flush(&self, within: Duration) -> bool {
        let state = self.shared.state();
        let waited = self
            .shared
            .changed
            .wait_timeout_while(state, within, |state| state.writing || !state.lines.is_empty());
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }
}

impl Shared {
    /// The state is consistent whenever the lock is free, so a poisoned lock is safe to use.
    fn state(&self) -> MutexGuard<'_, Lines> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, line: &[u8]) {
        let mut state = self.state();
        if state.lines.len() >= MAX_LINES || state.bytes + line.len() > MAX_BYTES {
            state.unreported += 1;
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        state.bytes += line.len();
        state.lines.push_back(line.into());
        drop(state);
        self.changed.notify_all();
    }

    /// Writes lines until the process ends. A failed write loses its line, because there is no other place to report
    /// it.
    fn write_to(&self, mut output: impl Write) {
        let mut state = self.state();
        loop {
            let Some(line) = state.lines.pop_front() else {
                let waited = self.changed.wait(state);
                state = waited.unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            state.bytes -= line.len();
            state.writing = true;
            drop(state);
            let _lost = output.write_all(&line);
            state = self.state();
            // The reader reads lines again. The message about lost lines enters the queue like any other line.
            let unreported = std::mem::take(&mut state.unreported);
            if unreported > 0 {
                drop(state);
                warn!(
                    target: "gcwatch::log",
                    "{unreported} log lines were dropped: standard error was not read fast enough"
                );
                state = self.state();
            }
            state.writing = false;
            if state.lines.is_empty() {
                self.changed.notify_all();
            }
        }
    }
}

/// One log line. The formatter writes each line in one piece.
#[derive(Debug)]
pub struct Line<'a>(&'a Shared);

impl Write for Line<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.put(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for LogQueue {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Line<'a> {
        Line(&self.shared)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader};
    use std::os::unix::net::UnixStream;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    /// Scenario: a reader does not read while more lines arrive than fit; then the reader reads, and the daemon ends.
    /// Guarantee: adding lines does not block; the lines that fit arrive complete and in order, all other lines are
    /// counted. The flush fails while the reader does not read, and succeeds afterwards.
    #[test]
    fn stopped_reader_blocks_no_writer() {
        let (reader, output) = UnixStream::pair().unwrap();
        let queue = LogQueue::to(output).unwrap();
        let line = |number: usize| format!("{number} {}\n", "x".repeat(1000));
        let given = 4000;
        for number in 0..given {
            queue.make_writer().write_all(line(number).as_bytes()).unwrap();
        }
        assert!(!queue.flush(Duration::from_millis(1)));
        let dropped = usize::try_from(queue.dropped()).unwrap();
        assert!(dropped > 1000, "{dropped}");
        let mut lines = BufReader::new(reader).lines().map(Result::unwrap);
        let mut last = None;
        for _ in 0..given - dropped {
            let read = lines.next().unwrap();
            let number: usize = read.split(' ').next().unwrap().parse().unwrap();
            assert_eq!(read, line(number).trim_end());
            assert!(last.replace(number) < Some(number), "{last:?}, {number}");
        }
        assert!(queue.flush(LONG));
        queue.make_writer().write_all(b"later\n").unwrap();
        assert_eq!(lines.next().unwrap(), "later");
        assert_eq!(queue.shared.state().bytes, 0);
    }

    /// Scenario: lines were dropped; then lines are read again.
    /// Guarantee: one line reports the number of lost lines, once, through the same log.
    #[test]
    fn dropped_lines_are_reported() {
        let (reader, output) = UnixStream::pair().unwrap();
        // A subscriber of another test that starts or ends at this moment could leave the event disabled for all
        // subscribers (tracing caches this). A global subscriber that drops everything prevents this problem.
        let sink = tracing_subscriber::fmt().with_writer(io::sink).finish();
        let _set_already = tracing::subscriber::set_global_default(sink);
        let queue = LogQueue::default();
        let shared = Arc::clone(&queue.shared);
        let subscriber = tracing_subscriber::fmt()
            .with_writer(queue.clone())
            .with_ansi(false)
            .finish();
        // The writer has not started: the queue keeps one line and drops the other seven.
        let long = "y".repeat(MAX_BYTES / 2);
        for _ in 0..8 {
            queue.make_writer().write_all(format!("{long}\n").as_bytes()).unwrap();
        }
        let dropped = queue.dropped();
        assert_eq!(dropped, 7);
        std::thread::spawn(move || tracing::subscriber::with_default(subscriber, || shared.write_to(output)));
        let mut lines = BufReader::new(reader).lines().map(Result::unwrap);
        let said = lines.find(|line| !line.starts_with('y')).unwrap();
        assert!(
            said.contains(&format!("{dropped} log lines were dropped")) && said.contains("WARN"),
            "{said}"
        );
        assert!(queue.flush(LONG));
        queue.make_writer().write_all(b"later\n").unwrap();
        assert_eq!(lines.find(|line| !line.starts_with('y')).unwrap(), "later");
    }
}
