//! State of a run of a process and the function that updates it.

mod profile;

use std::sync::Arc;

use base::run_key::RunKey;
use base::time::{Moment, TimeBase, Wall};
use clr_gc::gc::{Collection, OpenOperations, Suspension};
use gc_advice::profile::sampler::Input as Sampled;
use gc_requests::request::Request;
use gc_telemetry::notice::Notices;
use gc_telemetry::options::Temporality;
use gc_telemetry::snapshot::MetricSnapshot;
use gc_telemetry::spans::NotExported;
use gc_telemetry::value::key_value;
use incidents::IncidentEnding;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::metrics::v1::Metric;
use processes::container::ledger::{HeapFigures, MemoryReading, ResidentPages, Sources, divide};
use processes::container::{Cpu, Figures, Memory, OtherProcesses};
use processes::{Identity, RunState, StreamProgress};
use rule_engine::alert::CollectionVerdict;
use rule_engine::engine::{collection_at, suspension_at};
use rule_engine::field::{
    self, Exit, FRESH_HEAP_LIMIT, HEAP_LIMIT, HostFacts, MemoryFacts, MemoryTrends, ProcessFacts, STALE_HEAP_LIMIT,
    StreamFacts, UNSEEN_LIMIT,
};
use rule_engine::ledger::Ledger;
use rule_engine::rule::Evidence;
use rule_engine::rule_set::RuleSet;

use crate::container::RunContainer;
use crate::heap_limit::{HeapLimit, StaleLimit};
use crate::history::History;
use crate::identity::{RunIdentity, SaidLimit};
use crate::input::{Attachment, Input, InputTime, ProcessReading};
use crate::ledger::RunLedger;
use crate::output::Output;
use crate::requests::RecentRequests;
use crate::rules::RunRules;
use crate::run::profile::RunProfile;
use crate::session::RunSession;
use crate::settings::{Clock, PipelineSettings};
use crate::telemetry::{RunTelemetry, anomalies};

/// State of one run of a process. Callers only read the public fields; only [`Run::step`] changes these fields.
#[derive(Debug)]
pub struct Run {
    pub identity: RunIdentity,
    /// State of the session that reads the process.
    pub session: RunSession,
    container: RunContainer,
    /// Most recent memory reading.
    pub memory: MemoryFacts,
    host: HostFacts,
    /// Start time of the process; `None` if unknown.
    pub started: Option<Moment>,
    heap_limit: HeapLimit,
    /// Memory of the machine, in bytes; `None` if unknown.
    machine: Option<u64>,
    /// Evidence that the process exports its own runtime metrics; `None` if there is no evidence.
    pub exports_runtime: Option<&'static str>,
    /// Memory ledger of the process.
    pub ledger: RunLedger,
    pub requests: RecentRequests,
    /// Rules of the run; `None` before the first attach.
    pub rules: Option<RunRules>,
    telemetry: RunTelemetry,
    /// History of the last 30 minutes.
    pub history: History,
    profile: RunProfile,
    /// Offset of the wall clock, as of the most recent input.
    pub wall: Wall,
    /// Whether the run is live or recorded.
    pub clock: Clock,
    settings: Arc<PipelineSettings>,
}

impl Run {
    /// Creates a run without any observations.
    pub fn new(identity: Identity, settings: Arc<PipelineSettings>, at: InputTime) -> Self {
        Self {
            identity: RunIdentity::new(identity),
            session: RunSession::new(at.now),
            container: RunContainer::default(),
            memory: MemoryFacts::default(),
            host: HostFacts::default(),
            started: None,
            heap_limit: HeapLimit::default(),
            machine: None,
            exports_runtime: None,
            ledger: RunLedger::default(),
            requests: RecentRequests::default(),
            rules: None,
            telemetry: RunTelemetry::new(),
            history: History::default(),
            profile: RunProfile::default(),
            wall: at.wall,
            clock: settings.clock,
            settings,
        }
    }

    /// Returns the pid and the start time of the process.
    pub fn key(&self) -> RunKey {
        self.identity.who().key
    }

    /// Returns the time that applies to this run: the exit time of a run that has ended, the time of the most recent
    /// event of a recording, and `now` otherwise.
    pub fn present(&self, now: Moment) -> Moment {
        match self.clock {
            // The history of a run that has ended is the 30 minutes before its end.
            Clock::Live if self.session.state == RunState::Ended => self.session.since.min(now),
            Clock::Live => now,
            Clock::Recorded => self.session.newest,
        }
    }

