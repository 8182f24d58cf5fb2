//! Stories of groups: each incident raises one alert.

use rule_engine::engine::State;

use super::story::StoryEvent::{End, Full, Gc, Nothing};
use super::story::*;

const GROUP: &str = r#"
  - {id: pause.long, title: Long, on: gc, group: g, severity: warning, when: gc.pause_ms > 100.0, keep_firing_for: 30s,
     cooldown: 1m, summary: "long, number {{ gc.number }}"}
  - {id: pause.full, title: Full, on: gc, group: g, severity: warning, when: gc.generation == 2, keep_firing_for: 60s,
     cooldown: 1m, summary: "full, number {{ gc.number }}"}
  - {id: pause.awful, title: Awful, on: gc, group: g, severity: critical, when: gc.pause_ms > 1000.0, keep_firing_for: 10s,
     cooldown: 1m, summary: "awful, number {{ gc.number }}"}
  - {id: other, title: Another group, on: gc, group: h, severity: info, when: gc.pause_ms > 1000.0, keep_firing_for: 5s,
     cooldown: 0s, summary: other}
"#;

/// Scenario: a collection matches three rules of a group, and a rule of another group.
/// Guarantee: all rules match, only the most severe rule of the group fires, the others are inhibited, and the other
/// group is independent.
#[test]
fn most_severe_rule_of_group_fires() {
    let mut story = Story::from_list(GROUP);
    let verdict = story.collection(1.0, 2, Some(2000));
    let matched: Vec<&str> = verdict.matched.iter().map(|rule| &*rule.id).collect();
    assert_eq!(matched, ["pause.long", "pause.full", "pause.awful", "other"]);
    let mut fired: Vec<String> = verdict
        .transitions
        .iter()
        .map(|one| words(std::slice::from_ref(one)))
        .collect();
    fired.sort();
    assert_eq!(fired, ["fired other 1", "fired pause.awful 1"]);
    assert_eq!(
        story.states(),
        [State::Inhibited, State::Inhibited, State::Firing, State::Firing]
    );
}

/// Scenario: a rule of a group fires, then an equally severe rule becomes active, then a more severe rule, which ends
/// while the others are still active.
/// Guarantee: the equally severe rule does not fire; the more severe rule supersedes the first rule. When it ends, the
/// first active rule fires with the text of its newest collection, without a cooldown because its condition never
/// became false.
#[test]
fn more_severe_rule_supersedes() {
    let mut story = Story::from_list(GROUP);
    story.play(&[
        (1.0, Gc(200), "fired pause.long 1"),
        (2.0, Full(50), ""),
        (
            3.0,
            Full(2000),
            "fired other 3, ended pause.long 3 superseded, fired pause.awful 3",
        ),
        (8.0, Nothing, "ended other 8 cleared"),
        (12.0, Nothing, ""),
    ]);
    let transitions = story.step(13.0, &Nothing);
    assert_eq!(words(&transitions), "ended pause.awful 13 cleared, fired pause.long 13");
    let alert = transitions[1].alert();
    assert_eq!((&*alert.summary, alert.count, alert.number), ("long, number 3", 2, 4));
    assert_eq!((alert.active, alert.last), (moment(1.0), moment(3.0)));
    story.play(&[
        // The rule that was inhibited all the time takes over from the equally severe rule.
        (33.0, Nothing, "ended pause.long 33 cleared, fired pause.full 33"),
        // In the cooldown of the first rule, the collection is an anomaly but raises no alert.
        (40.0, Gc(200), ""),
        (63.0, Nothing, "ended pause.full 63 cleared"),
        (93.0, Gc(200), "fired pause.long 93"),
        (94.0, End, "ended pause.long 94 process-ended"),
    ]);
}
