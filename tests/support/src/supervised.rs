//! A supervisor of targets, with a log of its reports.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use base::run_key::RunKey;
use base::time::TimeBase;
use clr_gc::gc::{Collection, OpenOperations, Outcome};
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use processes::{Identity, RunState, StreamProgress};
use targets::options::TargetOptions;
use targets::sink::TargetLimitError;
use targets::sink::{RunSink, Sink};
use targets::{Readers, UnfinishedSessions, supervise};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

/// Timeout for expected events; only a hanging test waits this long.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The reports about one run.
#[derive(Debug, Clone, Default)]
pub struct Run {
    pub identity: Option<Identity>,
    /// States in order, without repetitions.
    pub states: Vec<RunState>,
    pub opened: usize,
    pub attributes: BTreeMap<String, String>,
    pub bases: Vec<TimeBase>,
    pub collections: Vec<Collection>,
    pub progress: StreamProgress,
    /// Open stops and collections according to the last report.
    pub open: OpenOperations,
    /// Whether the end of the run was reported.
    pub ended: bool,
}

impl Run {
    pub fn state(&self) -> &RunState {
        self.states.last().unwrap_or(&RunState::Found)
    }

    pub fn is_attached(&self) -> bool {
        *self.state() == RunState::Attached
    }

    fn enter(&mut self, state: RunState) {
        if self.states.last() != Some(&state) {
            self.states.push(state);
        }
    }
}

/// A sink that stores all reports.
#[derive(Debug, Clone)]
pub struct Log {
    runs: watch::Sender<BTreeMap<RunKey, Run>>,
}

impl Log {
    fn new() -> Self {
        Self {
            runs: watch::Sender::new(BTreeMap::new()),
        }
    }

    fn update(&self, key: RunKey, change: impl FnOnce(&mut Run)) {
        self.runs.send_modify(|runs| change(runs.entry(key).or_default()));
    }

    /// Returns the newest run of a pid, or `None` if no run was reported.
    pub fn run(&self, pid: u32) -> Option<Run> {
        let runs = self.runs.borrow();
        runs.iter()
            .rev()
            .find(|(key, _)| key.pid == pid)
            .map(|(_, run)| run.clone())
    }

    /// Returns whether the newest run of a pid satisfies `fits` within `time`.
    pub async fn within(&self, time: Duration, pid: u32, fits: impl Fn(&Run) -> bool) -> bool {
        let mut runs = self.runs.subscribe();
        let of_pid = |runs: &BTreeMap<RunKey, Run>| {
            let run = runs.iter().rev().find(|(key, _)| key.pid == pid).map(|(_, run)| run);
            run.is_some_and(&fits)
        };
        tokio::time::timeout(time, runs.wait_for(of_pid)).await.is_ok()
    }

    /// Waits until the newest run of a pid satisfies `fits`, and returns the run.
    pub async fn until(&self, pid: u32, what: &str, fits: impl Fn(&Run) -> bool) -> Run {
        let waited = self.within(TIMEOUT, pid, fits).await;
        let run = self.run(pid);
        let states = run.as_ref().map(|run| &run.states);
        assert!(waited, "process {pid}, {what}: {states:#?}");
        run.unwrap()
    }
}

/// The sink for the reports of one run.
#[derive(Debug)]
pub struct LogOfRun {
    log: Log,
    key: RunKey,
}

impl Sink for Log {
    type Run = LogOfRun;

    fn open(&self, identity: Identity) -> Result<LogOfRun, TargetLimitError> {
        let key = identity.key;
        self.update(key, |run| {
            run.opened += 1;
            run.attributes.extend(shown(&identity.resource));
            run.identity = Some(identity);
        });
        Ok(LogOfRun { log: self.clone(), key })
    }

    fn note(&self, identity: &Identity, state: RunState) {
        self.update(identity.key, |run| run.enter(state));
    }

    fn forget(&self, key: RunKey) {
        self.update(key, |run| run.ended = true);
    }
}

impl RunSink for LogOfRun {
    fn state(&mut self, state: RunState) {
        self.log.update(self.key, |run| run.enter(state));
    }

    fn learned(&mut self, _runtime: Option<String>, attributes: Vec<KeyValue>) {
        self.log
            .update(self.key, |run| run.attributes.extend(shown(&attributes)));
    }

    fn time_base(&mut self, base: TimeBase) {
        self.log.update(self.key, |run| run.bases.push(base));
    }

    fn observe(&mut self, outcome: Outcome) {
        if let Outcome::Collection(collection) = outcome {
            self.log.update(self.key, |run| run.collections.push(*collection));
        }
    }

    fn progress(&mut self, progress: StreamProgress) {
        self.log.update(self.key, |run| run.progress = progress);
    }

    fn open(&mut self, open: OpenOperations) {
        self.log.update(self.key, |run| run.open = open);
    }

    fn end(self) {
        self.log.update(self.key, |run| run.ended = true);
    }
}

fn shown(attributes: &[KeyValue]) -> BTreeMap<String, String> {
    let value = |attribute: &KeyValue| match attribute.value.as_ref().and_then(|value| value.value.as_ref()) {
        Some(Value::StringValue(text)) => text.clone(),
        Some(Value::IntValue(number)) => number.to_string(),
        Some(Value::BoolValue(is)) => is.to_string(),
        other => format!("{other:?}"),
    };
    attributes
        .iter()
        .map(|attribute| (attribute.key.clone(), value(attribute)))
        .collect()
}

/// A running supervisor with the options of a test, and the log of its reports.
pub struct TestSupervisor {
    pub log: Log,
    pub options: watch::Sender<Arc<TargetOptions>>,
    stop: oneshot::Sender<()>,
    task: JoinHandle<UnfinishedSessions>,
}

impl Deref for TestSupervisor {
    type Target = Log;

    fn deref(&self) -> &Log {
        &self.log
    }
}

impl TestSupervisor {
    pub fn start(options: TargetOptions) -> Self {
        let log = Log::new();
        let (sender, options) = watch::channel(Arc::new(options));
        let (stop, stopped) = oneshot::channel();
        let sink = log.clone();
        let task = tokio::spawn(supervise(options, sink, Readers::here(), async {
            let _dropped = stopped.await;
        }));
        Self {
            log,
            options: sender,
            stop,
            task,
        }
    }

    /// Stops the supervisor and returns its unfinished sessions.
    pub async fn stop(self) -> UnfinishedSessions {
        self.stop.send(()).unwrap();
        tokio::time::timeout(TIMEOUT, self.task).await.unwrap().unwrap()
    }
}
