//! Stories of the states of one rule.

use rule_engine::engine::State;
use rule_engine::rule::Severity;

use super::story::StoryEvent::{Blind, End, Full, Gc, Named, Nothing, Open};
use super::story::*;

const LONG: &str = r#"
  - {id: long, title: Long, on: gc, severity: warning, when: gc.pause_ms > 100.0, keep_firing_for: 60s, cooldown: 0s,
     summary: "paused {{ gc.pause_ms | ms }}, number {{ gc.number }}"}
"#;

/// Scenario: there are long pauses, some within a minute of each other, then none.
/// Guarantee: each long pause is an occurrence. Occurrences within a minute form one alert, which ends one minute after
/// its last occurrence and has the times of the collections.
#[test]
fn rule_on_collections_fires_until_minute_without_occurrence() {
    let mut story = Story::from_list(LONG);
    story.play(&[
        (1.0, Gc(10), ""),
        (2.5, Gc(300), "fired long 2.5"),
        (3.0, Gc(20), ""),
        (40.25, Full(200), ""),
        (100.0, Nothing, ""),
        (100.2, Nothing, ""),
        (101.0, Nothing, "ended long 100.25 cleared"),
        (200.0, Nothing, ""),
    ]);
    // The alert ended before the next one started, although there was no tick between them.
    let transitions = story.step(300.1, &Gc(101));
    assert_eq!(words(&transitions), "fired long 300.1");
    let alert = transitions[0].alert();
    assert_eq!(&*alert.summary, "paused 101 ms, number 5");
    assert_eq!((alert.collection, alert.count, alert.number), (Some(5), 1, 2));
    story.play(&[
        (360.0, Nothing, ""),
        (360.5, Gc(500), "ended long 360.1 cleared, fired long 360.5"),
    ]);
}

/// Scenario: there is an occurrence, then two more, then the process exits.
/// Guarantee: the alert counts all occurrences and has the time of the newest occurrence, while the alert fires and at
/// its end.
#[test]
fn occurrences_are_counted() {
    let mut story = Story::from_list(LONG);
    for at in [1.0, 2.0, 3.5] {
        let verdict = story.collection(at, 0, Some(150));
        assert_eq!(verdict.matched.len(), 1);
    }
    assert!(story.collection(4.0, 0, Some(5)).matched.is_empty());
    let alert = story.engine.alerts().remove(0);
    assert_eq!((alert.count, alert.last), (3, moment(3.5)));
    let ended = story.step(5.0, &End);
    assert_eq!(words(&ended), "ended long 5 process-ended");
    assert_eq!(ended[0].alert().count, 3);
    assert!(story.engine.alerts().is_empty());
}

const OPEN: &str = r#"
  - {id: stuck, title: Stuck, on: process, severity: error, when: open.collection_s > 10.0, for: 5s, keep_firing_for: 3s,
     cooldown: 20s, summary: "for {{ open.collection_s | s }}"}
"#;

/// Scenario: a collection stays open while no event arrives; then no collection is open; then one is open again.
/// Guarantee: the condition becomes true by elapsed time only, fires after `for`, stays for `keep_firing_for`, and
/// fires again only after the cooldown.
#[test]
fn condition_becomes_true_without_events() {
    Story::from_list(OPEN).play(&[
        (1.0, Open(Some(0)), ""),
        (10.0, Nothing, ""),
        (15.5, Nothing, ""),
        (16.0, Nothing, "fired stuck 16"),
        (20.5, Open(None), ""),
        (23.0, Nothing, ""),
        (24.0, Nothing, "ended stuck 24 cleared"),
        // The condition is true from 35 s, can fire from 40 s, and fires at the end of the cooldown.
        (24.5, Open(Some(24)), ""),
        (43.0, Nothing, ""),
        (44.0, Nothing, "fired stuck 44"),
    ]);
}

