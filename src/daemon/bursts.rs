//! Runs the bursts and heap dumps that open incidents request.
//!
//! ```text
//! each second: requests of open incidents -> evidence::automatic::decide -> a thread with the burst, one at a time
//!                                         evidence::census::decide    -> the same with a heap dump (`census`)
//!                                                     '-> why not ---.             |
//!              the incident <----------------------------------------+-------------'
//! ```
//!
//! Each burst has a dedicated thread and executor, because decoding names takes time and must not block other tasks. A
//! burst ends with an attempt to heal the process. If gcwatch is killed during a burst, the burst lease names the
//! process that the next instance heals (`targets::others`).
//!
//! A thread that waits for a file system can hang indefinitely. A burst that is still running [`LEFT_AFTER`] after its
//! deadlines is left behind: the daemon releases the burst lock of the host and adds the reason to the incident.
//! Afterwards, other bursts can start.

mod census;
mod marks;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use base::clock::now_unix_ns;
use clr_evidence::burst::Weight;
use clr_evidence::flame;
use clr_heap::survey::Survey;
use dotnet_diagnostics::discovery::{Process, Scan};
use dotnet_diagnostics::{Client, Deadlines, Endpoint, Guard};
use incidents::{Finding, QuotaOwner};
use rule_engine::rule::Evidence;
use tokio::sync::{Notify, Semaphore};
use tracing::warn;

use crate::pipeline::{EvidenceRequest, OF_BURSTS, Pipeline};
use base::run_key::RunKey;
use evidence::automatic::{self, BURST_WAIT_TIMEOUT, BurstOptions, Decision, END_TIMEOUT, OtherBursts};
use evidence::burst::{self, BurstOutcome, Question, StoppedBy};
use evidence::census::{self as decision, CensusOptions, Plan};
use evidence::heap::files::LeftBehind;
use evidence::heap::{price, session};
use evidence::lock::BurstLock;
use evidence::store::Store;
use targets::FileReading;
use targets::thread_names::{FINALIZER, names};

use self::census::Censuses;
pub(super) use self::marks::BurstMarks;

/// Maximum number of runs, of services and of tenants whose last burst is remembered. Beyond this number, the oldest
/// entry is dropped.
const MAX_REMEMBERED: usize = 4096;

/// A run, the number of its incident, and the requested evidence.
type EvidenceRequestKey = (RunKey, u64, Evidence);

/// Duration of a burst of stacks. A burst of this duration yields a few hundred samples per thread. Each sample
/// suspends all threads.
const STACKS_FOR: Duration = Duration::from_millis(300);
/// Maximum duration of a heap dump, not counting its forecast suspensions: reading, decoding names, healing. The limit
/// matters because the burst lock is host-wide.
const DUMP_BESIDE: Duration = Duration::from_secs(30);
/// Timeout for reading the files that identify a process.
const INSPECT_TIMEOUT: Duration = Duration::from_secs(2);
/// A burst is left behind if it is still running this long after its start and stop deadlines. The value covers
/// [`ANSWER_TIMEOUT`](evidence::heap::child::ANSWER_TIMEOUT) of a heap dump, and healing the process.
const LEFT_AFTER: Duration = Duration::from_secs(180);
/// Maximum number of threads that are left behind at a time. While this number is reached, no burst starts.
const MAX_LEFT: usize = 8;

/// Number of bursts that incidents requested, by kind and outcome.
#[derive(Debug, Default)]
pub(crate) struct BurstStats {
    counts: [[AtomicU64; 4]; OF_BURSTS.len()],
    /// Whether the configuration allows bursts or heap dumps for incidents.
    enabled: AtomicBool,
}

/// The outcome of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Gathered,
    Cut,
    Failed,
    Refused,
}

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

/// The result of a burst.
#[derive(Debug)]
enum BurstResult {
    /// A finding, and for a burst of allocations the flame graph of its stacks.
    Found(Box<Finding>, Outcome, Option<FlameGraph>),
    /// A finding from a burst whose session the process did not end in time.
    Late(Box<Finding>),
    /// A heap dump, or the reason why it failed.
    Surveyed(Result<Box<Survey>, (String, Outcome)>, Plan),
    /// Another burst held the burst lock.
    Busy,
}

