//! Tests of the remedies of incidents.

use base::run_key::RunKey;
use incidents::{
    Findings, FoundAllocations, FoundCaller, FoundCallers, FoundSite, remedy_for_a_file, remedy_for_a_process,
};
use rule_engine::rule::Role;
use rule_language::load::{load, shipped};

fn found() -> Findings {
    Findings {
        callers: Some(FoundCallers {
            callers: vec![FoundCaller::default()],
            ..FoundCallers::default()
        }),
        allocations: Some(FoundAllocations {
            sites: vec![FoundSite::default()],
            ..FoundAllocations::default()
        }),
        ..Findings::default()
    }
}

/// Scenario: a remedy contains commands and file names; the remedy is rendered before and after a burst, with and
/// without a process.
/// Guarantee: the sentence with the answered question is removed, a full stop in code does not end a sentence, and only
/// commands contain the pid.
#[test]
fn remedy_omits_completed_steps() {
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
    // A burst without a finding has answered nothing.
    assert!(remedy_for_a_process(remedy, Some(&Findings::default()), run).starts_with("Find the caller"));
}

/// Scenario: the remedy of an incident in a recording contains a command that reads recordings, and a command that only
/// works for a process.
/// Guarantee: only the command that reads recordings names the file.
#[test]
fn remedy_of_recording_names_file() {
    assert_eq!(
        remedy_for_a_file("`gcwatch advise PID` gives a bound. `gcwatch heap PID` names the types."),
        "`gcwatch advise FILE` gives a bound. `gcwatch heap PID` names the types."
    );
}

/// Scenario: the remedies of the shipped rules are rendered after bursts that found the code.
/// Guarantee: each remedy of a rule that is not a note still contains advice, and no remedy requests facts that the
/// burst found.
#[test]
fn shipped_remedies_still_contain_advice() {
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
