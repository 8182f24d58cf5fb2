//! The threads of bursts and heap dumps.
//!
//! Each burst has a dedicated thread and executor, because decoding names takes time and must not block other tasks. A
//! burst ends with an attempt to heal the process. If gcwatch is killed during a burst, the burst lease names the
//! process that the next instance heals (`targets::others`).

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base::clock::now_unix_ns;
use clr_evidence::burst::Weight;
use clr_evidence::flame;
use clr_heap::survey::Survey;
use dotnet_diagnostics::discovery::{Process, Scan};
use dotnet_diagnostics::{Client, Deadlines, Endpoint, Error, Guard};
use evidence::automatic::{self, END_TIMEOUT};
use evidence::burst::{self, BurstOutcome, Question, StoppedBy};
use evidence::census::Plan;
use evidence::heap::files::LeftBehind;
use evidence::heap::session;
use evidence::lock::BurstLock;
use evidence::schedule::{EvidenceRequest, MAX_LEFT, Outcome, RequestKey, Task, TaskResult};
use evidence::store::Store;
use rule_engine::rule::Evidence;
use targets::FileReading;
use targets::thread_names::{FINALIZER, names};
use tokio::sync::oneshot::{Receiver, channel};
use tokio::sync::{Notify, Semaphore};
use tracing::warn;

use super::dump;
use super::marks::BurstMarks;

/// Timeout for reading the files that identify a process.
const INSPECT_TIMEOUT: Duration = Duration::from_secs(2);

/// The result of a thread, and for a burst of allocations the flame graph of its stacks, as SVG.
pub(super) type ThreadResult = (TaskResult, Option<String>);

/// Starts threads, and owns the values that threads have in common.
#[derive(Debug)]
pub(super) struct Threads {
    pub(super) lease_folder: PathBuf,
    pub(super) guard: Option<Arc<dyn Guard>>,
    shared: Shared,
}

/// Values that all threads share.
#[derive(Debug, Clone)]
struct Shared {
    /// Processes that wait for assemblies on an unresponsive file system.
    left_processes: Arc<Mutex<LeftBehind>>,
    /// Permits for the threads that inspect processes.
    inspections: Inspections,
    /// Whether gcwatch has reported that other instances cannot see its bursts.
    no_lock_reported: Arc<AtomicBool>,
    /// Runs during whose bursts gcwatch died; `None` if there is no state directory.
    marks: Option<Arc<BurstMarks>>,
}

/// The thread of the burst or heap dump in progress.
#[derive(Debug)]
pub(super) struct BurstThread {
    pub(super) key: RequestKey,
    pub(super) ended: Receiver<ThreadResult>,
    stop: Arc<Notify>,
    hold: Arc<Mutex<Hold>>,
}

impl Threads {
    pub(super) fn new(marks: Option<BurstMarks>) -> Self {
        let shared = Shared {
            left_processes: Arc::default(),
            inspections: Inspections::default(),
            no_lock_reported: Arc::default(),
            marks: marks.map(Arc::new),
        };
        Self {
            lease_folder: PathBuf::new(),
            guard: None,
            shared,
        }
    }

    /// Starts a burst or heap dump on a dedicated thread.
    pub(super) fn start(
        &self,
        request: EvidenceRequest,
        task: Task,
        time: Duration,
        store: Option<Store>,
    ) -> BurstThread {
        let (sender, ended) = channel();
        let (stop, hold) = (Arc::<Notify>::default(), Arc::<Mutex<Hold>>::default());
        let key = request.key();
        let work = Work {
            request,
            task,
            time,
            store,
            lease_folder: self.lease_folder.clone(),
            guard: self.guard.clone(),
            shared: self.shared.clone(),
            stop: Arc::clone(&stop),
            hold: Arc::clone(&hold),
        };
        let thread = std::thread::Builder::new().name("burst".to_owned()).spawn(move || {
            // Sending fails only if gcwatch exits and has dropped the receiver.
            let _late = sender.send(work.run());
        });
        if let Err(error) = thread {
            warn!("cannot start a thread for a burst: {error}");
        }
        BurstThread { key, ended, stop, hold }
    }
}

impl BurstThread {
    /// Requests the end of the burst. Must be called only once, because a second call would make the burst skip
    /// decoding names.
    pub(super) fn stop(&self) {
        self.stop.notify_one();
    }