/// A flame graph of the stacks of a burst, as SVG.
#[derive(Debug)]
struct FlameGraph(String);

/// The task that runs for an incident.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Burst(Question),
    Dump(Plan),
}

/// The burst or heap dump in progress.
#[derive(Debug)]
struct RunningBurst {
    want: EvidenceRequestKey,
    task: Kind,
    share: QuotaOwner,
    begun: Instant,
    /// Maximum duration of the start and of the stop. A failed heap dump that took at least this long counts as late.
    within: Duration,
    ended: Receiver<BurstResult>,
    stop: Arc<Notify>,
    hold: Arc<Mutex<Hold>>,
}

impl RunningBurst {
    /// Returns whether the burst hangs, that is, whether its own deadlines passed long ago.
    fn hangs(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.begun) >= self.within.saturating_mul(2).saturating_add(LEFT_AFTER)
    }
}

/// The burst lock, shared by the thread of a burst and the daemon.
#[derive(Debug, Default)]
struct Hold {
    turn: Option<BurstLock>,
    /// Whether the daemon no longer waits for the burst.
    is_left: bool,
}

/// Locks the hold of a burst. A thread that panics leaves the hold consistent, so a poisoned lock is safe to use.
fn held(hold: &Mutex<Hold>) -> MutexGuard<'_, Hold> {
    hold.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The bursts of a daemon.
#[derive(Debug)]
pub(super) struct Bursts {
    stats: Arc<BurstStats>,
    state: Mutex<BurstsState>,
}

#[derive(Debug, Default)]
struct BurstsState {
    options: BurstOptions,
    lease_folder: PathBuf,
    guard: Option<Arc<dyn Guard>>,
    running: Option<RunningBurst>,
    /// Hanging bursts that have not ended yet.
    left: Vec<Receiver<BurstResult>>,
    /// Processes that wait for assemblies on an unresponsive file system.
    left_processes: Arc<Mutex<LeftBehind>>,
    /// Permits for the threads that inspect processes.
    inspections: Inspections,
    /// Whether gcwatch has reported that other instances cannot see its bursts.
    no_lock_reported: Arc<AtomicBool>,
    /// Runs during whose bursts gcwatch died; `None` if there is no state directory.
    marks: Option<Arc<BurstMarks>>,
    /// Start of the newest burst of each run.
    newest: BTreeMap<RunKey, Instant>,
    /// Pending requests, their order, and the time for which they waited while no burst was running.
    waiting: BTreeMap<EvidenceRequestKey, QueuedRequest>,
    /// Counter that numbers requests in the order of their arrival.
    came: u64,
    /// End of the newest late burst of each service.
    late: BTreeMap<QuotaOwner, Instant>,
    /// Start of the newest burst of each service.
    of_service: BTreeMap<QuotaOwner, Instant>,
    /// Start of the newest burst of each tenant.
    of_tenant: BTreeMap<Arc<str>, Instant>,
    last_tick: Option<Instant>,
    censuses: Censuses,
}

/// Permits for inspecting processes, for at most [`MAX_LEFT`] threads at a time.
#[derive(Debug, Clone)]
struct Inspections(Arc<Semaphore>);

impl Default for Inspections {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MAX_LEFT)))
    }
}

impl Inspections {
    /// Inspects a process on a thread that is left behind if a file system does not respond. Returns the reason as a
    /// clause if the process cannot be inspected in time, or if too many threads already wait.
    async fn inspect(&self, pid: u32) -> Result<Process, String> {
        let Ok(permit) = Arc::clone(&self.0).try_acquire_owned() else {
            return Err(format!("{MAX_LEFT} file systems of processes do not respond"));
        };
        let inspect = move || {
            let _permit = permit;
            Scan::host().inspect(pid)
        };
        match FileReading::default().within(INSPECT_TIMEOUT, inspect).await {
            Ok(inspected) => inspected.map_err(|error| error.to_string()),
            Err(late) => Err(format!("the files of the process cannot be read: {late}")),
        }
    }
}

