//! Rules and alerts as records of `/api/v1/rules` and `/api/v1/alerts`. Their names are a contract.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;

use crate::pipeline::registry::Pipeline;
use crate::pipeline::run::Run;
use gc_rules::alert::Alert;
use gc_rules::engine::State;
use gc_rules::rule::Rule;
use gc_rules::time::rfc3339;
use gc_telemetry::value::text;

/// An alert that fires.
#[derive(Debug, Serialize)]
pub struct AlertView {
    /// The host's pid of the process.
    pub pid: u32,
    /// The name of the process.
    pub process: String,
    /// `service.name` of its resource.
    pub service_name: Option<String>,
    /// Id of the rule.
    pub rule: String,
    /// What the rule finds.
    pub title: String,
    /// The group of rules of which only the worst is reported.
    pub group: Option<String>,
    /// `info`, `warning`, `error`, `critical`.
    pub severity: &'static str,
    /// What happened, one sentence.
    pub summary: String,
    /// What it means.
    pub description: String,
    /// What to do.
    pub remedy: String,
    /// The rule's labels.
    pub labels: BTreeMap<String, String>,
    /// The rule's further texts.
    pub annotations: BTreeMap<String, String>,
    /// The rule's windows when it began to fire; null where unknown.
    pub values: BTreeMap<String, Option<f64>>,
    /// When the condition began to hold, RFC 3339.
    pub active: Option<String>,
    /// When it began to fire.
    pub since: Option<String>,
    /// When the condition held last.
    pub last: Option<String>,
    /// The collection that it began on.
    pub gc_number: Option<u32>,
    /// The trace of that collection.
    pub trace_id: Option<String>,
    /// How often the condition held.
    pub count: u64,
    /// Alerts before it that the cooldown suppressed.
    pub suppressed: u64,
    #[serde(skip)]
    started_unix_ns: u64,
    #[serde(skip)]
    badness: gc_rules::rule::Severity,
}

/// A process on which a rule fires.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FiringView {
    /// The host's pid.
    pub pid: u32,
    /// Its name.
    pub process: String,
    /// Since when, RFC 3339.
    pub since: Option<String>,
}

/// A rule, with its state in the processes.
#[derive(Debug, Serialize)]
pub struct RuleView {
    /// Its id.
    pub id: String,
    /// What it finds.
    pub title: String,
    /// The group of rules of which only the worst is reported.
    pub group: Option<String>,
    /// `info`, `warning`, `error`, `critical`.
    pub severity: &'static str,
    /// `stable`, `test`, `experimental`, `deprecated`.
    pub status: &'static str,
    /// `gc` or `process`.
    pub on: &'static str,
    /// False: it is switched off.
    pub enabled: bool,
    /// File, line and column.
    pub location: String,
    /// `ok`; `err`: evaluations of it failed.
    pub health: &'static str,
    /// How often it was evaluated, over all processes.
    pub evaluations: u64,
    /// How often that failed.
    pub failures: u64,
    /// What the newest failure was.
    pub last_failure: Option<String>,
    /// How many processes are in each state: `inactive`, `pending`, `firing`, `inhibited`, `unknown`, `not_selected`,
    /// `excepted`.
    pub states: BTreeMap<&'static str, u64>,
    /// The processes on which it fires.
    pub firing: Vec<FiringView>,
}

/// How many runs are in each state, and those in which the rule fires.
type OverRuns = (BTreeMap<&'static str, u64>, Vec<FiringView>);

impl Pipeline {
    /// Every alert that fires, the worst first, of equals the newest.
    pub fn alerts(&self) -> Vec<AlertView> {
        let mut alerts: Vec<AlertView> = self.runs().iter().flat_map(|run| alerts_of(run)).collect();
        alerts.sort_by_key(|alert| std::cmp::Reverse((alert.badness, alert.started_unix_ns)));
        alerts
    }

    /// Every rule in force, in the order of the files.
    pub fn rule_views(&self) -> Vec<RuleView> {
        let (set, counts) = (self.rules(), self.rule_counts());
        let mut states: BTreeMap<Arc<str>, OverRuns> = BTreeMap::new();
        for run in self.runs() {
            let parts = run.parts();
            for (rule, state) in parts.rules.iter().flat_map(|rules| rules.states()) {
                let (by_state, firing) = states.entry(Arc::clone(&rule.id)).or_default();
                *by_state.entry(state.state.name()).or_default() += 1;
                if state.state == State::Firing {
                    firing.push(FiringView {
                        pid: run.key().pid,
                        process: parts.identity.who().name.clone(),
                        since: rfc3339(state.since),
                    });
                }
            }
        }
        let view = |rule: &Arc<Rule>| {
            let counts = counts.get(&rule.id).cloned().unwrap_or_default();
            let (states, firing) = states.remove(&rule.id).unwrap_or_default();
            let group = rule.group.and_then(|place| set.groups.get(place));
            RuleView {
                id: rule.id.to_string(),
                title: rule.title.to_string(),
                group: group.map(|group| group.name.to_string()),
                severity: rule.severity.name(),
                status: rule.status.name(),
                on: rule.on.name(),
                enabled: rule.enabled,
                location: rule.location.to_string(),
                health: if counts.failures == 0 { "ok" } else { "err" },
                evaluations: counts.evaluations,
                failures: counts.failures,
                last_failure: counts.last_failure,
                states,
                firing,
            }
        };
        set.rules.iter().map(view).collect()
    }
}

fn alerts_of(run: &Run) -> Vec<AlertView> {
    let parts = run.parts();
    let Some(rules) = &parts.rules else { return Vec::new() };
    let texts = |texts: &[(Arc<str>, Box<str>)]| -> BTreeMap<String, String> {
        texts
            .iter()
            .map(|(name, text)| (name.to_string(), text.to_string()))
            .collect()
    };
    let view = |alert: Arc<Alert>| {
        let rule = &alert.rule;
        AlertView {
            pid: run.key().pid,
            process: parts.identity.who().name.clone(),
            service_name: text(&parts.identity.resource().attributes, "service.name"),
            rule: rule.id.to_string(),
            title: rule.title.to_string(),
            group: rules.group(&alert).map(|group| group.to_string()),
            severity: rule.severity.name(),
            summary: alert.summary.to_string(),
            description: rule.description.to_string(),
            remedy: rule.remedy.to_string(),
            labels: texts(&alert.labels),
            annotations: texts(&alert.annotations),
            values: alert
                .values
                .iter()
                .map(|(name, value)| (name.to_string(), *value))
                .collect(),
            active: rfc3339(alert.active_unix_ns),
            since: rfc3339(alert.started_unix_ns),
            last: rfc3339(alert.last_unix_ns),
            gc_number: alert.collection,
            trace_id: rules.span(&alert).map(|span| hexadecimal(&span.trace_id)),
            count: alert.count,
            suppressed: alert.suppressed,
            started_unix_ns: alert.started_unix_ns,
            badness: rule.severity,
        }
    };
    rules.alerts().into_iter().map(view).collect()
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
