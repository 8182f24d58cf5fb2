//! `collections`: the collections of a process by time, pause or generation, or one collection in full.

use std::cmp::Reverse;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{ListedTool, read, rows, schema};
use crate::page::{UNITS, instant_ms, list, page, rfc3339, text, trimmed};
use crate::source::{Answer, Asker, Source};

pub(super) const TOOL: ListedTool = ListedTool {
    name: "collections",
    title: "Collections",
    description: "The newest 512 garbage collections of a process, and the longest of the last 30 minutes, as rows: start, pause, \
                  generation, type, reason. Sorted by time or pause, filtered by generation, time or pause. With \
                  `number`: one in full, with the phases of its pause, heap before and after, and its trigger.",
    arguments: schema::<Arguments>,
};

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Sort {
    #[default]
    Newest,
    Longest,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Pid on the host.
    pid: u32,
    /// Show this collection in full, by its number.
    number: Option<u64>,
    /// Sort order.
    #[serde(default)]
    sort: Sort,
    /// Generation of the collections.
    generation: Option<u64>,
    /// Minimum pause of the collections, in milliseconds.
    min_pause_ms: Option<f64>,
    /// Earliest start of the collections, RFC 3339 or a duration before now (`2m`).
    since: Option<String>,
    /// Latest start of the collections, exclusive.
    until: Option<String>,
    /// Number of rows.
    #[serde(default = "rows::<8>")]
    limit: usize,
    /// `next` of the previous answer.
    after: Option<String>,
}

/// Maximum number of values per list of a collection in full.
const MAX_VALUES: usize = 8;

pub(super) async fn answer<S: Source>(asker: &Asker<'_, S>, arguments: Map<String, Value>) -> Answer {
    let arguments: Arguments = read(arguments)?;
    let pid = arguments.pid;
    if let Some(number) = arguments.number {
        let path = format!("/api/v1/processes/{pid}/collections/{number}");
        return Ok(in_full(asker.record(&path).await?));
    }
    build_answer(&asker.record(&format!("/api/v1/processes/{pid}")).await?, &arguments)
}

fn in_full(record: Value) -> Value {
    let mut record = trimmed(record, MAX_VALUES);
    if let Some(fields) = record.as_object_mut() {
        // The full record repeats the values of the line.
        if fields.get("gc").is_some_and(Value::is_object) {
            fields.remove("line");
        } else {
            let why = "only the 6 newest collections, the 3 longest and those of incidents are kept in full";
            fields.insert("not_known".to_owned(), json!([{ "what": "gc", "why": why }]));
        }
        fields.insert("units".to_owned(), UNITS.into());
    }
    record
}

#[derive(Debug, Clone, Copy)]
struct Row<'r> {
    number: u64,
    start_ms: u64,
    pause_ns: Option<u64>,
    generation: Option<u64>,
    kind: &'r Value,
    reason: &'r Value,
    is_lossy: bool,
}

/// Returns the newest collections, and the longest collections of the last 30 minutes, which can be older than the
/// newest collections.
fn all(record: &Value) -> Vec<Row<'_>> {
    let pauses = record.get("pauses").unwrap_or(&Value::Null);
    let at = |name: &str, place: usize| list(pauses, name).get(place).and_then(Value::as_u64);
    let value = |name: &str, place: usize| list(pauses, name).get(place).unwrap_or(&Value::Null);
    let numbers = list(pauses, "number").iter().enumerate();
    let newest = numbers.filter_map(|(place, number)| {
        Some(Row {
            number: number.as_u64()?,
            start_ms: at("start_ms", place)?,
            pause_ns: at("pause_ns", place),
            generation: at("generation", place),
            kind: value("type", place),
            reason: value("reason", place),
            is_lossy: value("lossy", place).as_bool().unwrap_or(false),
        })
    });
    let mut rows: Vec<Row<'_>> = newest.collect();
    for line in list(record, "longest") {
        let number = |name: &str| line.get(name).and_then(Value::as_u64);
        let start: Option<jiff::Timestamp> = text(line, "start").and_then(|start| start.parse().ok());
        let start_ms = start.and_then(|start| u64::try_from(start.as_millisecond()).ok());
        let (Some(of_line), Some(start_ms)) = (number("number"), start_ms) else {
            continue;
        };
        if rows.iter().all(|row| row.number != of_line) {
            rows.push(Row {
                number: of_line,
                start_ms,
                pause_ns: number("pause_ns"),
                generation: number("generation"),
                kind: line.get("type").unwrap_or(&Value::Null),
                reason: line.get("reason").unwrap_or(&Value::Null),
                is_lossy: line.get("lossy").and_then(Value::as_bool).unwrap_or(false),
            });
        }
    }
    rows
}

