//! Converts runs to records of `/api/v1/targets`. The field names of these records are a contract.

use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use serde_json::json;

use crate::pipeline::shared::UnreadProcess;
use api::view::TargetView;
use base::time::Wall;
use gc_telemetry::value::text;
use processes::{Identity, RunState};
use run::Run;

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
        resource: attributes(resource),
        ..TargetView::default()
    }
}

/// Returns the record of a process that is not read.
pub(crate) fn target_of_noted(UnreadProcess { identity, state, since }: &UnreadProcess, wall: Wall) -> TargetView {
    target(identity, &identity.resource, state, wall.rfc3339(*since))
}

/// Returns the record of a run.
pub(crate) fn target_of(run: &Run) -> TargetView {
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
        last_collection: history.figures.number,
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

/// Converts the attributes of a resource to JSON.
pub(crate) fn attributes(resource: &[KeyValue]) -> serde_json::Map<String, serde_json::Value> {
    let each = resource.iter();
    each.map(|attribute| (attribute.key.clone(), json_value(attribute.value.as_ref())))
        .collect()
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
