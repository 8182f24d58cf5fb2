//! Converts the events of a test to steps of a review.

use std::collections::BTreeMap;

use base::time::{Moment, TimeBase};
use clr_gc::gc::{Collection, Suspension};
use incidents::review::HistoryStep;
use rule_engine::field::{
    AFFECTED_RULE, CommandName, ContainerFacts, FIRING, FactValue, LAST_DEATH, MemoryFacts, OF_VERSION,
    OperationStarts, ProcessFacts, ServiceFacts, StreamFacts, WatcherFacts,
};
use rule_engine::rule::EvaluationTrigger;

use super::{MAX_EVENTS, ns};
use crate::test_file::document::{Process, TestEvent, UnfinishedOperation};
use crate::test_file::script;

/// One event of a test.
pub(super) enum PlayedEvent {
    Collection(Box<Collection>),
    Suspension(Suspension),
    Stream(Box<StreamFacts>),
    Learned(Box<ProcessFacts>),
    End,
}

impl PlayedEvent {
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

/// Returns the individual events in the order of time. `known` are the initial facts about the process.
pub(super) fn played(
    events: &[TestEvent],
    known: &ProcessFacts,
    start: i128,
) -> Result<Vec<(i64, PlayedEvent)>, String> {
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
    let mut script = Script {
        base,
        known: known.clone(),
        stream: StreamFacts {
            since: Some(base.moment(0)),
            ..StreamFacts::default()
        },
        number: 0,
        played: Vec::with_capacity(single.len()),
    };
    for (at, event, round) in single {
        let played = script.play(at, event, round);
        played.map_err(|message| format!("the event at {}s: {message}", at as f64 / 1e9))?;
    }
    Ok(script.played)
}

/// Facts from the events so far.
struct Script {
    base: TimeBase,
    known: ProcessFacts,
    stream: StreamFacts,
    /// Number of the newest collection.
    number: u32,
    played: Vec<(i64, PlayedEvent)>,
}

impl Script {
    fn play(&mut self, at: i64, event: &TestEvent, round: u32) -> Result<(), String> {
        let kinds = [
            ("gc", &event.gc),
            ("suspension", &event.suspension),
            ("stream", &event.stream),
            ("container", &event.container),
            ("memory", &event.memory),
            ("service", &event.service),
            ("watcher", &event.watcher),
        ];
        let given = kinds
            .iter()
            .filter_map(|(kind, fields)| Some((*kind, fields.as_ref()?)));
        let count = given.clone().count() + usize::from(event.open.is_some()) + usize::from(event.end);
        if count != 1 {
            return Err(
                "an event requires exactly one of gc, suspension, stream, container, memory, open, service, watcher and end"
                    .to_owned(),
            );
        }
        let now = self.base.moment(at);
        let fields = given.clone().next().map(|(_, fields)| stepped(fields, event, round));
        let mut fields = fields.transpose()?.unwrap_or_default();
        match given.map(|(kind, _)| kind).next() {
            Some("gc") => {
                let collection = script::collection(at, self.number + 1, &fields);
                let collection = collection.map_err(|error| format!("gc: {error}"))?;
                self.number = collection.number;
                self.played.push((at, PlayedEvent::Collection(Box::new(collection))));
                return Ok(());
            }
            Some("suspension") => {
                let suspension = script::suspension(at, &fields).map_err(|error| format!("suspension: {error}"))?;
                self.played.push((at, PlayedEvent::Suspension(suspension)));
                return Ok(());
            }
            Some("stream") => counters(&mut self.stream, &fields)?,
            Some("container") => container(&mut self.stream.container, &fields)?,
            Some("memory") => memory(&mut self.stream.memory, &fields)?,
            Some("service") => {
                let learned = learned(&mut fields)?;
                service(self.stream.service.get_or_insert_default(), &fields, now)?;
                if !learned.is_empty() {
                    for (name, value) in learned {
                        self.known = self.known.clone().with(&name, value);
                    }
                    self.played
                        .push((at, PlayedEvent::Learned(Box::new(self.known.clone()))));
                }
            }
            Some(_) => watcher(self.stream.watcher.get_or_insert_default(), &fields)?,
            None => {
                let Some(begun) = event.open else {
                    self.played.push((at, PlayedEvent::End));
                    return Ok(());
                };
                self.stream.open = open(begun, now);
            }
        }
        self.played.push((at, PlayedEvent::Stream(Box::new(self.stream))));
        Ok(())
    }
}

/// Returns the operation in progress since `now`.
fn open(begun: UnfinishedOperation, now: Moment) -> OperationStarts {
    let mut open = OperationStarts::default();
    match begun {
        UnfinishedOperation::Stop => open.stop = Some(now),
        UnfinishedOperation::Collection => open.collection = Some(now),
        UnfinishedOperation::Dump => {
            (open.stop, open.collection) = (Some(now), Some(now));
            open.requested_by_tool = Some(true);
        }
        UnfinishedOperation::Background => open.background = Some(now),
        UnfinishedOperation::Finalizers => open.finalizers = Some(now),
        UnfinishedOperation::Nothing => {}
    }
    open
}

/// Returns the fields of the repetition with the number `round`.
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
        // Integers below 2^53 remain integers.
        *value = (first + step * f64::from(round)).to_string();
    }
    Ok(fields)
}

