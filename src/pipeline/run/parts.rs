//! The parts of a run, and what passes between them.

use std::sync::Arc;

use clr_gc::gc::{Collection, Suspension};
use delivery::alerts::Notices;
use gc_requests::request::Request;
use gc_rules::alert::Verdict;
use gc_rules::engine::collection_at;
use gc_rules::field::{HEAP_LIMIT, HostFacts, MemoryFacts, ProcessFacts, StreamFacts, UNSEEN_LIMIT};
use gc_rules::ledger::Ledger;
use gc_rules::rule::{Evidence, RuleSet};
use gc_rules::time::{Moment, TimeBase, Wall};
use gc_telemetry::options::Temporality;
use gc_telemetry::snapshot::MetricSnapshot;
use gc_telemetry::spans::{Encoded, NotExported};
use gc_telemetry::value::key_value;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::metrics::v1::Metric;

use crate::pipeline::history::History;
use crate::pipeline::left_incidents::LeftIncidents;
use crate::pipeline::run::container::RunContainer;
use crate::pipeline::run::identity::{RunIdentity, SaidLimit};
use crate::pipeline::run::ledger::RunLedger;
use crate::pipeline::run::requests::RecentRequests;
use crate::pipeline::run::rules::RunRules;
use crate::pipeline::run::session::RunSession;
use crate::pipeline::run::telemetry::{RunTelemetry, anomalies};
use crate::pipeline::settings::Clock;
use crate::pipeline::settings::PipelineSettings;
use gc_rules::incident::IncidentEnding;
use processes::RunState;
use processes::container::Figures;
use processes::container::ledger::{HeapFigures, Reading, Resident, Sources, divide};
use processes::{Identity, StreamProgress};

/// Everything of a run that changes.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) identity: RunIdentity,
    pub(crate) session: RunSession,
    pub(crate) container: RunContainer,
    pub(crate) memory: MemoryFacts,
    host: HostFacts,
    /// Maximum bytes that its heap can commit, as it looks from outside.
    seen_heap_limit: Option<u64>,
    /// The memory of the machine.
    machine: Option<u64>,
    /// What shows that it exports the metrics of its runtime itself.
    pub(crate) exports_runtime: Option<&'static str>,
    /// A collection showed that the limit which its surroundings name is not in force.
    has_no_such_limit: bool,
    pub(crate) ledger: RunLedger,
    pub(crate) requests: RecentRequests,
    /// From the first attach on.
    pub(crate) rules: Option<RunRules>,
    telemetry: RunTelemetry,
    pub(crate) history: History,
    /// What the wall clock shows, as of the last second or collection.
    pub(crate) wall: Wall,
}

/// A reading from outside of a process.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Measured {
    /// Of its container; `None`: it could not be read.
    pub figures: Option<Figures>,
    /// Of its memory.
    pub memory: MemoryFacts,
    /// Maximum bytes that its heap can commit, as far as that is seen from outside.
    pub heap_limit: Option<u64>,
    /// The memory of the machine, bytes.
    pub machine: Option<u64>,
    /// What the host has to do.
    pub host: HostFacts,
    /// What shows that it exports the metrics of its runtime itself.
    pub exports_runtime: Option<&'static str>,
}

/// What came of a collection.
#[derive(Debug)]
pub(crate) struct Observed {
    /// Its spans, if it is among those that become spans.
    pub(crate) spans: Result<Encoded, NotExported>,
    /// The changes of alerts that it made.
    pub(crate) notices: Notices,
}

impl Parts {
    pub(crate) fn new(identity: Identity, now: Moment, wall: Wall) -> Self {
        Self {
            identity: RunIdentity::new(identity),
            session: RunSession::new(now),
            container: RunContainer::default(),
            memory: MemoryFacts::default(),
            host: HostFacts::default(),
            seen_heap_limit: None,
            machine: None,
            exports_runtime: None,
            has_no_such_limit: false,
            ledger: RunLedger::default(),
            requests: RecentRequests::default(),
            rules: None,
            telemetry: RunTelemetry::new(),
            history: History::default(),
            wall,
        }
    }

