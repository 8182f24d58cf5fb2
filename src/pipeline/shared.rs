//! State shared by all feeds and the pipeline: runs, settings, rules, the outlet and the counters.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};

use base::time::{Moment, Wall};
use delivery::alerts::Notices;
use gc_advice::change::ChangeRecord;
use gc_advice::configuration::Configuration;
use gc_advice::profile::Minute;
use gc_advice::services::{Input as ProfileInput, Output as ProfileOutput};
use gc_advice::sizing::{SizingRecord, size_profile};
use gc_telemetry::aggregate::{Services, is_in_share};
use gc_telemetry::options::{Aggregate, Temporality};
use gc_telemetry::origin::Origin;
use incidents::{Incidents, recording_id};
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::metrics::v1::Metric;
use rule_engine::rule_set::RuleSet;
use targets::host::now;
use tokio::sync::watch;
use tracing::info;

use crate::pipeline::changes::{ChangeOwner, WaitingComparison};
use crate::pipeline::exited::ExitedRuns;
use crate::pipeline::history_folder::HistoryFolder;
use crate::pipeline::incident_owner::IncidentOwner;
use crate::pipeline::observed_run::{Deliver, ObservedRun};
use crate::pipeline::outlet::Outlet;
use crate::pipeline::ranked_lock::{OWNER, PROCESSES, RankedGuard, RankedMutex, TOTALS};
use crate::pipeline::subject_incidents::{Changes, SubjectIncidents};
use base::run_key::RunKey;
use evidence::black_box::BlackBox;
use evidence::flames::Flames;
use evidence::store::Store;
use processes::surroundings::Surroundings;
use processes::{Identity, Provenance, RunState};
use run::settings::{Clock, PipelineSettings};
use run::{Input, InputTime, Output, RuleCounts, Run};
use targets::clock::Clocks;

/// Minimum change of the wall clock that counts, in nanoseconds. The wall clock and the monotonic clock cannot be read
/// at the same instant.
const SAME_NS: u64 = 1_000_000;

/// Minimum change of the wall clock that gcwatch logs, in nanoseconds.
const SET_NS: u64 = 100_000_000;

/// Counts since the pipeline was created, over all runs including ended runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Number of observed collections.
    pub collections: u64,
    /// Number of created spans.
    pub spans: u64,
    /// Number of collections that did not become spans because of the limit per second.
    pub over_rate: u64,
    /// Number of runs that were refused because of the limit of runs.
    pub over_limit: u64,
    /// Number of sessions that were ended because their stream took too much memory.
    pub over_memory: u64,
    /// Number of processes that were not remembered because of the limit of noted processes.
    pub not_noted: u64,
    /// Number of inputs that were dropped because a viewer held the run for too long. The next input of the run carries
    /// the same information.
    pub inputs_dropped: u64,
    /// Number of minutes of processes whose configuration is unknown, so that the minutes belong to no profile.
    pub minutes_unprofiled: u64,
    /// Number of comparisons of changes that were dropped because too many were waiting.
    pub comparisons_dropped: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) collections: AtomicU64,
    pub(crate) spans: AtomicU64,
    pub(crate) over_rate: AtomicU64,
    pub(crate) over_limit: AtomicU64,
    pub(crate) over_memory: AtomicU64,
    pub(crate) not_noted: AtomicU64,
    pub(crate) inputs_dropped: AtomicU64,
    /// Number that changes with every change of an incident.
    pub(crate) incident_changes: AtomicU64,
    /// Number of minutes of processes whose configuration is unknown.
    pub(crate) minutes_unprofiled: AtomicU64,
    /// Number of comparisons of changes that were dropped because too many were waiting.
    pub(crate) comparisons_dropped: AtomicU64,
}

impl Counters {
    pub(crate) fn now(&self) -> Counts {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            collections: get(&self.collections),
            spans: get(&self.spans),
            over_rate: get(&self.over_rate),
            over_limit: get(&self.over_limit),
            over_memory: get(&self.over_memory),
            not_noted: get(&self.not_noted),
            inputs_dropped: get(&self.inputs_dropped),
            minutes_unprofiled: get(&self.minutes_unprofiled),
            comparisons_dropped: get(&self.comparisons_dropped),
        }
    }
}