    /// Applies an input to the run and appends the resulting outputs to `outputs`, in order.
    pub fn step(&mut self, at: InputTime, input: Input, outputs: &mut Vec<Output>) {
        self.wall = at.wall;
        let is_tick = matches!(input, Input::Tick { .. });
        match input {
            Input::State(state) => self.session.set_state(state, at.now),
            Input::Attached(attachment) => self.attached(*attachment, at.now),
            Input::ReaderLeft => self.reader_left(at.now),
            Input::Learned { runtime, attributes } => {
                let said = self.identity.said_limit();
                self.identity.learned(runtime, attributes);
                if self.identity.said_limit() != said {
                    self.heap_limit.reported();
                }
                let is_judged = self.clock == Clock::Recorded && self.session.newest > Moment::FIRST;
                let now = if is_judged { self.session.newest } else { at.now };
                put(outputs, self.update_rules(now));
            }
            Input::Metadata(metadata) => {
                if self.identity.set_metadata(metadata) {
                    put(outputs, self.update_rules(at.now));
                }
            }
            Input::Collection {
                collection,
                base,
                held_back_ns,
            } => {
                put(
                    outputs,
                    self.time_of_collection(&collection, base, at.now, held_back_ns),
                );
                let notices = self.collection(collection, base, at.now, outputs);
                put(outputs, notices);
            }
            Input::Suspension { suspension, base } => {
                let moment = suspension_at(&suspension).map_or(at.now, |offset| base.moment(offset));
                put(outputs, self.suspension(&suspension, base, at.now));
                profile::sample(
                    self,
                    moment.min(self.latest(at.now)),
                    Sampled::Suspension(&suspension),
                    outputs,
                );
            }
            Input::Requests { requests, base } => {
                let ended = requests.iter().filter(|request| !request.ended.is_part).count() as u64;
                profile::sample_now(self, at.now, Sampled::Requests(ended), outputs);
                outputs.extend(requests.iter().filter_map(|request| self.request(request, base)));
            }
            Input::RequestsUnread(why) => {
                if why.is_some() {
                    profile::sample_now(self, at.now, Sampled::RequestsUnread, outputs);
                }
                self.requests.set_unread(why);
            }
            Input::Open { open, base } => self.open(open, base),
            Input::Progress(progress) => {
                if self.set_progress(progress) > 0 {
                    profile::sample_now(self, at.now, Sampled::Damage, outputs);
                }
            }
            Input::Undrained(is) => self.session.set_undrained(is, at.now),
            Input::Closed { in_order } => self.session.closed_in_order = Some(in_order),
            Input::Healed => self.session.healings += 1,
            Input::Tick { behind_ns } => put(outputs, self.tick(at.now, behind_ns)),
            Input::Measured(measured) => {
                put(outputs, self.measured(*measured, at.now));
                profile::sample_reading(self, &measured, at.now, outputs);
            }
            Input::Counted(reading) => self.counted(reading.map(|reading| *reading), at.now),
            Input::FinalizerCpu { begun, share } => self.session.set_finalizer_cpu(begun, share),
            Input::OwnDump(begins) => self.session.dumps(begins, at.now),
            Input::Found { incident, finding } => {
                self.history.revision += 1;
                if let Some(rules) = self.rules.as_mut() {
                    put(outputs, rules.record_finding(incident, *finding));
                }
            }
            Input::Rules(rules) => put(outputs, self.adopt(&rules, at.now)),
            Input::Settings(settings) => self.settings = settings,
            Input::HistoryKept { until } => self.history.kept_until = until,
            Input::Unwatched => put(outputs, self.unwatched(at.now)),
            Input::Ended => self.ended(at.now, outputs),
            Input::Forgotten => {
                self.rules = None;
                self.telemetry = RunTelemetry::new();
            }
        }
        profile::sample_state(self, at.now, is_tick, outputs);
    }

