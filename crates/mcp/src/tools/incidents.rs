//! `incidents`: current and past problems, with their causes.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{ListedTool, read, rows, schema};
use crate::page::{UNITS, list, page, pick, rfc3339, text, trimmed};
use crate::source::{Answer, Asker, Refusal, Source};

pub(super) const TOOL: ListedTool = ListedTool {
    name: "incidents",
    title: "Incidents",
    description: "Current and past problems of the .NET processes on this host: open incidents first, then ended ones, \
                  each with its symptom, figures and causes. Use this first. With `id`: one in full, with its remedy, \
                  stopped time by cause, memory breakdown, the code involved, and evidence.",
    arguments: schema::<Arguments>,
};

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum IncidentState {
    Open,
    Ended,
    #[default]
    All,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Show this incident in full.
    id: Option<String>,
    /// State of the incidents.
    #[serde(default)]
    state: IncidentState,
    /// Pid of the process.
    pid: Option<u32>,
    /// Part of the name of the service or process, case-insensitive.
    name: Option<String>,
    /// Number of rows.
    #[serde(default = "rows::<5>")]
    limit: usize,
    /// `next` of the previous answer.
    after: Option<String>,
}

/// Maximum number of values per list of an incident in full.
const MAX_VALUES: usize = 6;

pub(super) async fn answer<S: Source>(asker: &Asker<'_, S>, arguments: Map<String, Value>) -> Answer {
    let arguments: Arguments = read(arguments)?;
    let overview = asker.record("/api/v1/overview").await?;
    build_answer(&overview, &arguments)
}

fn build_answer(overview: &Value, arguments: &Arguments) -> Answer {
    let at = overview.get("at_ms").and_then(Value::as_u64).and_then(rfc3339);
    let all = list(overview, "incidents");
    if let Some(id) = &arguments.id {
        let found = all.iter().find(|incident| text(incident, "id") == Some(id));
        let incident = found.ok_or_else(|| {
            Refusal::new(
                format!("no incident {id:?} is stored"),
                "call `incidents` without `id`: old ended incidents are dropped for newer ones",
            )
        })?;
        return Ok(json!({ "at": at, "incident": whole(incident), "units": UNITS }));
    }
    let is_meant = |incident: &&Value| {
        let is_open = text(incident, "state") == Some("firing");
        let is_of = |pid: u32| incident.get("pid").and_then(Value::as_u64) == Some(pid.into());
        let has = |name: &String| {
            let texts = ["service", "process"].iter().filter_map(|field| text(incident, field));
            texts
                .map(str::to_lowercase)
                .any(|text| text.contains(&name.to_lowercase()))
        };
        (arguments.state == IncidentState::All || is_open == (arguments.state == IncidentState::Open))
            && arguments.pid.is_none_or(is_of)
            && arguments.name.as_ref().is_none_or(has)
    };
    let meant: Vec<&Value> = all.iter().filter(is_meant).collect();
    let id = |incident: &&Value| text(incident, "id").unwrap_or_default().to_owned();
    let (rows, next) = page(&meant, id, arguments.after.as_deref(), arguments.limit)?;
    Ok(json!({
        "at": at,
        "host": overview.get("host"),
        "total": meant.len(),
        "incidents": rows.iter().map(|incident| row(incident)).collect::<Vec<_>>(),
        "next": next,
        "units": UNITS,
    }))
}

/// Returns an incident as a row.
pub(super) fn row(incident: &Value) -> Value {
    let fields = [
        "id", "state", "severity", "symptom", "title", "summary", "since", "until?", "pid", "process?", "service?",
    ];
    let mut row = pick(incident, &fields);
    let causes = list(incident, "causes").iter();
    let causes: Vec<_> = causes
        .map(|cause| Value::Object(pick(cause, &["rule", "title", "share"])))
        .collect();
    row.insert("causes".to_owned(), trimmed(causes.into(), 3));
    Value::Object(row)
}

/// Returns the incident without empty objects and without fields whose content other fields have. Lists are limited to
/// [`MAX_VALUES`] values.
pub(super) fn whole(incident: &Value) -> Value {
    let said_elsewhere = ["kind", "rule", "labels", "annotations", "resource"];
    let mut incident = incident.clone();
    if let Some(fields) = incident.as_object_mut() {
        fields.retain(|name, _| !said_elsewhere.contains(&name.as_str()));
        // Null values stay, because null means unknown in a ledger; only empty objects are removed.
        fields.retain(|_, value| !value.as_object().is_some_and(Map::is_empty));
    }
    trimmed(incident, MAX_VALUES)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(arguments: Value) -> Arguments {
        read(arguments.as_object().unwrap().clone()).unwrap()
    }

    /// Scenario: there are an open and an ended incident. Callers ask for open incidents, for incidents of a process,
    /// for one incident in full, and for an unknown incident.
    /// Guarantee: exactly the matching incidents are returned; lists of the full incident are shortened and counted;
    /// the refusal names an alternative.
    #[test]
    fn incidents_are_filtered() {
        let overview = json!({ "at_ms": 1_800_000_000_000_u64, "host": "h", "incidents": [
            { "id": "a", "state": "firing", "pid": 1, "title": "x", "labels": { "a": "b" }, "resource": {},
              "members": [1, 2, 3, 4, 5, 6, 7, 8], "causes": [{ "title": "why", "share": 0.5, "remedy": "r" }] },
            { "id": "b", "state": "ended", "pid": 2, "service": "Shop", "title": "y", "causes": [] },
        ] });
        let ids = |arguments: Value| -> Vec<String> {
            let answer = build_answer(&overview, &asked(arguments)).unwrap();
            let rows = answer["incidents"].as_array().unwrap().iter();
            rows.map(|row| row["id"].as_str().unwrap().to_owned()).collect()
        };
        assert_eq!(ids(json!({})), ["a", "b"]);
        assert_eq!(ids(json!({ "state": "open" })), ["a"]);
        assert_eq!(ids(json!({ "state": "ended" })), ["b"]);
        assert_eq!(ids(json!({ "pid": 2 })), ["b"]);
        assert_eq!(ids(json!({ "name": "SHO" })), ["b"]);
        assert_eq!(ids(json!({ "limit": 1 })), ["a"]);
        assert_eq!(ids(json!({ "after": "a" })), ["b"]);
        let one = build_answer(&overview, &asked(json!({ "id": "a" }))).unwrap();
        assert_eq!(one["incident"]["members_left_out"], 2);
        assert!(one["incident"].get("labels").is_none() && one["incident"].get("resource").is_none());
        assert_eq!(one["at"], "2027-01-15T08:00:00Z");
        let refusal = build_answer(&overview, &asked(json!({ "id": "c" }))).unwrap_err();
        assert!(refusal.error.contains("\"c\"") && refusal.remedy.is_some());
        let wrong: Result<Arguments, _> = read(json!({ "ids": 1 }).as_object().unwrap().clone());
        assert!(wrong.unwrap_err().error.contains("ids"));
    }
}
