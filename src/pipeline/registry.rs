//! All known processes, and the operations that concern all of them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use base::time::{Moment, Wall};
use gc_advice::change::ChangeRecord;
use gc_telemetry::origin::Origin;
use incidents::{Finding, RESUME_NS};
use rule_engine::rule_set::RuleSet;
use targets::host::now;

use crate::pipeline::evidence_requests;
use crate::pipeline::exited::ExitedRun;
use crate::pipeline::feed::Feed;
use crate::pipeline::history_folder::HistoryFolder;
use crate::pipeline::observed_run::ObservedRun;
use crate::pipeline::outlet::Outlet;
use crate::pipeline::resumed::StoredState;
use crate::pipeline::service::Death;
use crate::pipeline::shared::{Counts, Shared, UnreadProcess, add_unknown};
use base::run_key::RunKey;
use evidence::black_box::BlackBox;
use evidence::flames::Flames;
use evidence::schedule::EvidenceRequest;
use evidence::store::Store;
use processes::surroundings::Surroundings;
use processes::{Identity, RunState};
use run::history::{Bucket, bucket_of};
use run::settings::{Clock, PipelineSettings};
use run::{Input, InputTime, ProcessReading, RuleCounts};
use targets::clock::Clocks;
use targets::sink::{Sink, TargetLimitError};

/// Maximum number of incidents that are stored. The most severe incidents are kept, and the oldest among equally severe
/// incidents.
const MAX_STORED: usize = 1000;

/// Number of buckets after which a bucket of the history no longer changes. Details of a collection can arrive late.
const SETTLED: u64 = 12;

/// Maximum number of processes that are remembered although gcwatch does not read them (excluded, unattachable).
const MAX_NOTED: usize = 4096;

/// The pipeline that turns outcomes into spans, metrics and alerts. All tasks share one pipeline.
#[derive(Debug, Clone)]
pub struct Pipeline {
    shared: Arc<Shared>,
}

impl Pipeline {
    /// Creates a pipeline without runs and without rules.
    pub fn new(settings: PipelineSettings, outlet: Arc<dyn Outlet>) -> Self {
        Self {
            shared: Arc::new(Shared::new(settings, outlet)),
        }
    }