    /// Handles the start of a session. The first session also creates the rules and the series.
    fn attached(&mut self, attachment: Attachment, now: Moment) {
        if self.session.state == RunState::Attached {
            return;
        }
        let start = match (self.clock, attachment.base) {
            (Clock::Recorded, Some(base)) => base.moment(0),
            _ => now,
        };
        self.session.begin(start);
        self.requests = RecentRequests::default();
        let (facts, share) = (self.process_facts(), self.identity.share());
        let who = self.identity.who();
        let rules = self
            .rules
            .get_or_insert_with(|| RunRules::new(who, share.clone(), attachment.rules, facts, start));
        rules.set_share(share);
        if let Some(incidents) = attachment.incidents {
            rules.incidents = incidents;
        }
        if let Some(recordings) = attachment.recordings {
            rules.keep_events(recordings);
        }
        self.telemetry.begin(&self.settings.metrics, self.wall.unix_ns(start));
        self.session.set_state(RunState::Attached, now);
    }

    fn reader_left(&mut self, now: Moment) {
        if matches!(self.session.state, RunState::Attached | RunState::Attaching) {
            let detail = "the reader exited".to_owned();
            self.session.set_state(RunState::Detached { detail }, now);
        }
    }

    /// Returns the maximum number of bytes that the heap can commit: the limit reported by the runtime, or the estimate
    /// from outside if the runtime reports no setting. Returns `None` if there is no limit, or if the limit is unknown.
    pub fn heap_limit(&self) -> Option<u64> {
        self.heap_limit.limit(self.identity.said_limit())
    }

    /// Returns the limit that the runtime keeps although its container's limit has changed, or `None` if no such limit
    /// is proven. Also returns `None` if the runtime is configured to assume a memory size.
    pub fn stale_limit(&self) -> Option<StaleLimit> {
        let stale = self.heap_limit.stale(self.identity.said_limit());
        stale.filter(|_| !self.identity.assumes_memory())
    }

    /// Returns the memory limit of the container if the runtime ignores this limit, that is, if the runtime reports
    /// that the heap has no limit. Returns `None` otherwise, if the limit is not below the memory of the machine, and
    /// if the runtime is configured to assume a memory size. Ignored limits were observed on .NET 9.0 to 10.0.10 if the
    /// control group is the root of the mounted hierarchy (runtime issue 130092). All versions ignore a limit that was
    /// set after the process started.
    pub fn unseen_limit(&self) -> Option<u64> {
        let limit = self.group_figures().memory_limit?;
        let restricts = self.machine.is_none_or(|machine| limit < machine);
        let is_unseen = self.identity.said_limit() == SaidLimit::NoLimit && !self.identity.assumes_memory();
        Some(limit).filter(|_| restricts && is_unseen)
    }

    /// Returns level, trend and age of the memory, or `None` before the first attach.
    pub fn memory_trends(&self) -> Option<&MemoryTrends> {
        Some(self.rules.as_ref()?.engine.memory_trends())
    }

    /// Returns the facts about the process for the rules.
    fn process_facts(&self) -> ProcessFacts {
        let attribute = |name, limit: Option<u64>| {
            let limit = limit.and_then(|limit| i64::try_from(limit).ok())?;
            Some(key_value(name, Value::IntValue(limit)))
        };
        let heap = attribute(HEAP_LIMIT, self.heap_limit());
        let unseen = attribute(UNSEEN_LIMIT, self.unseen_limit());
        let stale = self.stale_limit();
        let kept = attribute(STALE_HEAP_LIMIT, stale.map(|stale| stale.kept));
        let fresh = attribute(FRESH_HEAP_LIMIT, stale.map(|stale| stale.fresh));
        let further = self.container.limits().chain(heap).chain(unseen);
        self.identity.facts(further.chain(kept).chain(fresh))
    }

    /// Returns the facts about the session, the memory and the container for the rules.
    fn stream_facts(&self) -> StreamFacts {
        StreamFacts {
            requests: self.requests.facts(self.session.rules_at),
            host: self.host,
            wall: self.wall,
            started: self.started,
            ..self.session.facts((&self.container.figures).into(), self.memory)
        }
    }

    /// Returns the figures of the container, or of the control group if the group has a limit. Otherwise, all figures
    /// are unknown. Figures of the complete host are omitted, because these figures contain no information about the
    /// process.
    pub fn group_figures(&self) -> Figures {
        self.group_figures_if_limited(Some(self.container.figures))
            .unwrap_or_default()
    }

