//! Incidents whose process exited: open until a successor is well, or for a quarter of an hour.

use std::sync::Arc;

use delivery::alerts::{IncidentNotice, Notices, subject};
use gc_rules::incident::{Incident, IncidentChange, IncidentEnding, IncidentRecord, Incidents};
use gc_rules::time::{Moment, Wall};
use gc_telemetry::origin::Origin;

use processes::RunKey;

/// Most processes whose incidents are kept; of more, those of the one that exited first end.
const MOST: usize = 256;

/// The open incidents of processes that exited.
#[derive(Debug, Default)]
pub(crate) struct Aftermath {
    left: Vec<Left>,
}

/// What a process left behind.
#[derive(Debug)]
struct Left {
    run: RunKey,
    process: Arc<str>,
    resource: Arc<Origin>,
    incidents: Incidents,
}

/// Changes of the incidents of one process.
pub(crate) type Changes = (Arc<Origin>, Notices);

impl Aftermath {
    /// A process exited with these incidents. Returns what ends to make room.
    pub(crate) fn put(
        &mut self,
        run: RunKey,
        process: Arc<str>,
        resource: Arc<Origin>,
        incidents: Incidents,
        now: Moment,
    ) -> Option<Changes> {
        if incidents.is_empty() {
            return None;
        }
        let oldest = (self.left.len() >= MOST).then(|| self.left.remove(0));
        self.left.push(Left {
            run,
            process,
            resource,
            incidents,
        });
        oldest.map(|mut oldest| {
            let changes = oldest.incidents.end(IncidentEnding::ProcessEnded, now);
            oldest.notices(changes)
        })
    }

    /// Advances the time. `recovered`: whether a successor of the process has been well for long enough.
    pub(crate) fn tick(&mut self, now: Moment, recovered: impl Fn(RunKey) -> bool) -> Vec<Changes> {
        let mut all = Vec::new();
        self.left.retain_mut(|left| {
            let changes = if recovered(left.run) {
                left.incidents.end(IncidentEnding::Recovered, now)
            } else {
                left.incidents.advance(now)
            };
            if !changes.is_empty() {
                all.push(left.notices(changes));
            }
            !left.incidents.is_empty()
        });
        all
    }

    /// Each incident that is open, with its run, the process and its resource.
    pub(crate) fn each(&self, mut take: impl FnMut(RunKey, &str, &Origin, &Incident)) {
        for left in &self.left {
            for incident in left.incidents.open() {
                take(left.run, &left.process, &left.resource, incident);
            }
        }
    }

    /// Ends all of them.
    pub(crate) fn end(&mut self, ending: IncidentEnding, now: Moment) -> Vec<Changes> {
        let end = |mut left: Left| {
            let changes = left.incidents.end(ending, now);
            left.notices(changes)
        };
        std::mem::take(&mut self.left).into_iter().map(end).collect()
    }

    /// The incidents that are open.
    pub(crate) fn records(&self, wall: Wall) -> impl Iterator<Item = IncidentRecord> + '_ {
        self.left.iter().flat_map(move |left| {
            let subject = subject(left.run, &left.process, &left.resource);
            let open = left.incidents.open();
            open.map(|incident| IncidentRecord::new(incident, &subject, wall))
                .collect::<Vec<_>>()
        })
    }
}

impl Left {
    fn notices(&self, changes: Vec<IncidentChange>) -> Changes {
        let notice = |change| IncidentNotice {
            run: self.run,
            process: Arc::clone(&self.process),
            change,
            span: None,
        };
        let incidents = changes.into_iter().map(notice).collect();
        let notices = Notices {
            incidents,
            ..Notices::default()
        };
        (Arc::clone(&self.resource), notices)
    }
}
