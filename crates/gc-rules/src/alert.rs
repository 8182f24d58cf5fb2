//! What a rule says of a process, and when that changes.

use std::sync::Arc;

use strict_yaml::words;

use super::rule::{Rule, Severity};

/// Which run of a process: a pid is used again, a pid with its start time is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RunKey {
    /// The host's pid; in a recording, the pid that the stream names.
    pub pid: u32,
    /// When it started: clock ticks after boot (field 22 of `/proc/PID/stat`); in a recording, the stream's sync time.
    pub start_time: u64,
}

/// One alert: a rule that fires on a process.
#[derive(Debug, Clone)]
pub struct Alert {
    /// The rule.
    pub rule: Arc<Rule>,
    /// Tells this firing apart from every other one of the run: unique with the run of the process.
    pub number: u64,
    /// When the condition began to hold, Unix nanoseconds, by the time of what was observed.
    pub active_unix_ns: u64,
    /// When it began to fire.
    pub started_unix_ns: u64,
    /// When the newest occurrence was, or when the condition held last.
    pub last_unix_ns: u64,
    /// When it ended; `None`: it fires.
    pub ended_unix_ns: Option<u64>,
    /// The rule's own labels, as they were when it began; names as in the rule.
    pub labels: Arc<[(Arc<str>, Box<str>)]>,
    /// What happened, one sentence.
    pub summary: Arc<str>,
    /// Further texts, by name.
    pub annotations: Arc<[(Arc<str>, Box<str>)]>,
    /// The windows of the rule when it began to fire: name and value, where known.
    pub values: Arc<[(Arc<str>, Option<f64>)]>,
    /// The collection that it began to fire on: its number.
    pub collection: Option<u32>,
    /// How often the condition held: occurrences of a rule `on: gc`; 1 for others.
    pub count: u64,
    /// Firings that the cooldown left out since the alert before this one.
    pub suppressed: u64,
}

impl Alert {
    /// How bad it is.
    pub fn severity(&self) -> Severity {
        self.rule.severity
    }

    /// It has not ended.
    pub fn is_firing(&self) -> bool {
        self.ended_unix_ns.is_none()
    }
}

words! {
    /// Why an alert ended.
    pub enum Ending {
        /// The condition ended, or nothing came for as long as the alert is kept.
        Cleared = "cleared",
        /// A more severe one of its group fires instead.
        Superseded = "superseded",
        /// It is no longer known whether the condition holds.
        Unknown = "unknown",
        /// The process exited.
        ProcessEnded = "process-ended",
        /// The rule was removed or changed, or an exception applies now.
        RuleChanged = "rule-changed",
    }
}

/// A change that is told outside.
#[derive(Debug, Clone)]
pub enum Transition {
    /// An alert began to fire.
    Fired(Arc<Alert>),
    /// An alert ended.
    Ended(Arc<Alert>, Ending),
}

impl Transition {
    /// The alert.
    pub fn alert(&self) -> &Arc<Alert> {
        match self {
            Self::Fired(alert) | Self::Ended(alert, _) => alert,
        }
    }
}

/// What the rules say of one collection.
#[derive(Debug, Clone, Default)]
pub struct Verdict {
    /// Rules whose condition holds on this very collection (`on: gc`), also where the alert was told before or another one of the group is told
    /// instead. The collection is an anomaly when there is one.
    pub matched: Vec<Arc<Rule>>,
    /// What changed.
    pub transitions: Vec<Transition>,
}
