//! What receivers are notified of: changes of alerts, and of the incidents that they make.

use std::sync::Arc;

use crate::spans::SpanIds;
use gc_rules::alert::{RunKey, Transition};
use gc_rules::incident::{IncidentChange, Share};
use gc_rules::time::Wall;

/// A change of an alert, with what the rule does not know: the process, the group, the span. It becomes a log record.
#[derive(Debug, Clone)]
pub struct Notice {
    /// The run that it concerns. Run, rule and the alert's number identify the alert.
    pub run: RunKey,
    /// The name of the process.
    pub process: Arc<str>,
    pub group: Option<Arc<str>>,
    /// What changed.
    pub transition: Transition,
    /// The root span of the collection on which the alert began, where it has one.
    pub span: Option<SpanIds>,
}

/// A change of an incident: what receivers are notified of.
#[derive(Debug, Clone)]
pub struct IncidentNotice {
    /// The run that it concerns. Run and the incident's number identify the incident.
    pub run: RunKey,
    /// The name of the process.
    pub process: Arc<str>,
    /// What changed.
    pub change: IncidentChange,
    /// The root span of the collection on which it began, where it has one.
    pub span: Option<SpanIds>,
    /// The tenant and service whose part of the messages it takes.
    pub share: Share,
}

/// What came of a step of one process.
#[derive(Debug, Clone, Default)]
pub struct Notices {
    /// Changes of alerts, in order.
    pub alerts: Vec<Notice>,
    /// Changes of incidents, in order.
    pub incidents: Vec<IncidentNotice>,
    /// What the wall clock shows at their instants.
    pub wall: Wall,
}

impl Notices {
    /// Whether nothing changed.
    pub fn is_empty(&self) -> bool {
        self.alerts.is_empty() && self.incidents.is_empty()
    }

    /// Adds what came later.
    pub fn extend(&mut self, later: Self) {
        self.alerts.extend(later.alerts);
        self.incidents.extend(later.incidents);
    }
}