    /// Returns the relation between the instants in this pipeline's records and the wall clock.
    pub fn wall(&self) -> Wall {
        self.shared.wall()
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// Sets the store that keeps evidence outside the host. Only the first call has an effect.
    pub fn set_store(&self, store: Store) {
        let _set_already = self.shared.store.set(store);
    }

    /// Returns the store that keeps evidence outside the host, or `None` if evidence stays on the host.
    pub(crate) fn store(&self) -> Option<&Store> {
        self.shared.store.get()
    }

    /// Sets the black box, which records severe incidents of processes that gcwatch attaches to afterwards.
    pub fn set_black_box(&self, black_box: BlackBox) {
        let _set_already = self.shared.black_box.set(black_box);
    }

    /// Sets the folder in which the history of runs is kept.
    pub fn set_history(&self, history: HistoryFolder) {
        let _set_already = self.shared.history.set(history);
    }

    /// Returns the flame graphs of incidents.
    pub fn flames(&self) -> &Flames {
        &self.shared.flames
    }

    /// Applies new settings. Histograms of runs that are already attached keep their buckets.
    pub fn reconfigure(&self, settings: PipelineSettings) {
        self.shared.set_settings(settings);
        let (settings, at) = (self.shared.settings(), self.shared.at(now()));
        for run in self.runs() {
            run.hand(at, Input::Settings(Arc::clone(&settings)));
        }
    }

    /// Applies new rules to all runs. The state of a rule in a process is kept if the id and the meaning of the rule
    /// are unchanged.
    pub fn set_rules(&self, rules: Arc<RuleSet>, now: Moment) {
        self.shared.set_rules(Arc::clone(&rules));
        for run in self.runs() {
            run.hand(self.shared.at(now), Input::Rules(Arc::clone(&rules)));
            self.shared.count_rules(&run);
        }
        // Drop the counts of removed rules.
        let known = rules.by_id();
        self.shared.rule_counts().retain(|id, _| known.contains_key(&**id));
    }

    /// Returns the rules in force.
    pub fn rules(&self) -> Arc<RuleSet> {
        self.shared.rules()
    }

    /// Returns the evaluation counts of each rule, over all runs since the pipeline was created. Rules that were never
    /// evaluated are not included.
    pub fn rule_counts(&self) -> BTreeMap<Arc<str>, RuleCounts> {
        for run in self.runs() {
            self.shared.count_rules(&run);
        }
        self.shared.rule_counts().clone()
    }

    /// Advances the time of the rules of live runs, so that missing events count. Must be called once per second.
    ///
    /// `behind` is the time since all streams were last read to their end. While this time is long, gcwatch itself is
    /// the reason for missing events, so the time of the rules advances only up to the instant at which the streams
    /// were last read.
    pub fn tick(&self, clocks: Clocks, behind: Duration) {
        let now = clocks.moment();
        let wall = match self.shared.settings().clock {
            Clock::Live => self.shared.observe_clocks(clocks),
            Clock::Recorded => Wall::UNIX,
        };
        let behind_ns = u64::try_from(behind.as_nanos()).unwrap_or(u64::MAX);
        let runs = self.live();
        for run in &runs {
            run.hand(InputTime { now, wall }, Input::Tick { behind_ns });
        }
        let is_awaited = *self.shared.scanned.borrow() && !self.shared.incidents().waiting.waiting.is_empty();
        let known: Option<Vec<RunKey>> = is_awaited.then(|| {
            let processes = self.shared.processes();
            processes.runs.keys().chain(processes.noted.keys()).copied().collect()
        });
        self.shared.tick_incidents(&runs, known.as_deref(), now);
        self.learn_deaths(now);
    }

    /// Passes the causes of recent exits from the book of services to the exited runs.
    fn learn_deaths(&self, now: Moment) {
        let young = self.shared.processes().exited.learning(now);
        if young.is_empty() {
            return;
        }
        let deaths: Vec<Death> = {
            let owner = self.shared.incidents();
            young.iter().filter_map(|run| owner.book.death(*run).cloned()).collect()
        };
        let mut processes = self.shared.processes();
        deaths.iter().for_each(|death| processes.exited.learn(death));
    }

    /// Returns a number that changes with every change of an incident. Stored incidents are outdated if this number has
    /// changed.
    pub fn incident_changes(&self) -> u64 {
        self.shared.counters.incident_changes.load(Ordering::Relaxed)
    }

    /// Sets the identity of gcwatch itself, for rules about gcwatch.
    pub fn set_own(&self, run: RunKey, resource: Arc<Origin>) {
        self.shared.incidents().own = Some((run, resource));
    }

    /// Records that gcwatch itself stalled for the given duration, until now.
    pub fn stalled(&self, length: Duration, now: Moment) {
        self.shared.incidents().watcher.stalled(length, now);
    }

    /// Returns processes that exited in the last minutes for which it is unknown whether they were killed for memory.
    pub(crate) fn unexplained_deaths(&self) -> Vec<RunKey> {
        self.shared.incidents().book.unexplained()
    }

    /// Records whether a process that has exited was killed for memory.
    pub(crate) fn oom_killed(&self, dead: RunKey, killed: bool) {
        self.shared.incidents().book.oom_killed(dead, killed);
    }

    /// Sets the source of metadata that is added to processes. The source is queried at once, and at each
    /// [`Self::surroundings_changed`].
    pub fn set_surroundings(&self, surroundings: Option<Arc<dyn Surroundings>>) {
        self.shared.set_surroundings(surroundings);
        self.surroundings_changed(now());
    }

    /// Queries the metadata of all runs again after a possible change. Differences apply to all later exports. Returns
    /// the number of runs whose metadata differs.
    pub fn surroundings_changed(&self, now: Moment) -> usize {
        let mut changed = 0;
        for run in self.live() {
            let (metadata, is_news) = {
                let run = run.look();
                let metadata = self.shared.metadata(&run.identity.who().provenance);
                let is_news = run.identity.is_news(&metadata);
                (metadata, is_news)
            };
            if is_news {
                changed += 1;
                run.hand(self.shared.at(now), Input::Metadata(metadata));
            }
        }
        changed
    }

    /// Records a measurement of a run's memory and its container.
    pub fn measured(&self, run: &ObservedRun, measured: ProcessReading, now: Moment) {
        run.hand(self.shared.at(now), Input::Measured(Box::new(measured)));
    }

    /// Applies an input to a run now.
    pub(crate) fn hand(&self, run: &ObservedRun, input: Input) {
        run.hand(self.shared.at(now()), input);
    }

    /// Waits until [`scanned`](Sink::scanned) is called for the first time.
    pub async fn first_scan(&self) {
        let mut scanned = self.shared.scanned.subscribe();
        // The sender lives as long as the pipeline.
        let _scanned = scanned.wait_for(|scanned| *scanned).await;
    }

    /// Returns all observed runs, sorted by pid.
    pub fn runs(&self) -> Vec<Arc<ObservedRun>> {
        self.shared.processes().runs.values().map(Arc::clone).collect()
    }

    fn live(&self) -> Vec<Arc<ObservedRun>> {
        let mut runs = self.runs();
        runs.retain(|run| run.clock() == Clock::Live);
        runs
    }

    fn run(&self, key: RunKey) -> Option<Arc<ObservedRun>> {
        self.shared.processes().runs.get(&key).map(Arc::clone)
    }

    /// Returns the evidence requests of open incidents of live processes, the most severe incidents first.
    pub fn evidence_requests(&self) -> Vec<EvidenceRequest> {
        let live = self.live().into_iter();
        let mut requests: Vec<_> = live.flat_map(|run| evidence_requests::for_run(&run.look())).collect();
        requests.sort_by_key(|(severity, _)| Reverse(*severity));
        requests.into_iter().map(|(_, want)| want).collect()
    }

    /// Records that gcwatch starts a heap dump of a run (`true`) or has finished one. Collections during a dump do not
    /// count as collections of the program.
    pub fn dumps(&self, run: RunKey, begins: bool) {
        if let Some(run) = self.run(run) {
            self.hand(&run, Input::OwnDump(begins));
        }
    }

    /// Adds the finding of a burst, or the reason for a missing finding, to an incident. An incident that has ended
    /// gets no finding.
    pub fn found(&self, run: RunKey, incident: u64, mut finding: Finding) {
        finding.dated(self.wall().unix_ns(now()));
        if let Some(run) = self.run(run) {
            let finding = Box::new(finding);
            self.hand(&run, Input::Found { incident, finding });
        }
    }

    /// Continues the incidents that were open before gcwatch was restarted. `same_boot`: whether the machine has not
    /// been rebooted, so pids and start times are still valid. Otherwise all incidents end.
    pub fn resume(&self, stored: &[StoredState], same_boot: bool, now: Moment) {
        let (rules, wall) = (self.rules(), self.wall());
        let mut owner = self.shared.incidents();
        owner.waiting.until = now.after(RESUME_NS);
        for state in stored {
            let ((resource, known), ended) = owner.resume(state, same_boot, &rules, wall, now);
            self.shared.outlet().resumed(&resource, known.incidents, wall);
            self.shared.notify_all(&mut owner, ended);
        }
    }

    /// Returns the open incidents that receivers know, for [`resume`](Self::resume) of the next daemon.
    pub fn open_incidents(&self) -> Vec<StoredState> {
        let (mut open, wall) = (Vec::new(), self.wall());
        for run in self.live() {
            let run = run.look();
            let Some(rules) = &run.rules else { continue };
            let (who, resource) = (run.identity.who(), run.identity.resource());
            let share = run.identity.share();
            let incidents = rules.incidents();
            open.extend(
                incidents.map(|incident| StoredState::new(run.key(), &who.name, resource, &share, incident, wall)),
            );
        }
        for left in self.shared.incidents().open() {
            let state =
                |incident| StoredState::new(left.run, &left.process, &left.resource, &left.share, incident, wall);
            open.extend(left.incidents.open().map(|incident| state(incident)));
        }
        // An incident whose process exited during this function can appear twice.
        let mut met = BTreeSet::new();
        open.retain(|state| met.insert((state.pid, state.start_time, state.incident.number())));
        open.sort_by_key(|state| (Reverse(state.incident.severity()), state.incident.began_unix_ns()));
        open.truncate(MAX_STORED);
        open
    }

    /// Closes all open incidents, because no daemon will monitor the processes after this daemon.
    pub fn unwatch_all(&self, now: Moment) {
        for run in self.live() {
            run.hand(self.shared.at(now), Input::Unwatched);
        }
        let mut owner = self.shared.incidents();
        let changes = owner.unwatch(now);
        self.shared.notify_all(&mut owner, changes);
    }

    /// Returns whether changes of configurations wait for [`compare_changes`](Self::compare_changes).
    pub fn has_comparisons(&self) -> bool {
        self.shared.has_comparisons()
    }

    /// Compares the changes of configurations that have enough data, and exports those with new verdicts. Takes up to
    /// 20 ms per change.
    pub fn compare_changes(&self) {
        self.shared.compare_changes();
    }

    /// Returns the counts of the profiles of services.
    pub fn profile_counts(&self) -> gc_advice::services::Counts {
        self.shared.changes().services.counts()
    }

    /// Returns the changes of configurations of all services, newest first.
    pub fn change_records(&self) -> Vec<ChangeRecord> {
        self.shared.change_records(None)
    }

    /// Writes new buckets of all runs to the history. `all`: whether to include buckets that can still change, because
    /// gcwatch exits. Blocks the calling thread.
    pub fn keep_history(&self, now: Moment, all: bool) {
        let Some(folder) = self.shared.history.get() else {
            return;
        };
        let mut runs = self.runs();
        let exited = |exited: &ExitedRun| Arc::clone(&exited.run);
        runs.extend(self.shared.processes().exited.all().map(exited));
        for observed in &runs {
            let run = observed.look();
            let now = run.present(now);
            let is_over = all || run.session.state == RunState::Ended;
            let settled = bucket_of(now).saturating_sub(SETTLED);
            let (mut buckets, wall) = (run.history.unkept(now), run.wall);
            // A disk can hang, so release the run first.
            drop(run);
            buckets.retain(|bucket| is_over || bucket.index < settled);
            let Some(newest) = buckets.last().map(|bucket| bucket.index) else {
                continue;
            };
            let shown: Vec<Bucket> = buckets.into_iter().map(|bucket| bucket.on(wall)).collect();
            if folder.keep(observed.key(), &shown) {
                let until = newest + 1;
                observed.hand(self.shared.at(now), Input::HistoryKept { until });
            }
        }
        let runs = runs.iter().map(|run| run.key()).collect();
        if let Err(error) = folder.prune(&runs, SystemTime::now()) {
            tracing::debug!("cannot remove old histories: {error}");
        }
    }

    /// Exports the metrics of every run, with the temporality of the settings.
    pub fn export_metrics(&self, now_unix_ns: u64) {
        self.export_share(0, 1, now_unix_ns);
    }

    /// Exports the metrics of share number `share` of `shares`. A run is always in the same share.
    pub fn export_share(&self, share: u32, shares: u32, now_unix_ns: u64) {
        self.shared.export(&self.runs(), (share, shares), now_unix_ns);
    }

    /// Returns the counts since the pipeline was created.
    pub fn counts(&self) -> Counts {
        self.shared.counters.now()
    }
}

impl Sink for Pipeline {
    type Run = Feed;

