//! The records of `/api/v1/rules` and `/api/v1/alerts`.

use std::collections::BTreeMap;

use gc_rules::record::AlertRecord;
use gc_rules::rule::{On, Severity, Status};
use schemars::JsonSchema;
use serde::Serialize;

/// An alert that fires.
#[derive(Debug, Serialize, JsonSchema)]
pub struct AlertView {
    /// The host's pid of the process; 0: the alert is of a service.
    pub pid: u32,
    /// The name of the process, or of the service's processes.
    pub process: String,
    /// `service.name` of its resource.
    pub service_name: Option<String>,
    /// When the condition began to hold, RFC 3339.
    pub active: Option<String>,
    /// When it began to fire.
    pub since: Option<String>,
    /// When the condition held last.
    pub last: Option<String>,
    /// The trace of the collection that it began on.
    pub trace_id: Option<String>,
    /// The alert.
    #[serde(flatten)]
    pub alert: AlertRecord,
}

/// A process, or a service, on which a rule fires.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FiringView {
    /// The host's pid; 0: it is a service.
    pub pid: u32,
    /// Its name, or that of the service's processes.
    pub process: String,
    /// What it is called everywhere.
    pub name: String,
    /// Since when, RFC 3339.
    pub since: Option<String>,
}

/// A rule and its state in all processes.
#[derive(Debug, Serialize, JsonSchema)]
pub struct RuleView {
    /// Its id.
    pub id: String,
    /// Title.
    pub title: String,
    /// The group; of its rules only the most severe fires.
    pub group: Option<String>,
    /// Severity of its alerts.
    pub severity: Severity,
    /// How reliable it is.
    pub status: Status,
    /// When its condition is evaluated.
    pub on: On,
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
    /// How many processes, or of a rule `on: service` services, are in each state: `inactive`, `pending`, `firing`,
    /// `inhibited`, `unknown`, `not_selected`, `excepted`.
    pub states: BTreeMap<&'static str, u64>,
    /// The processes on which it fires.
    pub firing: Vec<FiringView>,
    /// The processes on which it is pending or inhibited by a more severe rule.
    pub near: Vec<NearView>,
    /// What it means.
    pub description: String,
    /// What to do.
    pub remedy: String,
    /// The source of its threshold.
    pub source: String,
    /// When it fires, as it is written.
    pub when: String,
    /// The processes that it is for, as it is written; empty: all.
    pub select: String,
    /// Its thresholds: names and values as they are written.
    pub params: Vec<ParamView>,
}

/// A process on which a rule does not fire, but nearly.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct NearView {
    /// `pending` or `inhibited`.
    pub state: &'static str,
    /// The process, and since when.
    #[serde(flatten)]
    pub at: FiringView,
}

/// A threshold of a rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ParamView {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
    /// Other values, each after the processes that it is for.
    pub others: Vec<(String, String)>,
}