fn build_answer(record: &Value, arguments: &Arguments) -> Answer {
    let now_ms = record.get("at_ms").and_then(Value::as_u64).unwrap_or(0);
    let instant = |text: &Option<String>| text.as_deref().map(|text| instant_ms(text, now_ms)).transpose();
    let (since, until) = (instant(&arguments.since)?, instant(&arguments.until)?);
    let pauses = record.get("pauses").unwrap_or(&Value::Null);
    let oldest = list(pauses, "start_ms")
        .iter()
        .filter_map(Value::as_u64)
        .min()
        .and_then(rfc3339);
    let mut rows = all(record);
    rows.retain(|row| {
        let least = arguments.min_pause_ms.map(|ms| ms * 1e6);
        since.is_none_or(|since| row.start_ms >= since)
            && until.is_none_or(|until| row.start_ms < until)
            && arguments
                .generation
                .is_none_or(|generation| row.generation == Some(generation))
            && least.is_none_or(|least| row.pause_ns.is_some_and(|ns| ns as f64 >= least))
    });
    match arguments.sort {
        Sort::Newest => rows.sort_by_key(|row| Reverse(row.start_ms)),
        Sort::Longest => rows.sort_by_key(|row| Reverse(row.pause_ns)),
    }
    let (shown, next) = page(
        &rows,
        |row| row.number.to_string(),
        arguments.after.as_deref(),
        arguments.limit,
    )?;
    let shown = shown.iter().map(|row| {
        let mut one = json!({
            "number": row.number,
            "start": rfc3339(row.start_ms),
            "pause_ns": row.pause_ns,
            "generation": row.generation,
            "type": row.kind,
            "reason": row.reason,
        });
        if let (true, Some(fields)) = (row.is_lossy, one.as_object_mut()) {
            fields.insert("lossy".to_owned(), true.into());
        }
        one
    });
    Ok(json!({
        "at": rfc3339(now_ms),
        "process": record.get("process").and_then(|process| process.get("name")),
        "total": rows.len(),
        "all_since": oldest,
        "pauses_unknown": rows.iter().filter(|row| row.pause_ns.is_none()).count(),
        "collections": shown.collect::<Vec<_>>(),
        "next": next,
        "units": UNITS,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: there are four collections, one without a pause and one lossy, and an older collection with the
    /// longest pause. They are queried by time, by pause, and filtered by generation, pause and time.
    /// Guarantee: the matching collections are returned in the requested order; an unknown pause is last, null and
    /// counted.
    #[test]
    fn collections_are_filtered_and_sorted() {
        let record = json!({ "at_ms": 100_000, "process": { "name": "shop" }, "pauses": {
            "number": [1, 2, 3, 4], "start_ms": [10_000, 20_000, 30_000, 40_000],
            "pause_ns": [5_000_000, null, 9_000_000, 1_000_000], "generation": [0, 1, 2, 0],
            "type": ["blocking", null, "blocking", "blocking"], "reason": ["AllocSmall", null, "Induced", "AllocSmall"],
            "lossy": [false, true, false, false],
        }, "longest": [
            { "number": 3, "start": "1970-01-01T00:00:30Z", "pause_ns": 9_000_000, "lossy": false },
            { "number": 0, "start": "1970-01-01T00:00:01Z", "pause_ns": 99_000_000, "generation": 2, "lossy": false },
        ] });
        let numbers = |arguments: Value| {
            let mut arguments = arguments;
            arguments["pid"] = 1.into();
            let answer = build_answer(&record, &read(arguments.as_object().unwrap().clone()).unwrap()).unwrap();
            let rows = list(&answer, "collections").iter();
            rows.map(|row| row["number"].as_u64().unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(numbers(json!({})), [4, 3, 2, 1, 0]);
        assert_eq!(numbers(json!({ "sort": "longest" })), [0, 3, 1, 4, 2]);
        assert_eq!(numbers(json!({ "sort": "longest", "limit": 1, "after": "3" })), [1]);
        assert_eq!(numbers(json!({ "generation": 0 })), [4, 1]);
        assert_eq!(numbers(json!({ "min_pause_ms": 5 })), [3, 1, 0]);
        assert_eq!(numbers(json!({ "since": "80s", "until": "70s" })), [2]);
        let whole = build_answer(
            &record,
            &read(json!({ "pid": 1 }).as_object().unwrap().clone()).unwrap(),
        )
        .unwrap();
        assert_eq!(
            (&whole["pauses_unknown"], &whole["collections"][2]["pause_ns"]),
            (&json!(1), &Value::Null)
        );
        assert_eq!(
            (&whole["collections"][2]["lossy"], whole["collections"][0].get("lossy")),
            (&json!(true), None)
        );
        let gone = in_full(json!({ "line": { "number": 1 }, "gc": null }));
        assert!(gone["not_known"][0]["why"].is_string() && gone["line"]["number"] == 1);
        assert!(in_full(json!({ "line": 1, "gc": {} })).get("line").is_none());
    }
}
