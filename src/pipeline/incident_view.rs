//! The records of `/api/v1/incidents`: those that are open, and the newest that ended.

use std::cmp::Reverse;
use std::sync::Arc;

use delivery::alerts::subject;
use gc_rules::incident::{IncidentChange, IncidentRecord};
use gc_rules::time::Wall;
use gc_telemetry::origin::Origin;

use crate::pipeline::registry::Pipeline;
use crate::pipeline::run::Run;
use delivery::alerts::IncidentNotice;

/// Most incidents that are remembered after their end, over all processes.
pub(crate) const MOST_ENDED: usize = 50;

impl Pipeline {
    /// Every open incident: the most severe first, then the newest; after them those that ended, the newest first.
    pub fn incidents(&self) -> Vec<IncidentRecord> {
        let wall = self.wall();
        let mut open: Vec<IncidentRecord> = self.runs().iter().flat_map(|run| of_run(run, wall)).collect();
        open.extend(self.shared().aftermath().records(wall));
        open.extend(self.shared().services().judged.incidents(wall));
        open.extend(self.waiting_incidents());
        open.sort_by_key(|record| (Reverse(record.severity), Reverse(record.since.clone())));
        open.extend(self.shared().ended_incidents().iter().rev().cloned());
        open
    }
}

/// The open incidents of a run.
fn of_run(run: &Run, wall: Wall) -> Vec<IncidentRecord> {
    let parts = run.parts();
    let Some(rules) = &parts.rules else { return Vec::new() };
    let subject = subject(run.key(), &parts.identity.who().name, parts.identity.resource());
    let open = rules.incidents();
    open.map(|incident| IncidentRecord::new(incident, &subject, wall))
        .collect()
}

/// The record of an incident that ended.
pub(crate) fn ended(notice: &IncidentNotice, resource: &Arc<Origin>, wall: Wall) -> Option<IncidentRecord> {
    let IncidentChange::Ended(incident) = &notice.change else {
        return None;
    };
    let subject = subject(notice.run, &notice.process, resource);
    Some(IncidentRecord::new(incident, &subject, wall))
}
