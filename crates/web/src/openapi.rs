//! `/api/v1/openapi.json`: the API as OpenAPI 3.1, generated from the records.
//!
//! Names, types and descriptions come from the served types, so that the document cannot differ from the responses. A
//! test compares responses with the document.

use axum::response::{IntoResponse as _, Json, Response};
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Value, json};

use api::view::{
    AlertView, ChangeRecord, CollectionRecord, HistoryColumns, OverviewRecord, ProcessRecord, ProcessRow,
    ReportedRequests, RuleView, SizingRecord, TargetView, WatcherRecord,
};
use evidence::black_box::files::FileRecord;
use incidents::IncidentRecord;

/// Location of definitions in the document.
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
            "description": "Reason why a request cannot be served.",
            "properties": {
                "error": { "type": "string", "description": "Problem in one sentence." },
                "remedy": { "type": ["string", "null"], "description": "Alternative request." },
            },
            "required": ["error"],
        }),
    );
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "gcwatch",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Data of gcwatch about the .NET processes of its host. The API changes nothing: all paths \
                            use GET. Sizes are bytes, durations nanoseconds (`_ns`), times RFC 3339 or Unix \
                            milliseconds (`_ms`). Null is unknown, never 0. Names are stable; names may be added.",
        },
        "paths": paths,
        "components": { "schemas": schemas },
    })
}

pub(super) async fn openapi() -> Response {
    Json(document()).into_response()
}

/// Returns the schema of a response with a list of records in the field `name`.
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
            "at_ms": { "type": "integer", "description": "Time of the data, Unix milliseconds." },
            "rules": { "type": "array", "items": generator.subschema_for::<RuleView>() },
            "files": { "type": "array", "items": { "type": "string" }, "description": "Read files." },
            "health": { "enum": ["ok", "err"], "description": "`err`: the files are invalid, or rules are left out." },
            "errors": { "type": "array", "items": { "type": "string" } },
            "left_out": {
                "type": "array",
                "items": { "type": "string" },
                "description": "Errors of the rules that are left out because they use removed words.",
            },
            "warnings": { "type": "array", "items": { "type": "string" } },
            "loaded": { "type": ["string", "null"], "description": "Time when the active rules were read, RFC 3339." },
        },
        "required": ["at_ms", "rules"],
    });
    json!({
        "/api/v1/overview": get("All processes and incidents: data of the overview.", &[], &overview),
        "/api/v1/processes": get("The processes.", &[], &list::<ProcessRow>(generator, "processes")),
        "/api/v1/processes/{pid}": get(
            "One process: last half hour, causes, collections, memory, settings, incidents.",
            &[&pid],
            &generator.subschema_for::<ProcessRecord>().to_value(),
        ),
        "/api/v1/processes/{pid}/collections/{number}": get(
            "One collection; `gc` is the record `kind: \"gc\"` if the collection is kept in full.",
            &[&pid, &number],
            &generator.subschema_for::<CollectionRecord>().to_value(),
        ),
        "/api/v1/targets": get("All processes with their read states.", &[], &list::<TargetView>(generator, "targets")),
        "/api/v1/gcs": get(
            "Newest collections: records `kind: \"gc\"`.",
            &[
                &parameter("query", "pid", "integer", "Process of the collections."),
                &parameter("query", "limit", "integer", "Maximum number of collections."),
            ],
            &gcs,
        ),
        "/api/v1/rules": get(
            "Active rules, with the processes on which they fire.",
            &[&parameter("query", "pid", "integer", "Process of the rules.")],
            &rules,
        ),
        "/api/v1/alerts": get("Firing alerts.", &[], &list::<AlertView>(generator, "alerts")),
        "/api/v1/incidents": get(
            "Open incidents, then ended incidents.",
            &[],
            &list::<IncidentRecord>(generator, "incidents"),
        ),
        "/api/v1/changes": get(
            "Changes of the configurations of services, newest first, with their effects.",
            &[&parameter("query", "pid", "integer", "Process of the service.")],
            &list::<ChangeRecord>(generator, "changes"),
        ),
        "/api/v1/sizing": get(
            "Memory that each service needs, and the price of other limits.",
            &[&parameter("query", "pid", "integer", "Process of the service.")],
            &list::<SizingRecord>(generator, "sizing"),
        ),
        "/api/v1/processes/{pid}/history": get(
            "History of a process on disk: the last hours, at most 360 intervals.",
            &[&pid, &parameter("query", "hours", "integer", "From 1 (the default) to 24.")],
            &generator.subschema_for::<HistoryColumns>().to_value(),
        ),
        "/api/v1/evidence/": get(
            "Recordings of the black box. Only on loopback, or with a login.",
            &[],
            &list::<FileRecord>(generator, "evidence"),
        ),
        "/api/v1/evidence/{name}": {
            "get": {
                "summary": "A recording (nettrace), its report (html), or a flame graph (svg). Only on loopback, or with a login.",
                "parameters": [parameter("path", "name", "string", "Name of the recording, report or flame graph.")],
                "responses": {
                    "200": {
                        "description": "The file.",
                        "content": { "application/octet-stream": {}, "image/svg+xml": {} },
                    },
                    "404": refusal("The name does not exist."),
                },
            },
        },
        "/api/v1/evidence/requests/{pid}": get(
            "Requests of the last half hour with the longest stops by collections. Only on loopback, or with a login.",
            &[&pid],
            &generator.subschema_for::<ReportedRequests>().to_value(),
        ),
        "/api/v1/self": get("State of gcwatch.", &[], &generator.subschema_for::<WatcherRecord>().to_value()),
        "/api/v1/events": {
            "get": {
                "summary": "Changes of the records (server-sent events).",
                "parameters": [
                    parameter("query", "view", "string", "`overview`, `process`, `rules` or `self`."),
                    parameter("query", "pid", "integer", "For `process`."),
                ],
                "responses": {
                    "200": { "description": "The stream.", "content": { "text/event-stream": {} } },
                    "503": refusal("The limit of viewers is reached."),
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
        "503": refusal("The response was not ready in time; retry."),
    });
    if let (Some(responses), false) = (responses.as_object_mut(), parameters.is_empty()) {
        responses.insert("400".to_owned(), refusal("A parameter is not a number."));
        responses.insert("404".to_owned(), refusal("The object does not exist."));
    }
    json!({ "get": { "summary": summary, "parameters": parameters, "responses": responses } })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::PATHS;

    /// Scenario: the document is compared with the paths that are listed for an unknown path.
    /// Guarantee: the document and the list have the same paths, except `/metrics`, which is not JSON, and the path of
    /// the document.
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
        // Features of dependencies determine whether a JSON object keeps the order of its fields.
        described.sort();
        listed.sort();
        assert_eq!(described, listed);
    }

    /// Scenario: all references of the document are resolved.
    /// Guarantee: the document contains the definition of each reference.
    #[test]
    fn references_have_definitions() {
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
