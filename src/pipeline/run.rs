//! One run of a process, as everybody but its own task sees it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use clr_gc::gc::{Collection, Suspension};
use gc_telemetry::origin::Origin;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::metrics::v1::Metric;

use crate::container::{Figures, Usage};
use crate::pipeline::registry::{Clock, PipelineSettings};
use crate::pipeline::ruled::{RuleCounts, Ruled};
use crate::process::{Identity, RunKey, RunState, StreamProgress};
use delivery::alerts::Notice;
use gc_rules::alert::{Transition, Verdict};
use gc_rules::field::{Open, ProcessFacts, StreamFacts};
use gc_rules::rule::{RuleSet, Severity};
use gc_rules::time::TimeBase;
use gc_telemetry::anomaly::Anomaly;
use gc_telemetry::definition::anomaly;
use gc_telemetry::definition::container as container_row;
use gc_telemetry::definition::own::target as row;
use gc_telemetry::options::Temporality;
use gc_telemetry::series::Series;
use gc_telemetry::sheet::{Number, Sheet, seconds, text, whole};
use gc_telemetry::spans::{Encoded, LeftOut, Traced, Tracer};
use gc_telemetry::value::{facts, key_value};

/// A collection that is remembered.
#[derive(Debug, Clone)]
pub(crate) struct Recent {
    pub(crate) collection: Box<Collection>,
    pub(crate) base: TimeBase,
}

/// Everything of a run that changes.
#[derive(Debug)]
pub(crate) struct Inside {
    /// Who it is; the attributes are in `resource` alone.
    pub(crate) identity: Identity,
    pub(crate) resource: Arc<Origin>,
    /// What an orchestrator says of it: part of `resource`.
    metadata: Vec<KeyValue>,
    /// `resource` without `metadata`; `None` where that is empty.
    without_metadata: Option<Vec<KeyValue>>,
    /// What its container uses.
    usage: Usage,
    /// As the rules know it, see [`Inside::container`].
    container: Figures,
    pub(crate) state: RunState,
    pub(crate) since_unix_ns: u64,
    pub(crate) first_attach_unix_ns: Option<u64>,
    pub(crate) sessions: u64,
    /// The sum over the sessions that ended, without the present one.
    ended_sessions: StreamProgress,
    session: StreamProgress,
    pub(crate) recent: VecDeque<Recent>,
    pub(crate) collections: u64,
    pub(crate) suspensions: u64,
    pub(crate) lossy: u64,
    pub(crate) incomplete: u64,
    /// When the newest event of a collection was, Unix time.
    pub(crate) newest_unix_ns: u64,
    /// The same of the present session; `None` before its first collection.
    session_newest_unix_ns: Option<u64>,
    /// How late the newest collection was told, nanoseconds after its end.
    pub(crate) lag_ns: Option<u64>,
    /// What has begun and not ended, Unix time.
    pub(crate) open: Open,
    /// From the first attach on.
    pub(crate) ruled: Option<Ruled>,
    /// The name of the process, as notices have it.
    process: Arc<str>,
    series: Option<Series>,
    tracer: Option<(Arc<PipelineSettings>, Tracer)>,
    seed: [u8; 16],
}

/// What came of a collection.
#[derive(Debug)]
pub(crate) struct Observed {
    /// Its spans, when it is among those that are told.
    pub(crate) spans: Result<Encoded, LeftOut>,
    /// The changes of alerts that it made.
    pub(crate) notices: Vec<Notice>,
}

/// One run of a process.
#[derive(Debug)]
pub struct Run {
    key: RunKey,
    clock: Clock,
    inside: Mutex<Inside>,
}

impl Run {
    pub(crate) fn new(mut identity: Identity, clock: Clock, now_unix_ns: u64) -> Self {
        let mut seed = [0; 16];
        fastrand::fill(&mut seed);
        let key = identity.key;
        let resource = Arc::new(Origin::new(std::mem::take(&mut identity.resource)));
        let process = Arc::from(identity.name.as_str());
        let inside = Inside {
            identity,
            resource,
            metadata: Vec::new(),
            without_metadata: None,
            usage: Usage::default(),
            container: Figures::default(),
            state: RunState::Found,
            since_unix_ns: now_unix_ns,
            first_attach_unix_ns: None,
            sessions: 0,
            ended_sessions: StreamProgress::default(),
            session: StreamProgress::default(),
            recent: VecDeque::new(),
            collections: 0,
            suspensions: 0,
            lossy: 0,
            incomplete: 0,
            newest_unix_ns: 0,
            session_newest_unix_ns: None,
            lag_ns: None,
            open: Open::default(),
            ruled: None,
            process,
            series: None,
            tracer: None,
            seed,
        };
        Self {
            key,
            clock,
            inside: Mutex::new(inside),
        }
    }

