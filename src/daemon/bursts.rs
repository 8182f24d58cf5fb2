//! The bursts and heap dumps that incidents ask for.
//!
//! ```text
//! each second: wants of open incidents -> evidence::automatic::decide -> a thread with the burst, one at a time
//!                                         evidence::census::decide    -> the same with a heap dump (`census`)
//!                                                     '-> why not ---.             |
//!              the incident <----------------------------------------+-------------'
//! ```
//!
//! A burst has a thread and an executor of its own: to decode names takes a moment, in which nothing else may wait. It
//! ends with what heals the process; when gcwatch is killed meanwhile, the lease of the burst says whom the next one is
//! to heal (`targets::others`).
//!
//! A thread that waits for a file system can stay for any time. A burst that has not ended [`LEFT_AFTER`] its deadlines
//! is left behind: it no longer holds the turn of the host, its incident gets the reason, and other bursts begin.

mod census;
mod marks;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use base::clock::now_unix_ns;
use clr_evidence::allocations::Method;
use clr_evidence::burst::{Burst, Weight};
use clr_evidence::flame;
use clr_heap::survey::Survey;
use delivery::otlp::Exporter;
use dotnet_diagnostics::discovery::{Process, Scan};
use dotnet_diagnostics::{Client, Deadlines, Endpoint, Guard};
use gc_rules::incident::{Finding, Share};
use gc_rules::rule::Evidence;
use tokio::sync::{Notify, Semaphore};
use tracing::warn;

use crate::pipeline::{OF_BURSTS, Pipeline, Want};
use base::run_key::RunKey;
use evidence::automatic::{self, BurstOptions, Decision, END_WITHIN, Others, PATIENCE};
use evidence::burst::{self, Done, Question, StoppedBy};
use evidence::census::{self as decision, CensusOptions, Plan};
use evidence::heap::files::LeftBehind;
use evidence::heap::{price, session};
use evidence::lock::Turn;
use evidence::profile::{self, Profiled, Subject};
use evidence::store::Store;
use targets::FileReading;
use targets::host::clocks;
use targets::thread_names::{FINALIZER, names};

use self::census::Censuses;
pub(super) use self::marks::BurstMarks;

/// Runs and services whose last burst is remembered; of more, the oldest is forgotten.
const MOST_REMEMBERED: usize = 4096;

/// An incident of a run, and what it asks for.
type WantKey = (RunKey, u64, Evidence);

/// How long a burst of stacks lasts: some hundred samples of each thread, for which all are stopped.
const STACKS_FOR: Duration = Duration::from_millis(300);
/// What a heap dump may take beside its stops, as they are forecast at most: reading, naming, healing. The turn is
/// everybody's.
const DUMP_BESIDE: Duration = Duration::from_secs(30);
/// Time for reading the files that say what a process is.
const INSPECTED_WITHIN: Duration = Duration::from_secs(2);
/// A burst that has not ended so long after the deadlines of its beginning and its end is left behind. It covers
/// [`ANSWER_WITHIN`](evidence::heap::child::ANSWER_WITHIN) of a heap dump, and what heals the process.
const LEFT_AFTER: Duration = Duration::from_secs(180);
/// Maximum number of threads that are left behind at a time; no burst begins while there are as many.
const MAX_LEFT: usize = 8;

/// How many bursts incidents asked for, by kind and outcome.
#[derive(Debug, Default)]
pub(crate) struct BurstStats {
    counts: [[AtomicU64; 4]; OF_BURSTS.len()],
    /// Incidents may have bursts or heap dumps now.
    enabled: AtomicBool,
}

/// What came of a want.
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

    /// Whether there are or were any, or may be.
    pub(crate) fn is_known(&self) -> bool {
        self.enabled.load(Ordering::Relaxed) || self.counts().any(|(_, _, count)| count > 0)
    }

    /// Kind, outcome, and how many.
    pub(crate) fn counts(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> + '_ {
        let kinds = OF_BURSTS.into_iter().map(|kind| kind.name());
        kinds.zip(&self.counts).flat_map(|(kind, counts)| {
            let outcomes = OUTCOMES.into_iter().zip(counts);
            outcomes.map(move |(outcome, count)| (kind, outcome, count.load(Ordering::Relaxed)))
        })
    }
}