    /// Returns the figures of the controllers that have a container or a limited group for this process, or `None` if
    /// no controller has such a group, or if `figures` is `None`. In version 1 of control groups, each controller has
    /// separate groups, so a process can have a CPU limit but no memory group.
    fn group_figures_if_limited(&self, figures: Option<Figures>) -> Option<Figures> {
        let figures = figures?;
        let in_container = self.identity.is_in_container();
        let has_cpu = in_container || figures.cpu_limit.is_some();
        match (self.has_memory_group(&figures), has_cpu) {
            (true, true) => Some(figures),
            (true, false) => Some(Figures {
                cpu: Cpu::default(),
                throttled_ratio: None,
                ..figures
            }),
            (false, true) => Some(Figures {
                memory: Memory::default(),
                others: OtherProcesses::default(),
                ..figures
            }),
            (false, false) => None,
        }
    }

    /// Returns whether the memory in these figures belongs to a container or to a control group with a limit. In
    /// version 1 of control groups, the root group reports no figures.
    fn has_memory_group(&self, figures: &Figures) -> bool {
        figures.memory_limit.is_some() || self.identity.is_in_container() && figures.memory.usage.is_some()
    }

    /// Handles a tick: advances the time of the rules. The time also advances while gcwatch is not attached, so that
    /// facts expire and the current state becomes unknown. Closes the alerts of a process that is excluded, over the
    /// limit, or read by another gcwatch instance.
    fn tick(&mut self, now: Moment, behind_ns: u64) -> Notices {
        self.session.tick(now, behind_ns);
        match self.session.state {
            RunState::Excluded | RunState::OverLimit | RunState::HeldElsewhere { .. } => self.unwatched(now),
            // All alerts were closed when the process exited.
            RunState::Ended => Notices::default(),
            _ => self.advance(now),
        }
    }

    /// Closes all open alerts and incidents because the process is no longer monitored.
    fn unwatched(&mut self, now: Moment) -> Notices {
        let rules = self.rules.as_mut().filter(|rules| rules.is_any_open());
        rules.map_or_else(Notices::default, |rules| rules.finish(IncidentEnding::Unwatched, now))
    }

    /// Replaces the rules.
    fn adopt(&mut self, rules: &Arc<RuleSet>, now: Moment) -> Notices {
        let now = match self.clock {
            Clock::Live => now,
            Clock::Recorded => self.session.newest,
        };
        let now = self.session.advances(now);
        let known = self.rules.as_mut();
        known.map_or_else(Notices::default, |known| known.adopt(rules, now))
    }

    /// Handles the exit of the process. A recorded process exits at its most recent event. Closes the alerts of the
    /// process and, for a live process, outputs the incidents that outlive the process.
    fn ended(&mut self, now: Moment, outputs: &mut Vec<Output>) {
        self.session.set_state(RunState::Ended, now);
        if self.clock == Clock::Recorded {
            // A recording contains no information about the time after its last event.
            let at = self.session.newest;
            let rules = self.rules.as_mut();
            let ended = rules.map(|rules| rules.finish(IncidentEnding::ProcessEnded, at));
            put(outputs, ended.unwrap_or_default());
            return;
        }
        // Operations that were in progress at the last reading ended with the process.
        put(outputs, self.advance(now));
        let in_order = self.session.closed_in_order;
        let last = StreamFacts {
            exit: in_order.map(|in_order| if in_order { Exit::InOrder } else { Exit::Abrupt }),
            ..self.stream_facts()
        };
        let now = self.session.advances(now);
        if let Some(rules) = self.rules.as_mut() {
            put(outputs, rules.last(last, now));
        }
        let mut left = None;
        match self.rules.as_mut() {
            // The process exited cleanly: the process was not killed and needs no restart, so its incidents are
            // resolved.
            Some(rules) if in_order == Some(true) => put(outputs, rules.finish(IncidentEnding::ProcessEnded, now)),
            Some(rules) => {
                put(outputs, rules.end(now));
                let (incidents, process) = rules.take_incidents(now);
                left = Some((process, Box::new(incidents)));
            }
            None => {}
        }
        outputs.push(Output::Ended { in_order, left });
    }