/// A pending request.
#[derive(Debug, Clone, Copy, Default)]
struct QueuedRequest {
    /// Position of the request in the order of arrival.
    number: u64,
    waited: Duration,
}

impl Bursts {
    /// Creates the bursts of a daemon. `marks` are the burst marks in the state directory; `None` if there is no
    /// state directory.
    pub(super) fn new(stats: Arc<BurstStats>, marks: Option<BurstMarks>) -> Self {
        let state = BurstsState {
            marks: marks.map(Arc::new),
            ..BurstsState::default()
        };
        Self {
            stats,
            state: Mutex::new(state),
        }
    }

    /// Applies new options.
    pub(super) fn configure(&self, options: BurstOptions, census: CensusOptions, lease_folder: PathBuf) {
        let is_any = options.enabled || census.enabled;
        self.stats.enabled.store(is_any, Ordering::Relaxed);
        let mut state = self.state();
        (state.options, state.censuses.options, state.lease_folder) = (options, census, lease_folder);
    }

    /// Sets the guard that closes the stream of a burst when gcwatch no longer reads the stream.
    pub(super) fn set_guard(&self, guard: Option<Arc<dyn Guard>>) {
        self.state().guard = guard;
    }

    fn state(&self) -> MutexGuard<'_, BurstsState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Handles the end of the running burst, and starts the next burst or heap dump that an incident requests. Must be
    /// called once per second. `is_behind` is whether gcwatch has not yet read all pending events.
    #[expect(clippy::too_many_lines, reason = "one pass over all wants")]
    pub(super) fn tick(&self, pipeline: &Pipeline, is_behind: bool, now: Instant) {
        let mut state = self.state();
        let state = &mut *state;
        state
            .left
            .retain(|ended| matches!(ended.try_recv(), Err(TryRecvError::Empty)));
        if let Some(running) = &state.running {
            let ended = match running.ended.try_recv() {
                Err(TryRecvError::Empty) if running.hangs(now) => {
                    remember(&mut state.late, running.share.clone(), now);
                    Some(leave(running))
                }
                Err(TryRecvError::Empty) => None,
                Ok(ended) => Some(ended),
                // The thread of the burst panicked.
                Err(TryRecvError::Disconnected) => {
                    Some(failed(running.task, running.want.2, "the burst failed".to_owned()))
                }
            };
            if let Some(ended) = ended {
                let (run, number, evidence) = running.want;
                match ended {
                    BurstResult::Busy => {
                        // The request waits again.
                        match running.task {
                            Kind::Burst(_) => drop(state.newest.remove(&run)),
                            Kind::Dump(_) => pipeline.dumps(run, false),
                        }
                        let waits = state.waiting.get(&running.want);
                        if waits.is_none_or(|waits| waits.waited >= patience(evidence)) {
                            self.stats.count(evidence, Outcome::Refused);
                            let because = "another burst is running on this host".to_owned();
                            pipeline.found(run, number, none(&mut state.censuses, &running.want, because));
                        }
                    }
                    BurstResult::Late(finding) => {
                        remember(&mut state.late, running.share.clone(), now);
                        self.stats.count(evidence, Outcome::Cut);
                        pipeline.found(run, number, *finding);
                    }
                    BurstResult::Found(mut finding, outcome, drawn) => {
                        if let (Finding::Allocations(found), Some(FlameGraph(svg))) = (&mut *finding, drawn) {
                            found.flame = pipeline.flames().put(run, number, &svg);
                        }
                        self.stats.count(evidence, outcome);
                        pipeline.found(run, number, *finding);
                    }
                    BurstResult::Surveyed(survey, plan) => {
                        pipeline.dumps(run, false);
                        state.censuses.had(&running.want, &running.share, now);
                        let (finding, outcome) = match survey {
                            Ok(survey) => {
                                let finding = state.censuses.surveyed(running.want, *survey, plan, now);
                                (finding, Outcome::Gathered)
                            }
                            Err((because, outcome)) => {
                                if now.saturating_duration_since(running.begun) >= running.within {
                                    remember(&mut state.late, running.share.clone(), now);
                                }
                                (state.censuses.none(&running.want, because), outcome)
                            }
                        };
                        state.waiting.remove(&running.want);
                        self.stats.count(evidence, outcome);
                        pipeline.found(run, number, finding);
                    }
                }
                let hung = state.running.take().filter(|running| held(&running.hold).is_left);
                state.left.extend(hung.map(|running| running.ended));
            }
        }
        if !state.options.enabled && !state.censuses.options.enabled {
            state.waiting.clear();
            state.censuses.retain(|_| false);
            return;
        }
        let mut wants = pipeline.evidence_requests();
        wants.retain(|want| match want.evidence {
            Evidence::Census => state.censuses.options.enabled,
            _ => state.options.enabled,
        });
        let keys: BTreeSet<EvidenceRequestKey> = wants.iter().map(EvidenceRequest::key).collect();
        state.waiting.retain(|key, _| keys.contains(key));
        state.censuses.retain(|key| keys.contains(key));
        let is_any_dump = wants.iter().any(|want| want.evidence == Evidence::Census);
        let available = is_any_dump.then(price::available).flatten();
        // Time during which this daemon runs another burst does not count as waiting time.
        let last = state.last_tick.replace(now).filter(|_| state.running.is_none());
        let passed = last.map_or(Duration::ZERO, |last| now.saturating_duration_since(last));
        for want in &wants {
            state.came += 1;
            let came = QueuedRequest {
                number: state.came,
                waited: Duration::ZERO,
            };
            state.waiting.entry(want.key()).or_insert(came).waited += passed;
        }
        // Tenants without a burst come first, then tenants whose last burst is oldest, so that a new service name gives
        // its tenant no advantage. Services within a tenant are ordered the same way, then requests by arrival.
        wants.sort_by_key(|want| {
            (
                state.of_tenant.get(&want.share.tenant).copied(),
                state.of_service.get(&want.share).copied(),
                state.waiting.get(&want.key()).map(|waits| waits.number),
            )
        });
        for mut want in wants {
            let key = want.key();
            if state.running.as_ref().is_some_and(|running| running.want == key) {
                continue;
            }
            want.condition.is_behind |= is_behind;
            want.condition.available = available;
            let ago = |time: &Instant| now.saturating_duration_since(*time);
            let others = OtherBursts {
                is_one_running: state.running.is_some(),
                of_process: state.newest.get(&want.run).map(ago),
                late_of_service: state.late.get(&want.share).map(ago),
                was_fatal: state.marks.as_ref().is_some_and(|marks| marks.has(want.run)),
            };
            let waited = state.waiting.get(&key).map_or(Duration::ZERO, |waits| waits.waited);
            let task = match want.evidence {
                _ if state.left.len() >= MAX_LEFT => Err(Some((
                    format!("{MAX_LEFT} bursts wait for file systems that do not respond"),
                    true,
                ))),
                Evidence::Census => state.census(&want, others, now),
                _ => match automatic::decide(want.evidence, &want.condition, others, &state.options) {
                    Decision::Start(question) => Ok(Kind::Burst(question)),
                    Decision::Wait(because) => Err(Some((because, true))),
                    Decision::Never(because) => Err(Some((because, false))),
                },
            };
            match task {
                Ok(task) => {
                    match task {
                        Kind::Burst(_) => remember(&mut state.newest, want.run, now),
                        Kind::Dump(_) => pipeline.dumps(want.run, true),
                    }
                    remember(&mut state.of_service, want.share.clone(), now);
                    remember(&mut state.of_tenant, Arc::clone(&want.share.tenant), now);
                    let store = pipeline.store().cloned();
                    state.running = Some(begin(&want, task, state, store));
                }
                // The time until the second dump does not count as waiting time.
                Err(None) => {
                    state.waiting.remove(&key);
                }
                Err(Some((_, true))) if waited < patience(want.evidence) => {}
                Err(Some((because, _))) => {
                    state.waiting.remove(&key);
                    self.stats.count(want.evidence, Outcome::Refused);
                    let finding = none(&mut state.censuses, &key, because);
                    pipeline.found(want.run, want.incident, finding);
                }
            }
        }
    }

