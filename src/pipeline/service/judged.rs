//! The rules `on: service` and `on: watcher`: an engine for each service of which there is something to judge, and one
//! for gcwatch itself.
//!
//! A service with one process and without a death in ten minutes has no engine: nothing that a rule could say of it is
//! not said of its process. Hundreds of services cost nothing so. Where a rule has windows, each service has one, so
//! that they begin with it. A service that a rule expects (`expect`) has an engine of its own, with and without
//! processes, and where a rule divides services (`by`), each of their versions has one.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::sync::Arc;
use std::time::Duration;

use delivery::alerts::{IncidentNotice, Notice, Notices};
use gc_rules::alert::{Alert, Transition};
use gc_rules::engine::{Engine, RuleState};
use gc_rules::field::{
    AFFECTED_RULE, EXPECTED, FIRING, FactValue, LAST_DEATH, OF_VERSION, ProcessFacts, ServiceFacts, StreamFacts,
    WatcherFacts,
};
use gc_rules::incident::{Incident, IncidentChange, IncidentEnding, IncidentRecord, Incidents};
use gc_rules::rule::{On, Rule, RuleSet};
use gc_rules::time::moved;
use gc_telemetry::definition::resource::{SERVICE_NAME, SERVICE_VERSION};
use gc_telemetry::origin::Origin;
use gc_telemetry::value::{facts, key_value};
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value as AnyValue;

use crate::pipeline::resumed::Resumed;
use crate::pipeline::service::book::{KnownOfService, Of, Service, ServiceBook};
use crate::pipeline::service::key::ServiceKey;
use crate::process::RunKey;

/// The time over which stalls are counted.
const COUNTED_NS: u64 = 10 * 60 * 1_000_000_000;

/// Limit of stalls that are remembered.
const MAX_STALLS: usize = 128;

/// Attributes of a process that are not its service's.
const OF_PROCESS: [&str; 8] = [
    "process.",
    "dotnet.",
    "gcwatch.",
    "container.id",
    "service.instance.id",
    "service.version",
    "k8s.pod.",
    "k8s.replicaset.",
];

/// A service, or gcwatch itself.
#[derive(Debug, Clone)]
pub(crate) struct SubjectName {
    /// Stands for a run: its pid is 0, or that of gcwatch.
    pub(crate) run: RunKey,
    /// The name of the service's processes.
    pub(crate) process: Arc<str>,
    /// The attributes that its processes have in common.
    pub(crate) resource: Arc<Origin>,
}

/// An alert of a service, or of gcwatch itself, that fires.
#[derive(Debug, Clone)]
pub struct SubjectAlert {
    /// Stands for a run in notices and labels: its pid is 0, or that of gcwatch.
    pub run: RunKey,
    /// The name of the service's processes.
    pub process: Arc<str>,
    /// The attributes that its processes have in common.
    pub resource: Arc<Origin>,
    /// The alert.
    pub alert: Arc<Alert>,
    /// The rule's group.
    pub group: Option<Arc<str>>,
}

/// When gcwatch stalled.
#[derive(Debug, Default)]
pub(crate) struct WatcherLog {
    stalls: VecDeque<(u64, Duration)>,
}

impl WatcherLog {
    /// It stalled for so long until now.
    pub(crate) fn stalled(&mut self, length: Duration, now_unix_ns: u64) {
        if self.stalls.len() >= MAX_STALLS {
            self.stalls.pop_front();
        }
        self.stalls.push_back((now_unix_ns, length));
    }

    /// The wall clock was set by so much.
    pub(crate) fn clock_was_set(&mut self, by_ns: i64) {
        for (at, _) in &mut self.stalls {
            *at = moved(*at, by_ns);
        }
    }

    fn facts(&mut self, now_unix_ns: u64) -> WatcherFacts {
        self.stalls
            .retain(|(at, _)| now_unix_ns.saturating_sub(*at) < COUNTED_NS);
        let newest = self.stalls.back().map(|(_, length)| length.as_nanos());
        WatcherFacts {
            stalls_10m: self.stalls.len() as u64,
            stall_ns: newest.map(|ns| u64::try_from(ns).unwrap_or(u64::MAX)),
        }
    }
}

