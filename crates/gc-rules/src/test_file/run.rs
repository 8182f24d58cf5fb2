//! Runs one test: virtual clock, events, expectations.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use clr_gc::gc::{Collection, Suspension};

use super::document::{Expectation, Process, Test, TestEvent, Unfinished};
use super::script;
use crate::alert::Alert;
use crate::field::{ContainerFacts, FactValue, Open, ProcessFacts, StreamFacts};
use crate::review::{History, Review, Step, repeated, steps};
use crate::rule::{RuleSet, Severity};
use crate::time::TimeBase;

/// Maximum number of events of a test, including repetitions.
const MAX_EVENTS: usize = 200_000;
/// 2026-01-01T00:00:00Z in Unix nanoseconds.
const DEFAULT_START: i128 = 1_767_225_600_000_000_000;

/// A difference between expected and actual.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The expectation, by its place; `None`: the test as a whole.
    pub expectation: Option<usize>,
    /// Actual and expected.
    pub message: String,
}

/// The result of a test.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TestOutcome {
    /// The differences; if there are none, the test passed.
    pub differences: Vec<Difference>,
}

/// One event of a test.
enum Played {
    Collection(Box<Collection>),
    Suspension(Suspension),
    Stream(Box<StreamFacts>),
    End,
}

/// Runs a test. `recording`: the history of the process in the test's recording, its sync time in Unix nanoseconds, and how long it was
/// observed.
pub fn run(test: &Test, rules: &Arc<RuleSet>, recording: Option<(History<'_>, i128, i64)>) -> TestOutcome {
    let mut outcome = TestOutcome::default();
    let mut fail = |expectation, message| outcome.differences.push(Difference { expectation, message });
    for (place, expectation) in test.expect.iter().enumerate() {
        if rules.rule(&expectation.rule).is_none() {
            fail(Some(place), format!("there is no rule `{}`", expectation.rule));
        }
    }
    for id in test.fires.iter().flatten().filter(|id| rules.rule(id).is_none()) {
        fail(None, format!("fires: there is no rule `{id}`"));
    }
    let start = match &test.start {
        None => DEFAULT_START,
        Some(text) => match text.parse::<jiff::Timestamp>() {
            Ok(time) => time.as_nanosecond(),
            Err(_) => {
                fail(
                    None,
                    format!("start: `{text}` is not a time such as 2026-01-01T00:00:00Z"),
                );
                return outcome;
            }
        },
    };
    let played = match played(&test.events, start) {
        Ok(played) => played,
        Err(message) => {
            fail(None, message);
            return outcome;
        }
    };
    let start = recording.map_or(start, |(_, start, _)| start);
    let rounds = test.rounds.unwrap_or(1);
    let held = recording.map_or(0, |(history, _, _)| {
        history.collections.len() + history.suspensions.len()
    });
    if held.saturating_mul(rounds as usize) > MAX_EVENTS {
        fail(
            None,
            format!("rounds: the test would have more than {MAX_EVENTS} events"),
        );
        return outcome;
    }
    let whole = recording.map(|(history, _, observed)| {
        (
            repeated(history, observed, rounds),
            observed.saturating_mul(rounds.into()),
        )
    });
    let mut coming: Vec<(i64, Step<'_>)> = whole
        .as_ref()
        .map(|(whole, _)| steps(whole.history()))
        .unwrap_or_default();
    coming.extend(played.iter().map(|(at, played)| (*at, played.step())));
    coming.sort_by_key(|(at, _)| *at);

    let observed = whole.as_ref().map_or(0, |(_, observed)| *observed);
    let last = coming.last().map_or(0, |(at, _)| *at).max(observed);
    let mut review = Review::new(Arc::clone(rules), facts(&test.process), TimeBase::at(start));
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
    if let Some(message) = test
        .fires
        .as_ref()
        .and_then(|fires| compare_fires(fires, test.fires_from, &review))
    {
        fail(None, message);
    }
    outcome
}

impl Played {
    fn step(&self) -> Step<'_> {
        match self {
            Self::Collection(collection) => Step::Collection(collection),
            Self::Suspension(suspension) => Step::Suspension(suspension),
            Self::Stream(facts) => Step::Stream(**facts),
            Self::End => Step::End,
        }
    }
}

fn ns(duration: std::time::Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

/// The events one by one, in the order of their time.
fn played(events: &[TestEvent], start: i128) -> Result<Vec<(i64, Played)>, String> {
    let mut single: Vec<(i64, &TestEvent, u32)> = Vec::new();
    for event in events {
        let (times, every) = event
            .repeat
            .as_ref()
            .map_or((1, 0), |repeat| (repeat.times, ns(repeat.every.0)));
        if single.len().saturating_add(times as usize) > MAX_EVENTS {
            return Err(format!("the test has more than {MAX_EVENTS} events"));
        }
        let at = ns(event.at.0);
        single.extend((0..times).map(|round| (at.saturating_add(every.saturating_mul(round.into())), event, round)));
    }
    single.sort_by_key(|(at, _, _)| *at);
    let base = TimeBase::at(start);
    let mut stream = StreamFacts {
        since_unix_ns: Some(base.unix_ns(0)),
        ..StreamFacts::default()
    };
    let mut number = 0;
    let mut played = Vec::with_capacity(single.len());
    for (at, event, round) in single {
        let here = |message: String| format!("the event at {}s: {message}", at as f64 / 1e9);
        let kinds = [
            event.gc.is_some(),
            event.suspension.is_some(),
            event.stream.is_some(),
            event.container.is_some(),
            event.open.is_some(),
            event.end,
        ];
        if kinds.iter().filter(|given| **given).count() != 1 {
            return Err(here(
                "an event requires exactly one of gc, suspension, stream, container, open and end".to_owned(),
            ));
        }
        let stepped = |fields: &BTreeMap<String, String>| stepped(fields, event, round);
        let what = if let Some(fields) = &event.gc {
            number += 1;
            let fields = stepped(fields).map_err(here)?;
            let collection = script::collection(at, number, &fields).map_err(|error| here(format!("gc: {error}")))?;
            number = collection.number;
            Played::Collection(Box::new(collection))
        } else if let Some(fields) = &event.suspension {
            let fields = stepped(fields).map_err(here)?;
            Played::Suspension(script::suspension(at, &fields).map_err(|error| here(format!("suspension: {error}")))?)
        } else if let Some(fields) = &event.stream {
            counters(&mut stream, &stepped(fields).map_err(here)?).map_err(here)?;
            Played::Stream(Box::new(stream))
        } else if let Some(fields) = &event.container {
            container(&mut stream.container, &stepped(fields).map_err(here)?).map_err(here)?;
            Played::Stream(Box::new(stream))
        } else if let Some(open) = event.open {
            let begun = Some(base.unix_ns(at));
            stream.open = match open {
                Unfinished::Stop => Open {
                    stop: begun,
                    ..Open::default()
                },
                Unfinished::Collection => Open {
                    collection: begun,
                    ..Open::default()
                },
                Unfinished::Background => Open {
                    background: begun,
                    ..Open::default()
                },
                Unfinished::Nothing => Open::default(),
            };
            Played::Stream(Box::new(stream))
        } else {
            Played::End
        };
        played.push((at, what));
    }
    Ok(played)
}

/// The fields of a repetition.
fn stepped(
    fields: &BTreeMap<String, String>,
    event: &TestEvent,
    round: u32,
) -> Result<BTreeMap<String, String>, String> {
    let mut fields = fields.clone();
    for (name, step) in event.repeat.iter().flat_map(|repeat| &repeat.step) {
        let Some(value) = fields.get_mut(name) else {
            return Err(format!("step: `{name}` is not among the fields of the event"));
        };
        let first: f64 = value.parse().map_err(|_| format!("step: `{name}` is not a number"))?;
        // Integers below 2^53 stay integers.
        *value = (first + step * f64::from(round)).to_string();
    }
    Ok(fields)
}

fn counters(stream: &mut StreamFacts, fields: &BTreeMap<String, String>) -> Result<(), String> {
    for (name, value) in fields {
        let number = || {
            value
                .parse::<f64>()
                .map_err(|_| format!("stream: {name}: `{value}` is not a number"))
        };
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates")]
        let integer = || number().map(|number| Some(number as u64));
        match name.as_str() {
            "events" => stream.events = integer()?,
            "lost_events" => stream.lost_events = integer()?,
            "undecodable" => stream.undecodable = integer()?,
            "sessions" => stream.sessions = integer()?,
            "lag_s" => {
                #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates")]
                let ns = (number()? * 1e9) as u64;
                stream.lag_ns = Some(ns);
            }
            _ => {
                return Err(format!(
                    "stream: unknown field `{name}`; known fields: events, lost_events, undecodable, sessions, lag_s"
                ));
            }
        }
    }
    Ok(())
}

/// Usage of the container. Its limits are attributes of the process.
fn container(facts: &mut ContainerFacts, fields: &BTreeMap<String, String>) -> Result<(), String> {
    for (name, value) in fields {
        let number: f64 = value
            .parse()
            .map_err(|_| format!("container: {name}: `{value}` is not a number"))?;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates")]
        let integer = Some(number as u64);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates")]
        let ns = Some((number * 1e9) as u64);
        match name.as_str() {
            "memory_usage" => facts.memory_usage = integer,
            "memory_working_set" => facts.memory_working_set = integer,
            "oom_kills" => facts.oom_kills = integer,
            "memory_limit_hits" => facts.memory_limit_hits = integer,
            "memory_high_events" => facts.memory_high_events = integer,
            "cpu_periods" => facts.cpu_periods = integer,
            "throttled_periods" => facts.throttled_periods = integer,
            "throttled_s" => facts.throttled_ns = ns,
            "throttled_ratio" => facts.throttled_ratio = Some(number),
            _ => {
                return Err(format!(
                    "container: unknown field `{name}`; known fields: memory_usage, memory_working_set, oom_kills, memory_limit_hits, \
                     memory_high_events, cpu_periods, throttled_periods, throttled_s, throttled_ratio"
                ));
            }
        }
    }
    Ok(())
}

fn facts(process: &Process) -> ProcessFacts {
    let value = |text: &str| {
        if let Ok(boolean) = text.parse() {
            FactValue::Bool(boolean)
        } else if let Ok(number) = text.parse() {
            FactValue::Int(number)
        } else {
            FactValue::Text(text.into())
        }
    };
    let attributes = process
        .attributes
        .iter()
        .map(|(name, text)| (name.as_str().into(), value(text)));
    let settings = process
        .settings
        .iter()
        .map(|(name, text)| (format!("dotnet.gc.settings.{name}").into(), value(text)));
    let limits = process.container.iter().map(|(name, text)| {
        // As a resource attribute: `memory_limit` is `gcwatch.container.memory.limit`; CPUs are always a double.
        let value = match (name.as_str(), text.parse::<f64>()) {
            ("cpu_limit", Ok(cpus)) => FactValue::Double(cpus),
            _ => value(text),
        };
        (format!("gcwatch.container.{}", name.replace('_', ".")).into(), value)
    });
    let all = attributes.chain(settings).chain(limits);
    ProcessFacts::new(process.pid, process.name.as_deref(), process.runtime.as_deref(), all)
}

fn compare_fires(fires: &[String], from: Option<Severity>, review: &Review) -> Option<String> {
    let least = from.unwrap_or(Severity::Info);
    let fired: BTreeSet<&str> = review
        .alerts()
        .filter(|reviewed| reviewed.alert.severity() >= least)
        .map(|reviewed| &*reviewed.alert.rule.id)
        .collect();
    let wanted: BTreeSet<&str> = fires.iter().map(String::as_str).collect();
    if fired == wanted {
        return None;
    }
    let list = |ids: Vec<&&str>| ids.iter().map(|id| format!("`{id}`")).collect::<Vec<_>>().join(", ");
    let missing: Vec<&&str> = wanted.difference(&fired).collect();
    let beyond: Vec<&&str> = fired.difference(&wanted).collect();
    let mut parts = Vec::new();
    if !missing.is_empty() {
        parts.push(format!("never fired: {}", list(missing)));
    }
    if !beyond.is_empty() {
        parts.push(format!("fired unexpectedly: {}", list(beyond)));
    }
    Some(format!("fires: {}", parts.join("; ")))
}

/// The differences of an expectation.
fn compare(expectation: &Expectation, review: &Review, rules: &RuleSet) -> Option<String> {
    let place = rules.rules.iter().position(|rule| *rule.id == *expectation.rule)?;
    let state = review.engine().states().get(place)?.state;
    let said = format!("at {}s `{}`", expectation.at.0.as_secs_f64(), expectation.rule);
    if state != expectation.state {
        return Some(format!(
            "{said} is {}, expected {}",
            state.name(),
            expectation.state.name()
        ));
    }
    let Some(alert) = review
        .engine()
        .alerts()
        .into_iter()
        .find(|alert| *alert.rule.id == *expectation.rule)
    else {
        let asked = expectation.count.is_some() || expectation.labels.is_some() || expectation.summary.is_some();
        return asked.then(|| format!("{said} does not fire, so it has no count, labels or summary"));
    };
    let mut differences = Vec::new();
    if let Some(count) = expectation.count.filter(|count| *count != alert.count) {
        differences.push(format!("count is {}, expected {count}", alert.count));
    }
    if let Some(summary) = expectation
        .summary
        .as_deref()
        .filter(|summary| *summary != &*alert.summary)
    {
        differences.push(format!("summary is \"{}\", expected \"{summary}\"", alert.summary));
    }
    compare_texts(
        "labels",
        expectation.labels.as_ref(),
        &alert_labels(&alert),
        &mut differences,
    );
    let annotations = alert
        .annotations
        .iter()
        .map(|(name, text)| (&**name, &**text))
        .collect();
    compare_texts(
        "annotations",
        expectation.annotations.as_ref(),
        &annotations,
        &mut differences,
    );
    (!differences.is_empty()).then(|| format!("{said}: {}", differences.join("; ")))
}

fn alert_labels(alert: &Alert) -> BTreeMap<&str, &str> {
    alert.labels.iter().map(|(name, text)| (&**name, &**text)).collect()
}

fn compare_texts(
    what: &str,
    expected: Option<&BTreeMap<String, String>>,
    found: &BTreeMap<&str, &str>,
    differences: &mut Vec<String>,
) {
    let Some(expected) = expected else { return };
    let expected: BTreeMap<&str, &str> = expected
        .iter()
        .map(|(name, text)| (name.as_str(), text.as_str()))
        .collect();
    if expected != *found {
        differences.push(format!("{what} are {found:?}, expected {expected:?}"));
    }
}
