//! The owner of incidents, whatever became of their process, and the order in which their changes are sent.
//!
//! ```text
//!   rules of a run ------------------------- changes ---.
//!     |        ^                                         v
//!   exits   attached to                             notify: the book of services, recordings, those that ended,
//!     v        |                                         ^   receivers and logs
//!   exited   waiting (of before a restart) -- changes ---|
//!     ^        |                                         |
//!     '------ gone    judged (services, gcwatch) --------'
//! ```
//!
//! Changes are sent in the order in which they happened: those of a run while it is held, all others while the owner
//! is. So no end overtakes a beginning, and an incident that passes from a run to the exited is in one of the two for
//! whoever looks.
//!
//! Locks are taken in this order, and never the other way round: the processes, the counts of rules, a run, the owner;
//! then those that hold nothing else (settings, rules, surroundings, what delivers).

use std::collections::VecDeque;
use std::sync::Arc;

use base::run_key::RunKey;
use base::time::{Moment, Wall};
use delivery::alerts::{Notices, subject};
use gc_rules::incident::{IncidentChange, IncidentEnding, IncidentRecord};
use gc_rules::rule_set::RuleSet;
use gc_telemetry::origin::Origin;

use crate::pipeline::resumed::{Resumed, StoredState};
use crate::pipeline::service::{FleetRules, ServiceBook, WatcherLog};
use crate::pipeline::subject_incidents::{Changes, SubjectIncidents};

/// Most processes that exited whose incidents are kept; of more, those of the one that exited first end.
const MOST_EXITED: usize = 256;

/// Most incidents that are remembered after their end, over all processes.
const MOST_ENDED: usize = 50;

/// The number of a run of gcwatch itself, where one of a process has when it started.
pub(crate) const OWN_START: u64 = 0;

/// How long a successor must be well until the incidents of a dead process end: 5 minutes.
const WELL_FOR_NS: u64 = 5 * 60_000_000_000;

/// Every incident that no living process has, and what it takes to judge services.
#[derive(Debug, Default)]
pub(crate) struct IncidentOwner {
    /// Those whose process exited, in the order in which they did: open until a successor is well, or for a quarter of an
    /// hour.
    pub(crate) exited: Vec<SubjectIncidents>,
    /// Those of before gcwatch was restarted, whose process is not attached to yet.
    pub(crate) waiting: Resumed,
    /// Those that ended, the oldest first, at most [`MOST_ENDED`].
    ended: VecDeque<IncidentRecord>,
    pub(crate) book: ServiceBook,
    pub(crate) watcher: WatcherLog,
    pub(crate) judged: FleetRules,
    /// gcwatch itself, where it is a daemon.
    pub(crate) own: Option<(RunKey, Arc<Origin>)>,
}

impl IncidentOwner {
    /// Those that are open, by their subjects.
    pub(crate) fn open(&self) -> impl Iterator<Item = &SubjectIncidents> {
        let waiting = self.waiting.waiting.values();
        self.exited.iter().chain(self.judged.incidents()).chain(waiting)
    }

    /// The records of those that ended, the newest first.
    pub(crate) fn ended(&self) -> impl Iterator<Item = &IncidentRecord> {
        self.ended.iter().rev()
    }

    /// One of before gcwatch was restarted waits for its process, or ends. Returns what receivers know of it, and its end.
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
        // That of gcwatch itself began with the daemon that was.
        if same_boot && run.start_time != OWN_START && !is_gone {
            self.waiting.put(left, incident);
            return (known, None);
        }
        let ending = if is_gone {
            tracing::info!(
                rule = &*incident.symptom.id,
                pid = run.pid,
                "an incident of before the restart ends: there is no such rule any more (CHANGELOG.md says which one \
                 replaces those of earlier versions)"
            );
            IncidentEnding::RuleChanged
        } else {
            IncidentEnding::ProcessEnded
        };
        left.incidents.resume(incident, now);
        (known, Some(left.end(ending, now)))
    }

    /// Ends all of them: nobody watches any more.
    pub(crate) fn unwatch(&mut self, now: Moment) -> Vec<Changes> {
        let exited = std::mem::take(&mut self.exited).into_iter();
        let mut changes: Vec<_> = exited
            .map(|mut left| left.end(IncidentEnding::Unwatched, now))
            .collect();
        changes.extend(self.judged.unwatch(now));
        changes.extend(self.waiting.end(IncidentEnding::Unwatched, now));
        changes
    }

    /// A second passed for services and for gcwatch itself.
    pub(crate) fn judge(&mut self, rules: &Arc<RuleSet>, now: Moment) -> Vec<Changes> {
        let own = self.own.as_ref();
        let changes = self.judged.tick(&self.book, &mut self.watcher, own, rules, now);
        self.judged.resume(&mut self.waiting);
        changes
    }

    /// A process exited with these. Returns what ends to make room.
    pub(crate) fn outlives(&mut self, left: SubjectIncidents, now: Moment) -> Option<Changes> {
        if left.incidents.is_empty() {
            return None;
        }
        let oldest = (self.exited.len() >= MOST_EXITED).then(|| self.exited.remove(0));
        self.exited.push(left);
        oldest.map(|mut left| left.end(IncidentEnding::ProcessEnded, now))
    }

    /// A second passed for what waits (`known`: the processes of the host, once all were looked at; `None`: nothing
    /// waits, or for that) and for what is left of processes that exited.
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

    /// Keeps the newest of those that ended.
    pub(crate) fn remember_ended(&mut self, resource: &Arc<Origin>, notices: &Notices) {
        for notice in &notices.incidents {
            let IncidentChange::Ended(incident) = &notice.change else {
                continue;
            };
            if self.ended.len() >= MOST_ENDED {
                self.ended.pop_front();
            }
            let subject = subject(notice.run, &notice.process, resource);
            self.ended
                .push_back(IncidentRecord::new(incident, &subject, notices.wall));
        }
    }
}