    /// Advances the time of the rules.
    fn advance(&mut self, now: Moment) -> Notices {
        let now = self.session.advances(now);
        let stream = self.stream_facts();
        let Some(rules) = &mut self.rules else {
            return Notices::default();
        };
        if let Some((since, stopped)) = self.history.stopped.recent() {
            rules.incidents.set_stopped_time(since, stopped);
        }
        let notices = rules.advance(stream, now);
        self.keep_of_incidents();
        notices
    }

    /// Pins the collections that incidents refer to, so that these collections are kept in full.
    fn keep_of_incidents(&mut self) {
        let Some(rules) = &self.rules else { return };
        for number in rules
            .incidents()
            .filter_map(|incident| incident.head()?.alert.collection)
        {
            self.history.kept.pin(number);
        }
    }

    /// Prepares the rules for a live collection or suspension at time `at`: updates the facts about the stream or, if
    /// the time of the rules is far behind `at`, advances this time.
    fn catch_up(&mut self, at: Moment, now: Moment) -> Notices {
        if let Some(at) = self.session.catches_up(at, now) {
            return self.advance(at);
        }
        let stream = self.stream_facts();
        if let Some(rules) = self.rules.as_mut() {
            rules.engine.stream(stream);
        }
        Notices::default()
    }

    /// Passes changed facts about the process to the rules.
    fn update_rules(&mut self, now: Moment) -> Notices {
        let now = self.session.advances(now);
        let facts = self.process_facts();
        let share = self.identity.share();
        let Some(rules) = self.rules.as_mut() else {
            return Notices::default();
        };
        rules.set_share(share);
        rules.learned(facts, now)
    }

    /// Handles a reading of the memory and the container. Passes changed limits to the rules.
    fn measured(&mut self, measured: ProcessReading, now: Moment) -> Notices {
        (self.memory, self.host) = (measured.memory, measured.host);
        self.started = measured.started.or(self.started);
        self.exports_runtime = measured.exports_runtime.or(self.exports_runtime);
        if let Some(series) = &mut self.telemetry.series {
            series.set_exports_runtime(self.exports_runtime.is_some());
        }
        let group = self.group_figures_if_limited(measured.figures);
        let usage = group.and_then(|figures| figures.memory.working_set.or(figures.memory.usage));
        self.history.measured(usage, now);
        // Swapped-out private memory is not resident.
        let own = measured.memory.private.zip(measured.memory.resident);
        let anonymous = own.map(|(private, resident)| private.min(resident));
        if anonymous.is_some() {
            let resident = ResidentPages {
                all: measured.memory.resident,
                anonymous,
                ..ResidentPages::default()
            };
            let ledger = divide(&self.sources(measured.figures, resident, now));
            self.ledger.estimated(now, self.dated(ledger, now));
            self.pass_ledger();
        }
        // A failed reading does not change the limits.
        self.machine = measured.machine.or(self.machine);
        let said = self.identity.said_limit();
        let has_other_heap = self
            .heap_limit
            .measured(measured.heap_limit, measured.follows_container, said);
        if !self.container.observe(measured.figures) && !has_other_heap {
            return Notices::default();
        }
        let mut notices = self.advance(now);
        notices.extend(self.update_rules(now));
        notices
    }

    /// Returns all available sources for the memory ledger.
    fn sources(&self, figures: Option<Figures>, resident: ResidentPages, now: Moment) -> Sources {
        let group = self
            .group_figures_if_limited(figures)
            .filter(|figures| self.has_memory_group(figures));
        // A reading without the other processes does not change which process is the largest.
        let others = |figures: &Figures| {
            figures
                .others
                .bytes
                .map_or(self.container.figures.others, |_| figures.others)
        };
        Sources {
            limit: group.and_then(|figures| figures.memory_limit),
            group: group.map(|figures| figures.memory),
            largest_other: group.and_then(|figures| others(&figures).largest),
            resident,
            heap: self.heap_figures(now),
        }
    }

    fn dated(&self, ledger: Ledger, at: Moment) -> Ledger {
        Ledger {
            at_ms: Some(self.wall.unix_ms(at)),
            ..ledger
        }
    }

    fn heap_figures(&self, now: Moment) -> HeapFigures {
        let since = self.session.first_attach.unwrap_or(now);
        self.history.figures.heap_figures(now, since)
    }

