//! The owner of incidents, whatever became of their process, and the one place from which changes of them are told.
//!
//! ```text
//!   rules of a run ------------------------- changes ---.
//!     |        ^                                         v
//!   exits   attached to                               tell: the book of services, recordings, those that ended,
//!     v        |                                         ^   receivers and logs
//!   exited   waiting (of before a restart) -- changes ---|
//!     ^        |                                         |
//!     '------ gone    judged (services, gcwatch) --------'
//! ```
//!
//! Changes are told in the order in which they happened: those of a run while it is locked, all others while the owner
//! is. So no end overtakes a beginning, and an incident that passes from a run to the exited is in one of the two for
//! whoever looks.
//!
//! Locks are taken in this order, and never the other way round: the processes, the counts of rules, a run, the owner;
//! then those that hold nothing else (settings, rules, surroundings, what delivers).

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use delivery::alerts::{IncidentNotice, Notices, subject};
use gc_rules::incident::{Incident, IncidentChange, IncidentEnding, IncidentRecord, recording_id};
use gc_rules::rule::RuleSet;
use gc_rules::time::{Moment, Wall};
use gc_telemetry::origin::Origin;
use processes::RunKey;
use targets::host::now;

use crate::pipeline::exited_incidents::ExitedIncidents;
use crate::pipeline::resumed::Resumed;
use crate::pipeline::run::Parts;
use crate::pipeline::service::{Judged, ServiceBook, WatcherLog};
use crate::pipeline::shared::Shared;

/// Most incidents that are remembered after their end, over all processes.
const MOST_ENDED: usize = 50;

/// How long a successor must be well until the incidents of a dead process end: 5 minutes.
const WELL_FOR_NS: u64 = 5 * 60_000_000_000;

/// Changes of alerts and incidents of one subject, with the resource that they are of.
pub(crate) type Changes = (Arc<Origin>, Notices);

/// Every incident that no living process has, and what it takes to judge services.
#[derive(Debug, Default)]
pub(crate) struct IncidentOwner {
    /// Those whose process exited.
    pub(crate) exited: ExitedIncidents,
    /// Those of before gcwatch was restarted, whose process is not attached to yet.
    pub(crate) waiting: Resumed,
    /// Those that ended, the oldest first, at most [`MOST_ENDED`].
    ended: VecDeque<IncidentRecord>,
    pub(crate) book: ServiceBook,
    pub(crate) watcher: WatcherLog,
    pub(crate) judged: Judged,
    /// gcwatch itself, where it is a daemon.
    pub(crate) own: Option<(RunKey, Arc<Origin>)>,
}

impl IncidentOwner {
    /// The records of those that are open.
    pub(crate) fn records(&self, wall: Wall) -> impl Iterator<Item = IncidentRecord> + '_ {
        let exited = self.exited.records(wall).chain(self.judged.incidents(wall));
        exited.chain(self.waiting.records(wall))
    }

    /// The records of those that ended, the newest first.
    pub(crate) fn ended(&self) -> impl Iterator<Item = &IncidentRecord> {
        self.ended.iter().rev()
    }

    /// Each that is open, with its run, the name of its subject and its resource.
    pub(crate) fn each(&self, mut take: impl FnMut(RunKey, &str, &Origin, &Incident)) {
        self.exited.each(&mut take);
        self.judged.each(&mut take);
        self.waiting.each(&mut take);
    }

    /// Ends all of them: nobody watches any more.
    pub(crate) fn unwatch(&mut self, now: Moment) -> Vec<Changes> {
        let mut changes = self.exited.end(IncidentEnding::Unwatched, now);
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

    /// A second passed for what waits (`known`: the processes of the host, once all were looked at) and for what is left
    /// of processes that exited.
    pub(crate) fn advance(&mut self, known: Option<&[RunKey]>, now: Moment) -> Vec<Changes> {
        let book = &self.book;
        let is_well = |dead: RunKey| {
            let since = book.successor_well_since(dead);
            since.is_some_and(|since| now.since(since) >= WELL_FOR_NS)
        };
        let mut changes = self.exited.tick(now, is_well);
        if let Some(known) = known {
            let (late, gone) = self.waiting.tick(known, now);
            changes.extend(late);
            for (run, waiting) in gone {
                changes.extend(self.exited.put(run, waiting, now));
            }
        }
        changes
    }

    /// Keeps the newest of those that ended.
    fn remember_ended(&mut self, resource: &Arc<Origin>, notices: &Notices) {
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

impl Shared {
    /// Tells what changed in a run, which is locked.
    pub(crate) fn tell_of(&self, parts: &Parts, notices: Notices) {
        if !notices.is_empty() {
            self.tell(&mut self.incidents(), (Arc::clone(parts.identity.resource()), notices));
        }
    }

    /// Tells what changed, in order.
    pub(crate) fn tell_all(&self, owner: &mut IncidentOwner, changes: Vec<Changes>) {
        for changes in changes {
            self.tell(owner, changes);
        }
    }

    /// Tells what changed.
    pub(crate) fn tell(&self, owner: &mut IncidentOwner, (resource, mut notices): Changes) {
        if notices.is_empty() {
            return;
        }
        if !notices.incidents.is_empty() {
            self.counters.incident_changes.fetch_add(1, Ordering::Relaxed);
            self.record(&notices);
        }
        let now = now();
        owner.book.notices(&notices.alerts, now);
        owner.book.incidents(&notices.incidents, now);
        notices.wall = self.wall();
        owner.remember_ended(&resource, &notices);
        self.outlet().alerts(&resource, notices);
    }

    /// Has incidents recorded whose recording has not begun.
    fn record(&self, notices: &Notices) {
        let Some(black_box) = self.black_box() else { return };
        for notice in &notices.incidents {
            let incident = notice.change.incident();
            if let (Some(id), true) = (&incident.black_box, incident.is_open() && !incident.is_recorded_before) {
                black_box.incident(notice.run, id);
            }
        }
    }

    /// Has what is left of processes recorded that died of their memory, and incidents of services name it.
    pub(crate) fn record_deaths(&self, owner: &mut IncidentOwner) {
        let Some(black_box) = self.black_box() else { return };
        for (name, run, at) in owner.book.take_deaths_of_memory() {
            let id = recording_id(self.wall().unix_ns(at), &name, run.pid, "died");
            black_box.died(run, at, id);
        }
        owner
            .judged
            .name_recordings(&owner.book, |run| black_box.files().of_dead(run));
    }
}

/// What a process, or gcwatch before it was restarted, left behind.
#[derive(Debug)]
pub(crate) struct Left {
    pub(crate) process: Arc<str>,
    pub(crate) resource: Arc<Origin>,
    pub(crate) incidents: gc_rules::incident::Incidents,
}

impl Left {
    /// Changes of its incidents.
    pub(crate) fn told(&self, run: RunKey, changes: Vec<IncidentChange>) -> Changes {
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
    pub(crate) fn end(mut self, run: RunKey, ending: IncidentEnding, now: Moment) -> Changes {
        let changes = self.incidents.end(ending, now);
        self.told(run, changes)
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