    /// Stops the burst in progress, and waits up to `within` for its end. Blocks the calling thread.
    pub(super) fn stop(&self, within: Duration) {
        let running = {
            let mut state = self.state();
            (state.options.enabled, state.censuses.options.enabled) = (false, false);
            state.running.take()
        };
        if let Some(running) = running {
            // Notify only once, because a second notification would make the burst skip decoding names.
            running.stop.notify_one();
            let _late = running.ended.recv_timeout(within);
        }
    }
}

impl BurstsState {
    /// Returns the heap dump to start now. The error contains the reason why no dump starts, and whether the reason is
    /// temporary. The error is `None` if the second dump is due later.
    fn census(
        &self,
        want: &EvidenceRequest,
        others: OtherBursts,
        now: Instant,
    ) -> Result<Kind, Option<(String, bool)>> {
        let history = self.censuses.history(&want.key(), &want.share, now);
        let options = &self.censuses.options;
        match decision::decide(want.account.as_deref(), &want.condition, others, &history, options) {
            decision::Decision::Take(plan) => Ok(Kind::Dump(plan)),
            decision::Decision::Later => Err(None),
            decision::Decision::Wait(because) => Err(Some((because, true))),
            decision::Decision::Never(because) => Err(Some((because, false))),
        }
    }
}

