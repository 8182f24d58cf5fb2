//! The owner of incidents after their process has exited, and the order in which changes of incidents are sent.
//!
//! ```text
//!   rules of a run ------------------------- changes ---.
//!     |        ^                                         v
//!   exits   attached to                             notify: book of services, recordings, ended incidents,
//!     v        |                                         ^   receivers and logs
//!   exited   waiting (from before restart) - changes ---|
//!     ^        |                                         |
//!     '---- removed   judged (services, gcwatch) --------'
//! ```
//!
//! Changes are sent in the order in which they happened: changes of a run while the run is locked, all other changes
//! while the owner is locked. The end of an incident therefore cannot overtake its start. An incident that moves from a
//! run to the exited processes is always in exactly one of these places.
//!
//! Locks are always taken in this order: the processes, the counts of rules or the series of services, a run, the
//! owner. The remaining locks come last and are held without further locks (settings, rules, surroundings, delivery).
//! Debug builds check the order of the first four (`ranked_lock`).

use std::collections::VecDeque;
use std::sync::Arc;

use base::run_key::RunKey;
use base::time::{Moment, Wall};
use delivery::alerts::{Notices, subject};
use gc_telemetry::origin::Origin;
use incidents::{IncidentChange, IncidentEnding, IncidentRecord};
use rule_engine::rule_set::RuleSet;

use crate::pipeline::resumed::{ResumedIncidents, StoredState};
use crate::pipeline::service::{FleetRules, ServiceBook, WatcherLog};
use crate::pipeline::subject_incidents::{Changes, SubjectIncidents};

/// Maximum number of exited processes whose incidents are kept. Beyond this number, the incidents of the process that
/// exited first end.
const MAX_EXITED: usize = 256;

/// Maximum number of ended incidents that are kept, over all processes.
const MAX_ENDED: usize = 50;

/// Start time in the run key of gcwatch itself.
pub(crate) const OWN_START: u64 = 0;

/// Time for which a successor must be healthy before the incidents of a dead process end: 5 minutes.
const WELL_FOR_NS: u64 = 5 * 60_000_000_000;

/// All incidents without a living process, and the state needed to evaluate services.
#[derive(Debug, Default)]
pub(crate) struct IncidentOwner {
    /// Incidents of exited processes, in the order of the exits. These incidents stay open until a successor is
    /// healthy, or for 15 minutes.
    pub(crate) exited: Vec<SubjectIncidents>,
    /// Incidents from before a restart of gcwatch whose process is not attached yet.
    pub(crate) waiting: ResumedIncidents,
    /// Ended incidents, oldest first, at most [`MAX_ENDED`].
    ended: VecDeque<IncidentRecord>,
    pub(crate) book: ServiceBook,
    pub(crate) watcher: WatcherLog,
    pub(crate) judged: FleetRules,
    /// Run and resource of gcwatch itself; `None` if gcwatch does not run as a daemon.
    pub(crate) own: Option<(RunKey, Arc<Origin>)>,
}

impl IncidentOwner {
    /// Returns the open incidents, by subject.
    pub(crate) fn open(&self) -> impl Iterator<Item = &SubjectIncidents> {
        let waiting = self.waiting.waiting.values();
        self.exited.iter().chain(self.judged.incidents()).chain(waiting)
    }

    /// Returns the records of ended incidents, newest first.
    pub(crate) fn ended(&self) -> impl Iterator<Item = &IncidentRecord> {
        self.ended.iter().rev()
    }