    /// Passes the best available ledger to the incidents that gather ledgers.
    fn pass_ledger(&mut self) {
        if let (Some(rules), Some(ledger)) = (self.rules.as_mut(), self.ledger.newest()) {
            rules.incidents.set_ledger(Arc::new(ledger));
        }
    }

    /// Handles the end of a page count. `reading` is `None` if the count failed.
    fn counted(&mut self, reading: Option<MemoryReading>, at: Moment) {
        let ledger = reading.map(|reading| divide(&self.sources(Some(reading.figures), reading.resident, at)));
        let ledger = ledger.map(|ledger| self.dated(ledger, at));
        self.ledger.counted(at, ledger);
        self.pass_ledger();
        // A new revision makes viewers fetch the ledger.
        self.history.revision += 1;
    }

    /// Starts a page count if a count is wanted and allowed now. Returns the heap figures of the newest collection, or
    /// `None` if no count was started. `for_person` is whether the count is for a viewer, as opposed to an incident.
    pub fn begin_count(&mut self, now: Moment, for_person: bool) -> Option<HeapFigures> {
        let is_wanted = for_person
            || self
                .rules
                .as_ref()
                .is_some_and(|rules| rules.incidents.gather(Evidence::Ledger));
        let begins = is_wanted && self.ledger.begin(now, for_person);
        begins.then(|| self.heap_figures(now))
    }

    /// Updates the operations that have started but not ended.
    fn open(&mut self, open: OpenOperations, base: TimeBase) {
        let moment = |offset: Option<i64>| offset.map(|offset| base.moment(offset));
        self.session.finalizers_waiting = open.finalizers_waiting;
        self.session.open = field::OperationStarts {
            stop: moment(open.stop),
            collection: moment(open.collection),
            background: moment(open.background),
            finalizers: moment(open.finalizers),
            requested_by_tool: open.requested_by_tool,
        };
    }

    /// Handles the progress of the session. Returns the number of events that were lost since the last call, or 0 if
    /// losses are unknown.
    fn set_progress(&mut self, progress: StreamProgress) -> u64 {
        let lost = self.session.set_progress(progress);
        // If the runtime does not number its events, losses are unknown, and the metric is absent.
        if let (Some(lost), Some(series)) = (lost, &mut self.telemetry.series) {
            series.lost(lost);
        }
        lost.unwrap_or(0)
    }

    /// Returns the maximum time of an event. Events of a live process are never later than now.
    fn latest(&self, now: Moment) -> Moment {
        match self.clock {
            Clock::Live => now,
            Clock::Recorded => Moment::NEVER,
        }
    }

    /// Advances the time to a collection. For a live collection, also updates the lag.
    fn time_of_collection(
        &mut self,
        collection: &Collection,
        base: TimeBase,
        now: Moment,
        held_back_ns: u64,
    ) -> Notices {
        let at = base.moment(collection_at(collection));
        if self.clock == Clock::Recorded {
            return self.advance(at);
        }
        let passed = self.catch_up(at, now);
        if let Some(end) = collection.end {
            let end = base.moment(end);
            let lag = (end <= now).then(|| now.since(end).saturating_sub(held_back_ns));
            self.session.set_lag(lag);
        }
        passed
    }

