//! Notifications to receivers: changes of alerts and of the resulting incidents.

use std::sync::Arc;

use crate::spans::SpanIds;
use base::run_key::RunKey;
use base::time::Wall;
use incidents::{IncidentChange, QuotaOwner};
use rule_engine::alert::Transition;

/// Change of an alert, with the data that the rule does not have: process, group, span. The change is exported as a log
/// record.
#[derive(Debug, Clone)]
pub struct Notice {
    /// Run of the process. Run, rule and alert number identify the alert.
    pub run: RunKey,
    /// Name of the process.
    pub process: Arc<str>,
    pub group: Option<Arc<str>>,
    /// Transition of the alert.
    pub transition: Transition,
    /// Root span of the collection on which the alert started; `None` if there is no such collection or it has no span.
    pub span: Option<SpanIds>,
}

/// Change of an incident for receivers.
#[derive(Debug, Clone)]
pub struct IncidentNotice {
    /// Run of the process. Run and incident number identify the incident.
    pub run: RunKey,
    /// Name of the process.
    pub process: Arc<str>,
    /// Change of the incident.
    pub change: IncidentChange,
    /// Root span of the collection on which the incident started; `None` if there is no such collection or it has no
    /// span.
    pub span: Option<SpanIds>,
    /// Tenant and service whose share of the messages the notice uses.
    pub share: QuotaOwner,
}

/// Notices from one step of one process.
#[derive(Debug, Clone, Default)]
pub struct Notices {
    /// Changes of alerts, in order.
    pub alerts: Vec<Notice>,
    /// Changes of incidents, in order.
    pub incidents: Vec<IncidentNotice>,
    /// Wall clock at the moments of the notices.
    pub wall: Wall,
}

impl Notices {
    /// Returns `true` if no alert and no incident changed.
    pub fn is_empty(&self) -> bool {
        self.alerts.is_empty() && self.incidents.is_empty()
    }

    /// Appends later notices.
    pub fn extend(&mut self, later: Self) {
        self.alerts.extend(later.alerts);
        self.incidents.extend(later.incidents);
    }
}