/// A process that gcwatch does not read, and the reason.
#[derive(Debug, Clone)]
pub(crate) struct UnreadProcess {
    pub(crate) identity: Identity,
    pub(crate) state: RunState,
    pub(crate) since: Moment,
}

/// The known processes: processes with a feed, noted processes, and exited processes.
#[derive(Debug, Default)]
pub(crate) struct Processes {
    pub(crate) runs: BTreeMap<RunKey, Arc<ObservedRun>>,
    pub(crate) noted: BTreeMap<RunKey, UnreadProcess>,
    /// Processes that have exited, kept for viewers.
    pub(crate) exited: ExitedRuns,
}

/// Adds the attributes with keys that the resource does not have.
pub(crate) fn add_unknown(resource: &mut Vec<KeyValue>, attributes: &[KeyValue]) {
    for attribute in attributes {
        if resource.iter().all(|own| own.key != attribute.key) {
            resource.push(attribute.clone());
        }
    }
}

#[derive(Debug)]
pub(crate) struct Shared {
    settings: RwLock<Arc<PipelineSettings>>,
    rules: RwLock<Arc<RuleSet>>,
    /// Evaluation counts of each rule, over all runs.
    rule_counts: RankedMutex<BTreeMap<Arc<str>, RuleCounts>, TOTALS>,
    outlet: Arc<dyn Outlet>,
    /// Nanoseconds by which the wall clock is ahead; see [`Wall`].
    ahead_ns: AtomicI64,
    processes: RankedMutex<Processes, PROCESSES>,
    incidents: RankedMutex<IncidentOwner, OWNER>,
    pub(crate) counters: Counters,
    /// Whether all of `/proc` has been scanned at least once.
    pub(crate) scanned: watch::Sender<bool>,
    surroundings: RwLock<Option<Arc<dyn Surroundings>>>,
    /// Black box, which is set at most once, like `store` and `history`.
    pub(crate) black_box: OnceLock<BlackBox>,
    /// Store that keeps evidence outside the host.
    pub(crate) store: OnceLock<Store>,
    pub(crate) history: OnceLock<HistoryFolder>,
    pub(crate) flames: Flames,
    /// The series of services, with `metrics.aggregate: service`. The lock is taken before the lock of a run, so that
    /// the readings of a run are applied in order.
    services: RankedMutex<Services, TOTALS>,
    /// Profiles of services, and the changes of their configurations.
    changes: Mutex<ChangeOwner>,
}

impl Shared {
    pub(crate) fn new(settings: PipelineSettings, outlet: Arc<dyn Outlet>) -> Self {
        Self {
            settings: RwLock::new(Arc::new(settings)),
            rules: RwLock::default(),
            rule_counts: RankedMutex::default(),
            outlet,
            ahead_ns: AtomicI64::new(Wall::UNIX.ahead_ns()),
            processes: RankedMutex::default(),
            incidents: RankedMutex::default(),
            counters: Counters::default(),
            scanned: watch::Sender::new(false),
            surroundings: RwLock::default(),
            black_box: OnceLock::new(),
            store: OnceLock::new(),
            history: OnceLock::new(),
            flames: Flames::default(),
            services: RankedMutex::default(),
            changes: Mutex::default(),
        }
    }

    /// Locks the profiles of services. The lock is taken last.
    pub(crate) fn changes(&self) -> MutexGuard<'_, ChangeOwner> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn settings(&self) -> Arc<PipelineSettings> {
        Arc::clone(&self.settings.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn set_settings(&self, settings: PipelineSettings) {
        *self.settings.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(settings);
    }

    pub(crate) fn rules(&self) -> Arc<RuleSet> {
        Arc::clone(&self.rules.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn set_rules(&self, rules: Arc<RuleSet>) {
        *self.rules.write().unwrap_or_else(PoisonError::into_inner) = rules;
    }

    pub(crate) fn set_surroundings(&self, surroundings: Option<Arc<dyn Surroundings>>) {
        *self.surroundings.write().unwrap_or_else(PoisonError::into_inner) = surroundings;
    }

    /// Returns the metadata of the orchestrator for a run.
    pub(crate) fn metadata(&self, provenance: &Provenance) -> Vec<KeyValue> {
        let surroundings = self.surroundings.read().unwrap_or_else(PoisonError::into_inner);
        surroundings
            .as_ref()
            .map(|surroundings| surroundings.attributes(&provenance.container))
            .unwrap_or_default()
    }

    pub(crate) fn rule_counts(&self) -> RankedGuard<'_, BTreeMap<Arc<str>, RuleCounts>, TOTALS> {
        self.rule_counts.lock()
    }

    /// Adds the evaluation counts of a run since the last call.
    pub(crate) fn count_rules(&self, run: &ObservedRun) {
        let mut counts = self.rule_counts();
        run.ask(|run| run.rules.iter_mut().for_each(|rules| rules.count(&mut counts)));
    }

    pub(crate) fn processes(&self) -> RankedGuard<'_, Processes, PROCESSES> {
        self.processes.lock()
    }

    /// Locks the owner of the incidents without a living process.
    pub(crate) fn incidents(&self) -> RankedGuard<'_, IncidentOwner, OWNER> {
        self.incidents.lock()
    }