fn failed(kind: Kind, evidence: Evidence, because: String) -> BurstResult {
    match kind {
        Kind::Burst(_) => BurstResult::Found(automatic::none(evidence, because).into(), Outcome::Failed, None),
        Kind::Dump(plan) => BurstResult::Surveyed(Err((because, Outcome::Failed)), plan),
    }
}

/// Leaves a hanging burst behind and releases the burst lock of the host.
fn leave(running: &RunningBurst) -> BurstResult {
    let mut hold = held(&running.hold);
    hold.is_left = true;
    drop(hold.turn.take());
    let (run, _, evidence) = running.want;
    warn!(
        pid = run.pid,
        evidence = evidence.name(),
        "a burst has not ended: a file system of the process does not respond; leaving its thread behind"
    );
    failed(
        running.task,
        evidence,
        "the burst has not ended: a file system of the process does not respond".to_owned(),
    )
}

/// Returns the maximum time for which a request waits for a suitable moment.
fn patience(evidence: Evidence) -> Duration {
    match evidence {
        Evidence::Census => decision::DUMP_WAIT_TIMEOUT,
        _ => BURST_WAIT_TIMEOUT,
    }
}

/// Returns a finding without evidence, with the reason.
fn none(censuses: &mut Censuses, want: &EvidenceRequestKey, because: String) -> Finding {
    match want.2 {
        Evidence::Census => censuses.none(want, because),
        evidence => automatic::none(evidence, because),
    }
}

/// Records a time. If there are too many entries, the oldest entry is dropped.
fn remember<K: Ord + Clone>(times: &mut BTreeMap<K, Instant>, key: K, now: Instant) {
    times.insert(key, now);
    if times.len() > MAX_REMEMBERED {
        let oldest = times.iter().min_by_key(|(_, time)| **time);
        if let Some(oldest) = oldest.map(|(key, _)| key.clone()) {
            times.remove(&oldest);
        }
    }
}