/// What a rule of another subject than a process is evaluated on.
#[derive(Debug)]
struct Subject {
    run: RunKey,
    process: Arc<str>,
    /// It does not change while there are alerts, which are known by it.
    resource: Arc<Origin>,
    known: KnownOfService,
    engine: Engine,
    incidents: Incidents,
}

/// Changes of alerts with the resource that they are of.
pub(crate) type Changes = Vec<(Arc<Origin>, Notices)>;

/// The rules of services and of gcwatch itself.
#[derive(Debug, Default)]
pub(crate) struct Judged {
    /// Services as a whole, and their versions.
    services: BTreeMap<(ServiceKey, Option<Arc<str>>), Subject>,
    /// By the name that a rule expects.
    expected: BTreeMap<Arc<str>, Subject>,
    watcher: Option<Subject>,
}

impl Judged {
    /// A second passed. `own`: gcwatch's own resource, where it is a daemon.
    pub(crate) fn tick(
        &mut self,
        book: &ServiceBook,
        watcher: &mut WatcherLog,
        own: Option<&(RunKey, Arc<Origin>)>,
        rules: &Arc<RuleSet>,
        now_unix_ns: u64,
    ) -> Changes {
        let mut changes = Changes::new();
        let any = |on: On| rules.rules.iter().any(|rule| rule.enabled && rule.on == on);
        if let (Some((run, resource)), true) = (own, any(On::Watcher) || self.watcher.is_some()) {
            let subject = self
                .watcher
                .get_or_insert_with(|| Subject::new(On::Watcher, *run, "gcwatch", resource, rules, now_unix_ns));
            let stream = StreamFacts {
                watcher: Some(watcher.facts(now_unix_ns)),
                ..StreamFacts::default()
            };
            changes.extend(subject.tick(stream, rules, now_unix_ns));
        }
        changes.extend(self.expect(book, own, rules, now_unix_ns));
        if any(On::Service) {
            for (key, service) in book.services() {
                for version in divisions(service, rules) {
                    let key = (key.clone(), version);
                    if is_worth(&service.facts(of(&key.1), now_unix_ns), rules) && !self.services.contains_key(&key) {
                        let subject = Subject::of(&key, service, rules, now_unix_ns);
                        self.services.insert(key, subject);
                    }
                }
            }
        }
        self.services.retain(|(key, version), subject| {
            let service = book.service(key);
            let facts = service.map(|service| service.facts(of(version), now_unix_ns));
            let facts = facts.unwrap_or_default();
            if let Some(service) = service {
                let known = service.known(of(version));
                changes.extend(subject.know(version.as_deref(), known, now_unix_ns));
            }
            let stream = StreamFacts {
                service: Some(facts),
                ..StreamFacts::default()
            };
            changes.extend(subject.tick(stream, rules, now_unix_ns));
            let fires = !subject.engine.alerts().is_empty() || !subject.incidents.is_empty();
            if service.is_none() && fires {
                changes.extend(subject.end(now_unix_ns));
            }
            service.is_some() && (fires || is_worth(&facts, rules))
        });
        changes
    }

    /// Incidents of services name the recording of the process that died of its memory.
    pub(crate) fn name_recordings(&mut self, book: &ServiceBook, of_dead: impl Fn(RunKey) -> Option<Arc<str>>) {
        for ((key, _), subject) in &mut self.services {
            let dead = book.service(key).and_then(Service::last_death_of_memory);
            subject.incidents.know_recording(dead.and_then(&of_dead));
        }
    }

    /// Judges the services that rules expect.
    fn expect(
        &mut self,
        book: &ServiceBook,
        own: Option<&(RunKey, Arc<Origin>)>,
        rules: &Arc<RuleSet>,
        now_unix_ns: u64,
    ) -> Changes {
        let enabled = rules.rules.iter().filter(|rule| rule.enabled && rule.on == On::Service);
        let names: BTreeSet<&Arc<str>> = enabled.flat_map(|rule| &rule.expect).collect();
        for name in &names {
            if !self.expected.contains_key(*name) {
                let subject = Subject::expected(name, own.map(|(_, resource)| &**resource), rules, now_unix_ns);
                self.expected.insert(Arc::clone(name), subject);
            }
        }
        let mut changes = Changes::new();
        self.expected.retain(|name, subject| {
            let facts = ServiceFacts {
                processes: book.processes_of(name),
                ..ServiceFacts::default()
            };
            let stream = StreamFacts {
                service: Some(facts),
                ..StreamFacts::default()
            };
            changes.extend(subject.tick(stream, rules, now_unix_ns));
            let is_expected = names.contains(name);
            if !is_expected {
                changes.extend(subject.end(now_unix_ns));
            }
            is_expected
        });
        changes
    }

