//! Rules of a run: the engine, its incidents, and the notices about alerts and incidents.

use std::collections::BTreeMap;
use std::sync::Arc;

use base::time::Moment;
use gc_telemetry::definition::own::target as row;
use gc_telemetry::definition::{Attribute, anomaly};
use gc_telemetry::notice::{IncidentNotice, Notice, Notices};
use gc_telemetry::snapshot::{MetricSnapshot, Number, text, whole};
use gc_telemetry::spans::SpanIds;
use incidents::{Finding, Incident, IncidentChange, IncidentEnding, Incidents, QuotaOwner, Recordings};
use opentelemetry_proto::tonic::common::v1::KeyValue;
use rule_engine::alert::{Alert, Transition};
use rule_engine::engine::{Engine, RuleState};
use rule_engine::field::{ProcessFacts, StreamFacts};
use rule_engine::rule::{Rule, Severity};
use rule_engine::rule_set::RuleSet;

use base::run_key::RunKey;
use processes::Identity;

/// Counts of a rule's evaluations.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RuleCounts {
    /// Number of evaluations.
    pub evaluations: u64,
    /// Number of failed evaluations.
    pub failures: u64,
    /// Reason for the most recent failure; `None` if no evaluation failed.
    pub last_failure: Option<String>,
}

/// The rules of a run, from its first attach.
#[derive(Debug)]
pub struct RunRules {
    run: RunKey,
    /// Name of the process in notices.
    process: Arc<str>,
    pub(crate) share: QuotaOwner,
    pub(crate) engine: Engine,
    pub(crate) incidents: Incidents,
    /// Root spans of the collections on which open incidents started, by number of the incident.
    incident_spans: Vec<(u64, SpanIds)>,
    /// Root spans of the collections on which firing alerts started, by number of the alert.
    spans: Vec<(u64, SpanIds)>,
    /// Number and root span of the newest collection; `None` if it has no root span.
    newest: Option<(u32, SpanIds)>,
    /// Number of alerts that started, by rule and severity.
    fired: BTreeMap<(Arc<str>, Severity), u64>,
    /// Number of incidents that started with a severity or escalated to it, by symptom and severity.
    incidents_counted: BTreeMap<(Arc<str>, Severity), u64>,
    /// Evaluations and failures of each rule that have already been counted, by index.
    counted: Vec<(u64, u64)>,
    /// Counts of earlier rule sets that have not been added yet.
    uncounted: BTreeMap<Arc<str>, RuleCounts>,
}

impl RunRules {
    pub(crate) fn new(
        who: &Identity,
        share: QuotaOwner,
        rules: Arc<RuleSet>,
        facts: ProcessFacts,
        now: Moment,
    ) -> Self {
        Self {
            run: who.key,
            process: Arc::from(who.name.as_str()),
            share,
            engine: Engine::new(rules, facts, now),
            incidents: Incidents::default(),
            incident_spans: Vec::new(),
            spans: Vec::new(),
            newest: None,
            fired: BTreeMap::new(),
            incidents_counted: BTreeMap::new(),
            counted: Vec::new(),
            uncounted: BTreeMap::new(),
        }
    }

    /// Updates the facts about the process.
    pub(crate) fn learned(&mut self, facts: ProcessFacts, now: Moment) -> Notices {
        let transitions = self.engine.learned(facts, now);
        self.notices(transitions, None, now)
    }

    pub(crate) fn advance(&mut self, stream: StreamFacts, now: Moment) -> Notices {
        self.engine.stream(stream);
        let transitions = self.engine.advance(now);
        self.notices(transitions, None, now)
    }

    /// Replaces the rules.
    pub(crate) fn adopt(&mut self, rules: &Arc<RuleSet>, now: Moment) -> Notices {
        if Arc::ptr_eq(rules, self.engine.rules()) {
            return Notices::default();
        }
        let mut counted = std::mem::take(&mut self.uncounted);
        self.count(&mut counted);
        self.uncounted = counted;
        let transitions = self.engine.adopt(Arc::clone(rules), now);
        self.counted = self.engine.states().iter().map(counts).collect();
        self.notices(transitions, None, now)
    }

    /// Evaluates the rules with the last facts about a process that has exited.
    pub(crate) fn last(&mut self, stream: StreamFacts, now: Moment) -> Notices {
        let transitions = self.engine.last(stream, now);
        self.notices(transitions, None, now)
    }

    /// Closes all alerts. Incidents that outlive the process stay open.
    pub(crate) fn end(&mut self, now: Moment) -> Notices {
        let transitions = self.engine.end(now);
        self.notices(transitions, None, now)
    }

    /// Closes all alerts and incidents.
    pub(crate) fn finish(&mut self, ending: IncidentEnding, now: Moment) -> Notices {
        let mut notices = self.end(now);
        let changes = self.incidents.end(ending, now);
        notices
            .incidents
            .extend(changes.into_iter().map(|change| self.incident_notice(change, None)));
        notices
    }

