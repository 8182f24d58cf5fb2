//! Properties of all stories.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use proptest::prelude::*;
use rule_engine::alert::Transition;
use rule_engine::engine::{Engine, State};
use rule_engine::rule_set::RuleSet;

use super::story::StoryEvent::{Blind, Full, Gc, Named, Nothing, Open};
use super::story::*;

/// Rules of every kind: on collections and on the process, with and without windows, `for`, `clear`, groups,
/// exceptions.
const MANY: &str = r#"
  - {id: a, title: a, on: gc, severity: info, group: g, when: "gc.pause_ms > 50.0", keep_firing_for: 5s, cooldown: 10s, summary: a}
  - {id: b, title: b, on: gc, severity: error, group: g, when: "gc.generation == 2 && gc.pause_ms > 100.0", keep_firing_for: 2s, cooldown: 0s, summary: b}
  - {id: c, title: c, on: process, severity: warning, group: g, let: {n: {fn: count, over: 20s}}, when: "n > 4.0", for: 3s, keep_firing_for: 4s, cooldown: 7s, summary: "{{ n }}"}
  - {id: d, title: d, on: process, severity: warning, let: {share: {fn: share, of: gc.pause_ns, over: 30s, min_watched: 10s}}, when: "share > 0.02", clear: "share < 0.01", cooldown: 5s, summary: "{{ share }}"}
  - {id: e, title: e, on: gc, severity: critical, let: {usual: {fn: median, of: gc.pause_ms, last: 5, by: generation_and_type, min_samples: 2}}, when: "gc.pause_ms > 3.0 * usual", keep_firing_for: 0s, cooldown: 0s, group: g, summary: "{{ usual }}"}
  - {id: f, title: f, on: process, severity: error, when: "open.collection_s > 5.0", for: 2s, cooldown: 3s, group: h, summary: f}
  - {id: g, title: g, on: process, severity: error, group: h, let: {s: {fn: slope, of: stream.silent_s, over: 1m, min_samples: 3}, m: {fn: median, of: gc.pause_ms, over: 15s, min_samples: 2}}, when: "m > 40.0", summary: "{{ m }} {{ s }}"}
  - {id: h, title: h, on: gc, severity: warning, select: "process.name != 'x'", when: "gc.pause_ms > 20.0", exceptions: [{name: y, when: "process.name == 'y'"}], cooldown: 4s, summary: h}
"#;

/// Rules with separate windows that apply only to some processes; at the start and at the end of a set.
const CHOSEN_FIRST: &str = r#"
  - {id: z1, title: z, on: process, severity: info, select: "process.name == 'x'", let: {n: {fn: mean, of: gc.pause_ms, over: 9s}, o: {fn: max, of: gc.pause_ms, last: 3}}, when: "n > 10.0 || o > 10.0", summary: z}
"#;
const CHOSEN_LAST: &str = r#"
  - {id: z2, title: z, on: process, severity: info, select: "process.name == 'y'", let: {n: {fn: count, over: 9s}}, when: "n > 2.0", summary: z}
"#;

/// The rules of `MANY`, loaded twice.
static READ: LazyLock<[Arc<RuleSet>; 2]> = LazyLock::new(|| [rules(MANY), rules(MANY)]);

static WITH_CHOSEN: LazyLock<Arc<RuleSet>> = LazyLock::new(|| rules(&[CHOSEN_FIRST, MANY, CHOSEN_LAST].concat()));

/// Conditions that are true or false for any known value.
static BLIND: LazyLock<Arc<RuleSet>> = LazyLock::new(|| {
    rules(
        r#"
  - {id: a, title: a, on: gc, severity: info, when: "gc.pause_ms > 50.0", summary: a}
  - {id: a2, title: a, on: gc, severity: info, when: "!(gc.pause_ms > 50.0)", summary: a}
  - {id: b, title: b, on: gc, severity: info, when: "!(gc.reason == 'Induced')", summary: b}
  - {id: c, title: c, on: process, severity: info, let: {m: {fn: mean, of: gc.pause_ms, over: 1m}}, when: "m > 5.0 || !(m > 4.0)", summary: c}
  - {id: d, title: d, on: process, severity: info, let: {n: {fn: count, where: gc.generation == 2, over: 1m}}, when: "n < 1.0 && process.watched_s < 100000.0", for: 2s, summary: d}
  - {id: e, title: e, on: process, severity: info, when: "process.name != 'x'", summary: e}
"#,
    )
});

