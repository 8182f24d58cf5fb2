//! The incidents of a subject that is no living process: one that exited or is of before a restart, a service, gcwatch.

use std::sync::Arc;

use base::run_key::RunKey;
use base::time::{Moment, Wall};
use delivery::alerts::{IncidentNotice, Notices, subject};
use gc_rules::incident::{IncidentChange, IncidentEnding, IncidentRecord, Incidents, Share};
use gc_telemetry::origin::Origin;

/// Changes of alerts and incidents of one subject, with the resource that they are of.
pub(crate) type Changes = (Arc<Origin>, Notices);

/// The open incidents of one, and what notices and records say of whose they are.
#[derive(Debug)]
pub(crate) struct SubjectIncidents {
    /// Of a service it stands for a run: its pid is 0.
    pub(crate) run: RunKey,
    pub(crate) process: Arc<str>,
    pub(crate) resource: Arc<Origin>,
    /// The tenant and service whose part of the messages it takes.
    pub(crate) share: Share,
    pub(crate) incidents: Incidents,
}

impl SubjectIncidents {
    /// Changes of its incidents.
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

    /// Ends all of them.
    pub(crate) fn end(&mut self, ending: IncidentEnding, now: Moment) -> Changes {
        let changes = self.incidents.end(ending, now);
        self.notices(changes)
    }

    /// The records of those that are open.
    pub(crate) fn records(&self, wall: Wall) -> Vec<IncidentRecord> {
        let subject = subject(self.run, &self.process, &self.resource);
        let open = self.incidents.open();
        open.map(|incident| IncidentRecord::new(incident, &subject, wall))
            .collect()
    }
}