    /// Returns whether an alert fires or an incident is open.
    pub fn is_any_open(&self) -> bool {
        !self.incidents.is_empty() || !self.alerts().is_empty()
    }

    /// Returns the open incidents, in the order in which they started.
    pub fn incidents(&self) -> impl Iterator<Item = &Arc<Incident>> {
        self.incidents.open()
    }

    /// Records the finding of a burst for an incident. Returns no notice if the incident has ended.
    pub(crate) fn record_finding(&mut self, incident: u64, finding: Finding) -> Notices {
        let change = self.incidents.record_finding(incident, finding);
        let notice = change.map(|change| self.incident_notice(change, None));
        Notices {
            incidents: notice.into_iter().collect(),
            ..Notices::default()
        }
    }

    /// Enables recordings for severe incidents, because the events of the process are kept.
    pub(crate) fn keep_events(&mut self, recordings: Arc<dyn Recordings>) {
        let share = self.share.clone();
        self.incidents
            .keep_events(self.run, Arc::clone(&self.process), share, recordings);
    }

    /// Sets the tenant and the service of the process.
    pub(crate) fn set_share(&mut self, share: QuotaOwner) {
        self.incidents.set_share(share.clone());
        self.share = share;
    }

    /// Returns the incidents that outlive the process, and its name.
    pub(crate) fn take_incidents(&mut self, now: Moment) -> (Incidents, Arc<str>) {
        self.incidents.process_ended(now);
        (std::mem::take(&mut self.incidents), Arc::clone(&self.process))
    }

    /// Handles the transitions that a collection caused. `span` is the root span of the collection; `None` if the
    /// collection did not become spans.
    pub(crate) fn collected(
        &mut self,
        number: u32,
        transitions: Vec<Transition>,
        span: Option<SpanIds>,
        now: Moment,
    ) -> Notices {
        self.newest = span.map(|span| (number, span));
        if transitions.is_empty() {
            // The next tick passes on changes of an open incident.
            return Notices::default();
        }
        self.notices(transitions, span, now)
    }

    /// Creates the notices of transitions up to `now`. `span` is the root span of the collection that caused the
    /// transitions. If the passing of time caused them, an alert that names the newest collection gets the root span of
    /// that collection.
    fn notices(&mut self, transitions: Vec<Transition>, span: Option<SpanIds>, now: Moment) -> Notices {
        let named = transitions.iter().find_map(|transition| match transition {
            Transition::Fired(alert) => self.span_of_newest(alert),
            Transition::Ended(..) => None,
        });
        let incidents = self.incident_notices(&transitions, span.or(named), now);
        Notices {
            alerts: self.alert_notices(transitions, span),
            incidents,
            ..Notices::default()
        }
    }

    /// Returns the root span of the newest collection, or `None` if the alert does not name this collection.
    fn span_of_newest(&self, alert: &Alert) -> Option<SpanIds> {
        let (_, span) = self.newest.filter(|(number, _)| alert.collection == Some(*number))?;
        Some(span)
    }

    fn incident_notices(
        &mut self,
        transitions: &[Transition],
        span: Option<SpanIds>,
        now: Moment,
    ) -> Vec<IncidentNotice> {
        if transitions.is_empty() && self.incidents.is_empty() {
            return Vec::new();
        }
        let holding = self.engine.holding();
        let at = (now, self.engine.wall());
        let rules = self.engine.rules();
        let changes = self.incidents.observe(rules, transitions, &holding, at);
        changes
            .into_iter()
            .map(|change| self.incident_notice(change, span))
            .collect()
    }

    fn incident_notice(&mut self, change: IncidentChange, span: Option<SpanIds>) -> IncidentNotice {
        let number = change.incident().number;
        if let IncidentChange::Began(incident) | IncidentChange::Worse(incident, _) = &change {
            let key = (Arc::clone(&incident.symptom.id), incident.severity);
            *self.incidents_counted.entry(key).or_default() += 1;
        }
        let span = match &change {
            IncidentChange::Began(_) => {
                self.incident_spans.extend(span.map(|span| (number, span)));
                span
            }
            IncidentChange::Ended(_) => {
                let place = self.incident_spans.iter().position(|(known, _)| *known == number);
                place.map(|place| self.incident_spans.swap_remove(place).1)
            }
            IncidentChange::Worse(..)
            | IncidentChange::Explained(_)
            | IncidentChange::Refreshed(_)
            | IncidentChange::Gathered(..) => {
                let mut spans = self.incident_spans.iter();
                spans.find(|(known, _)| *known == number).map(|(_, span)| *span)
            }
        };
        IncidentNotice {
            run: self.run,
            process: Arc::clone(&self.process),
            change,
            span,
            share: self.share.clone(),
        }
    }