/// Windows and rules whose conditions depend only on the kind of a collection, and equivalent conditions in other
/// words.
static OF_KIND: LazyLock<Arc<RuleSet>> = LazyLock::new(|| {
    rules(
        r#"
  - {id: same, title: same, on: process, severity: info, let: {
     kind: {fn: count, where: "gc.generation == 2 && gc.blocking", over: 20s},
     each: {fn: count, where: "(gc.generation == 2 && gc.blocking && gc.pause_ms > 0.0) || gc.pause_ms > 1000000.0", over: 20s}}, when: "kind == each", summary: same}
  - {id: other, title: other, on: process, severity: info, let: {
     kind: {fn: count, where: "gc.generation == 2 && gc.blocking", over: 20s},
     each: {fn: count, where: "(gc.generation == 2 && gc.blocking && gc.pause_ms > 0.0) || gc.pause_ms > 1000000.0", over: 20s}}, when: "kind != each", summary: other}
  - {id: kind, title: kind, on: gc, severity: info, when: "gc.generation == 2 && gc.blocking", keep_firing_for: 1s, cooldown: 0s, summary: kind}
  - {id: each, title: each, on: gc, severity: info, when: "(gc.generation == 2 && gc.blocking && gc.pause_ms > 0.0) || gc.pause_ms > 1000000.0", keep_firing_for: 1s, cooldown: 0s, summary: each}
"#,
    )
});

fn many() -> Story {
    Story::with(Arc::clone(&READ[0]))
}

fn what() -> impl Strategy<Value = StoryEvent> {
    prop_oneof![
        4 => Just(Nothing),
        8 => (1..200i64).prop_map(Gc),
        3 => (1..400i64).prop_map(Full),
        2 => Just(Blind),
        1 => prop::sample::select(vec!["x", "y", "z"]).prop_map(Named),
        1 => prop::option::of(0..30u64).prop_map(Open),
    ]
}

/// Returns events, each some milliseconds after the previous one, and occasionally after a long silence.
fn story() -> impl Strategy<Value = Vec<(f64, StoryEvent)>> {
    let gap = prop_oneof![20 => 1..4000u64, 1 => 10_000..900_000u64];
    prop::collection::vec((gap, what()), 1..80).prop_map(|steps| {
        let mut at = 0;
        let step = |(gap, what)| {
            at += gap;
            (at as f64 / 1000.0, what)
        };
        steps.into_iter().map(step).collect()
    })
}

/// Returns all transitions as text.
fn seen(transitions: &[Transition]) -> Vec<String> {
    let one = |transition: &Transition| {
        let alert = transition.alert();
        format!("{} {alert:?}", words(std::slice::from_ref(transition)))
    };
    transitions.iter().map(one).collect()
}