    fn open(&self, mut identity: Identity) -> Result<Feed, TargetLimitError> {
        let settings = self.shared.settings();
        add_unknown(&mut identity.resource, &settings.resource);
        let metadata = self.shared.metadata(&identity.provenance);
        let mut processes = self.shared.processes();
        processes.noted.remove(&identity.key);
        let known = processes.runs.get(&identity.key).map(Arc::clone);
        let run = match known {
            Some(run) => run,
            None if processes.runs.len() >= settings.max_runs => {
                drop(processes);
                self.shared.counters.over_limit.fetch_add(1, Ordering::Relaxed);
                return Err(TargetLimitError {
                    limit: settings.max_runs,
                });
            }
            None => {
                let key = identity.key;
                let at = self.shared.at(now());
                let delivery = Arc::downgrade(&self.shared);
                let run = Arc::new(ObservedRun::new(identity, settings, at, delivery));
                // The run has no rules yet, so there are no alerts that the metadata could change.
                run.hand(at, Input::Metadata(metadata));
                processes.runs.insert(key, Arc::clone(&run));
                run
            }
        };
        Ok(Feed::new(run, Arc::clone(&self.shared)))
    }

    fn note(&self, identity: &Identity, state: RunState) {
        let mut processes = self.shared.processes();
        if let Some(run) = processes.runs.get(&identity.key).map(Arc::clone) {
            drop(processes);
            self.hand(&run, Input::State(state));
            return;
        }
        if processes.noted.len() >= MAX_NOTED && !processes.noted.contains_key(&identity.key) {
            drop(processes);
            self.shared.counters.not_noted.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let now = now();
        let since = processes
            .noted
            .get(&identity.key)
            .filter(|noted| noted.state == state)
            .map_or(now, |noted| noted.since);
        let noted = UnreadProcess {
            identity: identity.clone(),
            state,
            since,
        };
        processes.noted.insert(identity.key, noted);
    }

    fn forget(&self, key: RunKey) {
        let run = {
            let mut processes = self.shared.processes();
            processes.noted.remove(&key);
            processes.runs.get(&key).map(Arc::clone)
        };
        if let Some(run) = run {
            self.shared.end(&run);
        }
    }

    fn over_memory(&self) {
        self.shared.counters.over_memory.fetch_add(1, Ordering::Relaxed);
    }

    fn scanned(&self) {
        self.shared.scanned.send_replace(true);
    }
}