    /// Nothing will be observed any more: rules and series go.
    pub(crate) fn forget_all_but_history(&mut self) {
        self.rules = None;
        self.telemetry = RunTelemetry::new();
    }

    /// A session begins. The first one begins the rules and the series, too.
    pub(crate) fn begin_session(&mut self, settings: &PipelineSettings, rules: Arc<RuleSet>, start: Moment) {
        self.session.begin(start);
        self.requests = RecentRequests::default();
        if self.rules.is_none() {
            let facts = self.process_facts();
            self.rules = Some(RunRules::new(self.identity.who(), rules, facts, start));
        }
        self.telemetry.begin(&settings.metrics, self.wall.unix_ns(start));
    }

    /// Maximum bytes that its heap can commit: the runtime's own word, else what follows from outside.
    pub(crate) fn heap_limit(&self) -> Option<u64> {
        match self.identity.said_limit() {
            SaidLimit::Bytes(limit) => Some(limit),
            SaidLimit::NoLimit => None,
            SaidLimit::Nothing => self.seen_heap_limit,
        }
    }

    /// The limit of its container, where the runtime does not see it: then it says that its heap has none. Seen on 9.0
    /// to 10.0.10 where its control group is the root of what is mounted (runtime issue 130092), and on all where the
    /// limit came after the start.
    pub(crate) fn unseen_limit(&self) -> Option<u64> {
        let limit = self.group_figures().memory_limit?;
        let restricts = self.machine.is_none_or(|machine| limit < machine);
        let is_unseen = self.identity.said_limit() == SaidLimit::NoLimit && !self.identity.assumes_memory();
        Some(limit).filter(|_| restricts && is_unseen)
    }

    /// What the rules know of who it is.
    fn process_facts(&self) -> ProcessFacts {
        let attribute = |name, limit: Option<u64>| {
            let limit = limit.and_then(|limit| i64::try_from(limit).ok())?;
            Some(key_value(name, Value::IntValue(limit)))
        };
        let heap = attribute(HEAP_LIMIT, self.heap_limit());
        let unseen = attribute(UNSEEN_LIMIT, self.unseen_limit());
        self.identity.facts(self.container.limits().chain(heap).chain(unseen))
    }

    /// What the rules know of how it is read, of its memory and its container.
    fn stream_facts(&self) -> StreamFacts {
        StreamFacts {
            requests: self.requests.facts(self.session.rules_at()),
            host: self.host,
            wall: self.wall,
            ..self.session.facts(self.container.facts(), self.memory)
        }
    }

    /// The figures of its container, or of its control group where that has a limit: those of the whole host say
    /// nothing of a process.
    pub(crate) fn group_figures(&self) -> Figures {
        let figures = self.container.figures();
        if self.identity.is_in_container() || figures.memory_limit.is_some() {
            *figures
        } else {
            Figures::default()
        }
    }

    /// Advances the time of the rules, also while the process is not attached to: what they know of it gets older, and
    /// its present state is unknown. Alerts of a process that is excluded, over the limit or read by another gcwatch
    /// end here.
    ///
    /// `behind_ns`: how long ago all streams were read to their end.
    pub(crate) fn tick(&mut self, now: Moment, wall: Wall, behind_ns: u64) -> Notices {
        self.wall = wall;
        self.session.tick(now, behind_ns);
        match self.session.state {
            RunState::Excluded | RunState::OverLimit | RunState::HeldElsewhere { .. } => {
                let rules = self.rules.as_mut().filter(|rules| rules.is_any_open());
                rules.map_or_else(Notices::default, |rules| rules.unwatch(now))
            }
            _ => self.advance(now),
        }
    }