    fn alert_notices(&mut self, transitions: Vec<Transition>, span: Option<SpanIds>) -> Vec<Notice> {
        let rules = Arc::clone(self.engine.rules());
        let notice = |transition: Transition| {
            let alert = transition.alert();
            let number = alert.number;
            let span = match &transition {
                Transition::Fired(alert) => {
                    let key = (Arc::clone(&alert.rule.id), alert.severity);
                    *self.fired.entry(key).or_default() += 1;
                    let span = span.or_else(|| self.span_of_newest(alert));
                    self.spans.extend(span.map(|span| (number, span)));
                    span
                }
                Transition::Ended(..) => {
                    let place = self.spans.iter().position(|(known, _)| *known == number);
                    place.map(|place| self.spans.swap_remove(place).1)
                }
            };
            Notice {
                run: self.run,
                process: Arc::clone(&self.process),
                // An alert that ends because its rule was removed no longer has a group.
                group: rules.group_name_of(&alert.rule),
                transition,
                span,
            }
        };
        transitions.into_iter().map(notice).collect()
    }

    /// Returns the firing alerts.
    pub fn alerts(&self) -> Vec<Arc<Alert>> {
        self.engine.alerts()
    }

    /// Returns the name of the group of an alert's rule, or `None` if the rule has no group.
    pub fn group(&self, alert: &Alert) -> Option<Arc<str>> {
        let group = self.engine.rules().groups.get(alert.rule.group?)?;
        Some(Arc::clone(&group.name))
    }

    /// Returns the root span of the collection on which an alert started, or `None` if there is no such span.
    pub fn span(&self, alert: &Alert) -> Option<SpanIds> {
        let mut spans = self.spans.iter();
        spans.find(|(number, _)| *number == alert.number).map(|(_, ids)| *ids)
    }

    /// Returns each enabled rule with its state.
    pub fn states(&self) -> impl Iterator<Item = (&Arc<Rule>, RuleState)> {
        let each = self.engine.rules().rules.iter().zip(self.engine.states());
        each.filter(|(rule, _)| rule.enabled)
    }

    /// Adds the numbers of firing and started alerts, by rule and severity, and of open and started incidents, by
    /// symptom and severity.
    pub(crate) fn metrics(&self, snapshot: &mut MetricSnapshot) {
        let alerts = self.alerts().into_iter();
        let alerts = alerts.map(|alert| (Arc::clone(&alert.rule.id), alert.severity));
        let keys = (&anomaly::RULE_ID, &anomaly::SEVERITY);
        let (active, fired) = counted(&self.fired, alerts, keys);
        snapshot.put(&row::ALERTS_ACTIVE, active);
        snapshot.put(&row::ANOMALIES, fired);
        let open = self.incidents.open();
        let open = open.map(|incident| (Arc::clone(&incident.symptom.id), incident.severity));
        let keys = (&anomaly::INCIDENT_SYMPTOM, &anomaly::INCIDENT_SEVERITY);
        let (open, began) = counted(&self.incidents_counted, open, keys);
        snapshot.put(&row::INCIDENTS_OPEN, open);
        snapshot.put(&row::INCIDENTS, began);
    }

    /// Adds the counts of each rule's evaluations since the last call to `totals`.
    pub fn count(&mut self, totals: &mut BTreeMap<Arc<str>, RuleCounts>) {
        for (id, counts) in std::mem::take(&mut self.uncounted) {
            let total = totals.entry(id).or_default();
            total.evaluations += counts.evaluations;
            total.failures += counts.failures;
            total.last_failure = counts.last_failure.or(total.last_failure.take());
        }
        let states = self.engine.states();
        self.counted.resize(states.len(), (0, 0));
        let rules = self.engine.rules().rules.iter();
        for ((rule, state), before) in rules.zip(states).zip(&mut self.counted) {
            if !rule.enabled {
                continue;
            }
            let now = counts(&state);
            let total = totals.entry(Arc::clone(&rule.id)).or_default();
            total.evaluations += now.0.saturating_sub(before.0);
            total.failures += now.1.saturating_sub(before.1);
            if now.1 > before.1 {
                total.last_failure = state.last_failure;
            }
            *before = now;
        }
    }
}

type Points = Vec<(Vec<KeyValue>, Number)>;

/// Returns the points by id and severity: the current number, and the number that started.
fn counted(
    began: &BTreeMap<(Arc<str>, Severity), u64>,
    now: impl Iterator<Item = (Arc<str>, Severity)>,
    (id, severity): (&'static Attribute, &'static Attribute),
) -> (Points, Points) {
    let mut counts: BTreeMap<_, (u64, u64)> = BTreeMap::new();
    for (key, began) in began {
        counts.insert(key.clone(), (0, *began));
    }
    for key in now {
        counts.entry(key).or_default().0 += 1;
    }
    let points = |count: fn(&(u64, u64)) -> u64| {
        let point = |(key, counts): (&(Arc<str>, Severity), &(u64, u64))| {
            let attributes = vec![text(id, &key.0), text(severity, key.1.name())];
            (attributes, whole(count(counts)))
        };
        counts.iter().map(point).collect()
    };
    (points(|(now, _)| *now), points(|(_, began)| *began))
}

fn counts(state: &RuleState) -> (u64, u64) {
    (state.evaluations, state.failures)
}
