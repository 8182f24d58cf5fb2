//! `process`: one process, with parts of its record on request.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{ListedTool, advice, history, incidents, processes, read, schema};
use crate::page::{UNITS, instant_ms, list, pick, rfc3339, trimmed};
use crate::source::{Answer, Asker, Source};

pub(super) const TOOL: ListedTool = ListedTool {
    name: "process",
    title: "One process",
    description: "One .NET process: stopped time by cause in the last minutes (parts that add up), memory breakdown and \
                  growing part, incidents and notes, and unknown values with reasons. `parts` adds: `account` (stopped time by \
                  cause since gcwatch attached), `causes` of collections, `history` of the last 30 minutes at a `resolution`, \
                  `settings` of the collector, `sizing` (memory that its service needs, and the price of other limits), \
                  `stream` (state of the event stream), `resource`.",
    arguments: schema::<Arguments>,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum RecordPart {
    Account,
    Causes,
    History,
    Settings,
    Sizing,
    Stream,
    Resource,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
enum Resolution {
    #[serde(rename = "10s")]
    TenSeconds,
    #[serde(rename = "1m")]
    Minute,
    #[default]
    #[serde(rename = "5m")]
    FiveMinutes,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Pid on the host, from `processes` or `incidents`.
    pid: u32,
    /// Additional parts of the answer.
    #[serde(default)]
    parts: Vec<RecordPart>,
    /// Length of a step of `history`.
    #[serde(default)]
    resolution: Resolution,
    /// Start of `history`, RFC 3339 or a duration before now (`20m`).
    since: Option<String>,
}

/// Maximum number of values per list.
const MAX_VALUES: usize = 4;
/// Maximum number of values per list of a requested part.
const MAX_ASKED: usize = 20;

pub(super) async fn answer<S: Source>(asker: &Asker<'_, S>, arguments: Map<String, Value>) -> Answer {
    let arguments: Arguments = read(arguments)?;
    let record = asker.record(&format!("/api/v1/processes/{}", arguments.pid)).await?;
    build_answer(&record, &arguments)
}

fn build_answer(record: &Value, arguments: &Arguments) -> Answer {
    let now_ms = record.get("at_ms").and_then(Value::as_u64).unwrap_or(0);
    let since = arguments
        .since
        .as_deref()
        .map(|since| instant_ms(since, now_ms))
        .transpose()?;
    let field = |name: &str| record.get(name).cloned().unwrap_or_default();
    let attached = record.get("history").and_then(|history| history.get("attached_ms"));
    let incidents: Vec<_> = list(record, "incidents").iter().map(incidents::row).collect();
    let notes = list(record, "notes").iter();
    let notes: Vec<_> = notes
        .map(|note| Value::Object(pick(note, &["rule", "title", "summary"])))
        .collect();
    let mut answer = json!({
        "at": rfc3339(now_ms),
        "process": record.get("process").map(processes::row),
        "monitored_since": attached.and_then(Value::as_u64).and_then(rfc3339),
        "stopped_recently": trimmed(field("account_recent"), MAX_VALUES),
        "memory": memory(&field("memory")),
        "requests_of_minute": field("requests"),
    });
    let Some(fields) = answer.as_object_mut() else {
        return Ok(answer);
    };
    let lists = json!({ "incidents": incidents, "notes": notes });
    fields.extend(trimmed(lists, MAX_VALUES - 1).as_object().cloned().unwrap_or_default());
    fields.insert("not_known".to_owned(), field("unseen"));
    for part in &arguments.parts {
        let (name, value) = match part {
            RecordPart::Account => ("account", trimmed(field("account"), MAX_ASKED)),
            RecordPart::Causes => ("causes", trimmed(field("causes"), MAX_ASKED)),
            RecordPart::Settings => ("settings", settings(record)),
            RecordPart::Sizing => ("sizing", advice::row(field("sizing"))),
            RecordPart::Stream => ("stream", field("stream")),
            RecordPart::Resource => ("resource", field("resource")),
            RecordPart::History => {
                let step_ms = arguments.resolution.ms();
                let steps = history::steps(&field("history"), since.unwrap_or(0), step_ms);
                ("history", history::columns(&steps, step_ms))
            }
        };
        fields.insert(name.to_owned(), value);
    }
    fields.insert("units".to_owned(), UNITS.into());
    Ok(answer)
}

impl Resolution {
    fn ms(self) -> u64 {
        match self {
            Self::TenSeconds => 10_000,
            Self::Minute => 60_000,
            Self::FiveMinutes => 300_000,
        }
    }
}

/// Returns the known lines of the ledger and the names of the unknown lines, or only the known figures of the heap if
/// there is no ledger. Both forms contain the [`trends`].
fn memory(memory: &Value) -> Value {
    let known = |value: &Value| {
        let fields = value.as_object().into_iter().flatten();
        let known = fields.filter(|(_, value)| !value.is_null() && !value.is_object());
        known
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect::<Map<_, _>>()
    };
    let Some(ledger) = memory.get("ledger").filter(|ledger| ledger.is_object()) else {
        let mut lines = known(memory);
        lines.insert("ledger".to_owned(), Value::Null);
        lines.insert("trends".to_owned(), trends(memory));
        return Value::Object(lines);
    };
    let mut lines = known(ledger);
    let fields = ledger.as_object().into_iter().flatten();
    let unknown = fields
        // A container without other processes has no largest other process, so null does not mean unknown in this line.
        .filter(|(name, value)| value.is_null() && *name != "largest_other")
        .map(|(name, _)| name.as_str());
    lines.insert("unknown_lines".to_owned(), unknown.collect());
    let growth = ledger.get("growth").map(known).unwrap_or_default();
    lines.insert("growth_per_minute_by_line".to_owned(), Value::Object(growth));
    lines.extend(pick(
        memory,
        &[
            "heap_committed",
            "heap_limit",
            "heap_limit_note?",
            "heap_count?",
            "resident",
        ],
    ));
    lines.insert("trends".to_owned(), trends(memory));
    Value::Object(lines)
}

/// Returns the known figures for the level, the trend and the age of the memory.
fn trends(memory: &Value) -> Value {
    let fields = memory.get("trends").and_then(Value::as_object).into_iter().flatten();
    let known = fields.filter_map(|(name, value)| {
        let value = match value.as_object() {
            Some(trend) => {
                let known = trend.iter().filter(|(_, figure)| !figure.is_null());
                json!(
                    known
                        .map(|(name, figure)| (name.clone(), figure.clone()))
                        .collect::<Map<_, _>>()
                )
            }
            None => value.clone(),
        };
        let is_empty = value.is_null() || value.as_object().is_some_and(Map::is_empty);
        (!is_empty).then(|| (name.clone(), value))
    });
    Value::Object(known.collect())
}

/// Returns the names and values of the settings, without the descriptions in the record.
fn settings(record: &Value) -> Value {
    let settings = list(record, "settings").iter();
    let pairs = settings.filter_map(|one| Some((one.get("name")?.as_str()?.to_owned(), one.get("value")?.clone())));
    Value::Object(pairs.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: a process has a ledger with an unknown line, an account with more parts than are returned, and a
    /// history. A client queries the process without parts, then with parts.
    /// Guarantee: unknown lines have no value and are listed by name, omitted parts are counted, and unknown values are
    /// listed with reasons. Parts are returned only on request.
    #[test]
    fn parts_are_returned_on_request() {
        let record = json!({
            "at_ms": 1_800_000_000_000_u64,
            "process": { "pid": 7, "name": "shop", "state": "attached", "minute": null },
            "account_recent": { "total": 10, "parts": [1, 2, 3, 4, 5, 6] },
            "memory": { "heap_committed": 9, "heap_limit": null, "resident": 12,
                        "ledger": { "usage": 12, "native": null, "growth": { "usage": 4, "live": null } } },
            "history": { "attached_ms": 1_799_999_000_000_u64, "start_ms": [1_799_999_990_000_u64], "stopped_ns": [5] },
            "settings": [{ "name": "a.b", "value": true, "description": "d" }],
            "unseen": [{ "what": "kernel", "why": "no rights" }],
            "sizing": { "kind": "sizing", "service": "shop", "until": "2027-01-15T08:00:00Z", "process": null, "pid": null,
                        "not_less_than": { "heap_limit": 5, "memory_limit": 9 }, "full_ns": [1, 2], "curve": [] },
            "stream": { "sessions": 1 },
        });
        let asked =
            |arguments: Value| build_answer(&record, &read(arguments.as_object().unwrap().clone()).unwrap()).unwrap();
        let brief = asked(json!({ "pid": 7 }));
        assert_eq!(brief["stopped_recently"]["parts_left_out"], 2);
        assert_eq!(brief["memory"]["usage"], 12);
        assert_eq!(
            (brief["memory"].get("native"), &brief["memory"]["unknown_lines"]),
            (None, &json!(["native"]))
        );
        assert_eq!(brief["memory"]["growth_per_minute_by_line"], json!({ "usage": 4 }));
        assert_eq!(brief["not_known"][0]["what"], "kernel");
        assert!(
            ["history", "settings", "sizing"]
                .iter()
                .all(|part| brief.get(part).is_none())
        );
        let sizing = &asked(json!({ "pid": 7, "parts": ["sizing"] }))["sizing"];
        assert_eq!(
            (&sizing["service"], &sizing["not_less_than"]["memory_limit"]),
            (&json!("shop"), &json!(9))
        );
        assert!(
            sizing.get("full_ns").is_none() && sizing.get("pid").is_none(),
            "{sizing}"
        );
        let whole =
            asked(json!({ "pid": 7, "parts": ["history", "settings", "stream"], "resolution": "10s", "since": "1m" }));
        assert_eq!(whole["history"]["stopped_ns"], json!([5]));
        assert_eq!(
            (&whole["settings"], &whole["stream"]["sessions"]),
            (&json!({ "a.b": true }), &json!(1))
        );
    }
}
