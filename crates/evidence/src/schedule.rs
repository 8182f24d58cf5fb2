//! The schedule of the bursts and heap dumps that open incidents request: which of them runs, in which order, for how
//! long a request waits, and what an incident gets in the end. The schedule is pure: [`Schedule::step`] takes an input
//! and a time, and returns the work for its driver.
//!
//! ```text
//! requests of open incidents --.                        .--> start a task, one at a time
//! result of the running task ---+--> Schedule::step ----+--> leave a hanging task behind, stop the task
//! time, options, stop ---------'                        '--> the answer for an incident
//! ```
//!
//! * **Fairness**: the tenant whose last task is oldest comes first, then the service within the tenant, then the
//!   oldest request.
//! * **Patience**: a request waits while its obstacle is temporary, for at most [`BURST_WAIT_TIMEOUT`] or
//!   [`DUMP_WAIT_TIMEOUT`]. The time during which a task runs does not count.
//! * **One answer**: each request that starts or is refused gets one answer. A result that arrives after its task was
//!   left behind gets no answer.

mod censuses;
#[cfg(test)]
mod tests;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use base::run_key::RunKey;
use base::time::Moment;
use clr_heap::survey::Survey;
use incidents::{Finding, QuotaOwner};
use rule_engine::ledger::Ledger;
use rule_engine::rule::Evidence;

use crate::automatic::{self, BURST_WAIT_TIMEOUT, BurstOptions, Condition, OtherBursts};
use crate::burst::Question;
use crate::census::{self, CensusOptions, DUMP_WAIT_TIMEOUT, Plan};

use self::censuses::Censuses;

/// Maximum number of tasks that are left behind at a time. While this number is reached, no task starts.
pub const MAX_LEFT: usize = 8;
/// Maximum number of runs, of services and of tenants whose last task is remembered. Beyond this number, the oldest
/// entry is dropped.
const MAX_REMEMBERED: usize = 4096;
/// Duration of a burst of stacks. A burst of this duration yields a few hundred samples per thread. Each sample
/// suspends all threads.
const STACKS_FOR: Duration = Duration::from_millis(300);
/// Maximum duration of a heap dump, not counting its forecast suspensions: reading, decoding names, healing. The limit
/// matters because the burst lock is host-wide.
const DUMP_BESIDE: Duration = Duration::from_secs(30);
/// A task is left behind if it is still running this long after its start and stop deadlines. The value covers
/// [`ANSWER_TIMEOUT`](crate::heap::child::ANSWER_TIMEOUT) of a heap dump, and healing the process.
const LEFT_AFTER: Duration = Duration::from_secs(180);

/// The key of a request: a run, the number of its incident, and the requested evidence.
pub type RequestKey = (RunKey, u64, Evidence);

/// A request of an open incident for evidence that the incident does not have yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EvidenceRequest {
    /// The process of the incident.
    pub run: RunKey,
    /// Number of the incident.
    pub incident: u64,
    /// Id of the incident, as in its records.
    pub incident_id: String,
    /// Kind of evidence.
    pub evidence: Evidence,
    /// Owner of the quota that the request uses.
    pub share: QuotaOwner,
    /// Facts about the process.
    pub condition: Condition,
    /// Memory ledger with its growing parts; `None` if unknown or not requested.
    pub account: Option<Arc<Ledger>>,
}

impl EvidenceRequest {
    /// Returns the key that identifies the request.
    pub fn key(&self) -> RequestKey {
        (self.run, self.incident, self.evidence)
    }
}

/// The kind of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Task {
    /// A burst.
    Burst(Question),
    /// A heap dump.
    Dump(Plan),
}

/// The outcome of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The evidence is complete.
    Gathered,
    /// The evidence is incomplete.
    Cut,
    /// The task failed.
    Failed,
    /// No task ran, or the task was ended because of its cost.
    Refused,
}

/// The result of a task.
#[derive(Debug)]
pub enum TaskResult {
    /// The finding of a burst.
    Found(Box<Finding>, Outcome),
    /// The finding of a burst whose session the process did not end in time.
    Late(Box<Finding>),
    /// A heap dump, taken according to this plan.
    Surveyed(Box<Survey>, Plan),
    /// There is no evidence, for a reason that is a clause.
    Failed(String, Outcome),
    /// Another burst held the burst lock of the host.
    Busy,
}