    /// Handles a collection: evaluates the rules, updates counts and series, adds the collection to the history, and
    /// outputs its spans if the collection is selected. Returns the changes of alerts and incidents, which the caller
    /// must output after the spans.
    fn collection(
        &mut self,
        mut collection: Box<Collection>,
        base: TimeBase,
        now: Moment,
        outputs: &mut Vec<Output>,
    ) -> Notices {
        self.session.observe(base.moment(collection.last_event));
        let at = base.moment(collection_at(&collection));
        let own_dump = self.claim(&mut collection, at);
        let sampled_at = base.moment(collection.last_event).min(self.latest(now));
        profile::sample(self, sampled_at, Sampled::Collection(&collection), outputs);
        let mut notices = Notices::default();
        let said = self.identity.said_limit();
        let is_refuted = |committed| self.heap_limit.refute(committed, said);
        if collection.committed.after.is_some_and(is_refuted) {
            notices = self.update_rules(at);
        }
        let own = own_dump.then(|| StreamFacts {
            own_dump,
            ..self.stream_facts()
        });
        let after = own_dump.then(|| self.stream_facts());
        let verdict = match self.rules.as_mut() {
            Some(rules) => {
                own.into_iter().for_each(|facts| rules.engine.stream(facts));
                let verdict = rules.engine.collection(&collection, base);
                after.into_iter().for_each(|facts| rules.engine.stream(facts));
                verdict
            }
            None => CollectionVerdict::default(),
        };
        let unix = base.unix(self.wall);
        let anomalies = anomalies(&verdict, &collection, unix);
        let in_incident = self
            .rules
            .as_ref()
            .is_some_and(|rules| rules.incidents().next().is_some());
        let (span, spans) = self
            .telemetry
            .collection(&collection, unix, &anomalies, in_incident, &self.settings);
        let (number, latest) = (collection.number, self.latest(now));
        self.history.observe(collection, base, self.settings.recent, latest);
        if let Some(ids) = span {
            self.history.kept.traced(number, ids.trace_id);
        }
        if let Some(rules) = self.rules.as_mut() {
            let is_changed = !verdict.transitions.is_empty();
            notices.extend(rules.collected(number, verdict.transitions, span, at));
            if is_changed {
                self.keep_of_incidents();
            }
        }
        match spans {
            Ok(spans) => outputs.push(Output::Spans(spans)),
            Err(NotExported::OverRate) => outputs.push(Output::OverRate),
            Err(NotExported::NotSelected) => {}
        }
        notices
    }

    /// Returns whether a collection belongs to a heap dump by gcwatch, and marks such a collection as requested by a
    /// tool. The stream does not always contain the requester.
    fn claim(&self, collection: &mut Collection, at: Moment) -> bool {
        let is_asked_for = collection.is_requested() && collection.requested_by_tool != Some(false);
        let is_own = is_asked_for && self.session.is_own_dump(at);
        if is_own {
            collection.requested_by_tool = Some(true);
        }
        is_own
    }

    /// Handles a finished request: counts the request and, if the request lost enough time, returns its pauses as spans
    /// in the trace of the request. Returns `None` if the request is not exported.
    fn request(&mut self, request: &Request, base: TimeBase) -> Option<Output> {
        self.requests.observe(request, base, self.wall);
        let spans = self.telemetry.request(request, base.unix(self.wall), &self.settings);
        spans.ok().map(Output::Spans)
    }

    /// Handles a suspension without a collection.
    fn suspension(&mut self, suspension: &Suspension, base: TimeBase, now: Moment) -> Notices {
        let at = suspension_at(suspension).map(|at| base.moment(at));
        let mut passed = match (self.clock, at) {
            (Clock::Recorded, Some(at)) => self.advance(at),
            (Clock::Live, Some(at)) => self.catch_up(at, now),
            (_, None) => Notices::default(),
        };
        // GC.RefreshMemoryLimit stops the process without a request for a collection.
        if !suspension.triggered && self.stale_limit().is_some() {
            self.heap_limit.refresh(self.history.figures.committed);
            passed.extend(self.update_rules(now));
        }
        self.history.suspension(suspension, base, self.latest(now));
        if let Some(rules) = self.rules.as_mut() {
            rules.engine.suspension(suspension, base);
        }
        if let Some(series) = &mut self.telemetry.series {
            series.observe_suspension(suspension);
        }
        passed
    }

    /// Returns the metrics of the run, with deltas since the last call; `None` before the first attach.
    pub fn metrics(&mut self, now_unix_ns: u64, temporality: Temporality) -> Option<Vec<Metric>> {
        let (mut metrics, start_unix_ns) = self.telemetry.metrics(now_unix_ns, temporality)?;
        let mut snapshot = MetricSnapshot::new(start_unix_ns, now_unix_ns);
        self.session.metrics(&mut snapshot);
        if let Some(rules) = &self.rules {
            rules.metrics(&mut snapshot);
        }
        let unused_by_cycles = self.history.room.unused_by_cycles();
        self.ledger.metrics(unused_by_cycles, &mut snapshot);
        // Without a container, the figures describe the host, so `container.*` would be a wrong name.
        if self.identity.is_in_container() {
            self.container.metrics(&mut snapshot);
        }
        metrics.extend(snapshot.into_metrics());
        Some(metrics)
    }
}

/// Appends notices to the outputs if there are any.
fn put(outputs: &mut Vec<Output>, notices: Notices) {
    if !notices.is_empty() {
        outputs.push(Output::Notices(notices));
    }
}

