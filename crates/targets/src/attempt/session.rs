//! Reads a session from its first byte to its last.

use std::sync::Arc;
use std::time::Duration;

use dotnet_diagnostics::{Client, Error};
use tokio::task::{JoinError, JoinHandle};
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use super::{Attempt, End, StartedSession};
use crate::cpu_wait::CpuWaits;
use crate::kept_run::KeptRun;
use crate::memory::OVER_MEMORY;
use crate::order::{Order, STOP_TIMEOUT, ordered_to_stop};
use crate::others::HealOutcome;
use crate::pending::or_pending;
use crate::reading::StreamReading;
use crate::requests::{self, RequestMessage};
use crate::session::{Cause, Ending, Verdict};
use crate::settings::{self, GcSettings};
use crate::sink::{RunSink, Sink};
use crate::tool_thread::ToolThread;
use processes::RunState;
use processes::text::bounded;

/// Delay between the start of a session and the session that reads the settings.
const SETTINGS_AFTER: Duration = Duration::from_secs(1);
/// Timeout for the healing session, which normally takes less than 0.1 s.
const HEAL_TIMEOUT: Duration = Duration::from_secs(5);
/// Timeout for the probe before the healing. A runtime that is busy with another tool's command does not answer.
const IDLE_TIMEOUT: Duration = Duration::from_secs(1);

impl<S: Sink> Attempt<S> {
    /// Reads the session to its end.
    pub(super) async fn read(mut self: Box<Self>, begun: Box<StartedSession>) -> (KeptRun<S::Run>, End) {
        let end = self.read_to_end(begun).await;
        (self.kept, end)
    }

