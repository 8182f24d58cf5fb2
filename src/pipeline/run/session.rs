//! How a run is read: its state, its sessions and how far their streams were read.

use gc_rules::field::{ContainerFacts, MemoryFacts, Open, StreamFacts};
use gc_telemetry::definition::own::target as row;
use gc_telemetry::snapshot::{MetricSnapshot, seconds, whole};

use crate::process::{RunState, StreamProgress};

/// How a run is read.
#[derive(Debug)]
pub(crate) struct RunSession {
    pub(crate) state: RunState,
    /// When the state began.
    pub(crate) since_unix_ns: u64,
    /// Where the run's totals begin.
    pub(crate) first_attach_unix_ns: Option<u64>,
    /// Sessions begun.
    pub(crate) sessions: u64,
    /// How often what another tool's session left behind was healed.
    pub(crate) healings: u64,
    /// The sum over the sessions that ended, without the present one.
    ended_sessions: StreamProgress,
    present_session: StreamProgress,
    /// When the newest event of a collection was, over all sessions; 0 before the first.
    pub(crate) newest_unix_ns: u64,
    /// The same of the present session; `None` before its first collection.
    newest_of_session_unix_ns: Option<u64>,
    /// From the end of the newest collection until it was processed.
    pub(crate) lag_ns: Option<u64>,
    /// What has begun and not ended.
    pub(crate) open: Open,
    /// Objects whose finalizers have not run.
    pub(crate) finalizers_waiting: Option<u64>,
}

impl RunSession {
    pub(crate) fn new(now_unix_ns: u64) -> Self {
        Self {
            state: RunState::Found,
            since_unix_ns: now_unix_ns,
            first_attach_unix_ns: None,
            sessions: 0,
            healings: 0,
            ended_sessions: StreamProgress::default(),
            present_session: StreamProgress::default(),
            newest_unix_ns: 0,
            newest_of_session_unix_ns: None,
            lag_ns: None,
            open: Open::default(),
            finalizers_waiting: None,
        }
    }

    pub(crate) fn set_state(&mut self, state: RunState, now_unix_ns: u64) {
        if self.state != state {
            self.state = state;
            self.since_unix_ns = now_unix_ns;
        }
    }

    /// A session begins: what it counts is added to what the earlier ones counted.
    pub(crate) fn begin(&mut self, start_unix_ns: u64) {
        self.sessions += 1;
        self.ended_sessions = self.progress();
        self.present_session = StreamProgress::default();
        self.first_attach_unix_ns.get_or_insert(start_unix_ns);
        self.open = Open::default();
        self.finalizers_waiting = None;
        self.newest_of_session_unix_ns = None;
    }

    /// A collection whose last event was then.
    pub(crate) fn observe(&mut self, last_event_unix_ns: u64) {
        self.newest_unix_ns = self.newest_unix_ns.max(last_event_unix_ns);
        self.newest_of_session_unix_ns = self.newest_of_session_unix_ns.max(Some(last_event_unix_ns));
    }

    /// Over all sessions.
    pub(crate) fn progress(&self) -> StreamProgress {
        let (a, b) = (self.ended_sessions, self.present_session);
        StreamProgress {
            bytes: a.bytes + b.bytes,
            events: a.events + b.events,
            lost_events: match (a.lost_events, b.lost_events) {
                (None, None) => None,
                (a, b) => Some(a.unwrap_or(0) + b.unwrap_or(0)),
            },
            undecodable: a.undecodable + b.undecodable,
        }
    }

    /// How far the present session's stream was read. Returns the events that were lost since the last call; `None`
    /// where no stream numbers its events.
    pub(crate) fn set_progress(&mut self, progress: StreamProgress) -> Option<u64> {
        let before = self.progress().lost_events.unwrap_or(0);
        self.present_session = progress;
        let lost = self.progress().lost_events?;
        Some(lost.saturating_sub(before))
    }

