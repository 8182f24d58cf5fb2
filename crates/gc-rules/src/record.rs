//! Alerts as JSON. The names of the fields are a contract.

use std::collections::BTreeMap;
use std::sync::Arc;

use base::time::Wall;
use schemars::JsonSchema;
use serde::Serialize;

use crate::alert::{Alert, Ending, Transition};
use crate::rule::{Role, Severity};

/// What every record of an alert has: in `/api/v1/alerts` and in ndjson. Unknown values are null.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct AlertRecord {
    /// Id of the rule.
    pub rule: String,
    /// What the rule is for; null: it has no role.
    pub role: Option<Role>,
    /// Title of the rule.
    pub title: String,
    /// The rule's group. Of the rules of a group only the most severe fires.
    pub group: Option<String>,
    /// Severity of the rule.
    pub severity: Severity,
    /// What happened, one sentence.
    pub summary: String,
    /// What it means.
    pub description: String,
    /// What to do.
    pub remedy: String,
    /// The rule's labels.
    pub labels: BTreeMap<String, String>,
    /// The rule's annotations.
    pub annotations: BTreeMap<String, String>,
    /// The rule's windows at the newest rendering of the summary.
    pub values: BTreeMap<String, Option<f64>>,
    /// Number of the collection that it began on.
    pub gc_number: Option<u32>,
    /// How often the condition held.
    pub count: u64,
    /// Alerts that the cooldown suppressed before it.
    pub suppressed: u64,
}

impl AlertRecord {
    /// The record of an alert; `group` is the name of the rule's group.
    pub fn new(alert: &Alert, group: Option<&str>) -> Self {
        let rule = &alert.rule;
        let values = alert.values.iter();
        Self {
            rule: rule.id.to_string(),
            role: rule.role,
            title: rule.title.to_string(),
            group: group.map(str::to_owned),
            severity: alert.severity,
            summary: alert.summary.to_string(),
            description: rule.description.to_string(),
            remedy: rule.remedy.to_string(),
            labels: owned(&alert.labels),
            annotations: owned(&alert.annotations),
            values: values.map(|(name, value)| (name.to_string(), *value)).collect(),
            gc_number: alert.collection,
            count: alert.count,
            suppressed: alert.suppressed,
        }
    }
}

/// Names and texts, for a record.
pub(crate) fn owned<C: FromIterator<(String, String)>>(texts: &[(Arc<str>, Box<str>)]) -> C {
    let texts = texts.iter();
    texts.map(|(name, text)| (name.to_string(), text.to_string())).collect()
}

/// The ndjson record of an alert's change: `kind: "anomaly"`. Unknown values are null.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct AnomalyRecord {
    kind: &'static str,
    /// Pid on the host; in a recording, the pid in the stream.
    pub pid: Option<u32>,
    /// Name of the process.
    pub process: Option<String>,
    /// `firing` or `ended`.
    pub state: &'static str,
    /// Why it ended; null while it fires.
    pub ending: Option<Ending>,
    /// When it changed, RFC 3339, by the time of the observed events.
    pub at: Option<String>,
    /// When it began to fire.
    pub started: Option<String>,
    /// The alert.
    #[serde(flatten)]
    pub alert: AlertRecord,
}

impl AnomalyRecord {
    /// The record of a change.
    pub fn new(
        pid: Option<u32>,
        process: Option<&str>,
        group: Option<&str>,
        transition: &Transition,
        wall: Wall,
    ) -> Self {
        let alert = transition.alert();
        let (state, ending, at) = match transition {
            Transition::Fired(_) => ("firing", None, alert.started),
            Transition::Ended(_, ending) => {
                let ended = alert.ended.unwrap_or(alert.last);
                ("ended", Some(*ending), ended)
            }
        };
        Self {
            kind: "anomaly",
            pid,
            process: process.map(str::to_owned),
            state,
            ending,
            at: wall.rfc3339(at),
            started: wall.rfc3339(alert.started),
            alert: AlertRecord::new(alert, group),
        }
    }
}
