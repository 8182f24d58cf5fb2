//! Replacement of rules while a process is monitored.

use rule_engine::engine::State;

use super::story::StoryEvent::{Gc, Nothing, Rules};
use super::story::*;

const BEFORE: &str = r#"
  - {id: kept, title: Kept, on: gc, severity: warning, when: gc.pause_ms > 100.0, keep_firing_for: 60s, summary: kept}
  - {id: changed, title: Changed, on: gc, severity: warning, when: gc.pause_ms > 150.0, summary: changed}
  - {id: count, title: Count, on: process, severity: info, let: {collections: {fn: count, over: 5m}},
     when: collections >= 3.0, keep_firing_for: 0s, summary: "{{ collections }}"}
"#;

const AFTER: &str = r#"
  - {id: new, title: New, on: process, severity: info, let: {collections: {fn: count, over: 10m, min_watched: 30s}},
     when: collections == 0.0, summary: none}
  - {id: count, title: Count, on: process, severity: info, let: {collections: {fn: count, over: 5m}},
     when: collections >= 3.0, keep_firing_for: 0s, summary: "{{ collections }}"}
  - {id: changed, title: Changed, on: gc, severity: warning, when: gc.pause_ms > 160.0, summary: changed}
  - {id: kept, title: "Kept, with other words", on: gc, severity: warning, when: gc.pause_ms > 100.0,
     keep_firing_for: 60s, summary: other words}
"#;

/// Scenario: rules are replaced while two of them fire. The replacement changes only the texts and the position of one
/// rule, changes the threshold of a second rule, and adds a new rule. The window of a third rule contains two of the
/// three collections that its condition requires. Later, all rules are removed.
/// Guarantee: an alert continues if the meaning of its rule is unchanged, and ends if the rule is changed or removed.
/// Windows keep their samples, and a new window ignores the time before the replacement.
#[test]
fn rule_with_unchanged_meaning_continues() {
    let mut story = Story::from_list(BEFORE);
    story.play(&[
        (1.0, Gc(200), "fired kept 1, fired changed 1"),
        (2.0, Gc(10), ""),
        (3.0, Rules(AFTER), "ended changed 3 rule-changed"),
        (4.0, Gc(10), "fired count 4"),
        (31.0, Nothing, ""),
    ]);
    assert_eq!(
        story.states(),
        [State::Unknown, State::Firing, State::Inactive, State::Firing]
    );
    story.play(&[(33.0, Nothing, "")]);
    assert_eq!(story.states()[0], State::Inactive);
    story.play(&[
        (61.0, Nothing, "ended kept 61 cleared"),
        (62.0, Rules(""), "ended count 62 rule-changed"),
        (63.0, Gc(500), ""),
    ]);
}
