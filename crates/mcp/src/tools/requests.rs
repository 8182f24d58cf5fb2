//! `requests`: the time that collections cost the requests of a process. Requests can contain secrets: the API serves
//! them to root and the user of gcwatch on loopback, or after a login.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{ListedTool, read, rows, schema};
use crate::page::{UNITS, list, page, pick, rfc3339, text};
use crate::source::{Answer, Asker, Source};

pub(super) const TOOL: ListedTool = ListedTool {
    name: "requests",
    title: "Requests",
    description: "Requests of a web service in the last 30 minutes that garbage collections stopped: their number, the time \
                  they lost, and the worst with traces and collections. Needs `requests.mode` in gcwatch's \
                  configuration, and on the listener a login or gcwatch's own user.",
    arguments: schema::<Arguments>,
};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Pid on the host.
    pid: u32,
    /// Number of rows.
    #[serde(default = "rows::<5>")]
    limit: usize,
    /// `next` of the previous answer.
    after: Option<String>,
}

pub(super) async fn answer<S: Source>(asker: &Asker<'_, S>, arguments: Map<String, Value>) -> Answer {
    let arguments: Arguments = read(arguments)?;
    let path = format!("/api/v1/evidence/requests/{}", arguments.pid);
    build_answer(&asker.record(&path).await?, &arguments)
}

fn build_answer(record: &Value, arguments: &Arguments) -> Answer {
    let key = |request: &Value| {
        let start = request.get("start_ms").and_then(Value::as_u64).unwrap_or(0);
        format!("{start}-{}", text(request, "trace_id").unwrap_or_default())
    };
    let (rows, next) = page(list(record, "worst"), key, arguments.after.as_deref(), arguments.limit)?;
    Ok(json!({
        "totals": pick(record, &["count", "known", "hit", "lost_ns"]),
        "worst": rows.iter().map(row).collect::<Vec<_>>(),
        "next": next,
        "trace_url": record.get("trace_url"),
        "units": UNITS,
    }))
}

fn row(request: &Value) -> Value {
    let mut row = pick(request, &["duration_ns", "stopped_ns", "trace_id", "collections"]);
    let start = request.get("start_ms").and_then(Value::as_u64).and_then(rfc3339);
    row.insert("start".to_owned(), json!(start));
    row.insert("stops".to_owned(), list(request, "stops").len().into());
    Value::Object(row)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: two requests lost time and are queried one by one.
    /// Guarantee: each request is returned once, with its figures and the totals.
    #[test]
    fn requests_are_paged() {
        let record = json!({ "count": 9, "known": 8, "hit": 2, "lost_ns": 30, "worst": [
            { "start_ms": 1, "duration_ns": 50, "stopped_ns": 20, "trace_id": "aa", "stops": [[1, 5], [7, 9]], "collections": [3] },
            { "start_ms": 2, "duration_ns": 40, "stopped_ns": 10, "trace_id": null, "stops": [[1, 5]], "collections": [4] },
        ] });
        let asked =
            |arguments: Value| build_answer(&record, &read(arguments.as_object().unwrap().clone()).unwrap()).unwrap();
        let first = asked(json!({ "pid": 1, "limit": 1 }));
        assert_eq!(
            (&first["worst"][0]["trace_id"], &first["worst"][0]["stops"]),
            (&json!("aa"), &json!(2))
        );
        assert_eq!(
            first["totals"],
            json!({ "count": 9, "known": 8, "hit": 2, "lost_ns": 30 })
        );
        let second = asked(json!({ "pid": 1, "after": first["next"] }));
        assert_eq!(
            (&second["worst"][0]["stopped_ns"], &second["next"]),
            (&json!(10), &Value::Null)
        );
    }
}
