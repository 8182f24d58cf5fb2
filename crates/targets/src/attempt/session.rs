//! Reads a session from its first byte to its last: the driver of [`Session`], which makes the decisions.

use std::sync::Arc;
use std::time::Duration;

use dotnet_diagnostics::{Client, Error};
use tokio::sync::mpsc::Receiver;
use tokio::task::{JoinError, JoinHandle};
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use super::{Attempt, End, StartedSession};
use crate::cpu_wait::CpuWaits;
use crate::kept_run::KeptRun;
use crate::memory::OVER_MEMORY;
use crate::order::{STOP_TIMEOUT, ordered_to_stop};
use crate::others::{HealOutcome, WatchedProcess};
use crate::pending::or_pending;
use crate::reading::StreamReading;
use crate::requests::{self, RequestMessage};
use crate::session::{Input, Output, Session, Verdict};
use crate::settings::{self, GcSettings};
use crate::sink::{RunSink, Sink};
use crate::tool_thread::ToolThread;
use processes::RunState;
use processes::text::bounded;

/// Timeout for the healing session, which normally takes less than 0.1 s.
const HEAL_TIMEOUT: Duration = Duration::from_secs(5);
/// Timeout for the probe before the healing. A runtime that is busy with another tool's command does not answer.
const IDLE_TIMEOUT: Duration = Duration::from_secs(1);

/// A session that is being read, and the tasks that run in addition.
struct OngoingSession<T> {
    /// Decides what happens.
    state: Session,
    session: dotnet_diagnostics::Session,
    client: Arc<Client>,
    reading: StreamReading<T>,
    /// The task that reads the settings; `None` if it is not running.
    settings: Option<JoinHandle<Result<Option<GcSettings>, Error>>>,
    /// The task that heals the process; `None` if it is not running.
    healing: Option<JoinHandle<Result<HealOutcome, Error>>>,
    /// Messages from the task that reads requests; `None` if requests are not read.
    requests: Option<Receiver<RequestMessage>>,
}

impl<S: Sink> Attempt<S> {
    /// Reads the session to its end.
    pub(super) async fn read(mut self: Box<Self>, begun: Box<StartedSession>) -> (KeptRun<S::Run>, End) {
        let end = self.read_to_end(begun).await;
        (self.kept, end)
    }

    async fn read_to_end(&mut self, begun: Box<StartedSession>) -> End {
        let mut ongoing = match self.start_reading(begun) {
            Ok(ongoing) => ongoing,
            Err(end) => return end,
        };
        while !ongoing.state.has_ended() {
            if let Some(input) = self.next_input(&mut ongoing).await {
                self.apply(&mut ongoing, input);
            }
        }
        self.finish(ongoing).await
    }

    fn start_reading(&mut self, begun: Box<StartedSession>) -> Result<Box<OngoingSession<S::Run>>, End> {
        let StartedSession {
            mut session,
            client,
            ahead_ns,
            watched,
            reads_requests,
            needed_mb,
        } = *begun;
        if let Err(error) = session.move_here() {
            return Err(self.unattachable(error.obstacle()));
        }
        let Some(sink) = self.kept.sink.take() else {
            return Err(End::FAILED);
        };
        let version = self
            .sketch
            .runtime
            .clone()
            .unwrap_or_else(|| "of unknown version".to_owned());
        let now = Instant::now();
        let reads_settings = self.options.read_settings && !self.kept.settings_read;
        let state = Session::new(now, Arc::clone(&self.shared.readers.rounds), reads_settings);
        let mut reading = StreamReading::new(sink, ahead_ns, self.shared.memory.share(), now);
        reading.others = watched;
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
        reading.sink.state(RunState::Attached);
        if self.kept.reported.replace(RunState::Attached) != Some(RunState::Attached) {
            log!(info: pid = self.key().pid, name = %bounded(&self.sketch.one_name()), "attached, .NET {version}");
        }
        Ok(Box::new(OngoingSession {
            state,
            session,
            client,
            reading,
            settings: None,
            healing: None,
            requests,
        }))
    }