/// Scenario: a condition is true for less than `for`; another becomes false and true again while the alert is kept.
/// Guarantee: the first condition never fires; the second has one alert.
#[test]
fn short_conditions_do_not_fire_and_returning_ones_continue() {
    Story::from_list(OPEN).play(&[
        (1.0, Open(Some(0)), ""),
        (14.0, Open(None), ""),
        (30.0, Open(Some(18)), ""),
        (35.0, Nothing, ""),
        (36.0, Nothing, "fired stuck 36"),
        (40.0, Open(None), ""),
        (42.5, Open(Some(18)), ""),
        (60.0, Open(None), ""),
        (63.0, Nothing, ""),
        (64.0, Nothing, "ended stuck 64 cleared"),
    ]);
}

/// Scenario: the condition is true during the cooldown, the first time only for a short time.
/// Guarantee: the short alert is suppressed and counted in the next alert.
#[test]
fn alerts_suppressed_by_cooldown_are_counted() {
    let mut story = Story::from_list(OPEN);
    story.play(&[
        (1.0, Open(Some(0)), ""),
        (16.0, Nothing, "fired stuck 16"),
        (16.0, Open(None), ""),
        (20.0, Nothing, "ended stuck 20 cleared"),
        (20.5, Open(Some(5)), ""),
        (30.0, Nothing, ""),
        (30.5, Open(None), ""),
        (50.0, Nothing, ""),
    ]);
    assert_eq!(story.engine.states()[0].suppressed, 1);
    story.step(50.5, &Open(Some(20)));
    let transitions = story.step(56.0, &Nothing);
    assert_eq!(words(&transitions), "fired stuck 56");
    assert_eq!(transitions[0].alert().suppressed, 1);
    assert_eq!(story.engine.states()[0].suppressed, 0);
}

/// Scenario: occurrences of a rule on collections fall into its cooldown.
/// Guarantee: the collections are anomalies without an alert, and the next alert counts them.
#[test]
fn collections_in_cooldown_are_still_anomalies() {
    let mut story = Story::from_list(&LONG.replace("60s", "1s").replace("cooldown: 0s", "cooldown: 1m"));
    story.play(&[(1.0, Gc(200), "fired long 1"), (2.0, Nothing, "ended long 2 cleared")]);
    for at in [3.0, 30.0, 61.9] {
        let verdict = story.collection(at, 0, Some(200));
        assert_eq!((verdict.matched.len(), words(&verdict.transitions)), (1, String::new()));
        story.engine.advance(moment(at));
    }
    let transitions = story.step(62.0, &Gc(200));
    assert_eq!(words(&transitions), "fired long 62");
    assert_eq!(transitions[0].alert().suppressed, 3);
}

const SHARE: &str = r#"
  - {id: share, title: Much of the time is stopped, on: process, severity: warning,
     let: {share: {fn: share, of: gc.pause_ns, over: 64s, min_watched: 10s}},
     when: share > 0.5, clear: share < 0.25, keep_firing_for: 0s, cooldown: 0s, summary: "{{ share | percent }}"}
"#;

/// Scenario: a share of time rises above the threshold of `when`, falls below it, and later falls below the threshold
/// of `clear`.
/// Guarantee: the alert clears only at the threshold of `clear`; nothing fires before the process was observed for long
/// enough; the alert contains the value.
#[test]
fn alert_clears_by_separate_condition() {
    let mut story = Story::from_list(SHARE);
    // 8 s of the first 8 s.
    story.play(&[(8.0, Gc(8_000), ""), (9.0, Nothing, "")]);
    let fired = story.step(10.0, &Nothing);
    assert_eq!(words(&fired), "fired share 10");
    assert_eq!(&*fired[0].alert().summary, "80 %");
    assert_eq!(fired[0].alert().values[0].1, Some(0.8));
    story.play(&[
        (17.0, Nothing, ""),
        (31.0, Nothing, ""),
        (32.0, Nothing, ""),
        (33.0, Nothing, "ended share 33 cleared"),
    ]);
}