    #[expect(clippy::too_many_lines, reason = "one select over all events of a session")]
    async fn read_to_end(&mut self, begun: Box<StartedSession>) -> End {
        let StartedSession {
            mut session,
            client,
            ahead_ns,
            watched,
            reads_requests,
            needed_mb,
        } = *begun;
        if let Err(error) = session.move_here() {
            return self.unattachable(error.obstacle());
        }
        let Some(sink) = self.kept.sink.take() else {
            return End::FAILED;
        };
        let version = self
            .sketch
            .runtime
            .clone()
            .unwrap_or_else(|| "of unknown version".to_owned());
        let share = self.shared.memory.share();
        let mut reading = StreamReading::new(sink, ahead_ns, Arc::clone(&self.shared.readers.rounds), share);
        if self.options.read_settings && !self.kept.settings_read {
            reading.settings_at = Some(reading.since + SETTINGS_AFTER);
        }
        reading.others.clone_from(&watched);
        reading.tool_thread = ToolThread::new(self.visible.then(|| self.key().pid));
        reading.cpu = CpuWaits::new(self.visible.then(|| self.key()), self.shared.threads.clone());
        if let Some(keeper) = self.shared.readers.keeper(self.key()) {
            reading.stream.keep(keeper);
        }
        let mut requests = None;
        if reads_requests {
            let mut options = self.options.requests.clone();
            options.buffer_mb = options.buffer_mb.max(needed_mb);
            reading.hold_back(options.wait);
            requests = Some(requests::begin(
                &self.shared,
                Arc::clone(&client),
                self.visible.then(|| self.key().pid),
                options,
                ahead_ns,
                self.orders.clone(),
            ));
        }
        let mut settings: Option<JoinHandle<_>> = None;
        let mut healing: Option<JoinHandle<_>> = None;
        reading.sink.state(RunState::Attached);
        if self.kept.reported.replace(RunState::Attached) != Some(RunState::Attached) {
            log!(info: pid = self.key().pid, name = %bounded(&self.sketch.one_name()), "attached, .NET {version}");
        }
        let mut order = Order::Read;
        let mut end_by = None;
        let cause = loop {
            let timer = or_pending(reading.next_timer().map(sleep_until));
            tokio::select! {
                read = self.shared.buffer.read(&mut session, &mut reading.stream), if !reading.rests() => match read {
                    Ok(0) => break Cause::Closed,
                    Ok(n) => if let Err(error) = reading.take(n) {
                        break Cause::Broken(error);
                    },
                    Err(error) => break Cause::Failed(error.to_string()),
                },
                over = reading.memory.ended() => break Cause::Broken(over.into()),
                () = ordered_to_stop(&mut self.orders), if order == Order::Read => {
                    order = *self.orders.borrow();
                    end_by = Some(Instant::now() + STOP_TIMEOUT);
                    session.request_stop();
                    reading.hurry();
                }
                () = timer => {
                    if let Err(error) = reading.tick() {
                        break Cause::Broken(error);
                    }
                    if reading.settings_are_due() && order == Order::Read {
                        // Use a separate task: its session is stopped even if this task no longer waits for the result.
                        settings = Some(self.shared.commands.spawn(settings::read(Arc::clone(&client))));
                    }
                }
                read = joined(&mut settings) => {
                    settings = None;
                    self.kept.settings_read = true;
                    self.take_settings(&mut reading, read);
                }
                () = or_pending(watched.as_ref().map(|watched| watched.is_due())),
                    if order == Order::Read && healing.is_none() =>
                {
                    let Some(watched) = &watched else { continue };
                    if *self.orders.borrow() != Order::Read {
                        // The daemon is shutting down, so no further session starts.
                    } else if let Some(until) = reading.is_scarce_until() {
                        watched.others().postpone(until);
                    } else if watched.others().begin(Instant::now()) {
                        // Use a separate task, as for the settings.
                        let client = Arc::clone(&client);
                        healing = Some(self.shared.commands.spawn(heal(client)));
                    }
                }
                news = or_pending(requests.as_mut().map(|requests| requests.recv())) => match news {
                    Some(news) => self.take_requests(&mut reading, news),
                    // The task that reads requests has ended.
                    None => {
                        requests = None;
                        reading.requests_stopped();
                    }
                },
                healed = joined(&mut healing) => {
                    healing = None;
                    self.take_healed(&mut reading, healed);
                }
            }
        };
        // When the receiver is dropped, the task that reads requests stops its session.
        drop(requests);
        let ending = Ending {
            order,
            cause,
            is_closed_by_guard: session.was_closed_by_guard(),
            lived: reading.since.elapsed(),
        };
        // Wait for the task that reads the settings and the task that heals the process, because their sessions must
        // also end.
        let end_by = end_by.unwrap_or_else(|| Instant::now() + STOP_TIMEOUT);
        if let Some(settings) = settings {
            let _late = timeout_at(end_by, settings).await;
        }
        if let Some(healing) = healing {
            let _late = timeout_at(end_by, healing).await;
        }
        let unfinished = if ending.is_broken() {
            reading.release();
            if ending.must_drain() {
                let drained = timeout(STOP_TIMEOUT, session.drain(|_| ())).await;
                drop(drained);
            }
            None
        } else {
            let finished = reading.finish();
            // A process that exits while its session is stopped no longer answers; its stream is complete.
            let _stopped = session.stopped().await;
            finished.err()
        };
        self.kept.sink = Some(reading.sink);
        self.conclude(ending.verdict(unfinished.map(|error| error.to_string())))
    }

    /// Reports and logs the verdict about a session.
    fn conclude(&mut self, verdict: Verdict) -> End {
        match verdict {
            Verdict::OverMemory { problem, lived } => {
                self.over_memory(&problem);
                End::Again {
                    lived,
                    over_memory: true,
                }
            }
            Verdict::Detached { detail, warning, lived } => {
                if let Some(problem) = warning {
                    log!(
                        warn: pid = self.key().pid, name = %bounded(&self.sketch.one_name()),
                        "the session failed: {problem}"
                    );
                }
                self.report(RunState::Detached { detail });
                End::Again {
                    lived,
                    over_memory: false,
                }
            }
            Verdict::Stopped(problem) => {
                let detail = "gcwatch stopped the session".to_owned();
                self.report(RunState::Detached { detail });
                End::Stopped(problem)
            }
        }
    }