    /// The wall clock was set by so much.
    pub(crate) fn clock_was_set(&mut self, by_ns: i64) {
        let subjects = self.services.values_mut().chain(self.expected.values_mut());
        for subject in subjects.chain(self.watcher.as_mut()) {
            subject.engine.clock_was_set(by_ns);
            subject.incidents.clock_was_set(by_ns);
        }
    }

    fn subjects(&self) -> impl Iterator<Item = &Subject> {
        let services = self.services.values().chain(self.expected.values());
        services.chain(&self.watcher)
    }

    /// Continues the incidents of before gcwatch was restarted, of the subjects that there are again.
    pub(crate) fn resume(&mut self, resumed: &mut Resumed) {
        let services = self.services.values_mut().chain(self.expected.values_mut());
        for subject in services.filter(|subject| subject.incidents.is_empty()) {
            if let Some(incidents) = resumed.take(subject.run) {
                subject.incidents = incidents;
            }
        }
    }

    /// Each incident that is open, with its run, the name of the subject and its resource.
    pub(crate) fn each(&self, mut take: impl FnMut(RunKey, &str, &Origin, &Incident)) {
        for subject in self.subjects() {
            for incident in subject.incidents.open() {
                take(subject.run, &subject.process, &subject.resource, incident);
            }
        }
    }

    /// Ends all incidents: nobody watches any more.
    pub(crate) fn unwatch(&mut self, now_unix_ns: u64) -> Changes {
        let services = self.services.values_mut().chain(self.expected.values_mut());
        let subjects = services.chain(&mut self.watcher);
        let mut changes = Changes::new();
        for subject in subjects.filter(|subject| !subject.incidents.is_empty()) {
            let ended = subject.incidents.end(IncidentEnding::Unwatched, now_unix_ns);
            let incidents = subject.incident_notices(ended);
            let alerts = Vec::new();
            changes.push((Arc::clone(&subject.resource), Notices { alerts, incidents }));
        }
        changes
    }

    /// The incidents that are open.
    pub(crate) fn incidents(&self) -> impl Iterator<Item = IncidentRecord> + '_ {
        self.subjects().flat_map(|subject| {
            let about = delivery::alerts::subject(subject.run, &subject.process, &subject.resource);
            let open = subject.incidents.open();
            open.map(|incident| IncidentRecord::new(incident, &about))
                .collect::<Vec<_>>()
        })
    }

    /// The state of each rule that is about services or gcwatch itself, of each of them.
    pub(crate) fn states(&self) -> Vec<(Arc<Rule>, SubjectName, RuleState)> {
        self.subjects().flat_map(Subject::states).collect()
    }

    /// The alerts that fire.
    pub(crate) fn alerts(&self) -> Vec<SubjectAlert> {
        self.subjects().flat_map(Subject::alerts).collect()
    }
}

/// The rules of services that are evaluated.
fn of_services(rules: &RuleSet) -> impl Iterator<Item = &Arc<Rule>> {
    let rules = rules.rules.iter();
    rules.filter(|rule| rule.enabled && rule.on == On::Service)
}

/// Whether there is something that is not said of a process already, or a rule looks back.
fn is_worth(facts: &ServiceFacts, rules: &RuleSet) -> bool {
    let looks_back = || of_services(rules).any(|rule| !rule.windows.is_empty());
    facts.processes > 1 || facts.deaths_10m > 0 || (facts.processes > 0 && looks_back())
}

/// What rules divide a service into; `None`: the service as a whole.
fn divisions(service: &Service, rules: &RuleSet) -> Vec<Option<Arc<str>>> {
    let mut divisions = vec![None];
    if of_services(rules).any(|rule| rule.by.is_some()) {
        divisions.extend(service.versions().into_iter().cloned().map(Some));
    }
    divisions
}