    /// Restores an incident from before a restart: the incident waits for its process, or ends. Returns the state that
    /// receivers already have, and the end of the incident, or `None` if the incident waits.
    pub(crate) fn resume(
        &mut self,
        state: &StoredState,
        same_boot: bool,
        rules: &RuleSet,
        wall: Wall,
        now: Moment,
    ) -> (Changes, Option<Changes>) {
        let (mut left, incident) = state.restore(rules, wall);
        let run = left.run;
        let known = left.notices(vec![IncidentChange::Refreshed(Arc::clone(&incident))]);
        let is_gone = rules.rule(&incident.symptom.id).is_none();
        // Incidents of gcwatch itself ended with the previous daemon.
        if same_boot && run.start_time != OWN_START && !is_gone {
            self.waiting.put(left, incident);
            return (known, None);
        }
        let ending = if is_gone {
            tracing::info!(
                rule = &*incident.symptom.id,
                pid = run.pid,
                "ended an incident from before the restart: its rule no longer exists (CHANGELOG.md lists the \
                 replacements of removed rules)"
            );
            IncidentEnding::RuleChanged
        } else {
            IncidentEnding::ProcessEnded
        };
        left.incidents.resume(incident, now);
        (known, Some(left.end(ending, now)))
    }

    /// Closes all incidents because the processes are no longer monitored.
    pub(crate) fn unwatch(&mut self, now: Moment) -> Vec<Changes> {
        let exited = std::mem::take(&mut self.exited).into_iter();
        let mut changes: Vec<_> = exited
            .map(|mut left| left.end(IncidentEnding::Unwatched, now))
            .collect();
        changes.extend(self.judged.unwatch(now));
        changes.extend(self.waiting.end(IncidentEnding::Unwatched, now));
        changes
    }

    /// Evaluates the rules of services and of gcwatch itself. Called once per second.
    pub(crate) fn judge(&mut self, rules: &Arc<RuleSet>, now: Moment) -> Vec<Changes> {
        let own = self.own.as_ref();
        let changes = self.judged.tick(&self.book, &mut self.watcher, own, rules, now);
        self.judged.resume(&mut self.waiting);
        changes
    }

    /// Takes over the incidents of a process that has exited. Returns the ends of incidents that are closed to make
    /// room, or `None` if no incident is closed.
    pub(crate) fn outlives(&mut self, left: SubjectIncidents, now: Moment) -> Option<Changes> {
        if left.incidents.is_empty() {
            return None;
        }
        let oldest = (self.exited.len() >= MAX_EXITED).then(|| self.exited.remove(0));
        self.exited.push(left);
        oldest.map(|mut left| left.end(IncidentEnding::ProcessEnded, now))
    }

    /// Advances the waiting incidents and the incidents of exited processes. Called once per second. `known` contains
    /// the processes of the host after a complete scan; it is `None` if there was no complete scan, or if no incident
    /// waits for its process.
    pub(crate) fn advance(&mut self, known: Option<&[RunKey]>, now: Moment) -> Vec<Changes> {
        let mut changes = Vec::new();
        self.exited.retain_mut(|left| {
            let well_since = self.book.successor_well_since(left.run);
            let ended = if well_since.is_some_and(|since| now.since(since) >= WELL_FOR_NS) {
                left.incidents.end(IncidentEnding::Recovered, now)
            } else {
                left.incidents.advance(now)
            };
            if !ended.is_empty() {
                changes.push(left.notices(ended));
            }
            !left.incidents.is_empty()
        });
        if let Some(known) = known {
            let (late, gone) = self.waiting.tick(known, now);
            changes.extend(late);
            for waiting in gone {
                changes.extend(self.outlives(waiting, now));
            }
        }
        changes
    }

    /// Adds the incidents that the notices end, and drops the oldest ended incidents beyond [`MAX_ENDED`].
    pub(crate) fn remember_ended(&mut self, resource: &Arc<Origin>, notices: &Notices) {
        for notice in &notices.incidents {
            let IncidentChange::Ended(incident) = &notice.change else {
                continue;
            };
            if self.ended.len() >= MAX_ENDED {
                self.ended.pop_front();
            }
            let subject = subject(notice.run, &notice.process, resource);
            self.ended
                .push_back(IncidentRecord::new(incident, &subject, notices.wall));
        }
    }
}