/// Inputs of the schedule.
#[derive(Debug)]
pub enum Input {
    /// The options changed.
    Options(BurstOptions, CensusOptions),
    /// The running task ended.
    Ended(TaskResult),
    /// A task that was left behind ended.
    LeftEnded,
    /// Time passed.
    Time,
    /// The requests of all open incidents, the most severe incidents first.
    Requests(Vec<EvidenceRequest>),
    /// gcwatch stops. All later inputs are ignored.
    Stop,
}

/// Outputs of the schedule, for its driver.
#[derive(Debug, PartialEq)]
pub enum Output {
    /// A task starts. It requests the end of its session after `time`, and the session ends within the same time again.
    Start {
        /// The request.
        request: Box<EvidenceRequest>,
        /// Kind of the task.
        task: Task,
        /// Duration of a burst, or the maximum duration of the start and of the stop of a dump.
        time: Duration,
    },
    /// The running task hangs: the driver releases the burst lock of the host and no longer waits for the task.
    Leave,
    /// The running task must end now.
    Stop,
    /// A heap dump of a run starts (`true`) or has ended.
    Dumps(RunKey, bool),
    /// The answer to a request.
    Answer {
        /// Key of the request.
        key: RequestKey,
        /// Outcome of the request.
        outcome: Outcome,
        /// The finding, or the reason for a missing finding.
        finding: Box<Finding>,
    },
}

/// The schedule of bursts and heap dumps of one host.
#[derive(Debug, Default)]
pub struct Schedule {
    bursts: BurstOptions,
    census: CensusOptions,
    /// Runs during whose tasks gcwatch died.
    fatal: BTreeSet<RunKey>,
    running: Option<RunningTask>,
    /// Number of hanging tasks that have not ended yet.
    left: usize,
    /// Start of the newest burst of each run.
    newest: BTreeMap<RunKey, Moment>,
    /// Pending requests, their order, and the time for which they waited while no task was running.
    waiting: BTreeMap<RequestKey, QueuedRequest>,
    /// Counter that numbers requests in the order of their arrival.
    came: u64,
    /// End of the newest late task of each service.
    late: BTreeMap<QuotaOwner, Moment>,
    /// Start of the newest task of each service.
    of_service: BTreeMap<QuotaOwner, Moment>,
    /// Start of the newest task of each tenant.
    of_tenant: BTreeMap<Arc<str>, Moment>,
    last_requests: Option<Moment>,
    censuses: Censuses,
    is_stopped: bool,
}

/// The task in progress.
#[derive(Debug)]
struct RunningTask {
    key: RequestKey,
    task: Task,
    share: QuotaOwner,
    begun: Moment,
    /// Maximum duration of the start and of the stop. A failed heap dump that took at least this long counts as late.
    within: Duration,
}

impl RunningTask {
    /// Returns whether the task hangs, that is, whether its own deadlines passed long ago.
    fn hangs(&self, at: Moment) -> bool {
        passed(self.begun, at) >= self.within.saturating_mul(2).saturating_add(LEFT_AFTER)
    }
}

/// A pending request.
#[derive(Debug, Clone, Copy, Default)]
struct QueuedRequest {
    /// Position of the request in the order of arrival.
    number: u64,
    waited: Duration,
}

/// The decision about a request.
enum Verdict {
    Start(Task),
    /// The second dump is due later. The time until then does not count as waiting time.
    Later,
    /// The request waits, for a temporary reason.
    Wait(String),
    /// The request is refused.
    Never(String),
}

impl Schedule {
    /// Creates a schedule. `fatal` are the runs during whose tasks gcwatch died.
    pub fn new(fatal: BTreeSet<RunKey>) -> Self {
        Self {
            fatal,
            ..Self::default()
        }
    }

    /// Returns whether the options allow bursts or heap dumps for incidents.
    pub fn is_enabled(&self) -> bool {
        self.bursts.enabled || self.census.enabled
    }