    /// Which run.
    pub fn key(&self) -> RunKey {
        self.key
    }

    /// Whether its process is read now.
    pub fn is_attached(&self) -> bool {
        self.inside().state == RunState::Attached
    }

    pub(crate) fn clock(&self) -> Clock {
        self.clock
    }

    pub(crate) fn inside(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set_state(&self, state: RunState, now_unix_ns: u64) {
        self.inside().set_state(state, now_unix_ns);
    }

    /// The rules are told what time it is, also while it is not attached to: what they know of it grows old, and what it does is unknown.
    /// What another gcwatch tells, or nobody is to tell, ends here.
    pub(crate) fn tick(&self, now_unix_ns: u64) -> (Arc<Origin>, Vec<Notice>) {
        let mut inside = self.inside();
        let notices = match inside.state {
            RunState::Excluded | RunState::OverLimit | RunState::HeldElsewhere { .. } => inside.change(|ruled| {
                let fires = !ruled.alerts().is_empty();
                if fires { ruled.end(now_unix_ns) } else { Vec::new() }
            }),
            _ => inside.advance(now_unix_ns),
        };
        (Arc::clone(&inside.resource), notices)
    }

    /// Other rules from now on.
    pub(crate) fn adopt(&self, rules: &Arc<RuleSet>, now_unix_ns: u64) -> (Arc<Origin>, Vec<Notice>) {
        let mut inside = self.inside();
        let now = match self.clock {
            Clock::Live => now_unix_ns,
            Clock::Recorded => inside.newest_unix_ns,
        };
        let notices = inside.change(|ruled| ruled.adopt(rules, now));
        (Arc::clone(&inside.resource), notices)
    }

    /// The process ended: so do its alerts.
    pub(crate) fn end_rules(&self, at_unix_ns: u64) -> (Arc<Origin>, Vec<Notice>) {
        let mut inside = self.inside();
        let notices = inside.change(|ruled| ruled.end(at_unix_ns));
        (Arc::clone(&inside.resource), notices)
    }

    /// Adds what its rules counted since the last call.
    pub(crate) fn count_rules(&self, totals: &mut BTreeMap<Arc<str>, RuleCounts>) {
        if let Some(ruled) = self.inside().ruled.as_mut() {
            ruled.count(totals);
        }
    }

    /// Its metrics; `None` before the first attach.
    pub(crate) fn metrics(&self, now_unix_ns: u64, temporality: Temporality) -> Option<(Arc<Origin>, Vec<Metric>)> {
        let mut inside = self.inside();
        let resource = Arc::clone(&inside.resource);
        let reading = inside.reading(now_unix_ns);
        let series = inside.series.as_mut()?;
        let mut metrics = match temporality {
            Temporality::Cumulative => series.cumulative(now_unix_ns),
            Temporality::Delta => series.delta(now_unix_ns),
        };
        metrics.extend(reading);
        Some((resource, metrics))
    }
}

/// A name that is there gets the new value, others are added.
fn merged(mut known: Vec<KeyValue>, news: impl IntoIterator<Item = KeyValue>) -> Vec<KeyValue> {
    for attribute in news {
        match known.iter_mut().find(|known| known.key == attribute.key) {
            Some(known) => *known = attribute,
            None => known.push(attribute),
        }
    }
    known
}

/// What a container may use and does use, as metrics.
fn container(sheet: &mut Sheet, figures: &Figures) {
    use container_row as row;
    let (memory, cpu) = (&figures.memory, &figures.cpu);
    sheet.put_one(&row::MEMORY_LIMIT, figures.memory_limit.map(whole));
    sheet.put_one(&row::MEMORY_USAGE, memory.usage.map(whole));
    sheet.put_one(&row::MEMORY_WORKING_SET, memory.working_set.map(whole));
    sheet.put_one(&row::OOM_KILLS, memory.oom_kills.map(whole));
    sheet.put_one(&row::LIMIT_HITS, memory.limit_hits.map(whole));
    sheet.put_one(&row::HIGH_EVENTS, memory.high_events.map(whole));
    sheet.put_one(&row::CPU_LIMIT, figures.cpu_limit.map(Number::AsDouble));
    sheet.put_one(&row::CPU_PERIODS, cpu.periods.map(whole));
    sheet.put_one(&row::CPU_THROTTLED_PERIODS, cpu.throttled_periods.map(whole));
    sheet.put_one(&row::CPU_THROTTLED_TIME, cpu.throttled_ns.map(seconds));
}

/// The rules that a collection matched, each with what happened where an alert began on it.
fn anomalies<'a>(verdict: &'a Verdict, collection: &Collection, base: TimeBase) -> Vec<Anomaly<'a>> {
    let at_unix_ns = base.unix_ns(collection.end.unwrap_or(collection.last_event));
    let summary = |id: &str| {
        verdict.transitions.iter().find_map(|transition| match transition {
            Transition::Fired(alert) if *alert.rule.id == *id => Some(&*alert.summary),
            _ => None,
        })
    };
    let matched = verdict.matched.iter();
    matched
        .map(|rule| Anomaly {
            rule,
            summary: summary(&rule.id),
            at_unix_ns,
        })
        .collect()
}

