//! The tasks of the runs: starts due tasks, schedules retries of finished ones, and stops all at shutdown.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::{Instant, timeout_at};

use crate::attempt::{Attempt, End};
use crate::kept_run::KeptRun;
use crate::order::{Order, STOP_TIMEOUT};
use crate::registry::Phase;
use crate::sink::{RunSink, Sink};
use crate::supervise::{Supervisor, UnfinishedSessions};
use base::run_key::RunKey;
use processes::text::bounded;
use processes::{Identity, RunState};

/// Time that tasks have in addition to [`STOP_TIMEOUT`] at shutdown.
const STOP_GRACE: Duration = Duration::from_secs(1);

/// The data that outlives a task and how the task ended, or the error if the task panicked or was aborted.
pub(crate) type TaskOutcome<T> = Result<(KeptRun<T>, End), JoinError>;

/// The running tasks.
#[derive(Debug)]
pub(crate) struct Tasks<T> {
    set: JoinSet<(KeptRun<T>, End)>,
    runs: HashMap<Id, RunKey>,
}

impl<T: RunSink> Tasks<T> {
    pub(crate) fn new() -> Self {
        Self {
            set: JoinSet::new(),
            runs: HashMap::new(),
        }
    }

    fn spawn(&mut self, key: RunKey, task: impl Future<Output = (KeptRun<T>, End)> + Send + 'static) {
        let task = self.set.spawn(task);
        self.runs.insert(task.id(), key);
    }

    /// Waits for the next task to end, or returns `None` if no task runs. This method is cancel safe.
    pub(crate) async fn ended(&mut self) -> Option<(RunKey, TaskOutcome<T>)> {
        loop {
            let (id, outcome) = match self.set.join_next_with_id().await? {
                Ok((id, outcome)) => (id, Ok(outcome)),
                Err(error) => (error.id(), Err(error)),
            };
            // Every task has an entry in `runs`.
            if let Some(key) = self.runs.remove(&id) {
                return Some((key, outcome));
            }
        }
    }
}

impl UnfinishedSessions {
    fn add(&mut self, identity: &Identity, problem: &str) {
        let name = bounded(&identity.name);
        self.sessions.push((identity.key.pid, name, bounded(problem)));
    }
}

impl<S: Sink> Supervisor<S> {
    pub(crate) fn start_what_is_due(&mut self, now: Instant) {
        let options = self.options.borrow().clone();
        let (start, over) = self.registry.due(now, options.max_targets);
        for key in start {
            let Some(entry) = self.registry.get_mut(key) else {
                continue;
            };
            let run = &mut entry.run;
            let (sender, orders) = watch::channel(Order::Read);
            run.orders = Some(sender);
            let attempt = Box::new(Attempt {
                shared: Arc::clone(&self.shared),
                options: Arc::clone(&options),
                sketch: run.identity.clone(),
                kept: run.kept.take().unwrap_or_default(),
                orders,
                visible: run.visible,
                reverse: run.reverse.clone(),
                begun: run.begun.take(),
            });
            self.tasks.spawn(key, attempt.run());
        }
        for key in over {
            let Some(entry) = self.registry.get_mut(key) else {
                continue;
            };
            // Dropping the sender resumes the runtime, so that it does not wait for a free slot.
            entry.run.begun = None;
            if entry.run.reported() != Some(&RunState::OverLimit) {
                entry.run.report(&self.shared.sink, RunState::OverLimit);
            }
        }
    }

    pub(crate) fn take_ended(&mut self, key: RunKey, outcome: TaskOutcome<S::Run>, now: Instant) {
        let (mut kept, end) = outcome.unwrap_or_else(|error| {
            log!(error: pid = key.pid, "the task of a process failed: {error}");
            (KeptRun::default(), End::FAILED)
        });
        let Some(entry) = self.registry.get_mut(key) else {
            return;
        };
        entry.run.orders = None;
        match end {
            End::Gone => {
                if let Some(entry) = self.registry.remove(key) {
                    self.end(&entry.run.identity, kept);
                }
            }
            End::Again { lived, over_memory } => {
                entry.run.kept = Some(kept);
                entry.again(lived, over_memory, now, fastrand::f64());
                if std::mem::take(&mut entry.run.looked_gone) {
                    self.scans.request.pids.insert(key.pid);
                }
            }
            End::Stopped(problem) => {
                if let Some(problem) = problem {
                    self.unfinished.add(&entry.run.identity, &problem);
                }
                // The run is excluded, so another gcwatch instance can read it.
                kept.lease = None;
                entry.phase = Phase::Excluded;
                entry.run.kept = Some(kept);
                entry.run.report(&self.shared.sink, RunState::Excluded);
            }
        }
    }

    /// Stops and drains all sessions.
    pub(crate) async fn shut_down(mut self) -> UnfinishedSessions {
        let deadline = Instant::now() + STOP_TIMEOUT + STOP_GRACE;
        // Dropping the arrivals resumes waiting runtimes while the sessions stop.
        self.arrivals.clear();
        for key in self.registry.keys().collect::<Vec<_>>() {
            if let Some(entry) = self.registry.get_mut(key) {
                entry.run.begun = None;
                entry.run.order(Order::ShutDown);
            }
        }
        while let Ok(Some((key, outcome))) = timeout_at(deadline, self.tasks.ended()).await {
            if let (Ok((_, End::Stopped(Some(problem)))), Some(entry)) = (outcome, self.registry.get(key)) {
                self.unfinished.add(&entry.run.identity, &problem);
            }
        }
        self.tasks.set.abort_all();
        while let Some((key, outcome)) = self.tasks.ended().await {
            if outcome.is_err() {
                let detail = "the task did not finish in time".to_owned();
                self.unfinished.sessions.push((key.pid, String::new(), detail));
            }
        }
        self.listening.close().await;
        self.unfinished
    }
}