    /// Applies an input, and returns the resulting work in order.
    pub fn step(&mut self, at: Moment, input: Input) -> Vec<Output> {
        let mut outputs = Vec::new();
        if self.is_stopped {
            return outputs;
        }
        match input {
            Input::Options(bursts, census) => (self.bursts, self.census) = (bursts, census),
            Input::Ended(result) => {
                if let Some(running) = self.running.take() {
                    self.end(at, running, result, &mut outputs);
                }
            }
            Input::LeftEnded => self.left = self.left.saturating_sub(1),
            Input::Time => {
                if let Some(running) = self.running.take_if(|running| running.hangs(at)) {
                    outputs.push(Output::Leave);
                    self.left += 1;
                    remember(&mut self.late, running.share.clone(), at);
                    let because = "the burst has not ended: a file system of the process does not respond";
                    let result = TaskResult::Failed(because.to_owned(), Outcome::Failed);
                    self.end(at, running, result, &mut outputs);
                }
            }
            Input::Requests(requests) => self.decide(at, requests, &mut outputs),
            Input::Stop => {
                self.is_stopped = true;
                outputs.extend(self.running.take().map(|_| Output::Stop));
            }
        }
        outputs
    }

    /// Handles the end of a task.
    fn end(&mut self, at: Moment, running: RunningTask, result: TaskResult, outputs: &mut Vec<Output>) {
        let (key, is_dump) = (running.key, matches!(running.task, Task::Dump(_)));
        if is_dump {
            outputs.push(Output::Dumps(key.0, false));
        }
        let waits = match result {
            TaskResult::Busy => self.waiting.get(&key).copied(),
            _ => self.waiting.remove(&key),
        };
        if is_dump && !matches!(result, TaskResult::Busy) {
            self.censuses.had(&key, &running.share, at);
        }
        let (outcome, finding) = match result {
            TaskResult::Busy => {
                if !is_dump {
                    self.newest.remove(&key.0);
                }
                if waits.is_some_and(|waits| waits.waited < patience(key.2)) {
                    return;
                }
                self.waiting.remove(&key);
                let because = "another burst is running on this host".to_owned();
                (Outcome::Refused, self.none(&key, because))
            }
            TaskResult::Found(finding, outcome) => (outcome, *finding),
            TaskResult::Late(finding) => {
                remember(&mut self.late, running.share, at);
                (Outcome::Cut, *finding)
            }
            TaskResult::Surveyed(survey, plan) => (Outcome::Gathered, self.censuses.surveyed(key, *survey, plan, at)),
            TaskResult::Failed(because, outcome) => {
                if is_dump && passed(running.begun, at) >= running.within {
                    remember(&mut self.late, running.share, at);
                }
                (outcome, self.none(&key, because))
            }
        };
        outputs.push(answer(key, outcome, finding));
    }

    /// Refuses requests, and starts the first task that can start.
    fn decide(&mut self, at: Moment, mut requests: Vec<EvidenceRequest>, outputs: &mut Vec<Output>) {
        if !self.is_enabled() {
            self.waiting.clear();
            self.censuses.retain(|_| false);
            return;
        }
        requests.retain(|request| match request.evidence {
            Evidence::Census => self.census.enabled,
            _ => self.bursts.enabled,
        });
        self.queue(at, &requests);
        // Tenants without a task come first, then tenants whose last task is oldest, so that a new service name gives
        // its tenant no advantage. Services within a tenant are ordered the same way, then requests by arrival.
        requests.sort_by_key(|request| {
            (
                self.of_tenant.get(&request.share.tenant).copied(),
                self.of_service.get(&request.share).copied(),
                self.waiting.get(&request.key()).map(|waits| waits.number),
            )
        });
        for request in requests {
            let key = request.key();
            if self.running.as_ref().is_some_and(|running| running.key == key) {
                continue;
            }
            let waited = self.waiting.get(&key).map_or(Duration::ZERO, |waits| waits.waited);
            match self.verdict(at, &request) {
                Verdict::Start(task) => self.start(at, request, task, outputs),
                Verdict::Later => drop(self.waiting.remove(&key)),
                Verdict::Wait(_) if waited < patience(key.2) => {}
                Verdict::Wait(because) | Verdict::Never(because) => {
                    self.waiting.remove(&key);
                    let finding = self.none(&key, because);
                    outputs.push(answer(key, Outcome::Refused, finding));
                }
            }
        }
    }