const BURST: &str = r#"
  - {id: burst, title: Burst, on: process, severity: warning,
     let: {long: {fn: count, where: gc.pause_ms > 100.0, over: 10s}},
     when: long >= 2.0, clear: long < 1.0, keep_firing_for: 20s, summary: "{{ long }} long"}
"#;

/// Scenario: the count of an alert returns to 0, and the alert continues for `keep_firing_for`.
/// Guarantee: the alert ends with the last text from the time when its condition was true, not with a count of 0.
#[test]
fn last_text_is_from_time_of_true_condition() {
    let mut story = Story::from_list(BURST);
    story.play(&[(1.0, Gc(200), ""), (2.0, Gc(200), "fired burst 2")]);
    let ended = story.step(40.0, &Nothing);
    assert_eq!(words(&ended), "ended burst 32 cleared");
    assert_eq!(&*ended[0].alert().summary, "1 long");
}

const MEDIAN: &str = r#"
  - {id: slow, title: Slow, on: process, severity: warning,
     let: {median: {fn: median, of: gc.pause_ms, last: 4, min_samples: 3}},
     when: median > 100.0, keep_firing_for: 0s, cooldown: 1m, summary: "{{ median }}"}
"#;

/// Scenario: the samples of a window become unknown while the alert fires, and later they are known again.
/// Guarantee: an unknown condition neither fires an alert nor ends it at once. The alert is held for 15 minutes, then
/// ends as unknown, and the cooldown starts.
#[test]
fn alert_with_unknown_condition_is_held() {
    let mut story = Story::from_list(MEDIAN);
    assert_eq!(story.states(), [State::Inactive]);
    story.play(&[
        (1.0, Gc(200), ""),
        (2.0, Gc(200), ""),
        (3.0, Gc(200), "fired slow 3"),
        (4.5, Blind, ""),
        (5.0, Blind, ""),
        (800.0, Nothing, ""),
        (904.0, Nothing, ""),
        (905.0, Nothing, "ended slow 904.5 unknown"),
        (906.0, Nothing, ""),
    ]);
    assert_eq!(story.states(), [State::Unknown]);
    story.play(&[
        (907.0, Gc(200), ""),
        (908.0, Gc(200), ""),
        (909.0, Gc(200), ""),
        (909.5, Gc(200), ""),
        (964.0, Nothing, ""),
        (965.0, Nothing, "fired slow 965"),
        (966.0, Blind, ""),
        (967.0, Gc(10), ""),
        (968.0, Gc(10), ""),
        (969.0, Gc(10), ""),
        (970.0, Gc(10), "ended slow 970 cleared"),
    ]);
}

/// Scenario: a true condition becomes unknown before `for` has passed.
/// Guarantee: the rule is no longer pending, and unknown time does not count towards `for`.
#[test]
fn pending_rule_falls_back_to_unknown() {
    let mut story = Story::from_list(&MEDIAN.replace("keep_firing_for: 0s", "for: 10s"));
    story.play(&[
        (1.0, Gc(200), ""),
        (2.0, Gc(200), ""),
        (3.0, Gc(200), ""),
        (9.0, Nothing, ""),
    ]);
    assert_eq!(story.states(), [State::Pending]);
    story.play(&[(9.5, Blind, "")]);
    assert_eq!(story.states(), [State::Unknown]);
    story.play(&[
        (9.6, Gc(200), ""),
        (9.7, Gc(200), ""),
        (9.8, Gc(200), ""),
        (9.9, Gc(200), ""),
        (19.0, Nothing, ""),
        (20.0, Nothing, "fired slow 20"),
    ]);
}

const SLOW_ONE: &str = r#"
  - {id: slow, title: Slow, on: process, severity: error, keep_firing_for: 0s, cooldown: 0s,
     let: {n: {fn: count, where: gc.pause_ms > 100.0, over: 60s}}, when: n > 0.0, summary: "{{ n }}"}