fn of(version: &Option<Arc<str>>) -> Of<'_> {
    version.as_deref().map_or(Of::All, Of::Version)
}

impl Subject {
    fn new(on: On, run: RunKey, process: &str, resource: &Arc<Origin>, rules: &Arc<RuleSet>, now_unix_ns: u64) -> Self {
        let facts = process_facts(process, resource);
        Self::with(on, run, process, resource, facts, rules, now_unix_ns)
    }

    fn with(
        on: On,
        run: RunKey,
        process: &str,
        resource: &Arc<Origin>,
        facts: ProcessFacts,
        rules: &Arc<RuleSet>,
        now_unix_ns: u64,
    ) -> Self {
        Self {
            run,
            process: process.into(),
            resource: Arc::clone(resource),
            known: KnownOfService::default(),
            engine: Engine::about(on, Arc::clone(rules), facts, now_unix_ns),
            incidents: Incidents::default(),
        }
    }

    /// A service that a rule expects on this host, whose resource is that of gcwatch as far as it is the host's.
    fn expected(name: &Arc<str>, own: Option<&Origin>, rules: &Arc<RuleSet>, now_unix_ns: u64) -> Self {
        let of_host = |attribute: &&KeyValue| {
            ["host.", "k8s.node.", "k8s.cluster."]
                .iter()
                .any(|start| attribute.key.starts_with(start))
        };
        let host = own.map(|own| own.attributes.iter().filter(of_host).cloned());
        let named = key_value(SERVICE_NAME.name, AnyValue::StringValue(name.to_string()));
        let attributes = std::iter::once(named).chain(host.into_iter().flatten()).collect();
        let resource = Arc::new(Origin::new(attributes));
        let facts = process_facts(name, &resource).with(EXPECTED, FactValue::Text((&**name).into()));
        let run = subject_key(&("expected", name));
        Self::with(On::Service, run, name, &resource, facts, rules, now_unix_ns)
    }

    fn of(
        (key, version): &(ServiceKey, Option<Arc<str>>),
        service: &Service,
        rules: &Arc<RuleSet>,
        now_unix_ns: u64,
    ) -> Self {
        let run = match version {
            None => subject_key(key),
            Some(version) => subject_key(&(key, version)),
        };
        // The image is that of the newest process.
        let is_of_other = |key: &str| version.is_some() && key.starts_with("container.image.");
        let common = |attribute: &&KeyValue| {
            !OF_PROCESS.iter().any(|start| attribute.key.starts_with(start)) && !is_of_other(&attribute.key)
        };
        let attributes = service.resource.attributes.iter().filter(common).cloned();
        let named = version
            .iter()
            .map(|version| key_value(SERVICE_VERSION.name, AnyValue::StringValue(version.to_string())));
        let resource = Arc::new(Origin::new(attributes.chain(named).collect()));
        let facts = facts_of_service(&service.name, &resource, version.as_deref(), &KnownOfService::default());
        Self::with(On::Service, run, &service.name, &resource, facts, rules, now_unix_ns)
    }

    /// What is known of it beside the numbers. The second that passes is judged by [`Self::tick`], on both.
    fn know(
        &mut self,
        version: Option<&str>,
        known: KnownOfService,
        now_unix_ns: u64,
    ) -> Option<(Arc<Origin>, Notices)> {
        if known == self.known {
            return None;
        }
        let facts = facts_of_service(&self.process, &self.resource, version, &known);
        self.known = known;
        let transitions = self.engine.learned(facts, 0);
        Some(self.notices(transitions, now_unix_ns))
    }

    fn tick(&mut self, stream: StreamFacts, rules: &Arc<RuleSet>, now_unix_ns: u64) -> Option<(Arc<Origin>, Notices)> {
        let mut transitions = Vec::new();
        if !Arc::ptr_eq(self.engine.rules(), rules) {
            transitions = self.engine.adopt(Arc::clone(rules), now_unix_ns);
        }
        self.engine.stream(stream);
        transitions.extend(self.engine.advance(now_unix_ns));
        let is_idle = transitions.is_empty() && self.incidents.is_empty();
        (!is_idle).then(|| self.notices(transitions, now_unix_ns))
    }

