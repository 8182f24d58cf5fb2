//! The records of `/api/v1/rules` and `/api/v1/alerts`.

use std::collections::BTreeMap;

use rule_engine::record::AlertRecord;
use rule_engine::rule::{EvaluationTrigger, Severity, Status};
use schemars::JsonSchema;
use serde::Serialize;

/// A firing alert. Unknown values are null.
#[derive(Debug, Serialize, JsonSchema)]
pub struct AlertView {
    /// Pid of the process on the host; 0 if the alert is for a service.
    pub pid: u32,
    /// Name of the process, or of the processes of the service.
    pub process: String,
    /// `service.name` of the resource.
    pub service_name: Option<String>,
    /// Time at which the condition started to hold, RFC 3339.
    pub active: Option<String>,
    /// Time at which the alert started to fire.
    pub since: Option<String>,
    /// Time at which the condition last held.
    pub last: Option<String>,
    /// Trace id of the collection on which the alert started; null if no collection started it, or if the collection
    /// did not become spans.
    pub trace_id: Option<String>,
    /// The alert.
    #[serde(flatten)]
    pub alert: AlertRecord,
}

/// A process or a service on which a rule fires. An unknown time is null.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FiringView {
    /// Pid on the host; 0 for a service.
    pub pid: u32,
    /// Name of the process, or of the processes of the service.
    pub process: String,
    /// Display name.
    pub name: String,
    /// Time since which the rule fires, RFC 3339.
    pub since: Option<String>,
}

/// A rule and its state in all processes.
#[derive(Debug, Serialize, JsonSchema)]
pub struct RuleView {
    /// Id of the rule.
    pub id: String,
    /// Title of the rule.
    pub title: String,
    /// Group of the rule; null if the rule has no group. Only the most severe rule of a group fires.
    pub group: Option<String>,
    /// Severity of the rule's alerts.
    pub severity: Severity,
    /// Reliability of the rule.
    pub status: Status,
    /// Trigger for evaluating the condition.
    pub on: EvaluationTrigger,
    /// Whether the rule is enabled.
    pub enabled: bool,
    /// File, line and column of the rule.
    pub location: String,
    /// `ok`, or `err` if evaluations have failed.
    pub health: &'static str,
    /// Number of evaluations over all processes.
    pub evaluations: u64,
    /// Number of failed evaluations.
    pub failures: u64,
    /// Reason for the most recent failure; null if no evaluation failed.
    pub last_failure: Option<String>,
    /// Number of processes in each state, or of services for a rule with `on: service`: `inactive`, `pending`,
    /// `firing`, `inhibited`, `unknown`, `not_selected`, `excepted`.
    pub states: BTreeMap<&'static str, u64>,
    /// Processes on which the rule fires.
    pub firing: Vec<FiringView>,
    /// Processes on which the rule is pending or inhibited by a more severe rule.
    pub near: Vec<NearView>,
    /// Meaning of the rule.
    pub description: String,
    /// Recommended action.
    pub remedy: String,
    /// Source of the threshold.
    pub source: String,
    /// Condition, as written in the rule.
    pub when: String,
    /// Selection of processes, as written in the rule; empty for all processes.
    pub select: String,
    /// Thresholds of the rule: names and values, as written in the rule.
    pub params: Vec<ParamView>,
}

/// A process on which a rule nearly fires.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct NearView {
    /// `pending` or `inhibited`.
    pub state: &'static str,
    /// The process, and the time since which it is in this state.
    #[serde(flatten)]
    pub at: FiringView,
}

/// A threshold of a rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ParamView {
    /// Name of the threshold.
    pub name: String,
    /// Value of the threshold.
    pub value: String,
    /// Other values, as pairs: the processes to which the value applies, and the value.
    pub others: Vec<(String, String)>,
}