/// What a burst came to.
#[derive(Debug)]
enum Ended {
    /// With what else is made of it, if it is one of allocations.
    Found(Box<Finding>, Outcome, Option<Box<Drawn>>),
    /// The same; its process did not end it in time.
    Late(Box<Finding>),
    /// A heap dump, or why there is none.
    Surveyed(Result<Box<Survey>, (String, Outcome)>, Plan),
    /// Somebody else had the turn.
    Busy,
}

/// What is made of the stacks of a burst beside the finding.
#[derive(Debug)]
struct Drawn {
    /// A flame graph, as SVG.
    flame: String,
    /// For OTLP, where profiles are exported.
    profile: Option<Profiled>,
}

/// What is run for an incident.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Burst(Question),
    Dump(Plan),
}

/// The burst or heap dump that runs.
#[derive(Debug)]
struct Running {
    want: WantKey,
    task: Kind,
    share: Share,
    begun: Instant,
    /// How long its beginning or its end may take; what takes longer is late.
    within: Duration,
    ended: Receiver<Ended>,
    stop: Arc<Notify>,
    hold: Arc<Mutex<Hold>>,
}

impl Running {
    /// Returns whether the burst hangs: its own deadlines have passed long ago.
    fn hangs(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.begun) >= self.within.saturating_mul(2).saturating_add(LEFT_AFTER)
    }
}

/// The turn of a burst, shared by its thread and the daemon.
#[derive(Debug, Default)]
struct Hold {
    turn: Option<Turn>,
    /// Whether the daemon no longer waits for the burst.
    is_left: bool,
}

/// Returns what a burst holds. A thread that panicked leaves it whole.
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
    running: Option<Running>,
    /// Bursts that hang, until they end.
    left: Vec<Receiver<Ended>>,
    /// Processes that wait for assemblies that do not respond.
    left_processes: Arc<Mutex<LeftBehind>>,
    /// Threads that read what a process is.
    inspections: Inspections,
    /// That others cannot know of a burst was said.
    no_lock_reported: Arc<AtomicBool>,
    /// The runs during whose bursts gcwatch died; `None`: nothing outlives it.
    marks: Option<Arc<BurstMarks>>,
    /// When the newest burst of each run began.
    newest: BTreeMap<RunKey, Instant>,
    /// How long wants wait in which no burst ran, in the order in which they came.
    waiting: BTreeMap<WantKey, Waits>,
    /// Wants so far.
    came: u64,
    /// When the newest burst of each service ended that did not end in its time.
    late: BTreeMap<Share, Instant>,
    /// When the newest burst of each service began.
    of_service: BTreeMap<Share, Instant>,
    /// When the newest burst of each tenant began.
    of_tenant: BTreeMap<Arc<str>, Instant>,
    last_tick: Option<Instant>,
    censuses: Censuses,
}

/// The right to read what a process is, for [`MAX_LEFT`] threads at a time.
#[derive(Debug, Clone)]
struct Inspections(Arc<Semaphore>);

impl Default for Inspections {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MAX_LEFT)))
    }
}

impl Inspections {
    /// Reads what a process is, on a thread that is left behind if a file system does not respond. The error is a clause.
    async fn inspect(&self, pid: u32) -> Result<Process, String> {
        let Ok(permit) = Arc::clone(&self.0).try_acquire_owned() else {
            return Err(format!("{MAX_LEFT} file systems of processes do not respond"));
        };
        let inspect = move || {
            let _permit = permit;
            Scan::host().inspect(pid)
        };
        match FileReading::default().within(INSPECTED_WITHIN, inspect).await {
            Ok(inspected) => inspected.map_err(|error| error.to_string()),
            Err(late) => Err(format!("the files of the process cannot be read: {late}")),
        }
    }
}

/// A want that waits.
#[derive(Debug, Clone, Copy, Default)]
struct Waits {
    /// Which one it was.
    number: u64,
    waited: Duration,
}

impl Bursts {
    /// `marks` are those of the state directory; `None`: there is none.
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