fn number(of: &str, name: &str, value: &str) -> Result<f64, String> {
    let number = value.parse();
    number.map_err(|_| format!("{of}: {name}: `{value}` is not a number"))
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates")]
fn whole(number: f64) -> u64 {
    number as u64
}

fn nanoseconds(seconds: f64) -> u64 {
    whole(seconds * 1e9)
}

/// Sets the fields of an event of this kind. `set` returns whether the field exists; `known` lists all fields.
fn set_each(
    of: &str,
    fields: &BTreeMap<String, String>,
    known: &str,
    mut set: impl FnMut(&str, f64) -> bool,
) -> Result<(), String> {
    for (name, value) in fields {
        if !set(name, number(of, name, value)?) {
            return Err(format!("{of}: unknown field `{name}`; known fields: {known}"));
        }
    }
    Ok(())
}

fn counters(stream: &mut StreamFacts, fields: &BTreeMap<String, String>) -> Result<(), String> {
    let known = "events, lost_events, undecodable, sessions, finalizers_waiting, finalizer_cpu, host_load, host_cpus, \
                 host_committed, host_commit_limit, requests, requests_touched, lag_s";
    set_each("stream", fields, known, |name, number| {
        let integer = whole(number);
        match name {
            "events" => stream.events = Some(integer),
            "lost_events" => stream.lost_events = Some(integer),
            "undecodable" => stream.undecodable = Some(integer),
            "sessions" => stream.sessions = Some(integer),
            "finalizers_waiting" => stream.finalizers_waiting = Some(integer),
            "finalizer_cpu" => stream.finalizer_cpu = Some(number),
            "host_load" => stream.host.load = Some(number),
            "host_cpus" => stream.host.cpus = Some(integer),
            "host_committed" => stream.host.committed_as = Some(integer),
            "host_commit_limit" => stream.host.commit_limit = Some(integer),
            "requests" => stream.requests.get_or_insert_default().judged = integer,
            "requests_touched" => stream.requests.get_or_insert_default().touched = integer,
            "lag_s" => stream.lag_ns = Some(nanoseconds(number)),
            _ => return false,
        }
        true
    })
}

/// Sets the usage of the container. The limits of the container are attributes of the process.
fn container(facts: &mut ContainerFacts, fields: &BTreeMap<String, String>) -> Result<(), String> {
    let known = "memory_usage, memory_working_set, memory_held, memory_shmem, memory_kernel, \
                 memory_kernel_reclaimable, other_processes, largest_other, largest_other_bytes, oom_kills, \
                 memory_limit_hits, memory_high_events, cpu_periods, throttled_periods, throttled_s, throttled_ratio";
    let mut numbers = fields.clone();
    if let Some(name) = numbers.remove("largest_other") {
        facts.largest_other = Some(CommandName::new(&name));
    }
    set_each("container", &numbers, known, |name, number| {
        let integer = Some(whole(number));
        match name {
            "memory_usage" => facts.memory_usage = integer,
            "memory_working_set" => facts.memory_working_set = integer,
            "memory_held" => facts.memory_held = integer,
            "memory_shmem" => facts.memory_shmem = integer,
            "memory_kernel" => facts.memory_kernel = integer,
            "memory_kernel_reclaimable" => facts.memory_kernel_reclaimable = integer,
            "other_processes" => facts.other_processes = integer,
            "largest_other_bytes" => facts.largest_other_bytes = integer,
            "oom_kills" => facts.oom_kills = integer,
            "memory_limit_hits" => facts.memory_limit_hits = integer,
            "memory_high_events" => facts.memory_high_events = integer,
            "cpu_periods" => facts.cpu_periods = integer,
            "throttled_periods" => facts.throttled_periods = integer,
            "throttled_s" => facts.throttled_ns = Some(nanoseconds(number)),
            "throttled_ratio" => facts.throttled_ratio = Some(number),
            _ => return false,
        }
        true
    })
}

/// Sets the memory of the process.
fn memory(facts: &mut MemoryFacts, fields: &BTreeMap<String, String>) -> Result<(), String> {
    set_each(
        "memory",
        fields,
        "resident, private, native, threads, address_space, address_space_limit",
        |name, number| {
            let integer = Some(whole(number));
            match name {
                "resident" => facts.resident = integer,
                "private" => facts.private = integer,
                "native" => facts.native = integer,
                "threads" => facts.threads = integer,
                "address_space" => facts.address_space = integer,
                "address_space_limit" => facts.address_space_limit = integer,
                _ => return false,
            }
            true
        },
    )
}

/// Returns the subject of the rules of a test, according to its events.
pub(super) fn subject(events: &[TestEvent]) -> EvaluationTrigger {
    if events.iter().any(|event| event.service.is_some()) {
        EvaluationTrigger::Service
    } else if events.iter().any(|event| event.watcher.is_some()) {
        EvaluationTrigger::Watcher
    } else {
        EvaluationTrigger::Process
    }
}

/// Removes the fields of a service that rules read as attributes, and returns these attributes.
fn learned(fields: &mut BTreeMap<String, String>) -> Result<Vec<(String, FactValue)>, String> {
    let mut learned = Vec::new();
    for (field, attribute) in [("affected_rule", AFFECTED_RULE), ("last_death", LAST_DEATH)] {
        if let Some(text) = fields.remove(field) {
            learned.push((attribute.to_owned(), FactValue::Text(text.as_str().into())));
        }
    }
    fields.remove("version");
    let mut firing = fields.clone();
    firing.retain(|name, _| name.starts_with("firing."));
    fields.retain(|name, _| !name.starts_with("firing."));
    for (name, value) in firing {
        let count = i64::try_from(whole(number("service", &name, &value)?)).unwrap_or(i64::MAX);
        let rule = name.strip_prefix("firing.").unwrap_or(&name);
        learned.push((format!("{FIRING}{rule}"), FactValue::Int(count)));
    }
    Ok(learned)
}

fn service(facts: &mut ServiceFacts, fields: &BTreeMap<String, String>, now: Moment) -> Result<(), String> {
    let known = "processes, deaths_10m, deaths_in_emergency_10m, oom_kills_10m, sudden_oom_kills_10m, restarts_10m, \
                 affected, affected_rule, firing.RULE, last_death, well_s, version";
    set_each("service", fields, known, |name, number| {
        let integer = whole(number);
        match name {
            "processes" => facts.processes = integer,
            "deaths_10m" => facts.deaths_10m = integer,
            "deaths_in_emergency_10m" => facts.deaths_in_emergency_10m = integer,
            "oom_kills_10m" => facts.oom_kills_10m = Some(integer),
            "sudden_oom_kills_10m" => facts.sudden_oom_kills_10m = Some(integer),
            "restarts_10m" => facts.restarts_10m = integer,
            "affected" => facts.affected = integer,
            "well_s" => facts.well_since = Some(now.before(integer.saturating_mul(1_000_000_000))),
            _ => return false,
        }
        true
    })
}

fn watcher(facts: &mut WatcherFacts, fields: &BTreeMap<String, String>) -> Result<(), String> {
    set_each("watcher", fields, "stalls_10m, stall_s", |name, number| {
        match name {
            "stalls_10m" => facts.stalls_10m = whole(number),
            "stall_s" => facts.stall_ns = Some(whole(number).saturating_mul(1_000_000_000)),
            _ => return false,
        }
        true
    })
}

/// Returns the initial facts about the process. A version of a service is set from the start.
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
        // Attributes of the resource: `memory_limit` becomes `gcwatch.container.memory.limit`. CPUs are always a
        // double.
        let value = match (name.as_str(), text.parse::<f64>()) {
            ("cpu_limit", Ok(cpus)) => FactValue::Double(cpus),
            _ => value(text),
        };
        (format!("gcwatch.container.{}", name.replace('_', ".")).into(), value)
    });
    let all = attributes.chain(settings).chain(limits);
    ProcessFacts::new(process.pid, process.name.as_deref(), process.runtime.as_deref(), all)
}
