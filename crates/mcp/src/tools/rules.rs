//! `rules`: the reasons why a rule holds, does not hold, or cannot be evaluated.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{ListedTool, read, rows, schema};
use crate::page::{UNITS, list, page, pick, rfc3339, text, trimmed};
use crate::source::{Answer, Asker, Refusal, Source};

pub(super) const TOOL: ListedTool = ListedTool {
    name: "rules",
    title: "Rules",
    description: "Why a rule holds, does not hold, or cannot be evaluated. Without `id`: rules that fire or nearly do, over all \
                  processes or of one `pid`; `state: all` lists every rule. With `id`: its condition, thresholds and their \
                  source, states, remedy; with `pid` too: its state there, and unknown values of that process.",
    arguments: schema::<Arguments>,
};

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum RuleState {
    /// Firing, pending, inhibited by another rule, or excepted.
    #[default]
    Holds,
    /// Unknown in some process.
    Unknown,
    All,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Show this rule in full, such as `memory.growth`, or list rules whose ids start with this text: `memory.`
    id: Option<String>,
    /// Pid of the process.
    pid: Option<u32>,
    /// State of the rules.
    #[serde(default)]
    state: RuleState,
    /// Number of rows.
    #[serde(default = "rows::<8>")]
    limit: usize,
    /// `next` of the previous answer.
    after: Option<String>,
}

const MAX_VALUES: usize = 5;

pub(super) async fn answer<S: Source>(asker: &Asker<'_, S>, arguments: Map<String, Value>) -> Answer {
    let arguments: Arguments = read(arguments)?;
    let path = match arguments.pid {
        Some(pid) => format!("/api/v1/rules?pid={pid}"),
        None => "/api/v1/rules".to_owned(),
    };
    let record = asker.record(&path).await?;
    let mut answer = build_answer(&record, &arguments)?;
    let is_unknown = answer.pointer("/rule/states/unknown").is_some();
    if let (true, Some(pid), Some(fields)) = (is_unknown, arguments.pid, answer.as_object_mut()) {
        let process = asker.record(&format!("/api/v1/processes/{pid}")).await?;
        fields.insert(
            "not_known".to_owned(),
            process.get("unseen").cloned().unwrap_or_default(),
        );
    }
    Ok(answer)
}

fn build_answer(record: &Value, arguments: &Arguments) -> Answer {
    let at = record.get("at_ms").and_then(Value::as_u64).and_then(rfc3339);
    let all = list(record, "rules");
    let id = |rule: &Value| text(rule, "id").unwrap_or_default().to_owned();
    let exact = arguments
        .id
        .as_ref()
        .and_then(|wanted| all.iter().find(|rule| id(rule) == *wanted));
    if let Some(rule) = exact {
        return Ok(json!({ "at": at, "rule": trimmed(rule.clone(), MAX_VALUES), "units": UNITS }));
    }
    let prefix = arguments.id.as_deref().unwrap_or_default();
    let meant: Vec<Value> = all
        .iter()
        .filter(|rule| id(rule).starts_with(prefix))
        .cloned()
        .collect();
    if meant.is_empty() && !prefix.is_empty() {
        let error = format!("no rule id starts with {prefix:?}");
        return Err(Refusal::new(error, "`rules` with `state: all` lists them"));
    }
    let chosen: Vec<Value> = meant.into_iter().filter(|rule| arguments.state.has(rule)).collect();
    let (rows, next) = page(&chosen, id, arguments.after.as_deref(), arguments.limit)?;
    let row = |rule: &Value| {
        let mut row = pick(rule, &["id", "title", "severity", "states", "last_failure?"]);
        let firing = list(rule, "firing").iter();
        let firing: Vec<_> = firing
            .map(|at| Value::Object(pick(at, &["pid", "name", "since"])))
            .collect();
        let lists = trimmed(json!({ "firing": firing }), MAX_VALUES);
        row.extend(lists.as_object().cloned().unwrap_or_default());
        Value::Object(row)
    };
    Ok(json!({
        "at": at,
        "rules_in_force": all.len(),
        "files": pick(record, &["health", "errors", "left_out?", "loaded"]),
        "total": chosen.len(),
        "rules": rows.iter().map(row).collect::<Vec<_>>(),
        "next": next,
    }))
}

impl RuleState {
    fn has(self, rule: &Value) -> bool {
        let states = rule.get("states");
        let is_in = |state: &&str| states.and_then(|states| states.get(*state)).is_some();
        match self {
            Self::All => true,
            Self::Unknown => is_in(&"unknown"),
            Self::Holds => ["firing", "pending", "inhibited", "excepted"].iter().any(is_in),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: one rule fires, one cannot be evaluated, and one does not hold; rules are queried by id, by the start
    /// of ids, by state, and with an unknown id.
    /// Guarantee: exactly the matching rules are returned; a rule in full has its condition; the refusal names a call
    /// that lists all rules.
    #[test]
    fn rules_are_filtered() {
        let record = json!({ "at_ms": 0, "rules": [
            { "id": "a.one", "states": { "firing": 1 }, "firing": [{ "pid": 1, "name": "x", "since": null }], "when": "gc.pause > 1s" },
            { "id": "a.two", "states": { "unknown": 2 }, "firing": [] },
            { "id": "b", "states": { "inactive": 2 }, "firing": [] },
        ] });
        let asked = |arguments: Value| build_answer(&record, &read(arguments.as_object().unwrap().clone()).unwrap());
        let ids = |arguments: Value| {
            let answer = asked(arguments).unwrap();
            let rows = list(&answer, "rules").iter();
            rows.map(|rule| rule["id"].as_str().unwrap().to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(ids(json!({})), ["a.one"]);
        assert_eq!(ids(json!({ "state": "unknown" })), ["a.two"]);
        assert_eq!(ids(json!({ "state": "all" })), ["a.one", "a.two", "b"]);
        assert_eq!(ids(json!({ "id": "a.", "state": "all" })), ["a.one", "a.two"]);
        assert_eq!(
            asked(json!({ "id": "a.one" })).unwrap()["rule"]["when"],
            "gc.pause > 1s"
        );
        assert!(asked(json!({ "id": "c" })).unwrap_err().remedy.unwrap().contains("all"));
    }
}
