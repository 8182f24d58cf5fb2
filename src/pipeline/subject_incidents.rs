//! The incidents of a subject that is no living process: one that exited or is of before a restart, a service, gcwatch.

use std::sync::Arc;

use delivery::alerts::{IncidentNotice, Notices, subject};
use gc_rules::incident::{Incident, IncidentChange, IncidentEnding, IncidentRecord, Incidents};
use gc_rules::time::{Moment, Wall};
use gc_telemetry::origin::Origin;
use processes::RunKey;

/// Changes of alerts and incidents of one subject, with the resource that they are of.
pub(crate) type Changes = (Arc<Origin>, Notices);

/// The open incidents of one, and what notices and records say of whose they are.
#[derive(Debug)]
pub(crate) struct SubjectIncidents {
    pub(crate) process: Arc<str>,
    pub(crate) resource: Arc<Origin>,
    pub(crate) incidents: Incidents,
}

impl SubjectIncidents {
    /// Changes of its incidents.
    pub(crate) fn notices(&self, run: RunKey, changes: Vec<IncidentChange>) -> Changes {
        let notice = |change| IncidentNotice {
            run,
            process: Arc::clone(&self.process),
            change,
            span: None,
        };
        let notices = Notices {
            incidents: changes.into_iter().map(notice).collect(),
            ..Notices::default()
        };
        (Arc::clone(&self.resource), notices)
    }

    /// Ends all of them.
    pub(crate) fn end(&mut self, run: RunKey, ending: IncidentEnding, now: Moment) -> Changes {
        let changes = self.incidents.end(ending, now);
        self.notices(run, changes)
    }

    /// The records of those that are open.
    pub(crate) fn records(&self, run: RunKey, wall: Wall) -> Vec<IncidentRecord> {
        let subject = subject(run, &self.process, &self.resource);
        let open = self.incidents.open();
        open.map(|incident| IncidentRecord::new(incident, &subject, wall))
            .collect()
    }

    /// Each that is open.
    pub(crate) fn each(&self, run: RunKey, take: &mut impl FnMut(RunKey, &str, &Origin, &Incident)) {
        for incident in self.incidents.open() {
            take(run, &self.process, &self.resource, incident);
        }
    }
}
