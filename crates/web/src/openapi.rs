//! `/api/v1/openapi.json`: the API in the form of OpenAPI 3.1, made from the records themselves.
//!
//! Their names, types and descriptions are those of the types that are served, so that the document cannot differ from
//! the answers. A test holds answers against it.

use axum::response::{IntoResponse as _, Json, Response};
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Value, json};

use api::view::{
    AlertView, CollectionRecord, HistoryColumns, OverviewRecord, ProcessRecord, ProcessRow, ReportedRequests, RuleView,
    TargetView, WatcherRecord,
};
use evidence::black_box::files::FileRecord;
use gc_rules::incident::IncidentRecord;

/// Where definitions are in the document.
const DEFINITIONS: &str = "/components/schemas";

pub fn document() -> Value {
    let mut generator = SchemaSettings::draft2020_12()
        .for_serialize()
        .with(|settings| settings.definitions_path = DEFINITIONS.into())
        .into_generator();
    let paths = paths(&mut generator);
    let mut schemas = generator.take_definitions(true);
    schemas.insert(
        "Refusal".to_owned(),
        json!({
            "type": "object",
            "description": "Why a request cannot be answered.",
            "properties": {
                "error": { "type": "string", "description": "What is wrong, one sentence." },
                "remedy": { "type": ["string", "null"], "description": "What to ask instead." },
            },
            "required": ["error"],
        }),
    );
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "gcwatch",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "What gcwatch knows of the .NET processes of its host. It changes nothing: every path is \
                            read with GET. Sizes are bytes, durations nanoseconds (`_ns`), times RFC 3339 or Unix \
                            milliseconds (`_ms`). Null is unknown, never 0. Names stay; new ones may be added.",
        },
        "paths": paths,
        "components": { "schemas": schemas },
    })
}

pub(super) async fn openapi() -> Response {
    Json(document()).into_response()
}

/// A list under a name, which is how several records are served.
fn list<T: JsonSchema>(generator: &mut SchemaGenerator, name: &str) -> Value {
    let one = generator.subschema_for::<T>();
    json!({
        "type": "object",
        "properties": { name: { "type": "array", "items": one } },
        "required": [name],
    })
}

fn paths(generator: &mut SchemaGenerator) -> Value {
    let one = |generator: &mut SchemaGenerator| generator.subschema_for::<OverviewRecord>().to_value();
    let overview = one(generator);
    let pid = parameter("path", "pid", "integer", "Pid on the host.");
    let number = parameter("path", "number", "integer", "Number of the collection.");
    let gcs = json!({
        "type": "object",
        "properties": { "gcs": { "type": "array", "items": { "type": "object" } } },
        "required": ["gcs"],
    });
    let rules = json!({
        "type": "object",
        "properties": {
            "at_ms": { "type": "integer", "description": "When this was so, Unix milliseconds." },
            "rules": { "type": "array", "items": generator.subschema_for::<RuleView>() },
            "files": { "type": "array", "items": { "type": "string" }, "description": "Files that were read." },
            "health": { "enum": ["ok", "err"], "description": "`err`: the files are invalid." },
            "errors": { "type": "array", "items": { "type": "string" } },
            "warnings": { "type": "array", "items": { "type": "string" } },
            "loaded": { "type": ["string", "null"], "description": "When those in force were read, RFC 3339." },
        },
        "required": ["at_ms", "rules"],
    });
    json!({
        "/api/v1/overview": get("All processes and incidents: the front page.", &[], &overview),
        "/api/v1/processes": get("The processes.", &[], &list::<ProcessRow>(generator, "processes")),
        "/api/v1/processes/{pid}": get(
            "One process: the last half hour, causes, collections, memory, settings, incidents.",
            &[&pid],
            &generator.subschema_for::<ProcessRecord>().to_value(),
        ),
        "/api/v1/processes/{pid}/collections/{number}": get(
            "One collection; `gc` is the record `kind: \"gc\"` where it is kept in full.",
            &[&pid, &number],
            &generator.subschema_for::<CollectionRecord>().to_value(),
        ),
        "/api/v1/targets": get("The processes, and how each is read.", &[], &list::<TargetView>(generator, "targets")),
        "/api/v1/gcs": get(
            "The newest collections: records `kind: \"gc\"`.",
            &[
                &parameter("query", "pid", "integer", "Of this process only."),
                &parameter("query", "limit", "integer", "At most so many."),
            ],
            &gcs,
        ),
        "/api/v1/rules": get(
            "The rules in force, and on which processes they fire.",
            &[&parameter("query", "pid", "integer", "As they are in this process.")],
            &rules,
        ),
        "/api/v1/alerts": get("The alerts that fire.", &[], &list::<AlertView>(generator, "alerts")),
        "/api/v1/incidents": get(
            "Open incidents, then those that ended.",
            &[],
            &list::<IncidentRecord>(generator, "incidents"),
        ),
        "/api/v1/processes/{pid}/history": get(
            "What is kept of a process on disk: the last hours, in 360 places at most.",
            &[&pid, &parameter("query", "hours", "integer", "From 1 (without it) to 24.")],
            &generator.subschema_for::<HistoryColumns>().to_value(),
        ),
        "/api/v1/evidence/": get(
            "The recordings of the black box. Only on loopback, or with a login.",
            &[],
            &list::<FileRecord>(generator, "evidence"),
        ),
        "/api/v1/evidence/{name}": {
            "get": {
                "summary": "A recording (nettrace), its report (html), or a flame graph (svg). Only on loopback, or with a login.",
                "parameters": [parameter("path", "name", "string", "The name of one.")],
                "responses": {
                    "200": {
                        "description": "The file.",
                        "content": { "application/octet-stream": {}, "image/svg+xml": {} },
                    },
                    "404": refusal("There is none of that name."),
                },
            },
        },
        "/api/v1/evidence/requests/{pid}": get(
            "The requests of the last half hour that collections stopped most. Only on loopback, or with a login.",
            &[&pid],
            &generator.subschema_for::<ReportedRequests>().to_value(),
        ),
        "/api/v1/self": get("gcwatch itself.", &[], &generator.subschema_for::<WatcherRecord>().to_value()),
        "/api/v1/events": {
            "get": {
                "summary": "The same records as they change (server-sent events).",
                "parameters": [
                    parameter("query", "view", "string", "`overview`, `process`, `rules` or `self`."),
                    parameter("query", "pid", "integer", "For `process`."),
                ],
                "responses": {
                    "200": { "description": "The stream.", "content": { "text/event-stream": {} } },
                    "503": refusal("There are as many viewers as may be."),
                },
            },
        },
    })
}

