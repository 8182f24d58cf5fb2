//! `changes`: the effects of new versions and settings.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{ListedTool, read, rows, schema};
use crate::page::{UNITS, list, page, pick, text, trimmed};
use crate::source::{Answer, Asker, Refusal, Source};

pub(super) const TOOL: ListedTool = ListedTool {
    name: "changes",
    title: "Changes",
    description: "Whether a new version, setting or limit of a service changed its collections, memory or CPU: one row per \
                  change of configuration with its verdicts, newest first. With `id`: every measure before and after, \
                  with its interval. A verdict needs 25 minutes on each side; before, `minutes_left` counts down.",
    arguments: schema::<Arguments>,
};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Id of the change to show in full.
    id: Option<String>,
    /// Pid of a process of the service.
    pid: Option<u32>,
    /// Number of rows.
    #[serde(default = "rows::<5>")]
    limit: usize,
    /// `next` of the previous answer.
    after: Option<String>,
}

/// Maximum number of values per list in a change in full. A change has 15 measures.
const MAX_VALUES: usize = 16;

pub(super) async fn answer<S: Source>(asker: &Asker<'_, S>, arguments: Map<String, Value>) -> Answer {
    let arguments: Arguments = read(arguments)?;
    let path = match arguments.pid {
        Some(pid) => format!("/api/v1/changes?pid={pid}"),
        None => "/api/v1/changes".to_owned(),
    };
    let record = asker.record(&path).await?;
    build_answer(&record, &arguments)
}

fn build_answer(record: &Value, arguments: &Arguments) -> Answer {
    let all = list(record, "changes");
    if let Some(id) = &arguments.id {
        let found = all.iter().find(|change| text(change, "id") == Some(id));
        let change = found.ok_or_else(|| {
            Refusal::new(
                format!("no change {id:?} is stored"),
                "call `changes` without `id`: each service keeps its last four changes",
            )
        })?;
        return Ok(json!({ "change": trimmed(whole(change), MAX_VALUES), "units": UNITS }));
    }
    let id = |change: &Value| text(change, "id").unwrap_or_default().to_owned();
    let (rows, next) = page(all, id, arguments.after.as_deref(), arguments.limit)?;
    Ok(json!({
        "total": all.len(),
        "changes": rows.iter().map(row).collect::<Vec<_>>(),
        "next": next,
    }))
}

/// Returns the change without the two configurations, whose differences the record lists, and without the measures that
/// are unknown and have no reason.
fn whole(change: &Value) -> Value {
    let mut change = change.clone();
    if let Some(fields) = change.as_object_mut() {
        fields.retain(|name, _| !["kind", "before", "after"].contains(&name.as_str()));
    }
    if let Some(measures) = change.get_mut("measures").and_then(Value::as_array_mut) {
        let is_known = |measure: &Value| !measure["before"].is_null() || !measure["verdict"].is_null();
        measures.retain(is_known);
        for measure in measures {
            let fields = [
                "measure",
                "unit",
                "before",
                "after",
                "low?",
                "high?",
                "margin?",
                "normalization",
                "verdict?",
                "reason?",
            ];
            *measure = Value::Object(pick(measure, &fields));
        }
    }
    change
}

/// Returns a change as a row: the measures by verdict, and the reason if all verdicts are unknown.
fn row(change: &Value) -> Value {
    let mut row = pick(change, &["id", "service", "at", "differences", "minutes_left?"]);
    let measures = list(change, "measures");
    for verdict in ["worse", "better", "same", "unknown"] {
        let meant = measures
            .iter()
            .filter(|measure| text(measure, "verdict") == Some(verdict));
        let names: Vec<Value> = meant.filter_map(|measure| measure.get("measure").cloned()).collect();
        if !names.is_empty() {
            row.insert(verdict.to_owned(), names.into());
        }
    }
    let mut unknown = measures
        .iter()
        .filter(|measure| text(measure, "verdict") == Some("unknown"));
    if let Some(reason) = unknown.find_map(|measure| text(measure, "reason")) {
        row.insert("unknown_because".to_owned(), reason.into());
    }
    Value::Object(row)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: one change has verdicts, and another is too young. Callers ask for all changes, for one in full, and
    /// for an unknown id.
    /// Guarantee: the rows name the measures by verdict, and the reason and the time left of unknown verdicts; the full
    /// change has the known measures with their intervals and no configurations; the refusal names an alternative.
    #[test]
    fn changes_are_summarized() {
        let record = json!({ "changes": [
            { "id": "b", "service": "shop", "at": "2027-01-15T08:00:00Z", "minutes_left": 12, "differences": [],
              "measures": [{ "measure": "live", "verdict": "unknown", "reason": "too early" }] },
            { "id": "a", "kind": "change", "service": "shop", "at": null, "minutes_left": null,
              "before": {}, "after": {}, "differences": [{ "name": "version", "before": "1", "after": "2" }],
              "measures": [
                { "measure": "live", "unit": "bytes", "before": 1.0, "after": 2.0, "low": 0.5, "high": 1.5,
                  "margin": 0.1, "normalization": "none", "verdict": "worse", "reason": null },
                { "measure": "median_pause", "verdict": "same", "reason": null },
                { "measure": "native", "before": null, "verdict": null, "reason": null },
              ] },
        ] });
        let asked = |arguments: Value| build_answer(&record, &read(arguments.as_object().unwrap().clone()).unwrap());
        let rows = asked(json!({})).unwrap();
        assert_eq!(rows["changes"][0]["minutes_left"], 12);
        assert_eq!(rows["changes"][0]["unknown_because"], "too early");
        assert_eq!(rows["changes"][1]["worse"], json!(["live"]));
        assert_eq!(rows["changes"][1]["same"], json!(["median_pause"]));
        let one = asked(json!({ "id": "a" })).unwrap();
        assert_eq!(one["change"]["measures"].as_array().unwrap().len(), 2);
        assert_eq!(one["change"]["measures"][0]["high"], 1.5);
        assert!(one["change"].get("before").is_none());
        assert!(asked(json!({ "id": "c" })).unwrap_err().remedy.is_some());
    }
}
