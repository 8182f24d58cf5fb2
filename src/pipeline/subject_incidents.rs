//! Incidents of a subject that is not a living process: an exited process, a process from before a restart, a service,
//! gcwatch.

use std::sync::Arc;

use base::run_key::RunKey;
use base::time::{Moment, Wall};
use delivery::alerts::{IncidentNotice, Notices, subject};
use gc_telemetry::origin::Origin;
use incidents::{IncidentChange, IncidentEnding, IncidentRecord, Incidents, QuotaOwner};

/// Changes of alerts and incidents of one subject, with its resource.
pub(crate) type Changes = (Arc<Origin>, Notices);

/// The open incidents of one subject, and the identity of the subject for notices and records.
#[derive(Debug)]
pub(crate) struct SubjectIncidents {
    /// Run of the subject. A service has a key with pid 0.
    pub(crate) run: RunKey,
    pub(crate) process: Arc<str>,
    pub(crate) resource: Arc<Origin>,
    /// Tenant and service whose quota of messages the subject uses.
    pub(crate) share: QuotaOwner,
    pub(crate) incidents: Incidents,
}

impl SubjectIncidents {
    /// Returns a notice for each change of an incident.
    pub(crate) fn notices(&self, changes: Vec<IncidentChange>) -> Changes {
        let notice = |change| IncidentNotice {
            run: self.run,
            process: Arc::clone(&self.process),
            change,
            span: None,
            share: self.share.clone(),
        };
        let notices = Notices {
            incidents: changes.into_iter().map(notice).collect(),
            ..Notices::default()
        };
        (Arc::clone(&self.resource), notices)
    }

    /// Closes all incidents.
    pub(crate) fn end(&mut self, ending: IncidentEnding, now: Moment) -> Changes {
        let changes = self.incidents.end(ending, now);
        self.notices(changes)
    }

    /// Returns the records of the open incidents.
    pub(crate) fn records(&self, wall: Wall) -> Vec<IncidentRecord> {
        let subject = subject(self.run, &self.process, &self.resource);
        let open = self.incidents.open();
        open.map(|incident| IncidentRecord::new(incident, &subject, wall))
            .collect()
    }
}
