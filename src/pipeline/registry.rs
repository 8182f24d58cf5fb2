//! Every run that is told of, and the way out.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use gc_telemetry::origin::Origin;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::metrics::v1::Metric;
use tokio::sync::watch;

use crate::container::{ContainerIdentity, Figures};
use crate::pipeline::feed::Feed;
use crate::pipeline::ruled::RuleCounts;
use crate::pipeline::run::Run;
use crate::process::{Identity, Provenance, RunKey, RunState};
use crate::targets::sink::Full;
use delivery::alerts::Notice;
use delivery::clock::now_unix_ns;
use gc_rules::rule::RuleSet;
use gc_telemetry::options::{MetricOptions, SpanOptions, Temporality};
use gc_telemetry::spans::Encoded;

/// Most processes that are remembered although nothing is read from them (left out, not attachable).
const MAX_NOTED: usize = 4096;

/// Where spans, metrics and alerts go. What an implementation cannot take it counts; it never waits.
pub trait Outlet: Send + Sync + fmt::Debug {
    /// Spans of one process.
    fn spans(&self, resource: &Arc<Origin>, spans: Encoded);
    /// Metrics of one process.
    fn metrics(&self, resource: &Arc<Origin>, metrics: Vec<Metric>);
    /// Changes of alerts of one process, in order.
    fn alerts(&self, resource: &Arc<Origin>, notices: Vec<Notice>);
}

/// Who knows more of a process by where it runs: an orchestrator.
pub trait Surroundings: Send + Sync + fmt::Debug {
    /// Attributes of a process in this container, as far as they are known now; what the process says of itself wins over them. Asked under
    /// a lock: it does not wait.
    fn attributes(&self, container: &ContainerIdentity) -> Vec<KeyValue>;
}

/// What the time of an event is compared with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Clock {
    /// Processes that run now: how late a collection is told is measured.
    #[default]
    Live,
    /// Recordings.
    Recorded,
}

/// How collections are told.
#[derive(Debug, Clone, PartialEq)]
pub struct PipelineSettings {
    /// What becomes spans.
    pub spans: SpanOptions,
    /// What becomes metrics.
    pub metrics: MetricOptions,
    /// Most runs that are told of at once.
    pub max_runs: usize,
    /// Collections that are remembered of each run, for the API.
    pub recent: usize,
    /// Live or recorded.
    pub clock: Clock,
    /// Attributes of every process's resource; what a process says of itself wins.
    pub resource: Vec<KeyValue>,
}

impl Default for PipelineSettings {
    fn default() -> Self {
        Self {
            spans: SpanOptions::default(),
            metrics: MetricOptions::default(),
            max_runs: 1000,
            recent: 10,
            clock: Clock::Live,
            resource: Vec::new(),
        }
    }
}

/// What the pipeline counted since it began, over all runs, also those that ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Collections told.
    pub collections: u64,
    /// Spans made.
    pub spans: u64,
    /// Collections that did not become spans because there were more in a second than may be.
    pub over_rate: u64,
    /// Runs that could not be told of because there were as many as may be.
    pub over_limit: u64,
    /// Processes that were not remembered because there were as many as may be.
    pub not_noted: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) collections: AtomicU64,
    pub(crate) spans: AtomicU64,
    pub(crate) over_rate: AtomicU64,
    over_limit: AtomicU64,
    not_noted: AtomicU64,
}

/// A process from which nothing is read, and why.
#[derive(Debug, Clone)]
pub(crate) struct Noted {
    pub(crate) identity: Identity,
    pub(crate) state: RunState,
    pub(crate) since_unix_ns: u64,
}

#[derive(Debug, Default)]
struct Registry {
    runs: BTreeMap<RunKey, Arc<Run>>,
    noted: BTreeMap<RunKey, Noted>,
}

#[derive(Debug)]
pub(crate) struct Shared {
    settings: RwLock<Arc<PipelineSettings>>,
    rules: RwLock<Arc<RuleSet>>,
    /// What rules came to, over all runs.
    rule_counts: Mutex<BTreeMap<Arc<str>, RuleCounts>>,
    outlet: Arc<dyn Outlet>,
    registry: Mutex<Registry>,
    pub(crate) counters: Counters,
    scanned: watch::Sender<bool>,
    /// Who says more of processes.
    surroundings: RwLock<Option<Arc<dyn Surroundings>>>,
}

impl Shared {
    /// What is said of a run beside what was found.
    pub(crate) fn metadata(&self, provenance: &Provenance) -> Vec<KeyValue> {
        let surroundings = self.surroundings.read().unwrap_or_else(PoisonError::into_inner);
        surroundings
            .as_ref()
            .map(|surroundings| surroundings.attributes(&provenance.container))
            .unwrap_or_default()
    }