/// Starts a burst on a dedicated thread.
fn begin(want: &EvidenceRequest, kind: Kind, state: &BurstsState, store: Option<Store>) -> RunningBurst {
    let (sender, ended) = sync_channel(1);
    let stop = Arc::new(Notify::new());
    let hold = Arc::<Mutex<Hold>>::default();
    let task = Task {
        run: want.run,
        evidence: want.evidence,
        incident: want.incident_id.clone(),
        store,
        kind,
        time: match kind {
            Kind::Burst(Question::Stacks) => STACKS_FOR,
            Kind::Burst(_) => state.options.time,
            Kind::Dump(_) => DUMP_BESIDE.saturating_add(state.censuses.options.most_stop.saturating_mul(4)),
        },
        lease_folder: state.lease_folder.clone(),
        guard: state.guard.clone(),
        no_lock_reported: Arc::clone(&state.no_lock_reported),
        marks: state.marks.clone(),
        stop: Arc::clone(&stop),
        hold: Arc::clone(&hold),
        left_processes: Arc::clone(&state.left_processes),
        inspections: state.inspections.clone(),
    };
    let within = task.time;
    let thread = std::thread::Builder::new().name("burst".to_owned()).spawn(move || {
        // Sending fails only if gcwatch exits and has dropped the receiver.
        let _late = sender.send(task.run());
    });
    if let Err(error) = thread {
        warn!("cannot start a thread for a burst: {error}");
    }
    RunningBurst {
        want: want.key(),
        task: kind,
        share: want.share.clone(),
        begun: Instant::now(),
        within,
        ended,
        stop,
        hold,
    }
}

struct Task {
    run: RunKey,
    evidence: Evidence,
    /// Id of the incident.
    incident: String,
    /// Store that keeps evidence outside the host.
    store: Option<Store>,
    kind: Kind,
    /// Duration of a burst, or the maximum duration of the start and of the stop of a dump.
    time: Duration,
    lease_folder: PathBuf,
    guard: Option<Arc<dyn Guard>>,
    no_lock_reported: Arc<AtomicBool>,
    marks: Option<Arc<BurstMarks>>,
    stop: Arc<Notify>,
    hold: Arc<Mutex<Hold>>,
    left_processes: Arc<Mutex<LeftBehind>>,
    inspections: Inspections,
}

impl Task {
    fn run(self) -> BurstResult {
        let executor = tokio::runtime::Builder::new_current_thread().enable_all().build();
        match executor {
            Ok(executor) => {
                let ended = executor.block_on(self.ask());
                // The blocking threads of the executor can wait for a file system.
                executor.shutdown_background();
                ended
            }
            Err(error) => self.failed(error.to_string()),
        }
    }

    fn failed(&self, because: String) -> BurstResult {
        failed(self.kind, self.evidence, because)
    }

    async fn ask(&self) -> BurstResult {
        let pid = self.run.pid;
        let process = match self.inspections.inspect(pid).await {
            Ok(process) if process.start_time == self.run.start_time => process,
            Ok(_) => return self.failed("the process exited".to_owned()),
            Err(because) => return self.failed(because),
        };
        let endpoint = match Endpoint::for_process(&process) {
            Ok(endpoint) => endpoint,
            Err(error) => return self.failed(error.to_string()),
        };
        let Ok(turn) = BurstLock::take(self.lease_folder.clone(), pid, process.uid) else {
            return BurstResult::Busy;
        };
        if let Some(no_lock) = turn.no_lock()
            && !self.no_lock_reported.swap(true, Ordering::Relaxed)
        {
            warn!("{no_lock}");
        }
        {
            let mut hold = held(&self.hold);
            if hold.is_left {
                return BurstResult::Busy;
            }
            hold.turn = Some(turn);
        }
        let ended = self.in_turn(endpoint).await;
        // Remove the mark only now, because building the flame graph also takes memory, so gcwatch could have died
        // until here. If this burst was left behind, the mark now belongs to another burst.
        let mut hold = held(&self.hold);
        if !hold.is_left
            && let Some(Err(error)) = self.marks.as_ref().map(|marks| marks.end())
        {
            warn!("cannot record the end of a burst on disk: {error}");
        }
        hold.turn = None;
        ended
    }

    async fn in_turn(&self, endpoint: Endpoint) -> BurstResult {
        if let Some(marks) = &self.marks
            && let Err(error) = marks.begin(self.run)
        {
            return self.failed(format!("cannot record the start of the burst on disk: {error}"));
        }
        match self.kind {
            Kind::Burst(question) => self.burst(endpoint, question).await,
            Kind::Dump(plan) => self.dump(endpoint, plan).await,
        }
    }

