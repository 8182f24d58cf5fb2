//! How a run is read: its state, its sessions and how far their streams were read.
//!
//! # When gcwatch itself is late
//!
//! A stop of the process and a stop of gcwatch look the same: no event comes. So the time of the rules passes up to
//! where the streams were read, plus [`ALLOWANCE_NS`], and while that is not up to now, what is in progress or silent
//! is unknown. Once the reader goes on, the collections that waited move the time themselves, as those of a recording
//! do.
//!
use base::time::Moment;
use gc_rules::field::{ContainerFacts, MemoryFacts, Open, StreamFacts};
use gc_telemetry::definition::own::target as row;
use gc_telemetry::snapshot::{MetricSnapshot, seconds, whole};

use processes::{RunState, StreamProgress};

/// How far the reader may be behind before what it knows of the present is no knowledge: it looks at all streams every
/// 200 ms, and says so every second.
pub(crate) const ALLOWANCE_NS: u64 = 3_000_000_000;
/// Without a collection for longer, a process rests: what collections said of its memory is old.
const RESTS_AFTER_NS: u64 = 60_000_000_000;

/// The clocks of the runtime and of gcwatch may differ by so much, and a collection begin before it is asked for.
const CLOCKS_DIFFER_NS: u64 = 500_000_000;

/// How a run is read.
#[derive(Debug, Default)]
pub struct RunSession {
    /// What is done with the process.
    pub state: RunState,
    /// When the state began.
    pub since: Moment,
    /// Where the run's totals begin.
    pub first_attach: Option<Moment>,
    /// Sessions begun.
    pub sessions: u64,
    /// How often what another tool's session left behind was healed.
    pub healings: u64,
    /// The sum over the sessions that ended, without the present one.
    ended_sessions: StreamProgress,
    present_session: StreamProgress,
    /// When the newest event of a collection was, over all sessions; [`Moment::FIRST`] before the
    /// first.
    pub newest: Moment,
    /// The same of the present session; `None` before its first collection.
    newest_of_session: Option<Moment>,
    /// From the end of the newest collection until it was processed.
    pub lag_ns: Option<u64>,
    /// The same as the rules see it: of the present session, and unknown where it is gcwatch's own.
    lag_of_target_ns: Option<u64>,
    /// The reader is behind, see the [module](self): the time that the rules may know.
    known_until: Option<Moment>,
    /// Whether the runtime ended the newest stream in order; `None`: it goes on, or there was none.
    pub closed_in_order: Option<bool>,
    /// Since when the stream brings more than is read of it.
    undrained_since: Option<Moment>,
    /// The time of the rules.
    pub(crate) rules_at: Moment,
    /// What has begun and not ended.
    pub open: Open,
    /// The newest heap dump of gcwatch's own: from when, until when (`None`: it goes on).
    pub own_dump: Option<(Moment, Option<Moment>)>,
    /// Objects whose finalizers have not run.
    pub finalizers_waiting: Option<u64>,
    /// The share of the time for which the finalizer thread had a CPU, of the round of finalizers that is open.
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

    /// A session begins: what it counts is added to what the earlier ones counted.
    pub(crate) fn begin(&mut self, start: Moment) {
        self.sessions += 1;
        self.ended_sessions = self.progress();
        self.present_session = StreamProgress::default();
        self.first_attach.get_or_insert(start);
        self.rules_at = self.rules_at.max(start);
        self.open = Open::default();
        self.finalizers_waiting = None;
        self.finalizer_cpu = None;
        self.newest_of_session = None;
        self.lag_of_target_ns = None;
        self.closed_in_order = None;
        self.undrained_since = None;
    }

    /// From the end of a collection until it was processed.
    pub(crate) fn set_lag(&mut self, lag_ns: Option<u64>) {
        self.lag_ns = lag_ns;
        self.lag_of_target_ns = lag_ns.filter(|_| self.known_until.is_none());
    }

    /// Whether the stream brings more than is read of it.
    pub(crate) fn set_undrained(&mut self, is: bool, now: Moment) {
        self.undrained_since = is.then(|| self.undrained_since.unwrap_or(now));
    }

    /// The time is now, and all streams were read up to `behind_ns` ago.
    pub(crate) fn tick(&mut self, now: Moment, behind_ns: u64) {
        let of_stream = self.undrained_since.map(|since| now.since(since));
        let behind_ns = behind_ns.max(of_stream.unwrap_or(0));
        // Of a process that is not read nothing is waited for.
        let is_behind = self.state == RunState::Attached && behind_ns > ALLOWANCE_NS;
        self.known_until = is_behind.then(|| now.before(behind_ns.saturating_sub(ALLOWANCE_NS)));
        if is_behind {
            self.lag_of_target_ns = None;
        }
    }

