//! A subject of rules other than a process: a service, one of its versions, or gcwatch itself.

use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::sync::Arc;

use base::time::Moment;
use delivery::alerts::Notice;
use gc_telemetry::definition::resource::{SERVICE_NAME, SERVICE_VERSION};
use gc_telemetry::origin::Origin;
use gc_telemetry::value::{facts, key_value};
use incidents::{IncidentEnding, Incidents, QuotaOwner};
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value as AnyValue;
use rule_engine::alert::Transition;
use rule_engine::engine::{Engine, RuleState};
use rule_engine::field::{
    AFFECTED_RULE, EXPECTED, FIRING, FactValue, LAST_DEATH, OF_VERSION, ProcessFacts, StreamFacts,
};
use rule_engine::rule::{EvaluationTrigger, Rule};
use rule_engine::rule_set::RuleSet;

use crate::pipeline::service::book::{KnownOfService, Service};
use crate::pipeline::service::fleet_rules::AlertOf;
use crate::pipeline::subject_incidents::{Changes, SubjectIncidents};
use base::run_key::RunKey;
use processes::service::ServiceKey;

/// Attributes of a process that do not belong to its service.
const OF_PROCESS: [&str; 7] = [
    "process.",
    "gcwatch.",
    "container.id",
    "service.instance.id",
    "service.version",
    "k8s.pod.",
    "k8s.replicaset.",
];

/// A subject of rules other than a process.
#[derive(Debug)]
pub(super) struct Subject {
    /// The resource has the attributes that all processes of the subject share. The resource does not change while
    /// there are alerts, because receivers identify alerts by their resource.
    pub(super) own: SubjectIncidents,
    known: KnownOfService,
    pub(super) engine: Engine,
}

impl Subject {
    /// Creates the subject for gcwatch itself.
    pub(super) fn watcher((run, resource): &(RunKey, Arc<Origin>), rules: &Arc<RuleSet>, now: Moment) -> Self {
        let facts = process_facts("gcwatch", resource);
        Self::with(EvaluationTrigger::Watcher, *run, "gcwatch", resource, facts, rules, now)
    }

    fn with(
        on: EvaluationTrigger,
        run: RunKey,
        process: &str,
        resource: &Arc<Origin>,
        facts: ProcessFacts,
        rules: &Arc<RuleSet>,
        now: Moment,
    ) -> Self {
        Self {
            own: SubjectIncidents {
                run,
                process: process.into(),
                resource: Arc::clone(resource),
                share: QuotaOwner {
                    tenant: if matches!(on, EvaluationTrigger::Watcher) {
                        "gcwatch"
                    } else {
                        "services on this host"
                    }
                    .into(),
                    service: process.into(),
                },
                incidents: Incidents::default(),
            },
            known: KnownOfService::default(),
            engine: Engine::about(on, Arc::clone(rules), facts, now),
        }
    }

    /// Creates the subject for a service that a rule expects on this host. Its resource has the host attributes of
    /// gcwatch's own resource.
    pub(super) fn expected(name: &Arc<str>, own: Option<&Origin>, rules: &Arc<RuleSet>, now: Moment) -> Self {
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
        Self::with(EvaluationTrigger::Service, run, name, &resource, facts, rules, now)
    }

    pub(super) fn for_service(
        (key, version): &(ServiceKey, Option<Arc<str>>),
        service: &Service,
        rules: &Arc<RuleSet>,
        now: Moment,
    ) -> Self {
        let run = match version {
            None => subject_key(key),
            Some(version) => subject_key(&(key, version)),
        };
        // The image attributes describe the newest process.
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
        Self::with(
            EvaluationTrigger::Service,
            run,
            &service.name,
            &resource,
            facts,
            rules,
            now,
        )
    }

    /// Sets the facts of a service that are not numbers. [`Self::tick`] evaluates the rules with these facts and the
    /// numbers. Returns `None` if the facts are unchanged.
    pub(super) fn know(&mut self, version: Option<&str>, known: KnownOfService, now: Moment) -> Option<Changes> {
        if known == self.known {
            return None;
        }
        let facts = facts_of_service(&self.own.process, &self.own.resource, version, &known);
        self.known = known;
        let transitions = self.engine.learned(facts, Moment::FIRST);
        Some(self.notices(transitions, now))
    }

    pub(super) fn tick(&mut self, stream: StreamFacts, rules: &Arc<RuleSet>, now: Moment) -> Option<Changes> {
        let mut transitions = Vec::new();
        if !Arc::ptr_eq(self.engine.rules(), rules) {
            transitions = self.engine.adopt(Arc::clone(rules), now);
        }
        self.engine.stream(stream);
        transitions.extend(self.engine.advance(now));
        let is_idle = transitions.is_empty() && self.own.incidents.is_empty();
        (!is_idle).then(|| self.notices(transitions, now))
    }

    pub(super) fn end(&mut self, now: Moment) -> Option<Changes> {
        let transitions = self.engine.end(now);
        let (resource, mut notices) = self.notices(transitions, now);
        let (_, ended) = self.own.end(IncidentEnding::ProcessEnded, now);
        notices.incidents.extend(ended.incidents);
        (!notices.is_empty()).then_some((resource, notices))
    }

    fn notices(&mut self, transitions: Vec<Transition>, now: Moment) -> Changes {
        let rules = Arc::clone(self.engine.rules());
        let holding = self.engine.holding();
        let at = (now, self.engine.wall());
        let changes = self.own.incidents.observe(&rules, &transitions, &holding, at);
        let (resource, mut notices) = self.own.notices(changes);
        let notice = |transition: Transition| Notice {
            run: self.own.run,
            process: Arc::clone(&self.own.process),
            group: rules.group_name_of(&transition.alert().rule),
            transition,
            span: None,
        };
        notices.alerts = transitions.into_iter().map(notice).collect();
        (resource, notices)
    }

    pub(super) fn states(&self) -> impl Iterator<Item = (&SubjectIncidents, &Arc<Rule>, RuleState)> {
        let rules = self.engine.rules().rules.iter().zip(self.engine.states());
        let own = rules.filter(|(rule, _)| rule.on.subject() == self.engine.subject());
        own.map(|(rule, state)| (&self.own, rule, state))
    }

    pub(super) fn alerts(&self) -> impl Iterator<Item = AlertOf<'_>> {
        let alerts = self.engine.alerts().into_iter();
        alerts.map(|alert| {
            (
                &self.own,
                Arc::clone(&alert),
                self.engine.rules().group_name_of(&alert.rule),
            )
        })
    }
}

/// Returns a run key for a subject. No process has pid 0.
fn subject_key(of: &impl Hash) -> RunKey {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    RunKey {
        pid: 0,
        start_time: hasher.finish(),
    }
}

/// Returns the facts of a subject for rules.
fn process_facts(process: &str, resource: &Origin) -> ProcessFacts {
    ProcessFacts::new(None, Some(process), None, facts(&resource.attributes))
}

/// Returns the facts of a service, or of one version, for rules.
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
