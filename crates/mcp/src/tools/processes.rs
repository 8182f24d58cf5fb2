//! `processes`: one row per process, in the requested order.

use std::cmp::Reverse;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{ListedTool, history, read, rows, schema};
use crate::page::{UNITS, instant_ms, list, page, pick, rfc3339, text};
use crate::source::{Answer, Asker, Source};

pub(super) const TOOL: ListedTool = ListedTool {
    name: "processes",
    title: "Processes",
    description: "The .NET processes on this host as rows: the time for which each was stopped by the garbage collector in the last \
                  minute (or `since` a time, such as a deployment, within 30 minutes), its longest pause, allocation, \
                  heap, memory and limit, and the reason if it is not monitored. Use it to find or rank processes.",
    arguments: schema::<Arguments>,
};

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Sort {
    #[default]
    Stopped,
    Longest,
    Allocated,
    Heap,
    Memory,
    Name,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum ProcessState {
    #[default]
    Monitored,
    NotMonitored,
    Exited,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Part of the name, service, namespace, pod or executable, case-insensitive.
    name: Option<String>,
    /// State of the processes.
    #[serde(default)]
    state: ProcessState,
    /// Sort order: highest value first; `name` sorts by name.
    #[serde(default)]
    sort: Sort,
    /// Sum the stopped time since this time, RFC 3339 or a duration before now (`20m`).
    since: Option<String>,
    /// Number of rows.
    #[serde(default = "rows::<6>")]
    limit: usize,
    /// `next` of the previous answer.
    after: Option<String>,
}

/// Maximum number of rows with sums since a time. Each sum needs another record.
const MAX_SUMMED: usize = 10;

pub(super) async fn answer<S: Source>(asker: &Asker<'_, S>, arguments: Map<String, Value>) -> Answer {
    let mut arguments: Arguments = read(arguments)?;
    let overview = asker.record("/api/v1/overview").await?;
    let now_ms = overview.get("at_ms").and_then(Value::as_u64).unwrap_or(0);
    let since = arguments
        .since
        .as_deref()
        .map(|since| instant_ms(since, now_ms))
        .transpose()?;
    if since.is_some() {
        arguments.limit = arguments.limit.min(MAX_SUMMED);
    }
    let mut all: Vec<&Value> = match arguments.state {
        ProcessState::Exited => list(&overview, "exited"),
        _ => list(&overview, "processes"),
    }
    .iter()
    .filter(|process| arguments.is_meant(process))
    .collect();
    arguments.order(&mut all, since, now_ms);
    let (rows, next) = page(&all, key, arguments.after.as_deref(), arguments.limit)?;
    let mut answered = Vec::new();
    for process in rows {
        let mut row = row(process);
        if let Some(since) = since {
            row.insert("since".to_owned(), summed(asker, process, since).await);
        }
        answered.push(row);
    }
    if since.is_some() && arguments.sort == Sort::Stopped {
        let stopped = |row: &Map<String, Value>| row.get("since")?.get("stopped_ns")?.as_u64();
        answered.sort_by_key(|row| Reverse(stopped(row)));
    }
    Ok(json!({
        "at": rfc3339(now_ms),
        "host": overview.get("host"),
        "states": overview.get("states"),
        "total": all.len(),
        "processes": answered,
        "next": next,
        "units": UNITS,
    }))
}

/// Returns the stopped time, the longest pause and the number of collections since a time, from the record of the
/// process. Returns the reason in `unknown` if the record is not available.
async fn summed<S: Source>(asker: &Asker<'_, S>, process: &Value, since_ms: u64) -> Value {
    let pid = process.get("pid").and_then(Value::as_u64).unwrap_or(0);
    // The data has a resolution of ten seconds.
    let since_ms = since_ms.next_multiple_of(10_000);
    let record = match asker.record(&format!("/api/v1/processes/{pid}")).await {
        Ok(record) => record,
        // The process can have exited since the overview was read.
        Err(refusal) => return json!({ "unknown": refusal.error }),
    };
    let history = record.get("history").cloned().unwrap_or_default();
    let attached = history.get("attached_ms").and_then(Value::as_u64);
    let steps = history::steps(&history, since_ms, u64::MAX);
    let sum = steps.first().cloned().unwrap_or_default();
    let number = |record: &Value, name: &str| record.get(name).and_then(Value::as_u64).unwrap_or(0);
    let span_begins = number(&record, "at_ms").saturating_sub(number(&history, "span_ms"));
    let from = attached.map(|attached| attached.max(since_ms).max(span_begins));
    json!({
        "from": from.and_then(rfc3339),
        "stopped_ns": from.map(|_| sum.stopped_ns),
        "longest_ns": sum.longest_ns,
        "collections": from.map(|_| sum.collections),
    })
}

fn key(process: &&Value) -> String {
    let number = |name: &str| process.get(name).and_then(Value::as_u64).unwrap_or(0);
    format!("{}-{}", number("pid"), number("start_time"))
}

/// Returns a process as a row.
pub(super) fn row(process: &Value) -> Map<String, Value> {
    let mut row = pick(
        process,
        &[
            "pid",
            "name",
            "process?",
            "namespace?",
            "pod?",
            "container?",
            "runtime",
            "collector",
            "state",
        ],
    );
    let name = text(process, "name");
    row.retain(|field, value| field != "process" || value.as_str() != name);
    if text(process, "state") != Some("attached") {
        row.extend(pick(process, &["reason?", "detail?", "remedy?", "since?"]));
    }
    if process.get("minute").is_none_or(Value::is_null) {
        row.insert("minute".to_owned(), Value::Null);
        return row;
    }
    let minute = process.get("minute").cloned().unwrap_or_default();
    let mut figures = pick(
        &minute,
        &[
            "stopped_share",
            "stopped_ns",
            "longest_ns",
            "p99_ns",
            "gen2",
            "induced",
            "allocated",
        ],
    );
    let kinds = ["gen0", "gen1", "gen2", "background"];
    let collections: u64 = kinds.iter().filter_map(|kind| minute.get(kind)?.as_u64()).sum();
    figures.insert("collections".to_owned(), collections.into());
    row.insert("minute".to_owned(), Value::Object(figures));
    row.extend(pick(process, &["incidents", "severity?", "heap_after", "heap_limit?"]));
    row.insert(
        "memory".to_owned(),
        Value::Object(pick(
            process,
            &["memory.usage", "memory.limit", "memory.live", "memory.native"],
        )),
    );
    row
}

impl Arguments {
    fn is_meant(&self, process: &Value) -> bool {
        let is_attached = text(process, "state") == Some("attached");
        let is_in_state = self.state == ProcessState::Exited || is_attached == (self.state == ProcessState::Monitored);
        let Some(name) = self.name.as_ref().map(|name| name.to_lowercase()) else {
            return is_in_state;
        };
        let fields = ["name", "process", "service", "namespace", "pod"];
        let mut texts = fields.iter().filter_map(|field| text(process, field));
        is_in_state && texts.any(|text| text.to_lowercase().contains(&name))
    }

    fn order(&self, all: &mut [&Value], since_ms: Option<u64>, now_ms: u64) {
        let number = |process: &Value, path: &[&str]| {
            let value = path.iter().try_fold(process, |value, name| value.get(name));
            value.and_then(Value::as_u64)
        };
        match (self.sort, since_ms) {
            (Sort::Name, _) => all.sort_by_key(|process| text(process, "name").unwrap_or_default().to_lowercase()),
            (Sort::Stopped, Some(since)) => all.sort_by_key(|process| Reverse(sparked(process, since, now_ms))),
            (Sort::Stopped, None) => all.sort_by_key(|process| Reverse(number(process, &["minute", "stopped_ns"]))),
            (Sort::Longest, _) => all.sort_by_key(|process| Reverse(number(process, &["minute", "longest_ns"]))),
            (Sort::Allocated, _) => all.sort_by_key(|process| Reverse(number(process, &["minute", "allocated"]))),
            (Sort::Heap, _) => all.sort_by_key(|process| Reverse(number(process, &["heap_after"]))),
            (Sort::Memory, _) => all.sort_by_key(|process| Reverse(number(process, &["memory", "usage"]))),
        }
    }
}

/// Returns the approximate stopped time since a time, as a sum of the points of the row: per mille of intervals of 30
/// s. The sum is used only to sort rows; the figures in the answer are exact.
fn sparked(process: &Value, since_ms: u64, now_ms: u64) -> u64 {
    let spark = process.get("spark").map_or(&[][..], |spark| list(spark, "stopped"));
    let points = usize::try_from(now_ms.saturating_sub(since_ms).div_ceil(30_000)).unwrap_or(usize::MAX);
    let from = spark.len().saturating_sub(points);
    spark.iter().skip(from).filter_map(Value::as_u64).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(arguments: Value) -> Arguments {
        read(arguments.as_object().unwrap().clone()).unwrap()
    }

    /// Scenario: one process was stopped long ago, one was stopped recently, and one is not monitored. They are queried
    /// in several orders, by name and by state.
    /// Guarantee: rows are sorted as requested, with unknown values last; names match case-insensitively; states are
    /// distinguished.
    #[test]
    fn rows_are_filtered_and_sorted() {
        let old = json!({ "pid": 1, "name": "Old", "pod": "old-6d9f", "state": "attached", "minute": { "stopped_ns": 1 },
                          "spark": { "stopped": [900, 0, 0] }, "heap_after": 5 });
        let new = json!({ "pid": 2, "name": "new", "state": "attached", "minute": { "stopped_ns": 9 },
                          "spark": { "stopped": [null, 0, 100] }, "heap_after": null });
        let not = json!({ "pid": 3, "name": "not", "state": "unattachable", "reason": "permission" });
        let ordered = |arguments: Value, since: Option<u64>| {
            let arguments = asked(arguments);
            let all = [&old, &new, &not];
            let mut all: Vec<&Value> = all.into_iter().filter(|process| arguments.is_meant(process)).collect();
            arguments.order(&mut all, since, 90_000);
            all.iter()
                .map(|process| process["pid"].as_u64().unwrap())
                .collect::<Vec<_>>()
        };
        assert_eq!(ordered(json!({}), None), [2, 1]);
        assert_eq!(ordered(json!({}), Some(0)), [1, 2]);
        assert_eq!(ordered(json!({}), Some(30_000)), [2, 1]);
        assert_eq!(ordered(json!({ "sort": "heap" }), None), [1, 2]);
        assert_eq!(ordered(json!({ "sort": "name" }), None), [2, 1]);
        assert_eq!(ordered(json!({ "name": "OLD-6" }), None), [1]);
        assert_eq!(ordered(json!({ "state": "not_monitored" }), None), [3]);
        let row = Value::Object(row(&not));
        assert_eq!((&row["reason"], &row["minute"]), (&json!("permission"), &Value::Null));
    }
}
