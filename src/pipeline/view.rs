//! Runs and their collections as records of `/api/v1/targets` and `/api/v1/gcs`. Their names are a contract.

use std::collections::BTreeMap;

use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use serde_json::json;

use crate::pipeline::observed_run::ObservedRun;
use crate::pipeline::registry::Pipeline;
use crate::pipeline::shared::Noted;
use api::gc::{GcRecord, Subject};
use api::view::TargetView;
use clr_gc::gc::Collection;
use gc_rules::time::{UnixBase, Wall, rfc3339};
use gc_telemetry::value::text;
use processes::{Identity, RunState};
use run::history::Remembered;

fn target(identity: &Identity, resource: &[KeyValue], state: &RunState, since: Option<String>) -> TargetView {
    TargetView {
        pid: identity.key.pid,
        ns_pid: identity.ns_pid,
        name: identity.name.clone(),
        service_name: text(resource, "service.name"),
        runtime: identity.runtime.clone(),
        state: state.word(),
        reason: state.reason(),
        detail: state.detail(),
        since,
        first_attached: None,
        sessions: 0,
        healings: 0,
        bytes: 0,
        events: 0,
        lost_events: None,
        undecodable_events: 0,
        collections: 0,
        lossy: 0,
        incomplete: 0,
        last_collection: None,
        lag_ns: None,
        exports_runtime: None,
        resource: resource
            .iter()
            .map(|attribute| (attribute.key.clone(), json_value(attribute.value.as_ref())))
            .collect(),
    }
}

fn target_of(run: &ObservedRun) -> TargetView {
    let run = run.look();
    let (session, history) = (&run.session, &run.history);
    let progress = session.progress();
    TargetView {
        first_attached: session.first_attach.and_then(|at| run.wall.rfc3339(at)),
        sessions: session.sessions,
        healings: session.healings,
        bytes: progress.bytes,
        events: progress.events,
        lost_events: progress.lost_events,
        undecodable_events: progress.undecodable,
        collections: history.collections,
        lossy: history.lossy,
        incomplete: history.incomplete,
        last_collection: history.figures().number,
        lag_ns: session.lag_ns,
        exports_runtime: run.exports_runtime,
        ..target(
            run.identity.who(),
            &run.identity.resource().attributes,
            &session.state,
            run.wall.rfc3339(session.since),
        )
    }
}

impl Pipeline {
    /// How many processes are in each state, by its word.
    pub fn states(&self) -> BTreeMap<&'static str, u64> {
        let mut states = BTreeMap::new();
        let words = self.runs().into_iter().map(|run| run.look().session.state.word());
        for word in words.chain(self.noted().iter().map(|noted| noted.state.word())) {
            *states.entry(word).or_default() += 1;
        }
        states
    }

    /// How many processes there are from which nothing is read, by the reason.
    pub fn reasons(&self) -> BTreeMap<String, u64> {
        let mut reasons = BTreeMap::new();
        let runs = self
            .runs()
            .into_iter()
            .filter_map(|run| run.look().session.state.not_attached());
        for reason in runs.chain(self.noted().iter().filter_map(|noted| noted.state.not_attached())) {
            *reasons.entry(reason).or_default() += 1;
        }
        reasons
    }

    /// Every process that is known, by pid.
    pub fn targets(&self) -> Vec<TargetView> {
        let wall = self.wall();
        let mut targets: Vec<TargetView> = self.runs().iter().map(|run| target_of(run)).collect();
        targets.extend(
            self.noted().iter().map(|Noted { identity, state, since }| {
                target(identity, &identity.resource, state, wall.rfc3339(*since))
            }),
        );
        targets.sort_by_key(|target| target.pid);
        targets
    }

    /// The last collections of each process (or of one), newest first, as records of `kind: "gc"`; at most `limit` of
    /// each.
    pub fn collections(&self, pid: Option<u32>, limit: usize) -> Vec<serde_json::Value> {
        let mut records = Vec::new();
        for run in self.runs() {
            if pid.is_some_and(|pid| pid != run.key().pid) {
                continue;
            }
            let (ns_pid, wall, recent) = {
                let run = run.look();
                let recent: Vec<Remembered> = run.history.newest().cloned().collect();
                (run.identity.who().ns_pid, run.wall, recent)
            };
            let mut recent: Vec<_> = recent
                .into_iter()
                .map(|Remembered { collection, base, .. }| (collection.unpack(), base))
                .collect();
            // A foreground collection is observed before the background collection in which it ran.
            recent.sort_by_key(|(collection, base)| {
                std::cmp::Reverse((collection.start.map(|start| base.moment(start)), collection.number))
            });
            recent.truncate(limit);
            let pid = run.key().pid;
            let each = recent.into_iter();
            records.extend(each.filter_map(|(collection, base)| {
                record(&collection, base.unix(wall), subject(pid, &collection), ns_pid)
            }));
        }
        records
    }
}

/// The record of a collection that is kept in full.
pub(crate) fn record_of(kept: &Remembered, wall: Wall, pid: u32, ns_pid: Option<u32>) -> Option<serde_json::Value> {
    let collection = kept.collection.unpack();
    record(&collection, kept.base.unix(wall), subject(pid, &collection), ns_pid)
}

fn subject(pid: u32, collection: &Collection) -> Subject {
    Subject {
        pid: Some(pid.into()),
        clr_instance: collection.clr_instance,
    }
}

/// The record of `kind: "gc"`, without ids of requests.
pub(crate) fn record(
    collection: &Collection,
    base: UnixBase,
    subject: Subject,
    ns_pid: Option<u32>,
) -> Option<serde_json::Value> {
    let start = collection.start.and_then(|start| rfc3339(base.unix_ns(start)));
    let mut record = serde_json::to_value(GcRecord::new(subject, collection, start)).ok()?;
    if let Some(fields) = record.as_object_mut() {
        fields.insert("ns_pid".to_owned(), json!(ns_pid));
        // Ids of requests are for who logs in; they are in spans, links and exemplars over OTLP.
        if let Some(worst) = fields.get_mut("worst_request").and_then(|worst| worst.as_object_mut()) {
            worst.retain(|name, _| name == "lost_ns");
        }
    }
    Some(record)
}

pub(crate) fn json_value(value: Option<&AnyValue>) -> serde_json::Value {
    match value.and_then(|value| value.value.as_ref()) {
        Some(Value::StringValue(text)) => json!(text),
        Some(Value::BoolValue(value)) => json!(value),
        Some(Value::IntValue(number)) => json!(number),
        Some(Value::DoubleValue(number)) => json!(number),
        Some(Value::ArrayValue(array)) => array.values.iter().map(|value| json_value(Some(value))).collect(),
        _ => serde_json::Value::Null,
    }
}
