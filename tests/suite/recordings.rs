//! The shipped rules on every recording, extended to twelve minutes.
//!
//! A recording of a few seconds is repeated until it lasts twelve minutes, which exceeds every window of a rule about
//! rates. `tests/rules/recordings.alerts.txt` lists the alerts of all recordings: the first and last time at which each
//! rule fires and its number of transitions. After an intended change, run with `GCWATCH_UPDATE_GOLDEN=1` and read the
//! difference.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use base::time::{Moment, TimeBase};
use clr_gc::stream::Scope;
use incidents::review::{Review, ReviewedAlert, repeated};
use recording::Recording;
use recording::source::Source;
use rule_engine::alert::Ending;
use rule_engine::field::ProcessFacts;
use rule_engine::rule_set::RuleSet;
use rule_language::load::{load, shipped};
use test_support::{golden, recordings};

const SECOND: i64 = 1_000_000_000;
const LENGTH: i64 = 12 * 60 * SECOND;

/// Maximum number of times that a rule starts to fire within twelve minutes. The second time is for a rule that yielded
/// to a more severe rule of its group and later is the most severe again.
const MAX_ALERTS: usize = 2;

/// Maximum number of collections of a repeated recording; the number of rounds is reduced to stay below it. At hundreds
/// of collections per second, the content of the longest windows stops changing long before twelve minutes have passed.
const MAX_COLLECTIONS: usize = 60_000;

/// Evaluates one recording. Returns its lines, and the rules that flap.
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
        let fitting = i64::try_from(MAX_COLLECTIONS / process.collections.len().max(1)).unwrap();
        let rounds = u32::try_from(wanted.min(fitting.max(1))).unwrap();
        let whole = repeated(process.history(), observed, rounds);
        let pid = subject.pid.and_then(|pid| u32::try_from(pid).ok());
        let facts = ProcessFacts::new(pid, None, recording.stream.runtime.as_deref(), []);
        let length = observed.saturating_mul(rounds.into());
        let review = Review::for_recording(Arc::clone(rules), facts, base, whole.history(), length, lost);
        writeln!(text, "{name}: {rounds} x {:.1} s", seconds(observed)).unwrap();
        let mut alerts: BTreeMap<&str, Vec<&ReviewedAlert>> = BTreeMap::new();
        for reviewed in review.alerts() {
            alerts.entry(&reviewed.alert.rule.id).or_default().push(reviewed);
        }
        for (rule, alerts) in alerts {
            let line = line(rule, &alerts, base);
            if alerts.len() > MAX_ALERTS {
                flapping.push(format!("{name}: {line}"));
            }
            writeln!(text, "  {line}").unwrap();
        }
    }
    (text, flapping)
}

/// Formats a rule with the first and last time at which it fired, and its number of transitions.
fn line(rule: &str, alerts: &[&ReviewedAlert], base: TimeBase) -> String {
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

/// Scenario: every recording of a real process, healthy or faulty, is extended to twelve minutes.
/// Guarantee: exactly the committed alerts fire at the committed times, and no rule repeatedly fires and clears.
#[test]
fn recording_fires_exactly_its_committed_alerts() {
    let rules = Arc::new(load(&shipped()).unwrap().rules);
    let paths = recordings::paths_in(&["", "rules"]);
    assert!(paths.len() >= 85, "recordings are missing");
    let found = recordings::on_all_cores(&paths, |path| judged(path, &rules));
    let text: String = found.iter().map(|(text, _)| text.as_str()).collect();
    let flapping: Vec<&String> = found.iter().flat_map(|(_, flapping)| flapping).collect();
    golden::compare("tests/rules/recordings.alerts.txt", &text);
    assert!(flapping.is_empty(), "rules flap: {flapping:#?}");
}
