//! The records of `/api/v1/incidents`: those that are open, and the newest that ended.

use std::cmp::Reverse;
use std::collections::HashSet;

use delivery::alerts::subject;
use gc_rules::incident::IncidentRecord;
use gc_rules::time::Wall;

use crate::pipeline::observed_run::ObservedRun;
use crate::pipeline::registry::Pipeline;

impl Pipeline {
    /// Every open incident: the most severe first, then the newest; after them those that ended, the newest first.
    pub fn incidents(&self) -> Vec<IncidentRecord> {
        let wall = self.wall();
        let mut open: Vec<IncidentRecord> = self.runs().iter().flat_map(|run| of_run(run, wall)).collect();
        let owner = self.shared().incidents();
        open.extend(owner.records(wall));
        // One whose process exited meanwhile was met twice.
        let mut met = HashSet::new();
        open.retain(|record| met.insert(record.id.clone()));
        open.sort_by_key(|record| (Reverse(record.severity), Reverse(record.since.clone())));
        open.extend(owner.ended().cloned());
        open
    }
}

/// The open incidents of a run.
fn of_run(run: &ObservedRun, wall: Wall) -> Vec<IncidentRecord> {
    let run = run.look();
    let Some(rules) = &run.rules else { return Vec::new() };
    let subject = subject(run.key(), &run.identity.who().name, run.identity.resource());
    let open = rules.incidents();
    open.map(|incident| IncidentRecord::new(incident, &subject, wall))
        .collect()
}