    /// Handles a stream that used too much memory. Only the first such stream of a process is logged as a warning;
    /// later streams are logged at level info, because the pauses between retries grow.
    fn over_memory(&mut self, problem: &str) {
        self.shared.sink.over_memory();
        let (pid, name) = (self.key().pid, bounded(&self.sketch.one_name()));
        let detail = format!("{problem}; gcwatch attaches again later, after a pause that grows up to an hour");
        if std::mem::replace(&mut self.kept.memory_reported, true) {
            log!(info: pid, %name, "detached: {detail}");
        } else {
            log!(warn: pid, %name, "detached: {detail}");
        }
        let reason = OVER_MEMORY.to_owned();
        let state = RunState::Unattachable { reason, detail };
        // This method has logged the state, so `report` must not log it again.
        self.kept.reported = Some(state.clone());
        self.report(state);
    }

    fn take_healed(&self, reading: &mut StreamReading<S::Run>, healed: Result<HealOutcome, TaskError>) {
        let (pid, name) = (self.key().pid, bounded(&self.sketch.one_name()));
        if let Some(watched) = &reading.others {
            watched.others().ended(healed.as_ref().ok().copied(), Instant::now());
        }
        match healed {
            Ok(HealOutcome::Busy) => log!(
                debug: pid, name,
                "a trace session ended, but the runtime is busy with a command of another tool; healing it later"
            ),
            Ok(HealOutcome::Yes) => {
                reading.sink.healed();
                log!(info: pid, name, "a trace session ended; gcwatch disabled the events that it left behind");
            }
            Err(problem) => log!(
                warn: pid, name,
                "a trace session ended, and its events can still slow collections; \
                 cannot disable them: {}; retrying", bounded(&problem.to_string())
            ),
        }
    }

    fn take_requests(&self, reading: &mut StreamReading<S::Run>, news: RequestMessage) {
        let (pid, name) = (self.key().pid, bounded(&self.sketch.one_name()));
        match news {
            RequestMessage::Batch(batch) => reading.take_requests(&batch),
            RequestMessage::Taken => {
                let why = "another tool uses Microsoft-Diagnostics-DiagnosticSource, which has only one filter; \
                           request impact is unavailable until gcwatch re-attaches";
                reading.requests_unread(why.to_owned());
                log!(warn: pid, name, "{why}");
            }
            RequestMessage::Paused(problem) => {
                let why = format!(
                    "requests are not observed: {}; gcwatch retries in 60 s",
                    bounded(&problem)
                );
                reading.requests_unread(why.clone());
                log!(info: pid, name, "{why}");
            }
            RequestMessage::Off(why) => {
                let why = format!("requests are no longer observed: {}", bounded(&why));
                reading.requests_unread(why.clone());
                log!(warn: pid, name, "{why}");
            }
        }
    }

    fn take_settings(&self, reading: &mut StreamReading<S::Run>, read: Result<Option<GcSettings>, TaskError>) {
        match read {
            Ok(Some(settings)) => reading.sink.learned(None, settings.attributes()),
            Ok(None) => {}
            Err(problem) => {
                log!(debug: pid = self.key().pid, "cannot read the GC settings: {}", bounded(&problem.to_string()))
            }
        }
    }
}

/// Heals a process by disabling events that another tool left enabled. Probes the runtime first, because a runtime
/// executes its commands in sequence. A command that waits behind a heap dump would start its session only when the
/// dump ends, and a dump can take any time on .NET 11. An unanswered probe leaves no session in the process.
async fn heal(client: Arc<Client>) -> Result<HealOutcome, Error> {
    match timeout(IDLE_TIMEOUT, client.probe()).await {
        Err(_) => Ok(HealOutcome::Busy),
        Ok(Err(error)) => Err(error),
        Ok(Ok(_)) => client.recompute_levels(HEAL_TIMEOUT).await.map(|()| HealOutcome::Yes),
    }
}

/// Error returned if a task that runs in addition to the session has failed.
#[derive(Debug, thiserror::Error)]
enum TaskError {
    /// The runtime refused the command or did not answer.
    #[error(transparent)]
    Runtime(#[from] Error),
    /// The task panicked or was cancelled.
    #[error(transparent)]
    Task(#[from] JoinError),
}

/// Waits for a task that runs in addition to the session, or indefinitely if no task runs.
async fn joined<T>(task: &mut Option<JoinHandle<Result<T, Error>>>) -> Result<T, TaskError> {
    Ok(or_pending(task.as_mut()).await??)
}
