//! Runs the bursts and heap dumps that open incidents request.
//!
//! ```text
//! each second: results, requests of open incidents -> evidence::schedule -> a thread with the task (`thread`)
//!                                                            '-> the answer for an incident
//! ```
//!
//! A thread that waits for a file system can hang indefinitely. The schedule leaves such a thread behind: the daemon
//! releases the burst lock of the host and adds the reason to the incident. Afterwards, other bursts can start.

mod dump;
mod marks;
mod thread;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use base::time::Moment;
use dotnet_diagnostics::Guard;
use evidence::automatic::BurstOptions;
use evidence::census::CensusOptions;
use evidence::heap::price;
use evidence::schedule::{Input, Outcome, Output, Schedule, TaskResult};
use incidents::Finding;
use rule_engine::rule::Evidence;
use tokio::sync::oneshot::Receiver;
use tokio::sync::oneshot::error::TryRecvError;

use crate::pipeline::{OF_BURSTS, Pipeline};

pub(super) use self::marks::BurstMarks;
use self::thread::{BurstThread, ThreadResult, Threads};

/// Number of bursts that incidents requested, by kind and outcome.
#[derive(Debug, Default)]
pub(crate) struct BurstStats {
    counts: [[AtomicU64; 4]; OF_BURSTS.len()],
    /// Whether the configuration allows bursts or heap dumps for incidents.
    enabled: AtomicBool,
}

/// Names of the outcomes, in the order of [`Outcome`].
const OUTCOMES: [&str; 4] = ["gathered", "cut", "failed", "refused"];

impl BurstStats {
    fn count(&self, evidence: Evidence, outcome: Outcome) {
        let kind = OF_BURSTS.iter().position(|kind| *kind == evidence);
        let counts = kind.and_then(|kind| self.counts.get(kind));
        let counter = counts.and_then(|counts| counts.get(outcome as usize));
        if let Some(counter) = counter {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns whether bursts are enabled or have been requested before.
    pub(crate) fn is_known(&self) -> bool {
        self.enabled.load(Ordering::Relaxed) || self.counts().any(|(_, _, count)| count > 0)
    }

    /// Returns the number of bursts for each kind and outcome.
    pub(crate) fn counts(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> + '_ {
        let kinds = OF_BURSTS.into_iter().map(|kind| kind.name());
        kinds.zip(&self.counts).flat_map(|(kind, counts)| {
            let outcomes = OUTCOMES.into_iter().zip(counts);
            outcomes.map(move |(outcome, count)| (kind, outcome, count.load(Ordering::Relaxed)))
        })
    }
}

/// The bursts of a daemon: the driver of the schedule.
#[derive(Debug)]
pub(super) struct Bursts {
    stats: Arc<BurstStats>,
    schedule: Schedule,
    threads: Threads,
    running: Option<BurstThread>,
    /// Hanging bursts that have not ended yet.
    left: Vec<Receiver<ThreadResult>>,
}

impl Bursts {
    /// Creates the bursts of a daemon. `marks` are the burst marks in the state directory; `None` if there is no
    /// state directory.
    pub(super) fn new(stats: Arc<BurstStats>, marks: Option<BurstMarks>) -> Self {
        let fatal = marks.as_ref().map(BurstMarks::left).unwrap_or_default();
        Self {
            stats,
            schedule: Schedule::new(fatal),
            threads: Threads::new(marks),
            running: None,
            left: Vec::new(),
        }
    }

    /// Applies new options.
    pub(super) fn configure(&mut self, options: BurstOptions, census: CensusOptions, lease_folder: PathBuf) {
        let _none = self.schedule.step(Moment::FIRST, Input::Options(options, census));
        self.stats.enabled.store(self.schedule.is_enabled(), Ordering::Relaxed);
        self.threads.lease_folder = lease_folder;
    }

    /// Sets the guard that closes the stream of a burst when gcwatch no longer reads the stream.
    pub(super) fn set_guard(&mut self, guard: Option<Arc<dyn Guard>>) {
        self.threads.guard = guard;
    }

    /// Passes results and requests to the schedule. Must be called once per second. `is_behind` is whether gcwatch has
    /// not yet read all pending events.
    pub(super) fn tick(&mut self, pipeline: &Pipeline, is_behind: bool, at: Moment) {
        let before = self.left.len();
        self.left
            .retain_mut(|ended| matches!(ended.try_recv(), Err(TryRecvError::Empty)));
        for _ in self.left.len()..before {
            self.step(pipeline, at, Input::LeftEnded);
        }
        if let Some(result) = self.take_result(pipeline) {
            self.step(pipeline, at, Input::Ended(result));
        }
        self.step(pipeline, at, Input::Time);
        let mut requests = Vec::new();
        if self.schedule.is_enabled() {
            requests = pipeline.evidence_requests();
        }
        let is_any_dump = requests.iter().any(|request| request.evidence == Evidence::Census);
        let available = is_any_dump.then(price::available).flatten();
        for request in &mut requests {
            request.condition.is_behind |= is_behind;
            request.condition.available = available;
        }
        self.step(pipeline, at, Input::Requests(requests));
    }

    /// Returns the result of the running thread if the thread has ended.
    fn take_result(&mut self, pipeline: &Pipeline) -> Option<TaskResult> {
        let thread = self.running.as_mut()?;
        let (run, incident, _) = thread.key;
        let (mut result, flame) = match thread.ended.try_recv() {
            Err(TryRecvError::Empty) => return None,
            Ok(ended) => ended,
            // The thread panicked, or it could not be started.
            Err(TryRecvError::Closed) => {
                let because = "the burst failed".to_owned();
                (TaskResult::Failed(because, Outcome::Failed), None)
            }
        };
        if let (TaskResult::Found(finding, _), Some(svg)) = (&mut result, flame)
            && let Finding::Allocations(found) = &mut **finding
        {
            found.flame = pipeline.flames().put(run, incident, &svg);
        }
        self.running = None;
        Some(result)
    }

    fn step(&mut self, pipeline: &Pipeline, at: Moment, input: Input) {
        for output in self.schedule.step(at, input) {
            match output {
                Output::Start { request, task, time } => {
                    let store = pipeline.store().cloned();
                    self.running = Some(self.threads.start(*request, task, time, store));
                }
                Output::Leave => {
                    if let Some(thread) = self.running.take() {
                        self.left.push(thread.leave());
                    }
                }
                Output::Stop => {
                    if let Some(thread) = &self.running {
                        thread.stop();
                    }
                }
                Output::Dumps(run, begins) => pipeline.dumps(run, begins),
                Output::Answer { key, outcome, finding } => {
                    let (run, incident, evidence) = key;
                    self.stats.count(evidence, outcome);
                    pipeline.found(run, incident, *finding);
                }
            }
        }
    }

    /// Stops the burst in progress. Afterwards, no burst starts. Returns the receiver of the result, or `None` if no
    /// burst is in progress.
    pub(super) fn stop(&mut self, pipeline: &Pipeline, at: Moment) -> Option<Receiver<ThreadResult>> {
        self.step(pipeline, at, Input::Stop);
        self.running.take().map(|thread| thread.ended)
    }
}