    pub(crate) fn outlet(&self) -> &dyn Outlet {
        &*self.outlet
    }

    /// Sends changes, in order.
    pub(crate) fn notify_all(&self, owner: &mut IncidentOwner, changes: impl IntoIterator<Item = Changes>) {
        for changes in changes {
            self.notify(owner, changes);
        }
    }

    pub(crate) fn notify(&self, owner: &mut IncidentOwner, (resource, mut notices): Changes) {
        if notices.is_empty() {
            return;
        }
        if !notices.incidents.is_empty() {
            self.counters.incident_changes.fetch_add(1, Ordering::Relaxed);
            self.record(&notices);
        }
        let now = now();
        owner.book.notices(&notices.alerts, now);
        owner.book.incidents(&notices.incidents, now);
        notices.wall = self.wall();
        owner.remember_ended(&resource, &notices);
        self.outlet().alerts(&resource, notices);
    }

    /// Starts recordings for incidents that are not recorded yet.
    fn record(&self, notices: &Notices) {
        let Some(black_box) = self.black_box.get() else { return };
        // An incident of a service has no process. Such an incident names the recording of a process that died.
        for notice in notices.incidents.iter().filter(|notice| notice.run.pid != 0) {
            let incident = notice.change.incident();
            if let (Some(id), true) = (&incident.black_box, incident.is_open() && !incident.is_recorded_before) {
                black_box.incident(notice.run, id);
            }
        }
    }

    /// Starts the recordings of processes that died because of their memory, and adds these recordings to the incidents
    /// of services.
    pub(crate) fn record_deaths(&self, owner: &mut IncidentOwner) {
        let Some(black_box) = self.black_box.get() else { return };
        for (name, run, at) in owner.book.take_deaths_of_memory() {
            let id = recording_id(self.wall().unix_ns(at), &name, run.pid, "died");
            black_box.died(run, at, id);
        }
        owner
            .judged
            .name_recordings(&owner.book, |run| black_box.files().find_last_recording(run));
    }

    /// Returns an instant together with the wall clock.
    pub(crate) fn at(&self, now: Moment) -> InputTime {
        let wall = self.wall();
        InputTime { now, wall }
    }

    /// Returns the relation of instants to the wall clock. For recordings, instants are Unix times.
    pub(crate) fn wall(&self) -> Wall {
        Wall::ahead(self.ahead_ns.load(Ordering::Relaxed))
    }

    /// Adopts the wall clock of a reading of the clocks if it differs by at least [`SAME_NS`], and returns the wall
    /// clock in force. Later pages, exports and stored records use this wall clock.
    pub(crate) fn observe_clocks(&self, clocks: Clocks) -> Wall {
        let (known, shown) = (self.wall(), clocks.wall());
        let by_ns = shown.ahead_ns().saturating_sub(known.ahead_ns());
        if by_ns.unsigned_abs() < SAME_NS {
            return known;
        }
        self.ahead_ns.store(shown.ahead_ns(), Ordering::Relaxed);
        if by_ns.unsigned_abs() >= SET_NS {
            info!(
                "the wall clock was set by {:.1} s, or the machine was suspended; rules are not affected",
                by_ns as f64 / 1e9
            );
        }
        shown
    }