    /// Other rules from now on.
    pub(crate) fn adopt(&mut self, rules: &Arc<RuleSet>, clock: Clock, now: Moment) -> Notices {
        let now = match clock {
            Clock::Live => now,
            Clock::Recorded => self.session.newest,
        };
        let now = self.session.advances(now);
        let notices = self.rules.as_mut().map(|known| known.adopt(rules, now));
        notices.unwrap_or_default()
    }

    /// The process exited: its alerts end. With it come the incidents that outlive it.
    pub(crate) fn end_rules(&mut self, clock: Clock, at: Moment) -> (Notices, Option<LeftIncidents>) {
        // What was in progress when it was read last is over with it.
        let mut notices = match clock {
            Clock::Live => self.advance(at),
            Clock::Recorded => Notices::default(),
        };
        let in_order = self.session.closed_in_order() == Some(true);
        let Some(rules) = self.rules.as_mut() else {
            return (notices, None);
        };
        match clock {
            // Nothing was killed and nobody has to restart it: what was wrong is over.
            Clock::Live if in_order => {
                notices.extend(rules.finish(IncidentEnding::ProcessEnded, at));
                (notices, None)
            }
            Clock::Live => {
                notices.extend(rules.end(at));
                let (incidents, process) = rules.take_incidents(at);
                let left = LeftIncidents {
                    process,
                    resource: Arc::clone(self.identity.resource()),
                    incidents,
                };
                (notices, Some(left))
            }
            // A recording says nothing of what came after.
            Clock::Recorded => (rules.finish(IncidentEnding::ProcessEnded, at), None),
        }
    }

    /// Advances the time of the rules.
    pub(crate) fn advance(&mut self, now: Moment) -> Notices {
        let now = self.session.advances(now);
        let stream = self.stream_facts();
        let Some(rules) = &mut self.rules else {
            return Notices::default();
        };
        if let Some((since, stopped)) = self.history.recently_stopped() {
            rules.know_stopped(since, stopped);
        }
        let notices = rules.advance(stream, now);
        self.keep_of_incidents();
        notices
    }

    /// The collections that incidents refer to are kept in full.
    fn keep_of_incidents(&mut self) {
        let Some(rules) = &self.rules else { return };
        for number in rules
            .incidents()
            .filter_map(|incident| incident.head()?.alert.collection)
        {
            self.history.pin(number);
        }
    }

    /// A live collection or suspension of that time is about to be observed: what the rules know of the stream is
    /// brought up to it, and where their time is far behind it, that passes first.
    pub(crate) fn catch_up(&mut self, at: Moment, now: Moment) -> Notices {
        if let Some(at) = self.session.catches_up(at, now) {
            return self.advance(at);
        }
        let stream = self.stream_facts();
        if let Some(rules) = self.rules.as_mut() {
            rules.stream(stream);
        }
        Notices::default()
    }

    /// Passes the changed facts about the process to the rules.
    fn update_rules(&mut self, now: Moment) -> Notices {
        let now = self.session.advances(now);
        let facts = self.process_facts();
        let share = self.identity.share();
        let Some(rules) = self.rules.as_mut() else {
            return Notices::default();
        };
        rules.know_share(share);
        rules.learned(facts, now)
    }

