//! The session of a run: its state, its predecessors, and the progress of reading their streams.
//!
//! # Delays of gcwatch itself
//!
//! A stop of the process and a stop of gcwatch look the same, because no event arrives. The time of the rules therefore
//! advances only to the point up to which the streams were read, plus [`ALLOWANCE_NS`]. Until this point reaches the
//! current time, operations in progress and silence are unknown. Once the reader continues, the waiting collections
//! advance the time themselves, as the collections of a recording do.

use base::time::Moment;
use gc_telemetry::definition::own::target as row;
use gc_telemetry::snapshot::{MetricSnapshot, seconds, whole};
use rule_engine::field::{ContainerFacts, MemoryFacts, OperationStarts, StreamFacts};

use processes::{RunState, StreamProgress};

/// Maximum delay of the reader before its information about the present is considered unknown. The reader visits all
/// streams every 200 ms and reports every second.
pub(crate) const ALLOWANCE_NS: u64 = 3_000_000_000;
/// Time without a collection after which a process counts as idle, so that the memory information from its collections
/// is outdated.
const RESTS_AFTER_NS: u64 = 60_000_000_000;

/// Maximum difference between the clocks of the runtime and of gcwatch. Because of this difference, a collection can
/// seem to start before it is requested.
const CLOCKS_DIFFER_NS: u64 = 500_000_000;

/// State of reading a run.
#[derive(Debug, Default)]
pub struct RunSession {
    /// State of monitoring the process.
    pub state: RunState,
    /// Start time of the state.
    pub since: Moment,
    /// Start time of the run's totals; `None` before the first attach.
    pub first_attach: Option<Moment>,
    /// Number of sessions started.
    pub sessions: u64,
    /// Number of times the leftovers of another tool's session were removed.
    pub healings: u64,
    /// Sum over the sessions that have ended, without the current session.
    ended_sessions: StreamProgress,
    present_session: StreamProgress,
    /// Time of the newest event of a collection, over all sessions; [`Moment::FIRST`] before the first collection.
    pub newest: Moment,
    /// Time of the newest event of a collection in the current session; `None` before its first collection.
    newest_of_session: Option<Moment>,
    /// Time from the end of the newest collection until it was processed; `None` if unknown.
    pub lag_ns: Option<u64>,
    /// Lag of the current session, for the rules; `None` if unknown or if gcwatch causes the delay.
    lag_of_target_ns: Option<u64>,
    /// Latest time to which the rules may advance while the reader is behind; `None` if it is not behind. See the
    /// [module](self).
    known_until: Option<Moment>,
    /// Whether the runtime ended the newest stream cleanly; `None` if the stream is open or there was no stream.
    pub closed_in_order: Option<bool>,
    /// Time since which the stream contains more data than has been read; `None` if all data has been read.
    undrained_since: Option<Moment>,
    /// Current time of the rules.
    pub(crate) rules_at: Moment,
    /// Operations that have started but not ended.
    pub open: OperationStarts,
    /// Start and end of gcwatch's newest heap dump; the end is `None` while the dump is running.
    pub own_dump: Option<(Moment, Option<Moment>)>,
    /// Number of objects whose finalizers have not run; `None` if unknown.
    pub finalizers_waiting: Option<u64>,
    /// Share of the time for which the finalizer thread had a CPU in the open round of finalizers; `None` if unknown.
    finalizer_cpu: Option<f64>,
}

impl RunSession {
    pub(crate) fn new(now: Moment) -> Self {
        Self {
            since: now,
            ..Self::default()
        }
    }

    pub(crate) fn set_state(&mut self, state: RunState, now: Moment) {
        if self.state != state {
            self.state = state;
            self.since = now;
        }
    }

    /// Starts a session, whose counts are added to the counts of earlier sessions.
    pub(crate) fn begin(&mut self, start: Moment) {
        self.sessions += 1;
        self.ended_sessions = self.progress();
        self.present_session = StreamProgress::default();
        self.first_attach.get_or_insert(start);
        self.rules_at = self.rules_at.max(start);
        self.open = OperationStarts::default();
        self.finalizers_waiting = None;
        self.finalizer_cpu = None;
        self.newest_of_session = None;
        self.lag_of_target_ns = None;
        self.closed_in_order = None;
        self.undrained_since = None;
    }

