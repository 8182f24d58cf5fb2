//! How a run is read: its state, its sessions and how far their streams were read.
//!
//! # When gcwatch itself is late
//!
//! A stop of the process and a stop of gcwatch look the same: no event comes. So the time of the rules passes up to
//! where the streams were read, plus [`ALLOWANCE_NS`], and while that is not up to now, what is in progress or silent
//! is unknown. Once the reader goes on, the collections that waited move the time themselves, as those of a recording
//! do.
//!
//! # When the wall clock is set
//!
//! Times are those of the wall clock. When it is set, or the machine was suspended, all that is counted from such times
//! moves along ([`RunSession::observe_clocks`]): nothing has lasted longer or shorter, and the rules go on.

use gc_rules::field::{ContainerFacts, HostFacts, MemoryFacts, Open, StreamFacts};
use gc_rules::time::moved;
use gc_telemetry::definition::own::target as row;
use gc_telemetry::snapshot::{MetricSnapshot, seconds, whole};

use processes::{RunState, StreamProgress};
use targets::clock::Clocks;
use targets::finalizer_cpu::is_one_round;
use targets::wall_clock::WallClock;

/// How far the reader may be behind before what it knows of the present is no knowledge: it looks at all streams every
/// 200 ms, and says so every second.
pub(crate) const ALLOWANCE_NS: u64 = 3_000_000_000;
/// Without a collection for longer, a process rests: what collections said of its memory is old.
const RESTS_AFTER_NS: u64 = 60_000_000_000;

