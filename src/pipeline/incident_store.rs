//! Open incidents over a restart of gcwatch: what is stored of them, and how they go on.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;

use delivery::alerts::IncidentNotice;
use gc_rules::incident::{IncidentChange, IncidentEnding, Incidents, RESUME_NS};
use gc_rules::time::Moment;
use run::Input;

use crate::pipeline::left_incidents::LeftIncidents;
use crate::pipeline::registry::Pipeline;
use crate::pipeline::resumed::StoredState;
use run::settings::Clock;

/// Most incidents that are stored; of more, the most severe and oldest.
const MOST_STORED: usize = 1000;

/// The start time by which gcwatch itself is known.
const OWN_START: u64 = 0;

impl Pipeline {
    /// Continues the incidents that were open before gcwatch was restarted. `same_boot`: pids and start times mean the
    /// same processes as then; otherwise all of them end.
    pub fn resume(&self, stored: &[StoredState], same_boot: bool, now: Moment) {
        let (rules, wall, shared) = (self.rules(), self.wall(), self.shared());
        let mut owner = shared.incidents();
        owner.waiting.until = now.after(RESUME_NS);
        for state in stored {
            let Some((run, resource, incident)) = state.restore(&rules, wall) else {
                continue;
            };
            let process: Arc<str> = state.process.as_str().into();
            let known = IncidentNotice {
                run,
                process: Arc::clone(&process),
                change: IncidentChange::Refreshed(Arc::clone(&incident)),
                span: None,
            };
            shared.outlet().resumed(&resource, vec![known], wall);
            let is_gone = rules.rule(&incident.symptom.id).is_none();
            // That of gcwatch itself began with the daemon that was.
            if same_boot && run.start_time != OWN_START && !is_gone {
                owner.waiting.put(run, &process, &resource, incident);
                continue;
            }
            if is_gone {
                tracing::info!(
                    rule = &*incident.symptom.id,
                    pid = run.pid,
                    "an incident of before the restart ends: there is no such rule any more (CHANGELOG.md says which one \
                     replaces those of earlier versions)"
                );
            }
            let ending = if is_gone {
                IncidentEnding::RuleChanged
            } else {
                IncidentEnding::ProcessEnded
            };
            let mut incidents = Incidents::default();
            incidents.resume(incident, now);
            let left = LeftIncidents {
                process,
                resource,
                incidents,
            };
            shared.notify(&mut owner, left.end(run, ending, now));
        }
    }

    /// What is open now and receivers know of, for [`resume`](Self::resume) of the next daemon.
    pub fn open_incidents(&self) -> Vec<StoredState> {
        let (mut open, wall) = (Vec::new(), self.wall());
        for run in self.runs().iter().filter(|run| run.clock() == Clock::Live) {
            let run = run.look();
            let Some(rules) = &run.rules else { continue };
            let (who, resource) = (run.identity.who(), run.identity.resource());
            open.extend(
                rules
                    .incidents()
                    .map(|incident| StoredState::of(run.key(), &who.name, resource, incident, wall)),
            );
        }
        self.shared().incidents().each(|run, process, resource, incident| {
            open.push(StoredState::of(run, process, resource, incident, wall));
        });
        // One whose process exited meanwhile was met twice.
        let mut met = BTreeSet::new();
        open.retain(|state| met.insert((state.pid, state.start_time, state.incident.number())));
        open.sort_by_key(|state| (Reverse(state.incident.severity()), state.incident.began_unix_ns()));
        open.truncate(MOST_STORED);
        open
    }

    /// Ends all open incidents: nobody watches any more, and nothing of them outlives this daemon.
    pub fn unwatch_all(&self, now: Moment) {
        for run in self.runs().iter().filter(|run| run.clock() == Clock::Live) {
            let shared = self.shared();
            run.hand(shared.at(now), Input::Unwatched);
        }
        let mut owner = self.shared().incidents();
        let changes = owner.unwatch(now);
        self.shared().notify_all(&mut owner, changes);
    }
}
