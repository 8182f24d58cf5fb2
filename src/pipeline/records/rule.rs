//! The records of `/api/v1/rules`, `/api/v1/alerts` and `/api/v1/incidents`.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::event::hex;
use api::view::{AlertView, FiringView, NearView, ParamView, RuleView};
use base::time::{Moment, Wall};
use delivery::alerts::subject;
use gc_telemetry::origin::Origin;
use gc_telemetry::value::text;
use incidents::IncidentRecord;
use processes::one_name;
use rule_engine::alert::Alert;
use rule_engine::engine::{RuleState, State};
use rule_engine::record::AlertRecord;
use rule_engine::rule::{EvaluationTrigger, Param, Rule};
use rule_engine::rule_set::RuleSet;
use run::{RuleCounts, Run};

/// Maximum number of listed processes in which a rule is about to fire. All such processes are counted.
const MAX_NEAR: usize = 100;

/// Number of runs per state, and the runs in which the rule fires or is about to fire.
type OverRuns = (BTreeMap<&'static str, u64>, Vec<FiringView>, Vec<NearView>);

pub(crate) type States = BTreeMap<Arc<str>, OverRuns>;

/// Returns the views of all rules, in the order of the files.
pub(crate) fn views(set: &RuleSet, counts: &BTreeMap<Arc<str>, RuleCounts>, mut states: States) -> Vec<RuleView> {
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

/// Adds the rule states of a run.
pub(crate) fn add_run(states: &mut States, run: &Run) {
    let (process, resource) = (&run.identity.who().name, run.identity.resource());
    let of_processes = run.rules.iter().flat_map(|rules| rules.states());
    for (rule, state) in of_processes.filter(|(rule, _)| rule.on.subject() == EvaluationTrigger::Process) {
        let at = || firing(run.key().pid, process, resource, run.wall.rfc3339(state.since));
        add(states, rule, &state, at);
    }
}

/// Counts one subject that is in a state.
pub(crate) fn add(states: &mut States, rule: &Rule, state: &RuleState, at: impl FnOnce() -> FiringView) {
    let (by_state, firing, near) = states.entry(Arc::clone(&rule.id)).or_default();
    *by_state.entry(state.state.name()).or_default() += 1;
    match state.state {
        State::Firing => firing.push(at()),
        State::Pending | State::Inhibited if near.len() < MAX_NEAR => near.push(NearView {
            state: state.state.name(),
            at: at(),
        }),
        _ => {}
    }
}

/// Describes a process in which a rule is in a state.
pub(crate) fn firing(pid: u32, process: &str, resource: &Origin, since: Option<String>) -> FiringView {
    FiringView {
        pid,
        process: process.to_owned(),
        name: one_name(process, &resource.attributes),
        since,
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

/// Returns the firing alerts of a run, each with the time at which it started to fire.
pub(crate) fn alerts(run: &Run) -> Vec<(Moment, AlertView)> {
    let Some(rules) = &run.rules else { return Vec::new() };
    let (process, resource) = (&run.identity.who().name, run.identity.resource());
    let of_run = |alert: Arc<Alert>| {
        let group = rules.group(&alert);
        let mut view = alert_view(&alert, group.as_deref(), run.key().pid, process, resource, run.wall);
        view.trace_id = rules.span(&alert).map(|span| hex(&span.trace_id));
        (alert.started, view)
    };
    rules.alerts().into_iter().map(of_run).collect()
}

/// Returns the record of a firing alert.
pub(crate) fn alert_view(
    alert: &Alert,
    group: Option<&str>,
    pid: u32,
    process: &str,
    resource: &Origin,
    wall: Wall,
) -> AlertView {
    AlertView {
        pid,
        process: process.to_owned(),
        service_name: text(&resource.attributes, "service.name"),
        active: wall.rfc3339(alert.active),
        since: wall.rfc3339(alert.started),
        last: wall.rfc3339(alert.last),
        trace_id: None,
        alert: AlertRecord::new(alert, group),
    }
}

/// Returns the open incidents of a run.
pub(crate) fn incidents(run: &Run, wall: Wall) -> Vec<IncidentRecord> {
    let Some(rules) = &run.rules else { return Vec::new() };
    let subject = subject(run.key(), &run.identity.who().name, run.identity.resource());
    let open = rules.incidents();
    open.map(|incident| IncidentRecord::new(incident, &subject, wall))
        .collect()
}