    /// Advances incidents that outlive processes; called once per second. `known` contains the processes of the host,
    /// or is `None` before the first complete scan, or if no incident waits for its process.
    pub(crate) fn tick_incidents(&self, runs: &[Arc<ObservedRun>], known: Option<&[RunKey]>, now: Moment) {
        for run in runs {
            let run = run.look();
            self.incidents().book.enter(&run);
        }
        let rules = self.rules();
        let mut owner = self.incidents();
        {
            let surroundings = self.surroundings.read().unwrap_or_else(PoisonError::into_inner);
            if let Some(surroundings) = surroundings.as_ref() {
                owner.book.ask(|container| surroundings.ended(container));
            }
        }
        owner.book.forget(now);
        self.record_deaths(&mut owner);
        let mut changes = owner.judge(&rules, now);
        changes.extend(owner.advance(known, now));
        self.notify_all(&mut owner, changes);
    }

    /// Exports the metrics of one share of the runs, with the temporality of the settings. Each run and each service is
    /// in the same share in every call.
    pub(crate) fn export(&self, runs: &[Arc<ObservedRun>], (share, shares): (u32, u32), now_unix_ns: u64) {
        let settings = self.settings();
        let temporality = settings.metrics.temporality;
        if settings.metrics.aggregate == Aggregate::Service {
            for (resource, metrics) in self.collect_services(runs, (share, shares), now_unix_ns, temporality) {
                self.outlet.metrics(&resource, metrics);
            }
            return;
        }
        for run in runs.iter().filter(|run| run.key().pid % shares.max(1) == share) {
            if let Some((resource, metrics)) = run.metrics(now_unix_ns, temporality) {
                self.outlet.metrics(&resource, metrics);
            }
        }
    }

    /// Returns the metrics of the services of runs, limited to one share of `shares`.
    pub(crate) fn collect_services(
        &self,
        runs: &[Arc<ObservedRun>],
        share: (u32, u32),
        now_unix_ns: u64,
        temporality: Temporality,
    ) -> Vec<(Arc<Origin>, Vec<Metric>)> {
        let settings = self.settings();
        let mut services = self.services();
        for run in runs {
            let resource = Arc::clone(run.look().identity.resource());
            if is_in_share(&resource.attributes, &settings.resource, share) {
                Self::observe_run(&mut services, run, now_unix_ns, &settings);
            }
        }
        services.metrics(share, now_unix_ns, temporality, &settings.metrics)
    }

    fn observe_run(services: &mut Services, run: &ObservedRun, now_unix_ns: u64, settings: &PipelineSettings) {
        let Some((resource, metrics)) = run.metrics(now_unix_ns, Temporality::Cumulative) else {
            return;
        };
        let key = (run.key().pid, run.key().start_time);
        services.observe(
            key,
            &resource.attributes,
            &settings.resource,
            metrics,
            &settings.metrics,
        );
    }