    /// Sets the time from the end of a collection until it was processed.
    pub(crate) fn set_lag(&mut self, lag_ns: Option<u64>) {
        self.lag_ns = lag_ns;
        self.lag_of_target_ns = lag_ns.filter(|_| self.known_until.is_none());
    }

    /// Sets whether the stream contains more data than has been read.
    pub(crate) fn set_undrained(&mut self, is: bool, now: Moment) {
        self.undrained_since = is.then(|| self.undrained_since.unwrap_or(now));
    }

    /// Updates the current time. All streams were read up to `behind_ns` ago.
    pub(crate) fn tick(&mut self, now: Moment, behind_ns: u64) {
        let of_stream = self.undrained_since.map(|since| now.since(since));
        let behind_ns = behind_ns.max(of_stream.unwrap_or(0));
        // No events are expected from a process that is not read.
        let is_behind = self.state == RunState::Attached && behind_ns > ALLOWANCE_NS;
        self.known_until = is_behind.then(|| now.before(behind_ns.saturating_sub(ALLOWANCE_NS)));
        if is_behind {
            self.lag_of_target_ns = None;
        }
    }

    /// Prepares for a live collection or suspension at time `at`. Returns the time to which the rules must advance
    /// first, or `None` if their time is not far behind.
    pub(crate) fn catches_up(&mut self, at: Moment, now: Moment) -> Option<Moment> {
        let passed = at.min(now);
        // Operations in progress were reported before the data that is being read now.
        let over = |begun: Option<Moment>| begun.filter(|begun| *begun > at);
        (self.open.stop, self.open.collection) = (over(self.open.stop), over(self.open.collection));
        let late = passed > self.rules_at.after(ALLOWANCE_NS);
        if late {
            self.known_until = Some(passed);
        }
        late.then_some(passed)
    }

    /// Returns the time to which the rules may advance, given the requested time.
    pub(crate) fn advances(&mut self, to: Moment) -> Moment {
        let to = self.known_until.map_or(to, |known| known.min(to));
        self.rules_at = self.rules_at.max(to);
        self.rules_at
    }

    /// Records a collection with this time of its last event.
    pub(crate) fn observe(&mut self, last_event: Moment) {
        self.newest = self.newest.max(last_event);
        self.newest_of_session = self.newest_of_session.max(Some(last_event));
    }

    /// Returns whether the current session has received no collection, or no collection for [`RESTS_AFTER_NS`].
    pub fn rests(&self, now: Moment) -> bool {
        self.newest_of_session
            .is_none_or(|newest| now.since(newest) > RESTS_AFTER_NS)
    }