    async fn burst(&self, endpoint: Endpoint, question: Question) -> BurstResult {
        let deadlines = Deadlines {
            stop: END_TIMEOUT,
            ..Deadlines::default()
        };
        let client = Client::with_deadlines(endpoint, deadlines).guarded(self.guard.clone());
        let stop = || self.stop.notified();
        match burst::run(&client, question, self.time, stop, |_| ()).await {
            Ok(done) => self.found(&done),
            Err(error) => self.failed(format!("the runtime was asked and refused: {error}")),
        }
    }

    async fn dump(&self, endpoint: Endpoint, plan: Plan) -> BurstResult {
        let client = Client::with_deadlines(endpoint, session::deadlines(self.time)).guarded(self.guard.clone());
        let (survey, not_healed) = census::take(&client, self.run.pid, plan, &self.left_processes).await;
        self.say_not_healed(not_healed.as_deref());
        let survey = survey.map(|mut survey| {
            // Set the pid, so that a comparison of two dumps matches types by their numbers, which are unique within
            // one process.
            survey.heap.pid = Some(self.run.pid);
            self.keep_survey(&survey);
            Box::new(survey)
        });
        BurstResult::Surveyed(survey, plan)
    }

    /// Stores a heap dump as records, as `gcwatch heap` writes them.
    fn keep_survey(&self, survey: &Survey) {
        let Some(store) = &self.store else { return };
        let at = now_unix_ns() / 1_000_000_000;
        let mut lines = Vec::new();
        for record in survey.clone().records() {
            // A record of strings and numbers can always be serialized as JSON.
            if serde_json::to_writer(&mut lines, &record).is_ok() {
                lines.push(b'\n');
            }
        }
        store.store_bytes(format!("{}/census-{at}.ndjson", self.incident), lines);
    }

    fn say_not_healed(&self, problem: Option<&str>) {
        if let Some(problem) = problem {
            warn!(
                pid = self.run.pid,
                "the process may still produce the burst's events while another session is open: {problem}"
            );
        }
    }

    fn found(&self, done: &BurstOutcome) -> BurstResult {
        self.say_not_healed(done.not_healed.as_deref());
        if done.stopped_by == StoppedBy::PinnedObjects {
            let because = "the process has too many pinned objects for a Verbose session: it was ended".to_owned();
            return BurstResult::Found(automatic::none(self.evidence, because).into(), Outcome::Refused, None);
        }
        let window = done.burst.facts().window;
        let (finding, drawn) = match self.evidence {
            Evidence::Allocations => {
                // Drop the allocations before computing the weighted stacks, because each result has its own references
                // to all stacks.
                let allocations = done.burst.allocations();
                let finding = automatic::allocations(&allocations, window);
                drop(allocations);
                let stacks = done.burst.weighted_stacks(Weight::Allocated);
                let framework = done.burst.framework();
                let flame = (!stacks.is_empty())
                    .then(|| flame::svg("Bytes allocated", &stacks, flame::Unit::Bytes, &framework));
                drop(stacks);
                if let (Some(store), Some(flame)) = (&self.store, &flame) {
                    store.store_bytes(format!("{}/allocations.svg", self.incident), flame.clone().into_bytes());
                }
                (finding, flame.map(FlameGraph))
            }
            Evidence::Stacks => {
                let mut threads = done.burst.threads();
                let of_threads = names(self.run.pid);
                let named = of_threads.iter().find(|(_, name)| *name == FINALIZER);
                if let (None, Some((thread, _))) = (threads.finalizer, named) {
                    threads.name_finalizer(*thread);
                }
                (automatic::stacks(&threads, window), None)
            }
            _ => (automatic::callers(&done.burst.callers(), window), None),
        };
        if done.cut.is_some() && done.stop_took >= END_TIMEOUT {
            return BurstResult::Late(finding.into());
        }
        let outcome = if done.cut.is_some() || done.stopped_by == StoppedBy::Exit {
            Outcome::Cut
        } else {
            Outcome::Gathered
        };
        BurstResult::Found(finding.into(), outcome, drawn)
    }
}