    pub(crate) fn settings(&self) -> Arc<PipelineSettings> {
        Arc::clone(&self.settings.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn rules(&self) -> Arc<RuleSet> {
        Arc::clone(&self.rules.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Adds what a run's rules counted since the last call.
    fn count_rules(&self, run: &Run) {
        let mut counts = self.rule_counts.lock().unwrap_or_else(PoisonError::into_inner);
        run.count_rules(&mut counts);
    }

    /// Tells changes of alerts.
    pub(crate) fn tell(&self, (resource, notices): (Arc<Origin>, Vec<Notice>)) {
        if !notices.is_empty() {
            self.outlet.alerts(&resource, notices);
        }
    }

    pub(crate) fn outlet(&self) -> &dyn Outlet {
        &*self.outlet
    }

    fn registry(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells a run's metrics once, as the OTLP side wants them.
    pub(crate) fn export(&self, run: &Run, now_unix_ns: u64) {
        let temporality = self.settings().metrics.temporality;
        if let Some((resource, metrics)) = run.metrics(now_unix_ns, temporality) {
            self.outlet.metrics(&resource, metrics);
        }
    }

    /// The last export of a run, at the end of which its series end. What is recorded ends when its newest event was.
    pub(crate) fn end(&self, run: &Run) {
        let at = match run.clock() {
            Clock::Live => now_unix_ns(),
            Clock::Recorded => run.inside().newest_unix_ns,
        };
        self.tell(run.end_rules(at));
        self.count_rules(run);
        self.export(run, at);
        self.registry().runs.remove(&run.key());
    }
}

/// The pipeline from outcomes to what leaves, shared by all tasks.
#[derive(Debug, Clone)]
pub struct Pipeline {
    shared: Arc<Shared>,
}

impl Pipeline {
    /// A pipeline in which nothing is told of yet.
    pub fn new(settings: PipelineSettings, outlet: Arc<dyn Outlet>) -> Self {
        Self {
            shared: Arc::new(Shared {
                settings: RwLock::new(Arc::new(settings)),
                rules: RwLock::default(),
                rule_counts: Mutex::default(),
                outlet,
                registry: Mutex::default(),
                counters: Counters::default(),
                scanned: watch::Sender::new(false),
                surroundings: RwLock::default(),
            }),
        }
    }

    /// Other settings, from now on. Histograms of runs that are told of already keep their buckets.
    pub fn reconfigure(&self, settings: PipelineSettings) {
        *self.shared.settings.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(settings);
    }

    /// Other rules, from now on and for all runs. What a rule knows of a process stays where its id and its meaning do.
    pub fn set_rules(&self, rules: Arc<RuleSet>, now_unix_ns: u64) {
        *self.shared.rules.write().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&rules);
        for run in self.runs() {
            self.shared.count_rules(&run);
            self.shared.tell(run.adopt(&rules, now_unix_ns));
        }
        // What is no rule any more is told no more.
        let mut counts = self.shared.rule_counts.lock().unwrap_or_else(PoisonError::into_inner);
        let known = rules.by_id();
        counts.retain(|id, _| known.contains_key(&**id));
    }

    /// The rules in force.
    pub fn rules(&self) -> Arc<RuleSet> {
        self.shared.rules()
    }

    /// What each rule's evaluations came to, over all runs since the pipeline began; rules that were never evaluated aside.
    pub fn rule_counts(&self) -> BTreeMap<Arc<str>, RuleCounts> {
        for run in self.runs() {
            self.shared.count_rules(&run);
        }
        let counts = self.shared.rule_counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.clone()
    }

    /// Tells the rules of live runs what time it is, so that silence counts: to be called once a second.
    pub fn tick(&self, now_unix_ns: u64) {
        for run in self.runs() {
            if run.clock() == Clock::Live {
                self.shared.tell(run.tick(now_unix_ns));
            }
        }
    }

    /// Begins to tell of a run, or goes on with one that was told of before (its totals go on, too).
    ///
    /// # Errors
    ///
    /// When there are as many as may be.
    pub fn open(&self, mut identity: Identity) -> Result<Feed, Full> {
        let settings = self.shared.settings();
        for attribute in &settings.resource {
            if identity.resource.iter().all(|own| own.key != attribute.key) {
                identity.resource.push(attribute.clone());
            }
        }
        let metadata = self.shared.metadata(&identity.provenance);
        let mut registry = self.shared.registry();
        registry.noted.remove(&identity.key);
        let known = registry.runs.get(&identity.key).map(Arc::clone);
        let run = match known {
            Some(run) => run,
            None if registry.runs.len() >= settings.max_runs => {
                drop(registry);
                self.shared.counters.over_limit.fetch_add(1, Ordering::Relaxed);
                return Err(Full {
                    limit: settings.max_runs,
                });
            }
            None => {
                let key = identity.key;
                let run = Arc::new(Run::new(identity, settings.clock, now_unix_ns()));
                // Nothing is told yet: there are no alerts that it could change.
                let _no_notices = run.inside().surrounded(metadata, now_unix_ns());
                registry.runs.insert(key, Arc::clone(&run));
                run
            }
        };
        Ok(Feed::new(run, Arc::clone(&self.shared)))
    }

    /// Who says more of processes from now on; what they are said to be is asked at once, and again with each [`Self::surroundings_changed`].
    pub fn set_surroundings(&self, surroundings: Option<Arc<dyn Surroundings>>) {
        let mut known = self.shared.surroundings.write().unwrap_or_else(PoisonError::into_inner);
        *known = surroundings;
        drop(known);
        self.surroundings_changed(now_unix_ns());
    }

    /// Something else may be said of processes than before: what differs is in all that they tell from now on. How many it is of.
    pub fn surroundings_changed(&self, now_unix_ns: u64) -> usize {
        let mut changed = 0;
        for run in self.runs() {
            if run.clock() == Clock::Recorded {
                continue;
            }
            let mut inside = run.inside();
            let metadata = self.shared.metadata(&inside.identity.provenance);
            let Some(notices) = inside.surrounded(metadata, now_unix_ns) else {
                continue;
            };
            changed += 1;
            let resource = Arc::clone(&inside.resource);
            drop(inside);
            self.shared.tell((resource, notices));
        }
        changed
    }

    /// What the container of a run may use and does use; `None`: it is not read now.
    pub fn measured(&self, run: &Run, figures: Option<Figures>, now_unix_ns: u64) {
        let mut inside = run.inside();
        let notices = inside.measured(figures, now_unix_ns);
        let resource = Arc::clone(&inside.resource);
        drop(inside);
        self.shared.tell((resource, notices));
    }

    /// Says what is done with a process that has no feed (left out, not attachable); the newest word stands.
    pub fn note(&self, identity: &Identity, state: RunState) {
        let mut registry = self.shared.registry();
        if let Some(run) = registry.runs.get(&identity.key).map(Arc::clone) {
            drop(registry);
            run.set_state(state, now_unix_ns());
            return;
        }
        if registry.noted.len() >= MAX_NOTED && !registry.noted.contains_key(&identity.key) {
            drop(registry);
            self.shared.counters.not_noted.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let now = now_unix_ns();
        let since_unix_ns = registry
            .noted
            .get(&identity.key)
            .filter(|noted| noted.state == state)
            .map_or(now, |noted| noted.since_unix_ns);
        let noted = Noted {
            identity: identity.clone(),
            state,
            since_unix_ns,
        };
        registry.noted.insert(identity.key, noted);
    }

    /// Forgets a process that has no feed: it is gone. A run that was told of before gets its last export.
    pub fn forget(&self, key: RunKey) {
        let run = {
            let mut registry = self.shared.registry();
            registry.noted.remove(&key);
            registry.runs.get(&key).map(Arc::clone)
        };
        if let Some(run) = run {
            run.set_state(RunState::Ended, now_unix_ns());
            self.shared.end(&run);
        }
    }

    /// All processes of the host were looked at: those that are there are known.
    pub fn scanned(&self) {
        self.shared.scanned.send_replace(true);
    }

    /// Waits until [`scanned`](Self::scanned) was said.
    pub async fn first_scan(&self) {
        let mut scanned = self.shared.scanned.subscribe();
        // The sender lives as long as the pipeline.
        let _said = scanned.wait_for(|scanned| *scanned).await;
    }

    /// Every run that is told of, by pid.
    pub fn runs(&self) -> Vec<Arc<Run>> {
        self.shared.registry().runs.values().map(Arc::clone).collect()
    }

    pub(crate) fn noted(&self) -> Vec<Noted> {
        self.shared.registry().noted.values().cloned().collect()
    }

    /// The metrics of every run, counted from its first attach.
    pub fn collect(&self, now_unix_ns: u64) -> Vec<(Arc<Origin>, Vec<Metric>)> {
        self.runs()
            .iter()
            .filter_map(|run| run.metrics(now_unix_ns, Temporality::Cumulative))
            .collect()
    }

    /// Sends the metrics of every run on their way, as the settings say.
    pub fn export_metrics(&self, now_unix_ns: u64) {
        self.export_share(0, 1, now_unix_ns);
    }

    /// Sends those of one share of the runs of `shares`; a run is always in the same.
    pub fn export_share(&self, share: u32, shares: u32, now_unix_ns: u64) {
        for run in self.runs() {
            if run.key().pid % shares.max(1) == share {
                self.shared.export(&run, now_unix_ns);
            }
        }
    }

    /// What was counted since the pipeline began.
    pub fn counts(&self) -> Counts {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counters = &self.shared.counters;
        Counts {
            collections: get(&counters.collections),
            spans: get(&counters.spans),
            over_rate: get(&counters.over_rate),
            over_limit: get(&counters.over_limit),
            not_noted: get(&counters.not_noted),
        }
    }
}
