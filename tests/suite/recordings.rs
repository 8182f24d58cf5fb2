//! The rules that ship on every recording, for twelve minutes.
//!
//! A recording of seconds is repeated until it is twelve minutes long: longer than any window that judges a rate. What
//! fires then, from when to when, and how often it changed, is in `tests/rules/recordings.alerts.txt`, one file for all
//! recordings. After a change that is meant, run with `GCWATCH_UPDATE_GOLDEN=1` and read the difference.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use clr_gc::stream::Scope;
use gc_rules::alert::Ending;
use gc_rules::field::ProcessFacts;
use gc_rules::review::{Review, Reviewed, repeated};
use gc_rules::rule_set::RuleSet;
use gc_rules::time::{Moment, TimeBase};
use recording::Recording;
use recording::source::Source;
use rule_language::load::{load, shipped};
use test_support::{golden, recordings};

const SECOND: i64 = 1_000_000_000;
const LENGTH: i64 = 12 * 60 * SECOND;

/// How often one rule may begin to fire within the twelve minutes. The second time is for a rule that gave way to a
/// more severe one of its group and is the most severe again.
const MOST_ALERTS: usize = 2;

/// Repeated recordings with more collections than this are cut to as many rounds as stay below it: at hundreds of
/// collections a second, the longest windows are full of the same long before twelve minutes are over.
const MOST_COLLECTIONS: usize = 60_000;

/// One recording: its lines, and the rules that flap.
fn judged(path: &Path, rules: &Arc<RuleSet>) -> (String, Vec<String>) {
    let name = path.strip_prefix(recordings::folder()).unwrap().to_str().unwrap();
    let name = name.strip_suffix(".nettrace.gz").unwrap();
    let recording = Recording::read(&mut Source::open(path).unwrap(), Scope::Collections, |_| ());
    let header = recording.header.as_ref();
    let base = TimeBase::at(header.and_then(|header| header.unix_ns_of_offset(0)).unwrap_or(0));
    let observed = recording.observed_ns.max(1);
    let lost = recording.stream.lost_events.filter(|_| recording.processes.len() == 1);
    let (mut text, mut flapping) = (String::new(), Vec::new());
    for (subject, process) in &recording.processes {
        let wanted = (LENGTH / observed).max(1);
        let fitting = i64::try_from(MOST_COLLECTIONS / process.collections.len().max(1)).unwrap();
        let rounds = u32::try_from(wanted.min(fitting.max(1))).unwrap();
        let whole = repeated(process.history(), observed, rounds);
        let pid = subject.pid.and_then(|pid| u32::try_from(pid).ok());
        let facts = ProcessFacts::new(pid, None, recording.stream.runtime.as_deref(), []);
        let length = observed.saturating_mul(rounds.into());
        let review = Review::of(Arc::clone(rules), facts, base, whole.history(), length, lost);
        writeln!(text, "{name}: {rounds} x {:.1} s", seconds(observed)).unwrap();
        let mut alerts: BTreeMap<&str, Vec<&Reviewed>> = BTreeMap::new();
        for reviewed in review.alerts() {
            alerts.entry(&reviewed.alert.rule.id).or_default().push(reviewed);
        }
        for (rule, alerts) in alerts {
            let line = line(rule, &alerts, base);
            if alerts.len() > MOST_ALERTS {
                flapping.push(format!("{name}: {line}"));
            }
            writeln!(text, "  {line}").unwrap();
        }
    }
    (text, flapping)
}

/// A rule with the first and the last time at which it fired, and the number of its transitions.
fn line(rule: &str, alerts: &[&Reviewed], base: TimeBase) -> String {
    let offset = |at: Moment| seconds(i64::try_from(at.since(base.moment(0))).unwrap());
    let (first, last) = (alerts[0], alerts[alerts.len() - 1]);
    let ended = alerts.iter().filter(|reviewed| reviewed.ending.is_some()).count();
    let until = match (last.ending, last.alert.ended) {
        (Some(ending), Some(at)) => {
            let how = if ending == Ending::Superseded {
                " superseded"
            } else {
                ""
            };
            format!("{:.0} s{how}", offset(at))
        }
        _ => "the end".to_owned(),
    };
    format!(
        "{rule} ({}) {:.0} s to {until}, {} transitions",
        first.alert.severity.name(),
        offset(first.alert.started),
        alerts.len() + ended
    )
}

#[expect(clippy::cast_precision_loss, reason = "minutes in nanoseconds")]
fn seconds(ns: i64) -> f64 {
    ns as f64 / SECOND as f64
}

/// Scenario: every recording of a real process, healthy or sick, repeated to twelve minutes.
/// Guarantee: exactly the committed alerts fire, each at the committed times, and no rule fires and clears again and
/// again.
#[test]
fn every_recording_has_exactly_its_alerts() {
    let rules = Arc::new(load(&shipped()).unwrap().rules);
    let paths = recordings::paths_in(&["", "rules"]);
    assert!(paths.len() >= 85, "recordings are missing");
    let found = recordings::on_all_cores(&paths, |path| judged(path, &rules));
    let text: String = found.iter().map(|(text, _)| text.as_str()).collect();
    let flapping: Vec<&String> = found.iter().flat_map(|(_, flapping)| flapping).collect();
    golden::compare("tests/rules/recordings.alerts.txt", &text);
    assert!(flapping.is_empty(), "these flap: {flapping:#?}");
}
