//! Every process that is known, and what is asked of all of them at once.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use base::time::{Moment, Wall};
use gc_rules::incident::{Finding, RESUME_NS};
use gc_rules::rule_set::RuleSet;
use gc_telemetry::origin::Origin;
use targets::host::now;

use crate::pipeline::exited::ExitedRun;
use crate::pipeline::feed::Feed;
use crate::pipeline::history_folder::HistoryFolder;
use crate::pipeline::observed_run::ObservedRun;
use crate::pipeline::outlet::Outlet;
use crate::pipeline::resumed::StoredState;
use crate::pipeline::service::Death;
use crate::pipeline::shared::{Counts, Noted, Shared, add_unknown};
use crate::pipeline::wants::{self, Want};
use base::run_key::RunKey;
use evidence::black_box::BlackBox;
use evidence::flames::Flames;
use evidence::store::Store;
use processes::surroundings::Surroundings;
use processes::{Identity, RunState};
use run::history::{Bucket, bucket_of};
use run::settings::{Clock, PipelineSettings};
use run::{At, Input, Measured, RuleCounts};
use targets::clock::Clocks;
use targets::sink::{Full, Sink};

/// Most incidents that are stored; of more, the most severe and oldest.
const MOST_STORED: usize = 1000;

/// Buckets of the history that ended so long ago change no more: what belongs to a collection may be known late.
const SETTLED: u64 = 12;

/// Most processes that are remembered although nothing is read from them (excluded, unattachable).
const MAX_NOTED: usize = 4096;

/// The pipeline from outcomes to spans, metrics and alerts, shared by all tasks.
#[derive(Debug, Clone)]
pub struct Pipeline {
    shared: Arc<Shared>,
}

impl Pipeline {
    /// A pipeline without runs and without rules.
    pub fn new(settings: PipelineSettings, outlet: Arc<dyn Outlet>) -> Self {
        Self {
            shared: Arc::new(Shared::new(settings, outlet)),
        }
    }

