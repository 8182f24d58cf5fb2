//! A session on its way to the output: read to its end, held by an output that takes nothing for some seconds only, and
//! ended so that the process is left as it was.

use std::io;
use std::time::Duration;

use dotnet_diagnostics::{Client, Session};

use crate::commands::burst::Signals;
use crate::commands::record::END_WITHIN;
use crate::commands::record::output::Output;
use crate::commands::record::progress::Progress;

const READ_BYTES: usize = 64 * 1024;

/// How often the progress line is written.
const PROGRESS_EVERY: Duration = Duration::from_millis(250);

/// How long the output may take nothing. Meanwhile the session is not read, and a process whose stream nobody reads
/// cannot exit.
const OUTPUT_WITHIN: Duration = Duration::from_secs(5);

/// The same when the recording is to end.
const STOPPED_OUTPUT_WITHIN: Duration = Duration::from_secs(2);

/// How long the session that heals may take; it is over within a tenth of a second.
const HEAL_WITHIN: Duration = Duration::from_secs(3);

/// Why a recording is not complete.
pub(super) enum Broken {
    /// The output takes no more; a sentence.
    Output(String),
    Session(anyhow::Error),
}

/// A session on its way to the output.
pub(super) struct Recorder<'o> {
    pub(super) session: Session,
    pub(super) output: &'o mut Output,
    pub(super) progress: Progress,
    /// The session was asked to end.
    pub(super) stopping: bool,
}

impl Recorder<'_> {
    /// Reads to the end of the stream, and writes all of it.
    pub(super) async fn run(&mut self, duration: Option<Duration>, signals: &mut Signals) -> Result<(), Broken> {
        let mut buffer = vec![0; READ_BYTES];
        let mut piece = Vec::new();
        let until = duration.map(|duration| tokio::time::Instant::now() + duration);
        let mut ticks = tokio::time::interval(PROGRESS_EVERY);
        // From when on the output has taken nothing.
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
                STOPPED_OUTPUT_WITHIN
            } else {
                OUTPUT_WITHIN
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
                    written.map_err(|error| Broken::Output(self.output_failed(&error)))?;
                    if is_over && piece.is_empty() {
                        return Ok(());
                    }
                    stuck_since = tokio::time::Instant::now();
                }
                () = tokio::time::sleep_until(stuck_since + patience), if waits => {
                    return Err(Broken::Output(format!(
                        "{} took nothing for {} s; the session is stopped", self.output.name, patience.as_secs()
                    )));
                }
                read = self.session.read(&mut buffer), if !waits => {
                    let n = read.map_err(|error| Broken::Session(error.into()))?;
                    let bytes = buffer.get(..n).unwrap_or_default();
                    self.progress.take(bytes);
                    piece.extend_from_slice(bytes);
                    is_over = n == 0;
                    stuck_since = tokio::time::Instant::now();
                }
                () = time_is_up, if !self.stopping => self.stop(),
                () = signals.stop() => {
                    if self.stopping {
                        return Err(Broken::Session(anyhow::anyhow!(
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
            format!("the reader of {name} closed it; the session is stopped")
        } else {
            format!("cannot write {name}: {error}")
        }
    }

    /// Ends the session, whatever came before: the one place where the process is left as it was. Ctrl-C ends the
    /// waiting.
    pub(super) async fn end(&mut self, client: &Client, signals: &mut Signals, in_order: bool) {
        self.progress.end();
        let ending = async {
            if in_order {
                // A process that exits while the session stops does not respond any more; its stream shows how it ended.
                let _stopped = self.session.stopped().await;
            } else {
                let _drained = tokio::time::timeout(END_WITHIN, self.session.drain(|_| ())).await;
            }
            // What the session asked for may go on being made for as long as another one is open, such as a daemon's.
            // A process that has exited does not answer, and needs no healing.
            let _gone = client.recompute_levels(HEAL_WITHIN).await;
        };
        tokio::select! {
            () = ending => {}
            () = signals.stop() => {}
        }
    }
}
