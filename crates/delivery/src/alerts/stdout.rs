//! Writes changes of alerts to standard output, as lines of JSON.
//!
//! A full pipe blocks its writer, so a dedicated thread writes. Lines that do not fit into its queue are dropped and
//! counted.

use std::io::Write;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::alerts::stats::{Reason, ReceiverStats};

/// Maximum number of waiting lines.
const MAX_LINES: usize = 1000;

#[derive(Debug)]
pub(crate) struct StdoutWriter {
    lines: Option<SyncSender<String>>,
    stats: Arc<Mutex<ReceiverStats>>,
    ended: Receiver<()>,
}

impl StdoutWriter {
    /// Starts to write to `out`.
    pub(crate) fn begin(mut out: impl Write + Send + 'static) -> Self {
        let (lines, waiting) = sync_channel::<String>(MAX_LINES);
        // `ended` detects the end of the thread when `alive` is dropped.
        let (alive, ended) = sync_channel(0);
        let stats = Arc::default();
        let counting = Arc::clone(&stats);
        std::thread::spawn(move || {
            for line in waiting {
                let written = out.write_all(line.as_bytes()).and_then(|()| out.flush());
                let mut stats = lock(&counting);
                stats.queued -= 1;
                match written {
                    Ok(()) => stats.sent += 1,
                    Err(_) => stats.lose(Reason::Refused, 1),
                }
            }
            drop(alive);
        });
        Self {
            lines: Some(lines),
            stats,
            ended,
        }
    }

    /// Queues a line. Never blocks.
    pub(crate) fn put(&self, line: String) {
        let Some(lines) = &self.lines else { return };
        // Hold the lock, so that a line is not counted as written before it is counted as queued.
        let mut stats = lock(&self.stats);
        match lines.try_send(line) {
            Ok(()) => stats.queued += 1,
            Err(TrySendError::Full(_)) => stats.lose(Reason::QueueFull, 1),
            Err(TrySendError::Disconnected(_)) => stats.lose(Reason::Refused, 1),
        }
    }

    pub(crate) fn stats(&self) -> ReceiverStats {
        lock(&self.stats).clone()
    }

    /// Blocks until all lines are written, at most for `within`. Returns the number of unwritten lines.
    pub(crate) fn end(mut self, within: Duration) -> u64 {
        drop(self.lines.take());
        match self.ended.recv_timeout(within) {
            Ok(()) | Err(RecvTimeoutError::Disconnected | RecvTimeoutError::Timeout) => self.stats().queued,
        }
    }
}

fn lock(stats: &Mutex<ReceiverStats>) -> MutexGuard<'_, ReceiverStats> {
    stats.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::mpsc;

    use super::*;

    /// A writer that blocks until it is opened, like a full pipe, and reports when a write waits.
    #[derive(Clone)]
    struct Pipe {
        shut: Arc<Mutex<()>>,
        waits: mpsc::Sender<()>,
        written: Arc<Mutex<Vec<u8>>>,
    }

    impl Write for Pipe {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let _ = self.waits.send(());
            let _open = self.shut.lock().unwrap();
            self.written.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Scenario: there are more lines than fit into the queue while the pipe is full; then the pipe is read.
    /// Guarantee: no call blocks, excess lines are counted, and all other lines are written completely and in order.
    #[test]
    fn full_pipe_does_not_block_callers() {
        let (waits, waiting) = mpsc::channel();
        let pipe = Pipe {
            shut: Arc::default(),
            waits,
            written: Arc::default(),
        };
        let shut = pipe.shut.lock().unwrap();
        let lines = StdoutWriter::begin(pipe.clone());
        lines.put("0\n".to_owned());
        // Now the writer holds the first line, and the queue is empty.
        waiting.recv_timeout(Duration::from_secs(20)).unwrap();
        for number in 1..=MAX_LINES + 500 {
            lines.put(format!("{number}\n"));
        }
        assert_eq!(lines.stats().dropped()[0].1, 500);
        drop(shut);
        assert_eq!(lines.end(Duration::from_secs(20)), 0);
        let text = String::from_utf8(pipe.written.lock().unwrap().clone()).unwrap();
        let numbers: Vec<usize> = text.lines().map(|line| line.parse().unwrap()).collect();
        assert_eq!(numbers, (0..=MAX_LINES).collect::<Vec<_>>());
    }

    /// Scenario: standard output is closed.
    /// Guarantee: the failed line does not count as unwritten, and the end does not wait.
    #[test]
    fn closed_pipe_is_counted() {
        struct Closed;
        impl Write for Closed {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::BrokenPipe.into())
            }

            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let lines = StdoutWriter::begin(Closed);
        lines.put("a\n".to_owned());
        assert_eq!(lines.end(Duration::from_secs(20)), 0);
    }
}
