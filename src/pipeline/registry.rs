//! Every process that is known, and what is asked of all of them at once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use gc_rules::engine::RuleState;
use gc_rules::rule::Rule;
use gc_rules::rule_set::RuleSet;
use gc_rules::time::{Moment, Wall};
use gc_telemetry::options::Temporality;
use gc_telemetry::origin::Origin;
use opentelemetry_proto::tonic::metrics::v1::Metric;
use targets::host::now;

use crate::pipeline::feed::Feed;
use crate::pipeline::history_folder::HistoryFolder;
use crate::pipeline::observed_run::ObservedRun;
use crate::pipeline::outlet::Outlet;
use crate::pipeline::service::{Death, SubjectAlert, SubjectName};
use crate::pipeline::shared::{Counts, Noted, Shared};
use evidence::black_box::BlackBox;
use evidence::black_box::files::Files;
use evidence::flames::Flames;
use processes::surroundings::Surroundings;
use processes::{Identity, RunKey, RunState};
use run::settings::{Clock, PipelineSettings};
use run::{At, Input, Measured, RuleCounts};
use targets::clock::Clocks;
use targets::sink::{Full, Sink};

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

    /// Severe incidents of processes that are attached to from now on are recorded there.
    pub fn set_black_box(&self, black_box: BlackBox) {
        self.shared.set_black_box(black_box);
    }

    /// The history of runs is kept there from now on.
    pub fn set_history(&self, history: HistoryFolder) {
        self.shared.set_history(history);
    }

    /// The recordings of incidents; `None`: none are made.
    pub fn black_box_files(&self) -> Option<Arc<Files>> {
        self.shared.black_box().map(|black_box| Arc::clone(black_box.files()))
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
        let mut runs = self.runs();
        runs.retain(|run| run.clock() == Clock::Live);
        for run in &runs {
            run.hand(At { now, wall }, Input::Tick { behind_ns });
        }
        let is_awaited = *self.shared.scanned.borrow() && !self.shared.incidents().waiting.is_empty();
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
        let deaths: Vec<Death> = young.into_iter().filter_map(|run| self.death(run)).collect();
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

    /// The alerts of services, and of gcwatch itself, that fire.
    pub fn subject_alerts(&self) -> Vec<SubjectAlert> {
        self.shared.incidents().judged.alerts()
    }

    /// The state of each rule that is about services or gcwatch itself, of each of them.
    pub(crate) fn subject_states(&self) -> Vec<(Arc<Rule>, SubjectName, RuleState)> {
        self.shared.incidents().judged.states()
    }

    /// How a run ended; `None`: it lives, or ended more than 15 minutes ago.
    pub fn death(&self, run: RunKey) -> Option<Death> {
        self.shared.incidents().book.death(run).cloned()
    }

    /// Since when a process that came in the place of a dead one lives without an alert of severity error or critical;
    /// `None`: there is none.
    pub fn successor_well_since(&self, dead: RunKey) -> Option<Moment> {
        self.shared.incidents().book.successor_well_since(dead)
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
        for run in self.runs() {
            if run.clock() == Clock::Recorded {
                continue;
            }
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

    /// How much of the time the finalizer thread of a run had a CPU in the round that began then; `None`: unknown.
    pub fn finalizer_cpu(&self, run: &ObservedRun, begun: Moment, share: Option<f64>) {
        run.hand(self.shared.at(now()), Input::FinalizerCpu { begun, share });
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

    /// The processes that have no feed, with what an orchestrator knows of them.
    pub(crate) fn noted(&self) -> Vec<Noted> {
        let mut noted: Vec<Noted> = self.shared.processes().noted.values().cloned().collect();
        for Noted { identity, .. } in &mut noted {
            for attribute in self.shared.metadata(&identity.provenance) {
                if identity.resource.iter().all(|own| own.key != attribute.key) {
                    identity.resource.push(attribute);
                }
            }
        }
        noted
    }

    /// The metrics of every run, counted from its first attach.
    pub fn collect(&self, now_unix_ns: u64) -> Vec<(Arc<Origin>, Vec<Metric>)> {
        self.runs()
            .iter()
            .filter_map(|run| run.metrics(now_unix_ns, Temporality::Cumulative))
            .collect()
    }

    /// Exports the metrics of every run, with the temporality of the settings.
    pub fn export_metrics(&self, now_unix_ns: u64) {
        self.export_share(0, 1, now_unix_ns);
    }

    /// Exports those of one share of the runs, `share` of `shares`; a run is always in the same share.
    pub fn export_share(&self, share: u32, shares: u32, now_unix_ns: u64) {
        for run in self.runs() {
            if run.key().pid % shares.max(1) == share {
                self.shared.export(&run, now_unix_ns);
            }
        }
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
        for attribute in &settings.resource {
            if identity.resource.iter().all(|own| own.key != attribute.key) {
                identity.resource.push(attribute.clone());
            }
        }
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
            run.hand(self.shared.at(now()), Input::State(state));
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
