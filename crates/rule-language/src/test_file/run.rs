//! Runs one test: virtual clock, events, expectations.

use std::sync::Arc;

use base::time::TimeBase;
use incidents::review::{History, HistoryStep, Review, repeated, steps};
use rule_engine::rule_set::RuleSet;

use super::document::{Expectation, Test};

mod compare;
mod events;

use compare::{compare, compare_fires};
use events::{facts, played, subject};

/// Maximum number of events of a test, including repetitions.
const MAX_EVENTS: usize = 200_000;
/// 2026-01-01T00:00:00Z in Unix nanoseconds.
const DEFAULT_START: i128 = 1_767_225_600_000_000_000;

/// A difference between the expected and the actual result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Place of the expectation; `None` for the test as a whole.
    pub expectation: Option<usize>,
    /// Actual and expected result.
    pub message: String,
}

/// Runs a test and returns its differences. The test passes if there are no differences. `recording` contains the
/// history of the process in the test's recording, its sync time in Unix nanoseconds, and the duration of observation.
pub fn run(test: &Test, rules: &Arc<RuleSet>, recording: Option<(History<'_>, i128, i64)>) -> Vec<Difference> {
    let mut differences = Vec::new();
    if let Err(message) = play(test, rules, recording, &mut differences) {
        let expectation = None;
        differences.push(Difference { expectation, message });
    }
    differences
}

/// Plays a test. Returns an error if the test cannot continue.
fn play(
    test: &Test,
    rules: &Arc<RuleSet>,
    recording: Option<(History<'_>, i128, i64)>,
    differences: &mut Vec<Difference>,
) -> Result<(), String> {
    let mut fail = |expectation, message| differences.push(Difference { expectation, message });
    for (place, expectation) in test.expect.iter().enumerate() {
        if rules.rule(&expectation.rule).is_none() {
            fail(Some(place), format!("there is no rule `{}`", expectation.rule));
        }
    }
    for id in test.fires.iter().flatten().filter(|id| rules.rule(id).is_none()) {
        fail(None, format!("fires: there is no rule `{id}`"));
    }
    let start = test.start.as_ref().map(|text| {
        let time = text.parse::<jiff::Timestamp>();
        time.map_err(|_| format!("start: `{text}` is not a time such as 2026-01-01T00:00:00Z"))
    });
    let start = start.transpose()?.map_or(DEFAULT_START, jiff::Timestamp::as_nanosecond);
    let known = facts(&test.process, &test.events);
    let played = played(&test.events, &known, start)?;
    let start = recording.map_or(start, |(_, start, _)| start);
    let rounds = test.rounds.unwrap_or(1);
    let held = recording.map_or(0, |(history, _, _)| {
        history.collections.len() + history.suspensions.len()
    });
    if held.saturating_mul(rounds as usize) > MAX_EVENTS {
        return Err(format!("rounds: the test would have more than {MAX_EVENTS} events"));
    }
    let whole = recording.map(|(history, _, observed)| {
        (
            repeated(history, observed, rounds),
            observed.saturating_mul(rounds.into()),
        )
    });
    let mut coming: Vec<(i64, HistoryStep<'_>)> = whole
        .as_ref()
        .map(|(whole, _)| steps(whole.history()))
        .unwrap_or_default();
    coming.extend(played.iter().map(|(at, played)| (*at, played.step())));
    coming.sort_by_key(|(at, _)| *at);

    let observed = whole.as_ref().map_or(0, |(_, observed)| *observed);
    let last = coming.last().map_or(0, |(at, _)| *at).max(observed);
    let mut review = Review::about(subject(&test.events), Arc::clone(rules), known, TimeBase::at(start));
    let mut coming = coming.into_iter().peekable();
    let mut expected: Vec<(usize, &Expectation)> = test.expect.iter().enumerate().collect();
    expected.sort_by_key(|(_, expectation)| ns(expectation.at.0));
    let mut end = last;
    for (place, expectation) in expected {
        let at = ns(expectation.at.0);
        end = end.max(at);
        while let Some((when, step)) = coming.next_if(|(when, _)| *when <= at) {
            review.step(when, &step);
        }
        review.until(at);
        if let Some(message) = compare(expectation, &review, rules) {
            fail(Some(place), message);
        }
    }
    for (when, step) in coming {
        review.step(when, &step);
    }
    review.until(end.saturating_add(test.until.map_or(0, |until| ns(until.0))));
    let fires = test.fires.as_ref();
    match fires.and_then(|fires| compare_fires(fires, test.fires_from, &review)) {
        Some(message) => Err(message),
        None => Ok(()),
    }
}

fn ns(duration: std::time::Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}