    /// What the rules know of how it is read.
    pub(crate) fn facts(&self, container: ContainerFacts, memory: MemoryFacts) -> StreamFacts {
        let progress = self.progress();
        // Whether a process that is not read is silent is unknown.
        let attached = self.state == RunState::Attached;
        StreamFacts {
            since_unix_ns: self.first_attach_unix_ns,
            events: Some(progress.events),
            lost_events: progress.lost_events,
            undecodable: Some(progress.undecodable),
            sessions: Some(self.sessions),
            lag_ns: self.lag_ns,
            newest_unix_ns: self.newest_of_session_unix_ns.filter(|_| attached),
            open: if attached { self.open } else { Open::default() },
            finalizers_waiting: self.finalizers_waiting.filter(|_| attached),
            container,
            memory,
        }
    }

    pub(crate) fn metrics(&self, snapshot: &mut MetricSnapshot) {
        let progress = self.progress();
        snapshot.put_one(&row::EVENTS, Some(whole(progress.events)));
        snapshot.put_one(&row::UNDECODABLE, Some(whole(progress.undecodable)));
        snapshot.put_one(&row::SIZE, Some(whole(progress.bytes)));
        snapshot.put_one(&row::SESSIONS, Some(whole(self.sessions)));
        snapshot.put_one(&row::HEALINGS, Some(whole(self.healings)));
        snapshot.put_one(&row::LAG, self.lag_ns.map(seconds));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(events: u64, lost_events: Option<u64>) -> StreamProgress {
        StreamProgress {
            bytes: events * 10,
            events,
            lost_events,
            undecodable: 0,
        }
    }

    /// Scenario: two sessions one after the other, the second one of a stream that numbers its events.
    /// Guarantee: totals never fall back, and losses are unknown until a stream numbers its events, then counted once.
    #[test]
    fn totals_go_on_over_sessions() {
        let mut session = RunSession::new(1);
        session.begin(5);
        assert_eq!(session.set_progress(read(7, None)), None);
        session.begin(9);
        assert_eq!((session.first_attach_unix_ns, session.sessions), (Some(5), 2));
        assert_eq!(session.progress(), read(7, None));
        assert_eq!(session.set_progress(read(1, Some(3))), Some(3));
        assert_eq!(session.set_progress(read(2, Some(4))), Some(1));
        assert_eq!(session.progress(), read(9, Some(4)));
    }

    /// Scenario: a collection is observed in one session; the session ends, another one begins.
    /// Guarantee: the rules know the newest event of the present session only, and nothing while there is none.
    #[test]
    fn silence_is_that_of_the_present_session() {
        let newest = |session: &RunSession| {
            session
                .facts(ContainerFacts::default(), MemoryFacts::default())
                .newest_unix_ns
        };
        let mut session = RunSession::new(1);
        session.begin(5);
        session.set_state(RunState::Attached, 5);
        session.observe(8);
        assert_eq!(newest(&session), Some(8));
        session.set_state(RunState::Attaching, 9);
        assert_eq!(newest(&session), None);
        session.begin(10);
        session.set_state(RunState::Attached, 10);
        assert_eq!((newest(&session), session.newest_unix_ns), (None, 8));
    }

    /// Scenario: finalizers run in one session, which ends; another one begins.
    /// Guarantee: the rules know of them while it is attached, and nothing after that.
    #[test]
    fn finalizers_are_those_of_the_present_session() {
        let facts = |session: &RunSession| {
            let facts = session.facts(ContainerFacts::default(), MemoryFacts::default());
            (facts.open.finalizers, facts.finalizers_waiting)
        };
        let mut session = RunSession::new(1);
        session.begin(5);
        session.set_state(RunState::Attached, 5);
        session.open.finalizers = Some(7);
        session.finalizers_waiting = Some(12);
        assert_eq!(facts(&session), (Some(7), Some(12)));
        session.set_state(RunState::Attaching, 9);
        assert_eq!(facts(&session), (None, None));
        session.begin(10);
        session.set_state(RunState::Attached, 10);
        assert_eq!(facts(&session), (None, None));
    }
}
