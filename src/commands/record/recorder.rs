//! Copies a session to its output. The recorder reads the session to its end, and a blocked output can delay reading
//! only for some seconds. Afterwards, the recorder restores the state that the process had before the session.

use std::io;
use std::time::Duration;

use dotnet_diagnostics::{Client, Session};

use crate::commands::burst::Signals;
use crate::commands::record::END_TIMEOUT;
use crate::commands::record::output::Output;
use crate::commands::record::progress::Progress;

const READ_BYTES: usize = 64 * 1024;

/// Interval between progress lines.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(250);

/// Maximum time for which the output can be blocked. During this time the session is not read, and a process with an
/// unread stream cannot exit.
const OUTPUT_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum time for which the output can be blocked after a request to stop.
const STOPPED_OUTPUT_TIMEOUT: Duration = Duration::from_secs(2);

/// Timeout for the session that resets the event levels. The session usually takes less than 0.1 s.
const HEAL_TIMEOUT: Duration = Duration::from_secs(3);

/// Reason why a recording is incomplete.
pub(super) enum IncompleteReason {
    /// The output accepts no more data, for the reason in this sentence.
    Output(String),
    Session(anyhow::Error),
}

/// Copies a session to its output.
pub(super) struct Recorder<'o> {
    pub(super) session: Session,
    pub(super) output: &'o mut Output,
    pub(super) progress: Progress,
    /// Whether a stop of the session was requested.
    pub(super) stopping: bool,
}

impl Recorder<'_> {
    /// Reads to the end of the stream and writes every byte.
    pub(super) async fn run(
        &mut self,
        duration: Option<Duration>,
        signals: &mut Signals,
    ) -> Result<(), IncompleteReason> {
        let mut buffer = vec![0; READ_BYTES];
        let mut piece = Vec::new();
        let until = duration.map(|duration| tokio::time::Instant::now() + duration);
        let mut ticks = tokio::time::interval(PROGRESS_INTERVAL);
        // Time since which the output has accepted no data.
        let mut stuck_since = tokio::time::Instant::now();
        let mut is_over = false;
        loop {
            let time_is_up = async {
                match until {
                    Some(until) => tokio::time::sleep_until(until).await,
                    None => std::future::pending().await,
                }
            };
            let patience = if self.stopping {
                STOPPED_OUTPUT_TIMEOUT
            } else {
                OUTPUT_TIMEOUT
            };
            let waits = is_over || !piece.is_empty();
            let write = async {
                if piece.is_empty() {
                    self.output.written().await
                } else {
                    self.output.write(&mut piece).await
                }
            };
            tokio::select! {
                written = write, if waits => {
                    written.map_err(|error| IncompleteReason::Output(self.output_failed(&error)))?;
                    if is_over && piece.is_empty() {
                        return Ok(());
                    }
                    stuck_since = tokio::time::Instant::now();
                }
                () = tokio::time::sleep_until(stuck_since + patience), if waits => {
                    return Err(IncompleteReason::Output(format!(
                        "{} accepted no data for {} s; stopping the session", self.output.name, patience.as_secs()
                    )));
                }
                read = self.session.read(&mut buffer), if !waits => {
                    let n = read.map_err(|error| IncompleteReason::Session(error.into()))?;
                    let bytes = buffer.get(..n).unwrap_or_default();
                    self.progress.take(bytes);
                    piece.extend_from_slice(bytes);
                    is_over = n == 0;
                    stuck_since = tokio::time::Instant::now();
                }
                () = time_is_up, if !self.stopping => self.stop(),
                () = signals.stop() => {
                    if self.stopping {
                        return Err(IncompleteReason::Session(anyhow::anyhow!(
                            "stopped by the second Ctrl-C: {} lacks the events that the process had not sent yet",
                            self.output.name
                        )));
                    }
                    self.stop();
                }
                _ = ticks.tick() => self.progress.show(self.stopping),
            }
        }
    }

    fn stop(&mut self) {
        self.stopping = true;
        self.session.request_stop();
    }

    fn output_failed(&self, error: &io::Error) -> String {
        let name = &self.output.name;
        if error.kind() == io::ErrorKind::BrokenPipe {
            format!("the reader closed {name}; stopping the session")
        } else {
            format!("cannot write {name}: {error}")
        }
    }

    /// Closes the session after success and failure alike: this function is the only place that restores the state of
    /// the process. Ctrl-C ends the wait.
    pub(super) async fn end(&mut self, client: &Client, signals: &mut Signals, in_order: bool) {
        self.progress.end();
        let ending = async {
            if in_order {
                // A process that exits while the session stops no longer responds; its stream shows how it ended.
                let _stopped = self.session.stopped().await;
            } else {
                let _drained = tokio::time::timeout(END_TIMEOUT, self.session.drain(|_| ())).await;
            }
            // Events that the session requested can continue as long as another session is open, such as a daemon's
            // session. A process that has exited does not answer and needs no reset.
            let _gone = client.recompute_levels(HEAL_TIMEOUT).await;
        };
        tokio::select! {
            () = ending => {}
            () = signals.stop() => {}
        }
    }
}
