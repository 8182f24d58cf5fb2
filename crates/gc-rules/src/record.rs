//! The ndjson record of an alert's change: `kind: "anomaly"`. Its names are a contract.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::alert::Transition;
use crate::time::rfc3339;

/// A change of an alert. Unknown values are null.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AnomalyRecord {
    kind: &'static str,
    /// The process: the host's pid; in a recording, the pid that the stream names.
    pub pid: Option<u32>,
    /// The name of the process.
    pub process: Option<String>,
    /// Id of the rule.
    pub rule: String,
    /// What the rule finds.
    pub title: String,
    /// The group of rules of which only the worst is told.
    pub group: Option<String>,
    /// `info`, `warning`, `error`, `critical`.
    pub severity: &'static str,
    /// `firing` or `ended`.
    pub state: &'static str,
    /// Why it ended; null while it fires.
    pub ending: Option<&'static str>,
    /// When it changed, RFC 3339, by the time of what was observed.
    pub at: Option<String>,
    /// When it began to fire.
    pub started: Option<String>,
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
    /// The rule's windows when it began to fire.
    pub values: BTreeMap<String, Option<f64>>,
    /// The collection that it began on.
    pub gc_number: Option<u32>,
    /// How often the condition held.
    pub count: u64,
    /// Alerts that the cooldown left out before it.
    pub suppressed: u64,
}

impl AnomalyRecord {
    /// The record of a change.
    pub fn new(pid: Option<u32>, process: Option<&str>, group: Option<&str>, transition: &Transition) -> Self {
        let alert = transition.alert();
        let rule = &alert.rule;
        let (state, ending, at) = match transition {
            Transition::Fired(_) => ("firing", None, alert.started_unix_ns),
            Transition::Ended(_, ending) => (
                "ended",
                Some(ending.name()),
                alert.ended_unix_ns.unwrap_or(alert.last_unix_ns),
            ),
        };
        let texts = |texts: &[(std::sync::Arc<str>, Box<str>)]| -> BTreeMap<String, String> {
            texts
                .iter()
                .map(|(name, text)| (name.to_string(), text.to_string()))
                .collect()
        };
        Self {
            kind: "anomaly",
            pid,
            process: process.map(str::to_owned),
            rule: rule.id.to_string(),
            title: rule.title.to_string(),
            group: group.map(str::to_owned),
            severity: alert.severity().name(),
            state,
            ending,
            at: rfc3339(at),
            started: rfc3339(alert.started_unix_ns),
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
            gc_number: alert.collection,
            count: alert.count,
            suppressed: alert.suppressed,
        }
    }
}