impl Inside {
    pub(crate) fn set_state(&mut self, state: RunState, now_unix_ns: u64) {
        if self.state != state {
            self.state = state;
            self.since_unix_ns = now_unix_ns;
        }
    }

    /// A session begins: what it counts is added to what the earlier ones counted.
    pub(crate) fn begin_session(&mut self, settings: &PipelineSettings, rules: Arc<RuleSet>, start_unix_ns: u64) {
        self.sessions += 1;
        self.ended_sessions = self.progress();
        self.session = StreamProgress::default();
        self.first_attach_unix_ns.get_or_insert(start_unix_ns);
        self.open = Open::default();
        self.session_newest_unix_ns = None;
        if self.ruled.is_none() {
            self.ruled = Some(Ruled::new(rules, self.facts(), start_unix_ns));
        }
        if self.series.is_none() {
            self.series = Some(Series::new(settings.metrics.clone(), start_unix_ns));
        }
    }

    /// How well it is read.
    fn reading(&self, now_unix_ns: u64) -> Vec<Metric> {
        let progress = self.progress();
        let mut sheet = Sheet::new(self.first_attach_unix_ns.unwrap_or(now_unix_ns), now_unix_ns);
        sheet.put_one(&row::EVENTS, Some(whole(progress.events)));
        sheet.put_one(&row::UNDECODABLE, Some(whole(progress.undecodable)));
        sheet.put_one(&row::SIZE, Some(whole(progress.bytes)));
        sheet.put_one(&row::SESSIONS, Some(whole(self.sessions)));
        sheet.put_one(&row::LAG, self.lag_ns.map(seconds));
        self.alerts(&mut sheet);
        container(&mut sheet, &self.container);
        sheet.into_metrics()
    }

    fn alerts(&self, sheet: &mut Sheet) {
        let Some(ruled) = &self.ruled else { return };
        let mut points: BTreeMap<_, (u64, u64)> = BTreeMap::new();
        for ((rule, severity), fired) in ruled.fired() {
            points.insert((Arc::clone(rule), *severity), (*fired, 0));
        }
        for alert in ruled.alerts().into_iter().filter(|alert| alert.rule.emit.metric) {
            points
                .entry((Arc::clone(&alert.rule.id), alert.severity()))
                .or_default()
                .1 += 1;
        }
        let point = |value: fn(&(u64, u64)) -> u64| -> Vec<(Vec<KeyValue>, Number)> {
            let attributes = |rule: &str, severity: Severity| {
                vec![text(&anomaly::RULE_ID, rule), text(&anomaly::SEVERITY, severity.name())]
            };
            let told = points.iter();
            told.map(|((rule, severity), values)| (attributes(rule, *severity), whole(value(values))))
                .collect()
        };
        sheet.put(&row::ALERTS_ACTIVE, point(|(_, active)| *active));
        sheet.put(&row::ANOMALIES, point(|(fired, _)| *fired));
    }