    /// What the wall clock shows at the instants of its records.
    pub fn wall(&self) -> Wall {
        self.shared.wall()
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// The place of evidence outside of the host. It is set once.
    pub fn set_store(&self, store: Store) {
        let _set_already = self.shared.store.set(store);
    }

    /// Where evidence is kept outside of the host; `None`: it stays on the host.
    pub(crate) fn store(&self) -> Option<&Store> {
        self.shared.store.get()
    }

    /// Severe incidents of processes that are attached to from now on are recorded there.
    pub fn set_black_box(&self, black_box: BlackBox) {
        let _set_already = self.shared.black_box.set(black_box);
    }

    /// The history of runs is kept there from now on.
    pub fn set_history(&self, history: HistoryFolder) {
        let _set_already = self.shared.history.set(history);
    }

    /// The flame graphs of incidents.
    pub fn flames(&self) -> &Flames {
        &self.shared.flames
    }

    /// Other settings, from now on. Histograms of runs that were attached to before keep their buckets.
    pub fn reconfigure(&self, settings: PipelineSettings) {
        self.shared.set_settings(settings);
        let (settings, at) = (self.shared.settings(), self.shared.at(now()));
        for run in self.runs() {
            run.hand(at, Input::Settings(Arc::clone(&settings)));
        }
    }

    /// Other rules, from now on and for all runs. What a rule knows of a process stays while its id and its meaning do.
    pub fn set_rules(&self, rules: Arc<RuleSet>, now: Moment) {
        self.shared.set_rules(Arc::clone(&rules));
        for run in self.runs() {
            run.hand(self.shared.at(now), Input::Rules(Arc::clone(&rules)));
            self.shared.count_rules(&run);
        }
        // Counts of rules that are gone go with them.
        let known = rules.by_id();
        self.shared.rule_counts().retain(|id, _| known.contains_key(&**id));
    }

    /// The rules in force.
    pub fn rules(&self) -> Arc<RuleSet> {
        self.shared.rules()
    }

    /// What each rule's evaluations came to, over all runs since the pipeline began; without rules that were never
    /// evaluated.
    pub fn rule_counts(&self) -> BTreeMap<Arc<str>, RuleCounts> {
        for run in self.runs() {
            self.shared.count_rules(&run);
        }
        self.shared.rule_counts().clone()
    }

    /// Advances the time of the rules of live runs, so that silence counts: must be called once a second.
    ///
    /// `behind`: how long ago all streams were read to their end. While that is long, it is gcwatch that is silent, and
    /// the time passes up to then only.
    pub fn tick(&self, clocks: Clocks, behind: Duration) {
        let now = clocks.moment();
        let wall = match self.shared.settings().clock {
            Clock::Live => self.shared.observe_clocks(clocks),
            Clock::Recorded => Wall::UNIX,
        };
        let behind_ns = u64::try_from(behind.as_nanos()).unwrap_or(u64::MAX);
        let runs = self.live();
        for run in &runs {
            run.hand(At { now, wall }, Input::Tick { behind_ns });
        }
        let is_awaited = *self.shared.scanned.borrow() && !self.shared.incidents().waiting.waiting.is_empty();
        let known: Option<Vec<RunKey>> = is_awaited.then(|| {
            let processes = self.shared.processes();
            processes.runs.keys().chain(processes.noted.keys()).copied().collect()
        });
        self.shared.tick_incidents(&runs, known.as_deref(), now);
        self.learn_deaths(now);
    }

    /// What became known of processes that exited a moment ago.
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

    /// Changes with every change of an incident: what is stored of them is old then.
    pub fn incident_changes(&self) -> u64 {
        self.shared.counters.incident_changes.load(Ordering::Relaxed)
    }

    /// Who gcwatch itself is, for what rules say of it.
    pub fn set_own(&self, run: RunKey, resource: Arc<Origin>) {
        self.shared.incidents().own = Some((run, resource));
    }

    /// gcwatch itself stalled for so long until now.
    pub fn stalled(&self, length: Duration, now: Moment) {
        self.shared.incidents().watcher.stalled(length, now);
    }

    /// The dead of the last minutes of which it is not known whether they were killed for memory.
    pub(crate) fn unexplained_deaths(&self) -> Vec<RunKey> {
        self.shared.incidents().book.unexplained()
    }

    /// Whether a dead process was killed for memory.
    pub(crate) fn oom_killed(&self, dead: RunKey, killed: bool) {
        self.shared.incidents().book.oom_killed(dead, killed);
    }

    /// Whose metadata is added to processes from now on; it is asked at once, and with each
    /// [`Self::surroundings_changed`].
    pub fn set_surroundings(&self, surroundings: Option<Arc<dyn Surroundings>>) {
        self.shared.set_surroundings(surroundings);
        self.surroundings_changed(now());
    }

    /// Metadata may have changed: it is asked for anew, and what differs is in all that is exported from now on.
    /// Returns the number of runs for which it differs.
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

    /// A reading of a run's memory and its container.
    pub fn measured(&self, run: &ObservedRun, measured: Measured, now: Moment) {
        run.hand(self.shared.at(now), Input::Measured(Box::new(measured)));
    }

    /// Something happens to a run now.
    pub(crate) fn hand(&self, run: &ObservedRun, input: Input) {
        run.hand(self.shared.at(now()), input);
    }

    /// Waits until [`scanned`](Sink::scanned) was called for the first time.
    pub async fn first_scan(&self) {
        let mut scanned = self.shared.scanned.subscribe();
        // The sender lives as long as the pipeline.
        let _scanned = scanned.wait_for(|scanned| *scanned).await;
    }

    /// Every run that is observed, by pid.
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

    /// What open incidents of live processes ask bursts for, the most severe first.
    pub fn wants(&self) -> Vec<Want> {
        let live = self.live().into_iter();
        let mut wants: Vec<_> = live.flat_map(|run| wants::of_run(&run.look())).collect();
        wants.sort_by_key(|(severity, _)| Reverse(*severity));
        wants.into_iter().map(|(_, want)| want).collect()
    }

    /// Whom the telemetry of a run is of; `None`: it is gone.
    pub fn resource(&self, run: RunKey) -> Option<Arc<Origin>> {
        Some(Arc::clone(self.run(run)?.look().identity.resource()))
    }

    /// gcwatch begins a heap dump of a run (`true`), or has ended one: its collections are not the program's.
    pub fn dumps(&self, run: RunKey, begins: bool) {
        if let Some(run) = self.run(run) {
            self.hand(&run, Input::OwnDump(begins));
        }
    }

    /// A burst for an incident is over, or there is none. An incident that ended meanwhile does not get it.
    pub fn found(&self, run: RunKey, incident: u64, mut finding: Finding) {
        finding.dated(self.wall().unix_ns(now()));
        if let Some(run) = self.run(run) {
            let finding = Box::new(finding);
            self.hand(&run, Input::Found { incident, finding });
        }
    }

    /// Continues the incidents that were open before gcwatch was restarted. `same_boot`: pids and start times mean the
    /// same processes as then; otherwise all of them end.
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

    /// What is open now and receivers know of, for [`resume`](Self::resume) of the next daemon.
    pub fn open_incidents(&self) -> Vec<StoredState> {
        let (mut open, wall) = (Vec::new(), self.wall());
        for run in self.live() {
            let run = run.look();
            let Some(rules) = &run.rules else { continue };
            let (who, resource) = (run.identity.who(), run.identity.resource());
            let share = run.identity.share();
            let incidents = rules.incidents();
            open.extend(
                incidents.map(|incident| StoredState::of(run.key(), &who.name, resource, &share, incident, wall)),
            );
        }
        for left in self.shared.incidents().open() {
            let state =
                |incident| StoredState::of(left.run, &left.process, &left.resource, &left.share, incident, wall);
            open.extend(left.incidents.open().map(|incident| state(incident)));
        }
        // One whose process exited meanwhile was met twice.
        let mut met = BTreeSet::new();
        open.retain(|state| met.insert((state.pid, state.start_time, state.incident.number())));
        open.sort_by_key(|state| (Reverse(state.incident.severity()), state.incident.began_unix_ns()));
        open.truncate(MOST_STORED);
        open
    }

    /// Ends all open incidents: nobody watches any more, and nothing of them outlives this daemon.
    pub fn unwatch_all(&self, now: Moment) {
        for run in self.live() {
            run.hand(self.shared.at(now), Input::Unwatched);
        }
        let mut owner = self.shared.incidents();
        let changes = owner.unwatch(now);
        self.shared.notify_all(&mut owner, changes);
    }

    /// Writes what is new of the history of all runs; blocking. `all`: also what may change yet, as gcwatch ends.
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
            // A disk may hang.
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

    /// Exports those of one share of the runs, `share` of `shares`; a run is always in the same share.
    pub fn export_share(&self, share: u32, shares: u32, now_unix_ns: u64) {
        self.shared.export(&self.runs(), (share, shares), now_unix_ns);
    }

    /// What was counted since the pipeline began.
    pub fn counts(&self) -> Counts {
        self.shared.counters.now()
    }
}

impl Sink for Pipeline {
    type Run = Feed;

    fn open(&self, mut identity: Identity) -> Result<Feed, Full> {
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
                return Err(Full {
                    limit: settings.max_runs,
                });
            }
            None => {
                let key = identity.key;
                let at = self.shared.at(now());
                let delivery = Arc::downgrade(&self.shared);
                let run = Arc::new(ObservedRun::new(identity, settings, at, delivery));
                // It has no rules yet: there are no alerts that this could change.
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
        let noted = Noted {
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
