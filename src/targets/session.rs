//! A session that has begun, read from its first byte to its last.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, ready};
use std::time::Duration;

use clr_gc::stream::GcStream;
use dotnet_diagnostics::{Error, Session};
use tokio::task::JoinHandle;
use tokio::time::{sleep_until, timeout};

use crate::process::RunState;
use crate::process::text::bounded;
use crate::targets::attempt::{Attempt, Begun, End, Order, STOP_WITHIN, ordered_to_stop};
use crate::targets::carryover::Carryover;
use crate::targets::reading::Reading;
use crate::targets::settings::{self, GcSettings};
use crate::targets::sink::{RunSink, Sink};

/// How much is read at once; a runtime writes a few kilobytes per collection.
pub(crate) const READ_BYTES: usize = 64 << 10;
/// How long after its beginning a session is followed by the one that reads the settings.
const SETTINGS_AFTER: Duration = Duration::from_secs(1);

impl<S: Sink> Attempt<S> {
    /// Reads the session to its end.
    pub(crate) async fn read(mut self, begun: Begun) -> (Carryover<S::Run>, End) {
        let end = self.read_to_end(begun).await;
        (self.carryover, end)
    }

    async fn read_to_end(&mut self, begun: Begun) -> End {
        let Begun {
            mut session,
            client,
            ahead_ns,
        } = begun;
        if let Err(error) = session.move_here() {
            return self.unattachable(error.obstacle());
        }
        let Some(sink) = self.carryover.sink.take() else {
            return End::Again { lived: Duration::ZERO };
        };
        let version = self
            .sketch
            .runtime
            .clone()
            .unwrap_or_else(|| "of unknown version".to_owned());
        let mut reading = Reading::new(sink, ahead_ns, Arc::clone(&self.shared.readers.rounds));
        if self.options.read_settings && !self.carryover.settings_read {
            reading.settings_at = Some(reading.since + SETTINGS_AFTER);
        }
        let mut settings: Option<JoinHandle<_>> = None;
        reading.sink.state(RunState::Attached);
        if self.carryover.reported.replace(RunState::Attached) != Some(RunState::Attached) {
            tracing::info!(
                target: "gcwatch::targets",
                pid = self.key().pid, name = %bounded(&self.sketch.name), "attached, .NET {version}"
            );
        }
        let mut order = Order::Read;
        let mut broken = None;
        let ended = loop {
            let timer = reading.next_timer();
            let timer = async {
                match timer {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                read = read_shared(&mut session, &self.shared.buffer, &mut reading.stream), if !reading.rests() => match read {
                    Ok(0) => break Ok(()),
                    Ok(n) => if let Err(error) = reading.take(n) {
                        broken = Some(error.to_string());
                        break Ok(());
                    },
                    Err(error) => break Err(error),
                },
                () = ordered_to_stop(&mut self.orders), if order == Order::Read => {
                    order = *self.orders.borrow();
                    session.request_stop();
                    reading.hurry();
                }
                () = timer => {
                    if let Err(error) = reading.tick() {
                        broken = Some(error.to_string());
                        break Ok(());
                    }
                    if reading.settings_are_due() && order == Order::Read {
                        // A task of its own: its session is ended also when this one does not wait for it any more.
                        settings = Some(self.shared.commands.spawn(settings::read(Arc::clone(&client))));
                    }
                }
                read = joined(&mut settings) => {
                    settings = None;
                    self.carryover.settings_read = true;
                    self.take_settings(&mut reading, read);
                }
            }
        };
        let lived = reading.since.elapsed();
        if let Some(settings) = settings {
            // Its session must be over, too.
            let _late = timeout(STOP_WITHIN, settings).await;
        }
        let in_order = if let Some(problem) = broken.clone() {
            // The bytes that still come are ignored; the session must not stay in the process.
            let drained = timeout(STOP_WITHIN, session.drain(|_| ())).await;
            drop(drained);
            Err(problem)
        } else {
            let finished = reading.finish();
            let stopped = session.stopped().await;
            // A process that exits while it is being stopped answers no more; its stream is complete.
            match (ended, finished, stopped) {
                (Err(error), _, _) => Err(error.to_string()),
                (Ok(()), Err(error), _) => Err(error.to_string()),
                (Ok(()), Ok(()), _) => Ok(()),
            }
        };
        self.carryover.sink = Some(reading.sink);
        match order {
            Order::Read => {
                let detail = match &in_order {
                    Err(_) if broken.is_some() => "its stream is damaged; gcwatch attaches again".to_owned(),
                    Err(problem) => bounded(problem),
                    Ok(()) => "the runtime ended the session; gcwatch attaches again if the process lives".to_owned(),
                };
                if let Err(problem) = &in_order {
                    tracing::warn!(
                        target: "gcwatch::targets",
                        pid = self.key().pid, name = %bounded(&self.sketch.name),
                        "the session failed: {}", bounded(problem)
                    );
                }
                self.report(RunState::Detached { detail });
                let lived = if broken.is_some() { Duration::ZERO } else { lived };
                End::Again { lived }
            }
            Order::ShutDown | Order::Exclude => {
                let detail = "gcwatch ended the session".to_owned();
                self.report(RunState::Detached { detail });
                End::Stopped(in_order.err())
            }
        }
    }

    fn take_settings(&self, reading: &mut Reading<S::Run>, read: Result<Option<GcSettings>, String>) {
        match read {
            Ok(Some(settings)) => reading.sink.learned(None, settings.attributes()),
            Ok(None) => {}
            Err(problem) => tracing::debug!(
                target: "gcwatch::targets", pid = self.key().pid, "cannot read its GC settings: {}", bounded(&problem)
            ),
        }
    }
}

/// Reads from a session into a stream, by a buffer that many sessions share: it is locked only while bytes are moved
/// through it, never while they are waited for.
async fn read_shared(session: &mut Session, buffer: &Mutex<Box<[u8]>>, stream: &mut GcStream) -> Result<usize, Error> {
    poll_fn(|cx| {
        let mut buffer = buffer.lock().unwrap_or_else(PoisonError::into_inner);
        let count = ready!(session.poll_read(cx, &mut buffer))?;
        stream.push(buffer.get(..count).unwrap_or_default());
        Poll::Ready(Ok(count))
    })
    .await
}

/// Waits for the settings, if they are being read.
async fn joined(
    settings: &mut Option<JoinHandle<Result<Option<GcSettings>, Error>>>,
) -> Result<Option<GcSettings>, String> {
    match settings {
        Some(settings) => match settings.await {
            Ok(read) => read.map_err(|error| error.to_string()),
            Err(failed) => Err(failed.to_string()),
        },
        None => std::future::pending().await,
    }
}