    /// What rules know of how it is read.
    fn stream_facts(&self) -> StreamFacts {
        let progress = self.progress();
        // Of a process that is not read nobody knows whether it is silent.
        let attached = self.state == RunState::Attached;
        StreamFacts {
            since_unix_ns: self.first_attach_unix_ns,
            events: Some(progress.events),
            lost_events: progress.lost_events,
            undecodable: Some(progress.undecodable),
            sessions: Some(self.sessions),
            lag_ns: self.lag_ns,
            newest_unix_ns: self.session_newest_unix_ns.filter(|_| attached),
            open: if attached { self.open } else { Open::default() },
            container: (&self.container).into(),
        }
    }

    /// What rules know of who it is.
    fn facts(&self) -> ProcessFacts {
        let Identity { key, name, runtime, .. } = &self.identity;
        let limits = [
            (
                container_row::MEMORY_LIMIT.name,
                self.container
                    .memory_limit
                    .map(|limit| Value::IntValue(limit.try_into().unwrap_or(i64::MAX))),
            ),
            (
                container_row::CPU_LIMIT.name,
                self.container.cpu_limit.map(Value::DoubleValue),
            ),
        ];
        let limits = limits
            .into_iter()
            .filter_map(|(name, limit)| Some(key_value(name, limit?)));
        let attributes: Vec<KeyValue> = self.resource.attributes.iter().cloned().chain(limits).collect();
        ProcessFacts::new(Some(key.pid), Some(name), runtime.as_deref(), facts(&attributes))
    }

    /// What its container may use and does use; `None`: it is not read now. Limits that change are news to the rules.
    pub(crate) fn measured(&mut self, figures: Option<Figures>, now_unix_ns: u64) -> Vec<Notice> {
        let before = self.container;
        self.container = match figures {
            Some(figures) => {
                self.usage.take(figures);
                self.usage.figures()
            }
            // A reading that failed says nothing of the limits: rules that are for limited processes stay, and do not know what is used.
            None => {
                self.container = Figures::default();
                return Vec::new();
            }
        };
        if (before.memory_limit, before.cpu_limit) == (self.container.memory_limit, self.container.cpu_limit) {
            return Vec::new();
        }
        let (facts, stream) = (self.facts(), self.stream_facts());
        self.change(|ruled| {
            let mut transitions = ruled.advance(stream, now_unix_ns);
            transitions.extend(ruled.learned(facts, now_unix_ns));
            transitions
        })
    }

    /// What an orchestrator says of it from now on. `None`: it says the same as before.
    pub(crate) fn surrounded(&mut self, metadata: Vec<KeyValue>, now_unix_ns: u64) -> Option<Vec<Notice>> {
        // What was known last stays: a pod that is deleted is forgotten before its processes have ended.
        if metadata.is_empty() || metadata == self.metadata {
            return None;
        }
        self.metadata = metadata;
        let known = self
            .without_metadata
            .take()
            .unwrap_or_else(|| self.resource.attributes.clone());
        self.set_resource(known);
        let facts = self.facts();
        Some(self.change(|ruled| ruled.learned(facts, now_unix_ns)))
    }

    /// The attributes without the metadata, over which that is laid.
    fn set_resource(&mut self, known: Vec<KeyValue>) {
        if self.metadata.is_empty() {
            self.resource = Arc::new(Origin::new(known));
            return;
        }
        let said = &self.identity.provenance.said;
        let news = self.metadata.iter().filter(|attribute| !said.contains(&attribute.key));
        self.resource = Arc::new(Origin::new(merged(known.clone(), news.cloned())));
        self.without_metadata = Some(known);
    }

    /// Changes the rules' state, and tells what came of it.
    fn change(&mut self, change: impl FnOnce(&mut Ruled) -> Vec<Transition>) -> Vec<Notice> {
        let Some(ruled) = self.ruled.as_mut() else {
            return Vec::new();
        };
        let transitions = change(ruled);
        ruled.notices(self.identity.key, &self.process, transitions, None)
    }