"#;

/// Scenario: collections of generation 0 occur every 10 ms for half a minute; one of them is slow.
/// Guarantee: the condition on the process is evaluated at the first collection and each second, which detects the slow
/// collection and names the newest collection of that second.
#[test]
fn frequent_young_collections_are_evaluated_each_second() {
    let mut story = Story::from_list(SLOW_ONE);
    for number in 0..3000 {
        let at = f64::from(number) / 100.0;
        let pause = if number == 1105 { 101 } else { 1 };
        let expected = if number == 1200 { "fired slow 12" } else { "" };
        let transitions = story.step(at, &Gc(pause));
        assert_eq!(words(&transitions), expected, "at {at} s");
        // The newest collection before that second.
        assert!(transitions.iter().all(|fired| fired.alert().collection == Some(1200)));
    }
    assert_eq!(story.engine.states()[0].evaluations, 1 + 29);
}

/// Scenario: collections follow another collection closely: a slow one of generation 2, and a slow one of generation 0
/// before the process exits.
/// Guarantee: a full collection is evaluated at once, and the last collection of a process is evaluated at its exit.
#[test]
fn full_and_last_collections_are_evaluated() {
    let first = [(1.0, Nothing, ""), (1.3, Gc(1), "")];
    Story::from_list(SLOW_ONE).play(&[first.as_slice(), &[(1.4, Full(101), "fired slow 1.4")]].concat());
    let last = [
        (1.4, Gc(101), ""),
        (1.5, End, "fired slow 1.5, ended slow 1.5 process-ended"),
    ];
    Story::from_list(SLOW_ONE).play(&[first.as_slice(), &last].concat());
}

const FAILING: &str = r#"
  - {id: failing, title: Fails, on: gc, severity: warning, when: gc.number / (gc.generation - 2) > 1000, summary: never}
"#;

/// Scenario: a condition divides by zero for some collections.
/// Guarantee: the failures are counted and reported with the rule, and raise no alert.
#[test]
fn failures_are_counted() {
    let mut story = Story::from_list(FAILING);
    story.play(&[(1.0, Gc(1), ""), (2.0, Full(1), ""), (3.0, Full(1), "")]);
    let state = story.engine.states().remove(0);
    assert_eq!((state.evaluations, state.failures), (3, 2));
    assert_eq!(state.last_failure.as_deref(), Some("division by zero"));
    assert_eq!(state.state, State::Unknown);
}

const CHOSEN: &str = r#"
  - {id: chosen, title: For some, on: gc, severity: warning, select: process.name.startsWith('Web'),
     when: gc.pause_ms > 100.0, summary: long,
     exceptions: [{name: known, when: process.name == 'WebOld', until: 2023-11-15}]}
"#;

/// Scenario: the name of a process becomes known, then changes, then is excepted until the exception expires.
/// Guarantee: the rule does not apply before the name is known, a change ends a firing alert, and the exception applies
/// until the end of its day.
#[test]
fn rule_applies_to_selected_processes() {
    let mut story = Story::from_list(CHOSEN);
    // The stories start on 2023-11-14 at 22:13:20; the next day ends after 92,800 s.
    story.play(&[(1.0, Gc(200), "")]);
    assert_eq!(story.states(), [State::NotSelected]);
    story.play(&[
        (2.0, Named("Web"), ""),
        (3.0, Gc(200), "fired chosen 3"),
        (4.0, Named("Batch"), "ended chosen 4 rule-changed"),
        (5.0, Gc(200), ""),
        (6.0, Named("WebOld"), ""),
        (7.0, Gc(200), ""),
    ]);
    assert_eq!(story.states(), [State::Excepted]);
    assert!(story.collection(8.0, 0, Some(200)).matched.is_empty());
    story.play(&[(92_801.0, Gc(200), "fired chosen 92801")]);
}

