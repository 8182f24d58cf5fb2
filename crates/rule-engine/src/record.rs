//! JSON records of alerts. The names of the fields are a contract.

use std::collections::BTreeMap;
use std::sync::Arc;

use base::time::Wall;
use schemars::JsonSchema;
use serde::Serialize;

use crate::alert::{Alert, Ending, Transition};
use crate::rule::{Role, Severity};

/// Fields that all records of an alert share, in `/api/v1/alerts` and in ndjson. Unknown values are null.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct AlertRecord {
    /// Id of the rule.
    pub rule: String,
    /// Role of the rule; null if it has no role.
    pub role: Option<Role>,
    /// Title of the rule.
    pub title: String,
    /// Group of the rule; null if the rule has no group. Only the most severe rule of a group fires.
    pub group: Option<String>,
    /// Highest severity of the alert so far.
    pub severity: Severity,
    /// One sentence that states what happened.
    pub summary: String,
    /// Meaning of the alert.
    pub description: String,
    /// Recommended action.
    pub remedy: String,
    /// Labels of the rule when the alert started.
    pub labels: BTreeMap<String, String>,
    /// Annotations of the rule.
    pub annotations: BTreeMap<String, String>,
    /// Names and values of the rule's windows at the newest rendering of the summary.
    pub values: BTreeMap<String, Option<f64>>,
    /// Number of the collection on which the alert started to fire.
    pub gc_number: Option<u32>,
    /// Number of times that the condition was true; 1 unless the rule is `on: gc`.
    pub count: u64,
    /// Number of alerts that the cooldown suppressed before this alert.
    pub suppressed: u64,
}

impl AlertRecord {
    /// Creates the record of an alert. `group` is the name of the rule's group.
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

/// Copies names and texts to owned strings, which a record needs.
pub fn owned<C: FromIterator<(String, String)>>(texts: &[(Arc<str>, Box<str>)]) -> C {
    let texts = texts.iter();
    texts.map(|(name, text)| (name.to_string(), text.to_string())).collect()
}

/// The ndjson record of an alert that starts or ends (`kind: "anomaly"`). Unknown values are null.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct AnomalyRecord {
    kind: &'static str,
    /// Pid on the host; in a recording, the pid in the stream.
    pub pid: Option<u32>,
    /// Name of the process.
    pub process: Option<String>,
    /// State of the alert after the change: `firing` or `ended`.
    pub state: &'static str,
    /// Reason why the alert ended; null while it fires.
    pub ending: Option<Ending>,
    /// Time of the change in RFC 3339, derived from the times of the observed events.
    pub at: Option<String>,
    /// Time at which the alert started to fire, in RFC 3339.
    pub started: Option<String>,
    /// The alert, whose fields are part of this JSON object.
    #[serde(flatten)]
    pub alert: AlertRecord,
}

impl AnomalyRecord {
    /// Creates the record of a change.
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