    /// Time passes.
    pub(crate) fn advance(&mut self, now_unix_ns: u64) -> Vec<Notice> {
        let stream = self.stream_facts();
        self.change(|ruled| ruled.advance(stream, now_unix_ns))
    }

    /// Over all sessions.
    pub(crate) fn progress(&self) -> StreamProgress {
        let (a, b) = (self.ended_sessions, self.session);
        StreamProgress {
            bytes: a.bytes + b.bytes,
            events: a.events + b.events,
            lost_events: match (a.lost_events, b.lost_events) {
                (None, None) => None,
                (a, b) => Some(a.unwrap_or(0) + b.unwrap_or(0)),
            },
            undecodable: a.undecodable + b.undecodable,
        }
    }

    pub(crate) fn set_progress(&mut self, progress: StreamProgress) {
        let before = self.progress().lost_events.unwrap_or(0);
        self.session = progress;
        // Of a stream that numbers nothing it is not known; a metric that is absent says so.
        let Some(lost) = self.progress().lost_events else {
            return;
        };
        if let Some(series) = self.series.as_mut() {
            series.lost(lost.saturating_sub(before));
        }
    }

    /// A name that is there gets the new value, others are added.
    pub(crate) fn learned(
        &mut self,
        runtime: Option<String>,
        attributes: Vec<KeyValue>,
        now_unix_ns: u64,
    ) -> (Arc<Origin>, Vec<Notice>) {
        if runtime.is_some() {
            self.identity.runtime = runtime;
        }
        if !attributes.is_empty() {
            let known = self.without_metadata.take();
            let known = known.unwrap_or_else(|| self.resource.attributes.clone());
            self.set_resource(merged(known, attributes));
        }
        let facts = self.facts();
        let notices = self.change(|ruled| ruled.learned(facts, now_unix_ns));
        (Arc::clone(&self.resource), notices)
    }

    /// One collection: counted, measured, remembered, and told as spans when it is among those that are.
    pub(crate) fn collection(
        &mut self,
        collection: Box<Collection>,
        base: TimeBase,
        settings: &Arc<PipelineSettings>,
    ) -> Observed {
        self.collections += 1;
        self.lossy += u64::from(collection.lossy);
        self.incomplete += u64::from(!collection.is_complete());
        let newest = base.unix_ns(collection.last_event);
        self.newest_unix_ns = self.newest_unix_ns.max(newest);
        self.session_newest_unix_ns = self.session_newest_unix_ns.max(Some(newest));
        let (of, tracer) = self.tracer.get_or_insert_with(|| {
            let tracer = Tracer::new(settings.spans.clone(), self.seed);
            (Arc::clone(settings), tracer)
        });
        if !Arc::ptr_eq(of, settings) {
            tracer.set_options(settings.spans.clone());
            *of = Arc::clone(settings);
        }
        let verdict = match self.ruled.as_mut() {
            Some(ruled) => ruled.collection(&collection, base),
            None => Verdict::default(),
        };
        let (ids, spans) = match tracer.trace_anomalies(&collection, base, &anomalies(&verdict, &collection, base)) {
            Traced::Spans { ids, spans } => (Some(ids), Ok(spans)),
            Traced::NotSelected => (None, Err(LeftOut::NotSelected)),
            Traced::OverRate => (None, Err(LeftOut::OverRate)),
        };
        if let Some(series) = self.series.as_mut() {
            series.observe(&collection, base, ids);
            if let (Err(why), true) = (&spans, settings.spans.enabled) {
                series.untold(*why);
            }
        }
        if settings.recent > 0 {
            while self.recent.len() >= settings.recent {
                self.recent.pop_front();
            }
            self.recent.push_back(Recent { collection, base });
        }
        let notices = match self.ruled.as_mut() {
            Some(ruled) => ruled.notices(self.identity.key, &self.process, verdict.transitions, ids),
            None => Vec::new(),
        };
        Observed { spans, notices }
    }

    /// A stop in which no collection ran.
    pub(crate) fn suspension(&mut self, suspension: &Suspension, base: TimeBase) {
        self.suspensions += 1;
        if let Some(ruled) = self.ruled.as_mut() {
            ruled.suspension(suspension, base);
        }
        if let Some(series) = self.series.as_mut() {
            series.observe_suspension(suspension);
        }
    }
}