#[cfg(test)]
mod tests {
    use base::run_key::RunKey;
    use base::time::Wall;
    use gc_telemetry::definition::resource::CONTAINER_ID;
    use rule_engine::field::CommandName;
    use rule_engine::ledger::Scope;

    use super::*;

    const MIB: u64 = 1 << 20;

    fn run(container: bool) -> Run {
        let key = RunKey { pid: 7, start_time: 1 };
        let mut identity = Identity::new(key, "shop");
        if container {
            identity
                .resource
                .push(key_value(CONTAINER_ID.name, Value::StringValue("c".to_owned())));
        }
        let at = InputTime {
            now: Moment::from_ns(1),
            wall: Wall::default(),
        };
        Run::new(identity, Arc::default(), at)
    }

    fn measure(run: &mut Run, figures: Figures) -> Ledger {
        let memory = MemoryFacts {
            resident: Some(50 * MIB),
            private: Some(40 * MIB),
            ..MemoryFacts::default()
        };
        let measured = ProcessReading {
            figures: Some(figures),
            memory,
            ..ProcessReading::default()
        };
        run.measured(measured, Moment::from_ns(2));
        run.ledger.newest().unwrap()
    }

    /// Scenario: a process has a CPU limit and no memory group (version 1), inside and outside a container; another
    /// process has a memory limit and no CPU limit; a third process has no limit and shares its groups with other
    /// processes.
    /// Guarantee: each controller uses its own group: the CPU limit is known without a memory group, the ledger covers
    /// the process unless a memory group exists, and figures of shared groups are ignored.
    #[test]
    fn each_controller_has_its_own_group() {
        let cpu = |periods, throttled| Figures {
            cpu_limit: Some(0.5),
            cpu: Cpu {
                periods: Some(periods),
                throttled_periods: Some(throttled),
                ..Cpu::default()
            },
            ..Figures::default()
        };
        for container in [true, false] {
            let mut run = run(container);
            measure(&mut run, cpu(100, 10));
            let ledger = measure(&mut run, cpu(104, 11));
            assert_eq!((ledger.of, ledger.usage), (Scope::Process, Some(50 * MIB)));
            let known = run.group_figures();
            assert_eq!((known.cpu_limit, known.throttled_ratio), (Some(0.5), Some(0.25)));
            assert_eq!(run.stream_facts().container.throttled_ratio, Some(0.25));
            assert!(
                run.container
                    .limits()
                    .any(|limit| limit.key == "gcwatch.container.cpu.limit")
            );
        }
        let memory = Memory {
            usage: Some(100 * MIB),
            ..Memory::default()
        };
        let limited = Figures {
            memory_limit: Some(200 * MIB),
            memory,
            ..Figures::default()
        };
        let mut run = run(false);
        let ledger = measure(&mut run, limited);
        assert_eq!((ledger.of, ledger.limit), (Scope::Container, Some(200 * MIB)));
        let of_others = Figures {
            memory,
            ..Figures::default()
        };
        assert_eq!(measure(&mut run, of_others).of, Scope::Process);
        assert_eq!(run.group_figures(), Figures::default());
    }

    /// Scenario: a reading covers the other processes of a container; the next reading does not.
    /// Guarantee: the ledger of the second reading and the facts for the rules still name the largest other process.
    #[test]
    fn largest_other_process_stays_known() {
        let mut figures = Figures {
            memory_limit: Some(200 * MIB),
            memory: Memory {
                usage: Some(150 * MIB),
                anonymous: Some(140 * MIB),
                ..Memory::default()
            },
            others: OtherProcesses {
                bytes: Some(100 * MIB),
                largest: Some(CommandName::new("worker")),
                largest_bytes: Some(100 * MIB),
            },
            ..Figures::default()
        };
        let mut run = run(true);
        measure(&mut run, figures);
        figures.others = OtherProcesses::default();
        let ledger = measure(&mut run, figures);
        assert_eq!(ledger.other_processes, Some(100 * MIB));
        assert_eq!(ledger.largest_other, Some(CommandName::new("worker")));
        let facts = run.stream_facts().container;
        assert_eq!(
            (facts.other_processes, facts.largest_other),
            (Some(100 * MIB), ledger.largest_other)
        );
    }
}
