//! The events of a test: from fields to the steps of a review.

use std::collections::BTreeMap;

use clr_gc::gc::{Collection, Suspension};
use gc_rules::field::{
    AFFECTED_RULE, ContainerFacts, FIRING, FactValue, LAST_DEATH, MemoryFacts, OF_VERSION, Open, ProcessFacts,
    ServiceFacts, StreamFacts, WatcherFacts,
};
use gc_rules::review::HistoryStep;
use gc_rules::rule::On;
use gc_rules::time::{Moment, TimeBase};

use super::{MAX_EVENTS, ns};
use crate::test_file::document::{Process, TestEvent, Unfinished};
use crate::test_file::script;

/// One event of a test.
pub(super) enum Played {
    Collection(Box<Collection>),
    Suspension(Suspension),
    Stream(Box<StreamFacts>),
    Learned(Box<ProcessFacts>),
    End,
}

impl Played {
    pub(super) fn step(&self) -> HistoryStep<'_> {
        match self {
            Self::Collection(collection) => HistoryStep::Collection(collection),
            Self::Suspension(suspension) => HistoryStep::Suspension(suspension),
            Self::Stream(facts) => HistoryStep::Stream(**facts),
            Self::Learned(facts) => HistoryStep::Learned((**facts).clone()),
            Self::End => HistoryStep::End,
        }
    }
}