    /// Leaves a hanging burst behind and releases the burst lock of the host. The returned receiver shows the end of
    /// the thread.
    pub(super) fn leave(self) -> Receiver<ThreadResult> {
        let mut hold = held(&self.hold);
        hold.is_left = true;
        drop(hold.turn.take());
        drop(hold);
        warn!(
            pid = self.key.0.pid,
            evidence = self.key.2.name(),
            "a burst has not ended: a file system of the process does not respond; leaving its thread behind"
        );
        self.ended
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

/// The work of a thread.
struct Work {
    request: EvidenceRequest,
    task: Task,
    /// Store that keeps evidence outside the host.
    store: Option<Store>,
    /// Duration of a burst, or the maximum duration of the start and of the stop of a dump.
    time: Duration,
    lease_folder: PathBuf,
    guard: Option<Arc<dyn Guard>>,
    shared: Shared,
    stop: Arc<Notify>,
    hold: Arc<Mutex<Hold>>,
}

impl Work {
    fn run(self) -> ThreadResult {
        let executor = tokio::runtime::Builder::new_current_thread().enable_all().build();
        match executor {
            Ok(executor) => {
                let ended = executor.block_on(self.ask());
                // The blocking threads of the executor can wait for a file system.
                executor.shutdown_background();
                ended
            }
            Err(error) => failed(error.to_string()),
        }
    }

    async fn ask(&self) -> ThreadResult {
        let run = self.request.run;
        let process = match self.shared.inspections.inspect(run.pid).await {
            Ok(process) if process.start_time == run.start_time => process,
            Ok(_) => return failed("the process exited".to_owned()),
            Err(because) => return failed(because),
        };
        let endpoint = match Endpoint::for_process(&process) {
            Ok(endpoint) => endpoint,
            Err(error) => return failed(error.to_string()),
        };
        let Ok(turn) = BurstLock::take(self.lease_folder.clone(), run.pid, process.uid) else {
            return (TaskResult::Busy, None);
        };
        if let Some(no_lock) = turn.no_lock()
            && !self.shared.no_lock_reported.swap(true, Ordering::Relaxed)
        {
            warn!("{no_lock}");
        }
        {
            let mut hold = held(&self.hold);
            if hold.is_left {
                return (TaskResult::Busy, None);
            }
            hold.turn = Some(turn);
        }
        let ended = self.in_turn(endpoint).await;
        // Remove the mark only now, because building the flame graph also takes memory, so gcwatch could have died
        // until here. If this burst was left behind, the mark now belongs to another burst.
        let mut hold = held(&self.hold);
        if !hold.is_left
            && let Some(Err(error)) = self.shared.marks.as_ref().map(|marks| marks.end())
        {
            warn!("cannot record the end of a burst on disk: {error}");
        }
        hold.turn = None;
        ended
    }

    async fn in_turn(&self, endpoint: Endpoint) -> ThreadResult {
        if let Some(marks) = &self.shared.marks
            && let Err(error) = marks.begin(self.request.run)
        {
            return failed(format!("cannot record the start of the burst on disk: {error}"));
        }
        match self.task {
            Task::Burst(question) => self.burst(endpoint, question).await,
            Task::Dump(plan) => self.dump(endpoint, plan).await,
        }
    }

    async fn burst(&self, endpoint: Endpoint, question: Question) -> ThreadResult {
        let deadlines = Deadlines {
            stop: END_TIMEOUT,
            ..Deadlines::default()
        };
        let client = Client::with_deadlines(endpoint, deadlines).guarded(self.guard.clone());
        let stop = || self.stop.notified();
        match burst::run(&client, question, self.time, stop, |_| ()).await {
            Ok(done) => self.found(&done),
            Err(error) => failed(format!("the runtime was asked and refused: {error}")),
        }
    }

    async fn dump(&self, endpoint: Endpoint, plan: Plan) -> ThreadResult {
        let client = Client::with_deadlines(endpoint, session::deadlines(self.time)).guarded(self.guard.clone());
        let (survey, not_healed) = dump::take(&client, self.request.run.pid, plan, &self.shared.left_processes).await;
        self.say_not_healed(not_healed.as_ref());
        let result = match survey {
            Ok(mut survey) => {
                // Set the pid, so that a comparison of two dumps matches types by their numbers, which are unique
                // within one process.
                survey.heap.pid = Some(self.request.run.pid);
                self.keep_survey(&survey);
                TaskResult::Surveyed(survey.into(), plan)
            }
            Err((because, outcome)) => TaskResult::Failed(because, outcome),
        };
        (result, None)
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
        store.store_bytes(format!("{}/census-{at}.ndjson", self.request.incident_id), lines);
    }

    fn say_not_healed(&self, problem: Option<&Error>) {
        if let Some(problem) = problem {
            warn!(
                pid = self.request.run.pid,
                "the process may still produce the burst's events while another session is open: {problem}"
            );
        }
    }

    fn found(&self, done: &BurstOutcome) -> ThreadResult {
        self.say_not_healed(done.not_healed.as_ref());
        if done.stopped_by == StoppedBy::PinnedObjects {
            let because = "the process has too many pinned objects for a Verbose session: it was ended".to_owned();
            return (TaskResult::Failed(because, Outcome::Refused), None);
        }
        let window = done.burst.facts().window;
        let (finding, drawn) = match self.request.evidence {
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
                    store.store_bytes(
                        format!("{}/allocations.svg", self.request.incident_id),
                        flame.clone().into_bytes(),
                    );
                }
                (finding, flame)
            }
            Evidence::Stacks => {
                let mut threads = done.burst.threads();
                let of_threads = names(self.request.run.pid);
                let named = of_threads.iter().find(|(_, name)| *name == FINALIZER);
                if let (None, Some((thread, _))) = (threads.finalizer, named) {
                    threads.name_finalizer(*thread);
                }
                (automatic::stacks(&threads, window), None)
            }
            _ => (automatic::callers(&done.burst.callers(), window), None),
        };
        if done.cut.is_some() && done.stop_took >= END_TIMEOUT {
            return (TaskResult::Late(finding.into()), None);
        }
        let outcome = if done.cut.is_some() || done.stopped_by == StoppedBy::Exit {
            Outcome::Cut
        } else {
            Outcome::Gathered
        };
        (TaskResult::Found(finding.into(), outcome), drawn)
    }
}

fn failed(because: String) -> ThreadResult {
    (TaskResult::Failed(because, Outcome::Failed), None)
}
