//! The records of `/api/v1/rules` and `/api/v1/alerts`.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::pipeline::observed_run::ObservedRun;
use crate::pipeline::registry::Pipeline;
use crate::pipeline::service::{SubjectAlert, SubjectName};
use api::event::hex;
use api::view::{AlertView, FiringView, NearView, ParamView, RuleView};
use gc_rules::alert::Alert;
use gc_rules::engine::{RuleState, State};
use gc_rules::record::AlertRecord;
use gc_rules::rule::{On, Param, Rule};
use gc_rules::time::{Moment, Wall};
use gc_telemetry::value::text;
use processes::one_name;

/// Limit of processes that are listed of a rule on which it nearly fires; all are counted.
const MOST_NEAR: usize = 100;

/// When an alert began to fire, and its record.
type Started = (Moment, AlertView);

/// How many runs are in each state, and those in which the rule fires.
type OverRuns = (BTreeMap<&'static str, u64>, Vec<FiringView>, Vec<NearView>);

impl Pipeline {
    /// Every alert that fires: the most severe first, then the newest.
    pub fn alerts(&self) -> Vec<AlertView> {
        let wall = self.wall();
        let mut alerts: Vec<Started> = self.runs().iter().flat_map(|run| alerts_of(run)).collect();
        alerts.extend(self.subject_alerts().into_iter().map(|alert| of_subject(alert, wall)));
        alerts.sort_by_key(|(started, alert)| Reverse((alert.alert.severity, *started)));
        alerts.into_iter().map(|(_, alert)| alert).collect()
    }

    /// Every rule in force, in the order of the files, with its states in all processes, or in that of a pid.
    pub fn rule_views(&self, pid: Option<u32>) -> Vec<RuleView> {
        let is_meant = |of: u32| pid.is_none_or(|pid| of == pid);
        let (set, counts, wall) = (self.rules(), self.rule_counts(), self.wall());
        let mut states: BTreeMap<Arc<str>, OverRuns> = BTreeMap::new();
        for run in self.runs().into_iter().filter(|run| is_meant(run.key().pid)) {
            let run = run.look();
            let of_processes = run.rules.iter().flat_map(|rules| rules.states());
            for (rule, state) in of_processes.filter(|(rule, _)| rule.on.subject() == On::Process) {
                let at = || {
                    let process = run.identity.who().name.clone();
                    FiringView {
                        pid: run.key().pid,
                        name: one_name(&process, &run.identity.resource().attributes),
                        process,
                        since: run.wall.rfc3339(state.since),
                    }
                };
                add(states.entry(Arc::clone(&rule.id)).or_default(), &state, at);
            }
        }
        let of_subjects = self.subject_states().into_iter();
        for (rule, subject, state) in of_subjects.filter(|(_, subject, _)| is_meant(subject.run.pid)) {
            let at = || subject.at(wall.rfc3339(state.since));
            add(states.entry(Arc::clone(&rule.id)).or_default(), &state, at);
        }
        let view = |rule: &Arc<Rule>| {
            let counts = counts.get(&rule.id).cloned().unwrap_or_default();
            let (states, firing, near) = states.remove(&rule.id).unwrap_or_default();
            let group = rule.group.and_then(|place| set.groups.get(place));
            RuleView {
                id: rule.id.to_string(),
                title: rule.title.to_string(),
                group: group.map(|group| group.name.to_string()),
                severity: rule.severity,
                status: rule.status,
                on: rule.on,
                enabled: rule.enabled,
                location: rule.location.to_string(),
                health: if counts.failures == 0 { "ok" } else { "err" },
                evaluations: counts.evaluations,
                failures: counts.failures,
                last_failure: counts.last_failure,
                states,
                firing,
                near,
                description: rule.description.to_string(),
                remedy: rule.remedy.to_string(),
                source: rule.source.to_string(),
                when: rule.texts.when.to_string(),
                select: rule.texts.select.to_string(),
                params: rule.params.iter().map(param).collect(),
            }
        };
        set.rules.iter().map(view).collect()
    }
}

/// One more that is in a state.
fn add((by_state, firing, near): &mut OverRuns, state: &RuleState, at: impl FnOnce() -> FiringView) {
    *by_state.entry(state.state.name()).or_default() += 1;
    match state.state {
        State::Firing => firing.push(at()),
        State::Pending | State::Inhibited if near.len() < MOST_NEAR => near.push(NearView {
            state: state.state.name(),
            at: at(),
        }),
        _ => {}
    }
}

impl SubjectName {
    fn at(&self, since: Option<String>) -> FiringView {
        FiringView {
            pid: self.run.pid,
            process: self.process.to_string(),
            name: one_name(&self.process, &self.resource.attributes),
            since,
        }
    }
}

fn param(param: &Param) -> ParamView {
    let others = param.others.iter();
    ParamView {
        name: param.name.to_string(),
        value: param.value.to_string(),
        others: others.map(|(of, value)| (of.to_string(), value.to_string())).collect(),
    }
}

/// An alert of a service, or of gcwatch itself.
fn of_subject(subject: SubjectAlert, wall: Wall) -> Started {
    let alert = &subject.alert;
    let view = AlertView {
        pid: subject.run.pid,
        process: subject.process.to_string(),
        service_name: text(&subject.resource.attributes, "service.name"),
        active: wall.rfc3339(alert.active),
        since: wall.rfc3339(alert.started),
        last: wall.rfc3339(alert.last),
        trace_id: None,
        alert: AlertRecord::new(alert, subject.group.as_deref()),
    };
    (alert.started, view)
}

fn alerts_of(run: &ObservedRun) -> Vec<Started> {
    let run = run.look();
    let Some(rules) = &run.rules else { return Vec::new() };
    let view = |alert: Arc<Alert>| AlertView {
        pid: run.key().pid,
        process: run.identity.who().name.clone(),
        service_name: text(&run.identity.resource().attributes, "service.name"),
        active: run.wall.rfc3339(alert.active),
        since: run.wall.rfc3339(alert.started),
        last: run.wall.rfc3339(alert.last),
        trace_id: rules.span(&alert).map(|span| hex(&span.trace_id)),
        alert: AlertRecord::new(&alert, rules.group(&alert).as_deref()),
    };
    let each = rules.alerts().into_iter();
    each.map(|alert| (alert.started, view(alert))).collect()
}