    /// A reading of its memory and its container. The rules get limits that changed.
    pub(crate) fn measured(&mut self, measured: Measured, now: Moment) -> Notices {
        (self.memory, self.host) = (measured.memory, measured.host);
        self.exports_runtime = measured.exports_runtime.or(self.exports_runtime);
        self.telemetry.set_exports_runtime(self.exports_runtime.is_some());
        let has_group = |figures: &Figures| self.identity.is_in_container() || figures.memory_limit.is_some();
        let group = measured.figures.filter(has_group);
        let usage = group.and_then(|figures| figures.memory.working_set.or(figures.memory.usage));
        self.history.measured(usage, now);
        // The private memory that is swapped out is not resident.
        let own = measured.memory.private.zip(measured.memory.resident);
        let anonymous = own.map(|(private, resident)| private.min(resident));
        if anonymous.is_some() {
            let resident = Resident {
                all: measured.memory.resident,
                anonymous,
                ..Resident::default()
            };
            let ledger = divide(&self.sources(measured.figures, resident, now));
            self.ledger.estimated(now, self.dated(ledger, now));
            self.know_ledger();
        }
        // A reading that failed is no news of the limits.
        self.machine = measured.machine.or(self.machine);
        let heap_limit = measured.heap_limit.or(self.seen_heap_limit);
        let heap_limit = heap_limit.filter(|_| !self.has_no_such_limit);
        let has_other_heap = std::mem::replace(&mut self.seen_heap_limit, heap_limit) != heap_limit;
        if !self.container.observe(measured.figures) && !has_other_heap {
            return Notices::default();
        }
        let mut notices = self.advance(now);
        notices.extend(self.update_rules(now));
        notices
    }