    /// Waits for the next event of a session. Returns `None` if the event is reported and decides nothing.
    async fn next_input(&mut self, ongoing: &mut OngoingSession<S::Run>) -> Option<Input> {
        let OngoingSession {
            state,
            session,
            reading,
            settings,
            healing,
            requests,
            ..
        } = ongoing;
        let timers = [state.next_timer(), reading.next_timer()];
        let timer = or_pending(timers.into_iter().flatten().min().map(sleep_until));
        let input = tokio::select! {
            read = self.shared.buffer.read(session, &mut reading.stream), if !state.rests() => match read {
                Ok(count) => Input::Bytes(count),
                Err(error) => Input::Failed(error.to_string()),
            },
            over = reading.memory.ended() => Input::Broken(over.into()),
            () = ordered_to_stop(&mut self.orders), if state.awaits_order() => Input::Order(*self.orders.borrow()),
            () = timer => Input::Time,
            read = joined(settings) => {
                *settings = None;
                self.kept.settings_read = true;
                self.take_settings(reading, read);
                Input::SettingsRead
            }
            () = or_pending(reading.others.as_ref().map(|watched| watched.is_due())), if state.awaits_healing() => {
                Input::HealingDue(*self.orders.borrow())
            }
            news = or_pending(requests.as_mut().map(Receiver::recv)) => match news {
                Some(news) => {
                    self.take_requests(reading, news);
                    return None;
                }
                // The task that reads requests has ended.
                None => {
                    *requests = None;
                    Input::RequestsEnded
                }
            },
            healed = joined(healing) => {
                *healing = None;
                self.take_healed(reading, healed);
                Input::Healed
            }
        };
        Some(input)
    }

    /// Applies an input to a session, and carries out the outputs.
    fn apply(&self, ongoing: &mut OngoingSession<S::Run>, input: Input) {
        let now = Instant::now();
        let mut next = Some(input);
        while let Some(input) = next.take() {
            for output in ongoing.state.step(now, input).into_iter().flatten() {
                // At most the last output has a result.
                next = self.carry_out(ongoing, now, output);
            }
        }
    }

    /// Carries out an output. Returns the result as an input, if there is one.
    fn carry_out(&self, ongoing: &mut OngoingSession<S::Run>, now: Instant, output: Output) -> Option<Input> {
        let OngoingSession { reading, client, .. } = ongoing;
        match output {
            Output::Undrained(is_undrained) => reading.sink.undrained(is_undrained),
            Output::Decode(count) => {
                return Some(reading.take(count, now).map_or_else(Input::Broken, Input::Decoded));
            }
            Output::Flush(silent) => {
                let flushed = reading.flush(silent, now);
                return Some(
                    flushed.map_or_else(Input::Broken, |(decoded, is_waiting)| Input::Flushed {
                        decoded,
                        is_waiting,
                    }),
                );
            }
            Output::Report => reading.report(now),
            Output::ReadSettings => {
                // Use a separate task: its session is stopped even if this task no longer waits for the result.
                let settings = settings::read(Arc::clone(client));
                ongoing.settings = Some(self.shared.commands.spawn(settings));
            }
            Output::Heal => {
                let begins = |watched: &Arc<WatchedProcess>| watched.others().begin(now);
                if reading.others.as_ref().is_some_and(begins) {
                    // Use a separate task, as for the settings.
                    let healing = heal(Arc::clone(client));
                    ongoing.healing = Some(self.shared.commands.spawn(healing));
                    return Some(Input::HealingStarted);
                }
            }
            Output::PostponeHealing(until) => {
                if let Some(watched) = &reading.others {
                    watched.others().postpone(until);
                }
            }
            Output::RequestStop => ongoing.session.request_stop(),
            Output::ReleaseOutcomes => reading.requests_stopped(),
        }
        None
    }

    /// Finishes a session that has ended: waits for its tasks, finishes or releases its stream, and reports the
    /// verdict.
    async fn finish(&mut self, mut ongoing: Box<OngoingSession<S::Run>>) -> End {
        // When the receiver is dropped, the task that reads requests stops its session.
        ongoing.requests = None;
        let is_closed_by_guard = ongoing.session.was_closed_by_guard();
        let ending = ongoing.state.ending(Instant::now(), is_closed_by_guard);
        if let (Some(until), Some(settings)) = (ending.wait_until, ongoing.settings.take()) {
            let _late = timeout_at(until, settings).await;
        }
        if let (Some(until), Some(healing)) = (ending.wait_until, ongoing.healing.take()) {
            let _late = timeout_at(until, healing).await;
        }
        let unfinished = if ending.is_broken() {
            ongoing.reading.release();
            if ending.must_drain() {
                let drained = timeout(STOP_TIMEOUT, ongoing.session.drain(|_| ())).await;
                drop(drained);
            }
            None
        } else {
            let finished = ongoing.reading.finish(Instant::now());
            // A process that exits while its session is stopped no longer answers; its stream is complete.
            let _stopped = ongoing.session.stopped().await;
            finished.err()
        };
        self.kept.sink = Some(ongoing.reading.sink);
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