    /// Returns the progress over all sessions.
    pub fn progress(&self) -> StreamProgress {
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

    /// Returns whether gcwatch has not read all data of the stream.
    pub fn is_behind(&self) -> bool {
        self.known_until.is_some()
    }

    /// Sets the progress of the current session. Returns the number of events lost since the last call, or `None` if no
    /// stream numbers its events.
    pub(crate) fn set_progress(&mut self, progress: StreamProgress) -> Option<u64> {
        let before = self.progress().lost_events.unwrap_or(0);
        self.present_session = progress;
        let lost = self.progress().lost_events?;
        Some(lost.saturating_sub(before))
    }

    /// Returns the facts about the session for the rules.
    pub fn facts(&self, container: ContainerFacts, memory: MemoryFacts) -> StreamFacts {
        let progress = self.progress();
        // For a process that is not read, silence is unknown.
        let attached = self.state == RunState::Attached;
        StreamFacts {
            since: self.first_attach,
            events: Some(progress.events),
            lost_events: progress.lost_events,
            undecodable: Some(progress.undecodable),
            sessions: Some(self.sessions),
            lag_ns: self.lag_of_target_ns,
            newest: self.newest_of_session.filter(|_| attached),
            open: if attached {
                self.open
            } else {
                OperationStarts::default()
            },
            behind: attached && self.known_until.is_some(),
            finalizers_waiting: self.finalizers_waiting.filter(|_| attached),
            finalizer_cpu: self
                .finalizer_cpu
                .filter(|_| attached && self.open.finalizers.is_some()),
            container,
            memory,
            ..StreamFacts::default()
        }
    }

    /// Returns the start of the open round of finalizers, or `None` if there is no round that has lasted for more than
    /// `longer_ns`.
    pub fn long_finalizers(&self, now: Moment, longer_ns: u64) -> Option<Moment> {
        let is_long = |begun: &Moment| now.since(*begun) > longer_ns;
        self.open
            .finalizers
            .filter(is_long)
            .filter(|_| self.state == RunState::Attached)
    }

    /// Sets the CPU share of the finalizer thread in the round that started at `begun`, unless that round has ended.
    pub(crate) fn set_finalizer_cpu(&mut self, begun: Moment, share: Option<f64>) {
        self.finalizer_cpu = share.filter(|_| self.open.finalizers == Some(begun));
    }

    /// Records that gcwatch has started (`true`) or finished a heap dump of the process.
    pub(crate) fn dumps(&mut self, begins: bool, now: Moment) {
        self.own_dump = match (begins, self.own_dump) {
            (true, _) => Some((now, None)),
            (false, known) => known.map(|(from, _)| (from, Some(now))),
        };
    }

    /// Returns whether a collection at this time belongs to a heap dump by gcwatch.
    pub fn is_own_dump(&self, at: Moment) -> bool {
        self.own_dump.is_some_and(|(from, until)| {
            let until = until.map_or(Moment::NEVER, |until| until.after(CLOCKS_DIFFER_NS));
            (from.before(CLOCKS_DIFFER_NS)..=until).contains(&at)
        })
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

    fn ns(ns: u64) -> Moment {
        Moment::from_ns(ns)
    }

    fn read(events: u64, lost_events: Option<u64>) -> StreamProgress {
        StreamProgress {
            bytes: events * 10,
            events,
            lost_events,
            undecodable: 0,
        }
    }

    /// Scenario: a second session follows the first session, and only the stream of the second session numbers its
    /// events.
    /// Guarantee: totals never decrease, and losses are unknown until a stream numbers its events, and are then counted
    /// once.
    #[test]
    fn totals_continue_across_sessions() {
        let mut session = RunSession::new(ns(1));
        session.begin(ns(5));
        assert_eq!(session.set_progress(read(7, None)), None);
        session.begin(ns(9));
        assert_eq!((session.first_attach, session.sessions), (Some(ns(5)), 2));
        assert_eq!(session.progress(), read(7, None));
        assert_eq!(session.set_progress(read(1, Some(3))), Some(3));
        assert_eq!(session.set_progress(read(2, Some(4))), Some(1));
        assert_eq!(session.progress(), read(9, Some(4)));
    }

    const SECOND: u64 = 1_000_000_000;

    fn attached(at: Moment) -> RunSession {
        let mut session = RunSession::new(at);
        session.begin(at);
        session.set_state(RunState::Attached, at);
        session
    }

    /// Scenario: gcwatch is stopped for 75 s during a suspension. After it resumes, a tick precedes any reading; two
    /// collections that waited follow, then a tick after all data has been read.
    /// Guarantee: the time advances to the point up to which the stream was read plus the allowance, then with the
    /// collections, then to the current time. Until then, operations in progress and silence are unknown, and the lag
    /// is not attributed to the process. The suspension ends with the first later event.
    #[test]
    fn rules_wait_for_unread_data() {
        let at = |second: u64| Moment::from_ns(1000 * SECOND + second * SECOND);
        let mut session = attached(at(0));
        session.tick(at(10), SECOND);
        assert_eq!(session.advances(at(10)), at(10));
        session.open.stop = Some(at(10).before(1));
        let facts = |session: &RunSession| session.facts(ContainerFacts::default(), MemoryFacts::default());
        assert!(!facts(&session).behind);
        session.tick(at(85), 76 * SECOND);
        assert_eq!(session.advances(at(85)), at(12));
        assert!(facts(&session).behind);
        // Other callers can pass the current time of the clock.
        assert_eq!(session.advances(at(85)), at(12));
        assert_eq!(session.catches_up(at(13), at(85)), None);
        assert_eq!(facts(&session).open.stop, None);
        session.set_lag(Some(72 * SECOND));
        assert_eq!((facts(&session).lag_ns, session.lag_ns), (None, Some(72 * SECOND)));
        assert_eq!(session.catches_up(at(60), at(85)), Some(at(60)));
        assert_eq!(session.advances(at(60)), at(60));
        assert!(facts(&session).behind);
        session.tick(at(86), SECOND);
        assert_eq!(session.advances(at(86)), at(86));
        assert!(!facts(&session).behind);
        session.set_lag(Some(SECOND / 10));
        assert_eq!(facts(&session).lag_ns, Some(SECOND / 10));
        // A collection with a future time does not advance the rules beyond the clock.
        assert_eq!(session.catches_up(at(500), at(87)), None);
    }

    /// Scenario: a stream is not read to its end for ten seconds, and then it is; the same happens to a process whose
    /// session has ended.
    /// Guarantee: the rules wait while the stream is not read to its end, and they do not wait if the process is not
    /// attached.
    #[test]
    fn undrained_stream_delays_only_its_rules() {
        let at = |second: u64| Moment::from_ns(1000 * SECOND + second * SECOND);
        let mut session = attached(at(0));
        session.set_undrained(true, at(1));
        session.set_undrained(true, at(2));
        session.tick(at(11), SECOND);
        assert_eq!(session.advances(at(11)), at(4));
        session.set_undrained(false, at(12));
        session.tick(at(12), SECOND);
        assert_eq!(session.advances(at(12)), at(12));
        session.set_undrained(true, at(13));
        session.set_state(RunState::Attaching, at(14));
        session.tick(at(30), SECOND);
        assert_eq!(session.advances(at(30)), at(30));
    }

    /// Scenario: a collection is observed and finalizers run in one session; the session ends, and another session
    /// starts.
    /// Guarantee: the rules use only the newest event and the finalizers of the current session, and nothing between
    /// sessions.
    #[test]
    fn rules_know_current_session_only() {
        let facts = |session: &RunSession| {
            let facts = session.facts(ContainerFacts::default(), MemoryFacts::default());
            (facts.newest, facts.open.finalizers, facts.finalizers_waiting)
        };
        let mut session = attached(ns(5));
        session.observe(ns(8));
        session.open.finalizers = Some(ns(7));
        session.finalizers_waiting = Some(12);
        assert_eq!(facts(&session), (Some(ns(8)), Some(ns(7)), Some(12)));
        session.set_state(RunState::Attaching, ns(9));
        assert_eq!(facts(&session), (None, None, None));
        session.begin(ns(10));
        session.set_state(RunState::Attached, ns(10));
        assert_eq!(facts(&session), (None, None, None));
        assert_eq!(session.newest, ns(8));
    }

    /// Scenario: a heap dump by gcwatch runs and then ends; collections occur before, during and after it.
    /// Guarantee: collections during the dump belong to it, with a tolerance of 0.5 s for different clocks.
    #[test]
    fn collections_during_own_dump_are_recognized() {
        let at = |seconds: u64| Moment::from_ns((1_000 + seconds) * SECOND);
        let mut session = RunSession::new(at(0));
        assert!(!session.is_own_dump(at(10)));
        session.own_dump = Some((at(10), None));
        assert!(session.is_own_dump(at(10).before(SECOND / 2)) && session.is_own_dump(at(600)));
        session.own_dump = Some((at(10), Some(at(12))));
        assert!(session.is_own_dump(at(12).after(SECOND / 2)));
        assert!(!session.is_own_dump(at(9)) && !session.is_own_dump(at(13)));
    }
}