    fn end(&mut self, now_unix_ns: u64) -> Option<(Arc<Origin>, Notices)> {
        let transitions = self.engine.end(now_unix_ns);
        let (resource, mut notices) = self.notices(transitions, now_unix_ns);
        let ended = self.incidents.end(IncidentEnding::ProcessEnded, now_unix_ns);
        notices.incidents.extend(self.incident_notices(ended));
        (!notices.is_empty()).then_some((resource, notices))
    }

    fn incident_notices(&self, changes: Vec<IncidentChange>) -> Vec<IncidentNotice> {
        let notice = |change| IncidentNotice {
            run: self.run,
            process: Arc::clone(&self.process),
            change,
            span: None,
        };
        changes.into_iter().map(notice).collect()
    }

    fn notices(&mut self, transitions: Vec<Transition>, now_unix_ns: u64) -> (Arc<Origin>, Notices) {
        let rules = Arc::clone(self.engine.rules());
        let holding = self.engine.holding();
        let changes = self.incidents.observe(&rules, &transitions, &holding, now_unix_ns);
        let incidents = self.incident_notices(changes);
        let notice = |transition: Transition| Notice {
            run: self.run,
            process: Arc::clone(&self.process),
            group: self.group(transition.alert()),
            transition,
            span: None,
        };
        let alerts = transitions.into_iter().map(notice).collect();
        (Arc::clone(&self.resource), Notices { alerts, incidents })
    }

    fn group(&self, alert: &Alert) -> Option<Arc<str>> {
        let rules = self.engine.rules();
        // The place is one of the set that the rule is of.
        let known = rules
            .rule(&alert.rule.id)
            .filter(|known| Arc::ptr_eq(known, &alert.rule))?;
        let group = rules.groups.get(known.group?)?;
        Some(Arc::clone(&group.name))
    }

    fn states(&self) -> Vec<(Arc<Rule>, SubjectName, RuleState)> {
        let name = || SubjectName {
            run: self.run,
            process: Arc::clone(&self.process),
            resource: Arc::clone(&self.resource),
        };
        let rules = self.engine.rules().rules.iter().zip(self.engine.states());
        let own = rules.filter(|(rule, _)| rule.on.subject() == self.engine.subject());
        own.map(|(rule, state)| (Arc::clone(rule), name(), state)).collect()
    }

    fn alerts(&self) -> impl Iterator<Item = SubjectAlert> {
        let alerts = self.engine.alerts().into_iter();
        alerts.map(|alert| SubjectAlert {
            run: self.run,
            process: Arc::clone(&self.process),
            resource: Arc::clone(&self.resource),
            group: self.group(&alert),
            alert,
        })
    }
}

/// What stands for a run. No process has pid 0.
fn subject_key(of: &impl Hash) -> RunKey {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    RunKey {
        pid: 0,
        start_time: hasher.finish(),
    }
}

/// What rules know of a subject.
fn process_facts(process: &str, resource: &Origin) -> ProcessFacts {
    ProcessFacts::new(None, Some(process), None, facts(&resource.attributes))
}

/// What rules know of a service, or of one version of it.
fn facts_of_service(process: &str, resource: &Origin, version: Option<&str>, known: &KnownOfService) -> ProcessFacts {
    let text = |text: &str| FactValue::Text(text.into());
    let mut own: Vec<(Box<str>, FactValue)> = Vec::new();
    own.extend(version.map(|_| (OF_VERSION.into(), FactValue::Bool(true))));
    own.extend(
        known
            .affected_rule
            .iter()
            .map(|rule| (AFFECTED_RULE.into(), text(rule))),
    );
    own.extend(known.last_death.iter().map(|place| (LAST_DEATH.into(), text(place))));
    own.extend(known.firing.iter().map(|(rule, count)| {
        let count = i64::try_from(*count).unwrap_or(i64::MAX);
        (format!("{FIRING}{rule}").into(), FactValue::Int(count))
    }));
    ProcessFacts::new(None, Some(process), None, facts(&resource.attributes).chain(own))
}
