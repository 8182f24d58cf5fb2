//! The records of `/api/v1/incidents`: those that are open, and the newest that ended.

use std::cmp::Reverse;
use std::collections::HashSet;

use delivery::alerts::subject;
use gc_rules::incident::IncidentRecord;
use gc_rules::time::Wall;

use crate::pipeline::registry::Pipeline;
use crate::pipeline::run::Run;

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
fn of_run(run: &Run, wall: Wall) -> Vec<IncidentRecord> {
    let parts = run.parts();
    let Some(rules) = &parts.rules else { return Vec::new() };
    let subject = subject(run.key(), &parts.identity.who().name, parts.identity.resource());
    let open = rules.incidents();
    open.map(|incident| IncidentRecord::new(incident, &subject, wall))
        .collect()
}