    /// Updates the pending requests and their waiting times.
    fn queue(&mut self, at: Moment, requests: &[EvidenceRequest]) {
        let keys: BTreeSet<RequestKey> = requests.iter().map(EvidenceRequest::key).collect();
        self.waiting.retain(|key, _| keys.contains(key));
        self.censuses.retain(|key| keys.contains(key));
        // Time during which a task runs does not count as waiting time.
        let last = self.last_requests.replace(at).filter(|_| self.running.is_none());
        let passed = last.map_or(Duration::ZERO, |last| passed(last, at));
        for request in requests {
            match self.waiting.entry(request.key()) {
                Entry::Occupied(mut waits) => waits.get_mut().waited += passed,
                // The request arrived after the previous requests, so the time since then does not count.
                Entry::Vacant(place) => {
                    self.came += 1;
                    place.insert(QueuedRequest {
                        number: self.came,
                        waited: Duration::ZERO,
                    });
                }
            }
        }
    }

    fn verdict(&self, at: Moment, request: &EvidenceRequest) -> Verdict {
        if self.left >= MAX_LEFT {
            return Verdict::Wait(format!("{MAX_LEFT} bursts wait for file systems that do not respond"));
        }
        let ago = |time: &Moment| passed(*time, at);
        let others = OtherBursts {
            is_one_running: self.running.is_some(),
            of_process: self.newest.get(&request.run).map(ago),
            late_of_service: self.late.get(&request.share).map(ago),
            was_fatal: self.fatal.contains(&request.run),
        };
        let condition = &request.condition;
        if request.evidence == Evidence::Census {
            let history = self.censuses.history(&request.key(), &request.share, at);
            return match census::decide(request.account.as_deref(), condition, others, &history, &self.census) {
                census::Decision::Take(plan) => Verdict::Start(Task::Dump(plan)),
                census::Decision::Later => Verdict::Later,
                census::Decision::Wait(because) => Verdict::Wait(because),
                census::Decision::Never(because) => Verdict::Never(because),
            };
        }
        match automatic::decide(request.evidence, condition, others, &self.bursts) {
            automatic::Decision::Start(question) => Verdict::Start(Task::Burst(question)),
            automatic::Decision::Wait(because) => Verdict::Wait(because),
            automatic::Decision::Never(because) => Verdict::Never(because),
        }
    }

    fn start(&mut self, at: Moment, request: EvidenceRequest, task: Task, outputs: &mut Vec<Output>) {
        let time = match task {
            Task::Burst(Question::Stacks) => STACKS_FOR,
            Task::Burst(_) => self.bursts.time,
            Task::Dump(_) => DUMP_BESIDE.saturating_add(self.census.most_stop.saturating_mul(4)),
        };
        match task {
            Task::Burst(_) => remember(&mut self.newest, request.run, at),
            Task::Dump(_) => outputs.push(Output::Dumps(request.run, true)),
        }
        remember(&mut self.of_service, request.share.clone(), at);
        remember(&mut self.of_tenant, Arc::clone(&request.share.tenant), at);
        self.running = Some(RunningTask {
            key: request.key(),
            task,
            share: request.share.clone(),
            begun: at,
            within: time,
        });
        let request = Box::new(request);
        outputs.push(Output::Start { request, task, time });
    }

    /// Returns a finding without evidence, with the reason.
    fn none(&mut self, key: &RequestKey, because: String) -> Finding {
        match key.2 {
            Evidence::Census => self.censuses.none(key, because),
            evidence => automatic::none(evidence, because),
        }
    }
}

fn answer(key: RequestKey, outcome: Outcome, finding: Finding) -> Output {
    let finding = Box::new(finding);
    Output::Answer { key, outcome, finding }
}

fn passed(from: Moment, to: Moment) -> Duration {
    Duration::from_nanos(to.since(from))
}

/// Returns the maximum time for which a request waits for a suitable moment.
fn patience(evidence: Evidence) -> Duration {
    match evidence {
        Evidence::Census => DUMP_WAIT_TIMEOUT,
        _ => BURST_WAIT_TIMEOUT,
    }
}

/// Records a time. If there are too many entries, the oldest entry is dropped.
fn remember<K: Ord + Clone>(times: &mut BTreeMap<K, Moment>, key: K, at: Moment) {
    times.insert(key, at);
    if times.len() > MAX_REMEMBERED {
        let oldest = times.iter().min_by_key(|(_, time)| **time);
        if let Some(oldest) = oldest.map(|(key, _)| key.clone()) {
            times.remove(&oldest);
        }
    }
}
