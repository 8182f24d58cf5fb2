//! Evaluates the rules `on: service` and `on: watcher`: one engine for each service that needs evaluation, and one
//! engine for gcwatch itself.
//!
//! A service with one process and without a death in the last ten minutes has no engine, because its rules could only
//! repeat the alerts of its process. Hundreds of such services therefore cost nothing. If a rule has windows, each
//! service has an engine, so that the windows start with the service. A service that a rule expects (`expect`) has a
//! separate engine, with or without processes. If a rule divides services (`by`), each of their versions has an engine.

mod subject;
mod watcher;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use base::time::Moment;
use gc_telemetry::origin::Origin;
use incidents::IncidentEnding;
use rule_engine::alert::Alert;
use rule_engine::engine::RuleState;
use rule_engine::field::{ServiceFacts, StreamFacts};
use rule_engine::rule::{EvaluationTrigger, Rule};
use rule_engine::rule_set::RuleSet;

use self::subject::Subject;
pub(crate) use self::watcher::WatcherLog;
use crate::pipeline::resumed::ResumedIncidents;
use crate::pipeline::service::book::{Service, ServiceBook, ServiceProcesses};
use crate::pipeline::subject_incidents::{Changes, SubjectIncidents};
use base::run_key::RunKey;
use processes::service::ServiceKey;

/// An alert with its subject and the group of its rule.
pub(crate) type AlertOf<'a> = (&'a SubjectIncidents, Arc<Alert>, Option<Arc<str>>);

/// The rules of services and of gcwatch itself.
#[derive(Debug, Default)]
pub(crate) struct FleetRules {
    /// Services as a whole, and their versions.
    services: BTreeMap<(ServiceKey, Option<Arc<str>>), Subject>,
    /// Expected services, by the name in the rule.
    expected: BTreeMap<Arc<str>, Subject>,
    watcher: Option<Subject>,
}

impl FleetRules {
    /// Evaluates all rules. Called once per second. `own` is gcwatch's own resource if it runs as a daemon.
    pub(crate) fn tick(
        &mut self,
        book: &ServiceBook,
        watcher: &mut WatcherLog,
        own: Option<&(RunKey, Arc<Origin>)>,
        rules: &Arc<RuleSet>,
        now: Moment,
    ) -> Vec<Changes> {
        let mut changes = Vec::new();
        let is_judged = || self.watcher.is_some() || about(EvaluationTrigger::Watcher, rules).next().is_some();
        if let Some(own) = own.filter(|_| is_judged()) {
            let subject = self.watcher.get_or_insert_with(|| Subject::watcher(own, rules, now));
            let stream = StreamFacts {
                watcher: Some(watcher.facts(now)),
                ..StreamFacts::default()
            };
            changes.extend(subject.tick(stream, rules, now));
        }
        changes.extend(self.expect(book, own, rules, now));
        if about(EvaluationTrigger::Service, rules).next().is_some() {
            for (key, service) in book.services() {
                for version in divisions(service, rules) {
                    let key = (key.clone(), version);
                    if is_worth(&service.facts(select_version(&key.1), now), rules) && !self.services.contains_key(&key)
                    {
                        let subject = Subject::for_service(&key, service, rules, now);
                        self.services.insert(key, subject);
                    }
                }
            }
        }
        self.services.retain(|(key, version), subject| {
            let service = book.service(key);
            let facts = service.map(|service| service.facts(select_version(version), now));
            let facts = facts.unwrap_or_default();
            if let Some(service) = service {
                let known = service.known(select_version(version));
                changes.extend(subject.know(version.as_deref(), known, now));
            }
            changes.extend(subject.tick(facts_of_service(facts), rules, now));
            let fires = !subject.engine.alerts().is_empty() || !subject.own.incidents.is_empty();
            if service.is_none() && fires {
                changes.extend(subject.end(now));
            }
            service.is_some() && (fires || is_worth(&facts, rules))
        });
        changes
    }

    /// Adds to incidents of services the recording of the process that died because of its memory.
    pub(crate) fn name_recordings(&mut self, book: &ServiceBook, of_dead: impl Fn(RunKey) -> Option<Arc<str>>) {
        for ((key, _), subject) in &mut self.services {
            let dead = book.service(key).and_then(Service::last_death_of_memory);
            subject.own.incidents.set_recording(dead.and_then(&of_dead));
        }
    }