/// The events one by one, in the order of their time; `known`: what is known of the process at first.
pub(super) fn played(events: &[TestEvent], known: &ProcessFacts, start: i128) -> Result<Vec<(i64, Played)>, String> {
    let mut known = known.clone();
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
        since: Some(base.moment(0)),
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
            event.memory.is_some(),
            event.open.is_some(),
            event.service.is_some(),
            event.watcher.is_some(),
            event.end,
        ];
        if kinds.iter().filter(|given| **given).count() != 1 {
            return Err(here(
                "an event requires exactly one of gc, suspension, stream, container, memory, open, service, watcher and end"
                    .to_owned(),
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
        } else if let Some(fields) = &event.memory {
            memory(&mut stream.memory, &stepped(fields).map_err(here)?).map_err(here)?;
            Played::Stream(Box::new(stream))
        } else if let Some(fields) = &event.service {
            let facts = stream.service.get_or_insert_default();
            let mut fields = stepped(fields).map_err(here)?;
            let learned = learned(&mut fields).map_err(here)?;
            service(facts, &fields, base.moment(at)).map_err(here)?;
            if !learned.is_empty() {
                for (name, value) in learned {
                    known = known.with(&name, value);
                }
                played.push((at, Played::Learned(Box::new(known.clone()))));
            }
            Played::Stream(Box::new(stream))
        } else if let Some(fields) = &event.watcher {
            let facts = stream.watcher.get_or_insert_default();
            watcher(facts, &stepped(fields).map_err(here)?).map_err(here)?;
            Played::Stream(Box::new(stream))
        } else if let Some(open) = event.open {
            let begun = Some(base.moment(at));
            stream.open = match open {
                Unfinished::Stop => Open {
                    stop: begun,
                    ..Open::default()
                },
                Unfinished::Collection => Open {
                    collection: begun,
                    ..Open::default()
                },
                Unfinished::Dump => Open {
                    stop: begun,
                    collection: begun,
                    requested_by_tool: Some(true),
                    ..Open::default()
                },
                Unfinished::Background => Open {
                    background: begun,
                    ..Open::default()
                },
                Unfinished::Finalizers => Open {
                    finalizers: begun,
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
            "finalizers_waiting" => stream.finalizers_waiting = integer()?,
            "finalizer_cpu" => stream.finalizer_cpu = Some(number()?),
            "host_load" => stream.host.load = Some(number()?),
            "host_cpus" => stream.host.cpus = integer()?,
            "requests" => stream.requests.get_or_insert_default().judged = integer()?.unwrap_or(0),
            "requests_touched" => stream.requests.get_or_insert_default().touched = integer()?.unwrap_or(0),
            "lag_s" => {
                #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates")]
                let ns = (number()? * 1e9) as u64;
                stream.lag_ns = Some(ns);
            }
            _ => {
                return Err(format!(
                    "stream: unknown field `{name}`; known fields: events, lost_events, undecodable, sessions, \
                     finalizers_waiting, finalizer_cpu, host_load, host_cpus, requests, requests_touched, lag_s"
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

/// Memory of the process.
fn memory(facts: &mut MemoryFacts, fields: &BTreeMap<String, String>) -> Result<(), String> {
    for (name, value) in fields {
        let number: f64 = value
            .parse()
            .map_err(|_| format!("memory: {name}: `{value}` is not a number"))?;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates")]
        let number = Some(number as u64);
        match name.as_str() {
            "resident" => facts.resident = number,
            "private" => facts.private = number,
            "native" => facts.native = number,
            "threads" => facts.threads = number,
            _ => {
                return Err(format!(
                    "memory: unknown field `{name}`; known fields: resident, private, native, threads"
                ));
            }
        }
    }
    Ok(())
}

/// What the rules of a test are about, by its events.
pub(super) fn subject(events: &[TestEvent]) -> On {
    if events.iter().any(|event| event.service.is_some()) {
        On::Service
    } else if events.iter().any(|event| event.watcher.is_some()) {
        On::Watcher
    } else {
        On::Process
    }
}

fn whole(of: &str, name: &str, value: &str) -> Result<u64, String> {
    let number = value.parse::<f64>();
    let number = number.map_err(|_| format!("{of}: {name}: `{value}` is not a number"))?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates")]
    Ok(number as u64)
}

/// Takes the fields of a service out that are attributes to rules.
fn learned(fields: &mut BTreeMap<String, String>) -> Result<Vec<(String, FactValue)>, String> {
    let mut learned = Vec::new();
    for (field, attribute) in [("affected_rule", AFFECTED_RULE), ("last_death", LAST_DEATH)] {
        if let Some(text) = fields.remove(field) {
            learned.push((attribute.to_owned(), FactValue::Text(text.as_str().into())));
        }
    }
    fields.remove("version");
    let firing = |name: &String| name.strip_prefix("firing.").map(str::to_owned);
    let named: Vec<(String, String)> = fields
        .keys()
        .filter_map(|name| Some((name.clone(), firing(name)?)))
        .collect();
    for (name, rule) in named {
        let value = fields.remove(&name).unwrap_or_default();
        let count = i64::try_from(whole("service", &name, &value)?).unwrap_or(i64::MAX);
        learned.push((format!("{FIRING}{rule}"), FactValue::Int(count)));
    }
    Ok(learned)
}

fn service(facts: &mut ServiceFacts, fields: &BTreeMap<String, String>, now: Moment) -> Result<(), String> {
    for (name, value) in fields {
        let number = whole("service", name, value)?;
        match name.as_str() {
            "processes" => facts.processes = number,
            "deaths_10m" => facts.deaths_10m = number,
            "deaths_in_emergency_10m" => facts.deaths_in_emergency_10m = number,
            "oom_kills_10m" => facts.oom_kills_10m = Some(number),
            "sudden_oom_kills_10m" => facts.sudden_oom_kills_10m = Some(number),
            "restarts_10m" => facts.restarts_10m = number,
            "affected" => facts.affected = number,
            "well_s" => {
                let ago = number.saturating_mul(1_000_000_000);
                facts.well_since = Some(now.before(ago));
            }
            _ => {
                return Err(format!(
                    "service: unknown field `{name}`; known fields: processes, deaths_10m, deaths_in_emergency_10m, \
                     oom_kills_10m, sudden_oom_kills_10m, restarts_10m, affected, affected_rule, firing.RULE, \
                     last_death, well_s, version"
                ));
            }
        }
    }
    Ok(())
}

fn watcher(facts: &mut WatcherFacts, fields: &BTreeMap<String, String>) -> Result<(), String> {
    for (name, value) in fields {
        let number = whole("watcher", name, value)?;
        match name.as_str() {
            "stalls_10m" => facts.stalls_10m = number,
            "stall_s" => facts.stall_ns = Some(number.saturating_mul(1_000_000_000)),
            _ => {
                return Err(format!(
                    "watcher: unknown field `{name}`; known fields: stalls_10m, stall_s"
                ));
            }
        }
    }
    Ok(())
}

/// What is known of the process at first; a version of a service is one from the beginning on.
pub(super) fn facts(process: &Process, events: &[TestEvent]) -> ProcessFacts {
    let facts = attributes_of(process);
    let mut services = events.iter().filter_map(|event| event.service.as_ref());
    match services.find_map(|fields| fields.get("version")) {
        Some(version) => facts
            .with(OF_VERSION, FactValue::Bool(true))
            .with("service.version", FactValue::Text(version.as_str().into())),
        None => facts,
    }
}

fn attributes_of(process: &Process) -> ProcessFacts {
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
        .map(|(name, text)| (format!("gcwatch.gc.settings.{name}").into(), value(text)));
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