proptest! {
    /// Scenario: in any story, the data about the collections is unknown, and conditions are true or false for any
    /// known value.
    /// Guarantee: an unknown condition never matches and never fires.
    #[test]
    fn unknown_never_fires(gaps in prop::collection::vec(1..5000u64, 1..60)) {
        let mut story = Story::with(Arc::clone(&BLIND));
        let mut at = 0.0;
        // A window without samples has the known count 0, so the first collection comes at once.
        for gap in std::iter::once(1).chain(gaps) {
            at += gap as f64 / 1000.0;
            let transitions = story.step(at, &Nothing);
            prop_assert_eq!(words(&transitions), "");
            let verdict = story.collection(at, 0, None);
            prop_assert!(verdict.matched.is_empty());
            prop_assert_eq!(words(&verdict.transitions), "");
        }
    }

    /// Scenario: two engines play any story; one of them adopts the same rules, loaded again, at any time.
    /// Guarantee: both engines have the same transitions and states.
    #[test]
    fn adopting_equal_rules_changes_nothing(steps in story(), often in 1..5usize) {
        let (mut once, mut again) = (many(), many());
        for (index, (at, what)) in steps.iter().enumerate() {
            prop_assert_eq!(seen(&once.step(*at, what)), seen(&again.step(*at, what)), "at {} s", at);
            if index % often == 0 {
                let now = moment(*at);
                prop_assert_eq!(seen(&again.engine.adopt(Arc::clone(&READ[(index / often + 1) % 2]), now)), Vec::<String>::new());
                prop_assert_eq!(once.engine.states(), again.engine.states());
            }
        }
    }

    /// Scenario: two engines play any story in which the process changes its name; one of them has additional rules for
    /// some names, with separate windows.
    /// Guarantee: the common rules fire and end at the same times.
    #[test]
    fn rules_for_other_processes_change_nothing(steps in story()) {
        let (mut without, mut with) = (many(), Story::with(Arc::clone(&WITH_CHOSEN)));
        for (at, what) in &steps {
            let expected = words(&without.step(*at, what));
            let mut seen = with.step(*at, what);
            seen.retain(|transition| !transition.alert().rule.id.starts_with('z'));
            prop_assert_eq!(words(&seen), expected, "at {} s", at);
        }
    }

    /// Scenario: two engines play any story; for one of them the wall clock is set forward and back by up to two hours
    /// at any time, as by NTP or after a suspend of the machine.
    /// Guarantee: the same rules fire and end, at the same elapsed times.
    #[test]
    fn set_wall_clock_changes_nothing(steps in story(), set in prop::collection::vec((0..12usize, -7200..7200i64), 1..9)) {
        let (mut even, mut set_often) = (many(), many());
        let mut set = set.into_iter().cycle();
        let (mut wait, mut by) = set.next().unwrap_or_default();
        for (at, what) in &steps {
            if wait == 0 {
                set_often.set_clock(by);
                (wait, by) = set.next().unwrap_or_default();
            }
            wait = wait.saturating_sub(1);
            let (expected, seen) = (even.step(*at, what), set_often.step(*at, what));
            prop_assert_eq!(words(&expected), words(&seen), "at {} s", at);
            prop_assert_eq!(even.states(), set_often.states(), "at {} s", at);
        }
    }

    /// Scenario: two engines play any story; for one of them the time advances in more steps.
    /// Guarantee: the transitions are the same, at the same times.
    #[test]
    fn time_can_advance_in_any_steps(steps in story(), parts in 2..7u64) {
        let (mut few, mut many) = (many(), many());
        let mut before = 0.0;
        for (at, what) in steps {
            let mut passed = Vec::new();
            for part in 1..parts {
                let between = before + (at - before) * part as f64 / parts as f64;
                passed.extend(many.engine.advance(moment(between)));
            }
            passed.extend(many.step(at, &what));
            prop_assert_eq!(seen(&few.step(at, &what)), seen(&passed), "at {} s", at);
            before = at;
        }
        prop_assert_eq!(few.engine.states(), many.engine.states());
    }

    /// Scenario: in any story, two windows count the same collections and two rules on collections have the same
    /// meaning; one condition depends only on the kind of a collection, the other is evaluated for each collection.
    /// Guarantee: the windows always have the same value, and the rules have the same alerts.
    #[test]
    fn cached_result_of_kind_equals_evaluation(steps in story()) {
        let mut story = Story::with(Arc::clone(&OF_KIND));
        for (at, what) in &steps {
            let transitions = story.step(*at, what);
            let of = |id: &'static str| {
                let of_rule = transitions.iter().filter(move |transition| &*transition.alert().rule.id == id);
                of_rule.map(|transition| (transition.alert().started, transition.alert().ended)).collect::<Vec<_>>()
            };
            prop_assert_eq!(of("kind"), of("each"));
            prop_assert_eq!(of("other"), Vec::new());
        }
    }

    /// Scenario: any story is played to its end.
    /// Guarantee: every alert has a unique number, starts once and ends once, not before its start. One rule of a group
    /// fires, and no inhibited rule is more severe. The engine's alerts match the transitions.
    #[test]
    fn alerts_start_and_end_and_groups_fire_one(steps in story()) {
        let mut story = many();
        let mut firing = HashMap::new();
        let mut last_number = 0;
        let mut follow = |transitions: &[Transition], firing: &mut HashMap<u64, String>| {
            for transition in transitions {
                match transition {
                    Transition::Fired(alert) => {
                        assert!(alert.number > last_number && alert.ended.is_none());
                        assert!(alert.active <= alert.started);
                        last_number = alert.number;
                        firing.insert(alert.number, alert.rule.id.to_string());
                    }
                    Transition::Ended(alert, _) => {
                        assert_eq!(firing.remove(&alert.number).as_deref(), Some(&*alert.rule.id));
                        assert!(alert.ended >= Some(alert.started));
                    }
                }
            }
        };
        for (at, what) in steps {
            follow(&story.step(at, &what), &mut firing);
            let states = story.engine.states();
            let rules = story.engine.rules().rules.iter();
            let of = |group, wanted| {
                let pairs = rules.clone().zip(&states);
                pairs.filter(move |(rule, state)| rule.group == group && state.state == wanted).map(|(rule, _)| rule.severity)
            };
            for group in [Some(0), Some(1)] {
                let fires: Vec<_> = of(group, State::Firing).collect();
                let inhibited = of(group, State::Inhibited).max();
                prop_assert!(fires.len() <= 1);
                prop_assert!(inhibited <= fires.first().copied(), "{:?} fires, {:?} does not", fires, inhibited);
            }
            let asked: HashMap<u64, String> =
                story.engine.alerts().iter().map(|alert| (alert.number, alert.rule.id.to_string())).collect();
            prop_assert_eq!(&asked, &firing);
        }
        follow(&story.engine.end(moment(1e6)), &mut firing);
        prop_assert!(firing.is_empty());
    }
}

/// Scenario: 100,000 collections occur, 1,000 per second.
/// Guarantee: memory is within the limit.
#[test]
fn memory_is_bounded() {
    let mut story = many();
    let most = Engine::most_memory(story.engine.rules());
    for number in 0..100_000u32 {
        story.step(f64::from(number) / 1000.0, &Gc(i64::from(number % 100)));
        assert!(story.engine.memory() <= most, "{number}");
    }
    assert!(story.engine.memory() > 10_000);
}