    fn services(&self) -> RankedGuard<'_, Services, TOTALS> {
        self.services.lock()
    }

    /// Exports a run for the last time; afterwards its series end. The service of the run keeps the counts of the run.
    fn export_last(&self, run: &ObservedRun, now_unix_ns: u64, at: InputTime) {
        let settings = self.settings();
        let temporality = settings.metrics.temporality;
        let last = match settings.metrics.aggregate {
            Aggregate::Process => {
                let last = run.metrics(now_unix_ns, temporality);
                run.hand(at, Input::Forgotten);
                last
            }
            Aggregate::Service => {
                let mut services = self.services();
                Self::observe_run(&mut services, run, now_unix_ns, &settings);
                // This call must happen while `services` is locked, because another reading of the run would count the
                // run twice.
                run.hand(at, Input::Forgotten);
                let key = (run.key().pid, run.key().start_time);
                services.remove(key, now_unix_ns, temporality, &settings.metrics)
            }
        };
        if let Some((resource, metrics)) = last {
            self.outlet.metrics(&resource, metrics);
        }
    }

    /// Closes a run whose process has exited, after a last export. A recorded run ends at its newest event.
    pub(crate) fn end(&self, run: &ObservedRun) {
        let at = self.at(now());
        run.hand(at, Input::Ended);
        self.count_rules(run);
        let ended = match run.clock() {
            Clock::Live => at.now,
            Clock::Recorded => run.look().session.newest,
        };
        self.export_last(run, self.wall().unix_ns(ended), at);
        let removed = self.processes().runs.remove(&run.key());
        // A run that was never read has no data to show.
        if let Some(run) = removed.filter(|run| run.look().session.first_attach.is_some()) {
            let listed = self.listed_pids();
            self.processes().exited.put(run, now(), &listed);
        }
    }

    /// Handles the end of a live run whose changes have been sent. Transfers all state that outlives the run to the
    /// incident owner.
    fn ended(&self, run: &Run, in_order: Option<bool>, left: Option<(Arc<str>, Box<Incidents>)>, at: Moment) {
        // Inform the black box first, because the cause of the death can become known as soon as the book has the
        // death.
        if let Some(black_box) = self.black_box.get() {
            black_box.ended(run.key(), run.identity.share());
        }
        let mut owner = self.incidents();
        // Enter the run first, because it can have ended before the first tick.
        owner.book.enter(run);
        owner.book.ended(run.key(), in_order, at);
        if let Some((process, incidents)) = left {
            let left = SubjectIncidents {
                run: run.key(),
                process,
                resource: Arc::clone(run.identity.resource()),
                share: run.identity.share(),
                incidents: *incidents,
            };
            let changes = owner.outlives(left, at);
            self.notify_all(&mut owner, changes);
        }
    }

    /// Handles a minute of a run, or counts a minute without a configuration.
    pub(crate) fn minute(&self, run: &Run, minute: Option<(Configuration, Minute)>) {
        let is_dropped = match minute {
            Some((configuration, minute)) => self.changes().minute(run, configuration, minute),
            None => {
                self.counters.minutes_unprofiled.fetch_add(1, Ordering::Relaxed);
                false
            }
        };
        if is_dropped {
            self.counters.comparisons_dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns whether comparisons wait for [`compare_changes`](Self::compare_changes).
    pub(crate) fn has_comparisons(&self) -> bool {
        self.changes().has_waiting()
    }

    /// Runs the waiting comparisons, and sends the changes with other verdicts than before. Takes up to 20 ms per
    /// comparison.
    pub(crate) fn compare_changes(&self) {
        let waiting = self.changes().take_waiting();
        for WaitingComparison { comparison, resource } in waiting {
            let compared = ProfileInput::Compared(Box::new(comparison.run()));
            let output = self.changes().services.step(self.wall(), compared);
            if let Some(ProfileOutput::Verdict(record)) = output {
                self.outlet().change(&resource, &record);
            }
        }
    }

    /// Returns the changes of one service or of all services, newest first.
    pub(crate) fn change_records(&self, service: Option<&str>) -> Vec<ChangeRecord> {
        self.changes().services.records(self.wall(), service)
    }

    /// Returns the memory that one service or each service needs. The lock is held once per service, for a copy of its
    /// profile, because readers of processes wait for the lock.
    pub(crate) fn sizing_records(&self, service: Option<&str>) -> Vec<SizingRecord> {
        let keys = service.map_or_else(|| self.changes().services.keys(), |service| vec![service.to_owned()]);
        let wall = self.wall();
        let sized = |key: &String| {
            let (profile, end) = self.changes().services.profile(key)?;
            Some(size_profile(&profile, end, wall))
        };
        keys.iter().filter_map(sized).collect()
    }

    /// Returns the pids of exited processes that incidents still name.
    fn listed_pids(&self) -> BTreeSet<u32> {
        let owner = self.incidents();
        let ended = owner.ended().filter_map(|record| record.pid);
        let mut pids: BTreeSet<u32> = ended.collect();
        pids.extend(owner.exited.iter().map(|left| left.run.pid));
        pids
    }
}

impl Deliver for Shared {
    fn deliver(&self, run: &Run, outputs: Vec<Output>, at: InputTime) {
        let resource = run.identity.resource();
        for output in outputs {
            match output {
                Output::Notices(notices) => self.notify(&mut self.incidents(), (Arc::clone(resource), notices)),
                Output::Spans(spans) => {
                    self.counters.spans.fetch_add(spans.count(), Ordering::Relaxed);
                    self.outlet().spans(resource, spans);
                }
                Output::OverRate => {
                    self.counters.over_rate.fetch_add(1, Ordering::Relaxed);
                }
                Output::Minute(minute) => self.minute(run, Some(*minute)),
                Output::MinuteWithoutConfiguration => self.minute(run, None),
                Output::Ended { in_order, left } => self.ended(run, in_order, left, at.now),
            }
        }
    }

    fn dropped(&self) {
        self.counters.inputs_dropped.fetch_add(1, Ordering::Relaxed);
    }
}
