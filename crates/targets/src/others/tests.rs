//! Tables of times and looks, and what comes of them.

use super::*;

/// A process with one session of ours, connection number 1, and whoever else a test has there.
struct Scene {
    others: Others,
    began: Instant,
    generation: u64,
    own: Vec<u64>,
}

impl Scene {
    /// Attached, and looked at twice.
    fn new() -> Self {
        let mut scene = Self::unseen();
        scene.look(&[1]);
        scene.look(&[1]);
        assert_eq!(scene.others.observes(scene.at(0.0)), Some(false));
        scene
    }

    fn unseen() -> Self {
        Self {
            others: Others::default(),
            began: Instant::now(),
            generation: 5,
            own: vec![0],
        }
    }

    fn at(&self, seconds: f64) -> Instant {
        self.began + Duration::from_secs_f64(seconds)
    }

    fn seen(&self, accepted: &[u64], whole: bool) -> Option<Seen> {
        let mut own = OpenConnections::default();
        (own.generation, own.numbers) = (self.generation, self.own.clone());
        let accepted = accepted.to_vec();
        Some(Seen { accepted, whole, own })
    }

    /// A look that finds these connections.
    fn look(&mut self, accepted: &[u64]) -> bool {
        let seen = self.seen(accepted, true);
        self.others.look(seen)
    }

    /// Heals now, if that is due; `true`: it was.
    fn heal(&mut self, seconds: f64) -> bool {
        let now = self.at(seconds);
        let begins = self.others.begin(now);
        if begins {
            self.others.ended(Some(Healed::Yes), now);
        }
        begins
    }
}

/// Scenario: looks of a process in which another tool's session comes, stays, is replaced by another one between two
/// looks, is joined by a second one, and all end.
/// Guarantee: the process is observed by others from the first look that sees one until the healing of the last, and
/// each that is gone asks for a healing.
#[test]
fn sessions_of_others_are_seen_to_come_and_go() {
    // The connections found, whether a healing is due, whether others observe.
    let table: [(&[u64], bool, bool); 9] = [
        (&[1], false, false),
        (&[1, 7], false, true),
        (&[1, 7], false, true),
        (&[1, 8], true, true),
        (&[1, 8], false, true),
        (&[1, 8, 9], false, true),
        (&[1, 9], true, true),
        (&[1], true, true),
        (&[1], false, false),
    ];
    let mut scene = Scene::new();
    for (step, (accepted, due, observed)) in table.into_iter().enumerate() {
        let seconds = 20.0 * step as f64;
        assert!(!scene.look(accepted));
        assert_eq!(scene.others.observes(scene.at(seconds)), Some(observed), "step {step}");
        assert_eq!(scene.heal(seconds), due, "step {step}");
    }
}

/// Scenario: another tool asks every second for a minute, each time on a connection that a look sees.
/// Guarantee: one healing in ten seconds, and one after the last connection: a request that has to wait is not lost.
#[test]
fn many_that_come_and_go_are_healed_together() {
    let mut scene = Scene::new();
    let mut healed = Vec::new();
    for second in 0..100_u32 {
        let probe = u64::from(100 + second);
        let accepted = if second < 60 { vec![1, probe] } else { vec![1] };
        scene.look(&accepted);
        if scene.heal(second.into()) {
            healed.push(second);
        }
    }
    assert_eq!(healed, [1, 11, 21, 31, 41, 51, 61]);
}

/// Scenario: a connection ends, the healing fails three times, then succeeds; another one ends.
/// Guarantee: it is tried again, each time after twice as long, and from the first success on as usual; until then the
/// process counts as observed.
#[test]
fn a_healing_that_fails_is_repeated() {
    let mut scene = Scene::new();
    scene.look(&[1, 7]);
    scene.look(&[1]);
    let mut tried = Vec::new();
    for second in 0..200_u32 {
        let now = scene.at(second.into());
        if scene.others.begin(now) {
            tried.push(second);
            scene.others.ended((tried.len() > 3).then_some(Healed::Yes), now);
        }
        if tried.len() < 4 {
            assert_eq!(scene.others.observes(now), Some(true), "{second}");
        }
    }
    assert_eq!(tried, [0, 10, 30, 70]);
    let (later, much_later) = (scene.at(71.0), scene.at(72.5));
    assert_eq!(scene.others.observes(later), Some(false));
    scene.look(&[1, 8]);
    scene.look(&[1]);
    assert!(scene.others.is_due(scene.at(201.0)));
    assert_eq!(scene.others.observes(much_later), Some(true));
}

