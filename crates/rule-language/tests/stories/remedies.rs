//! What an incident says to do.

use base::run_key::RunKey;
use gc_rules::incident::{Found, FoundAllocations, FoundCaller, FoundCallers, FoundSite, remedy_for_a_process};
use gc_rules::rule::Role;
use rule_language::load::{load, shipped};

fn found() -> Found {
    Found {
        callers: Some(FoundCallers {
            callers: vec![FoundCaller::default()],
            ..FoundCallers::default()
        }),
        allocations: Some(FoundAllocations {
            sites: vec![FoundSite::default()],
            ..FoundAllocations::default()
        }),
        ..Found::default()
    }
}

/// Scenario: a remedy with commands and file names, before and after a burst, for a process and for none.
/// Guarantee: the sentence with the answered question goes, a full stop in code ends none, and only commands have
/// the pid.
#[test]
fn a_remedy_leaves_out_what_was_done() {
    let remedy = "Find the caller: `gcwatch callers PID -o a.b c`.\nSet `x.y: on`. The PID is `gcwatch heap PID`.";
    let run = Some(RunKey { pid: 7, start_time: 1 });
    assert_eq!(
        remedy_for_a_process(remedy, None, run),
        "Find the caller: `gcwatch callers 7 -o a.b c`. Set `x.y: on`. The PID is `gcwatch heap 7`."
    );
    assert_eq!(
        remedy_for_a_process(remedy, Some(&found()), None),
        "Set `x.y: on`. The PID is `gcwatch heap PID`."
    );
    // A burst without an answer has answered nothing.
    assert!(remedy_for_a_process(remedy, Some(&Found::default()), run).starts_with("Find the caller"));
}

/// Scenario: the remedies of the shipped rules of incidents, after bursts that found the code.
/// Guarantee: each still says what to do, and none asks for what was found.
#[test]
fn shipped_remedies_still_say_what_to_do() {
    let rules = load(&shipped()).unwrap().rules;
    for rule in rules.rules.iter().filter(|rule| !rule.remedy.is_empty()) {
        let left = remedy_for_a_process(&rule.remedy, Some(&found()), None);
        let is_note = rule.role == Some(Role::Note);
        assert!(
            is_note || left.chars().next().is_some_and(char::is_uppercase) || left.starts_with('`'),
            "{}: {left:?}",
            rule.id
        );
        assert!(
            !left.contains("gcwatch callers") && !left.contains("gcwatch allocations"),
            "{}: {left}",
            rule.id
        );
    }
}
