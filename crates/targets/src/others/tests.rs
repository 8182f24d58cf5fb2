//! Tests that pass looks at fixed times to [`ForeignConnections`].

use super::*;

/// A process with one session of gcwatch, connection number 1, and the connections of other tools that a test adds.
struct Scene {
    others: ForeignConnections,
    began: Instant,
    generation: u64,
    own: Vec<u64>,
}

impl Scene {
    /// Creates a scene with an attached process and two looks.
    fn new() -> Self {
        let mut scene = Self::unseen();
        scene.look(&[1]);
        scene.look(&[1]);
        assert_eq!(scene.others.observes(scene.at(0.0)), Some(false));
        scene
    }

    fn unseen() -> Self {
        Self {
            others: ForeignConnections::default(),
            began: Instant::now(),
            generation: 5,
            own: vec![0],
        }
    }

    fn at(&self, seconds: f64) -> Instant {
        self.began + Duration::from_secs_f64(seconds)
    }

    fn seen(&self, accepted: &[u64], whole: bool) -> Option<ObservedConnections> {
        let mut own = OpenConnections::default();
        (own.generation, own.numbers) = (self.generation, self.own.clone());
        let accepted = accepted.to_vec();
        Some(ObservedConnections { accepted, whole, own })
    }

    /// Performs a look that finds these connections. Returns whether the look does not count.
    fn look(&mut self, accepted: &[u64]) -> bool {
        let seen = self.seen(accepted, true);
        self.others.look(seen)
    }

    /// Heals the process now if a healing is due, and returns whether a healing was due.
    fn heal(&mut self, seconds: f64) -> bool {
        let now = self.at(seconds);
        let begins = self.others.begin(now);
        if begins {
            self.others.ended(Some(HealOutcome::Yes), now);
        }
        begins
    }
}

/// Scenario: another tool's session opens, stays open, and is replaced by another session between two looks; a second
/// session joins; then both sessions end.
/// Guarantee: the process counts as observed by other tools from the first look that shows a session until the last
/// healing, and each ended session requests a healing.
#[test]
fn sessions_of_other_tools_are_tracked() {
    // The columns are the connections found, whether a healing is due, and whether other tools observe the process.
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

/// Scenario: for a minute, another tool connects every second, each time visible to a look.
/// Guarantee: the process is healed once per 10 s and once after the last connection; a delayed healing is not lost.
#[test]
fn frequent_connections_share_healings() {
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

/// Scenario: a connection ends, the healing fails three times, then succeeds; another connection ends.
/// Guarantee: the healing is retried at doubled intervals; after the success, the usual interval applies again. Until
/// the success, the process counts as observed by other tools.
#[test]
fn failed_healing_is_retried() {
    let mut scene = Scene::new();
    scene.look(&[1, 7]);
    scene.look(&[1]);
    let mut tried = Vec::new();
    for second in 0..200_u32 {
        let now = scene.at(second.into());
        if scene.others.begin(now) {
            tried.push(second);
            scene.others.ended((tried.len() > 3).then_some(HealOutcome::Yes), now);
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

/// Scenario: connections of gcwatch open and close: a command between two looks, a command whose end the runtime closes
/// later, and a session that is open in one look and closed in the next.
/// Guarantee: looks during such changes do not count, no connection of gcwatch counts as a connection of another tool,
/// and the end of another tool's session during such a change is detected at the next look that counts.
#[test]
fn own_connections_are_not_counted_as_foreign() {
    let mut scene = Scene::new();
    // A command has ended; the runtime has not closed its end, 2.
    scene.generation += 2;
    assert!(scene.look(&[1, 2]));
    assert!(!scene.look(&[1]));
    assert!(!scene.heal(0.0));
    // A second session of gcwatch, 3, is in two looks and then ends.
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
    // Another tool's session, 4, ends while a command of gcwatch opens and closes.
    scene.look(&[1, 4]);
    scene.generation += 2;
    assert!(scene.look(&[1]));
    assert!(!scene.heal(0.0));
    assert!(!scene.look(&[1]));
    assert!(scene.heal(0.0));
}

/// Scenario: looks fail, do not show gcwatch's own connection, or can read only gcwatch's own table.
/// Guarantee: gcwatch reports connections of other tools only if its own table shows them, and otherwise reports that
/// the connections are unknown. Two looks at only gcwatch's own table are compared with each other.
#[test]
fn failed_look_is_unknown() {
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
    // Only gcwatch's own table was read. Other connections can be in the table of the process.
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
/// Guarantee: the healing is postponed and not lost.
#[test]
fn postponed_healing_is_not_lost() {
    let mut scene = Scene::new();
    scene.look(&[1, 7]);
    scene.look(&[1]);
    scene.others.postpone(scene.at(30.0));
    assert!(!scene.others.begin(scene.at(29.0)));
    assert!(scene.others.begin(scene.at(30.0)));
}

/// Scenario: a Verbose session ends while another tool's heap dump is observed; the stream reports the end of the
/// dump's session. A second dump is observed after the end of its session. A third dump has no reported end, first
/// while its tool is connected and then when no tool is connected. The end of a fourth dump is never observed.
/// Guarantee: the process is not healed while the session of a dump can be open, and is healed afterwards, whether the
/// end was observed or not.
#[test]
fn healing_waits_for_heap_dump() {
    let mut scene = Scene::new();
    scene.look(&[1, 7, 8]);
    scene.look(&[1, 8]);
    scene.others.dumped(100, scene.at(1.0));
    assert!(!scene.heal(1.0));
    scene.others.session_ended(99);
    assert!(!scene.heal(2.0), "another session has ended");
    scene.others.session_ended(200);
    assert!(scene.heal(3.0));

    scene.look(&[1]);
    scene.others.session_ended(300);
    scene.others.dumped(250, scene.at(20.0));
    assert!(
        scene.heal(20.0),
        "the session of the dump had ended before the dump was reported"
    );

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

/// Scenario: the runtime is busy during four healings, and later idle.
/// Guarantee: the healing is retried after the usual interval, without counting as a failure.
#[test]
fn busy_runtime_is_healed_later() {
    let mut scene = Scene::new();
    scene.look(&[1, 7]);
    scene.look(&[1]);
    for seconds in [0.0, 10.0, 20.0, 30.0] {
        let now = scene.at(seconds);
        assert!(scene.others.begin(now), "{seconds}");
        scene.others.ended(Some(HealOutcome::Busy), now);
        assert!(!scene.others.is_due(scene.at(seconds + 9.0)));
    }
    assert!(scene.heal(40.0));
    assert!(!scene.heal(60.0));
}