    /// From now on.
    pub(super) fn configure(&self, options: BurstOptions, census: CensusOptions, lease_folder: PathBuf) {
        let is_any = options.enabled || census.enabled;
        self.stats.enabled.store(is_any, Ordering::Relaxed);
        let mut state = self.state();
        (state.options, state.censuses.options, state.lease_folder) = (options, census, lease_folder);
    }

    /// What closes the stream of a burst when gcwatch does not read it any more.
    pub(super) fn set_guard(&self, guard: Option<Arc<dyn Guard>>) {
        self.state().guard = guard;
    }

    fn state(&self) -> MutexGuard<'_, BurstsState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A second passed. `is_behind`: gcwatch has not read all that was written.
    #[expect(clippy::too_many_lines, reason = "one pass over all wants")]
    pub(super) fn tick(&self, pipeline: &Pipeline, exporter: &Exporter, is_behind: bool, now: Instant) {
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
                // Its thread is gone.
                Err(TryRecvError::Disconnected) => {
                    Some(failed(running.task, running.want.2, "the burst failed".to_owned()))
                }
            };
            if let Some(ended) = ended {
                let (run, number, evidence) = running.want;
                match ended {
                    Ended::Busy => {
                        // It waits again.
                        match running.task {
                            Kind::Burst(_) => drop(state.newest.remove(&run)),
                            Kind::Dump(_) => pipeline.dumps(run, false),
                        }
                        let waits = state.waiting.get(&running.want);
                        if waits.is_none_or(|waits| waits.waited >= patience(evidence)) {
                            self.stats.count(evidence, Outcome::Refused);
                            let because = "another burst runs on this host".to_owned();
                            pipeline.found(run, number, none(&mut state.censuses, &running.want, because));
                        }
                    }
                    Ended::Late(finding) => {
                        remember(&mut state.late, running.share.clone(), now);
                        self.stats.count(evidence, Outcome::Cut);
                        pipeline.found(run, number, *finding);
                    }
                    Ended::Found(mut finding, outcome, drawn) => {
                        if let (Finding::Allocations(found), Some(drawn)) = (&mut *finding, drawn) {
                            found.flame = pipeline.flames().put(run, number, &drawn.flame);
                            if let Some((profiled, resource)) = drawn.profile.zip(pipeline.resource(run)) {
                                exporter.profile(&resource, &profiled.profile, &profiled.dictionary);
                            }
                        }
                        self.stats.count(evidence, outcome);
                        pipeline.found(run, number, *finding);
                    }
                    Ended::Surveyed(survey, plan) => {
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
        let mut wants = pipeline.wants();
        wants.retain(|want| match want.evidence {
            Evidence::Census => state.censuses.options.enabled,
            _ => state.options.enabled,
        });
        let keys: BTreeSet<WantKey> = wants.iter().map(Want::key).collect();
        state.waiting.retain(|key, _| keys.contains(key));
        state.censuses.retain(|key| keys.contains(key));
        let is_any_dump = wants.iter().any(|want| want.evidence == Evidence::Census);
        let available = is_any_dump.then(price::available).flatten();
        // The turn that others have is no time that a want waited.
        let last = state.last_tick.replace(now).filter(|_| state.running.is_none());
        let passed = last.map_or(Duration::ZERO, |last| now.saturating_duration_since(last));
        for want in &wants {
            state.came += 1;
            let came = Waits {
                number: state.came,
                waited: Duration::ZERO,
            };
            state.waiting.entry(want.key()).or_insert(came).waited += passed;
        }
        // Tenants without a burst first, then those whose burst was longest ago, so that nobody comes first by a new
        // name; of one tenant its services likewise; of these, who came first.
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
            let others = Others {
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
                    state.running = Some(begin(&want, task, state, exporter.takes_profiles(), store));
                }
                // Until the second dump no time is waited.
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

    /// Ends what runs, within that time; blocking.
    pub(super) fn stop(&self, within: Duration) {
        let running = {
            let mut state = self.state();
            (state.options.enabled, state.censuses.options.enabled) = (false, false);
            state.running.take()
        };
        if let Some(running) = running {
            // The second one gives up the names.
            running.stop.notify_one();
            let _late = running.ended.recv_timeout(within);
        }
    }
}

impl BurstsState {
    /// Whether a heap dump begins now. The error is why not, and whether that may pass; `None`: the second one is to
    /// come.
    fn census(&self, want: &Want, others: Others, now: Instant) -> Result<Kind, Option<(String, bool)>> {
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

fn failed(kind: Kind, evidence: Evidence, because: String) -> Ended {
    match kind {
        Kind::Burst(_) => Ended::Found(automatic::none(evidence, because).into(), Outcome::Failed, None),
        Kind::Dump(plan) => Ended::Surveyed(Err((because, Outcome::Failed)), plan),
    }
}

/// Leaves a burst behind that hangs: the host has its turn again.
fn leave(running: &Running) -> Ended {
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
        "it has not ended: a file system of the process does not respond".to_owned(),
    )
}

/// How long an incident waits for a moment.
fn patience(evidence: Evidence) -> Duration {
    match evidence {
        Evidence::Census => decision::PATIENCE,
        _ => PATIENCE,
    }
}

/// There is nothing, for this reason.
fn none(censuses: &mut Censuses, want: &WantKey, because: String) -> Finding {
    match want.2 {
        Evidence::Census => censuses.none(want, because),
        evidence => automatic::none(evidence, because),
    }
}

/// Of too many, the oldest is forgotten.
fn remember<K: Ord + Clone>(times: &mut BTreeMap<K, Instant>, key: K, now: Instant) {
    times.insert(key, now);
    if times.len() > MOST_REMEMBERED {
        let oldest = times.iter().min_by_key(|(_, time)| **time);
        if let Some(oldest) = oldest.map(|(key, _)| key.clone()) {
            times.remove(&oldest);
        }
    }
}

/// Begins a burst on its own thread.
fn begin(want: &Want, kind: Kind, state: &BurstsState, is_profiled: bool, store: Option<Store>) -> Running {
    let (sender, ended) = sync_channel(1);
    let stop = Arc::new(Notify::new());
    let hold = Arc::<Mutex<Hold>>::default();
    let task = Task {
        run: want.run,
        evidence: want.evidence,
        incident: want.incident_id.clone(),
        is_profiled,
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
        // Nobody waits any more when gcwatch ends.
        let _late = sender.send(task.run());
    });
    if let Err(error) = thread {
        warn!("cannot start a thread for a burst: {error}");
    }
    Running {
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
    /// The id of the incident.
    incident: String,
    /// Profiles are exported.
    is_profiled: bool,
    /// Where evidence is kept outside of the host.
    store: Option<Store>,
    kind: Kind,
    /// How long a burst lasts, and a dump may take to begin and to end.
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
    fn run(self) -> Ended {
        let executor = tokio::runtime::Builder::new_current_thread().enable_all().build();
        match executor {
            Ok(executor) => {
                let ended = executor.block_on(self.ask());
                // Its threads for blocking work can wait for a file system.
                executor.shutdown_background();
                ended
            }
            Err(error) => self.failed(error.to_string()),
        }
    }

    fn failed(&self, because: String) -> Ended {
        failed(self.kind, self.evidence, because)
    }

    async fn ask(&self) -> Ended {
        let pid = self.run.pid;
        let process = match self.inspections.inspect(pid).await {
            Ok(process) if process.start_time == self.run.start_time => process,
            Ok(_) => return self.failed("the process exited".to_owned()),
            Err(because) => return self.failed(because),
        };
        let endpoint = match Endpoint::of(&process) {
            Ok(endpoint) => endpoint,
            Err(error) => return self.failed(error.to_string()),
        };
        let Ok(turn) = Turn::take(self.lease_folder.clone(), pid, process.uid) else {
            return Ended::Busy;
        };
        if let Some(no_lock) = turn.no_lock()
            && !self.no_lock_reported.swap(true, Ordering::Relaxed)
        {
            warn!("{no_lock}");
        }
        {
            let mut hold = held(&self.hold);
            if hold.is_left {
                return Ended::Busy;
            }
            hold.turn = Some(turn);
        }
        let ended = self.in_turn(endpoint).await;
        // Also what is made of it took memory. The mark of a burst that was left behind is that of another one by now.
        let mut hold = held(&self.hold);
        if !hold.is_left
            && let Some(Err(error)) = self.marks.as_ref().map(|marks| marks.end())
        {
            warn!("cannot record the end of a burst on disk: {error}");
        }
        hold.turn = None;
        ended
    }

    async fn in_turn(&self, endpoint: Endpoint) -> Ended {
        if let Some(marks) = &self.marks
            && let Err(error) = marks.begin(self.run)
        {
            return self.failed(format!("that there is a burst cannot be written to the disk: {error}"));
        }
        match self.kind {
            Kind::Burst(question) => self.burst(endpoint, question).await,
            Kind::Dump(plan) => self.dump(endpoint, plan).await,
        }
    }

    async fn burst(&self, endpoint: Endpoint, question: Question) -> Ended {
        let deadlines = Deadlines {
            stop: END_WITHIN,
            ..Deadlines::default()
        };
        let client = Client::with_deadlines(endpoint, deadlines).guarded(self.guard.clone());
        let stop = || self.stop.notified();
        match burst::run(&client, question, self.time, stop, |_| ()).await {
            Ok(done) => self.found(&done),
            Err(error) => self.failed(format!("the runtime was asked and refused: {error}")),
        }
    }

    async fn dump(&self, endpoint: Endpoint, plan: Plan) -> Ended {
        let client = Client::with_deadlines(endpoint, session::deadlines(self.time)).guarded(self.guard.clone());
        let (survey, not_healed) = census::take(&client, self.run.pid, plan, &self.left_processes).await;
        self.say_not_healed(not_healed.as_deref());
        let survey = survey.map(|mut survey| {
            // Types of one process are told apart by number.
            survey.heap.pid = Some(self.run.pid);
            self.keep_survey(&survey);
            Box::new(survey)
        });
        Ended::Surveyed(survey, plan)
    }

    /// Stores a heap dump as records, as `gcwatch heap` writes them.
    fn keep_survey(&self, survey: &Survey) {
        let Some(store) = &self.store else { return };
        let at = now_unix_ns() / 1_000_000_000;
        let mut lines = Vec::new();
        for record in survey.clone().records() {
            // A record of strings and numbers always has a form in JSON.
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

    fn found(&self, done: &Done) -> Ended {
        self.say_not_healed(done.not_healed.as_deref());
        if done.stopped_by == StoppedBy::PinnedObjects {
            let because = "the process has too many pinned objects for a Verbose session: it was ended".to_owned();
            return Ended::Found(automatic::none(self.evidence, because).into(), Outcome::Refused, None);
        }
        let window = done.burst.facts().window;
        let (finding, drawn) = match self.evidence {
            Evidence::Allocations => {
                // One after the other: each has its own copy of the stacks, by reference.
                let allocations = done.burst.allocations();
                let is_biased = allocations.method == Method::Tick;
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
                let drawn = flame.map(|flame| {
                    let profile = self.is_profiled.then(|| self.profile(&done.burst, is_biased));
                    Box::new(Drawn { flame, profile })
                });
                (finding, drawn)
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
        if done.cut.is_some() && done.stop_took >= END_WITHIN {
            return Ended::Late(finding.into());
        }
        let outcome = if done.cut.is_some() || done.stopped_by == StoppedBy::Exit {
            Outcome::Cut
        } else {
            Outcome::Gathered
        };
        Ended::Found(finding.into(), outcome, drawn)
    }

    fn profile(&self, burst: &Burst, is_biased: bool) -> Profiled {
        let window = burst.facts().window;
        // Streams have the clock that passes evenly.
        let clocks = clocks();
        let ago = window.start.map_or(0, |start| clocks.monotonic_ns - i128::from(start));
        let subject = Subject {
            incident: &self.incident,
            window,
            began_unix_ns: u64::try_from(clocks.unix_ns - ago).unwrap_or(0),
            is_biased,
            id: fastrand::u128(..).to_be_bytes(),
        };
        profile::profile(&burst.stacked(), &subject)
    }
}