/// Scenario: connections of ours are made and closed: a command between two looks, one whose end the runtime still has
/// open at the next look, and a session that was open at one look and is closed at the next.
/// Guarantee: such looks do not count, none is taken for somebody else's, and a session of somebody else's that ended
/// meanwhile is noticed at the next look that counts.
#[test]
fn our_own_connections_are_nobody_elses() {
    let mut scene = Scene::new();
    // A command came and went; the runtime has not closed its end, 2.
    scene.generation += 2;
    assert!(scene.look(&[1, 2]));
    assert!(!scene.look(&[1]));
    assert!(!scene.heal(0.0));
    // A second session of ours, 3, at two looks; then it is over.
    scene.generation += 1;
    scene.own.push(9);
    assert!(scene.look(&[1, 3]));
    assert!(!scene.look(&[1, 3]));
    assert_eq!(scene.others.observes(scene.at(0.0)), Some(false));
    scene.generation += 1;
    scene.own.pop();
    assert!(scene.look(&[1]));
    assert!(!scene.look(&[1]));
    assert!(!scene.heal(0.0));
    // Somebody else's, 4, ends while a command of ours comes and goes.
    scene.look(&[1, 4]);
    scene.generation += 2;
    assert!(scene.look(&[1]));
    assert!(!scene.heal(0.0));
    assert!(!scene.look(&[1]));
    assert!(scene.heal(0.0));
}

/// Scenario: looks that could not be made, that do not show our own connection, and that could read our own table only.
/// Guarantee: what cannot be known is unknown; a table that is readable again is compared with the last one that was.
#[test]
fn what_is_not_seen_is_unknown() {
    let mut scene = Scene::unseen();
    let now = scene.at(0.0);
    assert_eq!(scene.others.observes(now), None);
    scene.look(&[1]);
    assert_eq!(scene.others.observes(now), None, "the first look does not count");
    scene.look(&[1, 7]);
    assert_eq!(scene.others.observes(now), Some(true));
    assert!(!scene.others.look(None));
    assert_eq!(scene.others.observes(now), None);
    assert!(!scene.look(&[]));
    assert_eq!(scene.others.observes(now), None);
    // Ours alone: what it does not show may be in the process's.
    let partial = scene.seen(&[1], false);
    scene.others.look(partial);
    assert_eq!((scene.others.observes(now), scene.others.is_due(now)), (None, false));
    let partial = scene.seen(&[1, 8], false);
    scene.others.look(partial);
    assert_eq!(scene.others.observes(now), Some(true));
    let partial = scene.seen(&[1], false);
    scene.others.look(partial);
    assert!(scene.others.is_due(now));
}

/// Scenario: a healing is due while memory is scarce.
/// Guarantee: it waits, and is not lost.
#[test]
fn a_healing_can_wait() {
    let mut scene = Scene::new();
    scene.look(&[1, 7]);
    scene.look(&[1]);
    scene.others.postpone(scene.at(30.0));
    assert!(!scene.others.begin(scene.at(29.0)));
    assert!(scene.others.begin(scene.at(30.0)));
}

/// Scenario: a Verbose session ends while another tool's heap dump is seen; the session of the dump ends, as the stream
/// says; a second dump is seen after the end of its session; a third, of which the stream shows no end, while the tool
/// is connected, and when it is not; a fourth that is never seen to end.
/// Guarantee: nothing is healed while a dump's session may stand, and all is healed when it is over, seen or not.
#[test]
fn nothing_is_healed_beside_a_heap_dump() {
    let mut scene = Scene::new();
    scene.look(&[1, 7, 8]);
    scene.look(&[1, 8]);
    scene.others.dumped(100, scene.at(1.0));
    assert!(!scene.heal(1.0));
    scene.others.session_ended(99);
    assert!(!scene.heal(2.0), "that was another session");
    scene.others.session_ended(200);
    assert!(scene.heal(3.0));

    scene.look(&[1]);
    scene.others.session_ended(300);
    scene.others.dumped(250, scene.at(20.0));
    assert!(scene.heal(20.0), "its session had ended before it was reported");

    scene.look(&[1, 9]);
    scene.look(&[1, 10]);
    scene.others.dumped(400, scene.at(40.0));
    assert!(!scene.heal(40.0));
    scene.look(&[1]);
    assert!(scene.heal(41.0), "no other tool is connected");

    scene.look(&[1, 11]);
    scene.look(&[1, 12]);
    scene.others.dumped(500, scene.at(60.0));
    assert!(!scene.heal(119.0));
    assert!(scene.heal(121.0));
}

/// Scenario: a healing meets a runtime that is busy; then one that is not.
/// Guarantee: it is tried again after the usual time, and that is no failure.
#[test]
fn a_busy_runtime_is_healed_later() {
    let mut scene = Scene::new();
    scene.look(&[1, 7]);
    scene.look(&[1]);
    for seconds in [0.0, 10.0, 20.0, 30.0] {
        let now = scene.at(seconds);
        assert!(scene.others.begin(now), "{seconds}");
        scene.others.ended(Some(Healed::Busy), now);
        assert!(!scene.others.is_due(scene.at(seconds + 9.0)));
    }
    assert!(scene.heal(40.0));
    assert!(!scene.heal(60.0));
}