    /// A live collection or suspension of that time is about to be observed. `Some`: the time of the rules is so far
    /// behind it that it must pass first, up to then.
    pub(crate) fn catches_up(&mut self, at: Moment, now: Moment) -> Option<Moment> {
        let passed = at.min(now);
        // What is in progress was reported before what is being read now.
        let over = |begun: Option<Moment>| begun.filter(|begun| *begun > at);
        (self.open.stop, self.open.collection) = (over(self.open.stop), over(self.open.collection));
        let late = passed > self.rules_at.after(ALLOWANCE_NS);
        if late {
            self.known_until = Some(passed);
        }
        late.then_some(passed)
    }

    /// The time to which the rules may advance of that one.
    pub(crate) fn advances(&mut self, to: Moment) -> Moment {
        let to = self.known_until.map_or(to, |known| known.min(to));
        self.rules_at = self.rules_at.max(to);
        self.rules_at
    }

    /// A collection whose last event was then.
    pub(crate) fn observe(&mut self, last_event: Moment) {
        self.newest = self.newest.max(last_event);
        self.newest_of_session = self.newest_of_session.max(Some(last_event));
    }

    /// No collection has come for [`RESTS_AFTER_NS`], or none at all.
    pub fn rests(&self, now: Moment) -> bool {
        self.newest_of_session
            .is_none_or(|newest| now.since(newest) > RESTS_AFTER_NS)
    }

    /// Over all sessions.
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

    /// gcwatch has not read all that its stream brought.
    pub fn is_behind(&self) -> bool {
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
    pub fn facts(&self, container: ContainerFacts, memory: MemoryFacts) -> StreamFacts {
        let progress = self.progress();
        // Whether a process that is not read is silent is unknown.
        let attached = self.state == RunState::Attached;
        StreamFacts {
            since: self.first_attach,
            events: Some(progress.events),
            lost_events: progress.lost_events,
            undecodable: Some(progress.undecodable),
            sessions: Some(self.sessions),
            lag_ns: self.lag_of_target_ns,
            newest: self.newest_of_session.filter(|_| attached),
            open: if attached { self.open } else { Open::default() },
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

    /// The round of finalizers that is open, by its beginning, if that is longer ago than `longer_ns`.
    pub fn long_finalizers(&self, now: Moment, longer_ns: u64) -> Option<Moment> {
        let is_long = |begun: &Moment| now.since(*begun) > longer_ns;
        self.open
            .finalizers
            .filter(is_long)
            .filter(|_| self.state == RunState::Attached)
    }

    /// How much of the time the finalizer thread had a CPU in the round that began then; that one may have ended.
    pub(crate) fn know_finalizer_cpu(&mut self, begun: Moment, share: Option<f64>) {
        self.finalizer_cpu = share.filter(|_| self.open.finalizers == Some(begun));
    }

    /// gcwatch begins a heap dump of it (`true`), or has ended one.
    pub(crate) fn dumps(&mut self, begins: bool, now: Moment) {
        self.own_dump = match (begins, self.own_dump) {
            (true, _) => Some((now, None)),
            (false, known) => known.map(|(from, _)| (from, Some(now))),
        };
    }

    /// Whether a collection of that time is that of a heap dump of gcwatch's own.
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

    /// Scenario: two sessions one after the other, the second one of a stream that numbers its events.
    /// Guarantee: totals never fall back, and losses are unknown until a stream numbers its events, then counted once.
    #[test]
    fn totals_go_on_over_sessions() {
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

    /// Scenario: a suspension has begun when gcwatch is stopped for 75 s. It goes on: a tick comes before anything was
    /// read; then two collections that waited; then a tick after everything was read.
    /// Guarantee: the time passes up to where the stream was read and a little more; then with the collections; then up
    /// to now. Meanwhile what is in progress or silent is unknown, and the lag is not that of the process. The
    /// suspension is over with what came after it.
    #[test]
    fn time_waits_for_what_was_not_read() {
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

    /// Scenario: a collection is observed and finalizers run in one session; the session ends, another one begins.
    /// Guarantee: the rules know the newest event and the finalizers of the present session only, and nothing while
    /// there is none.
    #[test]
    fn the_rules_know_the_present_session_only() {
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

    /// Scenario: a heap dump of gcwatch's own that goes on, then ended; collections before, within and after it.
    /// Guarantee: those within are its own, clocks of half a second apart included.
    #[test]
    fn the_time_of_an_own_dump_is_known() {
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
