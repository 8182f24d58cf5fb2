//! Incidents whose process exited: open until a successor is well, or for a quarter of an hour.

use gc_rules::incident::{Incident, IncidentEnding, IncidentRecord};
use gc_rules::time::{Moment, Wall};
use gc_telemetry::origin::Origin;
use processes::RunKey;

use crate::pipeline::subject_incidents::{Changes, SubjectIncidents};

/// Most processes whose incidents are kept; of more, those of the one that exited first end.
const MOST: usize = 256;

/// The open incidents of processes that exited, in the order in which they did.
#[derive(Debug, Default)]
pub(crate) struct ExitedIncidents(Vec<(RunKey, SubjectIncidents)>);

impl ExitedIncidents {
    /// A process exited with these incidents. Returns what ends to make room.
    pub(crate) fn put(&mut self, run: RunKey, left: SubjectIncidents, now: Moment) -> Option<Changes> {
        if left.incidents.is_empty() {
            return None;
        }
        let oldest = (self.0.len() >= MOST).then(|| self.0.remove(0));
        self.0.push((run, left));
        oldest.map(|(run, mut left)| left.end(run, IncidentEnding::ProcessEnded, now))
    }

    /// Advances the time. `recovered`: whether a successor of the process has been well for long enough.
    pub(crate) fn tick(&mut self, now: Moment, recovered: impl Fn(RunKey) -> bool) -> Vec<Changes> {
        let mut all = Vec::new();
        self.0.retain_mut(|(run, left)| {
            let changes = if recovered(*run) {
                left.incidents.end(IncidentEnding::Recovered, now)
            } else {
                left.incidents.advance(now)
            };
            if !changes.is_empty() {
                all.push(left.notices(*run, changes));
            }
            !left.incidents.is_empty()
        });
        all
    }

    /// Each incident that is open, with its run, the process and its resource.
    pub(crate) fn each(&self, take: &mut impl FnMut(RunKey, &str, &Origin, &Incident)) {
        self.0.iter().for_each(|(run, left)| left.each(*run, take));
    }

    /// Ends all of them.
    pub(crate) fn end(&mut self, ending: IncidentEnding, now: Moment) -> Vec<Changes> {
        let left = std::mem::take(&mut self.0).into_iter();
        left.map(|(run, mut left)| left.end(run, ending, now)).collect()
    }

    /// The incidents that are open.
    pub(crate) fn records(&self, wall: Wall) -> impl Iterator<Item = IncidentRecord> + '_ {
        self.0.iter().flat_map(move |(run, left)| left.records(*run, wall))
    }
}