    /// All that is known of its memory.
    fn sources(&self, figures: Option<Figures>, resident: Resident, now: Moment) -> Sources {
        let has_group = |figures: &Figures| self.identity.is_in_container() || figures.memory_limit.is_some();
        let group = figures.filter(has_group);
        Sources {
            limit: group.and_then(|figures| figures.memory_limit),
            group: group.map(|figures| figures.memory),
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
        self.history.figures().heap_figures(now, since)
    }

    /// Incidents that gather it have what is known best of its memory.
    fn know_ledger(&mut self) {
        if let (Some(rules), Some(ledger)) = (self.rules.as_mut(), self.ledger.newest()) {
            rules.know_ledger(ledger);
        }
    }

    /// Its pages were counted; `None`: that failed.
    pub(crate) fn counted(&mut self, reading: Option<Reading>, at: Moment) {
        let ledger = reading.map(|reading| divide(&self.sources(Some(reading.figures), reading.resident, at)));
        let ledger = ledger.map(|ledger| self.dated(ledger, at));
        self.ledger.counted(at, ledger);
        self.know_ledger();
        // Whoever looks gets it.
        self.history.revision += 1;
    }

    /// Whether its pages may be counted now; if so, that begins. What its newest collection shows of its heap.
    pub(crate) fn begin_count(&mut self, now: Moment, for_person: bool) -> Option<HeapFigures> {
        let is_wanted = for_person || self.rules.as_ref().is_some_and(|rules| rules.gather(Evidence::Ledger));
        let begins = is_wanted && self.ledger.begin(now, for_person);
        begins.then(|| self.heap_figures(now))
    }

    /// What an orchestrator knows of it from now on. `None`: the same as before.
    pub(crate) fn set_metadata(&mut self, metadata: Vec<KeyValue>, now: Moment) -> Option<Notices> {
        let changed = self.identity.set_metadata(metadata);
        changed.then(|| self.update_rules(now))
    }

    /// More is known of who it is.
    pub(crate) fn learned(&mut self, runtime: Option<String>, attributes: Vec<KeyValue>, now: Moment) -> Notices {
        self.identity.learned(runtime, attributes);
        self.update_rules(now)
    }

    pub(crate) fn set_progress(&mut self, progress: StreamProgress) {
        // Where the runtime numbers nothing, losses are unknown: the metric is absent.
        if let Some(lost) = self.session.set_progress(progress) {
            self.telemetry.lost(lost);
        }
    }

    /// One collection: judged by the rules, counted, measured, remembered, and made into spans if it is among those.
    /// `now`: no event is later; [`Moment::NEVER`] for a recording.
    pub(crate) fn collection(
        &mut self,
        mut collection: Box<Collection>,
        base: TimeBase,
        settings: &Arc<PipelineSettings>,
        now: Moment,
    ) -> Observed {
        self.session.observe(base.moment(collection.last_event));
        let at = base.moment(collection_at(&collection));
        let own_dump = self.claim(&mut collection, at);
        let mut notices = Notices::default();
        if self.refutes_limit(&collection) {
            self.has_no_such_limit = true;
            self.seen_heap_limit = None;
            notices = self.update_rules(at);
        }
        let own = own_dump.then(|| StreamFacts {
            own_dump,
            ..self.stream_facts()
        });
        let after = own_dump.then(|| self.stream_facts());
        let verdict = match self.rules.as_mut() {
            Some(rules) => {
                own.into_iter().for_each(|facts| rules.stream(facts));
                let verdict = rules.collection(&collection, base);
                after.into_iter().for_each(|facts| rules.stream(facts));
                verdict
            }
            None => Verdict::default(),
        };
        let unix = base.unix(self.wall);
        let anomalies = anomalies(&verdict, &collection, unix);
        let in_incident = self
            .rules
            .as_ref()
            .is_some_and(|rules| rules.incidents().next().is_some());
        let (span, spans) = self
            .telemetry
            .collection(&collection, unix, &anomalies, in_incident, settings);
        let number = collection.number;
        self.history.observe(collection, base, settings.recent, now);
        if let Some(ids) = span {
            self.history.traced(number, ids.trace_id);
        }
        // Of an incident that is open, each tick passes on what is new.
        if let Some(rules) = self.rules.as_mut().filter(|_| !verdict.transitions.is_empty()) {
            notices.extend(rules.notices(verdict.transitions, span, at));
            self.keep_of_incidents();
        }
        Observed { spans, notices }
    }

    /// Whether it is that of a heap dump of gcwatch's own, which is a tool's also where the stream does not say so.
    fn claim(&self, collection: &mut Collection, at: Moment) -> bool {
        let is_asked_for = collection.is_requested() && collection.requested_by_tool != Some(false);
        let is_own = is_asked_for && self.session.is_own_dump(at);
        if is_own {
            collection.requested_by_tool = Some(true);
        }
        is_own
    }

    /// Whether more is committed after a collection than the limit allows by far: then the runtime did not take it.
    fn refutes_limit(&self, collection: &Collection) -> bool {
        let committed = collection.committed.after.zip(self.seen_heap_limit);
        committed.is_some_and(|(committed, limit)| committed > limit.saturating_add(limit / 4))
    }

    /// A request that ended.
    pub(crate) fn request(
        &mut self,
        request: &Request,
        base: TimeBase,
        settings: &Arc<PipelineSettings>,
    ) -> Result<Encoded, NotExported> {
        self.requests.observe(request, base, self.wall);
        self.telemetry.request(request, base.unix(self.wall), settings)
    }

    /// A suspension in which no collection ran.
    pub(crate) fn suspension(&mut self, suspension: &Suspension, base: TimeBase, now: Moment) {
        self.history.suspension(suspension, base, now);
        if let Some(rules) = self.rules.as_mut() {
            rules.suspension(suspension, base);
        }
        self.telemetry.suspension(suspension);
    }

    /// Its metrics; `None` before the first attach.
    pub(crate) fn metrics(&mut self, now_unix_ns: u64, temporality: Temporality) -> Option<Vec<Metric>> {
        let (mut metrics, start_unix_ns) = self.telemetry.metrics(now_unix_ns, temporality)?;
        let mut snapshot = MetricSnapshot::new(start_unix_ns, now_unix_ns);
        self.session.metrics(&mut snapshot);
        if let Some(rules) = &self.rules {
            rules.metrics(&mut snapshot);
        }
        self.ledger.metrics(&mut snapshot);
        // The conventions' `container.*` of a process that is in none would be the host's figures under a wrong name.
        if self.identity.is_in_container() {
            self.container.metrics(&mut snapshot);
        }
        metrics.extend(snapshot.into_metrics());
        Some(metrics)
    }
}