/// Scenario: an exception becomes applicable while the alert fires.
/// Guarantee: the alert ends, because the rule would not fire now.
#[test]
fn exception_ends_firing_alert() {
    Story::from_list(CHOSEN).play(&[
        (2.0, Named("Web"), ""),
        (3.0, Gc(200), "fired chosen 3"),
        (4.0, Named("WebOld"), ""),
        (5.0, Gc(200), "ended chosen 5 rule-changed"),
    ]);
}

/// Scenario: a recording jumps ten hours, then centuries; the times of a stream are centuries ahead, then behind.
/// Guarantee: the work is bounded, alerts that were due to end in the gap have their own end times, and the time of the
/// stream does not move the engine.
#[test]
fn gaps_and_wild_times_are_bounded() {
    let mut story = Story::from_list(&format!("{LONG}{SHARE}"));
    story.play(&[
        (1.0, Gc(200), "fired long 1"),
        (36_000.0, Nothing, "ended long 61 cleared"),
        (36_001.0, Gc(200), "fired long 36001"),
    ]);
    story.engine.advance(base::time::Moment::NEVER);
    assert!(story.engine.alerts().is_empty());
    let mut story = Story::from_list(LONG);
    story.engine.collection(&collection(1, 0, i64::MAX, MS), base());
    story.play(&[
        (5.0, Gc(200), "fired long 5"),
        (100.0, Nothing, "ended long 65 cleared"),
    ]);
}

/// Scenario: conditions test whether a window is known, before it is known and afterwards.
/// Guarantee: the result is correct for each collection.
#[test]
fn window_can_be_tested_with_has() {
    let list = |when: &str| {
        let window = "{fn: median, of: gc.pause_ms, last: 5, min_samples: 3}";
        format!(
            "  - {{id: asked, title: Asked, on: gc, severity: info, let: {{usual: {window}}}, when: \"{when}\", \
             cooldown: 0s, keep_firing_for: 0s, summary: x}}\n"
        )
    };
    let matches = |when: &str| {
        let mut story = Story::from_list(&list(when));
        [1.0, 2.0, 3.0, 4.0].map(|at| !story.collection(at, 0, Some(7)).matched.is_empty())
    };
    assert_eq!(matches("has(usual)"), [false, false, true, true]);
    assert_eq!(matches("!has(usual)"), [true, true, false, false]);
    assert_eq!(
        matches("gc.pause_ms > 5.0 && (has(usual) ? usual > 5.0 : false)"),
        [false, false, true, true]
    );
    assert_eq!(matches("usual > 5.0"), [false, false, true, true]);
}

/// Scenario: the alert of a rule is an error above one second and critical above ten seconds; pauses take 0.5 s, 2 s,
/// 0.5 s and 20 s.
/// Guarantee: the severity rises and does not fall until the alert ends; the next alert starts with the lowest
/// severity.
#[test]
fn severity_rises_with_value() {
    let mut story = Story::from_list(
        "  - {id: pause, title: T, on: gc, severity: warning, when: gc.pause_ms > 100.0, summary: S, \
         worse: {error: gc.pause_ms > 1000.0, critical: gc.pause_ms > 10000.0}, keep_firing_for: 1m}\n",
    );
    let mut severity = |at: f64, pause_ms: i64| {
        story.step(at, &Nothing);
        story.collection(at, 2, Some(pause_ms));
        story
            .engine
            .alerts()
            .iter()
            .map(|alert| alert.severity)
            .collect::<Vec<_>>()
    };
    assert_eq!(severity(1.0, 500), [Severity::Warning]);
    assert_eq!(severity(10.0, 2000), [Severity::Error]);
    assert_eq!(severity(20.0, 500), [Severity::Error]);
    assert_eq!(severity(40.0, 20_000), [Severity::Critical]);
    assert_eq!(severity(41.0, 2000), [Severity::Critical]);
    assert_eq!(severity(300.0, 500), [Severity::Warning]);
    assert_eq!(severity(310.0, 20_000), [Severity::Critical]);
}