/// The clocks of the runtime and of gcwatch may differ by so much, and a collection begin before it is asked for.
const CLOCKS_DIFFER_NS: u64 = 500_000_000;

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
    /// The same as the rules see it: of the present session, and unknown where it is gcwatch's own.
    lag_of_target_ns: Option<u64>,
    /// The reader is behind, see the [module](self): the time that the rules may know.
    known_until: Option<u64>,
    /// Whether the runtime ended the newest stream in order; `None`: it goes on, or there was none.
    closed_in_order: Option<bool>,
    /// Since when the stream brings more than is read of it.
    undrained_unix_ns: Option<u64>,
    /// The time of the rules.
    rules_unix_ns: u64,
    wall_clock: WallClock,
    /// What has begun and not ended.
    pub(crate) open: Open,
    /// The newest heap dump of gcwatch's own: from when, until when (`None`: it goes on), Unix nanoseconds.
    pub(crate) own_dump: Option<(u64, Option<u64>)>,
    /// Objects whose finalizers have not run.
    pub(crate) finalizers_waiting: Option<u64>,
    /// The share of the time for which the finalizer thread had a CPU, of the round of finalizers that is open.
    finalizer_cpu: Option<f64>,
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
            lag_of_target_ns: None,
            known_until: None,
            closed_in_order: None,
            undrained_unix_ns: None,
            rules_unix_ns: 0,
            wall_clock: WallClock::default(),
            open: Open::default(),
            own_dump: None,
            finalizers_waiting: None,
            finalizer_cpu: None,
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
        self.rules_unix_ns = self.rules_unix_ns.max(start_unix_ns);
        self.open = Open::default();
        self.finalizers_waiting = None;
        self.finalizer_cpu = None;
        self.newest_of_session_unix_ns = None;
        self.lag_of_target_ns = None;
        self.closed_in_order = None;
        self.undrained_unix_ns = None;
    }

    /// The stream is over.
    pub(crate) fn set_closed(&mut self, in_order: bool) {
        self.closed_in_order = Some(in_order);
    }

    /// Whether the runtime ended the newest stream in order; `None`: it goes on, or there was none.
    pub(crate) fn closed_in_order(&self) -> Option<bool> {
        self.closed_in_order
    }

    /// From the end of a collection until it was processed.
    pub(crate) fn set_lag(&mut self, lag_ns: Option<u64>) {
        self.lag_ns = lag_ns;
        self.lag_of_target_ns = lag_ns.filter(|_| self.known_until.is_none());
    }

    /// Whether the stream brings more than is read of it.
    pub(crate) fn set_undrained(&mut self, is: bool, now_unix_ns: u64) {
        self.undrained_unix_ns = is.then(|| self.undrained_unix_ns.unwrap_or(now_unix_ns));
    }

    /// The time is now, and all streams were read up to `behind_ns` ago.
    pub(crate) fn tick(&mut self, now_unix_ns: u64, behind_ns: u64) {
        let of_stream = self.undrained_unix_ns.map(|since| now_unix_ns.saturating_sub(since));
        let behind_ns = behind_ns.max(of_stream.unwrap_or(0));
        // Of a process that is not read nothing is waited for.
        let is_behind = self.state == RunState::Attached && behind_ns > ALLOWANCE_NS;
        self.known_until = is_behind.then(|| now_unix_ns.saturating_sub(behind_ns.saturating_sub(ALLOWANCE_NS)));
        if is_behind {
            self.lag_of_target_ns = None;
        }
    }

    /// A live collection or suspension of that time is about to be observed. `Some`: the time of the rules is so far
    /// behind it that it must pass first, up to then.
    pub(crate) fn catches_up(&mut self, at_unix_ns: u64, now_unix_ns: u64) -> Option<u64> {
        let at = at_unix_ns.min(now_unix_ns);
        // What is in progress was reported before what is being read now.
        let over = |begun: Option<u64>| begun.filter(|begun| *begun > at_unix_ns);
        (self.open.stop, self.open.collection) = (over(self.open.stop), over(self.open.collection));
        let late = at > self.rules_unix_ns.saturating_add(ALLOWANCE_NS);
        if late {
            self.known_until = Some(at);
        }
        late.then_some(at)
    }

    /// The time of the rules.
    pub(crate) fn rules_unix_ns(&self) -> u64 {
        self.rules_unix_ns
    }

    /// The time to which the rules may advance of that one.
    pub(crate) fn advances(&mut self, to_unix_ns: u64) -> u64 {
        let to = self.known_until.map_or(to_unix_ns, |known| known.min(to_unix_ns));
        self.rules_unix_ns = self.rules_unix_ns.max(to);
        self.rules_unix_ns
    }

    /// What the clocks show now, before anything else is said of that time. `Some`: the wall clock was set by so much
    /// against the one that passes, and what is remembered has moved along.
    pub(crate) fn observe_clocks(&mut self, clocks: Clocks) -> Option<i64> {
        let by_ns = self.wall_clock.observe(clocks)?;
        self.clock_was_set(by_ns);
        Some(by_ns)
    }

    fn clock_was_set(&mut self, by_ns: i64) {
        let times = [
            &mut self.open.stop,
            &mut self.open.collection,
            &mut self.open.background,
            &mut self.open.finalizers,
            &mut self.newest_of_session_unix_ns,
            &mut self.known_until,
            &mut self.undrained_unix_ns,
        ];
        for time in times.into_iter().flatten() {
            *time = moved(*time, by_ns);
        }
        self.rules_unix_ns = moved(self.rules_unix_ns, by_ns);
        // What people see keeps its time, unless that is to come now.
        if by_ns < 0 {
            self.since_unix_ns = moved(self.since_unix_ns, by_ns);
            self.first_attach_unix_ns = self.first_attach_unix_ns.map(|at| moved(at, by_ns));
            self.newest_unix_ns = moved(self.newest_unix_ns, by_ns);
        }
    }

    /// A collection whose last event was then.
    pub(crate) fn observe(&mut self, last_event_unix_ns: u64) {
        self.newest_unix_ns = self.newest_unix_ns.max(last_event_unix_ns);
        self.newest_of_session_unix_ns = self.newest_of_session_unix_ns.max(Some(last_event_unix_ns));
    }

    /// No collection has come for [`RESTS_AFTER_NS`], or none at all.
    pub(crate) fn rests(&self, now_unix_ns: u64) -> bool {
        self.newest_of_session_unix_ns
            .is_none_or(|newest| now_unix_ns.saturating_sub(newest) > RESTS_AFTER_NS)
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

    /// gcwatch has not read all that its stream brought.
    pub(crate) fn is_behind(&self) -> bool {
        self.known_until.is_some()
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
            lag_ns: self.lag_of_target_ns,
            newest_unix_ns: self.newest_of_session_unix_ns.filter(|_| attached),
            open: if attached { self.open } else { Open::default() },
            own_dump: false,
            behind: attached && self.known_until.is_some(),
            finalizers_waiting: self.finalizers_waiting.filter(|_| attached),
            finalizer_cpu: self
                .finalizer_cpu
                .filter(|_| attached && self.open.finalizers.is_some()),
            container,
            memory,
            host: HostFacts::default(),
            requests: None,
            service: None,
            watcher: None,
        }
    }

    /// The round of finalizers that is open, by its beginning, if that is longer ago than `longer_ns`.
    pub(crate) fn long_finalizers(&self, now_unix_ns: u64, longer_ns: u64) -> Option<u64> {
        let is_long = |begun: &u64| now_unix_ns.saturating_sub(*begun) > longer_ns;
        self.open
            .finalizers
            .filter(is_long)
            .filter(|_| self.state == RunState::Attached)
    }

    /// How much of the time the finalizer thread had a CPU in the round that began then; that one may have ended.
    pub(crate) fn know_finalizer_cpu(&mut self, begun: u64, share: Option<f64>) {
        let is_open = self.open.finalizers.is_some_and(|open| is_one_round(begun, open));
        self.finalizer_cpu = share.filter(|_| is_open);
    }

    /// Whether a collection of that time is that of a heap dump of gcwatch's own.
    pub(crate) fn is_own_dump(&self, at_unix_ns: u64) -> bool {
        self.own_dump.is_some_and(|(from, until)| {
            let until = until.map_or(u64::MAX, |until| until.saturating_add(CLOCKS_DIFFER_NS));
            (from.saturating_sub(CLOCKS_DIFFER_NS)..=until).contains(&at_unix_ns)
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

    const SECOND: u64 = 1_000_000_000;

    fn attached(at: u64) -> RunSession {
        let mut session = RunSession::new(at);
        session.begin(at);
        session.set_state(RunState::Attached, at);
        session
    }

    /// Scenario: a suspension has begun when gcwatch is stopped for 75 s. It goes on: a tick comes before anything was
    /// read; then two collections that waited; then a tick after everything was read.
    /// Guarantee: the time passes up to where the stream was read and a little more; then with the collections; then up
    /// to now. Meanwhile what is in progress or silent is unknown, and the lag is not that of the process. The
    /// suspension is over with what came after it.
    #[test]
    fn time_waits_for_what_was_not_read() {
        let at = |second: u64| 1000 * SECOND + second * SECOND;
        let mut session = attached(at(0));
        session.tick(at(10), SECOND);
        assert_eq!(session.advances(at(10)), at(10));
        session.open.stop = Some(at(10) - 1);
        let facts = |session: &RunSession| session.facts(ContainerFacts::default(), MemoryFacts::default());
        assert!(!facts(&session).behind);
        session.tick(at(85), 76 * SECOND);
        assert_eq!(session.advances(at(85)), at(12));
        assert!(facts(&session).behind);
        // Others may give the time of the clock.
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
        // A collection with a time to come moves nothing further than the clock.
        assert_eq!(session.catches_up(at(500), at(87)), None);
    }

    /// Scenario: a stream that is never read to its end for ten seconds, then is; the same of a process whose session
    /// ended.
    /// Guarantee: the time of its rules waits as long, that of others does not; of a process that is not read nothing is
    /// waited for.
    #[test]
    fn a_stream_that_is_not_drained_waits_alone() {
        let at = |second: u64| 1000 * SECOND + second * SECOND;
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

    /// Scenario: a background collection has run for ten seconds when the machine is suspended for an hour.
    /// Guarantee: it has run for ten seconds.
    #[test]
    fn an_hour_of_suspension_is_no_age() {
        let mut session = attached(SECOND);
        session.open.background = Some(5 * SECOND);
        session.observe(7 * SECOND);
        session.clock_was_set(3_600_000_000_000);
        let facts = session.facts(ContainerFacts::default(), MemoryFacts::default());
        assert_eq!(facts.open.background, Some(3605 * SECOND));
        assert_eq!(facts.newest_unix_ns, Some(3607 * SECOND));
        assert_eq!((facts.open.stop, session.newest_unix_ns), (None, 7 * SECOND));
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

    /// Scenario: a heap dump of gcwatch's own that goes on, then ended; collections before, within and after it.
    /// Guarantee: those within are its own, clocks of half a second apart included.
    #[test]
    fn the_time_of_an_own_dump_is_known() {
        let at = |seconds: u64| (1_000 + seconds) * SECOND;
        let mut session = RunSession::new(at(0));
        assert!(!session.is_own_dump(at(10)));
        session.own_dump = Some((at(10), None));
        assert!(session.is_own_dump(at(10) - SECOND / 2) && session.is_own_dump(at(600)));
        session.own_dump = Some((at(10), Some(at(12))));
        assert!(session.is_own_dump(at(12) + SECOND / 2));
        assert!(!session.is_own_dump(at(9)) && !session.is_own_dump(at(13)));
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