fn parameter(place: &str, name: &str, of: &str, description: &str) -> Value {
    json!({
        "name": name,
        "in": place,
        "required": place == "path",
        "description": description,
        "schema": { "type": of },
    })
}

fn refusal(description: &str) -> Value {
    let schema = json!({ "$ref": "#/components/schemas/Refusal" });
    json!({ "description": description, "content": { "application/json": { "schema": schema } } })
}

fn get(summary: &str, parameters: &[&Value], schema: &Value) -> Value {
    let mut responses = json!({
        "200": { "description": summary, "content": { "application/json": { "schema": schema } } },
        "503": refusal("There was no answer in time: ask again."),
    });
    if let (Some(responses), false) = (responses.as_object_mut(), parameters.is_empty()) {
        responses.insert("400".to_owned(), refusal("A parameter is no number."));
        responses.insert("404".to_owned(), refusal("There is none."));
    }
    json!({ "get": { "summary": summary, "parameters": parameters, "responses": responses } })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::PATHS;

    /// Scenario: the document, and the paths that are listed where another one was asked.
    /// Guarantee: each has all of the other, but for `/metrics`, which is not JSON, and the document itself.
    #[test]
    fn all_paths_are_described() {
        let document = document();
        let mut described: Vec<String> = document["paths"].as_object().unwrap().keys().cloned().collect();
        let mut listed: Vec<String> = PATHS
            .iter()
            .filter(|path| !["/metrics", "/api/v1/openapi.json"].contains(path))
            .map(|path| {
                let path = path.replace("PID", "{pid}").replace("NUMBER", "{number}");
                path.replace("NAME", "{name}")
            })
            .collect();
        // Features of dependencies decide whether an object keeps its order.
        described.sort();
        listed.sort();
        assert_eq!(described, listed);
    }

    /// Scenario: every reference in the document.
    /// Guarantee: it leads to a definition, and every field has a description.
    #[test]
    fn references_lead_somewhere() {
        let document = document();
        let mut waiting = vec![&document];
        let mut seen = 0;
        while let Some(value) = waiting.pop() {
            if let Some(reference) = value.get("$ref").and_then(Value::as_str) {
                seen += 1;
                let pointer = reference.strip_prefix('#').unwrap();
                assert!(document.pointer(pointer).is_some(), "{reference}");
            }
            waiting.extend(value.as_object().into_iter().flat_map(|fields| fields.values()));
            waiting.extend(value.as_array().into_iter().flatten());
        }
        assert!(seen > 20, "{seen}");
    }
}