    /// Evaluates the services that rules expect.
    fn expect(
        &mut self,
        book: &ServiceBook,
        own: Option<&(RunKey, Arc<Origin>)>,
        rules: &Arc<RuleSet>,
        now: Moment,
    ) -> Vec<Changes> {
        let names: BTreeSet<&Arc<str>> = about(EvaluationTrigger::Service, rules)
            .flat_map(|rule| &rule.expect)
            .collect();
        for name in &names {
            if !self.expected.contains_key(*name) {
                let subject = Subject::expected(name, own.map(|(_, resource)| &**resource), rules, now);
                self.expected.insert(Arc::clone(name), subject);
            }
        }
        let mut changes = Vec::new();
        self.expected.retain(|name, subject| {
            let facts = ServiceFacts {
                processes: book.processes_of(name),
                ..ServiceFacts::default()
            };
            changes.extend(subject.tick(facts_of_service(facts), rules, now));
            let is_expected = names.contains(name);
            if !is_expected {
                changes.extend(subject.end(now));
            }
            is_expected
        });
        changes
    }

    fn subjects(&self) -> impl Iterator<Item = &Subject> {
        let services = self.services.values().chain(self.expected.values());
        services.chain(&self.watcher)
    }

    /// Resumes incidents from before a restart of gcwatch whose subjects exist again.
    pub(crate) fn resume(&mut self, resumed: &mut ResumedIncidents) {
        let services = self.services.values_mut().chain(self.expected.values_mut());
        for subject in services.filter(|subject| subject.own.incidents.is_empty()) {
            if let Some(incidents) = resumed.take(subject.own.run) {
                subject.own.incidents = incidents;
            }
        }
    }

    /// Closes all incidents because the processes are no longer monitored.
    pub(crate) fn unwatch(&mut self, now: Moment) -> Vec<Changes> {
        let services = self.services.values_mut().chain(self.expected.values_mut());
        let subjects = services.chain(&mut self.watcher);
        let open = subjects.filter(|subject| !subject.own.incidents.is_empty());
        open.map(|subject| subject.own.end(IncidentEnding::Unwatched, now))
            .collect()
    }

    /// Returns the incidents of each subject.
    pub(crate) fn incidents(&self) -> impl Iterator<Item = &SubjectIncidents> {
        self.subjects().map(|subject| &subject.own)
    }

    /// Returns the state of each rule about services or gcwatch itself, per subject.
    pub(crate) fn states(&self) -> Vec<(&SubjectIncidents, &Arc<Rule>, RuleState)> {
        self.subjects().flat_map(Subject::states).collect()
    }

    /// Returns the firing alerts, each with the group of its rule.
    pub(crate) fn alerts(&self) -> Vec<AlertOf<'_>> {
        self.subjects().flat_map(Subject::alerts).collect()
    }
}

/// Returns the enabled rules with this `on`.
fn about(on: EvaluationTrigger, rules: &RuleSet) -> impl Iterator<Item = &Arc<Rule>> {
    let rules = rules.rules.iter();
    rules.filter(move |rule| rule.enabled && rule.on == on)
}

fn facts_of_service(facts: ServiceFacts) -> StreamFacts {
    StreamFacts {
        service: Some(facts),
        ..StreamFacts::default()
    }
}

/// Returns whether a service needs an engine: service rules can add to the rules of its processes, or a service rule
/// has windows.
fn is_worth(facts: &ServiceFacts, rules: &RuleSet) -> bool {
    let looks_back = || about(EvaluationTrigger::Service, rules).any(|rule| !rule.windows.is_empty());
    facts.processes > 1 || facts.deaths_10m > 0 || (facts.processes > 0 && looks_back())
}

/// Returns the divisions of a service that rules distinguish: the whole service, and its versions if a rule has `by`.
/// `None` stands for the service as a whole.
fn divisions(service: &Service, rules: &RuleSet) -> Vec<Option<Arc<str>>> {
    let mut divisions = vec![None];
    if about(EvaluationTrigger::Service, rules).any(|rule| rule.by.is_some()) {
        divisions.extend(service.versions().into_iter().cloned().map(Some));
    }
    divisions
}

fn select_version(version: &Option<Arc<str>>) -> ServiceProcesses<'_> {
    version
        .as_deref()
        .map_or(ServiceProcesses::All, ServiceProcesses::Version)
}
